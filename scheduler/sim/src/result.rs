//! Results of a simulator run.
//!
//! Trap: all times are modelled nanoseconds since the submission of the first job, never wall-clock time.

use crate::job::SizeLabel;
use eager_gpu_model::{DeviceTotals, Moved};
use eager_journal::Journal;
use eager_units::{Class, Nanos};
use serde::{Deserialize, Serialize};

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    #[default]
    Done,
    /// The scheduler refused a request.
    Refused { why: String },
    /// A plain allocation or a context found no memory.
    OutOfMemory { why: String },
    /// Killed by the simulation ([`crate::Kill`]).
    Killed,
}

/// Times of one task of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskTimes {
    pub ask: Nanos,
    pub bind: Option<Nanos>,
    /// When the task had given all its memory back.
    pub released: Option<Nanos>,
}

/// Result of one job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct JobResult {
    pub index: usize,
    pub name: String,
    pub class_label: SizeLabel,
    #[serde(flatten)]
    pub outcome: Outcome,
    pub submit: Nanos,
    /// Times of the first task's request, of its binding, and of its first device operation.
    pub ask: Option<Nanos>,
    pub bind: Option<Nanos>,
    pub start: Option<Nanos>,
    pub end: Nanos,
    /// Time between requests and bindings, summed over the job's tasks.
    pub wait: Nanos,
    /// Time in which kernels stood at a closed gate.
    pub held: Nanos,
    /// Time between bindings and ends of the job's tasks.
    pub bound: Nanos,
    /// Part of `bound` in host phases (waits for a core included) and in the creation of contexts.
    pub host: Nanos,
    pub device: Option<u32>,
    /// Each class that the job's tasks had, and since when.
    pub classes: Vec<(Nanos, Class)>,
    pub requirement_bytes: u64,
    /// Bytes granted at the binding, and (`grant_bytes_max`) the most bytes later.
    pub grant_bytes: u64,
    pub grant_bytes_max: u64,
    /// Time from submission to the device to completion, summed over the kernels; and the time that they take alone.
    pub kernels: Nanos,
    pub kernels_alone: Nanos,
    pub tasks: Vec<TaskTimes>,
    /// Managed memory that the job's operations moved. Evictions that they caused are counted here, not for the
    /// victim.
    pub moved: Moved,
    /// Spans in which kernels were on the device, and in which a kernel stood at a closed gate; for a timeline only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel_spans: Vec<Span>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_spans: Vec<Span>,
}

impl JobResult {
    /// Device-side time: from binding to end of the job's tasks, without their host phases. Copies, prefetches, kernels,
    /// paging, waits for other tasks' operations and the time in which kernels stood at a gate are included.
    pub fn device_side(&self) -> Nanos {
        self.bound.saturating_sub(self.host)
    }
}

/// Time from one moment to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    pub from: Nanos,
    pub to: Nanos,
}

/// Result of one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceResult {
    pub name: String,
    /// Bytes that the ledger may grant.
    #[serde(default)]
    pub capacity_bytes: u64,
    pub totals: DeviceTotals,
    /// Moments, and the bytes granted from each moment on; for a timeline only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<(Nanos, u64)>,
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SimResult {
    pub policy: String,
    /// From the first submission to the last end.
    pub makespan: Nanos,
    /// From "all have asked" to "all have ended", the source document's clock (specification S-803).
    pub ask_makespan: Nanos,
    pub eager_launches: u64,
    pub promotions: u64,
    pub oom_errors: u64,
    /// Most host memory in use at any time, in bytes: the jobs' own copies, staged copies, and memory that backs
    /// managed memory.
    pub host_bytes_max: u64,
    pub jobs: Vec<JobResult>,
    pub devices: Vec<DeviceResult>,
    /// Every event and action with its reason, one line each, if requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<String>,
    #[serde(skip)]
    pub journal: Option<Journal>,
}

impl SimResult {
    /// Bytes that over-subscription moved, in both directions and on all devices: see [`Moved::paged_bytes`].
    pub fn bytes_paged(&self) -> u64 {
        self.devices.iter().map(|device| device.totals.moved.paged_bytes()).sum()
    }

    /// True if every job ran to its end.
    pub fn all_done(&self) -> bool {
        self.jobs.iter().all(|job| job.outcome == Outcome::Done)
    }
}
