//! Runs every system on every list that a table wants it on; each result is on disk as soon as it is there.

use super::sample::Sample;
use super::spec::{Experiment, List, System, Variation};
use super::{figures, report};
use crate::progress::Stage;
use crate::record::Stamp;
use crate::samples::{self, Samples, Whole, normal_s, seconds};
use crate::sim_run::Host;
use crate::{parallel, stamp};
use anyhow::{Context, Result};
use eager_sim::{Estimates, JobResult, Outcome, SimOptions, SimResult};
use eager_units::Nanos;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const NAME: &str = "live";
const TEXT: &str = include_str!("../../experiments/live.toml");

struct Task<'a> {
    variant: &'a Variation,
    host: &'a Host,
    list: &'a List,
    ratio: &'a str,
    seed: u64,
    systems: Vec<&'a System>,
}

/// Is this the name of such an experiment: `live`, or a file of its form?
pub fn is_named(name: &str) -> bool {
    name == NAME || std::fs::read_to_string(name).is_ok_and(|text| Experiment::is_form_of(&text))
}

/// Runs it and writes `samples.jsonl`, `summary.json` and `report.html` into the folder; the tables that `pages` ask for
/// go there. `seeds` in place of the experiment's number.
pub fn run(name: &str, seeds: Option<u64>, out: &Path, pages: &[PathBuf]) -> Result<()> {
    let mut experiment = find(name)?;
    experiment.seeds = seeds.unwrap_or(experiment.seeds).max(1);
    std::fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let stamp = stamp::stamp();
    let samples = run_all(&experiment, &out.join("samples.jsonl"), &stamp)?;
    report::write(&experiment, &samples, &stamp, out, pages)
}

/// Makes the same files again from the whole seeds of `samples.jsonl`, also of a run that did not come to its end.
pub fn redraw(name: &str, folder: &Path, pages: &[PathBuf]) -> Result<()> {
    let mut experiment = find(name)?;
    let Whole { samples, seeds, stamp } = samples::read_whole(&folder.join("samples.jsonl"))?;
    experiment.first_seed = seeds.start;
    experiment.seeds = seeds.end - seeds.start;
    report::write(&experiment, &samples, &stamp, folder, pages)
}

fn find(name: &str) -> Result<Experiment> {
    let experiment = match name {
        NAME => Experiment::parse(NAME, TEXT),
        path => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the experiment {path}"))?;
            Experiment::parse(path, &text)
        }
    }?;
    figures::check(&experiment)?;
    Ok(experiment)
}

