//! Invocation and toolchain into command lines: the driver's whole decision, pure, tested with golden files.
//!
//! One clang command per source (the plugin's device half and host half meet in it through one file of the scratch
//! folder), then one link. Trap: the executable gets a run path to `libeager.so` but none to CUDA's libraries: the
//! loader must stay free to take the stand-in runtime or NVIDIA's.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::args::shell_quoted;
use crate::invocation::{Job, Language, LinkItem, Source};
use crate::toolchain::Toolchain;

/// GPU architecture when the user names none.
const GPU_ARCH: &str = "sm_90";

/// Names of the plugin's variables; the plugin's own list is `eager_pass::options`.
const CPU_KERNELS_VARIABLE: &str = "EAGER_PASS_CPU_KERNELS";
const REPORT_VARIABLE: &str = "EAGER_PASS_REPORT";
const INSTRUMENT_VARIABLE: &str = "EAGER_PASS_INSTRUMENT";

/// One process to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub variables: Vec<(&'static str, OsString)>,
}

impl CommandLine {
    /// The command as a shell would take it.
    #[must_use]
    pub fn shell(&self) -> String {
        let variables = self.variables.iter().map(|(name, value)| format!("{name}={}", shell_quoted(value)));
        let words =
            std::iter::once(self.program.as_os_str()).chain(self.args.iter().map(OsString::as_os_str));
        variables.chain(words.map(shell_quoted)).collect::<Vec<_>>().join(" ")
    }
}

/// The commands of one invocation, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub commands: Vec<CommandLine>,
    /// The reports that the commands leave in the scratch folder, one per source.
    pub reports: Vec<PathBuf>,
}

/// `-c`, `-S`: one command per source; clang names the outputs that the user did not.
#[must_use]
pub fn compile(job: &Job, toolchain: &Toolchain, scratch: &Path) -> Plan {
    let mut plan = Plan::default();
    for (index, source) in job.sources.iter().enumerate() {
        let mode = job.compile_only.clone().unwrap_or_else(|| "-c".into());
        add_compile(&mut plan, job, toolchain, scratch, (index, source), &mode, job.output.as_deref());
    }
    plan
}

/// Objects in the scratch folder, then the link.
#[must_use]
pub fn compile_and_link(job: &Job, toolchain: &Toolchain, scratch: &Path) -> Plan {
    let mut plan = Plan::default();
    let objects: Vec<_> = (0..job.sources.len()).map(|index| object_path(job, scratch, index)).collect();
    for (index, source) in job.sources.iter().enumerate() {
        let mode = OsString::from("-c");
        add_compile(&mut plan, job, toolchain, scratch, (index, source), &mode, Some(&objects[index]));
    }
    plan.commands.push(link_command(job, toolchain, &objects));
    plan
}

/// The link alone.
#[must_use]
pub fn link(job: &Job, toolchain: &Toolchain) -> Plan {
    Plan { commands: vec![link_command(job, toolchain, &[])], reports: Vec::new() }
}

/// The user's words, to clang, with the CUDA tree if there is a CUDA source among them.
#[must_use]
pub fn pass_through(words: &[OsString], toolchain: &Toolchain) -> Plan {
    let own = |word: &OsString| word.to_string_lossy().starts_with("--eager-") || word == "--show";
    let mut args: Vec<OsString> = words.iter().filter(|word| !own(word)).cloned().collect();
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
    let command = CommandLine { program: toolchain.clang.clone(), args, variables: Vec::new() };
    Plan { commands: vec![command], reports: Vec::new() }
}

fn object_path(job: &Job, scratch: &Path, index: usize) -> PathBuf {
    let stem = job.sources[index].path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    scratch.join(format!("{index}-{stem}.o"))
}

fn add_compile(
    plan: &mut Plan,
    job: &Job,
    toolchain: &Toolchain,
    scratch: &Path,
    (index, source): (usize, &Source),
    mode: &OsString,
    output: Option<&Path>,
) {
    let is_cuda = source.language == Language::Cuda;
    let mut args = job.compile_words.clone();
    let mut variables = Vec::new();
    if is_cuda {
        args.extend(job.cuda_words.iter().cloned());
        args.push(joined("--cuda-path=", &toolchain.cuda));
        if !job.has_gpu_arch {
            args.push(format!("--cuda-gpu-arch={GPU_ARCH}").into());
        }
        args.push("-Wno-unknown-cuda-version".into());
    } else {
        args.extend(["-isystem".into(), toolchain.cuda.join("include").into()]);
    }
    if uses_plugin(job) {
        args.push(joined("-fpass-plugin=", &toolchain.plugin));
        // Makes clang keep source locations in the IR, without debug information in the object; no pass has this name, so
        // it prints nothing.
        args.push("-Rpass-analysis=eager-places".into());
        if job.settings.no_instrument {
            variables.push((INSTRUMENT_VARIABLE, "0".into()));
        }
        if is_cuda && !job.settings.no_cpu_kernels {
            variables.push((CPU_KERNELS_VARIABLE, scratch.join(format!("{index}-kernels.bc")).into()));
        }
        if job.settings.report.is_some() {
            let report = scratch.join(format!("{index}-report.json"));
            variables.push((REPORT_VARIABLE, report.clone().into()));
            plan.reports.push(report);
        }
    }
    args.extend(["-x".into(), source.language.clang_name().into(), source.path.clone().into(), mode.clone()]);
    if let Some(output) = output {
        args.extend(["-o".into(), output.into()]);
    }
    plan.commands.push(CommandLine { program: toolchain.clang.clone(), args, variables });
}

fn uses_plugin(job: &Job) -> bool {
    !(job.settings.no_instrument && job.settings.no_cpu_kernels)
}

fn link_command(job: &Job, toolchain: &Toolchain, objects: &[PathBuf]) -> CommandLine {
    // Flags of the compile that the linker step has no use for are not worth a warning.
    let mut args: Vec<OsString> = vec!["-Wno-unused-command-line-argument".into()];
    args.extend(job.link.iter().map(|item| match item {
        LinkItem::Source(index) => objects[*index].clone().into(),
        LinkItem::Word(word) => word.clone(),
    }));
    if !job.settings.no_instrument {
        args.push(joined("-L", &toolchain.shim_folder));
        args.push("-leager".into());
        args.push("-Wl,--enable-new-dtags".into());
        args.push(joined("-Wl,-rpath,", &toolchain.shim_folder));
    }
    let has_static_runtime = job.link.contains(&LinkItem::Word("-lcudart_static".into()));
    if !has_static_runtime {
        args.push(joined("-L", &toolchain.cuda.join("lib")));
        args.push("-lcudart".into());
    }
    args.push("-lm".into());
    if let Some(output) = &job.output {
        args.extend(["-o".into(), output.into()]);
    }
    CommandLine { program: toolchain.clang.clone(), args, variables: Vec::new() }
}

fn joined(prefix: &str, path: &Path) -> OsString {
    let mut word = OsString::from(prefix);
    word.push(path);
    word
}
