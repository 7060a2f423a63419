//! Messages about a virtual clock that processes and the daemon exchange with the server.
//!
//! A process has *agents*: its threads that call CUDA, and its streams. Each is at a time of its own, and either runs
//! or waits for the server. Trap: a stamp describes the whole process at the moment of sending, so stamps must be sent
//! in the order in which they were made.

use eager_gpu_model::Nanos;
use serde::{Deserialize, Serialize};

use crate::RequestId;

/// State of a process on the clock; accompanies every request of a process that takes part.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stamp {
    /// Time of the agent that sends the request.
    pub at: Nanos,
    pub agent: u32,
    /// Earliest of the process's agents that still run, now that the sender waits; `None`: all wait.
    pub bound: Option<Earliest>,
    /// Replies received since the last stamp: the agents that waited for them are counted in `bound` again.
    pub taken: Vec<RequestId>,
}

/// A running agent, which can do nothing before this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earliest {
    pub at: Nanos,
    /// Its thread, as the system numbers them; `None` for a stream, whose kernels any thread may compute.
    pub thread: Option<u32>,
}

/// Answer to a process that joins the clock.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Joined {
    /// The time at which the process began.
    pub began: Nanos,
    /// Modelled seconds per second of processor time of the program's own threads.
    pub host_factor: f64,
}

/// Asks the daemon to process all events reported to it so far, at this time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settle {
    pub now: Nanos,
    /// Agents that sleep until the daemon answers.
    pub sleepers: Vec<Sleeper>,
    /// Process ids of processes that have left or died.
    pub gone: Vec<u32>,
}

/// An agent of a process that sleeps until the sequence number of the answer in `slot` differs from `seen`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sleeper {
    pub pid: u32,
    pub slot: u32,
    pub seen: u32,
}

/// The daemon's answer to a [`Settle`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Settled {
    /// Indexes into [`Settle::sleepers`] of the agents whose answer has changed.
    pub awake: Vec<u32>,
    /// Time at which the daemon must act next even if nothing happens.
    pub deadline: Option<Nanos>,
}
