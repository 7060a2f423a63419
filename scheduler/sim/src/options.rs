//! What a run of the simulator is given besides the jobs.
//!
//! Trap: the ledger's context memory follows the model's unless it is set, so that plain allocations never fail for
//! want of what contexts took.

use crate::cores::CoreOrder;
use eager_core::PolicyName;
use eager_gpu_model::Card;
use eager_units::Nanos;

/// When jobs come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submission {
    /// All at the start.
    AllAtOnce,
    /// So many in progress at once, pulled in order.
    Workers(u32),
    /// Each at its own time; jobs without one come at the start.
    At(Vec<Nanos>),
}

/// A job whose process is killed at some time, if it runs then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kill {
    pub at: Nanos,
    /// Index of the job.
    pub job: usize,
}

/// How good estimates are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimates {
    /// Each number is the true one times or divided by a factor of up to this, log-uniform; 1: exact.
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
    /// Cores for host phases; a job's host phase takes one.
    pub host_cores: u32,
    pub core_order: CoreOrder,
    pub submission: Submission,
    /// Memory that the ledger may give away on each device, in bytes; the last one holds for all devices after it. Empty:
    /// all of it.
    pub device_memory_bytes: Vec<u64>,
    /// Host memory, in bytes, for the jobs' own copies of what they send and fetch, for staged copies, and for what stands
    /// behind managed memory. Under policies that make all memory managed, all of a job's is set aside: it is filled on
    /// the host, and what is evicted goes there. A job that does not fit is submitted when it does, in order. `None`:
    /// without end.
    pub host_memory_bytes: Option<u64>,
    /// How good the estimates are that tasks come with, under policies that use them; `None`: they come without.
    pub estimates: Option<Estimates>,
    /// Programs that are killed.
    pub kills: Vec<Kill>,
    /// Keep the line-by-line account of every event and action.
    pub trace: bool,
    /// Keep what a timeline draws: when kernels ran or stood at a gate, and what each device had granted.
    pub timeline: bool,
    /// Keep the journal, as the daemon would write it.
    pub journal: bool,
    /// Check the scheduler's books against the simulator's own after every step.
    pub audit: bool,
}

impl SimOptions {
    /// Under MPS, on a host of 40 cores as two of the source document's processors have (specification
    /// S-633, S-638), all jobs at once.
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

    /// What the ledger may give away on a device; 0 for one that there is not.
    pub fn capacity_bytes(&self, device: usize) -> u64 {
        let limits = &self.device_memory_bytes;
        let limit = limits.get(device).or(limits.last()).copied().unwrap_or(u64::MAX);
        self.cards.get(device).map_or(0, |card| card.memory_bytes.min(limit))
    }
}
