//! `eager-eval demo`: the main job from end to end, for a person who watches.
//!
//! Trap: its exit code is a promise: zero only if every job of every policy ended with a verified output.

use crate::programs::Programs;
use crate::record::{self, Outcome, Record, Stamp, WorkloadStamp};
use crate::tools::Tools;
use crate::virtual_run::{JobSpec, Setting};
use crate::workload::{Choice, WorkloadArgs};
use crate::{profile, report, sim_run, stamp, summary, table, virtual_run};
use anyhow::{Context, Result, bail};
use clap::Args;
use eager_core::PolicyName;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longer than any scaled job takes on two cores shared by all of them.
const JOB_TIMEOUT: Duration = Duration::from_secs(300);

/// Options of the demo; the defaults are the published setting, scaled to a laptop.
#[derive(Debug, Args)]
pub struct DemoArgs {
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// Folder of the artefacts
    #[arg(long, value_name = "DIR", default_value = "target/demo")]
    pub out: PathBuf,
    /// Virtual devices, as for `eagerd --virtual`
    #[arg(long, default_value = "4xV100-16GB")]
    pub cards: String,
    /// Policies for real processes
    #[arg(long, value_delimiter = ',', default_value = "case,eager-opt")]
    pub policies: Vec<PolicyName>,
    /// Folder of the programs' sources
    #[arg(long, value_name = "DIR", default_value = "rodinia")]
    pub sources: PathBuf,
}

/// Runs it; an error if any job was lost or any output was wrong.
pub fn run(args: &DemoArgs) -> Result<()> {
    let tools = Tools::find()?;
    let (workload, choices) = args.workload.choose()?;
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot create {}", args.out.display()))?;
    let out = args.out.canonicalize().with_context(|| format!("cannot resolve {}", args.out.display()))?;
    let records_path = out.join("records.jsonl");
    let _ = std::fs::remove_file(&records_path);
    let stamp = stamp::stamp();
    println!("Eager demo: {}, {} virtual GPUs ({})", workload.name, count(&args.cards), args.cards);

    let jobs = prepare(&tools, args, &choices, &out)?;
    let mut records = Vec::new();
    for policy in &args.policies {
        let record = real_run(&tools, args, *policy, &workload, &jobs, &stamp, &out)?;
        record::append(&records_path, &record)?;
        records.push(record);
    }
    print_real(&records);
    for record in simulate(args, &workload, &choices, &stamp)? {
        record::append(&records_path, &record)?;
        records.push(record);
    }
    let summary = summary::summarize(&records);
    print_sim(&records, &summary);
    let summary_path = out.join("summary.json");
    std::fs::write(&summary_path, serde_json::to_string_pretty(&summary)? + "\n")
        .with_context(|| format!("cannot write {}", summary_path.display()))?;
    let report_path = out.join("report.html");
    report::write(&report_path, &records, &summary)?;
    println!("\nReport: {}", report_path.display());
    verdict(&records)
}

/// Builds programs, makes inputs, and measures each configuration's footprints alone.
fn prepare(tools: &Tools, args: &DemoArgs, choices: &[Choice], out: &Path) -> Result<Vec<JobSpec>> {
    let bar = progress(eager_rodinia::programs().len(), "building with eagercc");
    let programs = Programs::build(tools, &args.sources, out, |name| {
        bar.set_message(name.to_string());
        bar.inc(1);
    })?;
    bar.finish_with_message("done");

    let distinct: BTreeMap<String, Choice> = choices.iter().map(|choice| (choice.id(), *choice)).collect();
    let card = card_name(&args.cards)?;
    let bar = progress(distinct.len(), "measuring footprints alone");
    let mut profiles = BTreeMap::new();
    for (id, choice) in &distinct {
        bar.set_message(id.clone());
        let path = profile::measure(tools, &programs, choice.program, choice.configuration, card, out)?;
        profiles.insert(id.clone(), path);
        bar.inc(1);
    }
    bar.finish_with_message("done");

    let spec = |choice: &Choice| {
        Ok(JobSpec {
            configuration: choice.id(),
            size_class: choice.size_class(),
            program: programs.binary(choice.program),
            args: programs.scaled_arguments(choice.configuration)?,
            profile: profiles.get(&choice.id()).cloned(),
        })
    };
    choices.iter().map(spec).collect()
}

