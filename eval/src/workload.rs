//! Choice of the jobs to run: a published mix by name, or a seeded draw.

use crate::record::WorkloadStamp;
use anyhow::{Result, bail};
use clap::Args;
use eager_rodinia::workload::{LargeToSmall, Mix, draw};
use eager_rodinia::{Configuration, HostTimes, Program};

/// Command-line choice of a job list.
#[derive(Debug, Clone, Args)]
pub struct WorkloadArgs {
    /// A published mix, W1 to W8, in place of a draw
    #[arg(long, value_name = "NAME", conflicts_with_all = ["jobs", "ratio"])]
    pub workload: Option<String>,
    /// How many jobs to draw from the 17 configurations
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// Large jobs to Small jobs
    #[arg(long, default_value = "1:1", value_parser = parse_ratio)]
    pub ratio: LargeToSmall,
    /// Seed of the draw or of the mix's order. The default is a list in which tasks meet (few seeds do; the demo says how
    /// few)
    #[arg(long, default_value_t = 39)]
    pub seed: u64,
}

/// One job of a list.
#[derive(Debug, Clone, Copy)]
pub struct Choice {
    pub program: &'static Program,
    pub configuration: &'static Configuration,
}

impl Choice {
    pub fn id(&self) -> String {
        self.configuration.id.to_string()
    }

    pub fn size_class(&self) -> String {
        match self.configuration.class {
            eager_rodinia::Class::Large => "L".to_string(),
            eager_rodinia::Class::Small => "S".to_string(),
        }
    }

    /// Host phases at full size, in the format of `EAGER_VGPU_HOST_TIMES`: seconds, keyed by the number of earlier
    /// copies to the host.
    pub fn host_times(&self) -> Result<String> {
        let phases = self.program.host_phases(self.configuration, &HostTimes::default())?;
        Ok(phases.iter().map(|(copies, s)| format!("{copies}:{s}")).collect::<Vec<_>>().join(","))
    }
}

impl WorkloadArgs {
    /// Returns the jobs in order, and the stamp that repeats the choice.
    pub fn choose(&self) -> Result<(WorkloadStamp, Vec<Choice>)> {
        let (name, ids) = match &self.workload {
            Some(name) => {
                let Some(mix) = Mix::named(name) else {
                    bail!("unknown workload `{name}`: known are W1 to W8")
                };
                (name.clone(), mix.jobs(self.seed))
            }
            None => {
                let ids = draw(self.seed, usize::from(self.jobs), self.ratio);
                (format!("{} jobs, Large:Small {}:{}", self.jobs, self.ratio.large, self.ratio.small), ids)
            }
        };
        let mut choices = Vec::new();
        for id in &ids {
            let Some((program, configuration)) = eager_rodinia::configuration(&id.0) else {
                bail!("configuration `{id}` is in no program.toml");
            };
            choices.push(Choice { program, configuration });
        }
        let jobs = ids.iter().map(ToString::to_string).collect();
        Ok((WorkloadStamp { name, seed: self.seed, jobs }, choices))
    }
}

/// The text is no ratio of numbers of jobs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected LARGE:SMALL, such as 3:1")]
pub struct NoRatio;

pub fn parse_ratio(text: &str) -> Result<LargeToSmall, NoRatio> {
    let parts = text.split_once(':').and_then(|(l, s)| Some((l.parse().ok()?, s.parse().ok()?)));
    match parts {
        Some((large, small)) if large + small > 0u32 => Ok(LargeToSmall { large, small }),
        _ => Err(NoRatio),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_phases_stand_behind_their_copies() {
        let choice = |id: &str| {
            let (program, configuration) = eager_rodinia::configuration(id).expect("known");
            Choice { program, configuration }
        };
        assert_eq!(choice("backprop-8M").host_times().expect("times"), "0:5");
        assert_eq!(choice("needle-16384").host_times().expect("times"), "0:1.8,1:0.05");
        let srad = choice("srad_v1-20000").host_times().expect("times");
        assert!(srad.starts_with("0:") && srad.split(',').count() > 3, "{srad}");
    }
}
