//! Runs an experiment: every system on every list for which a table or a section needs it, on all cores. Each result
//! is written to disk as soon as it is there.

use super::figures;
use super::page;
use super::sample::{self, CompleteSamples, RunId, Sample, Samples};
use super::spec::{Experiment, List, System, Variant};
use crate::progress::Stage;
use crate::sim_run::Host;
use crate::{parallel, stamp};
use anyhow::{Context, Result};
use eager_measure::Stamp;
use eager_sim::{Estimates, SimOptions};
use std::path::{Path, PathBuf};

/// One list of one seed on one machine, and the systems to run on it.
struct Task<'a> {
    variant: &'a Variant,
    host: &'a Host,
    list: &'a List,
    ratio: &'a str,
    seed: u64,
    systems: Vec<&'a System>,
    audit: bool,
}

/// Runs the experiment and writes `samples.jsonl`, `summary.json` and `report.html` into the folder, and tables into
/// `pages`. `seeds` replaces the experiment's number of seeds.
pub fn run(name: &str, seeds: Option<u64>, out: &Path, pages: &[PathBuf]) -> Result<()> {
    let mut experiment = Experiment::find(name)?;
    experiment.seeds = seeds.unwrap_or(experiment.seeds);
    std::fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let stamp = stamp::stamp();
    let samples = run_all(&experiment, &out.join("samples.jsonl"), &stamp)?;
    page::write(&experiment, &samples, &stamp, out, pages)
}

/// Writes summary, report and pages again from the complete seeds of `samples.jsonl`, even if the run was stopped
/// early.
pub fn redraw(name: &str, folder: &Path, pages: &[PathBuf]) -> Result<()> {
    let mut experiment = Experiment::find(name)?;
    let CompleteSamples { samples, seeds, stamp } = sample::read_complete(&folder.join("samples.jsonl"))?;
    experiment.first_seed = seeds.start;
    experiment.seeds = seeds.end - seeds.start;
    page::write(&experiment, &samples, &stamp, folder, pages)
}

fn run_all(experiment: &Experiment, path: &Path, stamp: &Stamp) -> Result<Vec<Sample>> {
    let is_used = |variant: &&Variant| {
        experiment.lists.iter().any(|list| !wanted(experiment, &variant.name, list).is_empty())
    };
    let host = |variant: &'_ Variant| {
        let cards = variant.machine.cards.as_deref().unwrap_or(&experiment.cards);
        Host::new(cards, &variant.machine)
    };
    let used: Vec<&Variant> = experiment.variants.iter().filter(is_used).collect();
    let hosts: Vec<Host> = used.iter().map(|variant| host(variant)).collect::<Result<_>>()?;
    let mut tasks = Vec::new();
    for seed in experiment.seeds() {
        for (index, (&variant, host)) in used.iter().zip(&hosts).enumerate() {
            // Books are audited after every step only for lists of the first seed; auditing all seeds would take most
            // of the time.
            let audit = index == 0 && seed == experiment.first_seed;
            for list in &experiment.lists {
                let systems = wanted(experiment, &variant.name, list);
                let of = |ratio| Task { variant, host, list, ratio, seed, systems: systems.clone(), audit };
                tasks.extend(list.draws().into_iter().map(of));
            }
        }
    }
    tasks.retain(|task| !task.systems.is_empty());
    let kept = Samples::create(path)?;
    let stage = Stage::begin(&format!("simulating {}", experiment.name), tasks.len());
    parallel::for_each(tasks, |task| {
        stage.step(&format!("{} {} {} seed {}", task.variant.name, task.list.name, task.ratio, task.seed));
        task.systems.iter().try_for_each(|system| kept.keep(one(&task, system, stamp)?))
    })?;
    stage.end();
    kept.into_all()
}

