//! `eager-eval`: runs job lists in the simulator and on virtual GPUs, keeps every record, and draws the report.
//!
//! Exit code 1 means that a job was lost or wrong, or that something could not run; 2 is bad usage.
#![forbid(unsafe_code)]

mod compare;
mod demo;
mod experiment;
mod footprints;
mod gantt;
mod html;
mod machine;
mod parallel;
mod pictures;
mod plot;
mod profile;
mod programs;
mod progress;
mod record;
mod report;
mod sim_run;
mod stamp;
mod summary;
mod table;
mod theme;
mod tools;
mod typical;
mod virtual_run;
mod workload;

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Evaluate Eager: the same jobs under several policies, simulated or as real processes on virtual GPUs.
#[derive(Debug, Parser)]
#[command(name = "eager-eval", version = eager_version::LONG)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The main job: build, run and verify real processes, simulate at full size, write a report
    Demo(demo::DemoArgs),
    /// Real processes on virtual GPUs only
    Virtual(demo::DemoArgs),
    /// The same list simulated and as real processes on a virtual clock, job by job
    Compare(compare::CompareArgs),
    /// Full-size simulation only
    Sim(demo::SimArgs),
    /// The source document's footprint table (specification S-221), measured on a virtual GPU
    Footprints(footprints::FootprintArgs),
    /// Draw the book's pictures of the policies: one small list, simulated under each
    Pictures(pictures::PictureArgs),
    /// Draw the report again from DIR/records.jsonl, or that of an experiment from DIR/samples.jsonl
    Report {
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// The experiment whose samples they are
        #[arg(long, value_name = "NAME|FILE")]
        experiment: Option<String>,
        /// Put the experiment's tables into this Markdown page, where it has marks for them (may be repeated)
        #[arg(long, value_name = "PAGE", requires = "experiment")]
        fill: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    let manuals = |share: &Path| eager_manuals::write(Cli::command(), 1, share);
    if let Some(code) = eager_manuals::requested(std::env::args_os().skip(1), manuals) {
        return code;
    }
    let result = match Cli::parse().command {
        Command::Demo(args) => demo::run(&args, demo::Parts::All),
        Command::Virtual(args) => demo::run(&args, demo::Parts::RealOnly),
        Command::Compare(args) => compare::run(&args),
        Command::Sim(args) => demo::run_sim(&args),
        Command::Footprints(args) => footprints::run(&args),
        Command::Pictures(args) => pictures::run(&args),
        Command::Report { folder, experiment: Some(name), fill } => experiment::redraw(&name, &folder, &fill),
        Command::Report { folder, .. } => redraw(&folder),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("eager-eval: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn redraw(folder: &std::path::Path) -> Result<()> {
    let records = record::read(&folder.join("records.jsonl"))?;
    let path = folder.join("report.html");
    let mut summary = summary::summarize(&records);
    summary.typical = summary::typical_of(&folder.join("summary.json"))?;
    report::write(&path, &records, &summary).context("drawing the report")?;
    println!("Report: {}", path.display());
    Ok(())
}
