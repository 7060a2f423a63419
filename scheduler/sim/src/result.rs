//! What a run of the simulator hands back.
//!
//! Trap: all times are modelled nanoseconds since the submission of the first job, never wall-clock time.

use crate::job::SizeLabel;
use eager_core::action::Class;
use eager_core::journal::{JournalHeader, JournalLine};
use eager_core::units::Nanos;
use eager_gpu_model::DeviceTotals;
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
    /// Migrated because of its operations, evictions included.
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// One device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceResult {
    pub name: String,
    pub totals: DeviceTotals,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SimResult {
    pub policy: String,
    /// From the first submission to the last end.
    pub makespan: Nanos,
    /// From "all have asked" to "all have ended", the source document's clock (eager launch specification §8).
    pub ask_makespan: Nanos,
    pub eager_launches: u64,
    pub promotions: u64,
    pub oom_errors: u64,
    pub jobs: Vec<JobResult>,
    pub devices: Vec<DeviceResult>,
    /// Every event and action with its reason, one line each, if asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<String>,
    #[serde(skip)]
    pub journal: Option<(JournalHeader, Vec<JournalLine>)>,
}

impl SimResult {
    /// Bytes that paging moved in both directions on all devices.
    pub fn bytes_paged(&self) -> u64 {
        self.devices.iter().map(|device| device.totals.bytes_in + device.totals.bytes_out).sum()
    }

    /// Did every job run to its end?
    pub fn all_done(&self) -> bool {
        self.jobs.iter().all(|job| job.outcome == Outcome::Done)
    }
}
