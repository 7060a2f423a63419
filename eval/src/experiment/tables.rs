//! Tables of an experiment, for the terminal, the report, and pages of the documentation.
//!
//! A table never has an empty column: a figure without its baseline, a system without any value, and a list to which
//! the figure does not apply are left out ([`left_out`] reports missing baselines).

use super::figures::{self, Column, Role};
use super::spec::{Experiment, Rows, Table as Wanted};
use super::summary::{BySystem, Summary, label};
use crate::html;
use crate::plot::{self, Whisker};
use anyhow::{Result, bail};
use eager_measure::Interval;
use eager_measure::Stamp;
use std::collections::BTreeMap;
use std::ops::Range;

/// Rows under a header; the first column names the row.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Name in the marks of pages.
    pub key: String,
    pub title: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Table that states where the numbers come from.
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

    /// Formats the first column and the named columns as Markdown; all columns if none is named.
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

/// Table, with its drawing as SVG in HTML, or an empty text.
#[derive(Debug)]
pub struct DrawnTable {
    pub table: Table,
    pub drawn: String,
}

/// Label of a row, and the figures of its systems.
type Row<'a> = (String, Option<&'a BySystem>);

/// Makes all tables that the experiment names, in its order.
pub fn all(experiment: &Experiment, summary: &Summary) -> Result<Vec<DrawnTable>> {
    let mut made = Vec::new();
    for wanted in &experiment.tables {
        let columns = possible(experiment, wanted);
        let groups: Vec<&[&Column]> = match wanted.split {
            true => columns.chunks(1).collect(),
            false if columns.is_empty() => Vec::new(),
            false => vec![&columns],
        };
        for columns in groups {
            made.push(one(experiment, summary, wanted, columns)?);
        }
    }
    made.retain(|made| !made.table.rows.is_empty());
    Ok(made)
}

/// Returns a sentence for each role without a system, naming the figures left out because of that.
pub fn left_out(experiment: &Experiment) -> Vec<String> {
    let roles = [
        (Role::Baseline, "baseline", "case"),
        (Role::Second, "second", "case-fifo"),
        (Role::Endless, "endless", "infinite, live"),
    ];
    let mut sentences = Vec::new();
    for (role, key, usual) in roles {
        let needs = |name: &&String| figures::column(name).is_some_and(|c| c.against.contains(&role));
        let mut names: Vec<&str> = experiment
            .tables
            .iter()
            .flat_map(|table| &table.figures)
            .filter(needs)
            .map(String::as_str)
            .collect();
        names.dedup();
        if experiment.role(role).is_none() && !names.is_empty() {
            sentences.push(format!(
                "There is no system `{usual}`, and the file names no other with `{key}`: left out are {}",
                names.join(", ")
            ));
        }
    }
    sentences
}

/// Returns, for the report, column heading and definition of each figure that the tables show.
pub fn definitions(experiment: &Experiment) -> Vec<(String, &'static str)> {
    let is_shown = |column: &&Column| {
        experiment
            .tables
            .iter()
            .any(|table| possible(experiment, table).iter().any(|c| c.name == column.name))
    };
    let shown = figures::COLUMNS.iter().filter(is_shown);
    shown
        .map(|column| {
            (format!("{} ({})", column.name, with_system_names(experiment, column.short)), column.about)
        })
        .collect()
}

/// Returns the table's figures whose baselines all exist.
fn possible(experiment: &Experiment, wanted: &Wanted) -> Vec<&'static Column> {
    let columns = wanted.figures.iter().filter_map(|name| figures::column(name));
    columns.filter(|column| column.against.iter().all(|role| experiment.role(*role).is_some())).collect()
}

fn one(
    experiment: &Experiment,
    summary: &Summary,
    wanted: &Wanted,
    columns: &[&Column],
) -> Result<DrawnTable> {
    let (header, rows) = match wanted.rows {
        Rows::Systems => by_system(experiment, wanted, columns, summary),
        Rows::Lists => {
            by_row("lists", &self::rows(experiment, wanted, summary)?, experiment, wanted, columns)
        }
        Rows::Variants => {
            by_row("variant", &self::rows(experiment, wanted, summary)?, experiment, wanted, columns)
        }
    };
    let figure = columns.first().copied();
    let of_figure = figure.map_or_else(String::new, |column| with_system_names(experiment, column.title));
    let name = figure.map_or("", |column| column.name);
    let key = match (wanted.split, wanted.key.is_empty()) {
        (true, _) => format!("{}{name}", wanted.key),
        (false, true) => name.to_owned(),
        (false, false) => wanted.key.clone(),
    };
    let title = match (wanted.title.is_empty(), wanted.split) {
        (true, _) => of_figure,
        (false, true) => format!("{}: {of_figure}", wanted.title),
        (false, false) => wanted.title.clone(),
    };
    let drawn = match figure {
        Some(figure) if !wanted.drawn.is_empty() => {
            drawn(experiment, wanted, figure, &self::rows(experiment, wanted, summary)?)?
        }
        _ => String::new(),
    };
    Ok(DrawnTable { table: Table { key, title, header, rows }, drawn })
}

/// Replaces the roles in a text by the systems' names.
fn with_system_names(experiment: &Experiment, text: &str) -> String {
    [("{baseline}", Role::Baseline), ("{second}", Role::Second), ("{endless}", Role::Endless)]
        .iter()
        .fold(text.to_owned(), |text, (mark, role)| {
            text.replace(mark, experiment.role(*role).unwrap_or_default())
        })
}

