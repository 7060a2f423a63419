//! The experiment's page: what each policy buys on each workload, what it costs, where the source document (specification
//! S-1) says otherwise, and how far the result can be trusted.
//!
//! Trap: everything here is modelled. The page says so before the first number, and names the baseline of every ratio.

use super::results::Results;
use super::spec::{Experiment, SENSITIVITY};
use super::summary::{Figures, Summary};
use super::tables::{self, Table};
use crate::interval::Interval;
use crate::plot::{self, Whisker};
use crate::{gantt, html};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;

type ByPolicy = BTreeMap<String, Figures>;

/// Drawn against `case`; the others are in the tables.
const DRAWN: [&str; 7] =
    ["case-fifo", "quanta", "eager-b", "eager-pb", "eager-opt", "eager-live", "infinite"];

/// Writes the page.
pub fn write(path: &Path, experiment: &Experiment, results: &Results, schedules: &[String]) -> Result<()> {
    let mut body = introduction(&results.summary);
    body += &throughput_part(experiment, results)?;
    body += &document_part(results);
    body += "<h2>What it costs</h2>";
    body += &html_of(&tables::workload_tables(experiment, results, &tables::COSTS));
    body += &sensitivity_part(experiment, results)?;
    body += &schedules_part(experiment, schedules);
    let page = html::page(&experiment.title, &body);
    std::fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))
}

fn introduction(summary: &Summary) -> String {
    let stamp = &summary.stamp;
    format!(
        "<p class=\"note\"><b>Modelled, not measured</b>: the daemon's own decision core over a GPU model, in virtual time. \
         No GPU took part.</p><p>{} devices; every list in {} seeded orders or draws. Each cell is the median over the \
         seeds and, in brackets, its 95 % confidence interval from order statistics. Ratios are taken list by list. \
         <b>case</b> retries every waiter at each release, largest first: CASE as its authors run it, the strong baseline. \
         <b>case-fifo</b> lets the head of the queue block the rest: the weak one, which the eager prototype was \
         compared with. <b>infinite</b> is CASE with endless device memory. Policy eager-live, which rests on estimates and \
         on other programs, has its own experiment (<code>make live</code>) and <a href=\"../live/report.html\">report</a>. Eager {} at commit {}, {}, {} cores.</p>",
        html::escape(&summary.cards),
        summary.seeds,
        html::escape(&stamp.version),
        html::escape(&stamp.commit),
        html::escape(&stamp.cpu),
        stamp.cores,
    )
}

fn html_of(tables: &[Table]) -> String {
    tables.iter().map(Table::html).collect()
}

fn throughput_part(experiment: &Experiment, results: &Results) -> Result<String> {
    let mut part = String::from("<h2>Throughput</h2>");
    let tables = tables::workload_tables(experiment, results, &tables::THROUGHPUT);
    for (table, (figure, ..)) in tables.iter().zip(&tables::THROUGHPUT) {
        if matches!(*figure, "throughput_vs_case" | "throughput_vs_case_ask") {
            let names = experiment.workloads.iter().map(|workload| &workload.name);
            let of = &results.summary.workloads;
            let rows: Vec<_> = names.filter_map(|name| whiskers(name, of.get(name)?, figure)).collect();
            part += &format!("<h3>{}</h3>{}", html::escape(&table.title), legend());
            part += &plot::forest("throughput over case", &rows)?;
            part += &table.html().replacen(&format!("<h3>{}</h3>", html::escape(&table.title)), "", 1);
        } else {
            part += &table.html();
        }
    }
    part += "<p>The lower bound is the larger of all device work spread evenly over the devices and the longest job alone; \
             where a makespan is near it no policy can gain.</p>";
    Ok(part)
}

fn document_part(results: &Results) -> String {
    format!(
        "<h2>The source document's claims</h2><p>Its figure is lost; its text says that eager-opt reaches 139 % of CASE and \
         is the best, that eager-pb is the second, and that eager-p beats eager-b on W3 and W4 and loses on the others \
         (docs/specification.md, S-222); that two srad_v1 that meet slow each other down about 40 times (S-209); and Table 1 \
         (S-221; eager-eval footprints). It does not say which CASE it ran, nor which lists W1 to W8 are.</p>{}{}",
        tables::claim_table(&results.claims).html(),
        tables::interference_table(results).html(),
    )
}

fn legend() -> String {
    let key = |(name, (_, colour)): (&&str, &(plotters::style::RGBColor, &str))| {
        format!("<span class=\"key\" style=\"background:{colour}\"></span>{name}")
    };
    format!("<p>{}</p>", DRAWN.iter().zip(&plot::SERIES).map(key).collect::<String>())
}

/// A row of a figure; none if nothing in it was run.
fn whiskers(name: &str, policies: &ByPolicy, figure: &str) -> Option<(String, Vec<Option<Whisker>>)> {
    let whisker = |policy: &&str| {
        let Interval { median, low, high } = *policies.get(*policy)?.get(figure)?;
        Some(Whisker { at: median, low, high })
    };
    let row: Vec<Option<Whisker>> = DRAWN.iter().map(whisker).collect();
    row.iter().any(Option::is_some).then(|| (name.to_owned(), row))
}

fn sensitivity_part(experiment: &Experiment, results: &Results) -> Result<String> {
    let study = &experiment.sensitivity;
    let mut part = format!(
        "<h2>How far to trust it</h2><p>The workload {} with one thing changed at a time; each ratio is against the \
         baseline under the same change.</p>",
        html::escape(&study.workloads.join(", "))
    );
    let of = results.summary.studies.get(SENSITIVITY);
    let row = |name: &String| whiskers(name, of?.get(name)?, "throughput_vs_case");
    let rows: Vec<_> = study.variants.iter().filter_map(|variant| row(&variant.name)).collect();
    part += &legend();
    part += &plot::forest("throughput over case, from the first submission", &rows)?;
    part += &html_of(&tables::sensitivity_tables(experiment, results));
    part += &html_of(&tables::threshold_tables(experiment, results));
    Ok(part)
}

fn schedules_part(experiment: &Experiment, schedules: &[String]) -> String {
    format!(
        "<h2>Schedules</h2><p>{}, seed 1, one time axis for all. {}</p>{}{}",
        html::escape(&experiment.timeline.workload),
        gantt::READING,
        gantt::legend(),
        schedules.concat()
    )
}
