//! The experiment's page: what each policy buys on each workload, what it costs, and how far the result can be trusted.
//!
//! Trap: everything here is modelled. The page says so before the first number, and names the baseline of every ratio.

use super::interval::Interval;
use super::spec::Experiment;
use super::summary::{Figures, Summary};
use crate::html;
use crate::plot::{self, Whisker};
use crate::record::Stamp;
use anyhow::{Context, Result};
use eager_core::PolicyName;
use std::collections::BTreeMap;
use std::path::Path;

/// How an interval is written in a table.
type Text<'a> = &'a dyn Fn(&Interval) -> String;
type ByPolicy = BTreeMap<String, Figures>;

/// Drawn against `case`; the others are in the tables.
const DRAWN: [&str; 6] = ["case-fifo", "quanta", "eager-b", "eager-pb", "eager-opt", "infinite"];

/// Writes the page.
pub fn write(
    path: &Path,
    experiment: &Experiment,
    summary: &Summary,
    schedules: &[String],
    stamp: &Stamp,
) -> Result<()> {
    let mut body = introduction(summary, stamp);
    body += &throughput_part(experiment, summary)?;
    body += &cost_part(experiment, summary);
    body += &sensitivity_part(experiment, summary)?;
    body += &schedules_part(experiment, schedules);
    let page = html::page(&experiment.title, &body);
    std::fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))
}

/// The policies that occur, in the order in which they are always named.
pub fn policies(of: &BTreeMap<String, ByPolicy>) -> Vec<String> {
    let names = PolicyName::names().into_iter().map(str::to_owned);
    names.filter(|name| of.values().any(|policies| policies.contains_key(name))).collect()
}

fn introduction(summary: &Summary, stamp: &Stamp) -> String {
    format!(
        "<p class=\"note\"><b>Modelled, not measured</b>: the daemon's own decision core over a GPU model, in virtual time. \
         No GPU took part.</p><p>{} devices; every list in {} seeded orders or draws. Each cell is the median over the \
         seeds and, in brackets, its 95 % confidence interval from order statistics. Ratios are taken list by list. \
         <b>case</b> retries every waiter at each release, largest first: CASE as its authors run it, the strong baseline. \
         <b>case-fifo</b> lets the head of the queue block the rest: the weak one, which the eager prototype was \
         compared with. <b>infinite</b> is CASE with endless device memory. Eager {} at commit {}, {}, {} cores.</p>",
        html::escape(&summary.cards),
        summary.seeds,
        html::escape(&stamp.version),
        html::escape(&stamp.commit),
        html::escape(&stamp.cpu),
        stamp.cores,
    )
}

fn throughput_part(experiment: &Experiment, summary: &Summary) -> Result<String> {
    let mut part = String::from("<h2>Throughput</h2>");
    for (clock, figure, baseline) in [
        ("from the first submission to the last end", "throughput_vs_case", "case"),
        (
            "from \u{201c}all have asked\u{201d} to the last end, the source document's clock",
            "throughput_vs_case_ask",
            "case",
        ),
        ("from the first submission to the last end", "throughput_vs_case_fifo", "case-fifo"),
        ("from \u{201c}all have asked\u{201d} to the last end", "throughput_vs_case_fifo_ask", "case-fifo"),
    ] {
        part += &format!("<h3>Over {baseline}, {clock}</h3>");
        if baseline == "case" {
            part += &legend();
            part +=
                &plot::forest(&format!("throughput over {baseline}"), &rows(experiment, summary, figure))?;
        }
        part += &figure_table(experiment, summary, figure, &ratio);
    }
    part += "<h3>Makespan over its lower bound</h3><p>The bound is the larger of all device work spread evenly over the \
             devices and the longest job alone; where it is near 1 no policy can gain.</p>";
    part += &figure_table(experiment, summary, "makespan_over_bound", &ratio);
    Ok(part)
}

fn legend() -> String {
    let key = |(name, (_, colour)): (&&str, &(plotters::style::RGBColor, &str))| {
        format!("<span class=\"key\" style=\"background:{colour}\"></span>{name}")
    };
    format!("<p>{}</p>", DRAWN.iter().zip(&plot::SERIES).map(key).collect::<String>())
}

fn rows(experiment: &Experiment, summary: &Summary, figure: &str) -> Vec<(String, Vec<Option<Whisker>>)> {
    let names = experiment.workloads.iter().map(|workload| &workload.name);
    let row = |name: &String| Some((name.clone(), whiskers(summary.workloads.get(name)?, figure)));
    names.filter_map(row).collect()
}

