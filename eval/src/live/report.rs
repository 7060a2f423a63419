//! Tables and figures of the experiment: over CASE by both clocks, against the bound, and what it costs.
//!
//! Trap: a table's cells come from the summary alone, so that page, documentation and `summary.json` cannot differ.

use super::figures::{self, Column};
use super::sample::Sample;
use super::spec::{CASE, Experiment, Rows, Table as Wanted};
use crate::experiment::{Figures, Summary, Table, fill};
use crate::plot::{self, Whisker};
use crate::record::{Record, Stamp, WorkloadStamp};
use crate::sim_run::Host;
use crate::{gantt, html, table};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

type BySystem = BTreeMap<String, Figures>;
/// A label and the figures of its systems.
type Row<'a> = (String, Option<&'a BySystem>);

/// Writes `summary.json` and `report.html`, prints the tables, and fills them into the pages.
pub fn write(
    experiment: &Experiment,
    samples: &[Sample],
    stamp: &Stamp,
    out: &Path,
    pages: &[PathBuf],
) -> Result<()> {
    let summary = figures::summarize(experiment, samples, stamp);
    let path = out.join("summary.json");
    std::fs::write(&path, serde_json::to_string_pretty(&summary)? + "\n")
        .with_context(|| format!("cannot write {}", path.display()))?;
    let mut body = introduction(experiment, stamp);
    let mut tables = vec![Table::made(stamp, &experiment.cards, &experiment.seeds())];
    for wanted in &experiment.tables {
        let made = of(experiment, wanted, &summary)?;
        let header: Vec<&str> = made.header.iter().map(String::as_str).collect();
        println!("{}\n{}", made.title, table::render(&header, &made.rows));
        body += &made.html();
        if wanted.drawn {
            body += &drawn(experiment, wanted, &summary)?;
        }
        tables.push(made);
    }
    body += &schedules(experiment, stamp)?;
    let path = out.join("report.html");
    std::fs::write(&path, html::page(&experiment.title, &body))
        .with_context(|| format!("cannot write {}", path.display()))?;
    for page in pages {
        fill(page, &tables)?;
    }
    println!("Report: {}", path.display());
    Ok(())
}

fn seeds(experiment: &Experiment) -> String {
    let seeds = experiment.seeds();
    format!("{} to {}", seeds.start, seeds.end.saturating_sub(1))
}

fn introduction(experiment: &Experiment, stamp: &Stamp) -> String {
    format!(
        "<p class=\"note\"><b>Modelled, not measured</b>: the daemon's own decision core over a GPU model, in virtual time, \
         with estimates of run times as good as each table says and liveness as a perfect compiler would prove it.</p>\
         <p>{} devices, seeds {}. Ratios are over backfilling CASE on the same lists: the geometric mean over the \
         Large:Small ratios, then the median over the seeds with its 95 % interval. <b>sub</b>: from the first submission \
         to the last end; <b>ask</b>: from \u{201c}all have asked\u{201d} on. <b>bound</b>: all kernels or copies spread \
         evenly over the devices, or the longest job alone. Late reservation moves host work before the request, so the \
         second clock favours it. Eager {} at commit {}, {}, {} cores.</p>",
        html::escape(&experiment.cards),
        seeds(experiment),
        html::escape(&stamp.version),
        html::escape(&stamp.commit),
        html::escape(&stamp.cpu),
        stamp.cores,
    )
}

fn of(experiment: &Experiment, wanted: &Wanted, summary: &Summary) -> Result<Table> {
    let columns: Vec<&Column> =
        wanted.figures.iter().map(|name| figures::column(name)).collect::<Result<_>>()?;
    let (header, rows) = match wanted.rows {
        Rows::Systems => by_system(wanted, &columns, summary),
        Rows::Lists => by_row("lists", &list_rows(experiment, wanted, summary)?, wanted, &columns),
        Rows::Variants => by_row("variant", &variant_rows(wanted, summary), wanted, &columns),
    };
    Ok(Table { key: wanted.key.clone(), title: wanted.title.clone(), header, rows })
}

fn list_rows<'a>(experiment: &Experiment, wanted: &Wanted, summary: &'a Summary) -> Result<Vec<Row<'a>>> {
    let mut rows = Vec::new();
    for group in &wanted.groups {
        let ratios = experiment.list(group)?.ratios.iter().map(String::as_str);
        for ratio in [""].into_iter().chain(ratios) {
            let name = figures::workload(group, ratio);
            let found = summary.workloads.get(&name);
            rows.push((name, found));
        }
    }
    Ok(rows)
}

/// Of the first group; the first variant may be the machine as it is.
fn variant_rows<'a>(wanted: &Wanted, summary: &'a Summary) -> Vec<Row<'a>> {
    let Some(group) = wanted.groups.first() else { return Vec::new() };
    let varied = summary.studies.get(group);
    let found = |name: &String| varied.and_then(|of| of.get(name)).or_else(|| summary.workloads.get(group));
    wanted.variants.iter().map(|name| (name.clone(), found(name))).collect()
}

fn cell(systems: Option<&BySystem>, system: &str, column: &Column) -> String {
    let found = systems.and_then(|of| of.get(system)?.get(column.name));
    found.map_or_else(|| "-".to_owned(), column.text)
}

