//! What processes and the daemon tell the server for a virtual clock.
//!
//! A process has *agents*: its threads that call CUDA, and its streams. Each is at a time of its own, and either goes on or
//! waits for the server. Trap: a stamp speaks for the whole process at the moment it is sent, so stamps must go out in the
//! order in which they were made.

use eager_gpu_model::Nanos;
use serde::{Deserialize, Serialize};

use crate::RequestId;

/// Goes with every request of a process that takes part in the clock.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stamp {
    /// Time of the agent that asks.
    pub at: Nanos,
    pub agent: u32,
    /// The earliest of the process's agents that go on, now that this one waits; `None`: all wait.
    pub bound: Option<Bound>,
    /// Replies that have come since the last stamp: whoever waited for them is counted in `bound` again.
    pub taken: Vec<RequestId>,
}

/// An agent that goes on, and can do nothing before this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    pub at: Nanos,
    /// Its thread, as the system numbers them; `None` for a stream, whose kernels any thread may compute.
    pub thread: Option<u32>,
}

/// A process takes part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Joined {
    /// The time at which the process began.
    pub began: Nanos,
    /// Modelled seconds per second of processor time of the program's own threads.
    pub host_factor: f64,
}

/// Asks the daemon to take in all that it was told, at this time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settle {
    pub now: Nanos,
    /// Who sleeps until the daemon answers.
    pub sleepers: Vec<Sleeper>,
    /// Processes that have left or died.
    pub gone: Vec<u32>,
}

/// An agent of a process that sleeps until the answer in a slot is no longer the one with this sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sleeper {
    pub pid: u32,
    pub slot: u32,
    pub seen: u32,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Settled {
    /// Those of the sleepers, by their place in the list, whose answer has changed.
    pub awake: Vec<u32>,
    /// When the daemon must act next even if nothing happens.
    pub deadline: Option<Nanos>,
}
