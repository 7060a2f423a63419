//! What is made of the samples of one system on one kind of list: each figure over the seeds.
//!
//! Trap: ratios are made list by list and seed by seed, against CASE's run of the same list; the lists of a group are
//! joined by the geometric mean before the median over the seeds is taken.

use super::sample::Sample;
use super::spec::{CASE, ENDLESS, Experiment};
use crate::experiment::{Figures, Summary};
use crate::interval::Interval;
use crate::record::Stamp;
use crate::samples::{normal_slowdown, percentile};
use anyhow::{Context, Result};
use std::collections::BTreeMap;

/// A sample with CASE's and endless memory's on the same list.
struct Run<'a> {
    own: &'a Sample,
    case: &'a Sample,
    endless: Option<&'a Sample>,
}

/// How lists and seeds become one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    /// Geometric mean over the lists, median over the seeds.
    Ratio,
    /// Median over all.
    Each,
    /// The least, or the most, of all.
    Least,
    Most,
}

/// A figure: its name in `summary.json`, what tables call it, and how it is written and made.
pub struct Column {
    pub name: &'static str,
    pub title: &'static str,
    pub text: fn(&Interval) -> String,
    over: Over,
    of: fn(&Run<'_>) -> Option<f64>,
}

/// All figures.
pub const COLUMNS: [Column; 21] = [
    Column { name: "throughput_vs_case", title: "sub", text: Interval::text, over: Over::Ratio, of: sub },
    Column { name: "throughput_vs_case_ask", title: "ask", text: Interval::text, over: Over::Ratio, of: ask },
    Column { name: "worst_list", title: "worst list", text: two, over: Over::Least, of: sub },
    Column {
        name: "throughput_vs_endless",
        title: "of endless memory's",
        text: Interval::text,
        over: Over::Ratio,
        of: |run| Some(sub(run)? / (run.case.makespan_s / run.endless?.makespan_s)),
    },
    Column {
        name: "bound_vs_case",
        title: "bound",
        text: two,
        over: Over::Ratio,
        of: |run| Some(run.case.makespan_s / run.own.bound_s),
    },
    Column {
        name: "makespan_over_bound",
        title: "makespan / bound",
        text: two,
        over: Over::Ratio,
        of: |run| Some(run.own.makespan_s / run.own.bound_s),
    },
    Column {
        name: "makespan_s",
        title: "makespan, s",
        text: one,
        over: Over::Each,
        of: |run| Some(run.own.makespan_s),
    },
    Column {
        name: "lower_bound_s",
        title: "bound, s",
        text: one,
        over: Over::Each,
        of: |run| Some(run.own.bound_s),
    },
    Column {
        name: "wait_max_vs_case",
        title: "longest wait / CASE's",
        text: two,
        over: Over::Ratio,
        of: |run| (run.case.wait_max_s > 0.0).then(|| run.own.wait_max_s / run.case.wait_max_s),
    },
    Column {
        name: "wait_max_vs_case_most",
        title: "the same, worst list",
        text: two,
        over: Over::Most,
        of: |run| (run.case.wait_max_s > 0.0).then(|| run.own.wait_max_s / run.case.wait_max_s),
    },
    Column {
        name: "turnaround_vs_case",
        title: "mean turnaround / CASE's",
        text: two,
        over: Over::Ratio,
        of: |run| Some(run.own.turnaround_mean_s / run.case.turnaround_mean_s),
    },
    Column {
        name: "turnaround_vs_case_p95",
        title: "turnaround / CASE's, p95",
        text: two,
        over: Over::Ratio,
        of: |run| {
            let both = run.own.turnaround_s.iter().zip(&run.case.turnaround_s);
            percentile(both.map(|(own, case)| own / case), 0.95)
        },
    },
    Column {
        name: "normal_slowdown_median",
        title: "slowdown, median",
        text: two,
        over: Over::Ratio,
        of: |run| slowdown(run, 0.5),
    },
    Column {
        name: "normal_slowdown_p95",
        title: "slowdown p95",
        text: two,
        over: Over::Ratio,
        of: |run| slowdown(run, 0.95),
    },
    Column {
        name: "kernel_stretch_p95",
        title: "kernels / alone, p95",
        text: two,
        over: Over::Ratio,
        of: |run| normal_slowdown(&run.own.normal_kernels_s, &run.own.normal_kernels_alone_s, 0.95),
    },
    Column {
        name: "copies_slowdown_p95",
        title: "the rest of the device side / CASE's, p95",
        text: two,
        over: Over::Ratio,
        of: |run| normal_slowdown(&beside_kernels(run.own), &beside_kernels(run.case), 0.95),
    },
    Column {
        name: "slowdown_vs_endless_p95",
        title: "device side / endless memory's, p95",
        text: two,
        over: Over::Ratio,
        of: |run| normal_slowdown(&run.own.normal_device_s, &run.endless?.normal_device_s, 0.95),
    },
    Column {
        name: "memory_bound_vs_case",
        title: "bound by memory",
        text: two,
        over: Over::Ratio,
        of: |run| Some(run.case.makespan_s / run.own.memory_bound_s),
    },
    Column {
        name: "kernels_busy",
        title: "computing",
        text: |interval| format!("{:.0} %", interval.median * 100.0),
        over: Over::Each,
        of: |run| Some(run.own.kernels_busy),
    },
    Column {
        name: "eager_launches",
        title: "eager",
        text: |interval| format!("{:.0}", interval.median),
        over: Over::Each,
        of: |run| Some(run.own.eager_launches as f64),
    },
    Column {
        name: "jobs_lost",
        title: "jobs lost",
        text: |interval| format!("{:.0}", interval.high),
        over: Over::Most,
        of: |run| Some(run.own.jobs_lost as f64),
    },
];

/// The figure of this name.
pub fn column(name: &str) -> Result<&'static Column> {
    COLUMNS
        .iter()
        .find(|column| column.name == name)
        .with_context(|| format!("experiment live has no figure `{name}`"))
}

