//! Format of an experiment file. The comments of public fields become `docs/reference/experiments.md`.
//!
//! [`Experiment::completed`] fills in everything that a file leaves out, so that all other code sees complete lists,
//! variants and tables.

use super::figures;
use super::machine::Machine;
use crate::machine::poisson;
use crate::workload::{Choice, WorkloadArgs, parse_ratio};
use anyhow::{Context, Result, bail};
use eager_core::PolicyName;
use eager_rodinia::workload::LargeToSmall;
use eager_sim::Submission;
use serde::Deserialize;
use std::ops::Range;
use std::path::Path;

/// Experiments that come with the program.
pub const KNOWN: [(&str, &str); 4] = [
    ("paper", include_str!("../../experiments/paper.toml")),
    ("live", include_str!("../../experiments/live.toml")),
    ("live-mixes", include_str!("../../experiments/live-mixes.toml")),
    ("fair", include_str!("../../experiments/fair.toml")),
];

/// Name of the only variant of an experiment without `variants`.
const AS_IT_IS: &str = "as it is";

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Name in progress messages and in `summary.json` [default: the file's name without `.toml`].
    #[serde(default)]
    pub name: String,
    /// Heading of the report.
    pub title: String,
    /// Paragraph of the report, below its heading [default: none].
    #[serde(default)]
    pub about: String,
    /// Modelled devices, as for `eagerd --virtual`: `4xV100-16GB`.
    pub cards: String,
    /// The first seed. A seed draws a list, or the order of a mix [default: 1].
    #[serde(default = "one")]
    pub first_seed: u64,
    /// Number of seeds, from the first one on. `--seeds` replaces it.
    pub seeds: u64,
    /// System that all figures `…_vs_baseline` and all slowdowns are relative to. It also runs wherever a table has
    /// such a figure [default: `case`, if there is a system of that name].
    pub baseline: Option<String>,
    /// Second baseline, for the figures `…_vs_second` [default: `case-fifo`, if there is a system of that name].
    pub second: Option<String>,
    /// System with endless memory, for the figures `…_vs_endless` [default: `infinite, live`, if there is a system of
    /// that name].
    pub endless: Option<String>,
    /// Job lists; see below.
    pub lists: Vec<List>,
    /// Policies with their options; see below.
    pub systems: Vec<System>,
    /// Changes of the machine, or of the estimates of run times; see below. The first variant is the machine as it is
    /// [default: only that one].
    #[serde(default)]
    pub variants: Vec<Variant>,
    /// Tables of the report; see below. Only runs that a table or a section needs are made [default: one table for
    /// each usual figure, with all lists and systems].
    #[serde(default)]
    pub tables: Vec<Table>,
    /// Schedules that the report draws; see below.
    pub timeline: Option<Timeline>,
    /// Pairs of jobs that meet on one device; see below.
    pub interference: Option<Interference>,
    /// The source document's claims; see below.
    pub document: Option<Document>,
    /// Which kernels the OS-ratio's threshold decides; see below.
    pub thresholds: Option<Thresholds>,
}

fn one() -> u64 {
    1
}

/// Kind of job list; a seed turns it into one list for each ratio.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Name in tables and reports.
    pub name: String,
    /// A published mix, `W1` to `W8`, whose order the seed draws. Replaces `jobs` and `ratios`.
    pub mix: Option<String>,
    /// Number of jobs, 1 to 1024, drawn from the 17 configurations.
    pub jobs: Option<u16>,
    /// Ratios of Large jobs to Small jobs, such as `["1:1", "3:1"]`. Each ratio makes a list of its own; together
    /// these lists give one figure (the geometric mean of ratios).
    #[serde(default)]
    pub ratios: Vec<String>,
    /// Number of jobs in progress at once, pulled from one queue [default: all jobs are submitted at the start].
    pub workers: Option<u32>,
    /// Mean time between two arrivals of jobs, in seconds. Arrivals are a Poisson process.
    pub arrival_mean_s: Option<f64>,
    /// Systems that run on this list [default: all].
    #[serde(default)]
    pub systems: Vec<String>,
}

/// A policy with its options.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Name in tables and reports [default: the policy's name].
    #[serde(default)]
    pub name: String,
    /// One of the policies of the daemon, or `infinite`: CASE with endless device memory.
    pub policy: PolicyName,
    /// Scheduler options that replace the policy's own, as in the daemon's [table
    /// `[options]`](configuration.md#the-table-options).
    #[serde(default)]
    pub options: eager_core::Options,
}

