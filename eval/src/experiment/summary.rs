//! Results of an experiment: by variant, list and system, each figure over the seeds with its interval.
//!
//! Trap: tables and pages are made from this summary only, so that they and `summary.json` cannot differ.

use super::figures::{COLUMNS, Role, Run};
use super::sample::Sample;
use super::spec::Experiment;
use eager_measure::Interval;
use eager_measure::Stamp;
use serde::Serialize;
use std::collections::BTreeMap;

/// Contents of `summary.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub experiment: String,
    pub cards: String,
    pub first_seed: u64,
    pub seeds: u64,
    /// Machine and commit that made the samples.
    pub stamp: Stamp,
    /// By variant, then list (all its ratios together, and each ratio), then system.
    pub variants: BTreeMap<String, BTreeMap<String, BySystem>>,
}

pub type BySystem = BTreeMap<String, Figures>;

/// Figures of one system on one kind of list. `low` and `high` bound the median with 95 % confidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures(BTreeMap<&'static str, Interval>);

/// Serialises flat, as `name`, `name_low` and `name_high`, for easy use with `jq`.
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

impl Summary {
    /// Returns the systems on a list under a variant.
    pub fn systems(&self, variant: &str, list: &str) -> Option<&BySystem> {
        self.variants.get(variant)?.get(list)
    }
}

/// Samples by variant, list, ratio and system, then by seed.
pub struct Runs<'a> {
    by_run: BTreeMap<[&'a str; 4], BTreeMap<u64, &'a Sample>>,
}

impl<'a> Runs<'a> {
    pub fn of(samples: &'a [Sample]) -> Runs<'a> {
        let mut by_run: BTreeMap<_, BTreeMap<u64, &Sample>> = BTreeMap::new();
        for sample in samples {
            let Sample { variant, list, ratio, system, .. } = sample;
            by_run
                .entry([variant, list, ratio, system].map(String::as_str))
                .or_default()
                .insert(sample.seed, sample);
        }
        Runs { by_run }
    }

    /// Returns another system's run of this sample's variant, list, ratio and seed.
    pub fn same(&self, sample: &Sample, system: Option<&str>) -> Option<&'a Sample> {
        let Sample { variant, list, ratio, seed, .. } = sample;
        self.by_run.get(&[variant, list, ratio, system?])?.get(seed).copied()
    }

    /// Returns the samples of a system on a list under a variant, for all seeds and ratios.
    pub fn all(&self, variant: &str, list: &str, system: &str) -> impl Iterator<Item = &'a Sample> {
        let is_one = move |key: &&[&str; 4]| key[0] == variant && key[1] == list && key[3] == system;
        let keys = self.by_run.iter().filter(move |(key, _)| is_one(key));
        keys.flat_map(|(_, seeds)| seeds.values().copied())
    }
}

pub fn summarize(experiment: &Experiment, samples: &[Sample], stamp: &Stamp) -> Summary {
    let runs = Runs::of(samples);
    let mut kinds: BTreeMap<(&str, String, &str), Vec<Run<'_>>> = BTreeMap::new();
    for own in samples {
        let against = |role| runs.same(own, experiment.role(role));
        let run = Run {
            own,
            baseline: against(Role::Baseline),
            second: against(Role::Second),
            endless: against(Role::Endless),
        };
        let several = experiment.list(&own.list).is_ok_and(|list| list.ratios.len() > 1);
        let ratio = several.then_some(own.ratio.as_str());
        for ratio in [Some(""), ratio].into_iter().flatten() {
            kinds.entry((&own.variant, label(&own.list, ratio), &own.system)).or_default().push(run);
        }
    }
    let mut variants: BTreeMap<String, BTreeMap<String, BySystem>> = BTreeMap::new();
    for ((variant, list, system), runs) in kinds {
        let made = COLUMNS.iter().filter_map(|column| Some((column.name, column.pooled(&runs)?)));
        let lists = variants.entry(variant.to_owned()).or_default();
        lists.entry(list).or_default().insert(system.to_owned(), Figures(made.collect()));
    }
    Summary {
        experiment: experiment.name.clone(),
        cards: experiment.cards.clone(),
        first_seed: experiment.first_seed,
        seeds: experiment.seeds,
        stamp: stamp.clone(),
        variants,
    }
}

