//! What a thread knows of its own place in time.
//!
//! Trap: this is read in `exit` handlers too, after destructors of thread-local variables have run, so the variables here
//! have none; only a guard beside them, for threads other than the main one, has.

use std::cell::Cell;
use std::time::Instant;

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};

/// Names a thread or a stream on the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentId(pub u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    None,
    Host,
    Stream,
}

/// Host work that took so much longer than its processor time has slept, or waited for a processor: only then the system
/// is asked which (specification S-635).
const SLEPT_NS_MIN: u64 = 10_000_000;

thread_local! {
    static AGENT: Cell<Option<AgentId>> = const { Cell::new(None) };
    static KIND: Cell<Kind> = const { Cell::new(Kind::None) };
    static HERE_NS: Cell<u64> = const { Cell::new(0) };
    /// Calls of the program that the thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static VAIN: Cell<u32> = const { Cell::new(0) };
    /// Stated host work that comes before the program's next call.
    static STATED_NS: Cell<u64> = const { Cell::new(0) };
    static IN_MARK: Cell<bool> = const { Cell::new(false) };
    /// A copy to the host was made in the call under way.
    static HAS_DOWNLOADED: Cell<bool> = const { Cell::new(false) };
    /// When the host work under way began, and the thread's processor time and wait for a processor then.
    static BEGAN: Cell<Option<(Instant, u64, u64)>> = const { Cell::new(None) };
    static ENDS: Ends = const { Ends(Cell::new(None)) };
}

/// Ends a thread's agent with it.
struct Ends(Cell<Option<AgentId>>);

impl Drop for Ends {
    fn drop(&mut self) {
        if let Some(id) = self.0.get() {
            super::thread_ends(id);
        }
    }
}

/// Where the calling agent stands, in nanoseconds of the clock; 0 without one.
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

/// The calling thread is an agent of the program's.
pub fn is_host(id: AgentId) {
    AGENT.set(Some(id));
    KIND.set(Kind::Host);
    host_work_begins();
    if thread_id() != std::process::id() {
        // A thread that is ending already stays; the process's end frees it.
        let _ = ENDS.try_with(|ends| ends.0.set(Some(id)));
    }
}

/// The calling thread runs a stream's jobs.
pub fn stream_begins(id: AgentId) {
    AGENT.set(Some(id));
    KIND.set(Kind::Stream);
}

/// True for the outermost call.
pub fn call_begins() -> bool {
    let depth = DEPTH.get();
    DEPTH.set(depth + 1);
    if depth == 0 {
        HAS_DOWNLOADED.set(false);
    }
    depth == 0
}

/// True for the outermost call.
pub fn call_ends() -> bool {
    DEPTH.set(DEPTH.get() - 1);
    DEPTH.get() == 0
}

/// From here to the program's next call it does this much host work.
pub fn host_work_stated(ns: u64) {
    STATED_NS.set(STATED_NS.get() + ns);
}

/// The stated host work that was done before the call under way. A mark stands where the compiler put it: right behind
/// the call before, so what the program does then comes after it.
pub fn stated_ns() -> u64 {
    if IN_MARK.get() { 0 } else { STATED_NS.take() }
}

pub fn set_in_mark(is_in: bool) {
    IN_MARK.set(is_in);
}

/// A copy to the host. False if the program's call has made one before: the shim makes one copy by several.
pub fn is_first_download() -> bool {
    !HAS_DOWNLOADED.replace(true)
}

pub fn forget_vain() {
    VAIN.set(0);
}

/// How many queries in vain came before.
pub fn count_vain() -> u32 {
    let before = VAIN.get();
    VAIN.set(before + 1);
    before
}

/// From here on the thread does host work.
pub fn host_work_begins() {
    if KIND.get() == Kind::Host {
        BEGAN.set(Some((Instant::now(), processor_ns(), run_queue_ns().unwrap_or(0))));
    }
}

/// Modelled time of the host work since then. `stated`: the program's host times are stated, none is measured.
pub fn host_ns(factor: f64, stated: bool) -> u64 {
    let Some((began, before_ns, waited_before_ns)) = BEGAN.get().filter(|_| !stated) else { return 0 };
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

/// Processor time of the calling thread.
pub fn processor_ns() -> u64 {
    let used = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    used.map_or(0, |used| u64::try_from(used.num_nanoseconds()).unwrap_or(0))
}

/// Time that the calling thread could have run and had no processor.
fn run_queue_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

/// The calling thread, as the system numbers it.
pub fn thread_id() -> u32 {
    nix::unistd::gettid().as_raw().unsigned_abs()
}
