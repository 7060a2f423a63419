//! Runs every system on every list that a table wants it on; each result is on disk as soon as it is there.

use super::report;
use super::spec::{Experiment, List, System, Variation};
use crate::progress::Stage;
use crate::samples::Samples;
use crate::sim_run::Host;
use crate::{parallel, stamp};
use anyhow::{Context, Result};
use eager_core::action::Class;
use eager_sim::{Estimates, JobResult, Outcome, SimOptions, SimResult};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;

const NAME: &str = "live";
const TEXT: &str = include_str!("../../experiments/live.toml");

/// One run. Times are modelled seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub variant: String,
    pub group: String,
    pub ratio: String,
    pub seed: u64,
    pub system: String,
    pub makespan_s: f64,
    /// From "all have asked" to the last end; none for streams.
    pub ask_makespan_s: Option<f64>,
    /// Kernels or copies spread evenly over the devices, or the longest job alone, whichever is longest.
    pub bound_s: f64,
    pub jobs_lost: usize,
    pub turnaround_mean_s: f64,
    pub wait_max_s: f64,
    pub bytes_paged: u64,
    pub eager_launches: u64,
    /// Part of the makespan in which a device computes, averaged over the devices.
    pub kernels_busy: f64,
    /// Device-side seconds of each job; none for those that were ever eager.
    pub normal_device_s: Vec<Option<f64>>,
}

struct Task<'a> {
    variant: &'a Variation,
    host: &'a Host,
    list: &'a List,
    ratio: &'a str,
    seed: u64,
    systems: Vec<&'a System>,
}

/// Is this the name of such an experiment: `live`, or a file `live*.toml`?
pub fn is_named(name: &str) -> bool {
    let path = Path::new(name);
    let file = path.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
    name == NAME || (file.starts_with(NAME) && path.extension().is_some_and(|extension| extension == "toml"))
}

/// Runs it and writes `samples.jsonl`, `summary.json` and `report.html` into the folder. `seeds` in place of the
/// experiment's number.
pub fn run(name: &str, seeds: Option<u64>, out: &Path) -> Result<()> {
    let text = match name {
        NAME => TEXT.to_owned(),
        path => {
            std::fs::read_to_string(path).with_context(|| format!("cannot read the experiment {path}"))?
        }
    };
    let mut experiment = Experiment::parse(&text)?;
    experiment.seeds = seeds.unwrap_or(experiment.seeds).max(1);
    std::fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let samples = run_all(&experiment, &out.join("samples.jsonl"))?;
    report::write(&experiment, &samples, &stamp::stamp(), out)
}

fn run_all(experiment: &Experiment, path: &Path) -> Result<Vec<Sample>> {
    let host = |variant| Ok((variant, machine(experiment, variant)?));
    let hosts: Vec<(&Variation, Host)> = experiment.variants.iter().map(host).collect::<Result<_>>()?;
    let mut tasks = Vec::new();
    for seed in 1..=experiment.seeds {
        for (variant, host) in &hosts {
            for list in &experiment.lists {
                let systems = wanted(experiment, &variant.name, &list.group)?;
                let task = |ratio: &'_ String| (ratio.clone(), systems.clone());
                for (index, (_, systems)) in list.ratios.iter().map(task).enumerate() {
                    tasks.push(Task { variant, host, list, ratio: &list.ratios[index], seed, systems });
                }
            }
        }
    }
    tasks.retain(|task| !task.systems.is_empty());
    let kept = Samples::create(path)?;
    let stage = Stage::begin("simulating live", tasks.len());
    parallel::for_each(tasks, |task| {
        stage.step(&format!("{} {} {} seed {}", task.variant.name, task.list.group, task.ratio, task.seed));
        for system in &task.systems {
            kept.keep(one(&task, system)?)?;
        }
        Ok(())
    })?;
    stage.end();
    kept.into_all()
}

fn machine(experiment: &Experiment, variant: &Variation) -> Result<Host> {
    let cards = variant.machine.cards.as_deref().unwrap_or(&experiment.cards);
    Host::new(cards, &variant.machine)
}

/// The systems that some table compares on these lists of this variant.
fn wanted<'a>(experiment: &'a Experiment, variant: &str, group: &str) -> Result<Vec<&'a System>> {
    let tables = experiment.tables.iter().filter(|table| {
        table.variants.iter().any(|name| name == variant) && table.groups.iter().any(|name| name == group)
    });
    let names: BTreeSet<&String> = tables.flat_map(|table| &table.systems).collect();
    names.into_iter().map(|name| experiment.system(name)).collect()
}

