//! `eager-eval demo`, `virtual`, `sim`: the main job from end to end, or one half of it, with progress for a person
//! to watch.
//!
//! Trap: scripts rely on the exit code: zero only if every job of every policy ended with a verified output.

use crate::experiment::{self, System};
use crate::machine::MachineArgs;
use crate::programs::Programs;
use crate::progress::Stage;
use crate::record::{self, Backend, Clock, HostWork, Outcome, Record, WorkloadStamp};
use crate::tools::Tools;
use crate::typical::{self, Typical};
use crate::virtual_run::{Front, JobSpec, Setting};
use crate::workload::{Choice, WorkloadArgs};
use crate::{parallel, profile, report, sim_run, stamp, summary, table, virtual_run};
use anyhow::{Context, Result, bail};
use clap::Args;
use eager_core::PolicyName;
use eager_measure::Stamp;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Options of the demo; the defaults are the published setting, scaled to a laptop.
#[derive(Debug, Args)]
pub struct DemoArgs {
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// Folder of the artefacts
    #[arg(long, value_name = "DIR", default_value = "target/demo")]
    pub out: PathBuf,
    /// Virtual devices, as for `eagerd --virtual`
    #[arg(long, default_value = "4xV100-16GB", value_parser = eager_gpu_model::card_list)]
    pub cards: String,
    /// Policies for real processes
    #[arg(long, value_delimiter = ',', default_value = "case,eager-opt,eager-live", value_parser = virtual_run::policy)]
    pub policies: Vec<PolicyName>,
    /// What time is for real processes: modelled, or this machine's
    #[arg(long, value_enum, default_value_t = Clock::Virtual)]
    pub clock: Clock,
    /// Whose host work takes time on a virtual clock: that of the full-size programs, as stated, or what the scaled ones are
    /// measured to take
    #[arg(long, value_enum, default_value_t = HostWork::Stated)]
    pub host_work: HostWork,
    /// How the programs were built, and who says what memory they need
    #[arg(long, value_enum, default_value_t = Front::Compiled)]
    pub front: Front,
    /// Folder of the programs' sources
    #[arg(long, value_name = "DIR", default_value = "rodinia")]
    pub sources: PathBuf,
}

/// Options of a simulation alone.
#[derive(Debug, Args)]
pub struct SimArgs {
    /// A whole experiment in place of one list: `paper`, `live`, `live-mixes`, `fair`, or a file of that form, which
    /// docs/reference/experiments.md explains
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = ["workload", "jobs", "ratio", "seed", "cards", "policies",
        "workers", "arrival_mean_s", "host_cores", "host_memory_gib", "device_memory_mib", "no_mps"])]
    pub experiment: Option<String>,
    /// Put the experiment's tables into this Markdown page, where it has marks for them (may be repeated)
    #[arg(long, value_name = "PAGE", requires = "experiment")]
    pub fill: Vec<PathBuf>,
    /// How many seeds of the experiment, from its first one on, in place of its own number
    #[arg(long, value_name = "N", requires = "experiment", value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: Option<u64>,
    #[command(flatten)]
    pub workload: WorkloadArgs,
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Folder of the artefacts
    #[arg(long, value_name = "DIR", default_value = "target/sim")]
    pub out: PathBuf,
    /// Devices, as for `eagerd --virtual`
    #[arg(long, default_value = "4xV100-16GB", value_parser = eager_gpu_model::card_list)]
    pub cards: String,
    /// Policies; all if none is named
    #[arg(long, value_delimiter = ',', help = policies_help())]
    pub policies: Vec<PolicyName>,
}

fn policies_help() -> String {
    format!("Policies; all if none is named. A task starts{}", PolicyName::help(&PolicyName::ALL))
}

/// Halves of the demo to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    All,
    RealOnly,
}

