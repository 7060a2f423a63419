//! Carries a plan out: processes, the scratch folder, the merged report.
//!
//! The scratch folder goes away with its handle, also when a compile fails. Trap: a compiler killed by a signal has no
//! exit code; the driver then fails with the shell's convention, 128 plus the signal.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::invocation::{self, Invocation, Job, PassThroughReason, Settings};
use crate::plan::{self, CommandLine, Plan};
use crate::toolchain::{Needs, Surroundings, Toolchain};

const HELP: &str = "\
eagercc: compiles CUDA and C/C++ programs for the Eager scheduler

usage: eagercc [clang flags] files... [-o program]

  Sources (.cu, .c, .cc, .cpp) are compiled by clang with the Eager pass; the executable runs on NVIDIA's CUDA runtime
  and on the virtual GPU's. Flags that are not listed here go to clang as they are.

  --cuda-gpu-arch=sm_NN   GPU architecture (default sm_90); may be repeated
  --cuda-path=DIR         CUDA tree
  --eager-report=FILE     write what the pass found and planned, as JSON
  --eager-no-instrument   leave the host code as it is (no scheduler)
  --eager-no-cpu-kernels  no CPU code for kernels (the program then needs a real GPU)
  --show                  print the commands instead of running them
  --version, --help

environment:
  EAGER_CLANG      clang++ of LLVM 22         EAGER_CUDA_PATH  CUDA tree
  EAGER_HOME       folder with lib/eager/     EAGER_REMARKS=1  one line per task found, on stderr
";

/// Runs the driver; returns the exit code.
///
/// # Errors
/// When the command line is wrong, a tool is missing, or a process cannot be started.
pub fn main(
    words: &[OsString],
    executable: &Path,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> anyhow::Result<u8> {
    let surroundings = |settings: &Settings, needs: Needs| {
        let cuda_path = settings.cuda_path.as_deref();
        Toolchain::find(&Surroundings { variable, executable, cuda_path }, needs)
    };
    let mut words = words.to_vec();
    if variable("EAGER_REMARKS").is_some_and(|value| value == "1") {
        words.extend(["-Rpass=eager".into(), "-Rpass-missed=eager".into()]);
    }
    match invocation::interpret(&words)? {
        Invocation::Help => {
            print!("{HELP}");
            Ok(0)
        }
        Invocation::Version => {
            let nothing = Needs { cuda: false, plugin: false, shim: false };
            let toolchain = surroundings(&Settings::default(), nothing)?;
            println!("eagercc {}", env!("CARGO_PKG_VERSION"));
            run_all(&plan::pass_through(&["--version".into()], &toolchain))
        }
        Invocation::PassThrough(reason, settings) => {
            let toolchain = surroundings(&settings, Needs { cuda: false, plugin: false, shim: false })?;
            if let PassThroughReason::ResponseFile(file) = &reason {
                eprintln!(
                    "eagercc: note: clang reads {} itself: nothing on this command line is instrumented",
                    file.display()
                );
            }
            carry_out(&plan::pass_through(&words, &toolchain), &settings)
        }
        Invocation::Compile(job) => {
            check_sources(&job)?;
            let toolchain = surroundings(&job.settings, needs(&job, false))?;
            with_scratch(&job.settings, |scratch| plan::compile(&job, &toolchain, scratch))
        }
        Invocation::CompileAndLink(job) => {
            check_sources(&job)?;
            let toolchain = surroundings(&job.settings, needs(&job, true))?;
            with_scratch(&job.settings, |scratch| plan::compile_and_link(&job, &toolchain, scratch))
        }
        Invocation::Link(job) => {
            let toolchain = surroundings(&job.settings, needs(&job, true))?;
            carry_out(&plan::link(&job, &toolchain), &job.settings)
        }
    }
}

/// Names a missing source before clang does, which would say it in two lines, once per side.
fn check_sources(job: &Job) -> anyhow::Result<()> {
    match job.sources.iter().find(|source| !job.settings.show && !source.path.exists()) {
        Some(source) => anyhow::bail!("no such file: {}", source.path.display()),
        None => Ok(()),
    }
}

fn needs(job: &Job, links: bool) -> Needs {
    let settings = &job.settings;
    let compiles = !job.sources.is_empty();
    Needs {
        cuda: true,
        plugin: compiles && !(settings.no_instrument && settings.no_cpu_kernels),
        shim: links && !settings.no_instrument,
    }
}

fn with_scratch(settings: &Settings, plan: impl FnOnce(&Path) -> Plan) -> anyhow::Result<u8> {
    if settings.show {
        return carry_out(&plan(Path::new("$SCRATCH")), settings);
    }
    let scratch = tempfile::Builder::new()
        .prefix("eagercc-")
        .tempdir()
        .context("cannot make a scratch folder (TMPDIR names where)")?;
    let plan = plan(scratch.path());
    let code = carry_out(&plan, settings)?;
    if let Some(path) = settings.report.as_ref().filter(|_| code == 0) {
        merge_reports(&plan.reports, path)?;
    }
    Ok(code)
}

fn carry_out(plan: &Plan, settings: &Settings) -> anyhow::Result<u8> {
    if settings.show {
        for command in &plan.commands {
            println!("{}", command.shell());
        }
        return Ok(0);
    }
    run_all(plan)
}

/// Runs the commands up to the first that fails.
fn run_all(plan: &Plan) -> anyhow::Result<u8> {
    for command in &plan.commands {
        let code = run(command)?;
        if code != 0 {
            return Ok(code);
        }
    }
    Ok(0)
}

fn run(command: &CommandLine) -> anyhow::Result<u8> {
    let status = Command::new(&command.program)
        .args(&command.args)
        .envs(command.variables.iter().map(|(name, value)| (name, value)))
        .status()
        .with_context(|| format!("cannot run {}", command.program.display()))?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(u8::try_from(code).unwrap_or(1))
}

/// One JSON array with the reports of all sources; a source without CUDA calls has none.
fn merge_reports(reports: &[PathBuf], path: &Path) -> anyhow::Result<()> {
    let texts: Vec<_> = reports.iter().filter_map(|report| std::fs::read_to_string(report).ok()).collect();
    let merged = format!("[\n{}\n]\n", texts.iter().map(|text| text.trim()).collect::<Vec<_>>().join(",\n"));
    std::fs::write(path, merged).with_context(|| format!("cannot write the report {}", path.display()))
}