/// Label of a list, or of one of its ratios, in summary and tables.
pub fn label(list: &str, ratio: &str) -> String {
    if ratio.is_empty() { list.to_owned() } else { format!("{list}, {ratio}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        title = "t"
        cards = "1xV100-16GB"
        seeds = 3
        lists = [{ name = "few", jobs = 2, ratios = ["1:1", "2:1"] }, { name = "W1", mix = "W1" }]
        systems = [{ policy = "case" }, { policy = "eager-opt" }, { policy = "cg" }]
    "#;

    fn sample(system: &str, seed: u64, makespan_s: f64) -> Sample {
        Sample {
            variant: "as it is".into(),
            list: "W1".into(),
            ratio: String::new(),
            seed,
            system: system.into(),
            makespan_s,
            ask_makespan_s: Some(makespan_s / 2.0),
            work_s: 1.0,
            bound_s: 1.0,
            memory_bound_s: 1.0,
            jobs_lost: 0,
            turnaround_s: vec![1.0, 2.0],
            wait_mean_s: 0.0,
            wait_max_s: 0.0,
            bytes_paged: 0,
            device_busy: 0.5,
            kernels_busy: 0.2,
            copies_busy: 0.2,
            paging_busy: 0.0,
            eager_launches: 0,
            promotions: 0,
            normal_device_s: vec![Some(makespan_s), None],
            normal_kernels_s: vec![Some(1.0), None],
            normal_kernels_alone_s: vec![Some(1.0), None],
            stamp: crate::stamp::stamp(),
        }
    }

    fn summary(samples: &[Sample]) -> Summary {
        let experiment = Experiment::parse("t.toml", TEXT).expect("an experiment");
        summarize(&experiment, samples, &crate::stamp::stamp())
    }

    #[test]
    fn ratios_are_made_seed_by_seed() {
        let summary = summary(&[
            sample("case", 1, 10.0),
            sample("eager-opt", 1, 5.0),
            sample("case", 2, 30.0),
            sample("eager-opt", 2, 30.0),
        ]);
        let figures = &summary.systems("as it is", "W1").expect("a list")["eager-opt"];
        let ratio = figures.get("throughput_vs_baseline").expect("a baseline");
        let round = |value: f64| (value * 1e9).round() / 1e9;
        assert_eq!([ratio.median, ratio.low, ratio.high].map(round), [1.5, 1.0, 2.0]);
        assert_eq!(figures.get("normal_slowdown_p95").expect("normal jobs").low, 0.5);
        assert_eq!(figures.get("throughput_vs_second"), None, "no such baseline was run");
        assert_eq!(figures.get("wait_max_vs_baseline"), None, "no job waits under the baseline");
        let json = serde_json::to_value(&summary).expect("JSON");
        let figures = &json["variants"]["as it is"]["W1"]["eager-opt"];
        for name in ["throughput_vs_baseline", "makespan_s", "lower_bound_s", "work_s", "bytes_paged"] {
            for end in ["", "_low", "_high"] {
                assert!(figures[format!("{name}{end}")].is_f64(), "{name}{end}: {figures}");
            }
        }
        assert!(json["stamp"]["commit"].is_string());
    }

    #[test]
    fn lost_jobs_are_not_throughput() {
        let lost = Sample { jobs_lost: 1, ..sample("cg", 1, 5.0) };
        let summary = summary(&[sample("case", 1, 10.0), lost]);
        let figures = &summary.systems("as it is", "W1").expect("a list")["cg"];
        assert_eq!(figures.get("throughput_vs_baseline").expect("a baseline").median, 1.0);
    }

    #[test]
    fn lists_of_one_name_are_joined_by_their_geometric_mean_before_the_median_of_the_seeds() {
        let list = |ratio: &str, system: &str, seed, makespan_s| Sample {
            list: "few".into(),
            ratio: ratio.into(),
            ..sample(system, seed, makespan_s)
        };
        let mut samples = Vec::new();
        for (seed, [first, second]) in [(1, [1.0, 4.0]), (2, [9.0, 1.0]), (3, [1.0, 1.0])] {
            samples.extend([list("1:1", "case", seed, 8.0), list("1:1", "eager-opt", seed, 8.0 / first)]);
            samples.extend([list("2:1", "case", seed, 8.0), list("2:1", "eager-opt", seed, 8.0 / second)]);
        }
        let summary = summary(&samples);
        let of = |list: &str| summary.systems("as it is", list).expect("a list")["eager-opt"].clone();
        let round = |value: f64| (value * 1e9).round() / 1e9;
        let whole = *of("few").get("throughput_vs_baseline").expect("a baseline");
        assert_eq!([whole.low, whole.median, whole.high].map(round), [1.0, 2.0, 3.0]);
        assert_eq!(round(of("few, 2:1").get("throughput_vs_baseline").expect("a baseline").high), 4.0);
        assert_eq!(of("few").get("worst_list").expect("a baseline").median, 1.0);
    }
}
