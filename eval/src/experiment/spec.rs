//! What an experiment file says.
//!
//! Trap: a study's baselines run under the same variant as the policies that are compared with them.

use super::variant::Variant;
use crate::machine::poisson;
use crate::workload::{Choice, WorkloadArgs, parse_ratio};
use anyhow::{Context, Result, bail};
use eager_core::PolicyName;
use eager_rodinia::workload::LargeToSmall;
use eager_sim::Submission;
use serde::Deserialize;
use std::path::Path;

/// Names of the studies, in samples and summary.
pub const SENSITIVITY: &str = "sensitivity";
pub const DOCUMENT: &str = "document";

/// Experiments that come with the program.
const KNOWN: [(&str, &str); 1] = [("paper", include_str!("../../experiments/paper.toml"))];

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    pub name: String,
    pub title: String,
    /// Devices, as for `eagerd --virtual`.
    pub cards: String,
    /// Seeds 1 to this.
    pub seeds: u64,
    pub policies: Vec<PolicyName>,
    pub workloads: Vec<Workload>,
    pub timeline: Timeline,
    pub interference: Interference,
    pub sensitivity: Study,
    pub document: Document,
    pub thresholds: Thresholds,
}

/// A kind of job list; a seed makes it one list.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    pub name: String,
    /// A published mix …
    pub mix: Option<String>,
    /// … or this many jobs drawn at a ratio of Large to Small.
    pub jobs: Option<u16>,
    pub ratio: Option<String>,
    /// Jobs in progress at once …
    pub workers: Option<u32>,
    /// … or the mean time between two arrivals, which are a Poisson process. Without either all come at the start.
    pub arrival_mean_s: Option<f64>,
    /// In place of the experiment's.
    pub policies: Option<Vec<PolicyName>>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    pub workload: String,
    pub policies: Vec<PolicyName>,
}

/// One thing changed at a time, against the same baselines under the same change.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    pub workloads: Vec<String>,
    pub policies: Vec<PolicyName>,
    pub variants: Vec<Variant>,
}

/// What the source document (specification S-1) claims about its eight workloads, and what could explain that ours come out
/// otherwise.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Which lists its W1 to W8 may be; the first reading is the one that is varied.
    pub readings: Vec<Reading>,
    pub policies: Vec<PolicyName>,
    pub variants: Vec<Variant>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    pub name: String,
    /// W1 to W8.
    pub workloads: Vec<String>,
}

/// Pairs of jobs that meet on one device, as in the document's case of two srad_v1 (specification S-209).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interference {
    pub cards: String,
    /// Ids of configurations.
    pub pairs: Vec<(String, String)>,
    pub policies: Vec<PolicyName>,
}

/// For which kernels would another OS-ratio threshold decide otherwise?
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    pub workloads: Vec<String>,
    /// Thresholds of all kernels, in percent of the device.
    pub percents: Vec<u32>,
}

impl Experiment {
    /// A known name, or a path to a file.
    pub fn find(name: &str) -> Result<Experiment> {
        let known = KNOWN.iter().find(|(known, _)| *known == name);
        let text = match known {
            Some((_, text)) => (*text).to_owned(),
            None if Path::new(name).extension().is_some() => {
                std::fs::read_to_string(name).with_context(|| format!("cannot read the experiment {name}"))?
            }
            None => {
                let names: Vec<&str> = KNOWN.iter().map(|(name, _)| *name).collect();
                bail!(
                    "unknown experiment `{name}`: known are {}, or give the path of a .toml file",
                    names.join(", ")
                )
            }
        };
        Experiment::parse(name, &text)
    }

