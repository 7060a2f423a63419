//! One schema for every back end: a record is one workload run once under one policy, written at once as one JSON
//! line.
//!
//! Trap: the times of a virtual record show that everything works, not how fast a GPU would be, because its kernels
//! run on the CPU. Every record names its back end; anything that prints a record must name it too.

use anyhow::{Context, Result};
use clap::ValueEnum;
use eager_measure::Stamp;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;

/// Version of the schema. Increase it when a field changes its meaning.
pub const SCHEMA_VERSION: u32 = 3;

/// Where the jobs ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// Discrete events, full-size descriptors, modelled time.
    Sim,
    /// Real processes on virtual GPUs, scaled memory, CPU kernels.
    Virtual,
}

/// What time is in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// This machine's: results come when they are computed.
    Real,
    /// Modelled device time and host time.
    Virtual,
}

/// Whose host work takes time on a virtual clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum HostWork {
    /// That of the full-size programs, as stated.
    #[default]
    Stated,
    /// That of the scaled programs, as measured.
    Measured,
}

/// One run of one workload under one policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub schema: u32,
    pub backend: Backend,
    pub experiment: String,
    pub workload: WorkloadStamp,
    pub policy: String,
    /// Devices, in the form of `eagerd --virtual`.
    pub cards: String,
    /// Modelled bytes per program byte (1 in the simulator).
    pub memory_scale: u64,
    pub clock: Clock,
    #[serde(default)]
    pub host_work: HostWork,
    /// True if processes shared a device's SMs at the same time.
    pub mps: bool,
    pub repetition: u32,
    pub stamp: Stamp,
    /// From the first submission to the last end, in seconds of `clock`. For the source document's measure see
    /// [`Record::ask_makespan_s`].
    pub makespan_s: f64,
    pub jobs: Vec<JobRecord>,
    /// Per device: seconds with any operation on it, and bytes that over-subscription moved (demand-faulted, evicted,
    /// and fetched again after an eviction, but not the first population by prefetch). Simulator only; empty
    /// elsewhere.
    pub devices: Vec<DeviceRecord>,
}

/// Jobs of the run, and the seed that draws them again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadStamp {
    pub name: String,
    pub seed: u64,
    pub jobs: Vec<String>,
}

/// How one job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", content = "detail", rename_all = "kebab-case")]
pub enum Outcome {
    /// Ended well; the output of a real process was also verified.
    Ok,
    WrongOutput(String),
    OutOfMemory(String),
    Failed(String),
    /// Rejected by the scheduler, with its reason.
    Refused(String),
}

/// One job. Times are seconds since the first submission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    pub index: usize,
    /// Id of the configuration, e.g. `needle-32768`.
    pub configuration: String,
    /// `L` or `S`.
    pub size_class: String,
    #[serde(flatten)]
    pub outcome: Outcome,
    pub verified: bool,
    pub submitted_s: f64,
    /// When the job's task asked, when it was bound, when its whole requirement was reserved after an eager start,
    /// and when the program ended.
    pub asked_s: Option<f64>,
    pub bound_s: Option<f64>,
    pub promoted_s: Option<f64>,
    pub ended_s: f64,
    pub device: Option<u32>,
    /// `normal`, `eager`, or `eager` then `promoted`.
    pub classes: Vec<String>,
    pub requirement_bytes: u64,
    /// Bytes granted when the task was bound.
    pub grant_bytes: u64,
    /// Seconds from requests to bindings, summed over the job's tasks.
    pub wait_s: f64,
    /// Sentence in which the scheduler explains the binding.
    pub reason: String,
    /// Device-side time over that of the same configuration alone on the same devices under `case`; 0 where unknown
    /// (real processes). Device-side time of a task runs from its binding to its end, without its host phases and
    /// without the time in which its kernels stood at a gate.
    pub slowdown: f64,
    /// Bytes of managed memory that the job's operations moved (simulator only; 0 elsewhere): prefetched for the
    /// first time, prefetched again after an eviction, demand-faulted, and evicted to make room.
    pub prefetched_bytes: u64,
    pub refetched_bytes: u64,
    pub faulted_bytes: u64,
    pub evicted_bytes: u64,
    /// Spans in seconds in which the job's kernels ran, and (`held_s`) in which a kernel stood at a gate. Spans too
    /// close together to be told apart in a figure are joined (simulator only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels_s: Vec<(f64, f64)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_s: Vec<(f64, f64)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceRecord {
    pub device: u32,
    pub busy_s: f64,
    pub paged_bytes: u64,
    /// Bytes that the ledger may grant, and (`granted`) the bytes that it has granted from each moment, in seconds,
    /// on (simulator only).
    #[serde(default)]
    pub capacity_bytes: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<(f64, u64)>,
}

