//! Fuzzes the compiler plugin with mutated modules, for a time or a number of mutants.
//!
//! `cargo run -p eager-tests --bin fuzz-plugin -- --seconds 600 [--first N] [--jobs N] [--keep DIR]`. To repeat a
//! failure, pass the number of its mutant as `--first`, with `--mutants 1`. Trap: the plugin is the one beside this
//! program, so build it first (`cargo build -p eager-pass`).
#![forbid(unsafe_code)]

use eager_tests::bin_dir;
use eager_tests::fuzz::{fuzz, seeds};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

struct Flags {
    seconds: Option<u64>,
    mutants: Option<u64>,
    first: u64,
    jobs: usize,
    keep: PathBuf,
}

fn flags(mut words: impl Iterator<Item = String>) -> Result<Flags, String> {
    let mut flags =
        Flags { seconds: None, mutants: None, first: 0, jobs: 1, keep: bin_dir().join("fuzz-crashers") };
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|e| format!("{word} {value}: {e}"));
        match word.as_str() {
            "--seconds" => flags.seconds = Some(number()?),
            "--mutants" => flags.mutants = Some(number()?),
            "--first" => flags.first = number()?,
            "--jobs" => flags.jobs = usize::try_from(number()?.max(1)).map_err(|e| e.to_string())?,
            "--keep" => flags.keep = value.into(),
            _ => return Err(format!("{word} is none of --seconds, --mutants, --first, --jobs, --keep")),
        }
    }
    if flags.seconds.is_none() && flags.mutants.is_none() {
        return Err("say how long: --seconds N or --mutants N".to_owned());
    }
    Ok(flags)
}

fn main() -> ExitCode {
    let flags = match flags(std::env::args().skip(1)) {
        Ok(flags) => flags,
        Err(error) => {
            eprintln!("fuzz-plugin: {error}");
            return ExitCode::from(2);
        }
    };
    let folder = tempfile::tempdir().expect("scratch folder");
    let seeds = seeds(folder.path(), 8);
    let start = Instant::now();
    let go_on = |done: u64| {
        flags.mutants.is_none_or(|limit| done < limit)
            && flags.seconds.is_none_or(|limit| start.elapsed() < Duration::from_secs(limit))
    };
    let tally = fuzz(&seeds, flags.first, flags.jobs, &flags.keep, &go_on);
    println!(
        "{} mutants from number {} of {} modules in {:.0} s: {} were no valid IR, {} refused with a message, {} failures",
        tally.mutants,
        flags.first,
        seeds.len(),
        start.elapsed().as_secs_f64(),
        tally.invalid,
        tally.refused,
        tally.failures.len()
    );
    tally.failures.iter().for_each(|failure| println!("{failure}"));
    if tally.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
