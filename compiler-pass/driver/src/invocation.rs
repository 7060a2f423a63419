//! What a command line asks for, decided without looking at the machine.
//!
//! Trap: the order of objects, sources and libraries on the link line matters to the linker, so it is kept.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::args::{self, Arg, ArgError};
use crate::flags::Use;
use crate::source::{Language, Source};
use crate::toolchain::OLDEST_OF_CUDA_12;

/// One word of the link line, in the user's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkItem {
    /// The object of `sources[i]`.
    Source(usize),
    /// An object, an archive or a library by its path.
    File(OsString),
    Word(OsString),
}

/// The user's `--cuda`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CudaChoice {
    #[default]
    Newest,
    /// `12.9`, or a major version.
    Version(String),
    /// The 12.9 tree where the program needs it.
    Auto,
}

/// The driver's own settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Print the commands instead of running them.
    pub show: bool,
    pub report: Option<PathBuf>,
    pub no_instrument: bool,
    pub no_cpu_kernels: bool,
    /// How CPU code runs the threads of a block, as the user named it.
    pub kernel_mode: Option<OsString>,
    /// Which warps of CPU kernels run in lock step.
    pub lock_step: Option<OsString>,
    /// CPU code asks before every access.
    pub strict: bool,
    /// The program finds the virtual GPU's runtime by itself.
    pub is_virtual: bool,
    /// The user's `--cuda-path=`.
    pub cuda_path: Option<PathBuf>,
    pub cuda: CudaChoice,
}

/// What comes out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// `-E`, `-M`, `-MM`, `-fsyntax-only`, as the user wrote it: no code, so no plugin.
    FrontEnd(OsString),
    /// `-c` or `-S`, as the user wrote it.
    Compile(OsString),
    /// An executable or a shared library.
    #[default]
    Link,
    /// A static library of the objects.
    Archive,
}

/// Which half of a CUDA source is compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    #[default]
    Both,
    Host,
    Device,
}

/// The CUDA runtime to link with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CudaRuntime {
    #[default]
    Shared,
    Static,
    None,
}

/// The user's `-MD` and what belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// `-MD` or `-MMD`.
    pub flag: Option<OsString>,
    pub file: Option<PathBuf>,
    /// `-MT x` and `-MQ x`, as the user wrote them.
    pub targets: Vec<OsString>,
}

/// Everything of a command line that compiles or links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    pub mode: Mode,
    pub sources: Vec<Source>,
    pub compile_words: Vec<OsString>,
    /// For CUDA sources only, after `compile_words`.
    pub cuda_words: Vec<OsString>,
    /// `-Rpass=` and its like.
    pub remark_words: Vec<OsString>,
    /// The GPU architectures that the user chose.
    pub gpus: Vec<String>,
    pub side: Side,
    /// `-fgpu-rdc`: device code is linked across files.
    pub rdc: bool,
    /// `-flto`, `--eager-whole-program`: the host code is instrumented when it is linked.
    pub whole_program: bool,
    pub dependencies: Dependencies,
    pub runtime: CudaRuntime,
    pub link: Vec<LinkItem>,
    /// Static libraries that the link names by `-l` or in the linker's own words, and that carry device code.
    pub libraries: Vec<PathBuf>,
    pub output: Option<PathBuf>,
    pub settings: Settings,
    /// A file of clang's that puts mended texts in the place of sources.
    pub overlay: Option<PathBuf>,
    /// What the driver does differently than asked, one line each.
    pub notes: Vec<String>,
}

/// Why the driver leaves a command line to clang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassThroughReason {
    /// It only prints.
    NoCode(OsString),
    /// A source in a language that the driver does not instrument, or standard input in an unknown one.
    Language(OsString),
    /// Nothing to compile or to link.
    NoInput,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invocation {
    Run(Box<Job>),
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
    #[error("'{word}': the CUDA runtime is one of shared, static, none")]
    UnknownRuntime { word: String },
    #[error("--cuda {word}: a version such as 12.9, or auto")]
    UnknownCuda { word: String },
    #[error("--eager-archive needs -o and at least one source or object")]
    ArchiveOfNothing,
}