fn run_all(experiment: &Experiment, path: &Path, stamp: &Stamp) -> Result<Vec<Sample>> {
    let host = |variant| Ok((variant, machine(experiment, variant)?));
    let hosts: Vec<(&Variation, Host)> = experiment.variants.iter().map(host).collect::<Result<_>>()?;
    let mut tasks = Vec::new();
    for seed in experiment.seeds() {
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
            kept.keep(one(&task, system, stamp)?)?;
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

fn one(task: &Task<'_>, system: &System, stamp: &Stamp) -> Result<Sample> {
    let Task { variant, host, list, ratio, seed, .. } = *task;
    let choices = list.choices(ratio, seed)?;
    let change = |options: &mut SimOptions| {
        let context_bytes = options.scheduler.context_bytes;
        options.scheduler = eager_core::Options { context_bytes, ..system.options.clone() };
        let spread = variant.spread.unwrap_or(1.0);
        // The simulator's own tests check the books; here that would take most of the time.
        options.audit = false;
        options.estimates = (!variant.no_estimates).then_some(Estimates { spread, seed });
    };
    let result =
        host.simulate_with(&choices, system.policy, list.submission(), &change).with_context(|| {
            format!("{} {ratio} seed {seed} under {}, {}", list.group, system.name, variant.name)
        })?;
    Ok(sample(task, system, &result, stamp))
}

fn sample(task: &Task<'_>, system: &System, result: &SimResult, stamp: &Stamp) -> Sample {
    let Task { variant, host, list, ratio, seed, .. } = *task;
    let makespan_s = seconds(result.makespan);
    let jobs = result.jobs.len().max(1) as f64;
    let turnaround = |job: &JobResult| seconds(job.end.saturating_sub(job.submit));
    let computing: f64 =
        result.devices.iter().map(|device| seconds(Nanos(device.totals.kernel_busy.0))).sum();
    let of_normal =
        |time: fn(&JobResult) -> Nanos| result.jobs.iter().map(|job| normal_s(job, time)).collect();
    Sample {
        variant: variant.name.clone(),
        group: list.group.clone(),
        ratio: ratio.to_owned(),
        seed,
        system: system.name.clone(),
        makespan_s,
        ask_makespan_s: list.workers.is_none().then(|| seconds(result.ask_makespan)),
        bound_s: host.bound_s(&result.jobs),
        memory_bound_s: host.memory_bound_s(result),
        jobs_lost: result.jobs.iter().filter(|job| job.outcome != Outcome::Done).count(),
        turnaround_mean_s: result.jobs.iter().map(turnaround).sum::<f64>() / jobs,
        turnaround_s: result.jobs.iter().map(turnaround).collect(),
        wait_max_s: result.jobs.iter().map(|job| seconds(job.wait)).fold(0.0, f64::max),
        bytes_paged: result.bytes_paged(),
        eager_launches: result.eager_launches,
        kernels_busy: computing / (makespan_s * result.devices.len().max(1) as f64),
        normal_device_s: of_normal(JobResult::device_side),
        normal_kernels_s: of_normal(|job| job.kernels),
        normal_kernels_alone_s: of_normal(|job| job.kernels_alone),
        stamp: stamp.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
        title = "A small experiment"
        cards = "1xV100-16GB"
        first_seed = 3
        seeds = 2
        systems = [{ name = "case", policy = "case" }, { name = "eager-live", policy = "eager-live" }]
        lists = [{ group = "few", jobs = 6, ratios = ["1:1", "3:1"] }]
        variants = [{ name = "as it is" }, { name = "no estimates", no_estimates = true }]
        timeline = { group = "few", ratio = "1:1", systems = ["eager-live"] }
        [[tables]]
        key = "lists"
        title = "Over CASE"
        rows = "lists"
        groups = ["few"]
        systems = ["case", "eager-live"]
        variants = ["as it is"]
        figures = ["throughput_vs_case"]
        drawn = true
        [[tables]]
        key = "costs"
        title = "Costs"
        rows = "systems"
        groups = ["few"]
        systems = ["case", "eager-live"]
        variants = ["as it is"]
        figures = ["throughput_vs_case", "turnaround_vs_case_p95", "jobs_lost"]
        [[tables]]
        key = "varied"
        title = "Varied"
        rows = "variants"
        groups = ["few"]
        systems = ["case", "eager-live"]
        variants = ["as it is", "no estimates"]
        figures = ["throughput_vs_case", "throughput_vs_case_ask"]
    "#;

    #[test]
    fn a_figure_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().expect("folder");
        let spec = folder.path().join("live-wrong.toml");
        let wrong = SMALL.replacen("\"jobs_lost\"]", "\"faster\"]", 1);
        std::fs::write(&spec, wrong).expect("write");
        let error = find(spec.to_str().expect("UTF-8")).expect_err("no such figure");
        assert!(format!("{error:#}").contains("no figure `faster`"), "{error:#}");
    }

    #[test]
    fn an_experiment_leaves_samples_a_summary_a_report_and_a_filled_page() {
        let folder = tempfile::tempdir().expect("folder");
        let [spec, page] = ["live-small.toml", "page.md"].map(|name| folder.path().join(name));
        std::fs::write(&spec, SMALL).expect("write");
        std::fs::write(&page, "<!-- table: varied -->\n<!-- end -->\n<!-- table: made -->\n<!-- end -->\n")
            .expect("write");
        let name = spec.to_str().expect("UTF-8");
        assert!(is_named(name) && is_named("live") && !is_named("paper"));
        run(name, None, folder.path(), std::slice::from_ref(&page)).expect("it runs");
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect(name);
        let samples = read("samples.jsonl");
        let whole = |line: &str| {
            let sample = serde_json::from_str::<Sample>(line);
            sample.is_ok_and(|s| s.jobs_lost == 0 && !s.stamp.commit.is_empty() && s.turnaround_s.len() == 6)
        };
        assert!(samples.lines().all(whole), "{samples}");
        // Two ratios, two seeds, two systems, two variants.
        assert_eq!(samples.lines().count(), 16);
        let summary: serde_json::Value = serde_json::from_str(&read("summary.json")).expect("JSON");
        let of = |list: &str, system: &str| {
            summary["workloads"][list][system]["throughput_vs_case"].as_f64().expect(system)
        };
        assert_eq!(of("few", "case"), 1.0);
        assert!(of("few", "eager-live") > 1.0 && of("few, 3:1", "eager-live") > 1.0, "{summary}");
        let varied = &summary["studies"]["few"]["no estimates"]["eager-live"];
        assert!(varied["throughput_vs_case_low"].is_f64(), "{summary}");
        let report = read("report.html");
        assert!(
            ["Over CASE", "Costs", "Varied", "Schedules", "<svg"].iter().all(|part| report.contains(part))
        );
        let filled = read("page.md");
        assert!(filled.contains("| no estimates |") && filled.contains("| seeds | 3 to 4 |"), "{filled}");

        // The samples alone give the same again; what a run that was stopped left of its last seed does not count.
        redraw(name, folder.path(), std::slice::from_ref(&page)).expect("it is drawn again");
        assert_eq!(read("page.md"), filled);
        let first = samples.lines().filter(|line| line.contains("\"seed\":3,"));
        let stopped: Vec<&str> =
            first.chain(samples.lines().find(|line| line.contains("\"seed\":4,"))).collect();
        std::fs::write(folder.path().join("samples.jsonl"), stopped.join("\n")).expect("write");
        redraw(name, folder.path(), std::slice::from_ref(&page)).expect("it is drawn again");
        assert!(read("page.md").contains("| seeds | 3 to 3 |"));
    }
}
