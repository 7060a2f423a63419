//! Tables of the experiment: over CASE by both clocks, against the bound, and what it costs.
//!
//! Trap: ratios are made list by list and seed by seed; the lists of a group are joined by the geometric mean before the
//! median over the seeds is taken.

use super::run::Sample;
use super::spec::{CASE, Experiment, Table};
use crate::html;
use crate::interval::Interval;
use crate::record::Stamp;
use crate::table;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// Of one system on one group of lists under one variant.
type Figures = BTreeMap<&'static str, Interval>;
/// By variant, group and system.
type Summary = BTreeMap<String, BTreeMap<String, BTreeMap<String, Figures>>>;
type ListKey<'a> = (&'a str, &'a str, &'a str, u64);

/// The least ratio of any single list, by submission.
const WORST: &str = "worst_list_vs_case";

/// Writes `summary.json` and `report.html`, and prints the tables.
pub fn write(experiment: &Experiment, samples: &[Sample], stamp: &Stamp, out: &Path) -> Result<()> {
    let summary = summarize(samples);
    let path = out.join("summary.json");
    std::fs::write(&path, serde_json::to_string_pretty(&summary)? + "\n")
        .with_context(|| format!("cannot write {}", path.display()))?;
    let mut body = introduction(experiment, stamp);
    for wanted in &experiment.tables {
        let (header, rows) = if wanted.variants.len() > 1 {
            by_variant(wanted, &summary)
        } else {
            by_system(wanted, &summary)
        };
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        println!("{}\n{}", wanted.title, table::render(&header, &rows));
        body += &format!("<h2>{}</h2>{}", html::escape(&wanted.title), html::table(&header, &rows));
    }
    let path = out.join("report.html");
    std::fs::write(&path, html::page(&experiment.title, &body))
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("Report: {}", path.display());
    Ok(())
}

fn introduction(experiment: &Experiment, stamp: &Stamp) -> String {
    format!(
        "<p class=\"note\"><b>Modelled, not measured</b>: the daemon's own decision core over a GPU model, in virtual time, \
         with estimates of run times as good as each table says and liveness as a perfect compiler would prove it.</p>\
         <p>{} devices, {} seeds. Cells are throughput over backfilling CASE on the same lists: the geometric mean over the \
         Large:Small ratios, then the median over the seeds with its 95 % interval. <b>sub</b>: from the first submission \
         to the last end; <b>ask</b>: from \u{201c}all have asked\u{201d} on. <b>bound</b>: all kernels or copies spread \
         evenly over the devices, or the longest job alone. Late reservation moves host work before the request, so the \
         second clock favours it. Eager {} at commit {}.</p>",
        html::escape(&experiment.cards),
        experiment.seeds,
        html::escape(&stamp.version),
        html::escape(&stamp.commit),
    )
}

/// A row for each system: ratios by group and clock, then what the last group says of costs.
fn by_system(wanted: &Table, summary: &Summary) -> (Vec<String>, Vec<Vec<String>>) {
    let variant = wanted.variants.first().map_or("", String::as_str);
    let columns = [
        ("sub", "vs_case"),
        ("ask", "vs_case_ask"),
        ("worst", WORST),
        ("bound", "bound_vs_case"),
        ("longest wait / CASE's", "wait_vs_case"),
        ("slowdown p95", "normal_slowdown_p95"),
        ("eager", "eager_launches"),
    ];
    let of_group = |group: &String, system: &str| summary.get(variant)?.get(group)?.get(system);
    let has = |group: &String, figure: &str| {
        wanted.systems.iter().any(|s| of_group(group, s).is_some_and(|of| of.contains_key(figure)))
    };
    let shown: Vec<(&String, &str, &str)> = wanted
        .groups
        .iter()
        .flat_map(|group| columns.iter().map(move |(title, figure)| (group, *title, *figure)))
        .filter(|(group, _, figure)| has(group, figure))
        .collect();
    let titles = shown.iter().map(|(group, title, _)| format!("{group} {title}"));
    let header = ["system".to_owned()].into_iter().chain(titles).collect();
    let row = |system: &String| {
        let cell = |(group, _, figure): &(&String, &str, &str)| {
            let found = of_group(group, system).and_then(|of| of.get(figure));
            found.map_or_else(|| "-".to_owned(), |interval| text(figure, interval))
        };
        [system.clone()].into_iter().chain(shown.iter().map(cell)).collect()
    };
    (header, wanted.systems.iter().map(row).collect())
}

fn text(figure: &str, interval: &Interval) -> String {
    match figure {
        WORST => format!("{:.2}", interval.low),
        "eager_launches" => format!("{:.0}", interval.median),
        "bound_vs_case" | "wait_vs_case" | "normal_slowdown_p95" => format!("{:.2}", interval.median),
        _ => interval.text(),
    }
}