/// A column for each system, and for each of its figures if there are several; at the end the bound.
fn by_row(
    what: &str,
    rows: &[Row<'_>],
    wanted: &Wanted,
    columns: &[&Column],
) -> (Vec<String>, Vec<Vec<String>>) {
    let single = columns.len() == 1;
    let is_shown = |system: &str, column: &Column| {
        // Everything is against CASE, which is 1 or says nothing.
        system != CASE
            && rows.iter().any(|(_, of)| {
                of.is_some_and(|of| of.get(system).is_some_and(|f| f.get(column.name).is_some()))
            })
    };
    let shown: Vec<(&String, &Column)> = wanted
        .systems
        .iter()
        .flat_map(|system| columns.iter().map(move |column| (system, *column)))
        .filter(|(system, column)| is_shown(system, column))
        .collect();
    let title = |(system, column): &(&String, &Column)| {
        if single { (*system).clone() } else { format!("{system} {}", column.title) }
    };
    let bound = figures::column("bound_vs_case")
        .ok()
        .filter(|_| columns.iter().any(|column| column.name == "throughput_vs_case"));
    let mut header = vec![what.to_owned()];
    header.extend(shown.iter().map(title));
    header.extend(bound.map(|_| "bound".to_owned()));
    let row = |(name, systems): &Row<'_>| {
        let mut cells = vec![name.clone()];
        cells.extend(shown.iter().map(|(system, column)| cell(*systems, system, column)));
        cells.extend(bound.map(|column| cell(*systems, CASE, column)));
        cells
    };
    (header, rows.iter().map(row).collect())
}

/// A row for each system, a column for each group and figure.
fn by_system(wanted: &Wanted, columns: &[&Column], summary: &Summary) -> (Vec<String>, Vec<Vec<String>>) {
    let has = |group: &String, column: &Column| {
        let of = summary.workloads.get(group);
        of.is_some_and(|of| {
            wanted.systems.iter().any(|s| of.get(s).is_some_and(|f| f.get(column.name).is_some()))
        })
    };
    let shown: Vec<(&String, &Column)> = wanted
        .groups
        .iter()
        .flat_map(|group| columns.iter().map(move |column| (group, *column)))
        .filter(|(group, column)| has(group, column))
        .collect();
    let titles = shown.iter().map(|(group, column)| format!("{group}: {}", column.title));
    let header = ["system".to_owned()].into_iter().chain(titles).collect();
    let row = |system: &String| {
        let cells = shown.iter().map(|(group, column)| cell(summary.workloads.get(*group), system, column));
        [system.clone()].into_iter().chain(cells).collect()
    };
    (header, wanted.systems.iter().map(row).collect())
}

/// The table's first figure with its intervals, for at most as many systems as there are colours.
fn drawn(experiment: &Experiment, wanted: &Wanted, summary: &Summary) -> Result<String> {
    let Some(figure) = wanted.figures.first() else { return Ok(String::new()) };
    let rows = match wanted.rows {
        Rows::Variants => variant_rows(wanted, summary),
        _ => list_rows(experiment, wanted, summary)?,
    };
    let systems: Vec<&String> =
        wanted.systems.iter().filter(|system| *system != CASE).take(plot::SERIES.len()).collect();
    let whisker = |of: &BySystem, system: &str| {
        let found = *of.get(system)?.get(figure)?;
        Some(Whisker { at: found.median, low: found.low, high: found.high })
    };
    let whiskers = |(name, of): &Row<'_>| {
        let row = systems.iter().map(|system| of.and_then(|of| whisker(of, system))).collect();
        (name.clone(), row)
    };
    let rows: Vec<(String, Vec<Option<Whisker>>)> = rows.iter().map(whiskers).collect();
    let key = |(name, (_, colour)): (&&String, &(_, &str))| {
        format!("<span class=\"key\" style=\"background:{colour}\"></span>{}", html::escape(name))
    };
    let legend: String = systems.iter().zip(&plot::SERIES).map(key).collect();
    Ok(format!("<p>{legend}</p>{}", plot::forest("throughput over case, from the first submission", &rows)?))
}

fn schedules(experiment: &Experiment, stamp: &Stamp) -> Result<String> {
    let Some(wanted) = &experiment.timeline else { return Ok(String::new()) };
    let variant = experiment.variants.first().map(|variant| variant.machine.clone()).unwrap_or_default();
    let host = Host::new(&experiment.cards, &variant)?;
    let list = experiment.list(&wanted.group)?;
    let choices = list.choices(&wanted.ratio, experiment.first_seed)?;
    let name = figures::workload(&wanted.group, &wanted.ratio);
    let jobs = choices.iter().map(crate::workload::Choice::id).collect();
    let workload = WorkloadStamp { name: name.clone(), seed: experiment.first_seed, jobs };
    let run = |system: &String| {
        let policy = experiment.system(system)?.policy;
        host.run("live", policy, &workload, &choices, list.submission(), stamp)
    };
    let records: Vec<Record> = wanted.systems.iter().map(run).collect::<Result<_>>()?;
    let drawn = gantt::draw_all(&records.iter().collect::<Vec<_>>());
    Ok(format!(
        "<h2>Schedules</h2><p>{}, seed {}, one time axis for all. {}</p>{}{}",
        html::escape(&name),
        experiment.first_seed,
        gantt::READING,
        gantt::legend(),
        drawn.concat()
    ))
}
