//! Checks of an experiment file's contents. Pure.
//!
//! Each error names the mistake, the part of the file, the key, and the values allowed there, so that it makes sense
//! without this code.

use super::figures;
use super::spec::{Experiment, List, Rows, Table, Variant};
use crate::plot;
use crate::workload::parse_ratio;
use anyhow::{Result, bail};
use eager_plainly::did_you_mean;
use eager_rodinia::workload::Mix;

/// Number of jobs that a list may have.
const JOBS: std::ops::RangeInclusive<u16> = 1..=1024;
const DRAWN_MAX: usize = plot::SERIES.len();

/// Checks the whole experiment.
pub fn all(experiment: &Experiment) -> Result<()> {
    if experiment.seeds == 0 {
        bail!("key `seeds`: at least 1 is required here, but the file has 0");
    }
    if experiment.first_seed.checked_add(experiment.seeds).is_none() {
        bail!("key `first_seed`: first_seed + seeds exceeds the largest number, {}", u64::MAX);
    }
    eager_gpu_model::parse_cards(&experiment.cards).map_err(|why| anyhow::anyhow!("key `cards`: {why}"))?;
    let names = Names::of(experiment)?;
    for (key, role) in
        [("baseline", &experiment.baseline), ("second", &experiment.second), ("endless", &experiment.endless)]
    {
        role.iter().try_for_each(|name| known(&names.systems, "system", name, &format!("key `{key}`")))?;
    }
    experiment.lists.iter().try_for_each(|one| list(one, &names))?;
    experiment.variants.iter().try_for_each(variant)?;
    for (number, one) in experiment.tables.iter().enumerate() {
        table(one, number + 1, &names)?;
    }
    sections(experiment, &names)
}

/// Names that other parts of the file may refer to.
struct Names {
    lists: Vec<String>,
    systems: Vec<String>,
    variants: Vec<String>,
    figures: Vec<String>,
}

impl Names {
    fn of(experiment: &Experiment) -> Result<Names> {
        Ok(Names {
            lists: distinct("list", experiment.lists.iter().map(|list| &list.name))?,
            systems: distinct("system", experiment.systems.iter().map(|system| &system.name))?,
            variants: distinct("variant", experiment.variants.iter().map(|variant| &variant.name))?,
            figures: figures::COLUMNS.iter().map(|column| column.name.to_owned()).collect(),
        })
    }
}

fn distinct<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> Result<Vec<String>> {
    let mut seen: Vec<String> = Vec::new();
    for name in names {
        if name.is_empty() {
            bail!("key `{what}s`: a {what} has an empty name");
        }
        if seen.contains(name) {
            bail!("key `{what}s`: two of them are called `{name}`; give each a `name` of its own");
        }
        seen.push(name.clone());
    }
    if seen.is_empty() {
        bail!("key `{what}s`: at least one {what} is required here");
    }
    Ok(seen)
}

fn known(all: &[String], what: &str, name: &String, at: &str) -> Result<()> {
    if all.contains(name) {
        return Ok(());
    }
    match did_you_mean(name, all).as_str() {
        "" => bail!("{at}: there is no {what} `{name}`; known are {}", all.join(", ")),
        close => bail!("{at}: there is no {what} `{name}`{close}"),
    }
}

fn each_known(all: &[String], what: &str, names: &[String], at: &str) -> Result<()> {
    if names.is_empty() {
        bail!("{at}: at least one {what} is required here");
    }
    names.iter().try_for_each(|name| known(all, what, name, at))
}

fn list(list: &List, names: &Names) -> Result<()> {
    let at = |key: &str| format!("list `{}`, key `{key}`", list.name);
    match (&list.mix, list.jobs) {
        (Some(_), Some(_)) => bail!("{}: a list has either `mix`, or `jobs` and `ratios`", at("mix")),
        (None, None) => bail!("list `{}`: it needs either `mix`, or `jobs` and `ratios`", list.name),
        (Some(mix), None) if Mix::named(mix).is_none() => {
            bail!("{}: there is no mix `{mix}`; known are W1 to W8", at("mix"))
        }
        (Some(_), None) if !list.ratios.is_empty() => {
            bail!("{}: a mix has no ratios; remove the key", at("ratios"))
        }
        (None, Some(jobs)) if !JOBS.contains(&jobs) => {
            bail!("{}: 1 to {} jobs are required here, but the file has {jobs}", at("jobs"), JOBS.end())
        }
        (None, Some(_)) if list.ratios.is_empty() => {
            bail!("{}: at least one ratio is required here, such as [\"2:1\"]", at("ratios"))
        }
        _ => {}
    }
    for ratio in &list.ratios {
        parse_ratio(ratio).map_err(|_| {
            let wanted = "LARGE:SMALL is required here, such as 3:1, but the file has";
            anyhow::anyhow!("{}: {wanted} `{ratio}`", at("ratios"))
        })?;
    }
    match (list.workers, list.arrival_mean_s) {
        (Some(_), Some(_)) => {
            bail!("{}: a list has either `workers` or `arrival_mean_s`", at("arrival_mean_s"))
        }
        (Some(0), None) => bail!("{}: at least 1 is required here, but the file has 0", at("workers")),
        (None, Some(_)) if list.mix.is_some() => {
            bail!("{}: a mix has no arrival times; remove the key, or use `workers`", at("arrival_mean_s"))
        }
        (None, Some(mean_s)) => within(mean_s, 1e-9, f64::MAX, &at("arrival_mean_s"))?,
        _ => {}
    }
    list.systems.iter().try_for_each(|name| known(&names.systems, "system", name, &at("systems")))
}

