//! Shows how typical one job list is: the same comparison over many seeded lists, simulated.
//!
//! A single list proves little. With 16 jobs on four devices the makespan mostly is the longest job's host work, and
//! then no policy can gain. A seed that shows a gain is the exception, so the report shows both side by side.

use crate::experiment::{Machine, System};
use crate::record::WorkloadStamp;
use crate::sim_run::Host;
use crate::workload::{Choice, WorkloadArgs};
use anyhow::Result;
use eager_core::PolicyName;
use eager_measure::Interval;
use eager_measure::Stamp;
use eager_rodinia::workload::LargeToSmall;
use eager_sim::Submission;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Policies compared over the lists. `infinite` shows the effect of endless memory under CASE's order; a better order
/// can pass it.
pub const POLICIES: [PolicyName; 3] = [PolicyName::EagerPb, PolicyName::EagerOpt, PolicyName::Infinite];

/// Kind of lists.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub jobs: u16,
    pub ratio: LargeToSmall,
    /// Number of lists, with the seeds 1 to this number.
    pub seeds: u64,
}

/// Kinds that a demo shows beside its own list: the same kind, and lists long enough for memory to matter.
pub const KINDS: [Kind; 2] = [
    Kind { jobs: 16, ratio: LargeToSmall { large: 1, small: 1 }, seeds: 40 },
    Kind { jobs: 64, ratio: LargeToSmall { large: 2, small: 1 }, seeds: 10 },
];

/// Throughput over all lists of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Typical {
    pub lists: String,
    pub seeds: u64,
    /// Lists in which some task waited under `case`.
    pub waited_under_case: u64,
    pub policies: BTreeMap<String, Ratios>,
}

/// Throughput of a policy relative to each baseline, over all lists.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratios {
    pub vs_case: Interval,
    pub vs_case_fifo: Interval,
}

/// Simulates every list of the kind; `step` is called with each seed.
pub fn run(cards: &str, kind: Kind, stamp: &Stamp, step: impl Fn(u64)) -> Result<Typical> {
    let mut waited_under_case = 0;
    let mut samples: BTreeMap<String, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    let mut lists = String::new();
    let host = Host::new(cards, &Machine::default())?;
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
    let ratios = |(vs_case, vs_fifo)| {
        Some(Ratios { vs_case: Interval::of(vs_case)?, vs_case_fifo: Interval::of(vs_fifo)? })
    };
    let policies = samples.into_iter().filter_map(|(policy, both)| Some((policy, ratios(both)?))).collect();
    Ok(Typical { lists, seeds: kind.seeds, waited_under_case, policies })
}

/// Simulates a list, and returns its makespan in seconds and whether any task waited.
fn makespan(
    host: &Host,
    policy: PolicyName,
    workload: &WorkloadStamp,
    choices: &[Choice],
    stamp: &Stamp,
) -> Result<(f64, bool)> {
    let record =
        host.run("typical", &System::plain(policy), workload, choices, Submission::AllAtOnce, stamp)?;
    Ok((record.makespan_s, record.waits_s().1 > 0.0))
}

/// Columns of [`rows`].
pub const HEADER: [&str; 5] = ["lists", "some task waits under case", "policy", "vs case", "vs case-fifo"];

/// Returns one row per kind of list and policy: median over the seeds with its 95 % interval.
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
