//! Decides what a command line asks for, without looking at the machine.
//!
//! Trap: the order of objects, sources and libraries on the link line matters to the linker and must be kept.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::args::{self, Arg, ArgError};
use crate::flags::Purpose;
use crate::source::{Language, Source};
use crate::toolchain::OLDEST_OF_CUDA_12;

/// The GPU for which nvcc of CUDA 13 compiles if the user names none.
const NVCC_GPU: &str = "sm_75";

/// One word of the link line, in the user's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkItem {
    /// The object of `sources[i]`.
    Source(usize),
    /// Path of an object, an archive or a library.
    File(OsString),
    Word(OsString),
}

/// The user's `--cuda`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CudaChoice {
    #[default]
    Newest,
    /// A version such as `12.9`, or a major version.
    Version(String),
    /// The 12.9 tree if the program needs it, else the newest.
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
    /// How CPU code runs the threads of a block, as named by the user.
    pub kernel_mode: Option<OsString>,
    /// Which warps of CPU kernels run in lock step.
    pub lock_step: Option<OsString>,
    /// CPU code checks every access.
    pub strict: bool,
    /// The program finds the virtual GPU's runtime by itself.
    pub is_virtual: bool,
    /// The user's `--cuda-path=`.
    pub cuda_path: Option<PathBuf>,
    pub cuda: CudaChoice,
}

/// Kind of output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// `-E`, `-M`, `-MM`, `-fsyntax-only`, as the user wrote it: makes no code, so does not use the plugin.
    FrontEnd(OsString),
    /// `-c` or `-S`, as the user wrote it.
    Compile(OsString),
    /// An executable or a shared library.
    #[default]
    Link,
    /// A static library of the objects.
    Archive,
}

/// Half of a CUDA source that is compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    #[default]
    Both,
    Host,
    Device,
}

/// CUDA runtime to link with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CudaRuntime {
    #[default]
    Shared,
    Static,
    None,
}

/// The user's `-MD` and the flags that belong to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// `-MD` or `-MMD`.
    pub flag: Option<OsString>,
    pub file: Option<PathBuf>,
    /// `-MT x` and `-MQ x`, as the user wrote them.
    pub targets: Vec<OsString>,
}

/// A command line that compiles or links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    pub mode: Mode,
    pub sources: Vec<Source>,
    pub compile_words: Vec<OsString>,
    /// Words for CUDA sources only, placed after `compile_words`.
    pub cuda_words: Vec<OsString>,
    /// `-Rpass=` and similar.
    pub remark_words: Vec<OsString>,
    /// GPU architectures that the user chose.
    pub gpus: Vec<String>,
    pub side: Side,
    /// `-fgpu-rdc`: device code is linked across files.
    pub rdc: bool,
    /// `-flto`, `--eager-whole-program`: the host code is instrumented when it is linked.
    pub whole_program: bool,
    pub dependencies: Dependencies,
    pub runtime: CudaRuntime,
    pub link: Vec<LinkItem>,
    /// Static libraries that carry device code and that the link names by `-l` or in the linker's own words.
    pub libraries: Vec<PathBuf>,
    pub output: Option<PathBuf>,
    pub settings: Settings,
    /// clang overlay file that replaces sources by corrected texts.
    pub overlay: Option<PathBuf>,
    /// What the driver does differently than asked, one line each.
    pub notes: Vec<String>,
}

/// Reason why the driver leaves a command line to clang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassThroughReason {
    /// The command only prints.
    NoCode(OsString),
    /// A source in a language that the driver does not instrument, or standard input in an unknown one.
    Language(OsString),
    /// There is nothing to compile or to link.
    NoInput,
}

/// Action that a command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invocation {
    Run(Box<Job>),
    PassThrough(PassThroughReason, Settings),
    Help,
    Version,
}

