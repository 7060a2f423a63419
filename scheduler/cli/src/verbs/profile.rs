//! `eager profile`: runs a program alone on a virtual GPU and shows the time and the memory that each kernel took; or
//! on the machine's own GPU, and shows the memory only.
//!
//! Trap: standard output belongs to the program, so the table goes to standard error, as with `perf stat`.

use super::run::{self, RunFlags};
use crate::say;
use crate::tables::{self, Kernel};
use anyhow::{Context, bail};
use clap::Args;
use eager_journal::names;
use eager_proto::ENV_DISABLE;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The stand-in runtime writes the profile to this file (`virtual-gpu`, stand-in runtime).
const ENV_VGPU_PROFILE: &str = "EAGER_VGPU_PROFILE";
/// The shim measures footprints, without a daemon, and writes them to this file (`runtime-shim`).
const ENV_MEASURE: &str = "EAGER_MEASURE";
/// NVIDIA's variable: with eager loading, code is loaded with the context and not during a measured launch.
const ENV_MODULE_LOADING: &str = "CUDA_MODULE_LOADING";
/// Exit code for a program that a signal ended, as in shells: 128 plus the signal.
const EXIT_SIGNAL: i32 = 128;

#[derive(Debug, Args)]
pub struct ProfileFlags {
    /// Keep the profile in this file, as JSON: `eager run --profile FILE` takes it.
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Measure on the machine's own GPU, which no other program may use meanwhile: the blocks of 2 MiB that each kernel
    /// touches. The program must fit, and runs much slower.
    #[arg(long, conflicts_with_all = ["cards", "memory_scale"])]
    gpu: bool,
    /// The virtual GPUs [default: 1xV100-16GB].
    #[arg(long = "virtual", value_name = "CARDS", value_parser = eager_gpu_model::card_list)]
    cards: Option<String>,
    /// Modelled bytes per program byte of the virtual GPUs [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    memory_scale: Option<u64>,
    /// The program and its arguments.
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Profile of the stand-in runtime, version 1.
#[derive(Debug, Deserialize)]
struct ProfileFile {
    kernels: BTreeMap<String, Kernel>,
    /// Only in profiles of the machine's own GPU.
    measured_by: Option<Method>,
}

/// How a GPU's footprints were measured (`runtime-shim`, the profile file).
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Method {
    Pages,
    FreeMemory,
    None,
}

impl Method {
    fn line(self) -> &'static str {
        match self {
            Method::Pages => "touched: blocks of 2 MiB whose pages left the host for the GPU",
            Method::FreeMemory => "touched: the drop in the GPU's free memory",
            Method::None => "touched: not measured, these are the static sizes",
        }
    }
}

