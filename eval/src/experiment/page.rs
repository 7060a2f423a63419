//! Report of an experiment: tables, sections, schedules, and how far the results can be trusted.
//!
//! Trap: every number here is modelled. The page must say so before the first number, and name the baseline of every
//! ratio.

use super::sample::Sample;
use super::spec::Experiment;
use super::summary::{Runs, summarize};
use super::tables::{DrawnTable, Table};
use super::{claims, fill, interference, tables, thresholds, timeline};
use crate::{html, table};
use anyhow::{Context, Result};
use eager_measure::Stamp;
use std::path::{Path, PathBuf};

/// Writes `summary.json` and `report.html`, prints the tables, and fills them into the pages.
pub fn write(
    experiment: &Experiment,
    samples: &[Sample],
    stamp: &Stamp,
    out: &Path,
    pages: &[PathBuf],
) -> Result<()> {
    let summary = summarize(experiment, samples, stamp);
    let path = out.join("summary.json");
    std::fs::write(&path, serde_json::to_string_pretty(&summary)? + "\n")
        .with_context(|| format!("cannot write {}", path.display()))?;
    let mut body = introduction(experiment, stamp);
    let mut all = vec![Table::made(stamp, &experiment.cards, &experiment.seeds())];
    for DrawnTable { table, drawn } in tables::all(experiment, &summary)? {
        print(&table);
        body += &(table.html() + &drawn);
        all.push(table);
    }
    let sections = sections(experiment, samples)?;
    for (text, tables) in sections {
        body += &text;
        body += &tables.iter().map(Table::html).collect::<String>();
        all.extend(tables);
    }
    for sentence in tables::left_out(experiment) {
        println!("{sentence}");
        body += &format!("<p>{}.</p>", html::escape(&sentence));
    }
    body += &timeline::draw(experiment)?;
    let definition = |(name, about): (String, &str)| {
        let about = html::escape(about).replace('`', "");
        format!("<li><b>{}</b>: {about}</li>", html::escape(&name))
    };
    let definitions = tables::definitions(experiment).into_iter().map(definition);
    body += &format!("<h2>Figures</h2><ul>{}</ul>", definitions.collect::<String>());
    let path = out.join("report.html");
    std::fs::write(&path, html::page(&experiment.title, &body))
        .with_context(|| format!("cannot write {}", path.display()))?;
    pages.iter().try_for_each(|page| fill::fill(page, &all))?;
    println!("Report: {}", path.display());
    Ok(())
}

fn print(table: &Table) {
    let header: Vec<&str> = table.header.iter().map(String::as_str).collect();
    println!("{}\n{}", table.title, table::render(&header, &table.rows));
}

fn introduction(experiment: &Experiment, stamp: &Stamp) -> String {
    let seeds = experiment.seeds();
    let about = match experiment.about.as_str() {
        "" => String::new(),
        about => format!("<p>{}</p>", html::escape(about)),
    };
    format!(
        "<p class=\"note\"><b>Modelled, not measured</b>: the daemon's own decision core over a GPU model, in virtual time, \
         with estimates of run times as good as each table says and liveness as a perfect compiler would prove it. No GPU \
         took part.</p>{about}<p>{} devices, seeds {} to {}. Ratios are taken list by list: the geometric mean over the \
         lists of one name, then the median over the seeds and, in brackets, its 95 % confidence interval from order \
         statistics. <b>sub</b>: from the first submission to the last end; <b>ask</b>: from \u{201c}all have asked\u{201d} \
         on. <b>bound</b>: all kernels or copies spread evenly over the devices, or the longest job alone; where a makespan \
         is near it no policy can gain. <b>case</b> retries every waiter at each release, largest first: CASE as its authors \
         run it, the strong baseline. <b>case-fifo</b> lets the head of the queue block the rest: the weak one. Eager {} at \
         commit {}, {}, {} cores.</p>",
        html::escape(&experiment.cards),
        seeds.start,
        seeds.end.saturating_sub(1),
        html::escape(&stamp.version),
        html::escape(&stamp.commit),
        html::escape(&stamp.cpu),
        stamp.cores,
    )
}

/// Returns introduction and tables of each section that the file has.
fn sections(experiment: &Experiment, samples: &[Sample]) -> Result<Vec<(String, Vec<Table>)>> {
    let mut sections = Vec::new();
    if let Some(document) = &experiment.document {
        let text = "<h2>The source document's claims</h2><p>Its figure is lost; its text says that eager-opt reaches 139 % of CASE and \
             is the best, that eager-pb is the second, and that eager-p beats eager-b on W3 and W4 and loses on the others \
             (docs/specification.md, S-222); that two srad_v1 that meet slow each other down about 40 times (S-209); and Table 1 \
             (S-221; eager-eval footprints). It does not say which CASE it ran, nor which lists W1 to W8 are.</p>";
        let rows = claims::rows(experiment, document, &Runs::of(samples));
        sections.push((text.to_owned(), vec![claims::table(experiment, &rows)]));
    }
    if let Some(study) = &experiment.interference {
        let meetings = interference::measure_pairs(experiment, study)?;
        sections.push(("<h2>Jobs that meet</h2>".to_owned(), vec![interference::table(&meetings)]));
    }
    if let Some(study) = &experiment.thresholds {
        let counts = thresholds::count(experiment, study)?;
        let tables = thresholds::tables(study, &counts);
        sections.push(("<h2>Kernels and thresholds</h2>".to_owned(), tables.to_vec()));
    }
    Ok(sections)
}
