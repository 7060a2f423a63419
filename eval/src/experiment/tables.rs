//! Every table of an experiment, once, for the page and for the documentation. "The document" is specification S-1.

use super::claims::{self, POLICIES};
use super::results::Results;
use super::spec::{Experiment, SENSITIVITY};
use super::summary::{Clock, Figures, policies};
use super::thresholds::Count;
use crate::html;
use crate::interval::Interval;
use crate::record::Stamp;
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::ops::Range;

/// Rows under a header; the first column names the row.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// What pages call it.
    pub key: String,
    pub title: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Where numbers come from.
    pub fn made(stamp: &Stamp, cards: &str, seeds: &Range<u64>) -> Table {
        let row = |name: &str, value: String| vec![name.to_owned(), value];
        Table {
            key: "made".to_owned(),
            title: String::new(),
            header: vec!["these numbers".to_owned(), String::new()],
            rows: vec![
                row("version, commit", format!("{}, {}", stamp.version, stamp.commit)),
                row("modelled devices", cards.to_owned()),
                row("seeds", format!("{} to {}", seeds.start, seeds.end.saturating_sub(1))),
                row("computed on", format!("{}, {} cores", stamp.cpu, stamp.cores)),
            ],
        }
    }

    pub fn html(&self) -> String {
        let header: Vec<&str> = self.header.iter().map(String::as_str).collect();
        let title = html::escape(&self.title);
        format!("<h3>{title}</h3>{}", html::table(&header, &self.rows))
    }

    /// The first column and those named; all if none is.
    pub fn markdown(&self, columns: &[&str]) -> Result<String> {
        let mut kept: Vec<usize> = vec![0];
        for column in columns {
            match self.header.iter().position(|head| head == column) {
                Some(index) => kept.push(index),
                None => {
                    bail!("table `{}` has no column `{column}`: it has {}", self.key, self.header.join(", "))
                }
            }
        }
        if columns.is_empty() {
            kept = (0..self.header.len()).collect();
        }
        let line = |cells: &[String]| {
            let cells: Vec<&str> =
                kept.iter().map(|index| cells.get(*index).map_or("", String::as_str)).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rule = format!("|{}\n", "---|".repeat(kept.len()));
        Ok(line(&self.header) + &rule + &self.rows.iter().map(|row| line(row)).collect::<String>())
    }
}

type ByPolicy = BTreeMap<String, Figures>;

/// How a figure is called and written: its name in `summary.json`, the title of its table, the form of a number.
type Column = (&'static str, &'static str, fn(&Interval) -> String);

pub const THROUGHPUT: [Column; 5] = [
    ("throughput_vs_case", "Throughput over case, from the first submission to the last end", ratio),
    (
        "throughput_vs_case_ask",
        "Throughput over case, from \u{201c}all have asked\u{201d} to the last end: the source document's clock",
        ratio,
    ),
    (
        "throughput_vs_case_fifo",
        "Throughput over case-fifo, from the first submission to the last end",
        ratio,
    ),
    (
        "throughput_vs_case_fifo_ask",
        "Throughput over case-fifo, from \u{201c}all have asked\u{201d} to the last end",
        ratio,
    ),
    ("makespan_over_bound", "Makespan over its lower bound", ratio),
];

pub const COSTS: [Column; 11] = [
    (
        "normal_slowdown_p95",
        "Slowdown of Normal tasks (95th percentile): device-side time over that of the same job under case",
        ratio,
    ),
    ("makespan_s", "Makespan, s", seconds),
    ("turnaround_mean_s", "Mean turnaround, s", seconds),
    ("turnaround_max_s", "Worst turnaround, s", seconds),
    ("bytes_paged", "Paged: demand-faulted, evicted and fetched again, GiB", gib),
    ("device_busy", "Devices with any operation, share of the makespan", percent),
    ("kernels_busy", "Devices with a kernel computing, share of the makespan", percent),
    ("copies_busy", "Devices with a copy or prefetch on the link, share of the makespan", percent),
    ("paging_busy", "Devices with page faults in service, share of the makespan", percent),
    ("eager_launches", "Eager launches", count),
    ("jobs_lost", "Jobs lost for want of memory", count),
];

pub const TRUST: [Column; 4] = [
    ("throughput_vs_case", "Over case, from the first submission", ratio),
    ("throughput_vs_case_fifo", "Over case-fifo, from the first submission", ratio),
    ("throughput_vs_case_ask", "Over case, from \u{201c}all have asked\u{201d}", ratio),
    ("normal_slowdown_p95", "Slowdown of Normal tasks (95th percentile)", ratio),
];

fn ratio(interval: &Interval) -> String {
    interval.text()
}

fn seconds(interval: &Interval) -> String {
    format!("{:.1}", interval.median)
}

fn gib(interval: &Interval) -> String {
    format!("{:.1}", interval.median / (1u64 << 30) as f64)
}

fn percent(interval: &Interval) -> String {
    format!("{:.0} %", interval.median * 100.0)
}

fn count(interval: &Interval) -> String {
    format!("{:.1}", interval.median)
}

/// All of them, for pages that pick.
pub fn all(experiment: &Experiment, results: &Results) -> Vec<Table> {
    let mut tables = workload_tables(experiment, results, &THROUGHPUT);
    tables.extend(workload_tables(experiment, results, &COSTS));
    tables.extend(sensitivity_tables(experiment, results));
    tables.extend([claim_table(&results.claims), interference_table(results)]);
    tables.extend(threshold_tables(experiment, results));
    let summary = &results.summary;
    tables.push(Table::made(&summary.stamp, &summary.cards, &(1..summary.seeds + 1)));
    tables
}

