//! What an experiment came to: per workload and policy, the median over the seeds with its interval.
//!
//! Trap: ratios are made seed by seed against the baseline's run of the same list; the ratio of two medians is another
//! number.

use super::interval::Interval;
use super::sample::Sample;
use super::spec::Experiment;
use crate::table;
use serde::Serialize;
use std::collections::BTreeMap;

/// `summary.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    pub experiment: String,
    pub cards: String,
    pub seeds: u64,
    /// By workload, then policy.
    pub workloads: BTreeMap<String, BTreeMap<String, Figures>>,
    /// By variant, then policy.
    pub sensitivity: BTreeMap<String, BTreeMap<String, Figures>>,
}

/// The numbers of one policy on one kind of list. `low` and `high` bound the median with 95 % confidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures(pub BTreeMap<&'static str, Interval>);

/// Flat, as `name`, `name_low` and `name_high`: what a person with `jq` expects.
impl Serialize for Figures {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let one = |(name, interval): (&&'static str, &Interval)| {
            let Interval { median, low, high } = *interval;
            [(name.to_string(), median), (format!("{name}_low"), low), (format!("{name}_high"), high)]
        };
        serializer.collect_map(self.0.iter().flat_map(one))
    }
}

impl Figures {
    pub fn get(&self, name: &str) -> Option<&Interval> {
        self.0.get(name)
    }
}

/// Summarises all samples.
pub fn summarize(experiment: &Experiment, samples: &[Sample]) -> Summary {
    let mut summary = Summary {
        experiment: experiment.name.clone(),
        cards: experiment.cards.clone(),
        seeds: experiment.seeds,
        ..Summary::default()
    };
    for ((workload, variant, policy), own) in grouped(samples) {
        let figures = figures(samples, &own);
        let (to, name) = if variant.is_empty() {
            (&mut summary.workloads, workload)
        } else {
            (&mut summary.sensitivity, variant)
        };
        to.entry(name.to_owned()).or_default().insert(policy.to_owned(), figures);
    }
    summary
}

type Key<'a> = (&'a str, &'a str, &'a str);

fn grouped(samples: &[Sample]) -> BTreeMap<Key<'_>, Vec<&Sample>> {
    let mut groups: BTreeMap<Key<'_>, Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        let key = (sample.workload.as_str(), sample.variant.as_str(), sample.policy.as_str());
        groups.entry(key).or_default().push(sample);
    }
    groups
}

fn figures(samples: &[Sample], own: &[&Sample]) -> Figures {
    let against = |policy: &str, ratio: &dyn Fn(&Sample, &Sample) -> Option<f64>| -> Vec<f64> {
        let ratios = own.iter().filter_map(|sample| ratio(sample, baseline(samples, sample, policy)?));
        ratios.collect()
    };
    let plain = |of: &dyn Fn(&Sample) -> f64| own.iter().map(|sample| of(sample)).collect::<Vec<f64>>();
    let sub = |own: &Sample, base: &Sample| Some(own.throughput() / base.throughput());
    let ask = |own: &Sample, base: &Sample| Some(own.throughput_ask()? / base.throughput_ask()?);
    let columns: [(&'static str, Vec<f64>); 17] = [
        ("throughput_vs_case", against("case", &sub)),
        ("throughput_vs_case_fifo", against("case-fifo", &sub)),
        ("throughput_vs_case_ask", against("case", &ask)),
        ("throughput_vs_case_fifo_ask", against("case-fifo", &ask)),
        ("makespan_s", plain(&|s| s.makespan_s)),
        ("ask_makespan_s", own.iter().filter_map(|s| s.ask_makespan_s).collect()),
        ("lower_bound_s", plain(&|s| s.lower_bound_s)),
        ("makespan_over_bound", plain(&|s| s.makespan_s / s.lower_bound_s)),
        ("normal_slowdown_p95", against("case", &|own, base| own.normal_slowdown_p95(base))),
        ("turnaround_mean_s", plain(&|s| s.turnaround_mean_s)),
        ("turnaround_max_s", plain(&|s| s.turnaround_max_s)),
        ("wait_mean_s", plain(&|s| s.wait_mean_s)),
        ("bytes_paged", plain(&|s| s.bytes_paged as f64)),
        ("device_busy", plain(&|s| s.device_busy)),
        ("jobs_lost", plain(&|s| (s.jobs - s.jobs_ended) as f64)),
        ("eager_launches", plain(&|s| s.eager_launches as f64)),
        ("promotions", plain(&|s| s.promotions as f64)),
    ];
    let made = columns.into_iter().filter_map(|(name, samples)| Some((name, Interval::of(samples)?)));
    Figures(made.collect())
}

/// The baseline's run of the same list.
fn baseline<'a>(samples: &'a [Sample], of: &Sample, policy: &str) -> Option<&'a Sample> {
    let key = |s: &Sample| (s.workload.clone(), s.variant.clone(), s.seed);
    let wanted = key(of);
    // The samples are sorted by that key.
    let start = samples.partition_point(|sample| key(sample) < wanted);
    samples[start..].iter().take_while(|sample| key(sample) == wanted).find(|sample| sample.policy == policy)
}

