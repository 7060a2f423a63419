//! One run of one list under one system, as one line of `samples.jsonl`. Each line is written at once, so that
//! stopping a run loses nothing.
//!
//! Trap: lines are in the order in which runs ended, which differs between runs; look samples up by their keys, not
//! by position. A lost job has a turnaround too; a throughput counts only the jobs that ended.

use super::spec::List;
use crate::sim_run::Host;
use anyhow::{Context, Result, anyhow, bail};
use eager_gpu_model::DeviceTotals;
use eager_measure::Stamp;
use eager_sim::{JobResult, Outcome, SimResult, Submission};
use eager_units::{Class, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Everything that figures are computed from. Times are modelled seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub variant: String,
    pub list: String,
    /// Empty for a mix.
    pub ratio: String,
    pub seed: u64,
    pub system: String,
    pub makespan_s: f64,
    /// From "all have asked" to "all have ended" (specification S-803). None unless all jobs are submitted at once:
    /// in a stream the last job asks when nearly all work is done.
    pub ask_makespan_s: Option<f64>,
    /// See [`Host::work_s`], [`Host::bound_s`] and [`Host::memory_bound_s`].
    pub work_s: f64,
    pub bound_s: f64,
    pub memory_bound_s: f64,
    pub jobs_lost: usize,
    /// Seconds from submission to end, of each job.
    pub turnaround_s: Vec<f64>,
    pub wait_mean_s: f64,
    pub wait_max_s: f64,
    pub bytes_paged: u64,
    /// Share of the makespan in which a device has any operation, averaged over the devices.
    pub device_busy: f64,
    /// Shares like `device_busy`: with a kernel computing, with a copy or prefetch on the link, and with page faults
    /// in service.
    pub kernels_busy: f64,
    pub copies_busy: f64,
    pub paging_busy: f64,
    pub eager_launches: u64,
    pub promotions: u64,
    /// Device-side seconds of each job, in the order of the list; None for jobs that did not end or were ever eager.
    pub normal_device_s: Vec<Option<f64>>,
    /// Part of these seconds from the kernels' submissions to their ends; and (`…_alone_s`) what these kernels take
    /// alone.
    pub normal_kernels_s: Vec<Option<f64>>,
    pub normal_kernels_alone_s: Vec<Option<f64>>,
    /// Machine and commit that made the sample.
    pub stamp: Stamp,
}

/// Identifies the run of a sample.
#[derive(Debug, Clone, Copy)]
pub struct RunId<'a> {
    pub variant: &'a str,
    pub list: &'a List,
    pub ratio: &'a str,
    pub seed: u64,
    pub system: &'a str,
    pub submission: &'a Submission,
}

impl Sample {
    pub fn new(host: &Host, which: &RunId<'_>, result: &SimResult, stamp: &Stamp) -> Sample {
        let jobs = &result.jobs;
        let count = jobs.len().max(1) as f64;
        let makespan_s = seconds(result.makespan);
        let devices = result.devices.len().max(1) as f64;
        let busy = |of: fn(&DeviceTotals) -> u64| {
            let sum: f64 = result.devices.iter().map(|device| of(&device.totals) as f64 / 1e9).sum();
            sum / (makespan_s * devices)
        };
        let of_normal = |time: fn(&JobResult) -> Nanos| jobs.iter().map(|job| normal_s(job, time)).collect();
        Sample {
            variant: which.variant.to_owned(),
            list: which.list.name.clone(),
            ratio: which.ratio.to_owned(),
            seed: which.seed,
            system: which.system.to_owned(),
            makespan_s,
            ask_makespan_s: (*which.submission == Submission::AllAtOnce)
                .then(|| seconds(result.ask_makespan)),
            work_s: host.work_s(jobs),
            bound_s: host.bound_s(jobs),
            memory_bound_s: host.memory_bound_s(result),
            jobs_lost: jobs.iter().filter(|job| job.outcome != Outcome::Done).count(),
            turnaround_s: jobs.iter().map(|job| seconds(job.end.saturating_sub(job.submit))).collect(),
            wait_mean_s: jobs.iter().map(|job| seconds(job.wait)).sum::<f64>() / count,
            wait_max_s: jobs.iter().map(|job| seconds(job.wait)).fold(0.0, f64::max),
            bytes_paged: result.bytes_paged(),
            device_busy: busy(|totals| totals.busy.0),
            kernels_busy: busy(|totals| totals.kernel_busy.0),
            copies_busy: busy(|totals| totals.copy_busy.0),
            paging_busy: busy(|totals| totals.paging_busy.0),
            eager_launches: result.eager_launches,
            promotions: result.promotions,
            normal_device_s: of_normal(JobResult::device_side),
            normal_kernels_s: of_normal(|job| job.kernels),
            normal_kernels_alone_s: of_normal(|job| job.kernels_alone),
            stamp: stamp.clone(),
        }
    }