/// Runs the demo. Returns an error if any job was lost or any output was wrong.
pub fn run(args: &DemoArgs, parts: Parts) -> Result<()> {
    let tools = Tools::find()?;
    let (workload, choices) = args.workload.choose()?;
    let mut results = Results::create(&args.out)?;
    let stamp = stamp::stamp();
    println!("Eager: {}, seed {}, on virtual GPUs {}", workload.name, workload.seed, args.cards);

    let mut jobs = prepare(&tools, &args.sources, args.front, &args.cards, &choices, &results.folder)?;
    if args.host_work == HostWork::Measured {
        jobs.iter_mut().for_each(|job| job.host_times = None);
    }
    for policy in &args.policies {
        let name = args.front.of_experiment("demo");
        let setting = Setting::scaled(&name, *policy, &args.cards, &results.folder, args.clock);
        let setting = Setting { front: args.front, ..setting };
        results.add(virtual_run::run(&tools, &setting, &workload, &jobs, &stamp)?)?;
    }
    print_real(&results.records, &summary::summarize(&results.records));
    if parts == Parts::All {
        let policies = &PolicyName::ALL;
        let machine = MachineArgs::default();
        simulate(policies, "demo", &args.cards, &machine, (&workload, &choices), &stamp, &mut results)?;
        results.typical = how_typical(&args.cards, &stamp)?;
    }
    results.finish()
}

/// Runs the simulation only.
pub fn run_sim(args: &SimArgs) -> Result<()> {
    if let Some(name) = &args.experiment {
        return experiment::run(name, args.seeds, &args.out, &args.fill);
    }
    let (workload, choices) = args.workload.choose()?;
    let mut results = Results::create(&args.out)?;
    let policies = if args.policies.is_empty() { PolicyName::ALL.to_vec() } else { args.policies.clone() };
    let list = (&workload, choices.as_slice());
    simulate(&policies, "sim", &args.cards, &args.machine, list, &stamp::stamp(), &mut results)?;
    results.finish()
}

/// Records of this run, each written to disk as soon as it is made.
struct Results {
    folder: PathBuf,
    records: Vec<Record>,
    typical: Vec<Typical>,
}

impl Results {
    /// Creates the folder, and deletes the records that an earlier run left in it.
    fn create(out: &Path) -> Result<Results> {
        std::fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
        let folder = out.canonicalize().with_context(|| format!("cannot resolve {}", out.display()))?;
        let records = folder.join("records.jsonl");
        if records.exists() {
            std::fs::remove_file(&records)
                .with_context(|| format!("cannot replace {}", records.display()))?;
        }
        Ok(Results { folder, records: Vec::new(), typical: Vec::new() })
    }

    fn add(&mut self, record: Record) -> Result<()> {
        record::append(&self.folder.join("records.jsonl"), &record)?;
        self.records.push(record);
        Ok(())
    }