    fn parse(name: &str, text: &str) -> Result<Experiment> {
        let experiment: Experiment = read_toml(name, text)?;
        if experiment.seeds == 0 || experiment.workloads.is_empty() {
            bail!("experiment {name} has no seeds or no workloads: nothing to run");
        }
        for workload in &experiment.workloads {
            workload.choices(1).with_context(|| format!("experiment {name}"))?;
        }
        for variant in experiment.sensitivity.variants.iter().chain(&experiment.document.variants) {
            variant
                .model_options(&eager_gpu_model::Options::default())
                .with_context(|| format!("experiment {name}: `model` of variant `{}`", variant.name))?;
        }
        let readings = experiment.document.readings.iter().flat_map(|reading| &reading.workloads);
        let wanted = [&experiment.timeline.workload].into_iter();
        let listed = experiment.sensitivity.workloads.iter().chain(&experiment.thresholds.workloads);
        for name in wanted.chain(listed).chain(readings) {
            experiment.workload(name)?;
        }
        for id in experiment.interference.pairs.iter().flat_map(|(one, other)| [one, other]) {
            eager_rodinia::configuration(id)
                .with_context(|| format!("experiment {name} has no configuration `{id}`"))?;
        }
        if experiment.document.readings.iter().any(|reading| reading.workloads.len() != 8) {
            bail!("experiment {name}: a reading of the document names eight workloads, W1 to W8");
        }
        Ok(experiment)
    }

    /// The studies, by name: every variant of each is run.
    pub fn studies(&self) -> Vec<(&'static str, Study)> {
        let Document { readings, policies, variants } = &self.document;
        let workloads = readings.first().map(|reading| reading.workloads.clone()).unwrap_or_default();
        let document = Study { workloads, policies: policies.clone(), variants: variants.clone() };
        vec![(SENSITIVITY, self.sensitivity.clone()), (DOCUMENT, document)]
    }

    pub fn workload(&self, name: &str) -> Result<&Workload> {
        let found = self.workloads.iter().find(|workload| workload.name == name);
        found.with_context(|| format!("experiment {} has no workload `{name}`", self.name))
    }
}

impl Workload {
    /// The list of one seed.
    pub fn choices(&self, seed: u64) -> Result<Vec<Choice>> {
        let none = LargeToSmall { large: 1, small: 1 };
        let args = match (&self.mix, self.jobs, &self.ratio) {
            (Some(mix), None, None) => {
                WorkloadArgs { workload: Some(mix.clone()), jobs: 0, ratio: none, seed }
            }
            (None, Some(jobs), Some(ratio)) => {
                let ratio = parse_ratio(ratio).map_err(|why| anyhow::anyhow!("ratio `{ratio}`: {why}"))?;
                WorkloadArgs { workload: None, jobs, ratio, seed }
            }
            _ => bail!("workload {} needs either `mix`, or `jobs` and `ratio`", self.name),
        };
        Ok(args.choose().with_context(|| format!("workload {}", self.name))?.1)
    }
}

impl Workload {
    /// When the jobs of one seed's list come.
    pub fn submission(&self, seed: u64) -> Submission {
        match (self.workers, self.arrival_mean_s) {
            (Some(workers), _) => Submission::Workers(workers),
            (None, Some(mean_s)) => poisson(seed, usize::from(self.jobs.unwrap_or(0)), mean_s),
            (None, None) => Submission::AllAtOnce,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_experiment_is_well_formed() {
        for (name, _) in KNOWN {
            Experiment::find(name).expect(name);
        }
    }

    #[test]
    fn mistakes_are_named() {
        let error = |name: &str| format!("{:#}", Experiment::find(name).expect_err("no such experiment"));
        assert_eq!(
            error("papre"),
            "unknown experiment `papre`: known are paper, or give the path of a .toml file"
        );
        assert!(error("nothing.toml").starts_with("cannot read the experiment nothing.toml"));
        let text = include_str!("../../experiments/paper.toml");
        let broken = |from: &str, to: &str| {
            format!("{:#}", Experiment::parse("x", &text.replacen(from, to, 1)).expect_err(to))
        };
        assert!(broken("mix = \"W1\"", "mix = \"W9\"").contains("unknown workload `W9`"));
        assert!(broken("ratio = \"1:1\"", "ratio = \"1-1\"").contains("expected LARGE:SMALL"));
        assert!(broken("seeds = 10", "seeds = 0").contains("nothing to run"));
        let unknown = broken("{ eviction = \"used\" }", "{ evictions = \"used\" }");
        assert!(unknown.contains("true LRU") && unknown.contains("unknown field `evictions`"), "{unknown}");
        assert!(broken("\"case\",", "\"cas\",").contains("unknown variant `cas`"));
    }
}