/// Returns the systems that some table or section needs on this list of this variant, and the systems they are
/// compared with.
fn wanted<'a>(experiment: &'a Experiment, variant: &str, list: &List) -> Vec<&'a System> {
    let has = |names: &[String], name: &str| names.iter().any(|one| one == name);
    let mut names: Vec<&str> = Vec::new();
    for table in &experiment.tables {
        if has(&table.variants, variant) && has(&table.lists, &list.name) {
            names.extend(table.systems.iter().map(String::as_str));
            let columns = table.figures.iter().filter_map(|name| figures::column(name));
            let roles = columns.flat_map(|column| column.against.iter());
            names.extend(roles.filter_map(|role| experiment.role(*role)));
        }
    }
    if let Some(document) = &experiment.document {
        let is_own = experiment.variants.first().is_some_and(|first| first.name == variant);
        let mut readings = document.readings.iter().enumerate();
        let varied = has(&document.variants, variant);
        if readings.any(|(index, one)| (is_own || (index == 0 && varied)) && has(&one.lists, &list.name)) {
            names.extend(document.systems.iter().map(String::as_str));
        }
    }
    let runs = |system: &&System| {
        names.contains(&system.name.as_str())
            && (list.systems.is_empty() || list.systems.contains(&system.name))
    };
    experiment.systems.iter().filter(runs).collect()
}

