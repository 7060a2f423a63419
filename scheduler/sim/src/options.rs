//! Inputs of a simulator run other than the jobs.
//!
//! Trap: unless it is set, the ledger's context memory follows the model's. Otherwise contexts could take memory that
//! the ledger has granted, and plain allocations would fail.

use crate::cores::CoreOrder;
use eager_core::PolicyName;
use eager_gpu_model::Card;
use eager_units::Nanos;

/// When jobs are submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submission {
    /// All at the start.
    AllAtOnce,
    /// This many in progress at once, pulled in order.
    Workers(u32),
    /// Each at its own time; jobs without a time at the start.
    At(Vec<Nanos>),
}

/// Kills a job's process at some time, if it runs then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kill {
    pub at: Nanos,
    /// Index of the job.
    pub job: usize,
}

/// Quality of estimates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimates {
    /// Each estimate is the true value, multiplied or divided by a log-uniform factor of at most this; 1: exact.
    pub spread: f64,
    pub seed: u64,
}

impl Estimates {
    pub const EXACT: Estimates = Estimates { spread: 1.0, seed: 0 };
}

/// Settings of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct SimOptions {
    pub cards: Vec<Card>,
    pub policy: PolicyName,
    pub scheduler: eager_core::Options,
    pub model: eager_gpu_model::Options,
    /// Cores for host phases; a job's host phase takes one core.
    pub host_cores: u32,
    pub core_order: CoreOrder,
    pub submission: Submission,
    /// Memory that the ledger may grant on each device, in bytes; the last number also holds for all further devices.
    /// Empty: all memory.
    pub device_memory_bytes: Vec<u64>,
    /// Host memory, in bytes, for the jobs' own copies of data sent and fetched, for staged copies, and for memory
    /// that backs managed memory. Under policies that make all memory managed, all of a job's memory is set aside: it
    /// is filled on the host, and evicted pages go there. A job that does not fit is submitted once it does, in
    /// order. `None`: unlimited.
    pub host_memory_bytes: Option<u64>,
    /// Quality of the tasks' estimates, under policies that use them; `None`: tasks have no estimates.
    pub estimates: Option<Estimates>,
    /// Jobs that are killed.
    pub kills: Vec<Kill>,
    /// Keep the line-by-line trace of every event and action.
    pub trace: bool,
    /// Keep the spans for a timeline: when kernels ran or stood at a gate, and the bytes granted on each device.
    pub timeline: bool,
    /// Keep the journal, as the daemon would write it.
    pub journal: bool,
    /// Check the scheduler's books against the simulator's own after every step.
    pub audit: bool,
}

impl SimOptions {
    /// Default settings: under MPS, on a host of 40 cores as two of the source document's processors have
    /// (specification S-633, S-638), all jobs at once.
    pub fn new(cards: Vec<Card>, policy: PolicyName) -> SimOptions {
        let model = eager_gpu_model::Options { mps: true, ..eager_gpu_model::Options::default() };
        let context_bytes = eager_units::Bytes(model.context_memory());
        SimOptions {
            cards,
            policy,
            scheduler: eager_core::Options { context_bytes, ..eager_core::Options::default() },
            model,
            host_cores: 40,
            core_order: CoreOrder::default(),
            submission: Submission::AllAtOnce,
            device_memory_bytes: Vec::new(),
            host_memory_bytes: None,
            estimates: Some(Estimates::EXACT),
            kills: Vec::new(),
            trace: false,
            timeline: false,
            journal: false,
            audit: true,
        }
    }

    /// Bytes that the ledger may grant on a device; 0 if there is no such device.
    pub fn capacity_bytes(&self, device: usize) -> u64 {
        let limits = &self.device_memory_bytes;
        let limit = limits.get(device).or(limits.last()).copied().unwrap_or(u64::MAX);
        self.cards.get(device).map_or(0, |card| card.memory_bytes.min(limit))
    }
}
