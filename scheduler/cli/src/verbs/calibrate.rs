//! `eager calibrate`: times a GPU, writes a card file that describes it, and shows how the model's times compare.
//!
//! Trap: no other program may use a real GPU meanwhile, which cannot be checked from here. The calibration program
//! keeps its managed memory far below the free memory.

use super::run::{self, RunFlags};
use crate::{print, say};
use anyhow::{Context, anyhow, ensure};
use clap::Args;
use eager_gpu_model::{Comparison, Measured, Options, card_list};
use eager_proto::ENV_DISABLE;
use eagercc::toolchain::{Needs, Surroundings, Toolchain};
use serde::Serialize;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SOURCE: &str = include_str!("../../../../virtual-gpu/model/calibrate/calibrate.cu");
/// Variables of the stand-in runtime (`virtual-gpu`). They select modelled time only, which does not depend on this
/// machine.
const ENV_VGPU_CLOCK: &str = "EAGER_VGPU_CLOCK";
const ENV_VGPU_TIME_SCALE: &str = "EAGER_VGPU_TIME_SCALE";
const ENV_VGPU_HOST_FACTOR: &str = "EAGER_VGPU_HOST_FACTOR";

#[derive(Debug, Args)]
pub struct CalibrateFlags {
    /// The card file to write; it must not exist yet [default: the device's name and `.toml`].
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The card's name [default: the device's].
    #[arg(long)]
    name: Option<String>,
    /// Calibrate a virtual GPU in place of the machine's own, to try this verb.
    #[arg(long = "virtual", value_name = "CARDS", value_parser = card_list)]
    cards: Option<String>,
    /// Size of the buffers that are copied, moved and read.
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(8..=4096))]
    mib: u64,
    /// Samples of each measure.
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// Multiply-adds of each thread where arithmetic is timed.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(16..=1_000_000))]
    work: u64,
    /// The calibration program, if eagercc cannot compile it here: compiled elsewhere from
    /// `virtual-gpu/model/calibrate/calibrate.cu` [default: compiled when needed].
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Print the measures as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    reply: &'static str,
    card: &'a Path,
    measures: &'a [Comparison],
}

/// Writes the card file and prints the comparison.
pub fn calibrate(flags: CalibrateFlags) -> anyhow::Result<()> {
    let known = flags.out.clone().or_else(|| flags.name.as_deref().map(default_path));
    known.as_deref().map_or(Ok(()), check_place)?;
    let scratch = tempfile::tempdir().context("cannot create a temporary folder")?;
    let executable = std::env::current_exe().context("cannot find my own executable")?;
    let program = match &flags.program {
        Some(program) => std::path::absolute(program)?,
        None => compile_program(&executable, scratch.path())?,
    };
    let command = match &flags.cards {
        Some(cards) => on_virtual(&program, &flags, cards, flags.rounds)?,
        None => on_gpu(&program, &flags, &executable)?,
    };
    let place = |device: &Measured| known.clone().unwrap_or_else(|| default_path(&device.card_name()));
    let measured = read(&run_program(command, |device| check_place(&place(device)))?)?;
    let name = flags.name.clone().unwrap_or_else(|| measured.card_name());
    let out = place(&measured);
    let file = measured.card_file(&name, &Options::default());
    let file = file.map_err(|why| anyhow!("the calibration program's output describes no card: {why}"))?;
    if let Err(error) = write_new(&out, &file) {
        // Another process has created the file meanwhile. The measurement took minutes, so its result is printed.
        print(&file);
        return Err(anyhow!("card file {}: {}: the card is printed instead", out.display(), error.kind()));
    }
    // The model always gives the same times, so one round is enough.
    let modelled = on_virtual(&program, &flags, &as_card_entry(&out)?, 1)
        .and_then(|command| run_program(command, |_| Ok(())))
        .and_then(|text| read(&text));
    let modelled = modelled.with_context(|| {
        format!("the card is in {}, but the model could not be run with it", out.display())
    })?;
    let measures = measured.compare(&modelled);
    if flags.json {
        let report = Report { reply: "calibrate", card: &out, measures: &measures };
        print(&(serde_json::to_string_pretty(&report)? + "\n"));
    } else {
        print(&table(&measures));
        say(&format!("the card is in {0}: `eagerd --virtual 1x{0}`", as_file_argument(&out)));
    }
    Ok(())
}

/// Default path of the card file for this name.
fn default_path(name: &str) -> PathBuf {
    PathBuf::from(format!("{name}.toml"))
}

/// Finds errors of the path before the measurement, which takes minutes.
fn check_place(out: &Path) -> anyhow::Result<()> {
    let shown = out.display();
    ensure!(out.symlink_metadata().is_err(), "{shown} exists already: name another file, or move it away");
    as_card_entry(out)?;
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let writable = tempfile::tempfile_in(folder);
    writable.map(drop).map_err(|error| anyhow!("card file {shown}: cannot be written: {}", error.kind()))
}

/// Writes the card file without overwriting an existing one.
fn write_new(out: &Path, file: &str) -> std::io::Result<()> {
    File::create_new(out)?.write_all(file.as_bytes())
}

/// Returns the path of a card file in the form for a list of cards.
fn as_card_entry(out: &Path) -> anyhow::Result<String> {
    let path = std::path::absolute(out)?;
    let text = path.to_str().filter(|text| !text.contains(',')).map(str::to_owned);
    text.with_context(|| format!("{}: the path of a card file must not contain a comma", path.display()))
}

/// Returns the path in a form that is recognised as a file and not as a card's name.
fn as_file_argument(out: &Path) -> String {
    let text = out.display().to_string();
    if text.contains('/') || text.ends_with(".toml") { text } else { format!("./{text}") }
}

