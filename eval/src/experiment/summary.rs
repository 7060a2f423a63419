//! What an experiment came to: per workload and policy, the median over the seeds with its interval.
//!
//! Trap: ratios are made seed by seed against the baseline's run of the same list; the ratio of two medians is another
//! number.

use super::sample::Sample;
use super::spec::Experiment;
use crate::interval::Interval;
use crate::record::Stamp;
use crate::table;
use eager_core::PolicyName;
use serde::Serialize;
use std::collections::BTreeMap;

/// `summary.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub experiment: String,
    pub cards: String,
    pub seeds: u64,
    /// The machine and the commit that made it.
    pub stamp: Stamp,
    /// By workload, then policy.
    pub workloads: BTreeMap<String, BTreeMap<String, Figures>>,
    /// By study, then variant, then policy.
    pub studies: BTreeMap<String, BTreeMap<String, BTreeMap<String, Figures>>>,
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

/// Summarises all samples, which are sorted by [`list_of`].
pub fn summarize(experiment: &Experiment, samples: &[Sample], stamp: &Stamp) -> Summary {
    let mut summary = Summary {
        experiment: experiment.name.clone(),
        cards: experiment.cards.clone(),
        seeds: experiment.seeds,
        stamp: stamp.clone(),
        workloads: BTreeMap::new(),
        studies: BTreeMap::new(),
    };
    let mut groups: BTreeMap<[&str; 4], Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        // A study's figures are over all its lists.
        let workload = if sample.study.is_empty() { sample.workload.as_str() } else { "" };
        let key = [workload, sample.study.as_str(), sample.variant.as_str(), sample.policy.as_str()];
        groups.entry(key).or_default().push(sample);
    }
    for ([workload, study, variant, policy], own) in groups {
        let to = match study {
            "" => summary.workloads.entry(workload.to_owned()),
            _ => summary.studies.entry(study.to_owned()).or_default().entry(variant.to_owned()),
        };
        to.or_default().insert(policy.to_owned(), figures(samples, &own));
    }
    summary
}

/// Which list on which machine a sample is of: equal for the samples that may be compared.
pub fn list_of(sample: &Sample) -> (String, String, String, u64) {
    (sample.study.clone(), sample.variant.clone(), sample.workload.clone(), sample.seed)
}

/// How the figures of several lists of one seed become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Geometric mean.
    Ratio,
    Mean,
}

/// Of one sample; none where it does not apply.
pub type Figure<'a> = &'a dyn Fn(&Sample) -> Option<f64>;

/// One figure over the seeds. A seed counts if the figure applies to all its lists.
pub fn pooled(own: &[&Sample], over: Over, figure: Figure<'_>) -> Option<Interval> {
    let mut seeds: BTreeMap<u64, Vec<Option<f64>>> = BTreeMap::new();
    for sample in own {
        seeds.entry(sample.seed).or_default().push(figure(sample));
    }
    let one = |values: Vec<Option<f64>>| {
        let values: Vec<f64> = values.into_iter().collect::<Option<_>>()?;
        let count = values.len() as f64;
        Some(match over {
            Over::Ratio => (values.iter().map(|value| value.ln()).sum::<f64>() / count).exp(),
            Over::Mean => values.iter().sum::<f64>() / count,
        })
    };
    Interval::of(seeds.into_values().filter_map(one).collect())
}

/// The two clocks (specification S-803).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// From the first submission to the last end.
    Submission,
    /// From "all have asked" to the last end.
    Asked,
}

/// Throughput over the baseline's on the same list.
pub fn over(samples: &[Sample], own: &Sample, policy: &str, clock: Clock) -> Option<f64> {
    let base = baseline(samples, own, policy)?;
    match clock {
        Clock::Submission => Some(own.throughput() / base.throughput()),
        Clock::Asked => Some(own.throughput_ask()? / base.throughput_ask()?),
    }
}

fn figures(samples: &[Sample], own: &[&Sample]) -> Figures {
    let against = |policy: &'static str, clock: Clock| move |s: &Sample| over(samples, s, policy, clock);
    let (case, fifo) = (against("case", Clock::Submission), against("case-fifo", Clock::Submission));
    let (case_ask, fifo_ask) = (against("case", Clock::Asked), against("case-fifo", Clock::Asked));
    let slowdown = |s: &Sample| s.normal_slowdown_p95(baseline(samples, s, "case")?);
    let columns: [(&'static str, Over, Figure<'_>); 20] = [
        ("throughput_vs_case", Over::Ratio, &case),
        ("throughput_vs_case_fifo", Over::Ratio, &fifo),
        ("throughput_vs_case_ask", Over::Ratio, &case_ask),
        ("throughput_vs_case_fifo_ask", Over::Ratio, &fifo_ask),
        ("makespan_s", Over::Mean, &|s| Some(s.makespan_s)),
        ("ask_makespan_s", Over::Mean, &|s| s.ask_makespan_s),
        ("lower_bound_s", Over::Mean, &|s| Some(s.lower_bound_s)),
        ("makespan_over_bound", Over::Ratio, &|s| Some(s.makespan_s / s.lower_bound_s)),
        ("normal_slowdown_p95", Over::Ratio, &slowdown),
        ("turnaround_mean_s", Over::Mean, &|s| Some(s.turnaround_mean_s)),
        ("turnaround_max_s", Over::Mean, &|s| Some(s.turnaround_max_s)),
        ("wait_mean_s", Over::Mean, &|s| Some(s.wait_mean_s)),
        ("bytes_paged", Over::Mean, &|s| Some(s.bytes_paged as f64)),
        ("device_busy", Over::Mean, &|s| Some(s.device_busy)),
        ("kernels_busy", Over::Mean, &|s| Some(s.kernels_busy)),
        ("copies_busy", Over::Mean, &|s| Some(s.copies_busy)),
        ("paging_busy", Over::Mean, &|s| Some(s.paging_busy)),
        ("jobs_lost", Over::Mean, &|s| Some((s.jobs - s.jobs_ended) as f64)),
        ("eager_launches", Over::Mean, &|s| Some(s.eager_launches as f64)),
        ("promotions", Over::Mean, &|s| Some(s.promotions as f64)),
    ];
    let made = columns.into_iter().filter_map(|(name, over, of)| Some((name, pooled(own, over, of)?)));
    Figures(made.collect())
}

