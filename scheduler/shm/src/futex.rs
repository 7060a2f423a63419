//! Sleeps on a word of a shared page, and wakes the threads that sleep there.
//!
//! Trap: do not set the private flag: waiter and waker are different processes, and the waiter's mapping may be
//! read-only (the kernel allows that for a shared file mapping).

use rustix::io::Errno;
use rustix::thread::futex::{Flags, Timespec, wait, wake};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while the word is `seen`, at most `timeout`; may return early without a cause. `Err` only when the kernel
/// refuses the call itself.
pub(crate) fn sleep_while(word: &AtomicU32, seen: u32, timeout: Duration) -> Result<(), Errno> {
    let timeout = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    match wait(word, Flags::empty(), seen, Some(&timeout)) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => Ok(()),
        Err(other) => Err(other),
    }
}

/// Wakes all threads that sleep on the word.
pub(crate) fn wake_all(word: &AtomicU32) {
    // It fails only for a word that is not mapped, and a mapping outlives its words.
    let _ = wake(word, Flags::empty(), i32::MAX as u32);
}