/// One change of the machine, the jobs, or the estimates of run times.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Name in tables and reports.
    pub name: String,
    /// Differences from the source document's machine; see below [default: none].
    #[serde(default)]
    pub machine: Machine,
    /// Factor, at least 1, by which estimates of run times may be wrong in either direction [default: 1].
    pub spread: Option<f64>,
    /// `true`: there are no estimates of run times [default: false].
    #[serde(default)]
    pub no_estimates: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Name of the table in the marks of pages. With `split`, a prefix of the figure's name [default: the first
    /// figure's name].
    #[serde(default)]
    pub key: String,
    /// Heading of the table [default: the first figure's heading].
    #[serde(default)]
    pub title: String,
    /// Kind of rows: `lists` (each list, then each of its ratios), `systems`, or `variants` of one list [default:
    /// lists].
    #[serde(default)]
    pub rows: Rows,
    /// Names of lists [default: all].
    #[serde(default)]
    pub lists: Vec<String>,
    /// Names of systems [default: all].
    #[serde(default)]
    pub systems: Vec<String>,
    /// Names of variants [default: all, if the rows are variants; else the first].
    #[serde(default)]
    pub variants: Vec<String>,
    /// Names of figures; the last section explains them [default: the usual figures, each in a table of its own as
    /// with `split`].
    #[serde(default)]
    pub figures: Vec<String>,
    /// `true`: one table for each figure [default: false].
    #[serde(default)]
    pub split: bool,
    /// Systems, at most seven, for which the report draws the first figure with its intervals [default: none].
    #[serde(default)]
    pub drawn: Vec<String>,
}

/// Kind of rows of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rows {
    #[default]
    Lists,
    Systems,
    Variants,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    /// List to show; its first seed is used.
    pub list: String,
    /// Ratio of the list to show [default: its first].
    pub ratio: Option<String>,
    /// Systems to show, one schedule each.
    pub systems: Vec<String>,
}

/// Pairs of jobs that meet on one device, as in the document's case of two srad_v1 (specification S-209).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interference {
    /// Device on which the jobs meet, as for `eagerd --virtual`.
    pub cards: String,
    /// Pairs of configurations by id: `[["bfs-32M", "dwt2d-8192"]]`.
    pub pairs: Vec<(String, String)>,
    /// Systems to run each pair under.
    pub systems: Vec<String>,
}

/// Claims of the source document (specification S-1) about its eight workloads, and variants that could explain why
/// the results here differ.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Possible choices of the lists that the document calls W1 to W8, each `{ name, lists }` with eight lists. The
    /// variants run on the first choice only.
    pub readings: Vec<Reading>,
    /// Systems to run on these lists. The table shows `eager`, `eager-p`, `eager-b`, `eager-pb` and `eager-opt`
    /// relative to the baseline.
    pub systems: Vec<String>,
    /// Variants, one row each [default: none].
    #[serde(default)]
    pub variants: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    pub name: String,
    /// Lists that stand for W1 to W8, in this order.
    pub lists: Vec<String>,
}

/// Counts the kernels for which another OS-ratio threshold would have decided otherwise.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// Lists to run, under `eager-opt`.
    pub lists: Vec<String>,
    /// Thresholds to compare, in percent of the device; each applies to all kernels.
    pub percents: Vec<u32>,
}

impl Experiment {
    /// Finds an experiment by a known name or by the path of a file.
    pub fn find(name: &str) -> Result<Experiment> {
        if let Some((_, text)) = KNOWN.iter().find(|(known, _)| *known == name) {
            return Experiment::parse(name, text);
        }
        if Path::new(name).extension().is_none() {
            let names: Vec<String> = KNOWN.iter().map(|(name, _)| (*name).to_owned()).collect();
            bail!(
                "unknown experiment `{name}`: known are {}, or give the path of a .toml file{}",
                names.join(", "),
                eager_plainly::did_you_mean(name, &names)
            )
        }
        let text =
            std::fs::read_to_string(name).with_context(|| format!("cannot read the experiment {name}"))?;
        Experiment::parse(name, &text)
    }

    /// Parses a file's text and checks its contents.
    pub fn parse(path: &str, text: &str) -> Result<Experiment> {
        let words = eager_plainly::Words {
            noun: "key",
            unknown: "there is no key",
            others: "docs/reference/experiments.md lists those that there are",
            elsewhere: Vec::new(),
        };
        let experiment: Experiment = eager_plainly::parse(text, &words).map_err(|wrong| {
            let key = wrong.key.map_or_else(String::new, |key| format!("`{key}`: "));
            anyhow::anyhow!("{path}:{}:{}: {key}{}", wrong.line, wrong.column, wrong.message)
        })?;
        let stem = Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let experiment = experiment.completed(&stem.unwrap_or_default());
        super::check::all(&experiment).map_err(|why| why.context(path.to_owned()))?;
        Ok(experiment)
    }

