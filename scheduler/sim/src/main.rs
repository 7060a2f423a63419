//! `eager-sim`: runs a workload file in the simulator, or replays a journal through the current scheduler core.
//!
//! Trap: all times printed are modelled, and the first line of every report must say so.
#![forbid(unsafe_code)]

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser, Subcommand};
use eager_core::PolicyName;
use eager_plainly::{FileError, Words};
use eager_sim::job::Workload;
use eager_sim::{Outcome, SimOptions, SimResult, Submission, replay, swarm};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Simulates GPU sharing in virtual time. All results are modelled, none is measured.
#[derive(Parser)]
#[command(name = "eager-sim", version = eager_version::LONG)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the jobs of a workload file (JSON) under one policy.
    Run(RunArguments),
    /// Step a journal of eagerd or of `run --journal` through this build's core and compare every decision: all its
    /// pieces by its name or its folder, or one piece.
    Replay { journal: PathBuf },
    /// Compare the GPU model with published measurements, as a Markdown table.
    Checks,
    /// Draw machines, policies, lying programs and kills from seeds, and check every rule in each run.
    Swarm {
        /// Only this seed.
        #[arg(long, conflicts_with_all = ["from", "runs"])]
        seed: Option<u64>,
        /// The first seed.
        #[arg(long, default_value_t = 1)]
        from: u64,
        /// How many seeds.
        #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
        runs: u64,
    },
}

fn policy_help() -> String {
    format!("How to decide. A task starts{}", PolicyName::help(&PolicyName::ALL))
}

#[derive(clap::Args)]
struct RunArguments {
    workload: PathBuf,
    #[arg(long, default_value = "eager-fair", help = policy_help())]
    policy: PolicyName,
    /// Cards, such as 4xV100-16GB,1xH200.
    #[arg(long, default_value = "4xV100-16GB")]
    devices: String,
    /// Contexts share the device by time slices instead of MPS.
    #[arg(long)]
    no_mps: bool,
    /// Host cores for the jobs' host phases.
    #[arg(long, default_value_t = 40)]
    cores: u32,
    /// Jobs in progress at once; default: all.
    #[arg(long)]
    workers: Option<u32>,
    /// Memory that may be granted on each device, in MiB, the last one for all further; default: all of it.
    #[arg(long, value_name = "MIB", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..1 << 40))]
    device_memory_mib: Vec<u64>,
    /// Print every event and decision with its reason.
    #[arg(long)]
    trace: bool,
    /// Print the whole result as JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Write the scheduler's journal to this file.
    #[arg(long)]
    journal: Option<PathBuf>,
}