fn read(text: &str) -> anyhow::Result<Measured> {
    Measured::read(text).map_err(|error| anyhow!("the calibration program's output: {error}"))
}

/// Compiles the program with the eagercc beside this executable.
fn compile_program(executable: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let (source, program) = (folder.join("calibrate.cu"), folder.join("calibrate"));
    std::fs::write(&source, SOURCE).with_context(|| source.display().to_string())?;
    let compiler = executable.with_file_name("eagercc");
    let mut command = Command::new(&compiler);
    command.args(["-O2", "--eager-no-instrument"]).arg(&source).arg("-o").arg(&program);
    let output = command.output().with_context(|| format!("cannot run {}", compiler.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().next().unwrap_or("it printed no message").to_owned();
    ensure!(output.status.success(), "eagercc cannot make the calibration program ({said}): give --program");
    Ok(program)
}

fn words(flags: &CalibrateFlags, rounds: u64) -> Vec<OsString> {
    [flags.mib, rounds, flags.work].iter().map(|number| number.to_string().into()).collect()
}

/// Command that runs the program on virtual GPUs, with each measure taken `rounds` times.
fn on_virtual(program: &Path, flags: &CalibrateFlags, cards: &str, rounds: u64) -> anyhow::Result<Command> {
    let mut words: Vec<OsString> = std::iter::once(program.into()).chain(words(flags, rounds)).collect();
    // Another process would get virtual GPUs of its own, so time slices cannot be measured.
    words.push("alone".into());
    let mut command = run::prepare(&RunFlags::alone(words, Some(cards.to_owned()), None))?;
    // Launch times of this machine's CPU are unrelated to the card, and on a slow machine hide the time of a page
    // fault.
    command.env(ENV_VGPU_CLOCK, "virtual").env(ENV_VGPU_HOST_FACTOR, "0").env_remove(ENV_VGPU_TIME_SCALE);
    Ok(command)
}

/// Command that runs the program on the machine's own GPU.
fn on_gpu(program: &Path, flags: &CalibrateFlags, executable: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new(program);
    command.args(words(flags, flags.rounds)).env(ENV_DISABLE, "1");
    // Adds NVIDIA's runtime to the search path, for machines where it is not installed.
    let variable = |name: &str| std::env::var_os(name);
    let surroundings = Surroundings { variable: &variable, executable, cuda_path: None, cuda_version: None };
    if let Ok(toolchain) = Toolchain::find(&surroundings, Needs { cuda: true, ..Needs::default() }) {
        let path = std::env::var_os("LD_LIBRARY_PATH").filter(|path| !path.is_empty());
        let known = path.iter().flat_map(std::env::split_paths);
        command.env("LD_LIBRARY_PATH", std::env::join_paths(known.chain([toolchain.cuda.join("lib")]))?);
    }
    Ok(command)
}

/// Runs the program and returns its output. Its first line describes the device; if `refuse` rejects the device,
/// nothing is measured.
fn run_program(
    mut command: Command,
    refuse: impl FnOnce(&Measured) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    let program = PathBuf::from(command.get_program());
    let cannot_run = || format!("cannot run {}", program.display());
    let mut errors = tempfile::tempfile().with_context(cannot_run)?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors.try_clone().with_context(cannot_run)?);
    let mut child = command.spawn().with_context(cannot_run)?;
    let mut out = BufReader::new(child.stdout.take().with_context(cannot_run)?);
    let mut bytes = Vec::new();
    out.read_until(b'\n', &mut bytes).with_context(cannot_run)?;
    // If the first line is no device, the error is reported at the end, with all output of the program.
    let device = Measured::read(&String::from_utf8_lossy(&bytes)).ok();
    if let Err(why) = device.as_ref().map_or(Ok(()), refuse) {
        let _ = child.kill();
        let _ = child.wait();
        return Err(why);
    }
    out.read_to_end(&mut bytes).with_context(cannot_run)?;
    let status = child.wait().with_context(cannot_run)?;
    ensure!(status.success(), "the calibration program failed ({status}): {}", last_line(&mut errors));
    String::from_utf8(bytes).context("the calibration program's output")
}

fn last_line(errors: &mut File) -> String {
    let mut bytes = Vec::new();
    let read = errors.rewind().and_then(|()| errors.read_to_end(&mut bytes));
    let said = String::from_utf8_lossy(&bytes);
    read.ok().and_then(|_| said.lines().last()).unwrap_or("it printed no message").to_owned()
}

fn table(measures: &[Comparison]) -> String {
    let mut text = format!(
        "{:<26} {:>14} {:>12} {:>8} {:>12} {:>6}\n",
        "measure", "amount", "measured ms", "spread", "modelled ms", "ratio"
    );
    for row in measures {
        text += &format!(
            "{:<26} {:>14} {:>12.4} {:>7.1}% {:>12.4} {:>6.2}\n",
            row.measure,
            row.amount,
            row.measured_ms,
            row.spread * 100.0,
            row.modelled_ms,
            row.modelled_ms / row.measured_ms
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_stand_beside_the_models() {
        let row = Comparison {
            measure: "prefetch".into(),
            amount: 268_435_456,
            measured_ms: 5.0,
            spread: 0.012,
            modelled_ms: 5.5,
        };
        let shown = table(&[row]);
        let row: Vec<&str> = shown.lines().nth(1).expect("a row").split_whitespace().collect();
        assert_eq!(row, ["prefetch", "268435456", "5.0000", "1.2%", "5.5000", "1.10"]);
    }
}
