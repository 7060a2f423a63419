//! Runs an experiment: every list under every policy, on all cores, each result on disk as soon as it is there.

use super::page;
use super::sample::Sample;
use super::spec::{Experiment, Variant, Workload};
use super::summary;
use super::timeline;
use crate::progress::Stage;
use crate::sim_run::Host;
use crate::workload::Choice;
use crate::{parallel, stamp};
use anyhow::{Context, Result};
use eager_core::PolicyName;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

/// One list on one machine.
struct Task<'a> {
    workload: &'a Workload,
    host: &'a Host,
    variant: &'a str,
    seed: u64,
    policies: &'a [PolicyName],
}

/// Runs it and writes `samples.jsonl`, `summary.json` and `report.html` into the folder. `seeds` in place of the
/// experiment's number.
pub fn run(name: &str, seeds: Option<u64>, out: &Path) -> Result<()> {
    let mut experiment = Experiment::find(name)?;
    experiment.seeds = seeds.unwrap_or(experiment.seeds).max(1);
    std::fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let samples = run_all(&experiment, &out.join("samples.jsonl"))?;
    let summary = summary::summarize(&experiment, &samples);
    let path = out.join("summary.json");
    std::fs::write(&path, serde_json::to_string_pretty(&summary)? + "\n")
        .with_context(|| format!("cannot write {}", path.display()))?;
    let schedules = timeline::draw(&experiment)?;
    let path = out.join("report.html");
    page::write(&path, &experiment, &summary, &schedules, &stamp::stamp())?;
    println!("{}", summary::table(&summary));
    println!("Report: {}", path.display());
    Ok(())
}

fn run_all(experiment: &Experiment, path: &Path) -> Result<Vec<Sample>> {
    let plain = Host::new(&experiment.cards, &Variant::default())?;
    let variants: Vec<(&Variant, Host)> = experiment
        .sensitivity
        .variants
        .iter()
        .map(|variant| {
            let cards = variant.cards.as_deref().unwrap_or(&experiment.cards);
            Ok((variant, Host::new(cards, variant)?))
        })
        .collect::<Result<_>>()?;
    let studied = experiment.workload(&experiment.sensitivity.workload)?;
    let mut tasks = Vec::new();
    for seed in 1..=experiment.seeds {
        for workload in &experiment.workloads {
            let policies = workload.policies.as_ref().unwrap_or(&experiment.policies);
            tasks.push(Task { workload, host: &plain, variant: "", seed, policies });
        }
        for (variant, host) in &variants {
            let policies = &experiment.sensitivity.policies;
            tasks.push(Task { workload: studied, host, variant: &variant.name, seed, policies });
        }
    }
    let file = std::fs::File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    let kept = Mutex::new((file, Vec::new()));
    let stage = Stage::begin(&format!("simulating {}", experiment.name), tasks.len());
    parallel::for_each(tasks, |task| {
        stage.step(&format!("{} seed {}", task.workload.name, task.seed));
        let choices = task.workload.choices(task.seed)?;
        for &policy in task.policies {
            let sample = one(&task, &choices, policy)?;
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
    let key = |sample: &Sample| (sample.workload.clone(), sample.variant.clone(), sample.seed);
    samples.sort_by_key(|sample: &Sample| key(sample));
    Ok(samples)
}

fn one(task: &Task<'_>, choices: &[Choice], policy: PolicyName) -> Result<Sample> {
    let Task { workload, host, variant, seed, .. } = task;
    let result = host
        .simulate(choices, policy, workload.submission(*seed))
        .with_context(|| format!("{} seed {seed} under {policy} {variant}", workload.name))?;
    Ok(Sample::new(host, workload, variant, *seed, &result))
}
