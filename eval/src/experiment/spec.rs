//! What an experiment file says.
//!
//! Trap: a variant lists only what it changes; everything it leaves out is as in the rest of the experiment.

use crate::workload::{Choice, WorkloadArgs, parse_ratio};
use anyhow::{Context, Result, bail};
use eager_core::PolicyName;
use eager_core::options::QueueOrder;
use eager_gpu_model::Nanos;
use eager_rodinia::HostTimes;
use eager_rodinia::workload::{LargeToSmall, arrivals};
use eager_sim::{SimOptions, Submission};
use serde::Deserialize;
use std::path::Path;

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
    pub sensitivity: Sensitivity,
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

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sensitivity {
    pub workload: String,
    pub policies: Vec<PolicyName>,
    pub variants: Vec<Variant>,
}

/// One change to machine, model or scheduler.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Variant {
    pub name: String,
    pub cards: Option<String>,
    pub mps: Option<bool>,
    pub slice_ms: Option<f64>,
    pub migrate_factor: Option<f64>,
    pub batch_factor: Option<f64>,
    pub overlap: Option<f64>,
    pub prefetcher: Option<bool>,
    /// Factors on the jobs' host phases, and on those in which they write their output.
    pub host: Option<f64>,
    pub output: Option<f64>,
    pub allocate_first: Option<bool>,
    pub host_cores: Option<u32>,
    pub os_ratio_percent_cyclic: Option<u32>,
    pub os_ratio_percent_other: Option<u32>,
    pub grant_percent_min: Option<u32>,
    /// In place of every policy's own queue order but the baselines'.
    pub queue: Option<QueueOrder>,
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
        let experiment: Experiment =
            toml::from_str(text).with_context(|| format!("experiment {name} is malformed"))?;
        if experiment.seeds == 0 || experiment.workloads.is_empty() {
            bail!("experiment {name} has no seeds or no workloads: nothing to run");
        }
        for workload in &experiment.workloads {
            workload.choices(1).with_context(|| format!("experiment {name}"))?;
        }
        for wanted in [&experiment.timeline.workload, &experiment.sensitivity.workload] {
            experiment.workload(wanted)?;
        }
        Ok(experiment)
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
            (None, Some(mean_s)) => {
                let jobs = usize::from(self.jobs.unwrap_or(0));
                Submission::At(
                    arrivals(seed, jobs, mean_s).into_iter().map(eager_core::units::Nanos).collect(),
                )
            }
            (None, None) => Submission::AllAtOnce,
        }
    }
}

impl Variant {
    /// Host phases of the jobs.
    pub fn host_times(&self) -> HostTimes {
        HostTimes {
            scale: self.host.unwrap_or(1.0),
            output_scale: self.output.or(self.host).unwrap_or(1.0),
            allocate_first: self.allocate_first.unwrap_or(false),
        }
    }

    /// Applies the rest.
    pub fn apply(&self, options: &mut SimOptions) {
        fn set<T>(to: &mut T, from: Option<T>) {
            if let Some(value) = from {
                *to = value;
            }
        }
        set(&mut options.model.mps, self.mps);
        set(&mut options.model.slice, self.slice_ms.map(|ms| Nanos((ms * 1e6) as u64)));
        set(&mut options.model.migrate_factor, self.migrate_factor);
        set(&mut options.model.batch_factor, self.batch_factor);
        set(&mut options.model.overlap, self.overlap);
        set(&mut options.model.prefetcher, self.prefetcher);
        set(&mut options.host_cores, self.host_cores);
        set(&mut options.scheduler.os_ratio_percent_cyclic, self.os_ratio_percent_cyclic);
        set(&mut options.scheduler.os_ratio_percent_other, self.os_ratio_percent_other);
        set(&mut options.scheduler.grant_percent_min, self.grant_percent_min);
        if options.policy.traits().eager {
            options.scheduler.queue = self.queue;
        }
        options.scheduler.context_bytes = eager_core::units::Bytes(options.model.context_memory());
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
        assert!(broken("\"case\",", "\"cas\",").contains("unknown variant `cas`"));
    }
}