/// A row per workload, a column per policy.
pub fn workload_tables(experiment: &Experiment, results: &Results, columns: &[Column]) -> Vec<Table> {
    let names: Vec<&str> = experiment.workloads.iter().map(|workload| workload.name.as_str()).collect();
    let of = &results.summary.workloads;
    columns.iter().map(|column| by_policy("", "workload", &names, of, column)).collect()
}

/// A row per variant, a column per policy.
pub fn sensitivity_tables(experiment: &Experiment, results: &Results) -> Vec<Table> {
    let variants = &experiment.sensitivity.variants;
    let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
    let Some(of) = results.summary.studies.get(SENSITIVITY) else { return Vec::new() };
    TRUST.iter().map(|column| by_policy("sensitivity_", "change", &names, of, column)).collect()
}

fn by_policy(
    prefix: &str,
    what: &str,
    names: &[&str],
    of: &BTreeMap<String, ByPolicy>,
    (figure, title, text): &Column,
) -> Table {
    let policies = policies(of);
    // A row to which the figure does not apply at all is left out.
    let row = |name: &&str| {
        let found = |policy: &String| of.get(*name)?.get(policy)?.get(figure).map(text);
        let cells: Vec<Option<String>> = policies.iter().map(found).collect();
        let cells = cells.iter().any(Option::is_some).then_some(cells)?;
        let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| "-".to_owned()));
        Some([(*name).to_owned()].into_iter().chain(cells).collect())
    };
    Table {
        key: format!("{prefix}{figure}"),
        title: (*title).to_owned(),
        header: [what.to_owned()].into_iter().chain(policies.iter().cloned()).collect(),
        rows: names.iter().filter_map(row).collect(),
    }
}

/// The document's claims: its own row first, then ours.
pub fn claim_table(rows: &[claims::Row]) -> Table {
    let text = |interval: Option<&Interval>| interval.map_or_else(|| "-".to_owned(), Interval::text);
    let others = || POLICIES.iter().filter(|policy| **policy != "eager-opt");
    let header = ["lists, and what is changed", "eager-opt", "same / case-fifo"].into_iter();
    let header = header.chain(others().copied()).chain(["best first", "p / b on W3, W4", "p / b elsewhere"]);
    let row = |row: &claims::Row| {
        let clock = if row.clock == Clock::Asked { "" } else { " *" };
        let short = |policy: &str| policy.trim_start_matches("eager-").to_owned();
        let order: Vec<String> = row.order().into_iter().map(short).collect();
        let first = [format!("{}{clock}", row.name), text(row.over_case.get("eager-opt"))];
        let middle = others().map(|policy| text(row.over_case.get(policy)));
        let last =
            [order.join(", "), text(row.p_over_b_there.as_ref()), text(row.p_over_b_elsewhere.as_ref())];
        let first = first.into_iter().chain([text(row.opt_over_fifo.as_ref())]);
        first.chain(middle).chain(last).collect()
    };
    let said = ["the document", "1.39", "-", "-", "-", "-", "-", "opt, pb, …", "above 1", "below 1"];
    Table {
        key: "claims".to_owned(),
        title: "Throughput over case on the document's eight workloads: geometric mean over them, seed by seed (* from \
                submission, others from \u{201c}all have asked\u{201d}); p / b: eager-p over eager-b"
            .to_owned(),
        header: header.map(str::to_owned).collect(),
        rows: [said.map(str::to_owned).to_vec()].into_iter().chain(rows.iter().map(row)).collect(),
    }
}

/// Pairs that meet on one device.
pub fn interference_table(results: &Results) -> Table {
    let header = [
        "pair",
        "policy",
        "wanted",
        "kernels of the first",
        "of the second",
        "both ended",
        "one after the other",
    ];
    let row = |met: &super::interference::Meeting| {
        vec![
            format!("{} + {}", met.pair.0, met.pair.1),
            met.policy.to_string(),
            format!("{:.0} %", met.demand * 100.0),
            format!("{:.1}x", met.kernels.0),
            format!("{:.1}x", met.kernels.1),
            format!("{:.1} s", met.makespan_s),
            format!("{:.1} s", met.serial_s),
        ]
    };
    Table {
        key: "interference".to_owned(),
        title: "Two jobs on one device: how much slower each one's kernels become".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: results.meetings.iter().map(row).collect(),
    }
}

/// What each threshold would have let go earlier, by kernel over all lists, and by list over all kernels.
pub fn threshold_tables(experiment: &Experiment, results: &Results) -> [Table; 2] {
    let percents = &experiment.thresholds.percents;
    let table = |key: &str, what: &str, of: fn(&(String, String)) -> &String| {
        let mut sums: BTreeMap<&String, Count> = BTreeMap::new();
        for (list_and_kernel, count) in &results.thresholds {
            let none = || Count::none(percents.len());
            sums.entry(of(list_and_kernel)).or_insert_with(none).add(count);
        }
        let row = |(name, count): (&&String, &Count)| {
            let numbers = [count.stood].into_iter().chain(count.earlier.iter().copied());
            [(*name).clone()].into_iter().chain(numbers.map(|number| number.to_string())).collect()
        };
        let columns = percents.iter().map(|percent| format!("{percent} %"));
        Table {
            key: key.to_owned(),
            title: format!(
                "Kernels that stood at a gate until the Normal tasks had launched everything, and how many of them each \
                 OS-ratio threshold would have let go earlier, by {what}"
            ),
            header: [what.to_owned(), "stood".to_owned()].into_iter().chain(columns).collect(),
            rows: sums.iter().map(row).collect(),
        }
    };
    [
        table("thresholds_by_kernel", "kernel", |(_, kernel)| kernel),
        table("thresholds_by_list", "workload", |(workload, _)| workload),
    ]
}
