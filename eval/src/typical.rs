//! How typical one job list is: the same comparison over many seeded lists, simulated.
//!
//! Trap: a single list proves little. With 16 jobs on four devices the makespan mostly is the longest job's host work,
//! and then no policy can gain; a seed that shows a gain is the exception, and a reader must see that beside it.

use crate::experiment::Variant;
use crate::record::{Stamp, WorkloadStamp};
use crate::sim_run::Host;
use crate::workload::{Choice, WorkloadArgs};
use anyhow::Result;
use eager_core::PolicyName;
use eager_rodinia::workload::LargeToSmall;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Compared over the lists. `infinite` shows what endless memory would give under CASE's order; a better order can pass it.
pub const POLICIES: [PolicyName; 3] = [PolicyName::EagerPb, PolicyName::EagerOpt, PolicyName::Infinite];

/// Lists of one kind.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub jobs: u16,
    pub ratio: LargeToSmall,
    /// Seeds 1 to this.
    pub seeds: u64,
}

/// What a demo shows beside its own list: the same kind of list, and lists long enough for memory to matter.
pub const KINDS: [Kind; 2] = [
    Kind { jobs: 16, ratio: LargeToSmall { large: 1, small: 1 }, seeds: 40 },
    Kind { jobs: 64, ratio: LargeToSmall { large: 2, small: 1 }, seeds: 10 },
];

/// Throughput over one kind of list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Typical {
    pub lists: String,
    pub seeds: u64,
    /// Lists in which some task waited under `case`.
    pub waited_under_case: u64,
    pub policies: BTreeMap<String, Ratios>,
}

/// Relative to each baseline, over all lists.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratios {
    pub vs_case: Spread,
    pub vs_case_fifo: Spread,
}

/// Middle and both ends of the sorted samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Spread {
    /// Of at least one sample; the median of an even count is the mean of the middle two.
    fn of(mut samples: Vec<f64>) -> Spread {
        samples.sort_by(f64::total_cmp);
        let at = |index: usize| samples.get(index).copied().unwrap_or(f64::NAN);
        let (lower, upper) = (samples.len().saturating_sub(1) / 2, samples.len() / 2);
        Spread {
            median: (at(lower) + at(upper)) / 2.0,
            low: at(0),
            high: at(samples.len().saturating_sub(1)),
        }
    }

    /// `1.53x [1.41–1.70]`.
    pub fn text(&self) -> String {
        format!("{:.2}x [{:.2}–{:.2}]", self.median, self.low, self.high)
    }
}

/// Simulates every list of the kind; `step` is told each seed.
pub fn run(cards: &str, kind: Kind, stamp: &Stamp, step: impl Fn(u64)) -> Result<Typical> {
    let mut waited_under_case = 0;
    let mut samples: BTreeMap<String, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    let mut lists = String::new();
    let host = Host::new(cards, &Variant::default())?;
    for seed in 1..=kind.seeds {
        step(seed);
        let args = WorkloadArgs { workload: None, jobs: kind.jobs, ratio: kind.ratio, seed };
        let (workload, choices) = args.choose()?;
        let makespan = |policy| makespan(&host, policy, &workload, &choices, stamp);
        let (case, waited) = makespan(PolicyName::Case)?;
        let (fifo, _) = makespan(PolicyName::CaseFifo)?;
        waited_under_case += u64::from(waited);
        for policy in POLICIES {
            let (own, _) = makespan(policy)?;
            let (vs_case, vs_fifo) = samples.entry(policy.to_string()).or_default();
            vs_case.push(case / own);
            vs_fifo.push(fifo / own);
        }
        lists = workload.name;
    }
    let ratios =
        |(vs_case, vs_fifo)| Ratios { vs_case: Spread::of(vs_case), vs_case_fifo: Spread::of(vs_fifo) };
    let policies = samples.into_iter().map(|(policy, both)| (policy, ratios(both))).collect();
    Ok(Typical { lists, seeds: kind.seeds, waited_under_case, policies })
}

/// Seconds, and whether any task waited.
fn makespan(
    host: &Host,
    policy: PolicyName,
    workload: &WorkloadStamp,
    choices: &[Choice],
    stamp: &Stamp,
) -> Result<(f64, bool)> {
    let record = host.run("typical", policy, workload, choices, stamp)?;
    Ok((record.makespan_s, record.waits_s().1 > 0.0))
}

/// Columns of [`rows`].
pub const HEADER: [&str; 5] = ["lists", "some task waits under case", "policy", "vs case", "vs case-fifo"];

/// One row per kind of list and policy: median and range over the seeds.
pub fn rows(typical: &[Typical]) -> Vec<Vec<String>> {
    let row = |kind: &Typical, policy: &String, ratios: &Ratios| {
        vec![
            format!("{}, seeds 1–{}", kind.lists, kind.seeds),
            format!("{} of {}", kind.waited_under_case, kind.seeds),
            policy.clone(),
            ratios.vs_case.text(),
            ratios.vs_case_fifo.text(),
        ]
    };
    typical.iter().flat_map(|kind| kind.policies.iter().map(move |(p, r)| row(kind, p, r))).collect()
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn the_median_lies_between_the_middle_two() {
        let spread = Spread::of(vec![4.0, 1.0, 2.0, 3.0]);
        assert_eq!((spread.median, spread.low, spread.high), (2.5, 1.0, 4.0));
        assert_eq!(Spread::of(vec![1.5]).text(), "1.50x [1.50–1.50]");
    }
}