impl JobRecord {
    /// Text for tables: `verified`, `ended`, or what went wrong.
    pub fn outcome_text(&self) -> String {
        match &self.outcome {
            Outcome::Ok if self.verified => "verified".to_string(),
            Outcome::Ok => "ended".to_string(),
            Outcome::WrongOutput(detail) => format!("wrong: {detail}"),
            Outcome::OutOfMemory(detail) => format!("out of memory: {detail}"),
            Outcome::Failed(detail) => format!("failed: {detail}"),
            Outcome::Refused(detail) => format!("refused: {detail}"),
        }
    }

    pub fn was_eager(&self) -> bool {
        self.classes.iter().any(|class| class == "eager")
    }

    pub fn was_promoted(&self) -> bool {
        self.classes.iter().any(|class| class == "promoted")
    }
}

impl Record {
    /// Seconds from the last job's request to the last end: the source document's clock, "all have asked" to "all
    /// have ended" (specification S-803). It leaves out the host work before the requests. None unless all jobs were
    /// submitted at the start: otherwise the last job asks when nearly all work is done.
    pub fn ask_makespan_s(&self) -> Option<f64> {
        let asked = self.jobs.iter().filter_map(|job| job.asked_s).fold(0.0, f64::max);
        let together = self.jobs.iter().all(|job| job.submitted_s == 0.0);
        together.then_some(self.makespan_s - asked)
    }

    /// Number of jobs that ended well; the other jobs ran out of memory, were rejected, or failed.
    pub fn jobs_ended(&self) -> usize {
        self.jobs.iter().filter(|job| job.outcome == Outcome::Ok).count()
    }

    /// Jobs that ended well per second, relative to the baseline.
    pub fn throughput_over(&self, baseline: &Record) -> f64 {
        let ended = self.jobs_ended() as f64 / baseline.jobs_ended() as f64;
        ended * (baseline.makespan_s / self.makespan_s)
    }

    /// Throughput like [`Record::throughput_over`], counted from the last request on.
    pub fn throughput_ask_over(&self, baseline: &Record) -> Option<f64> {
        let ended = self.jobs_ended() as f64 / baseline.jobs_ended() as f64;
        Some(ended * (baseline.ask_makespan_s()? / self.ask_makespan_s()?))
    }

    /// Bytes that over-subscription moved in both directions, on all devices.
    pub fn paged_bytes(&self) -> u64 {
        self.devices.iter().map(|device| device.paged_bytes).sum()
    }

    /// Mean and longest wait, in seconds.
    pub fn waits_s(&self) -> (f64, f64) {
        let count = self.jobs.len().max(1) as f64;
        let sum: f64 = self.jobs.iter().map(|job| job.wait_s).sum();
        let max = self.jobs.iter().map(|job| job.wait_s).fold(0.0, f64::max);
        (sum / count, max)
    }

    /// Mean and longest time from submission to end, in seconds.
    pub fn turnarounds_s(&self) -> (f64, f64) {
        let all = || self.jobs.iter().map(|job| job.ended_s - job.submitted_s);
        (all().sum::<f64>() / self.jobs.len().max(1) as f64, all().fold(0.0, f64::max))
    }

    /// Share of the makespan in which a device has any operation, averaged over the devices.
    pub fn device_busy(&self) -> f64 {
        let busy: f64 = self.devices.iter().map(|device| device.busy_s).sum();
        busy / (self.makespan_s * self.devices.len().max(1) as f64)
    }

    /// 95th percentile (nearest rank) of [`JobRecord::slowdown`] over jobs that were Normal from the start.
    pub fn normal_slowdown_p95(&self) -> Option<f64> {
        let mut slow: Vec<f64> =
            self.jobs.iter().filter(|j| !j.was_eager() && j.slowdown > 0.0).map(|j| j.slowdown).collect();
        slow.sort_by(f64::total_cmp);
        let rank = (slow.len() as f64 * 0.95).ceil() as usize;
        slow.get(rank.saturating_sub(1)).copied()
    }
}

