//! Descriptors of jobs: the work of a program on host and device, at full size, without the program.
//!
//! Trap: descriptors hold times and bytes of one job alone. The simulation adds every wait (for the scheduler, the
//! link, other kernels, page faults), so waits must not be in them.

use eager_gpu_model::Pattern;
use eager_units::AccessClass;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Jobs to submit, in order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    pub name: String,
    pub jobs: Vec<Job>,
}

/// Size class of a job in the source document: Large above 4 GiB of device memory, Small from 1 to 4 GiB
/// (specification S-223).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum SizeLabel {
    #[default]
    S,
    L,
}

/// One run of a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Program and size, such as `srad_v1-20000`; equal for equal jobs.
    pub name: String,
    pub class_label: SizeLabel,
    /// True if the compiler knows the program's use of memory: it can ask late and by name, and it reports dead
    /// buffers. Descriptors without this field are of such programs.
    #[serde(default = "is_informed", skip_serializing_if = "Clone::clone")]
    pub informed: bool,
    /// Nice value of its process; policies that share a device's time weigh its tasks by it.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub nice: i8,
    /// Operations in program order. At most one task is open at a time.
    pub ops: Vec<JobOp>,
}

fn is_usual(nice: &i8) -> bool {
    *nice == 0
}

/// One operation of a program. Times in seconds, sizes in bytes; buffers are named within the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
pub enum JobOp {
    /// Work on one host core.
    Host {
        seconds: f64,
    },
    /// The call that the pass inserts before the task's first device operation.
    TaskBegin {
        /// `M`: sum of the sizes of the task's device memory objects.
        requirement: u64,
        /// Blocks of the largest known launch; 0: unknown.
        #[serde(default)]
        blocks: u64,
        #[serde(default)]
        threads_per_block: u32,
        #[serde(default)]
        lazy: bool,
    },
    Alloc {
        buffer: String,
        bytes: u64,
    },
    /// `cudaMemcpy` from the host to the first `bytes` of the buffer.
    CopyToDevice {
        buffer: String,
        bytes: u64,
        #[serde(default)]
        pinned: bool,
    },
    /// `cudaMemcpy` of the first `bytes` of the buffer to the host.
    CopyToHost {
        buffer: String,
        bytes: u64,
        #[serde(default)]
        pinned: bool,
    },
    /// `cudaMemcpy` between the beginnings of two buffers.
    CopyOnDevice {
        from: String,
        to: String,
        bytes: u64,
    },
    /// `cudaMemset` of the first `bytes`.
    Fill {
        buffer: String,
        bytes: u64,
    },
    Kernel(KernelOp),
    /// The open task launches no further kernel.
    AllLaunched,
    Free {
        buffer: String,
    },
    TaskEnd,
    Repeat {
        times: u32,
        ops: Vec<JobOp>,
    },
}

/// Equal launches of one kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelOp {
    pub name: String,
    pub launches: u32,
    /// Seconds of host time after each launch, with a full synchronisation before it; 0: launched back to back.
    #[serde(default)]
    pub host_gap_s: f64,
    pub blocks: u64,
    pub threads_per_block: u32,
    #[serde(default)]
    pub shared_bytes: u32,
    /// Registers per thread; 0: unknown.
    #[serde(default)]
    pub registers_per_thread: u32,
    /// Bytes of one launch; operation counts below are also per launch.
    pub dram_bytes: u64,
    #[serde(default)]
    pub flops32: u64,
    #[serde(default)]
    pub flops64: u64,
    pub accesses: Vec<BufferAccess>,
    pub access_class: AccessClass,
    /// Device memory in bytes that one launch really touches; the gate compares it.
    pub footprint: u64,
}

/// Access of one launch to one buffer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BufferAccess {
    pub buffer: String,
    /// Touched parts as fractions of the buffer, ascending and disjoint; empty: all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// Order of the access. `Diagonal` means one window that grows over the first half of the launches and shrinks
    /// over the second (needle): describe needle's two kernels as one [`KernelOp`].
    pub pattern: Pattern,
    /// Share of the bytes used in each touched block of 2 MiB, 0–1.
    #[serde(default = "whole")]
    pub density: f64,
    #[serde(default)]
    pub write: bool,
}

/// A part of a buffer, `0 <= from < to <= 1`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    pub from: f64,
    pub to: f64,
}

fn whole() -> f64 {
    1.0
}

/// Reasons why a descriptor is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    #[error("job {job}: {what} uses buffer `{buffer}`, which is not allocated there")]
    NoBuffer { job: String, what: String, buffer: String },
    #[error("job {job}: {what} of {bytes} bytes in buffer `{buffer}` of {size}")]
    Outside { job: String, what: String, buffer: String, bytes: u64, size: u64 },
    #[error("job {job}: buffer `{buffer}` is allocated twice")]
    Twice { job: String, buffer: String },
    #[error("job {job}: {what}")]
    Order { job: String, what: String },
    #[error("job {job}: {what} must be a finite number in {range}")]
    Number { job: String, what: String, range: String },
}

/// Default for serde.
fn is_informed() -> bool {
    true
}

impl Job {
    /// Requirement in bytes of the job's largest task.
    pub fn requirement(&self) -> u64 {
        fn most(ops: &[JobOp]) -> u64 {
            ops.iter()
                .map(|op| match op {
                    JobOp::TaskBegin { requirement, .. } => *requirement,
                    JobOp::Repeat { ops, .. } => most(ops),
                    _ => 0,
                })
                .max()
                .unwrap_or(0)
        }
        most(&self.ops)
    }