/// Throughput over `case` of every policy on every workload, for a terminal.
pub fn table(summary: &Summary) -> String {
    let policies: Vec<String> = super::page::policies(&summary.workloads);
    let header: Vec<&str> = ["workload"].into_iter().chain(policies.iter().map(String::as_str)).collect();
    let row = |(name, figures): (&String, &BTreeMap<String, Figures>)| {
        let cell = |policy: &String| {
            let ratio = figures.get(policy).and_then(|f| f.get("throughput_vs_case"));
            table::ratio(ratio.map(|ratio| ratio.median))
        };
        [name.clone()].into_iter().chain(policies.iter().map(cell)).collect()
    };
    let rows: Vec<Vec<String>> = summary.workloads.iter().map(row).collect();
    format!(
        "Throughput over case (backfilling), median of {} seeds; modelled, not measured\n{}",
        summary.seeds,
        table::render(&header, &rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(policy: &str, seed: u64, makespan_s: f64) -> Sample {
        Sample {
            workload: "W1".into(),
            variant: String::new(),
            seed,
            policy: policy.into(),
            makespan_s,
            ask_makespan_s: Some(makespan_s / 2.0),
            lower_bound_s: 1.0,
            jobs: 2,
            jobs_ended: 2,
            turnaround_mean_s: 1.0,
            turnaround_max_s: 2.0,
            wait_mean_s: 0.0,
            bytes_paged: 0,
            device_busy: 0.5,
            eager_launches: 0,
            promotions: 0,
            normal_device_s: vec![Some(makespan_s), None],
        }
    }

    #[test]
    fn ratios_are_made_seed_by_seed() {
        let samples = [
            sample("case", 1, 10.0),
            sample("eager-opt", 1, 5.0),
            sample("case", 2, 30.0),
            sample("eager-opt", 2, 30.0),
        ];
        let experiment = Experiment::find("paper").expect("known");
        let summary = summarize(&experiment, &samples);
        let figures = &summary.workloads["W1"]["eager-opt"];
        let ratio = figures.get("throughput_vs_case").expect("a baseline");
        assert_eq!(*ratio, Interval { median: 1.5, low: 1.0, high: 2.0 });
        assert_eq!(figures.get("normal_slowdown_p95").expect("normal jobs").low, 0.5);
        assert_eq!(figures.get("throughput_vs_case_fifo"), None, "no such baseline was run");
        let json = serde_json::to_value(&summary).expect("JSON");
        assert_eq!(json["workloads"]["W1"]["eager-opt"]["throughput_vs_case_high"], 2.0);
    }

    #[test]
    fn lost_jobs_are_not_throughput() {
        let mut lost = sample("cg", 1, 5.0);
        lost.jobs_ended = 1;
        let summary = summarize(&Experiment::find("paper").expect("known"), &[sample("case", 1, 10.0), lost]);
        let ratio = summary.workloads["W1"]["cg"].get("throughput_vs_case").expect("a baseline").median;
        assert_eq!(ratio, 1.0);
    }
}
