//! Command-line choice of the modelled machine, and of when jobs are submitted to it.

use crate::experiment::Machine;
use clap::Args;
use eager_rodinia::workload::arrivals;
use eager_sim::Submission;
use eager_units::Nanos;

/// What is left out is as in the source document's setting (specification S-222).
#[derive(Debug, Clone, Default, Args)]
pub struct MachineArgs {
    /// Jobs in progress at once, pulled from one queue; default: all come at the start
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub workers: Option<u32>,
    /// Mean seconds between two arrivals, which are a Poisson process
    #[arg(long, value_name = "S", conflicts_with = "workers", value_parser = positive)]
    pub arrival_mean_s: Option<f64>,
    /// Host cores for the jobs' host phases (default 40)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub host_cores: Option<u32>,
    /// Host memory for the jobs' own buffers; default: without end
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u64).range(1..))]
    pub host_memory_gib: Option<u64>,
    /// What may be granted on each device, the last one for all further; default: all of it
    #[arg(long, value_name = "MIB", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..1 << 40))]
    pub device_memory_mib: Option<Vec<u64>>,
    /// Processes share a device by time slices instead of MPS
    #[arg(long)]
    pub no_mps: bool,
}

impl MachineArgs {
    /// Returns the machine, as changes to the source document's setting.
    pub fn machine(&self) -> Machine {
        Machine {
            mps: self.no_mps.then_some(false),
            host_cores: self.host_cores,
            host_memory_gib: self.host_memory_gib,
            device_memory_mib: self.device_memory_mib.clone(),
            ..Machine::default()
        }
    }

    /// Returns when `jobs` jobs are submitted; the seed draws their arrivals.
    pub fn submission(&self, seed: u64, jobs: usize) -> Submission {
        match (self.workers, self.arrival_mean_s) {
            (Some(workers), _) => Submission::Workers(workers),
            (None, Some(mean_s)) => poisson(seed, jobs, mean_s),
            (None, None) => Submission::AllAtOnce,
        }
    }
}

/// Submission at the arrivals of a Poisson process.
pub fn poisson(seed: u64, jobs: usize, mean_s: f64) -> Submission {
    Submission::At(arrivals(seed, jobs, mean_s).into_iter().map(Nanos).collect())
}

/// The text is no length of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected seconds above 0")]
struct NoTime;

fn positive(text: &str) -> Result<f64, NoTime> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err(NoTime),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_come_at_once_or_from_workers_or_as_a_poisson_process() {
        let at_once = MachineArgs::default();
        assert_eq!(at_once.submission(1, 3), Submission::AllAtOnce);
        assert_eq!(
            MachineArgs { workers: Some(2), ..at_once.clone() }.submission(1, 3),
            Submission::Workers(2)
        );
        let streamed = MachineArgs { arrival_mean_s: Some(2.0), ..at_once };
        let Submission::At(times) = streamed.submission(1, 3) else { panic!("no arrivals") };
        assert!(times.len() == 3 && times.is_sorted(), "{times:?}");
        assert_eq!(positive("0"), Err(NoTime));
    }
}