/// The baseline's run of the same list.
fn baseline<'a>(samples: &'a [Sample], of: &Sample, policy: &str) -> Option<&'a Sample> {
    fn key(s: &Sample) -> (&str, &str, &str, u64) {
        (&s.study, &s.variant, &s.workload, s.seed)
    }
    // The samples are sorted by that key.
    let start = samples.partition_point(|sample| key(sample) < key(of));
    let same = samples[start..].iter().take_while(|sample| key(sample) == key(of));
    same.into_iter().find(|sample| sample.policy == policy)
}

/// The policies that occur, in the order in which they are always named.
pub fn policies(of: &BTreeMap<String, BTreeMap<String, Figures>>) -> Vec<String> {
    let names = PolicyName::names().into_iter().map(str::to_owned);
    names.filter(|name| of.values().any(|policies| policies.contains_key(name))).collect()
}

/// Throughput over `case` of every policy on every workload, for a terminal.
pub fn table(summary: &Summary) -> String {
    let policies: Vec<String> = policies(&summary.workloads);
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
            study: String::new(),
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
            kernels_busy: 0.2,
            copies_busy: 0.2,
            paging_busy: 0.0,
            eager_launches: 0,
            promotions: 0,
            normal_device_s: vec![Some(makespan_s), None],
            stamp: crate::stamp::stamp(),
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
        let summary = summarize(&experiment, &samples, &crate::stamp::stamp());
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
        let samples = [sample("case", 1, 10.0), lost];
        let experiment = Experiment::find("paper").expect("known");
        let summary = summarize(&experiment, &samples, &crate::stamp::stamp());
        let ratio = summary.workloads["W1"]["cg"].get("throughput_vs_case").expect("a baseline").median;
        assert_eq!(ratio, 1.0);
    }

    #[test]
    fn a_study_takes_the_geometric_mean_of_its_lists_before_the_median_of_the_seeds() {
        let list = |workload: &str, policy: &str, seed, makespan_s| Sample {
            workload: workload.into(),
            study: "document".into(),
            variant: "v".into(),
            ..sample(policy, seed, makespan_s)
        };
        let mut samples = Vec::new();
        for (seed, [first, second]) in [(1, [1.0, 4.0]), (2, [9.0, 1.0]), (3, [1.0, 1.0])] {
            samples.extend([list("W1", "case", seed, 8.0), list("W1", "eager-b", seed, 8.0 / first)]);
            samples.extend([list("W2", "case", seed, 8.0), list("W2", "eager-b", seed, 8.0 / second)]);
        }
        samples.sort_by_cached_key(list_of);
        let experiment = Experiment::find("paper").expect("known");
        let summary = summarize(&experiment, &samples, &crate::stamp::stamp());
        let ratio =
            summary.studies["document"]["v"]["eager-b"].get("throughput_vs_case").expect("a baseline");
        let round = |value: f64| (value * 1e9).round() / 1e9;
        assert_eq!((round(ratio.low), round(ratio.median), round(ratio.high)), (1.0, 2.0, 3.0));
    }

    #[test]
    fn every_number_that_is_promised_is_there_with_its_interval() {
        let samples = [sample("case", 1, 10.0), sample("case-fifo", 1, 12.0)];
        let experiment = Experiment::find("paper").expect("known");
        let summary = summarize(&experiment, &samples, &crate::stamp::stamp());
        let json = serde_json::to_value(&summary).expect("JSON");
        for figure in [
            "throughput_vs_case",
            "throughput_vs_case_fifo",
            "makespan_s",
            "lower_bound_s",
            "normal_slowdown_p95",
            "turnaround_mean_s",
            "bytes_paged",
        ] {
            for end in ["", "_low", "_high"] {
                let value = &json["workloads"]["W1"]["case"][format!("{figure}{end}")];
                assert!(value.is_f64(), "{figure}{end}: {value}");
            }
        }
        assert!(json["stamp"]["commit"].is_string());
    }
}