    pub fn jobs_ended(&self) -> f64 {
        (self.turnaround_s.len() - self.jobs_lost) as f64
    }

    pub fn turnaround_mean_s(&self) -> f64 {
        self.turnaround_s.iter().sum::<f64>() / self.turnaround_s.len().max(1) as f64
    }

    pub fn turnaround_max_s(&self) -> f64 {
        self.turnaround_s.iter().copied().fold(0.0, f64::max)
    }
}

/// Returns a time of a job in seconds. None unless the job ended and was Normal from start to end.
fn normal_s(job: &JobResult, time: fn(&JobResult) -> Nanos) -> Option<f64> {
    let was_normal = job.classes.iter().all(|(_, class)| *class == Class::Normal);
    (job.outcome == Outcome::Done && was_normal).then(|| seconds(time(job)))
}

/// Converts modelled time to seconds.
fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

/// Samples of all complete seeds. Seeds run in order, so only the last seeds of a stopped run are incomplete.
#[derive(Debug, PartialEq)]
pub struct CompleteSamples {
    pub samples: Vec<Sample>,
    pub seeds: Range<u64>,
    /// Stamp of the last sample.
    pub stamp: Stamp,
}

/// Reads the lines of a `samples.jsonl`. An error names the bad line.
pub fn read_complete(path: &Path) -> Result<CompleteSamples> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let parse = |(number, line): (usize, &str)| {
        serde_json::from_str(line).with_context(|| format!("{}:{}: not a sample", path.display(), number + 1))
    };
    let samples: Vec<Sample> = text.lines().enumerate().map(parse).collect::<Result<_>>()?;
    let Some(stamp) = samples.last().map(|sample| sample.stamp.clone()) else {
        bail!("{} holds no sample", path.display());
    };
    let mut seeds: BTreeMap<u64, usize> = BTreeMap::new();
    for sample in &samples {
        *seeds.entry(sample.seed).or_default() += 1;
    }
    let whole = seeds.values().max().copied().unwrap_or(0);
    seeds.retain(|_, count| *count == whole);
    let samples = samples.into_iter().filter(|sample| seeds.contains_key(&sample.seed)).collect();
    let first = seeds.keys().next().copied().unwrap_or(0);
    Ok(CompleteSamples { samples, seeds: first..first + seeds.len() as u64, stamp })
}

/// File of samples that several threads append to.
pub struct Samples {
    path: PathBuf,
    kept: Mutex<(File, Vec<Sample>)>,
}

impl Samples {
    /// Creates the file, or truncates an existing one.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path) -> Result<Samples> {
        let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Samples { path: path.to_owned(), kept: Mutex::new((file, Vec::new())) })
    }

    /// Appends a sample.
    ///
    /// # Errors
    /// The file cannot be written, or another thread panicked.
    pub fn keep(&self, sample: Sample) -> Result<()> {
        let line = serde_json::to_string(&sample).context("a sample as JSON")? + "\n";
        let mut kept = self.kept.lock().map_err(|_| anyhow!("another run panicked"))?;
        kept.0.write_all(line.as_bytes()).with_context(|| format!("cannot write {}", self.path.display()))?;
        kept.1.push(sample);
        Ok(())
    }

    /// Returns all samples kept.
    ///
    /// # Errors
    /// A thread panicked.
    pub fn into_all(self) -> Result<Vec<Sample>> {
        let (_, samples) = self.kept.into_inner().map_err(|_| anyhow!("a run panicked"))?;
        Ok(samples)
    }
}
