//! Fault injection for tests: points between a request and its answer at which the daemon can be killed, in debug
//! builds; and a faulty policy, with the feature `faulty-policies`. The product has neither.
//!
//! Trap: points are counted, not named, so that a test reaches *every* point by counting up until the daemon survives.

#[cfg(debug_assertions)]
use nix::{sys::signal::Signal, unistd::Pid};
#[cfg(debug_assertions)]
use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

/// `EAGERD_DIE_AT=N`: the daemon gets SIGKILL at the N-th point that it reaches.
#[cfg(debug_assertions)]
const ENV_DIE_AT: &str = "EAGERD_DIE_AT";

/// `EAGERD_FAULTY_POLICY=panics|loops|starves|nonsense`: see [`eager_core::policy::faulty`].
#[cfg(feature = "faulty-policies")]
const ENV_FAULTY_POLICY: &str = "EAGERD_FAULTY_POLICY";

/// Gives the scheduler a faulty policy, if a test asks for one.
#[cfg(feature = "faulty-policies")]
pub fn spoil(scheduler: &mut eager_core::Scheduler) {
    let name = std::env::var(ENV_FAULTY_POLICY).unwrap_or_default();
    if let Some(fault) = eager_core::policy::faulty::Fault::named(&name) {
        scheduler.spoil(fault);
    }
}

#[cfg(not(feature = "faulty-policies"))]
pub fn spoil(_scheduler: &mut eager_core::Scheduler) {}

/// Kills the daemon if this is the chosen point; otherwise returns.
#[cfg(debug_assertions)]
pub fn point(name: &str) {
    static DIE_AT: OnceLock<Option<u64>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let die_at = DIE_AT.get_or_init(|| std::env::var(ENV_DIE_AT).ok()?.parse().ok());
    let Some(die_at) = *die_at else { return };
    if PASSED.fetch_add(1, Ordering::Relaxed) + 1 == die_at {
        eprintln!("eagerd: dies at point {die_at} ({name})");
        // The signal takes effect before the call returns, since it is sent to the calling thread's own process.
        let _ = nix::sys::signal::kill(Pid::this(), Signal::SIGKILL);
    }
}

#[cfg(not(debug_assertions))]
pub fn point(_name: &str) {}
