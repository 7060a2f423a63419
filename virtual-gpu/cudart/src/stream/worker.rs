//! One thread per stream: takes its jobs in order, waits for what each depends on, runs it, marks its end.
//!
//! Trap: a job may wait only for jobs enqueued before it; with that rule the workers cannot wait for each other in a
//! circle.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::Completion;

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
pub fn start(name: String) -> std::io::Result<Sender<Job>> {
    let (sender, receiver) = channel();
    std::thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(move || run(&receiver))?;
    Ok(sender)
}

fn run(jobs: &Receiver<Job>) {
    let mut clock_ns = 0;
    for job in jobs {
        let started_ns =
            job.waits.iter().map(|earlier| earlier.wait()).fold(clock_ns.max(job.not_before_ns), u64::max);
        clock_ns = started_ns + (job.work)();
        job.completion.end(clock_ns);
    }
}