fn main() -> ExitCode {
    let manuals = |share: &Path| eager_manuals::write(Arguments::command(), 1, share);
    if let Some(code) = eager_manuals::requested(std::env::args_os().skip(1), manuals) {
        return code;
    }
    match carry_out(Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("eager-sim: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn carry_out(arguments: Arguments) -> Result<bool> {
    match arguments.command {
        Command::Run(run) => simulate(&run),
        Command::Checks => Ok(print_checks()),
        Command::Swarm { seed: Some(seed), .. } => Ok(swarm_all(seed, 1)),
        Command::Swarm { seed: None, from, runs } => Ok(swarm_all(from, runs)),
        Command::Replay { journal } => match replay::replay_pieces(&journal) {
            Ok(replay::Replayed { pieces: 1, steps, .. }) => {
                println!("{}: {steps} steps, all decided the same", journal.display());
                Ok(true)
            }
            Ok(replay::Replayed { pieces, steps, gaps }) => {
                let breaks =
                    if gaps == 0 { String::new() } else { format!(" with {gaps} gaps between them") };
                println!(
                    "{}: {steps} steps in {pieces} pieces{breaks}, all decided the same",
                    journal.display()
                );
                Ok(true)
            }
            Err(error @ (replay::Divergence::Replay(_) | replay::Divergence::In { .. })) => {
                eprintln!("eager-sim: {error}");
                Ok(false)
            }
            Err(error) => Err(error.into()),
        },
    }
}

/// Prints the model's checks. Returns false if the model misses a measurement that it is not known to miss.
fn print_checks() -> bool {
    let results = eager_gpu_model::checks::run_all();
    print!("{}", eager_gpu_model::checks::markdown(&results));
    results.iter().all(|(check, value)| check.agrees(*value) == check.known_miss.is_none())
}

/// Runs all seeds. Returns false if any failed, after printing the command that repeats it.
fn swarm_all(from: u64, runs: u64) -> bool {
    let mut failed = 0;
    let (mut jobs, mut ended) = (0, 0);
    for seed in from..from.saturating_add(runs) {
        match swarm::run(seed) {
            Ok(result) => {
                jobs += result.jobs.len();
                ended += result.jobs.iter().filter(|job| job.outcome == Outcome::Done).count();
            }
            Err(error) => {
                failed += 1;
                eprintln!("eager-sim: {error}\n  repeat with: eager-sim swarm --seed {seed}");
            }
        }
    }
    println!("{runs} swarm runs, {failed} failed; {ended} of {jobs} jobs ran to their end");
    failed == 0
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Parses a workload. An error names the place and the values allowed there.
fn workload(path: &Path, text: &str) -> Result<Workload> {
    let words = Words {
        noun: "key",
        unknown: "there is no key",
        others: "docs/research.md lists them",
        elsewhere: Vec::new(),
    };
    eager_plainly::parse_json(text, &words).map_err(|FileError { line, column, message, .. }| {
        anyhow::anyhow!("{}:{line}:{column}: {message}", path.display())
    })
}

fn simulate(arguments: &RunArguments) -> Result<bool> {
    let text = read(&arguments.workload)?;
    let workload = workload(&arguments.workload, &text)?;
    let cards = eager_gpu_model::parse_cards(&arguments.devices)?;
    let mut options = SimOptions::new(cards, arguments.policy);
    if arguments.no_mps {
        options.model.mps = false;
        options.scheduler.context_bytes = eager_units::Bytes(options.model.context_memory());
    }
    options.host_cores = arguments.cores;
    if let Some(workers) = arguments.workers {
        options.submission = Submission::Workers(workers);
    }
    options.device_memory_bytes = arguments.device_memory_mib.iter().map(|mib| mib << 20).collect();
    options.trace = arguments.trace;
    options.journal = arguments.journal.is_some();
    let result = eager_sim::run(&workload.jobs, &options)?;
    if let (Some(path), Some(journal)) = (&arguments.journal, &result.journal) {
        std::fs::write(path, journal.write()?).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if arguments.json {
        println!("{}", serde_json::to_string(&result)?);
    } else {
        print_table(&workload.name, &result);
    }
    Ok(result.all_done())
}

fn print_table(name: &str, result: &SimResult) {
    for line in &result.trace {
        println!("{line}");
    }
    println!("modelled, not measured: workload {name}, policy {}", result.policy);
    println!(
        "{:<24} {:>3} {:>10} {:>10} {:>10} {:>10} {:>9}  outcome",
        "job", "gpu", "wait", "held", "kernels", "end", "class"
    );
    for job in &result.jobs {
        let class = job.classes.last().map(|(_, class)| class.to_string()).unwrap_or_default();
        let device = job.device.map(|device| device.to_string()).unwrap_or_default();
        println!(
            "{:<24} {device:>3} {:>10} {:>10} {:>10} {:>10} {class:>9}  {:?}",
            job.name, job.wait, job.held, job.kernels, job.end, job.outcome
        );
    }
    println!(
        "makespan {}, from the last request {}; {} eager, {} promoted, {} out of memory; {} paged",
        result.makespan,
        result.ask_makespan,
        result.eager_launches,
        result.promotions,
        result.oom_errors,
        eager_units::Bytes(result.bytes_paged())
    );
}
