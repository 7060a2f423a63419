//! A thread's own time and state on the virtual clock.
//!
//! Trap: `exit` handlers read these variables after destructors of thread-local variables have run, so they must have
//! no destructors; only the guard beside them, used for threads other than the main one, has one.

use std::cell::Cell;
use std::time::Instant;

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};

/// A thread or a stream on the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentId(pub u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    None,
    Host,
    Stream,
}

/// The system is asked whether host work slept or waited for a processor only if it took this much longer than its
/// processor time (specification S-635).
const SLEPT_NS_MIN: u64 = 10_000_000;

thread_local! {
    static AGENT: Cell<Option<AgentId>> = const { Cell::new(None) };
    static KIND: Cell<Kind> = const { Cell::new(Kind::None) };
    static HERE_NS: Cell<u64> = const { Cell::new(0) };
    /// Nesting depth of the program's calls in this thread.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static FAILED_QUERIES: Cell<u32> = const { Cell::new(0) };
    /// Configured host work that precedes the program's next call.
    static CONFIGURED_NS: Cell<u64> = const { Cell::new(0) };
    static IN_MARK: Cell<bool> = const { Cell::new(false) };
    /// True if the current call has copied to the host.
    static HAS_DOWNLOADED: Cell<bool> = const { Cell::new(false) };
    /// Begin of the current host work, with the thread's processor time and wait for a processor at that time.
    static BEGAN: Cell<Option<(Instant, u64, u64)>> = const { Cell::new(None) };
    static ENDS: Ends = const { Ends(Cell::new(None)) };
}

/// Removes a thread's agent when the thread ends.
struct Ends(Cell<Option<AgentId>>);

impl Drop for Ends {
    fn drop(&mut self) {
        if let Some(id) = self.0.get() {
            super::thread_ends(id);
        }
    }
}

/// Time of the calling agent, in nanoseconds of the clock; 0 without an agent.
pub fn here_ns() -> u64 {
    HERE_NS.get()
}

pub fn set_here_ns(ns: u64) {
    HERE_NS.set(ns);
}

pub fn current() -> Option<AgentId> {
    AGENT.get()
}

pub fn kind() -> Kind {
    KIND.get()
}

/// Makes the calling thread an agent of the program.
pub fn become_host(id: AgentId) {
    AGENT.set(Some(id));
    KIND.set(Kind::Host);
    host_work_begins();
    if thread_id() != std::process::id() {
        // In a thread that is already ending, the agent stays until the process ends.
        let _ = ENDS.try_with(|ends| ends.0.set(Some(id)));
    }
}

/// Makes the calling thread the agent of a stream, whose jobs it runs.
pub fn stream_begins(id: AgentId) {
    AGENT.set(Some(id));
    KIND.set(Kind::Stream);
}

/// Enters a call of the program. True if it is the outermost.
pub fn call_begins() -> bool {
    let depth = DEPTH.get();
    DEPTH.set(depth + 1);
    if depth == 0 {
        HAS_DOWNLOADED.set(false);
    }
    depth == 0
}

/// Leaves a call of the program. True if it was the outermost.
pub fn call_ends() -> bool {
    DEPTH.set(DEPTH.get() - 1);
    DEPTH.get() == 0
}

/// Adds configured host work, which precedes the program's next call.
pub fn add_configured_work(ns: u64) {
    CONFIGURED_NS.set(CONFIGURED_NS.get() + ns);
}

/// Takes the configured host work that precedes the current call. 0 in a mark: the compiler places marks directly after
/// the previous call, so the host work comes after the mark.
pub fn configured_ns() -> u64 {
    if IN_MARK.get() { 0 } else { CONFIGURED_NS.take() }
}

pub fn set_in_mark(is_in: bool) {
    IN_MARK.set(is_in);
}

/// Records a copy to the host. False if the same call of the program has made one before: the shim splits copies.
pub fn is_first_download() -> bool {
    !HAS_DOWNLOADED.replace(true)
}

pub fn reset_failed_queries() {
    FAILED_QUERIES.set(0);
}

/// Counts an unsuccessful query; returns the number of those directly before it.
pub fn count_failed_query() -> u32 {
    let before = FAILED_QUERIES.get();
    FAILED_QUERIES.set(before + 1);
    before
}

/// Starts the measurement of host work in this thread.
pub fn host_work_begins() {
    if KIND.get() == Kind::Host {
        BEGAN.set(Some((Instant::now(), processor_ns(), run_queue_ns().unwrap_or(0))));
    }
}

/// Modelled time of the host work since its start. `are_configured`: host times are configured, so none is measured.
pub fn host_ns(factor: f64, are_configured: bool) -> u64 {
    let Some((began, before_ns, waited_before_ns)) = BEGAN.get().filter(|_| !are_configured) else {
        return 0;
    };
    let used_ns = processor_ns().saturating_sub(before_ns);
    let passed_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let idle_ns = passed_ns.saturating_sub(used_ns);
    let mut slept_ns = 0;
    if idle_ns >= SLEPT_NS_MIN {
        let waited_ns = run_queue_ns().unwrap_or(waited_before_ns);
        slept_ns = idle_ns.saturating_sub(waited_ns.saturating_sub(waited_before_ns));
    }
    (used_ns as f64 * factor) as u64 + slept_ns
}

/// Processor time of the calling thread in nanoseconds.
pub fn processor_ns() -> u64 {
    let used = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    used.map_or(0, |used| u64::try_from(used.num_nanoseconds()).unwrap_or(0))
}

/// Nanoseconds that the calling thread was runnable without a processor.
fn run_queue_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

/// The system's id of the calling thread.
pub fn thread_id() -> u32 {
    nix::unistd::gettid().as_raw().unsigned_abs()
}
