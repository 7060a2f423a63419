//! One run of one list under one system, as one line of `samples.jsonl`.
//!
//! Trap: a job that was lost has a turnaround too; who counts throughput looks at `jobs_lost`.

use crate::record::Stamp;
use crate::samples::Sampled;
use serde::{Deserialize, Serialize};

/// One run. Times are modelled seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub variant: String,
    pub group: String,
    pub ratio: String,
    pub seed: u64,
    pub system: String,
    pub makespan_s: f64,
    /// From "all have asked" to the last end; none for streams.
    pub ask_makespan_s: Option<f64>,
    /// Kernels or copies spread evenly over the devices, or the longest job alone, whichever is longest.
    pub bound_s: f64,
    /// See [`crate::sim_run::Host::memory_bound_s`].
    pub memory_bound_s: f64,
    pub jobs_lost: usize,
    pub turnaround_mean_s: f64,
    /// Of each job, from submission to end.
    pub turnaround_s: Vec<f64>,
    pub wait_max_s: f64,
    pub bytes_paged: u64,
    pub eager_launches: u64,
    /// Part of the makespan in which a device computes, averaged over the devices.
    pub kernels_busy: f64,
    /// Device-side seconds of each job; none for those that were ever eager.
    pub normal_device_s: Vec<Option<f64>>,
    /// Of them, from kernels' submissions to the device to their ends; and what these kernels take alone.
    pub normal_kernels_s: Vec<Option<f64>>,
    pub normal_kernels_alone_s: Vec<Option<f64>>,
    /// The machine and the commit that made it.
    pub stamp: Stamp,
}

impl Sampled for Sample {
    fn seed(&self) -> u64 {
        self.seed
    }

    fn stamp(&self) -> &Stamp {
        &self.stamp
    }
}
