//! Runs an experiment: every list under every policy, on all cores, each result on disk as soon as it is there.

use super::claims;
use super::interference;
use super::page;
use super::results::Results;
use super::sample::{Sample, Which};
use super::spec::{Experiment, Study, Workload};
use super::summary;
use super::thresholds;
use super::timeline;
use super::variant::Variant;
use super::{document, tables};
use crate::progress::Stage;
use crate::record::Stamp;
use crate::samples::{self, Samples, Whole};
use crate::sim_run::Host;
use crate::workload::Choice;
use crate::{parallel, stamp};
use anyhow::{Context, Result};
use eager_core::PolicyName;
use std::path::{Path, PathBuf};

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

/// Runs it and writes `samples.jsonl`, `summary.json` and `report.html` into the folder; the tables that `pages` ask for
/// go there. `seeds` in place of the experiment's number.
pub fn run(name: &str, seeds: Option<u64>, out: &Path, pages: &[PathBuf]) -> Result<()> {
    let mut experiment = Experiment::find(name)?;
    experiment.seeds = seeds.unwrap_or(experiment.seeds).max(1);
    std::fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let stamp = stamp::stamp();
    let samples = run_all(&experiment, &out.join("samples.jsonl"), &stamp)?;
    write(&experiment, samples, &stamp, out, pages)
}

/// Makes the same files again from the whole seeds of `samples.jsonl`, also of a run that did not come to its end.
pub fn redraw(name: &str, folder: &Path, pages: &[PathBuf]) -> Result<()> {
    let mut experiment = Experiment::find(name)?;
    let Whole { samples, seeds, stamp } = samples::read_whole(&folder.join("samples.jsonl"))?;
    experiment.seeds = seeds.end - seeds.start;
    write(&experiment, samples, &stamp, folder, pages)
}

fn write(
    experiment: &Experiment,
    mut samples: Vec<Sample>,
    stamp: &Stamp,
    out: &Path,
    pages: &[PathBuf],
) -> Result<()> {
    samples.sort_by_cached_key(summary::list_of);
    let results = Results {
        summary: summary::summarize(experiment, &samples, stamp),
        claims: claims::rows(experiment, &samples),
        meetings: interference::meet(&experiment.interference)?,
        thresholds: thresholds::count(experiment)?,
    };
    let path = out.join("summary.json");
    std::fs::write(&path, serde_json::to_string_pretty(&results.summary)? + "\n")
        .with_context(|| format!("cannot write {}", path.display()))?;
    let schedules = timeline::draw(experiment)?;
    let path = out.join("report.html");
    page::write(&path, experiment, &results, &schedules)?;
    let tables = tables::all(experiment, &results);
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
    let kept = Samples::create(path)?;
    let stage = Stage::begin(&format!("simulating {}", experiment.name), tasks.len());
    parallel::for_each(tasks, |task| {
        stage.step(&format!("{} seed {}", task.workload.name, task.seed));
        let choices = task.workload.choices(task.seed)?;
        for &policy in task.policies {
            kept.keep(one(&task, &choices, policy, stamp)?)?;
        }
        Ok(())
    })?;
    stage.end();
    kept.into_all()
}

fn one(task: &Task<'_>, choices: &[Choice], policy: PolicyName, stamp: &Stamp) -> Result<Sample> {
    let Task { machine, workload, seed, .. } = *task;
    let which = Which { workload, study: machine.study, variant: &machine.variant, seed, stamp };
    // The books are checked after every step on the lists of the first seed; on all of them it would only take time.
    let result = machine
        .host
        .simulate_with(choices, policy, which.submission(), &|options| options.audit = seed == 1)
        .with_context(|| format!("{} seed {seed} under {policy} {}", workload.name, machine.variant.name))?;
    Ok(Sample::new(&machine.host, which, &result))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All parts of an experiment, each as small as it can be.
    const SMALL: &str = r#"
        name = "small"
        title = "A small experiment"
        cards = "1xV100-16GB"
        seeds = 2
        policies = ["case", "case-fifo", "eager-b", "eager-opt"]
        workloads = [{ name = "few", jobs = 4, ratio = "1:1" }]
        [timeline]
        workload = "few"
        policies = ["eager-opt"]
        [interference]
        cards = "1xV100-16GB"
        policies = ["case"]
        pairs = [["bfs-32M", "dwt2d-8192"]]
        [sensitivity]
        workloads = ["few"]
        policies = ["case", "eager-opt"]
        variants = [{ name = "one worker", workers = 1 }]
        [document]
        policies = ["case", "case-fifo", "eager-opt"]
        readings = [{ name = "eight times the same", workloads = ["few", "few", "few", "few", "few", "few", "few", "few"] }]
        variants = [{ name = "no MPS", mps = false }]
        [thresholds]
        workloads = ["few"]
        percents = [100]
    "#;

    #[test]
    fn an_experiment_leaves_stamped_samples_a_summary_a_report_and_a_filled_page() {
        let folder = tempfile::tempdir().expect("folder");
        let [spec, page] = ["small.toml", "page.md"].map(|name| folder.path().join(name));
        std::fs::write(&spec, SMALL).expect("write");
        std::fs::write(&page, "<!-- table: claims -->\n<!-- end -->\n").expect("write");
        let out = folder.path().join("out");
        run(spec.to_str().expect("UTF-8"), None, &out, std::slice::from_ref(&page)).expect("it runs");

        let read = |name: &str| std::fs::read_to_string(out.join(name)).expect(name);
        let samples = read("samples.jsonl");
        let stamped =
            |line: &str| serde_json::from_str::<Sample>(line).is_ok_and(|s| !s.stamp.commit.is_empty());
        assert!(samples.lines().count() > 8 && samples.lines().all(stamped), "{samples}");
        let summary: serde_json::Value = serde_json::from_str(&read("summary.json")).expect("JSON");
        assert!(summary["workloads"]["few"]["eager-opt"]["throughput_vs_case"].is_f64(), "{summary}");
        let streamed = &summary["studies"]["sensitivity"]["one worker"]["eager-opt"];
        assert!(streamed["throughput_vs_case"].is_f64() && streamed["throughput_vs_case_ask"].is_null());
        let report = read("report.html");
        for part in [
            "Throughput",
            "claims",
            "What it costs",
            "How far to trust it",
            "Schedules",
            "bfs-32M + dwt2d-8192",
        ] {
            assert!(report.contains(part), "no `{part}`");
        }
        let filled = std::fs::read_to_string(&page).expect("page");
        assert!(filled.contains("| the document | 1.39 |") && filled.contains("| no MPS |"), "{filled}");

        // The samples alone give the same again; what a run that was stopped left of its last seed does not count.
        redraw(spec.to_str().expect("UTF-8"), &out, std::slice::from_ref(&page)).expect("it is drawn again");
        assert_eq!(std::fs::read_to_string(&page).expect("page"), filled);
        let first_seed = samples.lines().filter(|line| !line.contains("\"seed\":2,"));
        let stopped: Vec<&str> =
            first_seed.chain(samples.lines().find(|line| line.contains("\"seed\":2,"))).collect();
        std::fs::write(out.join("samples.jsonl"), stopped.join("\n")).expect("write");
        redraw(spec.to_str().expect("UTF-8"), &out, &[]).expect("it is drawn again");
        let summary: serde_json::Value = serde_json::from_str(&read("summary.json")).expect("JSON");
        assert_eq!(summary["seeds"], 1);
    }
}
