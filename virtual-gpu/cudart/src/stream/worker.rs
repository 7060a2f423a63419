//! One thread per stream: takes its jobs in order, waits for what each depends on, runs it, marks its end.
//!
//! Trap: a job may wait only for jobs enqueued before it; with that rule the workers cannot wait for each other in a
//! circle.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::Completion;
use crate::clock::{self, AgentId};

/// Small grids run in the worker's own thread, with their local arrays on its stack.
const STACK_BYTES: usize = 16 << 20;

/// Work of a job: does everything, returns the modelled nanoseconds it took. Errors go to the runtime's own state.
pub type Work = Box<dyn FnOnce() -> u64 + Send>;

/// One entry of a stream.
pub struct Job {
    pub waits: Vec<Arc<Completion>>,
    /// The host's clock when the job was enqueued: it cannot start earlier.
    pub not_before_ns: u64,
    pub work: Work,
    pub completion: Arc<Completion>,
}

/// Starts a worker; it ends after its last job once the sender is dropped.
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
        // Whatever it asked of the server has moved the stream to where it ended.
        (job.work)();
        job.completion.end(clock::here_ns());
        clock::job_ended(agent);
    }
}

/// Without a virtual clock: the stream's own counts what its jobs took.
fn run_by_durations(jobs: &Receiver<Job>) {
    let mut clock_ns = 0;
    for job in jobs {
        let started_ns =
            job.waits.iter().map(|earlier| earlier.wait()).fold(clock_ns.max(job.not_before_ns), u64::max);
        clock_ns = started_ns + (job.work)();
        job.completion.end(clock_ns);
    }
}