/// Runs the program, prints the table, and returns the program's exit code.
pub fn profile(flags: ProfileFlags) -> anyhow::Result<ExitCode> {
    let scratch = tempfile::tempdir().context("cannot create a temporary folder")?;
    let out = match &flags.out {
        Some(path) => std::path::absolute(path).with_context(|| format!("profile {}", path.display()))?,
        None => scratch.path().join("profile.json"),
    };
    if let Some(folder) = out.parent().filter(|folder| !folder.is_dir()) {
        bail!("cannot keep a profile in {}: there is no such folder", folder.display());
    }
    let on_gpu = flags.gpu;
    let mut command = command(flags.command, flags.cards, flags.memory_scale, on_gpu)?;
    let written_before = modified(&out);
    let program = command.get_program().to_owned();
    let status = command
        .env(if on_gpu { ENV_MEASURE } else { ENV_VGPU_PROFILE }, &out)
        .status()
        .with_context(|| format!("cannot run {}", Path::new(&program).display()))?;
    if modified(&out) == written_before {
        let what = if on_gpu { "launched no kernel through the shim" } else { "used no virtual GPU" };
        bail!("no profile: the program {what}, or did not end through `exit` ({status})");
    }
    let text = std::fs::read_to_string(&out).with_context(|| format!("cannot read {}", out.display()))?;
    let file: ProfileFile = serde_json::from_str(&text).with_context(|| format!("{}", out.display()))?;
    // If standard error is closed, there is no place to report that.
    let _ = std::io::stderr().write_all(table(file).as_bytes());
    if flags.out.is_some() {
        say(&format!("the profile is in {}", out.display()));
    }
    let code = status.code().unwrap_or_else(|| EXIT_SIGNAL + status.signal().unwrap_or(0));
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// Command that runs the program on its own virtual GPUs, or on the GPUs that it finds.
fn command(
    words: Vec<OsString>,
    cards: Option<String>,
    memory_scale: Option<u64>,
    on_gpu: bool,
) -> anyhow::Result<Command> {
    if !on_gpu {
        return run::prepare(&RunFlags::alone(words, cards, memory_scale));
    }
    let (program, arguments) = words.split_first().context("no program given")?;
    let mut command = Command::new(program);
    command.args(arguments).env_remove(ENV_DISABLE).env(ENV_MODULE_LOADING, "EAGER");
    Ok(command)
}

fn modified(path: &Path) -> Option<std::time::SystemTime> {
    std::fs::metadata(path).and_then(|of| of.modified()).ok()
}

/// Formats the kernels, longest first, by readable names; the file has the mangled names.
fn table(file: ProfileFile) -> String {
    if file.kernels.is_empty() {
        return "eager: the program launched no kernel\n".to_owned();
    }
    let readable = |(name, kernel): (String, Kernel)| (names::readable(&name), kernel);
    let mut kernels: Vec<(String, Kernel)> = file.kernels.into_iter().map(readable).collect();
    let time = |kernel: &Kernel| kernel.detail.as_ref().map_or(0, |detail| detail.device_ns);
    kernels.sort_by_key(|(_, kernel)| std::cmp::Reverse((time(kernel), kernel.static_bytes)));
    if kernels.iter().any(|(_, kernel)| kernel.detail.is_none()) {
        let line = file.measured_by.map(|method| format!("eager: {}\n", method.line()));
        return tables::footprints(&kernels) + &line.unwrap_or_default();
    }
    tables::kernels(&kernels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_come_by_time_under_their_own_names() {
        let text = r#"{"version":1,"kernels":{
            "_Z5shortIiEvPT_":{"static_bytes":4096,"footprint_bytes":4096,"launches":1,"access":"one-pass","detail":{
                "device_ns":1000,"global_bytes":4096,"flops32":0,"flops64":0,
                "footprint_4k_bytes":4096,"footprint_64k_bytes":4096,"footprint_2m_bytes":4096}},
            "plain":{"static_bytes":3145728,"footprint_bytes":2097152,"launches":20,"access":"sparse","detail":{
                "device_ns":2500000,"global_bytes":2000000000,"flops32":3000000000,"flops64":1,
                "footprint_4k_bytes":1048576,"footprint_64k_bytes":1572864,"footprint_2m_bytes":2097152}}}}"#;
        let expected = "\
LAUNCHES  TIME ms  STATIC MiB  TOUCHED MiB: 4 KiB  64 KiB  2 MiB  ACCESS       GB  GFLOP  KERNEL\n      \
20    2.500       3.000               1.000   1.500  2.000  sparse    2.000  3.000  plain\n       \
1    0.001       0.004               0.004   0.004  0.004  one-pass  0.000  0.000  short<int>\n";
        assert_eq!(table(serde_json::from_str(text).expect("JSON")), expected);
    }

    #[test]
    fn a_gpu_tells_what_was_touched_and_no_more() {
        let text = r#"{"version":1,"measured_by":"free-memory","kernels":{
            "small":{"static_bytes":1048576,"footprint_bytes":1048576,"launches":1,"access":"one-pass"},
            "large":{"static_bytes":4194304,"footprint_bytes":2097152,"launches":3,"access":"unknown"}}}"#;
        let expected = "\
LAUNCHES  STATIC MiB  TOUCHED MiB  ACCESS    KERNEL\n       \
3       4.000        2.000  unknown   large\n       \
1       1.000        1.000  one-pass  small
eager: touched: the drop in the GPU's free memory\n";
        assert_eq!(table(serde_json::from_str(text).expect("JSON")), expected);
    }
}
