//! Runs an experiment: every list under every policy, on all cores, each result on disk as soon as it is there.

use super::claims;
use super::interference::{self, Meeting};
use super::page;
use super::sample::{Sample, Which};
use super::spec::{Experiment, Study, Workload};
use super::summary::{self, Summary};
use super::timeline;
use super::variant::Variant;
use super::{document, tables};
use crate::progress::Stage;
use crate::record::Stamp;
use crate::sim_run::Host;
use crate::workload::Choice;
use crate::{parallel, stamp};
use anyhow::{Context, Result};
use eager_core::PolicyName;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

/// A machine with the lists that run on it.
struct Machine {
    /// Empty for the experiment's own.
    study: &'static str,
    variant: Variant,
    host: Host,
    lists: Vec<(Workload, Vec<PolicyName>)>,
}

impl Machine {
    /// The experiment's own machine, then one for each variant of each study.
    fn all(experiment: &Experiment) -> Result<Vec<Machine>> {
        let own = |list: &Workload| {
            (list.clone(), list.policies.clone().unwrap_or_else(|| experiment.policies.clone()))
        };
        let plain = Variant::default();
        let mut machines = vec![Machine {
            study: "",
            host: Host::new(&experiment.cards, &plain)?,
            variant: plain,
            lists: experiment.workloads.iter().map(own).collect(),
        }];
        for (study, Study { workloads, policies, variants }) in experiment.studies() {
            let list = |name: &String| Ok((experiment.workload(name)?.clone(), policies.clone()));
            let lists: Vec<_> = workloads.iter().map(list).collect::<Result<_>>()?;
            for variant in variants {
                let cards = variant.cards.as_deref().unwrap_or(&experiment.cards);
                let host = Host::new(cards, &variant)?;
                machines.push(Machine { study, variant, host, lists: lists.clone() });
            }
        }
        Ok(machines)
    }
}

/// One list of one seed on one machine.
struct Task<'a> {
    machine: &'a Machine,
    workload: &'a Workload,
    policies: &'a [PolicyName],
    seed: u64,
}

/// Everything that came out.
pub struct Results {
    pub summary: Summary,
    pub claims: Vec<claims::Row>,
    pub meetings: Vec<Meeting>,
}

/// Runs it and writes `samples.jsonl`, `summary.json` and `report.html` into the folder; the tables that `pages` ask for
/// go there. `seeds` in place of the experiment's number.
pub fn run(name: &str, seeds: Option<u64>, out: &Path, pages: &[std::path::PathBuf]) -> Result<()> {
    let mut experiment = Experiment::find(name)?;
    experiment.seeds = seeds.unwrap_or(experiment.seeds).max(1);
    std::fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let stamp = stamp::stamp();
    let samples = run_all(&experiment, &out.join("samples.jsonl"), &stamp)?;
    let results = Results {
        summary: summary::summarize(&experiment, &samples, &stamp),
        claims: claims::rows(&experiment, &samples),
        meetings: interference::meet(&experiment.interference)?,
    };
    let path = out.join("summary.json");
    std::fs::write(&path, serde_json::to_string_pretty(&results.summary)? + "\n")
        .with_context(|| format!("cannot write {}", path.display()))?;
    let schedules = timeline::draw(&experiment)?;
    let path = out.join("report.html");
    page::write(&path, &experiment, &results, &schedules)?;
    let tables = tables::all(&experiment, &results);
    for page in pages {
        document::fill(page, &tables)?;
    }
    println!("{}", summary::table(&results.summary));
    println!("Report: {}", path.display());
    Ok(())
}

fn run_all(experiment: &Experiment, path: &Path, stamp: &Stamp) -> Result<Vec<Sample>> {
    let machines = Machine::all(experiment)?;
    let mut tasks = Vec::new();
    for seed in 1..=experiment.seeds {
        for machine in &machines {
            let task = |(workload, policies)| Task { machine, workload, policies, seed };
            tasks.extend(
                machine.lists.iter().map(|(workload, policies)| task((workload, policies.as_slice()))),
            );
        }
    }
    let file = std::fs::File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    let kept = Mutex::new((file, Vec::new()));
    let stage = Stage::begin(&format!("simulating {}", experiment.name), tasks.len());
    parallel::for_each(tasks, |task| {
        stage.step(&format!("{} seed {}", task.workload.name, task.seed));
        let choices = task.workload.choices(task.seed)?;
        for &policy in task.policies {
            let sample = one(&task, &choices, policy, stamp)?;
            let mut line = serde_json::to_string(&sample).context("a sample as JSON")?;
            line.push('\n');
            let mut kept = kept.lock().map_err(|_| anyhow::anyhow!("another run panicked"))?;
            kept.0.write_all(line.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
            kept.1.push(sample);
        }
        Ok(())
    })?;
    stage.end();
    let (_, mut samples) = kept.into_inner().map_err(|_| anyhow::anyhow!("a run panicked"))?;
    samples.sort_by_cached_key(summary::list_of);
    Ok(samples)
}

fn one(task: &Task<'_>, choices: &[Choice], policy: PolicyName, stamp: &Stamp) -> Result<Sample> {
    let Task { machine, workload, seed, .. } = *task;
    let which = Which { workload, study: machine.study, variant: &machine.variant, seed, stamp };
    let result = machine
        .host
        .simulate(choices, policy, which.submission())
        .with_context(|| format!("{} seed {seed} under {policy} {}", workload.name, machine.variant.name))?;
    Ok(Sample::new(&machine.host, which, &result))
}
