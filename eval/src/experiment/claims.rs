//! What the source document (specification S-1) claims about its eight workloads, beside what comes out here: as it is, and
//! with one thing changed at a time, so that a difference has a number and not an opinion.
//!
//! Trap: the figure with the document's own numbers is lost; what is compared is what its text says (specification
//! S-222): one ratio and four orders.

use super::sample::Sample;
use super::spec::{DOCUMENT, Experiment, Reading};
use super::summary::{Clock, Over, over, pooled};
use crate::interval::Interval;
use std::collections::BTreeMap;

/// The document's policies, in its order.
pub const POLICIES: [&str; 5] = ["eager", "eager-p", "eager-b", "eager-pb", "eager-opt"];

/// One way to see the eight workloads. Ratios are geometric means over workloads, seed by seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub name: String,
    pub clock: Clock,
    /// Throughput over `case`, by policy.
    pub over_case: BTreeMap<&'static str, Interval>,
    /// `eager-opt` over `case-fifo`.
    pub opt_over_fifo: Option<Interval>,
    /// `eager-p` over `eager-b`, on W3 and W4, and on the others.
    pub p_over_b_there: Option<Interval>,
    pub p_over_b_elsewhere: Option<Interval>,
}

impl Row {
    /// The document's policies from best to worst.
    pub fn order(&self) -> Vec<&'static str> {
        let mut order: Vec<_> =
            self.over_case.iter().map(|(policy, ratio)| (ratio.median, *policy)).collect();
        order.sort_by(|one, other| other.0.total_cmp(&one.0));
        order.into_iter().map(|(_, policy)| policy).collect()
    }
}

/// Both readings on both clocks, then every variant of the first on the document's clock (or on the other, where jobs
/// come one after the other and "all have asked" means nothing).
pub fn rows(experiment: &Experiment, samples: &[Sample]) -> Vec<Row> {
    let document = &experiment.document;
    let mut rows = Vec::new();
    for reading in &document.readings {
        for (clock, name) in [(Clock::Asked, ""), (Clock::Submission, ", from submission")] {
            rows.push(row(samples, reading, ("", ""), clock, format!("{}{name}", reading.name)));
        }
    }
    let first = document.readings.first();
    for (reading, variant) in
        first.into_iter().flat_map(|first| document.variants.iter().map(move |v| (first, v)))
    {
        let clock = if variant.workers.is_some() { Clock::Submission } else { Clock::Asked };
        rows.push(row(samples, reading, (DOCUMENT, &variant.name), clock, variant.name.clone()));
    }
    rows
}

fn row(samples: &[Sample], reading: &Reading, of: (&str, &str), clock: Clock, name: String) -> Row {
    let (study, variant) = of;
    let of_policy = |policy: &str, workloads: &[String]| -> Vec<&Sample> {
        let is_one = |s: &&Sample| {
            s.policy == policy && s.study == study && s.variant == variant && workloads.contains(&s.workload)
        };
        samples.iter().filter(is_one).collect()
    };
    let ratio = |policy: &str, baseline: &str, workloads: &[String]| {
        pooled(&of_policy(policy, workloads), Over::Ratio, &|s| over(samples, s, baseline, clock))
    };
    let all = &reading.workloads;
    let (there, elsewhere): (Vec<_>, Vec<_>) =
        all.iter().cloned().enumerate().partition(|(index, _)| matches!(index, 2 | 3));
    let names = |list: Vec<(usize, String)>| list.into_iter().map(|(_, name)| name).collect::<Vec<_>>();
    Row {
        name,
        clock,
        over_case: POLICIES
            .iter()
            .filter_map(|policy| Some((*policy, ratio(policy, "case", all)?)))
            .collect(),
        opt_over_fifo: ratio("eager-opt", "case-fifo", all),
        p_over_b_there: ratio("eager-p", "eager-b", &names(there)),
        p_over_b_elsewhere: ratio("eager-p", "eager-b", &names(elsewhere)),
    }
}
