//! What a run of the simulator hands back.
//!
//! Trap: all times are modelled nanoseconds since the submission of the first job, never wall-clock time.

use crate::job::SizeLabel;
use eager_gpu_model::{DeviceTotals, Moved};
use eager_journal::Journal;
use eager_units::{Class, Nanos};
use serde::{Deserialize, Serialize};

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    Done,
    /// The scheduler refused it.
    Refused {
        why: String,
    },
    /// A plain allocation or a context found no memory.
    OutOfMemory {
        why: String,
    },
    /// By the simulation itself ([`crate::Kill`]).
    Killed,
}

/// One task of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskTimes {
    pub ask: Nanos,
    pub bind: Option<Nanos>,
    /// When it had given all its memory back.
    pub released: Option<Nanos>,
}

/// One job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    pub index: usize,
    pub name: String,
    pub class_label: SizeLabel,
    #[serde(flatten)]
    pub outcome: Outcome,
    pub submit: Nanos,
    /// Its first task's request, its binding, and its first device operation.
    pub ask: Option<Nanos>,
    pub bind: Option<Nanos>,
    pub start: Option<Nanos>,
    pub end: Nanos,
    /// Between requests and bindings, over all its tasks.
    pub wait: Nanos,
    /// Kernels standing at a closed gate.
    pub held: Nanos,
    /// Between bindings and ends of its tasks.
    pub bound: Nanos,
    /// Of `bound`: in host phases (waits for a core included) and while its context was made.
    pub host: Nanos,
    pub device: Option<u32>,
    /// Each class it had, and since when.
    pub classes: Vec<(Nanos, Class)>,
    pub requirement_bytes: u64,
    /// When bound, and the most later.
    pub grant_bytes: u64,
    pub grant_bytes_max: u64,
    /// From submission to the device to completion, summed over its kernels, and what they would have taken alone.
    pub kernels: Nanos,
    pub kernels_alone: Nanos,
    pub tasks: Vec<TaskTimes>,
    /// Managed memory moved by its operations; evictions they caused are counted here, not with the victim.
    pub moved: Moved,
    /// When its kernels were on the device, and when one stood at a closed gate; for a timeline only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel_spans: Vec<Span>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_spans: Vec<Span>,
}

impl JobResult {
    /// Device-side time: what its tasks took from binding to end, without their host phases and without what their
    /// kernels stood at a gate. Copies, prefetches, kernels, paging and waits for other tasks' operations are in it.
    pub fn device_side(&self) -> Nanos {
        self.bound.saturating_sub(self.host).saturating_sub(self.held)
    }
}

/// From one moment to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    pub from: Nanos,
    pub to: Nanos,
}

/// One device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceResult {
    pub name: String,
    /// What the ledger may give away.
    #[serde(default)]
    pub capacity_bytes: u64,
    pub totals: DeviceTotals,
    /// Bytes granted since each of these moments; for a timeline only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<(Nanos, u64)>,
}

/// One run.
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
    /// The most host memory in use at a time: jobs' own copies, and what stood behind managed memory.
    pub host_bytes_max: u64,
    pub jobs: Vec<JobResult>,
    pub devices: Vec<DeviceResult>,
    /// Every event and action with its reason, one line each, if asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<String>,
    #[serde(skip)]
    pub journal: Option<Journal>,
}

impl SimResult {
    /// What over-subscription moved, in both directions and on all devices: see [`Moved::paged_bytes`].
    pub fn bytes_paged(&self) -> u64 {
        self.devices.iter().map(|device| device.totals.moved.paged_bytes()).sum()
    }

    /// Did every job run to its end?
    pub fn all_done(&self) -> bool {
        self.jobs.iter().all(|job| job.outcome == Outcome::Done)
    }
}
