//! Compares the source document's (specification S-1) claims about its eight workloads with the results here: as they
//! are, and with one thing changed at a time, so that each possible cause of a difference gets a number.
//!
//! The figure with the document's own numbers is lost, so the comparison is with its text (specification S-222): one
//! ratio and four orders.

use super::figures::{self, Over};
use super::sample::Sample;
use super::spec::{Document, Experiment, Reading, Variant};
use super::summary::Runs;
use super::tables::Table;
use eager_measure::Interval;
use std::collections::BTreeMap;

/// Policies of the document, in its order.
pub const POLICIES: [&str; 5] = ["eager", "eager-p", "eager-b", "eager-pb", "eager-opt"];

/// The two clocks that a throughput may be taken by (specification S-803).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// From the first submission to the last end.
    Submission,
    /// From "all have asked" to the last end.
    Asked,
}

/// One way to run the eight workloads. Ratios are geometric means over workloads, seed by seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub name: String,
    pub clock: Clock,
    /// Throughput over the baseline, by policy.
    pub over_baseline: BTreeMap<&'static str, Interval>,
    /// `eager-opt` over the second baseline.
    pub opt_over_second: Option<Interval>,
    /// `eager-p` over `eager-b`: on W3 and W4, and on the other six.
    pub p_over_b_there: Option<Interval>,
    pub p_over_b_elsewhere: Option<Interval>,
}

impl Row {
    /// Returns the document's policies from best to worst.
    pub fn order(&self) -> Vec<&'static str> {
        let mut order: Vec<_> =
            self.over_baseline.iter().map(|(policy, ratio)| (ratio.median, *policy)).collect();
        order.sort_by(|one, other| other.0.total_cmp(&one.0));
        order.into_iter().map(|(_, policy)| policy).collect()
    }
}

/// Returns a row for each reading on both clocks, then one for every variant of the first reading on the document's
/// clock. A variant with `workers` uses the other clock: its jobs do not all ask at the start, so "all have asked"
/// means nothing.
pub fn rows(experiment: &Experiment, document: &Document, runs: &Runs<'_>) -> Vec<Row> {
    let baselines =
        [&experiment.baseline, &experiment.second].map(|name| name.as_deref().unwrap_or_default());
    let own = experiment.variants.first().map_or("", |variant| variant.name.as_str());
    let mut rows = Vec::new();
    for reading in &document.readings {
        for (clock, name) in [(Clock::Asked, ""), (Clock::Submission, ", from submission")] {
            rows.push(row(runs, reading, own, baselines, clock, format!("{}{name}", reading.name)));
        }
    }
    let Some(reading) = document.readings.first() else { return rows };
    let find = |name: &String| experiment.variants.iter().find(|variant| variant.name == *name);
    for Variant { name, machine, .. } in document.variants.iter().filter_map(find) {
        let clock = if machine.workers.is_some() { Clock::Submission } else { Clock::Asked };
        rows.push(row(runs, reading, name, baselines, clock, name.clone()));
    }
    rows
}

fn row(
    runs: &Runs<'_>,
    reading: &Reading,
    variant: &str,
    [baseline, second]: [&str; 2],
    clock: Clock,
    name: String,
) -> Row {
    let of = match clock {
        Clock::Submission => figures::throughput,
        Clock::Asked => figures::throughput_ask,
    };
    let ratio = |system: &str, against: &str, lists: &[String]| {
        let own = lists.iter().flat_map(|list| runs.all(variant, list, system));
        let value = |own: &Sample| Some((own.seed, of(own, runs.same(own, Some(against))?)?));
        figures::pooled(Over::Ratio, own.filter_map(value))
    };
    let all = &reading.lists;
    let (there, elsewhere): (Vec<_>, Vec<_>) =
        all.iter().cloned().enumerate().partition(|(index, _)| matches!(index, 2 | 3));
    let names = |list: Vec<(usize, String)>| list.into_iter().map(|(_, name)| name).collect::<Vec<_>>();
    Row {
        name,
        clock,
        over_baseline: POLICIES
            .iter()
            .filter_map(|policy| Some((*policy, ratio(policy, baseline, all)?)))
            .collect(),
        opt_over_second: ratio("eager-opt", second, all),
        p_over_b_there: ratio("eager-p", "eager-b", &names(there)),
        p_over_b_elsewhere: ratio("eager-p", "eager-b", &names(elsewhere)),
    }
}

/// Table of the claims: the document's own row first, then the rows measured here.
pub fn table(experiment: &Experiment, rows: &[Row]) -> Table {
    let text = |interval: Option<&Interval>| interval.map_or_else(|| "-".to_owned(), Interval::text);
    let others = || POLICIES.iter().filter(|policy| **policy != "eager-opt");
    let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
    let second = format!("same / {}", name(&experiment.second));
    let header = ["lists, and what is changed", "eager-opt", &second].into_iter();
    let header = header.chain(others().copied()).chain(["best first", "p / b on W3, W4", "p / b elsewhere"]);
    let row = |row: &Row| {
        let clock = if row.clock == Clock::Asked { "" } else { " *" };
        let short = |policy: &str| policy.trim_start_matches("eager-").to_owned();
        let order: Vec<String> = row.order().into_iter().map(short).collect();
        let first = [format!("{}{clock}", row.name), text(row.over_baseline.get("eager-opt"))];
        let middle = others().map(|policy| text(row.over_baseline.get(policy)));
        let last =
            [order.join(", "), text(row.p_over_b_there.as_ref()), text(row.p_over_b_elsewhere.as_ref())];
        let first = first.into_iter().chain([text(row.opt_over_second.as_ref())]);
        first.chain(middle).chain(last).collect()
    };
    let said = ["the document", "1.39", "-", "-", "-", "-", "-", "opt, pb, …", "above 1", "below 1"];
    Table {
        key: "claims".to_owned(),
        title: format!(
            "Throughput over {} on the document's eight workloads: geometric mean over them, seed by seed (* from \
             submission, others from \u{201c}all have asked\u{201d}); p / b: eager-p over eager-b",
            name(&experiment.baseline)
        ),
        header: header.map(str::to_owned).collect(),
        rows: [said.map(str::to_owned).to_vec()].into_iter().chain(rows.iter().map(row)).collect(),
    }
}
