//! What an experiment file says. The comments of public fields are the reference: `docs/reference/experiments.md` is made
//! of them.
//!
//! Trap: nothing is said twice in a file, so what is left out is filled in here ([`Experiment::completed`]), and all other code
//! sees lists, variants and tables in full.

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
pub const KNOWN: [(&str, &str); 3] = [
    ("paper", include_str!("../../experiments/paper.toml")),
    ("live", include_str!("../../experiments/live.toml")),
    ("live-mixes", include_str!("../../experiments/live-mixes.toml")),
];

/// What the only variant of an experiment without `variants` is called.
const AS_IT_IS: &str = "as it is";

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// What progress and `summary.json` call it [default: the file's name without `.toml`].
    #[serde(default)]
    pub name: String,
    /// Heading of the report.
    pub title: String,
    /// A paragraph for the report, below its heading [default: none].
    #[serde(default)]
    pub about: String,
    /// Modelled devices, as for `eagerd --virtual`: `4xV100-16GB`.
    pub cards: String,
    /// The first seed. A seed draws a list, or the order of a mix [default: 1].
    #[serde(default = "one")]
    pub first_seed: u64,
    /// How many seeds, from the first one on. `--seeds` replaces it.
    pub seeds: u64,
    /// The system that all ratios `…_vs_baseline` and slowdowns are against. It runs wherever a table has such a figure
    /// [default: `case`, if there is a system of that name].
    pub baseline: Option<String>,
    /// A second one, for the figures `…_vs_second` [default: `case-fifo`, if there is one].
    pub second: Option<String>,
    /// The system with endless memory, for the figures `…_vs_endless` [default: `infinite, live`, if there is one].
    pub endless: Option<String>,
    /// Job lists; see below.
    pub lists: Vec<List>,
    /// Policies with their options; see below.
    pub systems: Vec<System>,
    /// Changes of the machine, or of what is known of the jobs; see below. The first is the machine as it is [default: only
    /// that].
    #[serde(default)]
    pub variants: Vec<Variant>,
    /// Tables of the report; see below. What no table and no section names is not run [default: one for each usual figure,
    /// with all lists and systems].
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

/// A kind of job list; a seed makes it one list for each ratio.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// What tables and reports call it.
    pub name: String,
    /// A published mix, `W1` to `W8`; the seed draws its order. Or `jobs` and `ratios`.
    pub mix: Option<String>,
    /// So many jobs, 1 to 1024, drawn from the 17 configurations.
    pub jobs: Option<u16>,
    /// Large jobs to Small jobs, such as `["1:1", "3:1"]`: a list for each, which together are one figure (the geometric mean
    /// of ratios).
    #[serde(default)]
    pub ratios: Vec<String>,
    /// So many jobs are in progress at once, pulled from one queue [default: all come at the start].
    pub workers: Option<u32>,
    /// Mean seconds between two arrivals, which are a Poisson process.
    pub arrival_mean_s: Option<f64>,
    /// Only these systems run on it [default: all].
    #[serde(default)]
    pub systems: Vec<String>,
}

/// A policy with its options.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// What tables and reports call it [default: the policy's name].
    #[serde(default)]
    pub name: String,
    /// One of the policies of the daemon, or `infinite`: CASE with endless device memory.
    pub policy: PolicyName,
    /// Options of the scheduler in place of the policy's own, as in the daemon's
    /// [table `[options]`](configuration.md#the-table-options).
    #[serde(default)]
    pub options: eager_core::Options,
}