/// Returns a row for each list and each of its ratios, or for each variant of the table's list.
fn rows<'a>(experiment: &Experiment, wanted: &Wanted, summary: &'a Summary) -> Result<Vec<Row<'a>>> {
    let mut rows = Vec::new();
    for variant in &wanted.variants {
        for name in &wanted.lists {
            let of = |label: &str| summary.systems(variant, label);
            if wanted.rows == Rows::Variants {
                rows.push((variant.clone(), of(name)));
                continue;
            }
            rows.push((name.clone(), of(name)));
            let ratios = &experiment.list(name)?.ratios;
            if ratios.len() > 1 {
                let labels = ratios.iter().map(|ratio| label(name, ratio));
                rows.extend(labels.map(|label| (label.clone(), of(&label))));
            }
        }
    }
    Ok(rows)
}

fn found<'a>(systems: Option<&'a BySystem>, system: &str, column: &Column) -> Option<&'a Interval> {
    systems?.get(system)?.get(column.name)
}

fn cell(interval: Option<&Interval>, column: &Column, alone: bool) -> String {
    interval.map_or_else(|| "-".to_owned(), |interval| column.text(interval, alone))
}

/// Lays out a column for each system and figure; figures that belong to the list come last, once.
fn by_row(
    what: &str,
    rows: &[Row<'_>],
    experiment: &Experiment,
    wanted: &Wanted,
    columns: &[&Column],
) -> (Vec<String>, Vec<Vec<String>>) {
    let (of_list, of_systems): (Vec<&Column>, Vec<&Column>) =
        columns.iter().copied().partition(|column| column.of_list);
    let alone = of_systems.len() == 1;
    let has_any =
        |system: &str, column: &Column| rows.iter().any(|row| found(row.1, system, column).is_some());
    let mut shown: Vec<(&str, &Column, String)> = Vec::new();
    for system in &wanted.systems {
        for column in of_systems.iter().filter(|column| has_any(system, column)) {
            let short = with_system_names(experiment, column.short);
            shown.push((system, column, if alone { system.clone() } else { format!("{system} {short}") }));
        }
    }
    let mut header = vec![what.to_owned()];
    header.extend(shown.iter().map(|(_, _, title)| title.clone()));
    header.extend(of_list.iter().map(|column| with_system_names(experiment, column.short)));
    let row = |(name, systems): &Row<'_>| {
        let of_list = of_list.iter().map(|column| {
            let any = systems.and_then(|of| of.values().find_map(|figures| figures.get(column.name)));
            (any, *column, false)
        });
        let own = shown.iter().map(|(system, column, _)| (found(*systems, system, column), *column, alone));
        let cells: Vec<(Option<&Interval>, &Column, bool)> = own.chain(of_list).collect();
        let some = cells.iter().any(|(interval, ..)| interval.is_some());
        let cells = cells.into_iter().map(|(interval, column, alone)| cell(interval, column, alone));
        some.then(|| [name.clone()].into_iter().chain(cells).collect())
    };
    (header, rows.iter().filter_map(row).collect())
}

/// Lays out a row for each system, and a column for each list and figure.
fn by_system(
    experiment: &Experiment,
    wanted: &Wanted,
    columns: &[&Column],
    summary: &Summary,
) -> (Vec<String>, Vec<Vec<String>>) {
    let lists: BTreeMap<&str, Option<&BySystem>> = wanted
        .lists
        .iter()
        .map(|list| (list.as_str(), wanted.variants.first().and_then(|v| summary.systems(v, list))))
        .collect();
    let of = |list: &str, system: &str, column: &Column| found(lists.get(list).copied()?, system, column);
    let mut shown: Vec<(&str, &Column)> = Vec::new();
    for list in &wanted.lists {
        let has_any =
            |column: &&&Column| wanted.systems.iter().any(|system| of(list, system, column).is_some());
        shown.extend(columns.iter().filter(has_any).map(|column| (list.as_str(), *column)));
    }
    let alone = columns.len() == 1;
    let titles =
        shown.iter().map(|(list, column)| format!("{list}: {}", with_system_names(experiment, column.short)));
    let header = ["system".to_owned()].into_iter().chain(titles).collect();
    let row = |system: &String| {
        let cells = shown.iter().map(|(list, column)| cell(of(list, system, column), column, alone));
        [system.clone()].into_iter().chain(cells).collect()
    };
    (header, wanted.systems.iter().map(row).collect())
}

/// Draws a figure with its intervals.
fn drawn(experiment: &Experiment, wanted: &Wanted, figure: &Column, rows: &[Row<'_>]) -> Result<String> {
    let whisker = |systems: Option<&BySystem>, system: &str| {
        let Interval { median, low, high } = *found(systems, system, figure)?;
        Some(Whisker { at: median, low, high })
    };
    let whiskers = |(name, systems): &Row<'_>| {
        let row: Vec<Option<Whisker>> = wanted.drawn.iter().map(|system| whisker(*systems, system)).collect();
        row.iter().any(Option::is_some).then(|| (name.clone(), row))
    };
    let rows: Vec<(String, Vec<Option<Whisker>>)> = rows.iter().filter_map(whiskers).collect();
    let key = |(name, (_, colour)): (&String, &(_, &str))| {
        format!("<span class=\"key\" style=\"background:{colour}\"></span>{}", html::escape(name))
    };
    let legend: String = wanted.drawn.iter().zip(&plot::SERIES).map(key).collect();
    Ok(format!("<p>{legend}</p>{}", plot::forest(&with_system_names(experiment, figure.title), &rows)?))
}
