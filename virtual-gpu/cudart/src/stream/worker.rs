//! One thread per stream: takes jobs in order, waits for each job's dependencies, runs it, marks its end.
//!
//! Trap: a job may wait only for jobs enqueued before it; otherwise workers could deadlock.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::Completion;
use crate::clock::{self, AgentId};

/// Small grids run in the worker's own thread, with their local arrays on its stack.
const STACK_BYTES: usize = 16 << 20;

/// A job's work: runs completely, returns the modelled duration in nanoseconds. Errors go to the runtime's state.
pub type Work = Box<dyn FnOnce() -> u64 + Send>;

/// A job of a stream.
pub struct Job {
    pub waits: Vec<Arc<Completion>>,
    /// The host's clock when the job was enqueued: it cannot start earlier.
    pub not_before_ns: u64,
    pub work: Work,
    pub completion: Arc<Completion>,
}

/// Starts a worker, which ends after its last job once the sender is dropped.
///
/// # Errors
/// The system has no thread left.
pub fn start(name: String, agent: Option<AgentId>) -> std::io::Result<Sender<Job>> {
    let (sender, receiver) = channel();
    std::thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(move || run(&receiver, agent))?;
    Ok(sender)
}

fn run(jobs: &Receiver<Job>, agent: Option<AgentId>) {
    let Some(agent) = agent else { return run_by_durations(jobs) };
    clock::stream_begins(agent);
    for job in jobs {
        clock::set_here_ns(clock::here_ns().max(job.not_before_ns));
        for earlier in &job.waits {
            earlier.wait();
        }
        // The work's requests to the server have advanced the stream to the time of its end.
        (job.work)();
        job.completion.end(clock::here_ns());
        clock::job_ended(agent);
    }
}

/// Without a virtual clock: the stream's clock advances by the durations of its jobs.
fn run_by_durations(jobs: &Receiver<Job>) {
    let mut clock_ns = 0;
    for job in jobs {
        let started_ns =
            job.waits.iter().map(|earlier| earlier.wait()).fold(clock_ns.max(job.not_before_ns), u64::max);
        clock_ns = started_ns + (job.work)();
        job.completion.end(clock_ns);
    }
}