fn within(value: f64, least: f64, most: f64, at: &str) -> Result<()> {
    if (least..=most).contains(&value) && value.is_finite() {
        return Ok(());
    }
    let wanted = match (least, most) {
        (0.0, most) if most < f64::MAX => format!("a number from 0 to {most}"),
        (least, _) if least > 0.0 && least < 1.0 => "a number above 0".to_owned(),
        (least, _) => format!("a number of at least {least}"),
    };
    bail!("{at}: {wanted} is required here, but the file has {value}")
}

fn variant(variant: &Variant) -> Result<()> {
    let at = |key: &str| format!("variant `{}`, key `{key}`", variant.name);
    if let Some(spread) = variant.spread {
        within(spread, 1.0, f64::MAX, &at("spread"))?;
    }
    let machine = &variant.machine;
    for (key, value, least, most) in machine.numbers() {
        value.map_or(Ok(()), |value| within(value, least, most, &at(key)))?;
    }
    for (key, value) in [("workers", machine.workers), ("host_cores", machine.host_cores)] {
        if value == Some(0) {
            bail!("{}: at least 1 is required here, but the file has 0", at(key));
        }
    }
    if let Some(cards) = &machine.cards {
        eager_gpu_model::parse_cards(cards).map_err(|why| anyhow::anyhow!("{}: {why}", at("cards")))?;
    }
    machine.model_options(&eager_gpu_model::Options::default()).map_err(|why| why.context(at("model")))?;
    Ok(())
}

fn table(table: &Table, number: usize, names: &Names) -> Result<()> {
    let whose =
        if table.key.is_empty() { format!("table {number}") } else { format!("table `{}`", table.key) };
    let at = |key: &str| format!("{whose}, key `{key}`");
    each_known(&names.lists, "list", &table.lists, &at("lists"))?;
    each_known(&names.systems, "system", &table.systems, &at("systems"))?;
    each_known(&names.variants, "variant", &table.variants, &at("variants"))?;
    each_known(&names.figures, "figure", &table.figures, &at("figures"))?;
    for name in &table.drawn {
        known(&table.systems, "system of this table", name, &at("drawn"))?;
    }
    if table.drawn.len() > DRAWN_MAX {
        bail!(
            "{}: at most {DRAWN_MAX} systems can be drawn, but the file has {}",
            at("drawn"),
            table.drawn.len()
        );
    }
    if table.rows == Rows::Variants && table.lists.len() > 1 {
        bail!("{}: a table with `rows = \"variants\"` needs exactly one list", at("lists"));
    }
    if table.rows != Rows::Variants && table.variants.len() > 1 {
        bail!("{}: only a table with `rows = \"variants\"` may have several variants", at("variants"));
    }
    if table.key.is_empty() && !table.split && table.figures.len() > 1 {
        bail!("{}: a table with several figures needs a key", at("key"));
    }
    Ok(())
}

fn sections(experiment: &Experiment, names: &Names) -> Result<()> {
    if let Some(timeline) = &experiment.timeline {
        known(&names.lists, "list", &timeline.list, "section `timeline`, key `list`")?;
        each_known(&names.systems, "system", &timeline.systems, "section `timeline`, key `systems`")?;
        let ratios: Vec<String> =
            experiment.list(&timeline.list)?.draws().into_iter().map(str::to_owned).collect();
        timeline.ratio.iter().try_for_each(|ratio| {
            known(&ratios, "ratio in that list", ratio, "section `timeline`, key `ratio`")
        })?;
    }
    if let Some(interference) = &experiment.interference {
        let at = |key: &str| format!("section `interference`, key `{key}`");
        eager_gpu_model::parse_cards(&interference.cards)
            .map_err(|why| anyhow::anyhow!("{}: {why}", at("cards")))?;
        each_known(&names.systems, "system", &interference.systems, &at("systems"))?;
        let programs = eager_rodinia::programs();
        let all = programs.iter().flat_map(|program| &program.configurations);
        let all: Vec<String> = all.map(|configuration| configuration.id.to_string()).collect();
        for (one, other) in &interference.pairs {
            known(&all, "configuration", one, &at("pairs"))?;
            known(&all, "configuration", other, &at("pairs"))?;
        }
    }
    if let Some(document) = &experiment.document {
        let at = |key: &str| format!("section `document`, key `{key}`");
        each_known(&names.systems, "system", &document.systems, &at("systems"))?;
        document
            .variants
            .iter()
            .try_for_each(|name| known(&names.variants, "variant", name, &at("variants")))?;
        for reading in &document.readings {
            let at = format!("section `document`, reading `{}`, key `lists`", reading.name);
            each_known(&names.lists, "list", &reading.lists, &at)?;
            if reading.lists.len() != 8 {
                bail!(
                    "{at}: eight lists are required here, W1 to W8, but the file has {}",
                    reading.lists.len()
                );
            }
        }
    }
    let thresholds = experiment.thresholds.iter();
    thresholds.into_iter().try_for_each(|thresholds| {
        each_known(&names.lists, "list", &thresholds.lists, "section `thresholds`, key `lists`")
    })
}