/// Reads a command line without response files.
///
/// # Errors
/// When a flag lacks its value or has a wrong one, or one output is named for several objects.
pub fn interpret(words: &[OsString]) -> Result<Invocation, InvocationError> {
    let mut reader = Reader::default();
    for arg in args::parse(words)? {
        reader.take(arg)?;
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    job: Job,
    language: Option<OsString>,
    alone: Option<PassThroughReason>,
    no_code: Option<OsString>,
    compile_only: Option<OsString>,
    help: bool,
    version: bool,
}

impl Reader {
    fn take(&mut self, arg: Arg) -> Result<(), InvocationError> {
        match arg {
            Arg::Input(path) => self.take_input(path),
            Arg::Unknown(word) => {
                self.job.compile_words.push(word.clone());
                self.job.link.push(LinkItem::Word(word));
            }
            Arg::Flag { usage, value, words } => self.take_flag(usage, value, words)?,
        }
        Ok(())
    }

    fn leave(&mut self, reason: PassThroughReason) {
        self.alone.get_or_insert(reason);
    }

    fn take_input(&mut self, word: OsString) {
        let path = PathBuf::from(&word);
        let language = match self.language.as_ref().and_then(|name| name.to_str()) {
            None | Some("none") => Language::of_path(&path),
            Some(name) => match Language::of_name(name) {
                Some(language) => Some(language),
                None => return self.leave(PassThroughReason::Language(word)),
            },
        };
        match language {
            Some(language) => {
                self.job.link.push(LinkItem::Source(self.job.sources.len()));
                self.job.sources.push(Source::new(path, language));
            }
            None if word == "-" => self.leave(PassThroughReason::Language(word)),
            None => self.job.link.push(LinkItem::File(word)),
        }
    }

    fn take_flag(
        &mut self,
        usage: Use,
        value: OsString,
        words: Vec<OsString>,
    ) -> Result<(), InvocationError> {
        let first = || words.first().cloned().unwrap_or_default();
        let job = &mut self.job;
        match usage {
            Use::Compile => job.compile_words.extend(words),
            Use::Cuda => job.cuda_words.extend(words),
            Use::GpuArch => {
                job.gpus.extend(value.to_string_lossy().split(',').map(str::to_owned));
                job.cuda_words.extend(words);
            }
            Use::NoGpuArch => {
                let removed = value.to_string_lossy().into_owned();
                job.gpus.retain(|gpu| removed != "all" && !removed.split(',').any(|other| other == gpu));
                job.cuda_words.extend(words);
            }
            Use::HostOnly => job.side = Side::Host,
            Use::DeviceOnly => job.side = Side::Device,
            Use::Rdc => job.rdc = true,
            Use::NoRdc => job.rdc = false,
            Use::Link => job.link.extend(words.into_iter().map(LinkItem::Word)),
            Use::Both => {
                job.compile_words.extend(words.iter().cloned());
                job.link.extend(words.into_iter().map(LinkItem::Word));
            }
            Use::Output => job.output = Some(value.into()),
            Use::Language => self.language = Some(value),
            Use::CompileOnly => self.compile_only = Some(first()),
            Use::FrontEnd => self.no_code = Some(first()),
            Use::ClangAlone => self.leave(PassThroughReason::NoCode(first())),
            Use::Dependencies => job.dependencies.flag = Some(first()),
            Use::DependencyFile => job.dependencies.file = Some(value.into()),
            Use::DependencyTarget => job.dependencies.targets.extend(words),
            Use::Remark => job.remark_words.extend(words),
            Use::Lto => {
                job.whole_program = true;
                if value == "thin" {
                    job.notes.push("-flto=thin: full link-time optimisation is used instead: host code is instrumented as one module".to_owned());
                }
            }
            Use::WholeProgram => job.whole_program = true,
            Use::NoLto => job.whole_program = false,
            Use::Archive => job.mode = Mode::Archive,
            Use::CudaRuntime => job.runtime = runtime(&value)?,
            Use::Help => self.help = true,
            Use::Version => self.version = true,
            Use::CudaVersion => job.settings.cuda = cuda_choice(&value)?,
            Use::CudaPath
            | Use::Show
            | Use::Report
            | Use::NoInstrument
            | Use::NoCpuKernels
            | Use::KernelMode
            | Use::LockStep
            | Use::Strict
            | Use::Virtual => {
                set(&mut job.settings, usage, value);
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Invocation, InvocationError> {
        let mut job = self.job;
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
        // The earliest stop wins, as in clang.
        match (self.no_code, self.compile_only) {
            (Some(word), _) => job.mode = Mode::FrontEnd(word),
            (None, Some(word)) => job.mode = Mode::Compile(word),
            (None, None) => {}
        }
        if job.rdc && job.whole_program {
            job.whole_program = false;
            job.notes.push("-fgpu-rdc with -flto: host code is instrumented per file".to_owned());
        }
        let has_files = job.link.iter().any(|item| !matches!(item, LinkItem::Word(_)));
        let writes_one = matches!(job.mode, Mode::FrontEnd(_) | Mode::Compile(_));
        match job.mode {
            Mode::Archive if !has_files || job.output.is_none() => Err(InvocationError::ArchiveOfNothing),
            _ if !has_files || (writes_one && job.sources.is_empty()) => {
                Ok(Invocation::PassThrough(PassThroughReason::NoInput, job.settings))
            }
            _ if writes_one && job.sources.len() > 1 && job.output.is_some() => {
                Err(InvocationError::OneOutputForMany)
            }
            _ => Ok(Invocation::Run(Box::new(job))),
        }
    }
}

fn set(settings: &mut Settings, usage: Use, value: OsString) {
    match usage {
        Use::CudaPath => settings.cuda_path = Some(value.into()),
        Use::Show => settings.show = true,
        Use::Report => settings.report = Some(value.into()),
        Use::NoInstrument => settings.no_instrument = true,
        Use::NoCpuKernels => settings.no_cpu_kernels = true,
        Use::KernelMode => settings.kernel_mode = Some(value),
        Use::LockStep if value.is_empty() => settings.lock_step = Some("suspected".into()),
        Use::LockStep => settings.lock_step = Some(value),
        Use::Strict => settings.strict = true,
        Use::Virtual => settings.is_virtual = true,
        _ => {}
    }
}

fn cuda_choice(value: &OsString) -> Result<CudaChoice, InvocationError> {
    let word = value.to_string_lossy().into_owned();
    match &*word {
        "auto" => Ok(CudaChoice::Auto),
        _ if word.starts_with(|c: char| c.is_ascii_digit())
            && word.chars().all(|c| c.is_ascii_digit() || c == '.') =>
        {
            Ok(CudaChoice::Version(word))
        }
        _ => Err(InvocationError::UnknownCuda { word }),
    }
}

fn runtime(value: &OsString) -> Result<CudaRuntime, InvocationError> {
    match value.to_str() {
        Some("shared") => Ok(CudaRuntime::Shared),
        Some("static") => Ok(CudaRuntime::Static),
        Some("none") => Ok(CudaRuntime::None),
        _ => Err(InvocationError::UnknownRuntime { word: value.to_string_lossy().into_owned() }),
    }
}

impl Job {
    /// Whether the plugin works on the sources of this job.
    #[must_use]
    pub fn uses_plugin(&self) -> bool {
        self.is_more_than_clang() && !matches!(self.mode, Mode::FrontEnd(_))
    }

    /// Whether the plugin has a part in what the sources mean.
    #[must_use]
    pub fn is_more_than_clang(&self) -> bool {
        let plain = self.settings.no_instrument && self.settings.no_cpu_kernels;
        !plain && self.side != Side::Device
    }

    /// Makes code for `oldest` in place of older GPUs, which the CUDA tree knows no more; what to say of it.
    pub fn raise_gpus(&mut self, oldest: u32, cuda: &str) -> Option<String> {
        let number = |gpu: &str| {
            let digits = gpu.strip_prefix("sm_").or_else(|| gpu.strip_prefix("compute_"))?;
            digits.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse::<u32>().ok()
        };
        let is_old = |gpu: &str| number(gpu).is_some_and(|number| number < oldest);
        let raised = |gpu: &str| if is_old(gpu) { format!("sm_{oldest}") } else { gpu.to_owned() };
        let old: BTreeSet<&str> = self.gpus.iter().map(String::as_str).filter(|gpu| is_old(gpu)).collect();
        if old.is_empty() {
            return None;
        }
        // The oldest that some tree of ours makes code for.
        let other = old.iter().any(|gpu| number(gpu).is_some_and(|number| number >= OLDEST_OF_CUDA_12));
        let instead = if other { "; `--cuda 12.9` makes code for sm_50 and newer" } else { "" };
        let names = Vec::from_iter(old).join(", ");
        let note = format!(
            "{names}: CUDA {cuda} makes code for sm_{oldest} and newer, so sm_{oldest} is taken instead{instead}"
        );
        let mut words: Vec<OsString> = Vec::new();
        for word in std::mem::take(&mut self.cuda_words) {
            let text = word.to_string_lossy().into_owned();
            let flags =
                ["--cuda-gpu-arch=", "--offload-arch=", "--cuda-include-ptx=", "--no-cuda-include-ptx="];
            let flag = flags.into_iter().find(|flag| text.starts_with(flag));
            let word = flag.map_or(word, |flag| {
                let gpus = text[flag.len()..].split(',').map(raised).collect::<Vec<_>>();
                format!("{flag}{}", gpus.join(",")).into()
            });
            if flag.is_none() || !words.contains(&word) {
                words.push(word);
            }
        }
        self.cuda_words = words;
        self.gpus = self.gpus.iter().map(|gpu| raised(gpu)).collect();
        Some(note)
    }

    /// Where no GPU can say which code it wants, `native` is the GPU that is taken without a choice.
    pub fn replace_native(&mut self, gpu: &str) {
        for word in &mut self.cuda_words {
            let text = word.to_string_lossy();
            let other = text.strip_suffix("=native").map(|flag| format!("{flag}={gpu}"));
            *word = other.map_or_else(|| word.clone(), OsString::from);
        }
        self.gpus.iter_mut().filter(|name| *name == "native").for_each(|name| gpu.clone_into(name));
    }

    /// Whether the runtime `word` (`-lcudart…`) is linked by the user's own words.
    #[must_use]
    pub fn links(&self, word: &str) -> bool {
        self.link.iter().any(|item| matches!(item, LinkItem::Word(found) if found == word))
    }

    /// The objects, archives and libraries that the command line names by path.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.link.iter().filter_map(|item| match item {
            LinkItem::File(path) => Some(Path::new(path)),
            _ => None,
        })
    }

    /// The first source, object or library that the command's output would take the place of, by `is_same`.
    pub fn overwritten(&self, is_same: impl Fn(&Path, &Path) -> bool) -> Option<&Path> {
        let outputs = || self.output.iter().chain(&self.settings.report).chain(&self.dependencies.file);
        let inputs = self.sources.iter().map(|source| source.path.as_path()).chain(self.files());
        inputs.into_iter().find(|input| outputs().any(|output| is_same(input, output)))
    }

    /// For machines without a GPU: how the CUDA program that this command makes is started there. None where it starts by
    /// itself, or is no program.
    #[must_use]
    pub fn how_to_start(&self) -> Option<String> {
        let is_program = self.mode == Mode::Link && !["-shared", "-r"].iter().any(|word| self.links(word));
        let has_cuda = self.sources.iter().any(|source| source.language.is_cuda());
        let finds_none = self.runtime == CudaRuntime::Shared && !self.settings.is_virtual;
        (is_program && has_cuda && finds_none).then(|| {
            let program = self.output.as_deref().unwrap_or(Path::new("a.out")).display();
            format!(
                "no GPU here: start it with `eager run --plain {}{program}`, or compile it with --eager-virtual",
                if program.to_string().contains('/') { "" } else { "./" }
            )
        })
    }

    /// The first source that has to be there and is not, by `exists`.
    pub fn missing_source(&self, exists: impl Fn(&Path) -> bool) -> Option<&Path> {
        let missing = |source: &&Source| !source.is_special() && !exists(&source.path);
        self.sources.iter().find(missing).map(|source| source.path.as_path())
    }
}