    /// Host memory in bytes that the program fills or reads: for each buffer, its largest copy from or to the host.
    pub fn host_bytes(&self) -> u64 {
        fn copies<'a>(ops: &'a [JobOp], largest: &mut BTreeMap<&'a str, u64>) {
            for op in ops {
                match op {
                    JobOp::CopyToDevice { buffer, bytes, .. } | JobOp::CopyToHost { buffer, bytes, .. } => {
                        let most = largest.entry(buffer).or_default();
                        *most = (*most).max(*bytes);
                    }
                    JobOp::Repeat { ops, .. } => copies(ops, largest),
                    _ => {}
                }
            }
        }
        let mut largest = BTreeMap::new();
        copies(&self.ops, &mut largest);
        largest.values().sum()
    }

    /// Checks that buffers are allocated when used, tasks nest properly, and numbers are in range.
    ///
    /// # Errors
    /// The first mistake, with the job's name and its place.
    pub fn validate(&self) -> Result<(), JobError> {
        let mut check = Check { job: &self.name, sizes: BTreeMap::new(), in_task: false };
        check.ops(&self.ops)?;
        if check.in_task {
            return Err(check.order("its last task has no task-end"));
        }
        Ok(())
    }
}

struct Check<'a> {
    job: &'a str,
    sizes: BTreeMap<&'a str, u64>,
    in_task: bool,
}

impl<'a> Check<'a> {
    fn order(&self, what: &str) -> JobError {
        JobError::Order { job: self.job.to_owned(), what: what.to_owned() }
    }

    fn number(&self, what: &str, value: f64, range: std::ops::RangeInclusive<f64>) -> Result<(), JobError> {
        if range.contains(&value) {
            return Ok(());
        }
        let range = format!("{}..={}", range.start(), range.end());
        Err(JobError::Number { job: self.job.to_owned(), what: what.to_owned(), range })
    }

    fn size(&self, what: &str, buffer: &str) -> Result<u64, JobError> {
        self.sizes.get(buffer).copied().ok_or_else(|| JobError::NoBuffer {
            job: self.job.to_owned(),
            what: what.to_owned(),
            buffer: buffer.to_owned(),
        })
    }

    fn span(&self, what: &str, buffer: &str, bytes: u64) -> Result<(), JobError> {
        let size = self.size(what, buffer)?;
        if bytes <= size {
            return Ok(());
        }
        Err(JobError::Outside {
            job: self.job.to_owned(),
            what: what.to_owned(),
            buffer: buffer.to_owned(),
            bytes,
            size,
        })
    }

    fn ops(&mut self, ops: &'a [JobOp]) -> Result<(), JobError> {
        for op in ops {
            self.op(op)?;
        }
        Ok(())
    }

    fn op(&mut self, op: &'a JobOp) -> Result<(), JobError> {
        match op {
            JobOp::Host { seconds } => self.number("host seconds", *seconds, 0.0..=1e6)?,
            JobOp::TaskBegin { .. } if self.in_task => {
                return Err(self.order("a task begins inside another"));
            }
            JobOp::TaskBegin { .. } => self.in_task = true,
            JobOp::TaskEnd => {
                if !self.in_task || !self.sizes.is_empty() {
                    return Err(
                        self.order("task-end without task-begin, or before all its buffers are freed")
                    );
                }
                self.in_task = false;
            }
            JobOp::Repeat { ops, times } => {
                // Two rounds show every error that a third would.
                for _ in 0..(*times).min(2) {
                    self.ops(ops)?;
                }
            }
            _ if !self.in_task && !matches!(op, JobOp::AllLaunched) => {
                return Err(self.order("a device operation outside a task"));
            }
            JobOp::AllLaunched => {}
            JobOp::Alloc { buffer, bytes } => {
                if self.sizes.insert(buffer, *bytes).is_some() {
                    return Err(JobError::Twice { job: self.job.to_owned(), buffer: buffer.clone() });
                }
            }
            JobOp::Free { buffer } => {
                self.size("free", buffer)?;
                self.sizes.remove(buffer.as_str());
            }
            JobOp::CopyToDevice { buffer, bytes, .. } => self.span("copy-to-device", buffer, *bytes)?,
            JobOp::CopyToHost { buffer, bytes, .. } => self.span("copy-to-host", buffer, *bytes)?,
            JobOp::Fill { buffer, bytes } => self.span("fill", buffer, *bytes)?,
            JobOp::CopyOnDevice { from, to, bytes } => {
                self.span("copy-on-device", from, *bytes)?;
                self.span("copy-on-device", to, *bytes)?;
            }
            JobOp::Kernel(kernel) => self.kernel(kernel)?,
        }
        Ok(())
    }

    fn kernel(&self, kernel: &KernelOp) -> Result<(), JobError> {
        self.number("host_gap_s", kernel.host_gap_s, 0.0..=1e6)?;
        if kernel.launches == 0 || kernel.blocks == 0 || kernel.threads_per_block == 0 {
            return Err(self.order(&format!("kernel {} has no launches, blocks or threads", kernel.name)));
        }
        for access in &kernel.accesses {
            self.size(&kernel.name, &access.buffer)?;
            self.number("density", access.density, 0.0..=1.0)?;
            let mut end = 0.0;
            for part in &access.parts {
                self.number("part", part.from, end..=1.0)?;
                self.number("part", part.to, part.from..=1.0)?;
                end = part.to;
            }
        }
        Ok(())
    }
}