    /// Returns the experiment with defaults for everything that the file leaves out.
    fn completed(mut self, stem: &str) -> Experiment {
        if self.name.is_empty() {
            self.name = stem.to_owned();
        }
        for system in self.systems.iter_mut().filter(|system| system.name.is_empty()) {
            system.name = system.policy.to_string();
        }
        if self.variants.is_empty() {
            self.variants.push(Variant { name: AS_IT_IS.to_owned(), ..Variant::default() });
        }
        if self.tables.is_empty() {
            self.tables.push(Table::default());
        }
        let is_there = |name: &str| self.systems.iter().any(|system| system.name == name);
        for (role, usual) in [
            (&mut self.baseline, "case"),
            (&mut self.second, "case-fifo"),
            (&mut self.endless, "infinite, live"),
        ] {
            if role.is_none() && is_there(usual) {
                *role = Some(usual.to_owned());
            }
        }
        let lists: Vec<String> = self.lists.iter().map(|list| list.name.clone()).collect();
        let systems: Vec<String> = self.systems.iter().map(|system| system.name.clone()).collect();
        let variants: Vec<String> = self.variants.iter().map(|variant| variant.name.clone()).collect();
        for table in &mut self.tables {
            let shown = if table.rows == Rows::Variants { &variants[..] } else { &variants[..1] };
            let fill = |names: &mut Vec<String>, all: &[String]| {
                if names.is_empty() {
                    all.clone_into(names);
                }
            };
            table.split |= table.figures.is_empty();
            fill(&mut table.figures, &figures::USUAL.map(str::to_owned));
            fill(&mut table.lists, &lists);
            fill(&mut table.systems, &systems);
            fill(&mut table.variants, shown);
        }
        self
    }

    /// Returns the seeds to run.
    pub fn seeds(&self) -> Range<u64> {
        self.first_seed..self.first_seed + self.seeds
    }

    /// Returns the list of this name. Names are checked on parsing, so an error is a bug.
    pub fn list(&self, name: &str) -> Result<&List> {
        self.lists.iter().find(|list| list.name == name).with_context(|| format!("there is no list `{name}`"))
    }

    /// Returns the system of this name. Names are checked on parsing, so an error is a bug.
    pub fn system(&self, name: &str) -> Result<&System> {
        let found = self.systems.iter().find(|system| system.name == name);
        found.with_context(|| format!("there is no system `{name}`"))
    }

    /// Returns the name of the system that has a role, if there is one.
    pub fn role(&self, role: figures::Role) -> Option<&str> {
        match role {
            figures::Role::Baseline => self.baseline.as_deref(),
            figures::Role::Second => self.second.as_deref(),
            figures::Role::Endless => self.endless.as_deref(),
        }
    }
}

impl System {
    /// Returns a system with the policy's own options.
    pub fn plain(policy: PolicyName) -> System {
        System { name: policy.to_string(), policy, options: eager_core::Options::default() }
    }
}

impl List {
    /// Returns the ratios, each of which makes one list of a seed; one empty ratio for a mix.
    pub fn draws(&self) -> Vec<&str> {
        if self.ratios.is_empty() { vec![""] } else { self.ratios.iter().map(String::as_str).collect() }
    }

    /// Returns the jobs for one seed and ratio.
    pub fn choices(&self, ratio: &str, seed: u64) -> Result<Vec<Choice>> {
        let args = match (&self.mix, self.jobs) {
            (Some(mix), _) => {
                let ratio = LargeToSmall { large: 1, small: 1 };
                WorkloadArgs { workload: Some(mix.clone()), jobs: 0, ratio, seed }
            }
            (None, jobs) => {
                let ratio = parse_ratio(ratio).map_err(|why| anyhow::anyhow!("ratio `{ratio}`: {why}"))?;
                WorkloadArgs { workload: None, jobs: jobs.unwrap_or_default(), ratio, seed }
            }
        };
        Ok(args.choose()?.1)
    }

    /// Returns when the jobs of one seed are submitted.
    pub fn submission(&self, seed: u64) -> Submission {
        match (self.workers, self.arrival_mean_s) {
            (Some(workers), _) => Submission::Workers(workers),
            (None, Some(mean_s)) => poisson(seed, usize::from(self.jobs.unwrap_or(0)), mean_s),
            (None, None) => Submission::AllAtOnce,
        }
    }
}