fn whiskers(policies: &ByPolicy, figure: &str) -> Vec<Option<Whisker>> {
    let whisker = |policy: &&str| {
        let Interval { median, low, high } = *policies.get(*policy)?.get(figure)?;
        Some(Whisker { at: median, low, high })
    };
    DRAWN.iter().map(whisker).collect()
}

fn cost_part(experiment: &Experiment, summary: &Summary) -> String {
    let seconds = |i: &Interval| format!("{:.1} s", i.median);
    let gib = |i: &Interval| format!("{:.1}", i.median / (1u64 << 30) as f64);
    let percent = |i: &Interval| format!("{:.0} %", i.median * 100.0);
    let count = |i: &Interval| format!("{:.1}", i.median);
    let tables: [(&str, &str, Text<'_>); 8] = [
        (
            "Slowdown of Normal tasks (95th percentile): device-side time over that of the same job under case",
            "normal_slowdown_p95",
            &ratio,
        ),
        ("Makespan", "makespan_s", &seconds),
        ("Mean turnaround", "turnaround_mean_s", &seconds),
        ("Worst turnaround", "turnaround_max_s", &seconds),
        ("Paged: demand-faulted, evicted and fetched again, GiB", "bytes_paged", &gib),
        ("Devices with any operation, share of the makespan", "device_busy", &percent),
        ("Eager launches", "eager_launches", &count),
        ("Jobs lost for want of memory", "jobs_lost", &count),
    ];
    let table = |(title, figure, text): &(&str, &str, Text<'_>)| {
        format!("<h3>{title}</h3>{}", figure_table(experiment, summary, figure, text))
    };
    format!("<h2>What it costs</h2>{}", tables.iter().map(table).collect::<String>())
}

fn ratio(interval: &Interval) -> String {
    interval.text()
}

fn figure_table(experiment: &Experiment, summary: &Summary, figure: &str, text: Text<'_>) -> String {
    let names: Vec<&String> = experiment.workloads.iter().map(|workload| &workload.name).collect();
    wide_table("workload", &names, &summary.workloads, figure, text)
}

/// A row per name and a column per policy; small, and scrolling where the page is narrow.
fn wide_table(
    what: &str,
    names: &[&String],
    of: &BTreeMap<String, ByPolicy>,
    figure: &str,
    text: Text<'_>,
) -> String {
    let policies = policies(of);
    let header: Vec<&str> = [what].into_iter().chain(policies.iter().map(String::as_str)).collect();
    let row = |name: &&String| {
        let cell = |policy: &String| {
            let found = of.get(*name).and_then(|policies| policies.get(policy)?.get(figure));
            found.map_or_else(|| "-".to_owned(), text)
        };
        [(*name).clone()].into_iter().chain(policies.iter().map(cell)).collect()
    };
    let rows: Vec<Vec<String>> = names.iter().map(row).collect();
    format!("<div class=\"wide\">{}</div>", html::table(&header, &rows))
}

fn sensitivity_part(experiment: &Experiment, summary: &Summary) -> Result<String> {
    let study = &experiment.sensitivity;
    let mut part = format!(
        "<h2>How far to trust it</h2><p>The workload {} with one thing changed at a time; each ratio is against case under \
         the same change.</p>",
        html::escape(&study.workload)
    );
    let names: Vec<&String> = study.variants.iter().map(|variant| &variant.name).collect();
    let row = |name: &&String| {
        let policies = summary.sensitivity.get(*name)?;
        Some(((*name).clone(), whiskers(policies, "throughput_vs_case")))
    };
    part += &legend();
    part += &plot::forest("throughput over case", &names.iter().filter_map(row).collect::<Vec<_>>())?;
    for (title, figure) in [
        ("Over case", "throughput_vs_case"),
        ("Over case-fifo", "throughput_vs_case_fifo"),
        ("Over case, asked clock", "throughput_vs_case_ask"),
        ("Slowdown of Normal tasks (95th percentile)", "normal_slowdown_p95"),
    ] {
        part += &format!("<h3>{title}</h3>");
        part += &wide_table("change", &names, &summary.sensitivity, figure, &ratio);
    }
    Ok(part)
}

fn schedules_part(experiment: &Experiment, schedules: &[String]) -> String {
    let mut part = format!(
        "<h2>Schedules</h2><p>{}, seed 1. A job's bar begins when its task asks for a device.",
        html::escape(&experiment.timeline.workload)
    );
    for (name, colour) in plot::LEGEND {
        part += &format!("<span class=\"key\" style=\"background:{colour}\"></span>{name}");
    }
    part + "</p>" + &schedules.concat()
}