/// Appends one record as one line, so that a later failure does not lose it.
pub fn append(path: &Path, record: &Record) -> Result<()> {
    let mut line = serde_json::to_string(record).context("record as JSON")?;
    line.push('\n');
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    file.write_all(line.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

/// Reads the records that [`append`] wrote. An error names the bad line.
pub fn read(path: &Path) -> Result<Vec<Record>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    text.lines()
        .enumerate()
        .map(|(number, line)| {
            serde_json::from_str(line)
                .with_context(|| format!("{}:{}: not a record", path.display(), number + 1))
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a record with jobs of these (classes, slowdown, wait).
    pub(crate) fn record(policy: &str, makespan_s: f64, jobs: &[(&[&str], f64, f64)]) -> Record {
        let job = |(index, (classes, slowdown, wait_s)): (usize, &(&[&str], f64, f64))| JobRecord {
            index,
            configuration: format!("job-{index}"),
            size_class: "S".into(),
            outcome: Outcome::Ok,
            verified: true,
            submitted_s: 0.0,
            asked_s: Some(0.5),
            bound_s: Some(0.5 + wait_s),
            promoted_s: None,
            ended_s: makespan_s,
            device: Some(0),
            classes: classes.iter().map(|class| class.to_string()).collect(),
            requirement_bytes: 1 << 30,
            grant_bytes: 1 << 29,
            wait_s: *wait_s,
            reason: "fits".into(),
            slowdown: *slowdown,
            prefetched_bytes: 20,
            refetched_bytes: 1,
            faulted_bytes: 9,
            evicted_bytes: 5,
            kernels_s: Vec::new(),
            held_s: Vec::new(),
        };
        Record {
            schema: SCHEMA_VERSION,
            backend: Backend::Sim,
            experiment: "test".into(),
            workload: WorkloadStamp { name: "test".into(), seed: 7, jobs: Vec::new() },
            policy: policy.into(),
            cards: "1xV100-16GB".into(),
            memory_scale: 1,
            clock: Clock::Virtual,
            host_work: HostWork::Stated,
            mps: true,
            repetition: 0,
            stamp: crate::stamp::stamp(),
            makespan_s,
            jobs: jobs.iter().enumerate().map(job).collect(),
            devices: vec![DeviceRecord {
                device: 0,
                busy_s: 1.0,
                paged_bytes: 15,
                capacity_bytes: 0,
                granted: Vec::new(),
            }],
        }
    }

    #[test]
    fn what_was_appended_is_read_back() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("records.jsonl");
        let records = [record("case", 10.0, &[(&["normal"], 1.0, 0.0)]), record("eager-opt", 8.0, &[])];
        for one in &records {
            append(&path, one).expect("append");
        }
        assert_eq!(read(&path).expect("read"), records);
    }

    #[test]
    fn a_record_that_does_not_say_whose_host_work_it_was_is_read() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("records.jsonl");
        let new = Record { host_work: HostWork::Measured, ..record("case", 1.0, &[]) };
        append(&path, &new).expect("append");
        let text = std::fs::read_to_string(&path).expect("text");
        std::fs::write(&path, text.replace("\"host_work\":\"measured\",", "")).expect("write");
        assert_eq!(read(&path).expect("read"), [Record { host_work: HostWork::Stated, ..new }]);
    }

    #[test]
    fn a_line_that_is_no_record_is_named() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("records.jsonl");
        append(&path, &record("case", 1.0, &[])).expect("append");
        std::fs::write(&path, std::fs::read_to_string(&path).expect("text") + "{}\n").expect("write");
        let error = format!("{:#}", read(&path).expect_err("second line is no record"));
        assert!(error.contains("records.jsonl:2"), "{error}");
    }

    #[test]
    fn slowdown_counts_tasks_that_were_never_eager() {
        let normal: (&[&str], f64, f64) = (&["normal"], 1.5, 0.0);
        let eager: (&[&str], f64, f64) = (&["eager", "promoted"], 40.0, 0.0);
        let unknown: (&[&str], f64, f64) = (&["normal"], 0.0, 0.0);
        assert_eq!(record("x", 1.0, &[normal, eager, unknown]).normal_slowdown_p95(), Some(1.5));
        assert_eq!(record("x", 1.0, &[eager]).normal_slowdown_p95(), None);
    }

    #[test]
    fn throughput_is_relative_to_the_named_baseline() {
        let job: (&[&str], f64, f64) = (&["normal"], 1.0, 2.0);
        let records =
            [record("case", 10.0, &[job]), record("case-fifo", 12.0, &[job]), record("eager", 8.0, &[job])];
        let summary = crate::summary::summarize(&records);
        let eager = &summary.sim["eager"];
        assert_eq!((eager.throughput_vs_case, eager.throughput_vs_case_fifo), (Some(1.25), Some(1.5)));
        // All jobs asked at 0.5 s.
        assert_eq!((eager.ask_makespan_s, eager.throughput_vs_case_ask), (Some(7.5), Some(9.5 / 7.5)));
        assert_eq!((eager.wait_mean_s, eager.wait_max_s, eager.bytes_paged), (2.0, 2.0, 15));
        let alone = crate::summary::summarize(&records[2..]);
        assert_eq!(alone.sim["eager"].throughput_vs_case, None);
    }
}
