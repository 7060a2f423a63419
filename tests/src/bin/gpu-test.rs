//! Checks Eager on a GPU, from a bundle's folder; prints one table at the end and writes a record.
//!
//! Without a GPU it prints `SKIPPED` and exits with 0. Trap: start it through the bundle's `run.sh`, which puts the
//! bundle's libraries first.
#![forbid(unsafe_code)]

use clap::Parser;
use eager_tests::gpu::bundle::{Bundle, Devices};
use eager_tests::gpu::choice::Sizes;
use eager_tests::gpu::kept::Kept;
use eager_tests::gpu::machine::{Absent, Gpu};
use eager_tests::gpu::record::{Record, Row, SCHEMA, failed, table};
use eager_tests::gpu::suite::{Choice, STEPS, beside, check, run};
use eager_units::Size;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Checks Eager on a GPU: results, cost, faults. Needs an NVIDIA GPU of compute capability 9.0 or newer, driver 580 or
/// newer. Without one it says SKIPPED.
#[derive(Debug, Parser)]
#[command(name = "gpu-test", version, override_usage = "run.sh [OPTIONS]")]
struct Flags {
    /// The bundle's folder, as `run.sh` gives it
    #[arg(hide = true)]
    bundle: PathBuf,
    /// Where the record goes; what is there already is not written over
    #[arg(long, value_name = "FILE", default_value = "gpu-test.json")]
    out: PathBuf,
    /// Only these: alone, conformance, corpus, pairs, mix, overhead, calls, footprints, faults, driver, calibrate
    #[arg(long, value_name = "STEP,…", value_delimiter = ',', value_parser = step)]
    only: Vec<String>,
    /// How large the programs are in pairs, in the mix and for their overhead
    #[arg(long, default_value = "medium")]
    sizes: Sizes,
    /// Of comparisons, each with one run of either
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// The GPU, as nvidia-smi counts
    #[arg(long, value_name = "N", default_value_t = 0)]
    gpu: u32,
    /// What the scheduler may give away at most; pairs get less, so that both do not fit
    #[arg(long, value_name = "SIZE", default_value = "16GiB")]
    device_memory: Size,
    /// No further step begins after this time
    #[arg(long, value_name = "S", default_value_t = 1800)]
    seconds: u64,
    /// The longest that one program may take
    #[arg(long, value_name = "S", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    program_seconds: u64,
}

fn step(word: &str) -> Result<String, String> {
    match STEPS.iter().any(|(name, _)| *name == word) {
        true => Ok(word.to_owned()),
        false => Err(format!("the steps are {}", STEPS.map(|(name, _)| name).join(", "))),
    }
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let bundle = match Bundle::open(&flags.bundle) {
        Ok(bundle) => bundle,
        Err(error) => return refused(&error),
    };
    let usable = |gpu: Gpu| check(&gpu).map(|()| gpu).map_err(Absent::Gpu);
    let gpu = match Gpu::open(flags.gpu).and_then(usable) {
        Ok(gpu) => gpu,
        Err(Absent::Chosen(why)) => return refused(&why),
        Err(Absent::Gpu(why)) => {
            println!("SKIPPED: gpu-test: {why}. Nothing was checked.");
            return ExitCode::SUCCESS;
        }
    };
    match checked(&flags, &bundle, &gpu) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => refused(&error),
    }
}

fn refused(error: &str) -> ExitCode {
    eprintln!("gpu-test: {error}");
    ExitCode::from(2)
}

/// Runs the checks; returns how many failed.
fn checked(flags: &Flags, bundle: &Bundle, gpu: &Gpu) -> Result<usize, String> {
    let machine = gpu.machine()?;
    if let Some(warning) = beside(&machine) {
        eprintln!("gpu-test: {warning}");
    }
    let kept = Kept::at(&flags.out)?;
    let scratch = tempfile::tempdir().map_err(|error| format!("temporary folder: {error}"))?;
    let choice = Choice {
        only: flags.only.clone(),
        sizes: flags.sizes,
        rounds: flags.rounds.into(),
        capacity: flags.device_memory.0,
        limit: Duration::from_secs(flags.program_seconds),
        budget: Duration::from_secs(flags.seconds),
    };
    let devices: Devices = bundle.contents.devices;
    let keep = |rows: &[Row], whole| {
        let arguments = std::env::args().skip(1).collect();
        let bundle = &bundle.contents;
        kept.write(&Record { schema: SCHEMA, devices, machine: &machine, bundle, arguments, whole, rows })
    };
    let so_far = |rows: &[Row]| {
        if let Err(why) = keep(rows, false) {
            eprintln!("gpu-test: the record so far is not kept: {why}");
        }
    };
    let rows = run(bundle, gpu, &choice, scratch.path(), so_far);
    print!("{}", table(devices, &machine.line(), &rows));
    keep(&rows, true)?;
    println!("every sample: {}", flags.out.display());
    Ok(failed(&rows))
}