    /// Writes summary and report, then returns an error if any job failed.
    fn finish(self) -> Result<()> {
        let mut summary = summary::summarize(&self.records);
        summary.typical = self.typical;
        print_sim(&self.records, &summary);
        let path = self.folder.join("summary.json");
        std::fs::write(&path, serde_json::to_string_pretty(&summary)? + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
        let path = self.folder.join("report.html");
        report::write(&path, &self.records, &summary)?;
        println!("\nReport: {}", path.display());
        verdict(&self.records)
    }
}

/// Builds the programs, makes their inputs, and measures the footprints of each configuration alone, where the programs
/// are compiled with the pass: people measure a program that they compile, and run what they were given as it is.
pub fn prepare(
    tools: &Tools,
    sources: &Path,
    front: Front,
    cards: &str,
    choices: &[Choice],
    out: &Path,
) -> Result<Vec<JobSpec>> {
    let stage = Stage::begin("building with eagercc", eager_rodinia::programs().len());
    let words: &[&str] = if front == Front::Compiled { &[] } else { &["--eager-no-instrument"] };
    let programs = Programs::build(tools, sources, words, out, |name| stage.step(name))?;
    stage.end();

    let profiles = match front {
        Front::Compiled => measure_footprints(tools, &programs, cards, choices, out)?,
        Front::Declared | Front::Learnt | Front::Unsized => BTreeMap::new(),
    };
    let spec = |choice: &Choice| {
        Ok(JobSpec {
            configuration: choice.id(),
            size_class: choice.size_class(),
            program: programs.binary(choice.program),
            args: programs.scaled_arguments(choice.configuration)?,
            bytes: choice.configuration.scaled.bytes,
            profile: profiles.get(&choice.id()).cloned(),
            host_times: Some(choice.host_times()?),
        })
    };
    choices.iter().map(spec).collect()
}

/// Measures the footprints of each configuration alone, on the first card. Returns the file of each.
fn measure_footprints(
    tools: &Tools,
    programs: &Programs,
    cards: &str,
    choices: &[Choice],
    out: &Path,
) -> Result<BTreeMap<String, PathBuf>> {
    let distinct: BTreeMap<String, Choice> = choices.iter().map(|choice| (choice.id(), *choice)).collect();
    let card = eager_gpu_model::first_card(cards)?;
    let stage = Stage::begin("measuring footprints alone", distinct.len());
    let measured = Mutex::new(BTreeMap::new());
    parallel::for_each(distinct.into_iter().collect(), |(id, choice)| {
        stage.step(&id);
        let path = profile::measure(tools, programs, choice.program, choice.configuration, card, out)?;
        if let Ok(mut measured) = measured.lock() {
            measured.insert(id, path);
        }
        Ok(())
    })?;
    stage.end();
    Ok(measured.into_inner().unwrap_or_default())
}

fn simulate(
    policies: &[PolicyName],
    experiment: &str,
    cards: &str,
    machine: &MachineArgs,
    (workload, choices): (&WorkloadStamp, &[Choice]),
    stamp: &Stamp,
    results: &mut Results,
) -> Result<()> {
    let stage = Stage::begin("simulating at full size", policies.len());
    let host = sim_run::Host::new(cards, &machine.machine())?;
    for policy in policies {
        stage.step(policy.as_str());
        let submission = machine.submission(workload.seed, choices.len());
        results.add(host.run(
            experiment,
            &System::plain(*policy),
            workload,
            choices,
            submission,
            stamp,
        )?)?;
    }
    stage.end();
    Ok(())
}

fn how_typical(cards: &str, stamp: &Stamp) -> Result<Vec<Typical>> {
    let lists: u64 = typical::KINDS.iter().map(|kind| kind.seeds).sum();
    let stage = Stage::begin("simulating other lists", lists as usize);
    let one = |kind| typical::run(cards, kind, stamp, |seed| stage.step(&format!("seed {seed}")));
    let all = typical::KINDS.into_iter().map(one).collect::<Result<Vec<_>>>()?;
    stage.end();
    Ok(all)
}

fn print_real(records: &[Record], summary: &summary::Summary) {
    for record in records {
        println!("\nReal processes under {}: {}", record.policy, report::of_time(record));
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
                    table::seconds(job.ended_s),
                    job.outcome_text(),
                ]
            })
            .collect();
        let header = ["job", "size", "GPU", "class", "requirement", "grant", "wait", "ended", "output"];
        print!("{}", table::render(&header, &rows));
    }
    println!("\nReal processes, policy by policy");
    print!("{}", table::render(&report::REAL_HEADER, &report::real_rows(summary)));
}

fn print_sim(records: &[Record], summary: &summary::Summary) {
    let sim = records.iter().filter(|r| r.backend == Backend::Sim);
    let policies: Vec<&str> = sim.map(|r| r.policy.as_str()).collect();
    if policies.is_empty() {
        return;
    }
    println!("\nThe same jobs at full size, simulated (modelled, not measured)");
    print!("{}", table::render(&report::SIM_HEADER, &report::sim_rows(&policies, summary)));
    if !summary.typical.is_empty() {
        println!(
            "\nHow typical is this list? Median throughput over seeded lists and its 95 % interval, simulated"
        );
        print!("{}", table::render(&typical::HEADER, &typical::rows(&summary.typical)));
    }
}

/// Returns an error unless every job of every record ended well. Only `cg`, which does not count memory, may lose
/// jobs in simulation.
fn verdict(records: &[Record]) -> Result<()> {
    let may_fail =
        |record: &&Record| record.backend == Backend::Sim && record.policy == PolicyName::Cg.as_str();
    let bad: Vec<String> = records
        .iter()
        .filter(|record| !may_fail(record))
        .flat_map(|record| {
            let bad = record.jobs.iter().filter(|job| job.outcome != Outcome::Ok);
            bad.map(|job| format!("{} under {}: {}", job.configuration, record.policy, job.outcome_text()))
        })
        .collect();
    if bad.is_empty() {
        return Ok(());
    }
    bail!("{} jobs lost or wrong:\n{}", bad.len(), bad.join("\n"))
}