/// Reason why a command line is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvocationError {
    #[error(transparent)]
    Args(#[from] ArgError),
    #[error("cannot specify -o when generating multiple output files")]
    OneOutputForMany,
    #[error("--eager-report= needs a file name")]
    ReportNameMissing,
    #[error("'{word}' is not a kind of CUDA runtime: use shared, static or none")]
    UnknownRuntime { word: String },
    #[error("--cuda {word}: expected a version such as 12.9, or auto")]
    UnknownCuda { word: String },
    #[error("--eager-archive needs -o and at least one source or object")]
    ArchiveOfNothing,
}

/// Interprets a command line without response files.
///
/// # Errors
/// If a flag lacks its value or has a wrong one, or a single output is named for several objects.
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
            Arg::Flag { purpose, value, words } => self.take_flag(purpose, value, words)?,
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
        purpose: Purpose,
        value: OsString,
        words: Vec<OsString>,
    ) -> Result<(), InvocationError> {
        let first = || words.first().cloned().unwrap_or_default();
        let job = &mut self.job;
        match purpose {
            Purpose::Compile => job.compile_words.extend(words),
            Purpose::Cuda => job.cuda_words.extend(words),
            Purpose::GpuArch => {
                job.gpus.extend(value.to_string_lossy().split(',').map(str::to_owned));
                job.cuda_words.extend(words);
            }
            Purpose::NoGpuArch => {
                let removed = value.to_string_lossy().into_owned();
                job.gpus.retain(|gpu| removed != "all" && !removed.split(',').any(|other| other == gpu));
                job.cuda_words.extend(words);
            }
            Purpose::HostOnly => job.side = Side::Host,
            Purpose::DeviceOnly => job.side = Side::Device,
            Purpose::Rdc => job.rdc = true,
            Purpose::NoRdc => job.rdc = false,
            Purpose::Link => job.link.extend(words.into_iter().map(LinkItem::Word)),
            Purpose::Both => {
                job.compile_words.extend(words.iter().cloned());
                job.link.extend(words.into_iter().map(LinkItem::Word));
            }
            Purpose::Output => job.output = Some(value.into()),
            Purpose::Language => self.language = Some(value),
            Purpose::CompileOnly => self.compile_only = Some(first()),
            Purpose::FrontEnd => self.no_code = Some(first()),
            Purpose::ClangAlone => self.leave(PassThroughReason::NoCode(first())),
            Purpose::Dependencies => job.dependencies.flag = Some(first()),
            Purpose::DependencyFile => job.dependencies.file = Some(value.into()),
            Purpose::DependencyTarget => job.dependencies.targets.extend(words),
            Purpose::Remark => job.remark_words.extend(words),
            Purpose::Lto => {
                job.whole_program = true;
                if value == "thin" {
                    job.notes.push("-flto=thin: full link-time optimisation is used instead: host code is instrumented as one module".to_owned());
                }
            }
            Purpose::WholeProgram => job.whole_program = true,
            Purpose::NoLto => job.whole_program = false,
            Purpose::Archive => job.mode = Mode::Archive,
            Purpose::CudaRuntime => job.runtime = runtime(&value)?,
            Purpose::Help => self.help = true,
            Purpose::Version => self.version = true,
            Purpose::CudaVersion => job.settings.cuda = cuda_choice(&value)?,
            Purpose::CudaPath
            | Purpose::Show
            | Purpose::Report
            | Purpose::NoInstrument
            | Purpose::NoCpuKernels
            | Purpose::KernelMode
            | Purpose::LockStep
            | Purpose::Strict
            | Purpose::Virtual => {
                set(&mut job.settings, purpose, value);
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

fn set(settings: &mut Settings, purpose: Purpose, value: OsString) {
    match purpose {
        Purpose::CudaPath => settings.cuda_path = Some(value.into()),
        Purpose::Show => settings.show = true,
        Purpose::Report => settings.report = Some(value.into()),
        Purpose::NoInstrument => settings.no_instrument = true,
        Purpose::NoCpuKernels => settings.no_cpu_kernels = true,
        Purpose::KernelMode => settings.kernel_mode = Some(value),
        Purpose::LockStep if value.is_empty() => settings.lock_step = Some("suspected".into()),
        Purpose::LockStep => settings.lock_step = Some(value),
        Purpose::Strict => settings.strict = true,
        Purpose::Virtual => settings.is_virtual = true,
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
    /// Whether the plugin processes the sources of this job.
    #[must_use]
    pub fn uses_plugin(&self) -> bool {
        self.plugin_affects_sources() && !matches!(self.mode, Mode::FrontEnd(_))
    }

    /// Whether the plugin affects the meaning of the sources; also true for preprocessing, where the plugin does not
    /// run.
    #[must_use]
    pub fn plugin_affects_sources(&self) -> bool {
        let plain = self.settings.no_instrument && self.settings.no_cpu_kernels;
        !plain && self.side != Side::Device
    }

    /// Replaces GPUs older than `oldest`, which the CUDA tree does not support, by `oldest`. Returns a warning if any
    /// was replaced.
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
        // Whether the 12.9 tree supports one of the GPUs.
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

    /// Whether the user's words choose a `ptxas`.
    #[must_use]
    pub fn names_ptxas(&self) -> bool {
        let words = self.cuda_words.iter().chain(&self.compile_words);
        words.into_iter().any(|word| word.to_string_lossy().starts_with("--ptxas-path"))
    }

    /// Takes nvcc's default GPU where the user names none and a file includes a header of libcu++ that uses `mbarrier` on
    /// newer ones, which the virtual GPU has not. Device code of several files must be for one GPU, so under `-fgpu-rdc`
    /// the user has to choose.
    pub fn avoid_mbarrier(&mut self, file: &Path, header: &str) {
        if !self.gpus.is_empty() || self.rdc || !self.uses_plugin() || self.settings.no_cpu_kernels {
            return;
        }
        // Code for newer GPUs is made of the PTX.
        let words = ["--cuda-gpu-arch", "--cuda-include-ptx"].map(|flag| format!("{flag}={NVCC_GPU}").into());
        self.cuda_words.extend(words);
        self.gpus.push(NVCC_GPU.to_owned());
        self.notes.push(format!(
            "{}: compiled for {NVCC_GPU}, nvcc's default, because <{header}> uses mbarrier on newer GPUs, which the \
             virtual GPU has not; -arch=sm_NN chooses",
            file.display()
        ));
    }

    /// Replaces `native` by the default GPU, on machines without a GPU to ask.
    pub fn replace_native(&mut self, gpu: &str) {
        for word in &mut self.cuda_words {
            let text = word.to_string_lossy();
            let other = text.strip_suffix("=native").map(|flag| format!("{flag}={gpu}"));
            *word = other.map_or_else(|| word.clone(), OsString::from);
        }
        self.gpus.iter_mut().filter(|name| *name == "native").for_each(|name| gpu.clone_into(name));
    }

    /// Whether the user's own words link `word` (`-lcudart…`).
    #[must_use]
    pub fn links(&self, word: &str) -> bool {
        self.link.iter().any(|item| matches!(item, LinkItem::Word(found) if found == word))
    }

    /// Objects, archives and libraries that the command line names by path.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.link.iter().filter_map(|item| match item {
            LinkItem::File(path) => Some(Path::new(path)),
            _ => None,
        })
    }

    /// First source, object or library that one of the command's outputs would overwrite; `is_same` compares files.
    pub fn overwritten(&self, is_same: impl Fn(&Path, &Path) -> bool) -> Option<&Path> {
        let outputs = || self.output.iter().chain(&self.settings.report).chain(&self.dependencies.file);
        let inputs = self.sources.iter().map(|source| source.path.as_path()).chain(self.files());
        inputs.into_iter().find(|input| outputs().any(|output| is_same(input, output)))
    }

    /// Text that explains how to start the CUDA program that this command makes on a machine without a GPU. `None` if
    /// it starts by itself, or is not a program.
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

    /// First source that does not exist, according to `exists`, although it must.
    pub fn missing_source(&self, exists: impl Fn(&Path) -> bool) -> Option<&Path> {
        let missing = |source: &&Source| !source.is_special() && !exists(&source.path);
        self.sources.iter().find(missing).map(|source| source.path.as_path())
    }
}