/// One change to machine or jobs, or to what is known of them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// What tables and reports call it.
    pub name: String,
    /// What differs from the source document's machine; see below [default: nothing].
    #[serde(default)]
    pub machine: Machine,
    /// Estimates of run times are wrong by up to this factor either way, at least 1 [default: 1].
    pub spread: Option<f64>,
    /// `true`: there are no estimates of run times [default: false].
    #[serde(default)]
    pub no_estimates: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// What marks of pages call it. With `split` it comes before the figure's name [default: the figure's name, if the table
    /// has one].
    #[serde(default)]
    pub key: String,
    /// Its heading [default: the figure's].
    #[serde(default)]
    pub title: String,
    /// What a row is: `lists` (a list, then each of its ratios), `systems`, or `variants` of one list [default: lists].
    #[serde(default)]
    pub rows: Rows,
    /// Names of lists [default: all].
    #[serde(default)]
    pub lists: Vec<String>,
    /// Names of systems [default: all].
    #[serde(default)]
    pub systems: Vec<String>,
    /// Names of variants [default: all, if they are the rows; else the first].
    #[serde(default)]
    pub variants: Vec<String>,
    /// Names of figures, which the last section explains [default: the usual ones, and `split`].
    #[serde(default)]
    pub figures: Vec<String>,
    /// `true`: a table for each figure [default: false].
    #[serde(default)]
    pub split: bool,
    /// Draw the first figure with its intervals, for these systems, at most seven [default: none].
    #[serde(default)]
    pub drawn: Vec<String>,
}

/// What a row of a table is.
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
    /// The list, of the first seed.
    pub list: String,
    /// Which of its ratios [default: the first].
    pub ratio: Option<String>,
    /// Systems, one schedule each.
    pub systems: Vec<String>,
}

/// Pairs of jobs that meet on one device, as in the document's case of two srad_v1 (specification S-209).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interference {
    /// The device.
    pub cards: String,
    /// Ids of configurations, two and two: `[["bfs-32M", "dwt2d-8192"]]`.
    pub pairs: Vec<(String, String)>,
    /// Systems.
    pub systems: Vec<String>,
}

/// What the source document (specification S-1) claims about its eight workloads, and what could explain that ours come
/// out otherwise.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Which lists its W1 to W8 may be, each `{ name, lists }` with eight lists; the first is the one that is varied.
    pub readings: Vec<Reading>,
    /// Systems that run under the variants. The table has `eager`, `eager-p`, `eager-b`, `eager-pb` and `eager-opt` over the
    /// baseline.
    pub systems: Vec<String>,
    /// Variants, one row each [default: none].
    #[serde(default)]
    pub variants: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    pub name: String,
    /// W1 to W8.
    pub lists: Vec<String>,
}

/// For which kernels would another OS-ratio threshold decide otherwise?
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// Lists; they run under `eager-opt`.
    pub lists: Vec<String>,
    /// Thresholds of all kernels, in percent of the device.
    pub percents: Vec<u32>,
}

impl Experiment {
    /// A known name, or a path to a file.
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

    /// Reads a file's text and checks all that it says.
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

    /// With all that the file leaves out.
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

    /// Seeds to run.
    pub fn seeds(&self) -> Range<u64> {
        self.first_seed..self.first_seed + self.seeds
    }

    /// By a name that was checked.
    pub fn list(&self, name: &str) -> Result<&List> {
        self.lists.iter().find(|list| list.name == name).with_context(|| format!("there is no list `{name}`"))
    }

    /// By a name that was checked.
    pub fn system(&self, name: &str) -> Result<&System> {
        let found = self.systems.iter().find(|system| system.name == name);
        found.with_context(|| format!("there is no system `{name}`"))
    }

    /// The system of a role, if there is one.
    pub fn role(&self, role: figures::Role) -> Option<&str> {
        match role {
            figures::Role::Baseline => self.baseline.as_deref(),
            figures::Role::Second => self.second.as_deref(),
            figures::Role::Endless => self.endless.as_deref(),
        }
    }
}

impl System {
    /// A policy without options.
    pub fn plain(policy: PolicyName) -> System {
        System { name: policy.to_string(), policy, options: eager_core::Options::default() }
    }
}

impl List {
    /// What tells its lists of one seed apart: the ratios, or nothing.
    pub fn draws(&self) -> Vec<&str> {
        if self.ratios.is_empty() { vec![""] } else { self.ratios.iter().map(String::as_str).collect() }
    }

    /// The jobs of one seed and ratio.
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

    /// When the jobs of one seed come.
    pub fn submission(&self, seed: u64) -> Submission {
        match (self.workers, self.arrival_mean_s) {
            (Some(workers), _) => Submission::Workers(workers),
            (None, Some(mean_s)) => poisson(seed, usize::from(self.jobs.unwrap_or(0)), mean_s),
            (None, None) => Submission::AllAtOnce,
        }
    }
}
