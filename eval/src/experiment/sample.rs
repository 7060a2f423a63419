//! One run of one list under one policy, as one line of `samples.jsonl`.

use super::spec::Workload;
use super::variant::Variant;
use crate::record::Stamp;
use crate::samples::{Sampled, normal_device_s, normal_slowdown, seconds};
use crate::sim_run::Host;
use eager_gpu_model::DeviceTotals;
use eager_sim::{JobResult, Outcome, SimResult, Submission};
use serde::{Deserialize, Serialize};

/// Everything that tables and figures are made from. Times are modelled seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub workload: String,
    /// Empty for the experiment's own runs, else the study and its variant.
    pub study: String,
    pub variant: String,
    pub seed: u64,
    pub policy: String,
    pub makespan_s: f64,
    /// From "all have asked" to "all have ended" (specification S-803). None for streams of jobs: the last of
    /// them asks when nearly all is over.
    pub ask_makespan_s: Option<f64>,
    /// No schedule can be shorter: device work over devices, or the longest job alone.
    pub lower_bound_s: f64,
    pub jobs: usize,
    pub jobs_ended: usize,
    pub turnaround_mean_s: f64,
    pub turnaround_max_s: f64,
    pub wait_mean_s: f64,
    pub bytes_paged: u64,
    /// Part of the makespan in which a device has any operation, averaged over the devices.
    pub device_busy: f64,
    /// The same with a kernel computing, with a copy or prefetch on the link, and with page faults in service.
    pub kernels_busy: f64,
    pub copies_busy: f64,
    pub paging_busy: f64,
    pub eager_launches: u64,
    pub promotions: u64,
    /// Device-side seconds of each job, in the order of the list; none for jobs that did not end or were ever eager.
    pub normal_device_s: Vec<Option<f64>>,
    /// The machine and the commit that made it.
    pub stamp: Stamp,
}

/// Which run a sample is of.
#[derive(Debug, Clone, Copy)]
pub struct Which<'a> {
    pub workload: &'a Workload,
    pub study: &'a str,
    pub variant: &'a Variant,
    pub seed: u64,
    pub stamp: &'a Stamp,
}

impl Which<'_> {
    /// When the jobs come.
    pub fn submission(&self) -> Submission {
        self.variant.submission(self.workload.submission(self.seed))
    }
}

impl Sampled for Sample {
    fn seed(&self) -> u64 {
        self.seed
    }

    fn stamp(&self) -> &Stamp {
        &self.stamp
    }
}

impl Sample {
    pub fn new(host: &Host, which: Which<'_>, result: &SimResult) -> Sample {
        let count = result.jobs.len().max(1) as f64;
        let turnaround = |job: &JobResult| seconds(job.end.saturating_sub(job.submit));
        let makespan_s = seconds(result.makespan);
        let devices = result.devices.len().max(1) as f64;
        let busy = |of: fn(&DeviceTotals) -> eager_gpu_model::Nanos| {
            let sum: f64 = result.devices.iter().map(|device| of(&device.totals).0 as f64 / 1e9).sum();
            sum / (makespan_s * devices)
        };
        Sample {
            workload: which.workload.name.clone(),
            study: which.study.to_owned(),
            variant: which.variant.name.clone(),
            seed: which.seed,
            policy: result.policy.clone(),
            makespan_s,
            ask_makespan_s: (which.submission() == Submission::AllAtOnce)
                .then(|| seconds(result.ask_makespan)),
            lower_bound_s: host.lower_bound_s(&result.jobs),
            jobs: result.jobs.len(),
            jobs_ended: result.jobs.iter().filter(|job| job.outcome == Outcome::Done).count(),
            turnaround_mean_s: result.jobs.iter().map(turnaround).sum::<f64>() / count,
            turnaround_max_s: result.jobs.iter().map(turnaround).fold(0.0, f64::max),
            wait_mean_s: result.jobs.iter().map(|job| seconds(job.wait)).sum::<f64>() / count,
            bytes_paged: result.bytes_paged(),
            device_busy: busy(|totals| totals.busy),
            kernels_busy: busy(|totals| totals.kernel_busy),
            copies_busy: busy(|totals| totals.copy_busy),
            paging_busy: busy(|totals| totals.paging_busy),
            eager_launches: result.eager_launches,
            promotions: result.promotions,
            normal_device_s: result.jobs.iter().map(normal_device_s).collect(),
            stamp: which.stamp.clone(),
        }
    }

    /// Jobs that ended well per second.
    pub fn throughput(&self) -> f64 {
        self.jobs_ended as f64 / self.makespan_s
    }

    pub fn throughput_ask(&self) -> Option<f64> {
        Some(self.jobs_ended as f64 / self.ask_makespan_s?)
    }

    /// 95th percentile of the slowdown of Normal tasks.
    pub fn normal_slowdown_p95(&self, baseline: &Sample) -> Option<f64> {
        normal_slowdown(&self.normal_device_s, &baseline.normal_device_s, 0.95)
    }
}
