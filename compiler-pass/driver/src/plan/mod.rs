//! Turns invocation and toolchain into command lines: all of the driver's decisions, pure, tested with golden files.
//!
//! There is one clang command per source, in which the plugin's device half and host half exchange files in the scratch
//! folder, then one link. Trap: when clang preprocesses a CUDA source or lists its dependencies, it only reads the host
//! half. A second command adds the files that only the device half includes, so that `make` and `ccache` see them.

mod compile;
mod link;
mod nvcc_host;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::args::shell_quoted;
use crate::invocation::{Job, Mode};
use crate::toolchain::Toolchain;

/// GPU architecture if the user names none.
pub const GPU_ARCH: &str = "sm_90";

/// Names of the plugin's variables; their definitions are in `eager_pass::options`.
const CPU_KERNELS_VARIABLE: &str = "EAGER_PASS_CPU_KERNELS";
const KERNEL_MODE_VARIABLE: &str = "EAGER_PASS_KERNEL_MODE";
const LOCK_STEP_VARIABLE: &str = "EAGER_PASS_LOCK_STEP";
const STRICT_VARIABLE: &str = "EAGER_PASS_STRICT";
const DEVICE_CODE_VARIABLE: &str = "EAGER_PASS_DEVICE_CODE";
const KERNEL_DATA_VARIABLE: &str = "EAGER_PASS_KERNEL_DATA";
const REPORT_VARIABLE: &str = "EAGER_PASS_REPORT";
const INSTRUMENT_VARIABLE: &str = "EAGER_PASS_INSTRUMENT";
const WHOLE_PROGRAM_VARIABLE: &str = "EAGER_PASS_WHOLE_PROGRAM";

/// Variables that tell the plugin how to make CPU kernels.
fn cpu_kernel_variables(job: &Job) -> impl Iterator<Item = (&'static str, OsString)> {
    let mode = job.settings.kernel_mode.clone().map(|mode| (KERNEL_MODE_VARIABLE, mode));
    let strict = job.settings.strict.then(|| (STRICT_VARIABLE, "1".into()));
    let lock_step = job.settings.lock_step.clone().map(|way| (LOCK_STEP_VARIABLE, way));
    mode.into_iter().chain(lock_step).chain(strict)
}

/// One process to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub variables: Vec<(&'static str, OsString)>,
    /// File that its standard output is appended to.
    pub append_to: Option<PathBuf>,
    /// The plan continues if the command fails.
    pub may_fail: bool,
}

impl CommandLine {
    /// The command in shell syntax.
    #[must_use]
    pub fn shell(&self) -> String {
        let variables = self.variables.iter().map(|(name, value)| format!("{name}={}", shell_quoted(value)));
        let words =
            std::iter::once(self.program.as_os_str()).chain(self.args.iter().map(OsString::as_os_str));
        let append = self.append_to.iter().map(|path| format!(">> {}", shell_quoted(path.as_os_str())));
        let may_fail = self.may_fail.then(|| "|| true".to_owned());
        variables.chain(words.map(shell_quoted)).chain(append).chain(may_fail).collect::<Vec<_>>().join(" ")
    }
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Run(CommandLine),
    /// Writes the device modules that the objects carry into files beside `list`, and their paths into `list`.
    GatherDeviceCode {
        objects: Vec<PathBuf>,
        list: PathBuf,
    },
}

impl Step {
    /// The step in shell syntax, or as a comment.
    #[must_use]
    pub fn shell(&self) -> String {
        match self {
            Self::Run(command) => command.shell(),
            Self::GatherDeviceCode { objects, list } => {
                let objects: Vec<_> = objects.iter().map(|path| shell_quoted(path.as_os_str())).collect();
                format!("# device code of {} > {}", objects.join(" "), shell_quoted(list.as_os_str()))
            }
        }
    }
}

/// The steps of one invocation, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// Reports that the commands leave in the scratch folder; a source without CUDA calls leaves none.
    pub reports: Vec<PathBuf>,
}

impl Plan {
    fn run(&mut self, command: CommandLine) {
        self.steps.push(Step::Run(command));
    }
}

/// Plans a job; `scratch` is a folder for temporary files.
#[must_use]
pub fn plan(job: &Job, toolchain: &Toolchain, scratch: &Path) -> Plan {
    let mut plan = Plan::default();
    let objects: Vec<_> = (0..job.sources.len()).map(|index| object_path(job, scratch, index)).collect();
    for (index, object) in objects.iter().enumerate() {
        let unit = compile::Unit { job, toolchain, scratch, index };
        match &job.mode {
            Mode::FrontEnd(word) => unit.add_front_end(&mut plan, word),
            Mode::Compile(word) => unit.add_compile(&mut plan, word, job.output.as_deref()),
            Mode::Link | Mode::Archive => {
                unit.add_compile(&mut plan, &"-c".into(), Some(object));
            }
        }
    }
    match job.mode {
        Mode::Link => link::add_link(&mut plan, job, toolchain, scratch, &objects),
        Mode::Archive => link::add_archive(&mut plan, job, toolchain, &objects),
        Mode::FrontEnd(_) | Mode::Compile(_) => {}
    }
    plan
}

/// Passes the user's words to clang, with the CUDA tree if there is a CUDA source among them.
#[must_use]
pub fn pass_through(words: &[OsString], toolchain: &Toolchain) -> Plan {
    let own = |word: &OsString| {
        let word = word.to_string_lossy();
        word.starts_with("--eager-") || word.starts_with("--cudart=") || word == "--show"
    };
    let is_version = |at: usize| at > 0 && words[at - 1] == "--cuda";
    let is_choice = |word: &OsString| word == "--cuda" || word.to_string_lossy().starts_with("--cuda=");
    let kept =
        words.iter().enumerate().filter(|(at, word)| !own(word) && !is_choice(word) && !is_version(*at));
    let mut args: Vec<OsString> = kept.map(|(_, word)| word.clone()).collect();
    let names_cuda =
        words.iter().any(|word| Path::new(word).extension().is_some_and(|extension| extension == "cu"));
    let has_tree = words.iter().any(|word| word.to_string_lossy().starts_with("--cuda-path="));
    if names_cuda && !has_tree && !toolchain.cuda.as_os_str().is_empty() {
        args.extend([joined("--cuda-path=", &toolchain.cuda), "-Wno-unknown-cuda-version".into()]);
        let names_arch = |word: &OsString| {
            let word = word.to_string_lossy();
            word.starts_with("--cuda-gpu-arch=") || word.starts_with("--offload-arch=")
        };
        if !words.iter().any(names_arch) {
            args.push(format!("--cuda-gpu-arch={GPU_ARCH}").into());
        }
    }
    let command = CommandLine { program: toolchain.clang.clone(), args, ..CommandLine::default() };
    Plan { steps: vec![Step::Run(command)], reports: Vec::new() }
}

/// Path of a source's object until the link; the number distinguishes equal names from different folders.
fn object_path(job: &Job, scratch: &Path, index: usize) -> PathBuf {
    scratch.join(format!("{index}-{}.o", job.sources[index].stem()))
}

fn joined(prefix: &str, path: &Path) -> OsString {
    let mut word = OsString::from(prefix);
    word.push(path);
    word
}
