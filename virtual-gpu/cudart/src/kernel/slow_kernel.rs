//! Reports once which kernel has been running for long: it may wait for ever, and a hanging program explains nothing.
//!
//! A thread polls, so that a launch costs two short locks and reads no clock. Trap: the thread belongs to the user's
//! process, so it must take no signal of the program and must end with the runtime.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::config::{KERNEL_TIMEOUT_VARIABLE, SLOW_KERNEL_VARIABLE};
use crate::log::log_line;
use crate::names::readable;

/// Number of polls in the time after which a kernel is reported.
const POLLS: u32 = 4;
const POLL_EVERY_MAX: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct State {
    /// Kernel of the current launch, if any.
    kernel: Option<&'static str>,
    /// Number of launches so far.
    launch: u64,
    closing: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    closed: Condvar,
}

/// Place at which threads of the current launch wait for each other, if known.
pub type WaitingAt = Arc<Mutex<Option<String>>>;

#[derive(Debug, Default)]
pub struct SlowKernelWatch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl SlowKernelWatch {
    /// Reports the first kernel that runs longer than `after`, if given.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(after: Option<Duration>, waiting_at: WaitingAt) -> io::Result<SlowKernelWatch> {
        let shared = Arc::new(Shared::default());
        let thread = after.map(|after| {
            let shared = shared.clone();
            let named = std::thread::Builder::new().name("vgpu-watch".to_owned());
            named.spawn(move || poll_until_reported(&shared, after, &waiting_at))
        });
        Ok(SlowKernelWatch { shared, thread: thread.transpose()? })
    }

    /// Records the begin of a launch of `kernel`.
    pub fn begin(&self, kernel: &'static str) {
        let mut state = self.shared.state.lock();
        state.kernel = Some(kernel);
        state.launch += 1;
    }

    /// Records the end of the launch.
    pub fn end(&self) {
        self.shared.state.lock().kernel = None;
    }
}

impl Drop for SlowKernelWatch {
    fn drop(&mut self) {
        self.shared.state.lock().closing = true;
        self.shared.closed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread is of no consequence here.
            let _ = thread.join();
        }
    }
}

fn poll_until_reported(shared: &Shared, after: Duration, waiting_at: &WaitingAt) {
    let every = (after / POLLS).min(POLL_EVERY_MAX);
    let mut seen = (0, Instant::now());
    let mut state = shared.state.lock();
    while !state.closing {
        shared.closed.wait_for(&mut state, every);
        if state.launch != seen.0 || state.kernel.is_none() {
            seen = (state.launch, Instant::now());
        } else if let Some(kernel) = state.kernel.filter(|_| seen.1.elapsed() >= after) {
            drop(state);
            log_line(format_args!("{}", describe(&readable(kernel), after, waiting_at.lock().as_deref())));
            return;
        }
    }
}

fn describe(kernel: &str, after: Duration, waiting_at: Option<&str>) -> String {
    let seconds = after.as_secs_f64();
    let why = match waiting_at {
        Some(place) => format!(
            "threads wait at {place} for a value that no other thread has written so far; check that some thread writes \
             it, and that its block can run at the same time"
        ),
        None => "it may just take long, its blocks wait for more blocks than a GPU runs at once, or a thread waits for \
                 another in a loop that is not recognised as a wait: one that reads memory without `volatile`, an \
                 atomic or a fence, or goes where the values read lead it"
            .to_owned(),
    };
    format!(
        "kernel {kernel} has run for {seconds} s: {why} ({KERNEL_TIMEOUT_VARIABLE}=60 ends such a kernel with an error, \
         {SLOW_KERNEL_VARIABLE}=0 silences this line)"
    )
}