/// Every figure that a table of the experiment wants is there.
pub fn check(experiment: &Experiment) -> Result<()> {
    experiment.tables.iter().flat_map(|table| &table.figures).try_for_each(|name| column(name).map(drop))
}

fn two(interval: &Interval) -> String {
    format!("{:.2}", interval.median)
}

fn one(interval: &Interval) -> String {
    format!("{:.1}", interval.median)
}

/// A job that was lost is no throughput.
fn ended(run: &Run<'_>) -> f64 {
    let jobs = run.own.turnaround_s.len() as f64;
    (jobs - run.own.jobs_lost as f64) / (jobs - run.case.jobs_lost as f64)
}

fn sub(run: &Run<'_>) -> Option<f64> {
    Some(ended(run) * run.case.makespan_s / run.own.makespan_s)
}

fn ask(run: &Run<'_>) -> Option<f64> {
    Some(ended(run) * run.case.ask_makespan_s? / run.own.ask_makespan_s?)
}

/// Device-side time over that under CASE, of the jobs that were Normal in both.
fn slowdown(run: &Run<'_>, part: f64) -> Option<f64> {
    normal_slowdown(&run.own.normal_device_s, &run.case.normal_device_s, part)
}

/// Copies, allocations and waits for others' copies: what is left of the device-side time without kernels.
fn beside_kernels(sample: &Sample) -> Vec<Option<f64>> {
    let both = sample.normal_device_s.iter().zip(&sample.normal_kernels_s);
    both.map(|(all, kernels)| Some((*all)? - (*kernels)?)).collect()
}

/// Of the same form as the paper experiment's: `workloads` by group, and by group and ratio; `studies` by group, then
/// variant.
pub fn summarize(experiment: &Experiment, samples: &[Sample], stamp: &Stamp) -> Summary {
    let mut summary = Summary {
        experiment: "live".to_owned(),
        cards: experiment.cards.clone(),
        seeds: experiment.seeds,
        stamp: stamp.clone(),
        workloads: BTreeMap::new(),
        studies: BTreeMap::new(),
    };
    let own = experiment.variants.first().map_or("", |variant| variant.name.as_str());
    let list =
        |sample: &Sample| (sample.variant.clone(), sample.group.clone(), sample.ratio.clone(), sample.seed);
    let of = |system: &str| -> BTreeMap<_, &Sample> {
        samples.iter().filter(|sample| sample.system == system).map(|sample| (list(sample), sample)).collect()
    };
    let (case, endless) = (of(CASE), of(ENDLESS));
    let mut kinds: BTreeMap<(&str, &str, &str, &str), Vec<Run<'_>>> = BTreeMap::new();
    for sample in samples {
        let list = list(sample);
        let Some(case) = case.get(&list).copied() else { continue };
        let endless = endless.get(&list).copied();
        for ratio in ["", &sample.ratio] {
            let kind = (sample.variant.as_str(), sample.group.as_str(), ratio, sample.system.as_str());
            kinds.entry(kind).or_default().push(Run { own: sample, case, endless });
        }
    }
    for ((variant, group, ratio, system), runs) in kinds {
        let systems = match (variant == own, ratio) {
            (true, ratio) => summary.workloads.entry(workload(group, ratio)).or_default(),
            (false, "") => {
                summary.studies.entry(group.to_owned()).or_default().entry(variant.to_owned()).or_default()
            }
            (false, _) => continue,
        };
        systems.insert(system.to_owned(), figures(&runs));
    }
    summary
}

/// What the summary calls the lists of a group, or those of one ratio.
pub fn workload(group: &str, ratio: &str) -> String {
    if ratio.is_empty() { group.to_owned() } else { format!("{group}, {ratio}") }
}

fn figures(runs: &[Run<'_>]) -> Figures {
    Figures(COLUMNS.iter().filter_map(|column| Some((column.name, pooled(column, runs)?))).collect())
}

fn pooled(column: &Column, runs: &[Run<'_>]) -> Option<Interval> {
    let values = || runs.iter().filter_map(column.of);
    let single =
        |value: f64| value.is_finite().then_some(Interval { median: value, low: value, high: value });
    match column.over {
        Over::Each => Interval::of(values().collect()),
        Over::Least => single(values().fold(f64::INFINITY, f64::min)),
        Over::Most => single(values().fold(f64::NEG_INFINITY, f64::max)),
        Over::Ratio => {
            let mut seeds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
            for run in runs {
                if let Some(value) = (column.of)(run) {
                    seeds.entry(run.own.seed).or_default().push(value.max(f64::MIN_POSITIVE).ln());
                }
            }
            let mean = |logs: Vec<f64>| (logs.iter().sum::<f64>() / logs.len() as f64).exp();
            Interval::of(seeds.into_values().map(mean).collect())
        }
    }
}
