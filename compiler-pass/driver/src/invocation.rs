//! What a command line asks for, decided without looking at the machine.
//!
//! Trap: the order of objects, sources and libraries on the link line matters to the linker, so it is kept.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::args::{self, Arg, ArgError, Use};

/// The language of a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    C,
    Cxx,
    Cuda,
}

impl Language {
    /// The name that clang's `-x` takes.
    #[must_use]
    pub fn clang_name(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Cxx => "c++",
            Self::Cuda => "cuda",
        }
    }

    fn of_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "cu" => Some(Self::Cuda),
            "c" => Some(Self::C),
            "cc" | "cpp" | "cxx" | "C" | "c++" => Some(Self::Cxx),
            _ => None,
        }
    }
}

/// A file to compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub path: PathBuf,
    pub language: Language,
}

/// One word of the link line, in the user's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkItem {
    /// The object of `sources[i]`.
    Source(usize),
    Word(OsString),
}

/// The driver's own settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Print the commands instead of running them.
    pub show: bool,
    pub report: Option<PathBuf>,
    pub no_instrument: bool,
    pub no_cpu_kernels: bool,
    /// The user's `--cuda-path=`.
    pub cuda_path: Option<PathBuf>,
}

/// Everything of a command line that compiles or links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    pub sources: Vec<Source>,
    pub compile_words: Vec<OsString>,
    /// For CUDA sources only, after `compile_words`.
    pub cuda_words: Vec<OsString>,
    /// Whether the user chose a GPU architecture.
    pub has_gpu_arch: bool,
    /// `-c` or `-S`, as the user wrote it.
    pub compile_only: Option<OsString>,
    pub link: Vec<LinkItem>,
    pub output: Option<PathBuf>,
    pub settings: Settings,
}

/// Why the driver leaves a command line to clang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassThroughReason {
    /// It ends before code generation, or only prints.
    NoCode(OsString),
    /// The driver cannot see the inputs in it.
    ResponseFile(OsString),
    /// A source in a language that the driver does not instrument, or standard input.
    Language(OsString),
    /// Nothing to compile or to link.
    NoInput,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invocation {
    Compile(Job),
    Link(Job),
    CompileAndLink(Job),
    PassThrough(PassThroughReason, Settings),
    Help,
    Version,
}

/// Why a command line is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvocationError {
    #[error(transparent)]
    Args(#[from] ArgError),
    #[error("cannot specify -o when generating multiple output files")]
    OneOutputForMany,
    #[error("--eager-report= needs a file name")]
    ReportNameMissing,
}

/// Reads a command line.
///
/// # Errors
/// When a flag lacks its value, or one output is named for several objects.
pub fn interpret(words: &[OsString]) -> Result<Invocation, InvocationError> {
    let mut reader = Reader::default();
    for arg in args::parse(words)? {
        reader.take(arg);
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    job: Job,
    language: Option<OsString>,
    alone: Option<PassThroughReason>,
    help: bool,
    version: bool,
}

impl Reader {
    fn take(&mut self, arg: Arg) {
        match arg {
            Arg::Input(path) => self.take_input(path),
            Arg::Unknown(word) => {
                self.job.compile_words.push(word.clone());
                self.job.link.push(LinkItem::Word(word));
            }
            Arg::ResponseFile(word) => self.leave(PassThroughReason::ResponseFile(word)),
            Arg::Flag { usage, value, words } => self.take_flag(usage, value, words),
        }
    }

    fn leave(&mut self, reason: PassThroughReason) {
        self.alone.get_or_insert(reason);
    }

    fn take_input(&mut self, word: OsString) {
        let path = PathBuf::from(&word);
        let language = match self.language.as_ref().and_then(|name| name.to_str()) {
            None | Some("none") => Language::of_path(&path),
            Some("cuda") => Some(Language::Cuda),
            Some("c") => Some(Language::C),
            Some("c++") => Some(Language::Cxx),
            Some(_) => return self.leave(PassThroughReason::Language(word)),
        };
        match language {
            _ if word == "-" => self.leave(PassThroughReason::Language(word)),
            Some(language) => {
                self.job.link.push(LinkItem::Source(self.job.sources.len()));
                self.job.sources.push(Source { path, language });
            }
            None => self.job.link.push(LinkItem::Word(word)),
        }
    }

    fn take_flag(&mut self, usage: Use, value: OsString, words: Vec<OsString>) {
        let settings = &mut self.job.settings;
        match usage {
            Use::Compile => self.job.compile_words.extend(words),
            Use::Cuda => self.job.cuda_words.extend(words),
            Use::GpuArch => {
                self.job.has_gpu_arch = true;
                self.job.cuda_words.extend(words);
            }
            Use::Link => self.job.link.extend(words.into_iter().map(LinkItem::Word)),
            Use::Both => {
                self.job.compile_words.extend(words.iter().cloned());
                self.job.link.extend(words.into_iter().map(LinkItem::Word));
            }
            Use::Output => self.job.output = Some(value.into()),
            Use::Language => self.language = Some(value),
            Use::CompileOnly => self.job.compile_only = words.into_iter().next(),
            Use::ClangAlone => {
                self.leave(PassThroughReason::NoCode(words.into_iter().next().unwrap_or_default()))
            }
            Use::CudaPath => settings.cuda_path = Some(value.into()),
            Use::Show => settings.show = true,
            Use::Report => settings.report = Some(value.into()),
            Use::NoInstrument => settings.no_instrument = true,
            Use::NoCpuKernels => settings.no_cpu_kernels = true,
            Use::Help => self.help = true,
            Use::Version => self.version = true,
        }
    }

    fn finish(self) -> Result<Invocation, InvocationError> {
        let job = self.job;
        if self.help {
            return Ok(Invocation::Help);
        }
        if self.version {
            return Ok(Invocation::Version);
        }
        if job.settings.report.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            return Err(InvocationError::ReportNameMissing);
        }
        if let Some(reason) = self.alone {
            return Ok(Invocation::PassThrough(reason, job.settings));
        }
        let has_objects = job
            .link
            .iter()
            .any(|item| matches!(item, LinkItem::Word(word) if !word.to_string_lossy().starts_with('-')));
        match (&job.compile_only, job.sources.len()) {
            (None, 0) if has_objects => Ok(Invocation::Link(job)),
            (_, 0) => Ok(Invocation::PassThrough(PassThroughReason::NoInput, job.settings)),
            (Some(_), count) if count > 1 && job.output.is_some() => Err(InvocationError::OneOutputForMany),
            (Some(_), _) => Ok(Invocation::Compile(job)),
            (None, _) => Ok(Invocation::CompileAndLink(job)),
        }
    }
}