fn real_run(
    tools: &Tools,
    args: &DemoArgs,
    policy: PolicyName,
    workload: &WorkloadStamp,
    jobs: &[JobSpec],
    stamp: &Stamp,
    out: &Path,
) -> Result<Record> {
    let setting = Setting {
        experiment: "demo".to_string(),
        policy: policy.to_string(),
        cards: args.cards.clone(),
        memory_scale: eager_rodinia::MEMORY_SCALE,
        time_scale: 0.0,
        repetition: 0,
        folder: virtual_run::folder(out, policy.as_str(), 0),
        job_timeout: JOB_TIMEOUT,
    };
    let bar = progress(jobs.len(), &format!("real processes under {policy}"));
    let record = virtual_run::run(tools, &setting, workload.clone(), jobs, stamp, |job| {
        bar.set_message(job.configuration.clone());
        bar.inc(1);
    })?;
    bar.finish_with_message("done");
    Ok(record)
}

fn simulate(
    args: &DemoArgs,
    workload: &WorkloadStamp,
    choices: &[Choice],
    stamp: &Stamp,
) -> Result<Vec<Record>> {
    let bar = progress(PolicyName::ALL.len(), "simulating at full size");
    let mut records = Vec::new();
    for policy in PolicyName::ALL {
        bar.set_message(policy.to_string());
        records.push(sim_run::run("demo", policy, &args.cards, workload, choices, stamp)?);
        bar.inc(1);
    }
    bar.finish_with_message("done");
    Ok(records)
}

fn print_real(records: &[Record]) {
    for record in records {
        println!(
            "\nReal processes under {}, memory at 1/{}; kernels run on the CPU: correctness, not speed",
            record.policy, record.memory_scale
        );
        let rows: Vec<Vec<String>> = record
            .jobs
            .iter()
            .map(|job| {
                vec![
                    job.configuration.clone(),
                    job.size_class.clone(),
                    job.device.map_or("-".to_string(), |d| d.to_string()),
                    job.classes.join("+"),
                    table::size(job.requirement_bytes),
                    table::size(job.grant_bytes),
                    table::seconds(job.wait_s),
                    if job.verified { "verified".to_string() } else { format!("{:?}", job.outcome) },
                ]
            })
            .collect();
        let header = ["job", "size", "GPU", "class", "requirement", "grant", "wait", "output"];
        print!("{}", table::render(&header, &rows));
    }
}

fn print_sim(records: &[Record], summary: &summary::Summary) {
    println!("\nThe same jobs at full size, simulated (modelled, not measured)");
    let sim = records.iter().filter(|r| r.backend == record::Backend::Sim);
    let policies: Vec<&str> = sim.map(|r| r.policy.as_str()).collect();
    print!("{}", table::render(&report::SIM_HEADER, &report::sim_rows(&policies, summary)));
}

/// Every job of every record must have ended well.
fn verdict(records: &[Record]) -> Result<()> {
    let bad: Vec<String> = records
        .iter()
        .flat_map(|record| {
            let bad = record.jobs.iter().filter(|job| job.outcome != Outcome::Ok);
            bad.map(|job| format!("{} under {}: {:?}", job.configuration, record.policy, job.outcome))
        })
        .collect();
    if bad.is_empty() {
        return Ok(());
    }
    bail!("{} jobs lost or wrong:\n{}", bad.len(), bad.join("\n"))
}

fn progress(steps: usize, what: &str) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64);
    let style = ProgressStyle::with_template("{prefix:32} [{bar:30}] {pos}/{len} {elapsed} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
    bar.set_prefix(what.to_string());
    bar
}

/// `V100-16GB` of `4xV100-16GB,…`: footprints are measured on the first card.
fn card_name(cards: &str) -> Result<&str> {
    let first = cards.split(',').next().unwrap_or(cards);
    first.split_once('x').map(|(_, name)| name).context("cards are written COUNTxNAME, such as 4xV100-16GB")
}

fn count(cards: &str) -> u64 {
    cards.split(',').filter_map(|part| part.split_once('x')?.0.parse::<u64>().ok()).sum()
}
