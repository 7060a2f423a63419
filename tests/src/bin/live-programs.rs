//! Runs random programs under policy `eager-live` and alone, and compares their output.
//!
//! `cargo run -p eager-tests --bin live-programs -- --count 10000 [--seed N] [--batch N] [--jobs N] [--keep DIR]`. To
//! repeat a failed batch, pass its seed as `--seed`, the same `--batch`, and its number of programs as `--count`. Trap:
//! it runs the executables beside it, so build them first (`cargo build --workspace`).
#![forbid(unsafe_code)]

use eager_tests::live::{Batch, Kind, Tally, batches};
use eager_tests::{bin_dir, daemon::Daemon, has_toolchain};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;

struct Flags {
    count: usize,
    seed: u64,
    batch: usize,
    jobs: usize,
    only: Option<Kind>,
    keep: PathBuf,
}

fn flags(mut words: impl Iterator<Item = String>) -> Result<Flags, String> {
    let keep = bin_dir().join("failed-live-programs");
    let mut flags = Flags { count: 0, seed: 1, batch: 100, jobs: 1, only: None, keep };
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word} needs a value"))?;
        let number = || value.parse::<usize>().map_err(|e| format!("{word} {value}: {e}"));
        match word.as_str() {
            "--count" => flags.count = number()?,
            "--seed" => flags.seed = value.parse().map_err(|e| format!("{word} {value}: {e}"))?,
            "--batch" => flags.batch = number()?.max(1),
            "--jobs" => flags.jobs = number()?.max(1),
            "--only" if value == "contents" => flags.only = Some(Kind::Contents),
            "--only" if value == "paths" => flags.only = Some(Kind::Paths),
            "--only" => return Err(format!("--only {value}: it is contents or paths")),
            "--keep" => flags.keep = value.into(),
            _ => return Err(format!("{word} is none of --count, --seed, --batch, --jobs, --only, --keep")),
        }
    }
    if flags.count == 0 { Err("say how many programs: --count N".to_owned()) } else { Ok(flags) }
}

fn main() -> ExitCode {
    let flags = match flags(std::env::args().skip(1)) {
        Ok(flags) => flags,
        Err(error) => {
            eprintln!("live-programs: {error}");
            return ExitCode::from(2);
        }
    };
    if !has_toolchain("live programs") {
        return ExitCode::from(2);
    }
    if let Err(error) = std::fs::create_dir_all(&flags.keep) {
        eprintln!("live-programs: {}: {error}", flags.keep.display());
        return ExitCode::from(2);
    }
    let (tally, failures) = check_all(&flags);
    println!(
        "{} programs in {} runs under eager-live, {} buffers declared dead before they were freed, {} believed dead: {} \
         batches failed",
        tally.programs,
        tally.runs,
        tally.declared_dead,
        tally.believed,
        failures.len()
    );
    failures.iter().for_each(|failure| println!("{failure}"));
    if failures.is_empty() && tally.declared_dead > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Checks all batches, `jobs` at a time under one daemon; returns the counts and every failure.
fn check_all(flags: &Flags) -> (Tally, Vec<String>) {
    let mut todo = batches(flags.seed, flags.count, flags.batch);
    if let Some(kind) = flags.only {
        todo.iter_mut().for_each(|batch| batch.kind = kind);
    }
    todo.reverse();
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0", "--policy", "eager-live"]);
    let (todo, seen) = (Mutex::new(todo), Mutex::new((Tally::default(), Vec::new())));
    let one = || {
        while let Some(batch) = { todo.lock().expect("batches").pop() } {
            let checked = batch.check(&daemon, &flags.keep);
            let mut seen = seen.lock().expect("tally");
            note(&mut seen, batch, checked);
        }
    };
    std::thread::scope(|scope| (0..flags.jobs).for_each(|_| drop(scope.spawn(one))));
    seen.into_inner().expect("tally")
}

fn note((tally, failures): &mut (Tally, Vec<String>), batch: Batch, checked: Result<Tally, String>) {
    match checked {
        Ok(seen) => {
            tally.add(&seen);
            println!("seed {} {:?}: {} programs right", batch.seed, batch.kind, batch.programs);
        }
        Err(failure) => {
            println!("{failure}");
            failures.push(failure);
        }
    }
}
