//! What an experiment of lists, systems and variants says: `experiments/live.toml`, and files of that form.
//!
//! Trap: every system of a table runs on the same lists and seeds as `case`, which has to be among them: all ratios are
//! against it.

use crate::experiment::Variant;
use crate::workload::{Choice, WorkloadArgs, parse_ratio};
use anyhow::{Context, Result, bail};
use eager_core::PolicyName;
use eager_sim::Submission;
use serde::Deserialize;

/// The baseline of every ratio.
pub const CASE: &str = "case";
/// What the same programs do where memory never ends.
pub const ENDLESS: &str = "infinite, live";

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    pub title: String,
    pub cards: String,
    /// So many, from the first one on: what was chosen by looking was chosen on those below it.
    #[serde(default = "one")]
    pub first_seed: u64,
    #[serde(default = "one")]
    pub seeds: u64,
    /// Schedules to draw; without it the report has none.
    pub timeline: Option<Timeline>,
    pub systems: Vec<System>,
    pub lists: Vec<List>,
    /// Without any, everything runs once, with nothing changed.
    #[serde(default)]
    pub variants: Vec<Variation>,
    /// Without any, one table of the throughput of each system: on each list, or under each variant of the first.
    #[serde(default)]
    pub tables: Vec<Table>,
}

/// For serde.
fn one() -> u64 {
    1
}

/// A policy with its switches.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    pub name: String,
    pub policy: PolicyName,
    #[serde(default)]
    pub options: eager_core::Options,
}

/// The schedules that the report draws: one list, some systems without options.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    pub group: String,
    pub ratio: String,
    pub systems: Vec<String>,
}

/// A kind of job list. Lists of one group become one figure: the geometric mean of their ratios, seed by seed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    pub group: String,
    pub jobs: u16,
    pub ratios: Vec<String>,
    /// Jobs in progress at once; without it all come at the start.
    pub workers: Option<u32>,
}

/// One change to machine or jobs, or to what is known of them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Variation {
    pub name: String,
    pub machine: Variant,
    /// Estimates are wrong by up to this factor either way.
    pub spread: Option<f64>,
    /// There are none.
    pub no_estimates: bool,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// What pages call it.
    pub key: String,
    pub title: String,
    pub rows: Rows,
    pub groups: Vec<String>,
    pub systems: Vec<String>,
    pub variants: Vec<String>,
    /// Names of figures, as in `summary.json`.
    pub figures: Vec<String>,
    /// Draw its first figure too.
    #[serde(default)]
    pub drawn: bool,
}

/// What a row of a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rows {
    /// A group, and each of its ratios; a column for each system.
    Lists,
    /// A column for each group and figure.
    Systems,
    /// A column for each system and figure.
    Variants,
}

impl Experiment {
    /// Is the text of this form? Experiments of the form of `paper.toml` compare policies, not systems.
    pub fn is_form_of(text: &str) -> bool {
        toml::from_str::<toml::Table>(text).is_ok_and(|table| table.contains_key("systems"))
    }

    /// `file`: what messages call it.
    pub fn parse(file: &str, text: &str) -> Result<Experiment> {
        let mut experiment: Experiment = crate::experiment::read_toml(file, text)?;
        experiment.fill_in();
        for table in &experiment.tables {
            if !table.systems.iter().any(|system| system == CASE) {
                bail!("experiment live, table `{}`: `{CASE}` is not among its systems", table.title);
            }
            table.systems.iter().try_for_each(|name| experiment.system(name).map(drop))?;
            table.variants.iter().try_for_each(|name| experiment.variant(name).map(drop))?;
            table.groups.iter().try_for_each(|name| experiment.list(name).map(drop))?;
        }
        if let Some(Timeline { group, systems, .. }) = &experiment.timeline {
            experiment.list(group)?;
            systems.iter().try_for_each(|name| experiment.system(name).map(drop))?;
        }
        Ok(experiment)
    }

    /// What a file may leave out.
    fn fill_in(&mut self) {
        if self.variants.is_empty() {
            self.variants.push(Variation { name: "as it is".to_owned(), ..Variation::default() });
        }
        if self.tables.is_empty() {
            self.tables.push(Table {
                key: "lists".to_owned(),
                title: "Throughput over CASE".to_owned(),
                rows: if self.variants.len() > 1 { Rows::Variants } else { Rows::Lists },
                groups: self.lists.iter().map(|list| list.group.clone()).collect(),
                systems: self.systems.iter().map(|system| system.name.clone()).collect(),
                variants: self.variants.iter().map(|variant| variant.name.clone()).collect(),
                figures: vec!["throughput_vs_case".to_owned()],
                drawn: false,
            });
        }
    }

    /// Seeds to run.
    pub fn seeds(&self) -> std::ops::Range<u64> {
        self.first_seed..self.first_seed + self.seeds
    }

    pub fn system(&self, name: &str) -> Result<&System> {
        let found = self.systems.iter().find(|system| system.name == name);
        found.with_context(|| format!("experiment live has no system `{name}`"))
    }

    pub fn variant(&self, name: &str) -> Result<&Variation> {
        let found = self.variants.iter().find(|variant| variant.name == name);
        found.with_context(|| format!("experiment live has no variant `{name}`"))
    }

    pub fn list(&self, group: &str) -> Result<&List> {
        let found = self.lists.iter().find(|list| list.group == group);
        found.with_context(|| format!("experiment live has no lists `{group}`"))
    }
}

impl List {
    pub fn choices(&self, ratio: &str, seed: u64) -> Result<Vec<Choice>> {
        let ratio = parse_ratio(ratio).map_err(|why| anyhow::anyhow!("ratio `{ratio}`: {why}"))?;
        Ok(WorkloadArgs { workload: None, jobs: self.jobs, ratio, seed }.choose()?.1)
    }

    pub fn submission(&self) -> Submission {
        self.workers.map_or(Submission::AllAtOnce, Submission::Workers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../../experiments/live.toml");

    #[test]
    fn the_experiment_is_well_formed_and_its_mistakes_are_named() {
        Experiment::parse("live.toml", TEXT).expect("live.toml");
        let broken = |from: &str, to: &str| {
            format!("{:#}", Experiment::parse("live.toml", &TEXT.replacen(from, to, 1)).expect_err(to))
        };
        assert!(
            broken("systems = [\"case\", \"case-fifo\"", "systems = [\"case-fifo\"").contains("not among")
        );
        assert!(broken("groups = [\"32\"", "groups = [\"33\"").contains("has no lists `33`"));
        assert!(
            broken("release_dead = true", "release_death = true")
                .contains("there is no setting `release_death`; did you mean `release_dead`?")
        );
    }
}