/// A row for each variant: a column for each system, both clocks in one cell.
fn by_variant(wanted: &Table, summary: &Summary) -> (Vec<String>, Vec<Vec<String>>) {
    let systems: Vec<&String> = wanted.systems.iter().filter(|system| *system != CASE).collect();
    let mut header = vec!["variant".to_owned()];
    let mut rows: Vec<Vec<String>> = wanted.variants.iter().map(|name| vec![name.clone()]).collect();
    for group in &wanted.groups {
        header.extend(systems.iter().map(|system| format!("{group} {system}")));
        header.push(format!("{group} bound"));
        for (row, variant) in rows.iter_mut().zip(&wanted.variants) {
            let of = summary.get(variant).and_then(|groups| groups.get(group));
            let median = |system: &str, figure| {
                let found = of.and_then(|of| of.get(system)?.get(figure));
                found.map_or_else(|| "-".to_owned(), |interval| format!("{:.2}", interval.median))
            };
            let both = |system: &&String| {
                format!("{} | {}", median(system, "vs_case"), median(system, "vs_case_ask"))
            };
            row.extend(systems.iter().map(both));
            row.push(median(CASE, "bound_vs_case"));
        }
    }
    (header, rows)
}

fn summarize(samples: &[Sample]) -> Summary {
    let base: BTreeMap<ListKey<'_>, &Sample> =
        samples.iter().filter(|sample| sample.system == CASE).map(|sample| (key(sample), sample)).collect();
    let mut groups: BTreeMap<[&str; 3], Vec<(&Sample, &Sample)>> = BTreeMap::new();
    for own in samples {
        if let Some(base) = base.get(&key(own)) {
            groups.entry([&own.variant, &own.group, &own.system]).or_default().push((own, base));
        }
    }
    let mut summary = Summary::new();
    for ([variant, group, system], pairs) in groups {
        let groups = summary.entry(variant.to_owned()).or_default();
        groups.entry(group.to_owned()).or_default().insert(system.to_owned(), figures(&pairs));
    }
    summary
}

fn key(sample: &Sample) -> ListKey<'_> {
    (&sample.variant, &sample.group, &sample.ratio, sample.seed)
}

fn figures(pairs: &[(&Sample, &Sample)]) -> Figures {
    type Figure<'a> = &'a dyn Fn(&Sample, &Sample) -> Option<f64>;
    // A job that was lost is no throughput.
    let ended = |own: &Sample, base: &Sample| {
        let jobs = own.normal_device_s.len() as f64;
        (jobs - own.jobs_lost as f64) / (jobs - base.jobs_lost as f64)
    };
    let sub = |own: &Sample, base: &Sample| Some(ended(own, base) * base.makespan_s / own.makespan_s);
    let ask =
        |own: &Sample, base: &Sample| Some(ended(own, base) * base.ask_makespan_s? / own.ask_makespan_s?);
    let columns: [(&'static str, Figure<'_>); 8] = [
        ("vs_case", &sub),
        ("vs_case_ask", &ask),
        ("bound_vs_case", &|own, base| Some(base.makespan_s / own.bound_s)),
        ("makespan_s", &|own, _| Some(own.makespan_s)),
        ("wait_vs_case", &|own, base| (base.wait_max_s > 0.0).then(|| own.wait_max_s / base.wait_max_s)),
        ("turnaround_vs_case", &|own, base| Some(own.turnaround_mean_s / base.turnaround_mean_s)),
        ("normal_slowdown_p95", &slowdown_p95),
        ("kernels_busy", &|own, _| Some(own.kernels_busy)),
    ];
    let of = |figure: Figure<'_>| {
        let mut seeds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for (own, base) in pairs {
            if let Some(value) = figure(own, base) {
                seeds.entry(own.seed).or_default().push(value.max(f64::MIN_POSITIVE).ln());
            }
        }
        let mean = |logs: Vec<f64>| (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        Interval::of(seeds.into_values().map(mean).collect())
    };
    let mut figures: Figures =
        columns.into_iter().filter_map(|(name, figure)| Some((name, of(figure)?))).collect();
    let whole = |of: fn(&Sample) -> f64| Interval::of(pairs.iter().map(|(own, _)| of(own)).collect());
    let worst = pairs.iter().filter_map(|(own, base)| sub(own, base)).fold(f64::INFINITY, f64::min);
    let counts = [
        (WORST, Some(Interval { median: worst, low: worst, high: worst })),
        ("eager_launches", whole(|own| own.eager_launches as f64)),
        ("bytes_paged", whole(|own| own.bytes_paged as f64)),
        ("jobs_lost", whole(|own| own.jobs_lost as f64)),
    ];
    figures.extend(counts.into_iter().filter_map(|(name, interval)| Some((name, interval?))));
    figures
}

/// 95th percentile (nearest rank) of device-side time over that under CASE, of the jobs that were Normal in both.
fn slowdown_p95(own: &Sample, base: &Sample) -> Option<f64> {
    let both = own.normal_device_s.iter().zip(&base.normal_device_s);
    let mut slow: Vec<f64> =
        both.filter_map(|(own, base)| Some((*own)? / (*base).filter(|base| *base > 0.0)?)).collect();
    slow.sort_by(f64::total_cmp);
    let rank = (slow.len() as f64 * 0.95).ceil() as usize;
    slow.get(rank.saturating_sub(1)).copied()
}