fn one(task: &Task<'_>, system: &System, stamp: &Stamp) -> Result<Sample> {
    let Task { variant, host, list, ratio, seed, .. } = *task;
    let choices = list.choices(ratio, seed)?;
    let submission = variant.machine.submission(list.submission(seed));
    let change = |options: &mut SimOptions| {
        let spread = variant.spread.unwrap_or(1.0);
        options.audit = task.audit;
        options.estimates = (!variant.no_estimates).then_some(Estimates { spread, seed });
    };
    let result = host.simulate_with(&choices, system, submission.clone(), &change).with_context(|| {
        format!("{} {ratio} seed {seed} under {}, {}", list.name, system.name, variant.name)
    })?;
    let name = &system.name;
    let which = RunId { variant: &variant.name, list, ratio, seed, system: name, submission: &submission };
    Ok(Sample::new(host, &which, &result, stamp))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An experiment with every part that a file can have, each as small as possible.
    const SMALL: &str = r#"
        title = "A small experiment"
        cards = "1xV100-16GB"
        first_seed = 3
        seeds = 2
        lists = [
          { name = "few", jobs = 6, ratios = ["1:1", "3:1"] },
          { name = "one", jobs = 4, ratios = ["1:1"], systems = ["case", "case-fifo", "eager-opt"] },
        ]
        systems = [
          { policy = "case" }, { policy = "case-fifo" }, { policy = "eager-opt" },
          { name = "live", policy = "eager-live", options = { fast_copies = false } },
        ]
        variants = [
          { name = "as it is" },
          { name = "no estimates", no_estimates = true },
          { name = "no MPS", machine = { mps = false } },
          { name = "one worker", machine = { workers = 1 } },
          { name = "named by nothing", machine = { mps = false } },
        ]
        timeline = { list = "few", ratio = "3:1", systems = ["live"] }
        interference = { cards = "1xV100-16GB", pairs = [["bfs-32M", "dwt2d-8192"]], systems = ["case"] }
        thresholds = { lists = ["one"], percents = [100] }
        [document]
        systems = ["case", "case-fifo", "eager-opt"]
        readings = [{ name = "eight times the same", lists = ["one", "one", "one", "one", "one", "one", "one", "one"] }]
        variants = ["no MPS"]
        [[tables]]
        split = true
        figures = ["throughput_vs_baseline", "throughput_vs_second", "jobs_lost"]
        drawn = ["live"]
        [[tables]]
        key = "costs"
        title = "Costs"
        rows = "systems"
        figures = ["throughput_vs_baseline", "turnaround_vs_baseline_p95", "jobs_lost_most"]
        [[tables]]
        key = "varied"
        title = "Varied"
        rows = "variants"
        lists = ["few"]
        systems = ["live"]
        variants = ["as it is", "no estimates", "one worker"]
        figures = ["throughput_vs_baseline", "throughput_vs_baseline_ask", "bound_vs_baseline"]
    "#;

    fn written(text: &str) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("small.toml");
        std::fs::write(&path, text).expect("write");
        let path = path.to_str().expect("UTF-8").to_owned();
        (folder, path)
    }

    #[test]
    fn an_experiment_leaves_stamped_samples_a_summary_a_report_and_a_filled_page() {
        let (folder, spec) = written(SMALL);
        let page = folder.path().join("page.md");
        let marks = ["claims", "varied", "made", "throughput_vs_second"];
        let marks: String = marks.map(|mark| format!("<!-- table: {mark} -->\n<!-- end -->\n")).concat();
        std::fs::write(&page, marks).expect("write");
        let out = folder.path().join("out");
        run(&spec, None, &out, std::slice::from_ref(&page)).expect("it runs");

        let read = |name: &str| std::fs::read_to_string(out.join(name)).expect(name);
        let text = read("samples.jsonl");
        let parsed = |line: &str| serde_json::from_str::<Sample>(line).expect("a sample");
        let samples: Vec<Sample> = text.lines().map(parsed).collect();
        assert!(samples.iter().all(|sample| sample.jobs_lost == 0 && !sample.stamp.commit.is_empty()));
        // Per seed: 2 ratios x (4 systems + 2 variants x 2 of the table varied) + 3 systems + 3 under a document's
        // variant.
        assert_eq!(samples.len(), 2 * (2 * (4 + 2 * 2) + 3 + 3), "{text}");
        let asked = |variant: &str| {
            let mut of = samples.iter().filter(move |sample| sample.variant == variant);
            of.all(|sample| sample.ask_makespan_s.is_some())
        };
        assert!(asked("as it is") && !asked("one worker"));
        let summary: serde_json::Value = serde_json::from_str(&read("summary.json")).expect("JSON");
        let of = |variant: &str, list: &str, system: &str| {
            summary["variants"][variant][list][system]["throughput_vs_baseline"].as_f64().expect(system)
        };
        assert_eq!(of("as it is", "few", "case"), 1.0);
        assert!(of("as it is", "few", "live") > 1.0 && of("as it is", "few, 3:1", "live") > 1.0);
        assert!(of("no estimates", "few", "live") > 0.0, "{summary}");
        let report = read("report.html");
        for part in
            ["Throughput over case-fifo", "Costs", "claims", "Schedules", "bfs-32M + dwt2d-8192", "<svg"]
        {
            assert!(report.contains(part), "no `{part}`");
        }
        let filled = std::fs::read_to_string(&page).expect("page");
        for part in ["| the document | 1.39 |", "| no MPS |", "| no estimates |", "| seeds | 3 to 4 |"] {
            assert!(filled.contains(part), "no `{part}`: {filled}");
        }

        // The samples alone give the same pages again; an incomplete last seed of a stopped run does not count.
        redraw(&spec, &out, std::slice::from_ref(&page)).expect("it is drawn again");
        assert_eq!(std::fs::read_to_string(&page).expect("page"), filled);
        let first = text.lines().filter(|line| line.contains("\"seed\":3,"));
        let stopped: Vec<&str> =
            first.chain(text.lines().find(|line| line.contains("\"seed\":4,"))).collect();
        std::fs::write(out.join("samples.jsonl"), stopped.join("\n")).expect("write");
        redraw(&spec, &out, std::slice::from_ref(&page)).expect("it is drawn again");
        assert!(std::fs::read_to_string(&page).expect("page").contains("| seeds | 3 to 3 |"));
    }

    #[test]
    fn two_policies_on_one_list_need_no_case() {
        let text = r#"
            title = "Two"
            cards = "1xV100-16GB"
            seeds = 1
            lists = [{ name = "few", jobs = 4, ratios = ["1:1"] }]
            systems = [{ policy = "eager-opt" }, { policy = "eager-live" }]
        "#;
        let report = |text: &str| {
            let (folder, spec) = written(text);
            let out = folder.path().join("out");
            run(&spec, None, &out, &[]).expect("it runs");
            std::fs::read_to_string(out.join("report.html")).expect("a report")
        };
        let without = report(text);
        assert!(without.contains("There is no system `case`, and the file names no other with `baseline`"));
        assert!(without.contains("Mean turnaround, s") && !without.contains("Throughput over"), "{without}");
        let with = report(&text.replace("seeds = 1", "seeds = 1\nbaseline = \"eager-opt\""));
        assert!(with.contains("Throughput over eager-opt, from the first submission"), "{with}");
    }
}