fn one(task: &Task<'_>, system: &System) -> Result<Sample> {
    let Task { variant, host, list, ratio, seed, .. } = *task;
    let choices = list.choices(ratio, seed)?;
    let change = |options: &mut SimOptions| {
        let context_bytes = options.scheduler.context_bytes;
        options.scheduler = eager_core::Options { context_bytes, ..system.options.clone() };
        let spread = variant.spread.unwrap_or(1.0);
        // The books are checked after every step on the lists of the first seed; on all they would take most of the time.
        options.audit = seed == 1;
        options.estimates = (!variant.no_estimates).then_some(Estimates { spread, seed });
    };
    let result =
        host.simulate_with(&choices, system.policy, list.submission(), &change).with_context(|| {
            format!("{} {ratio} seed {seed} under {}, {}", list.group, system.name, variant.name)
        })?;
    Ok(sample(task, system, &result))
}

fn sample(task: &Task<'_>, system: &System, result: &SimResult) -> Sample {
    let Task { variant, host, list, ratio, seed, .. } = *task;
    let makespan_s = seconds(result.makespan.0);
    let jobs = result.jobs.len().max(1) as f64;
    let turnaround = |job: &JobResult| seconds(job.end.saturating_sub(job.submit).0);
    let computing: f64 = result.devices.iter().map(|device| seconds(device.totals.kernel_busy.0)).sum();
    Sample {
        variant: variant.name.clone(),
        group: list.group.clone(),
        ratio: ratio.to_owned(),
        seed,
        system: system.name.clone(),
        makespan_s,
        ask_makespan_s: list.workers.is_none().then(|| seconds(result.ask_makespan.0)),
        bound_s: host.bound_s(&result.jobs),
        jobs_lost: result.jobs.iter().filter(|job| job.outcome != Outcome::Done).count(),
        turnaround_mean_s: result.jobs.iter().map(turnaround).sum::<f64>() / jobs,
        wait_max_s: result.jobs.iter().map(|job| seconds(job.wait.0)).fold(0.0, f64::max),
        bytes_paged: result.bytes_paged(),
        eager_launches: result.eager_launches,
        kernels_busy: computing / (makespan_s * result.devices.len().max(1) as f64),
        normal_device_s: result.jobs.iter().map(normal_device_s).collect(),
    }
}

fn normal_device_s(job: &JobResult) -> Option<f64> {
    let was_normal = job.classes.iter().all(|(_, class)| *class == Class::Normal);
    (job.outcome == Outcome::Done && was_normal).then(|| seconds(job.device_side().0))
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
        title = "A small experiment"
        cards = "1xV100-16GB"
        seeds = 2
        systems = [{ name = "case", policy = "case" }, { name = "eager-live", policy = "eager-live" }]
        lists = [{ group = "few", jobs = 6, ratios = ["1:1", "3:1"] }]
        variants = [{ name = "as it is" }, { name = "no estimates", no_estimates = true }]
        [[tables]]
        title = "Over CASE"
        groups = ["few"]
        systems = ["case", "eager-live"]
        variants = ["as it is"]
        [[tables]]
        title = "Varied"
        groups = ["few"]
        systems = ["case", "eager-live"]
        variants = ["as it is", "no estimates"]
    "#;

    #[test]
    fn an_experiment_leaves_samples_a_summary_and_a_report() {
        let folder = tempfile::tempdir().expect("folder");
        let spec = folder.path().join("live-small.toml");
        std::fs::write(&spec, SMALL).expect("write");
        let name = spec.to_str().expect("UTF-8");
        assert!(is_named(name) && is_named("live") && !is_named("paper"));
        run(name, None, folder.path()).expect("it runs");
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect(name);
        let samples = read("samples.jsonl");
        assert!(
            samples.lines().all(|line| serde_json::from_str::<Sample>(line).is_ok_and(|s| s.jobs_lost == 0))
        );
        // Two ratios, two seeds, two systems, two variants.
        assert_eq!(samples.lines().count(), 16);
        let summary: serde_json::Value = serde_json::from_str(&read("summary.json")).expect("JSON");
        let of =
            |system: &str| summary["as it is"]["few"][system]["vs_case"]["median"].as_f64().expect(system);
        assert_eq!(of("case"), 1.0);
        assert!(of("eager-live") > 1.0, "{summary}");
        assert!(read("report.html").contains("Varied"));
    }
}
