//! Tells a thread that its kernel has taken too long, by a signal to this thread.
//!
//! It counts the thread's own processor time, so a loaded machine ends no kernel that a quiet one would not. Trap: a
//! kernel that sleeps in the system would never be told; kernels cannot.

use core::ffi::c_int;
use std::ptr::null_mut;
use std::time::Duration;

/// From one signal to the next, until the kernel is left.
const AGAIN: Duration = Duration::from_millis(10);

/// Runs until dropped.
pub(crate) struct Timer {
    id: libc::timer_t,
}

impl Timer {
    /// For the calling thread, of this number; `signal` has its handler. `None`: the system gives no timer, and the kernel
    /// may take for ever.
    pub fn start(thread: i32, signal: c_int, time_max: Duration) -> Option<Timer> {
        let_in(signal);
        // SAFETY: plain data, for which zeros are valid; all that the system reads of it is set below.
        let mut event: libc::sigevent = unsafe { core::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        event.sigev_notify_thread_id = thread;
        let mut id: libc::timer_t = null_mut();
        // SAFETY: both point to variables of this function.
        if unsafe { libc::timer_create(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut event, &raw mut id) } != 0 {
            return None;
        }
        let timer = Timer { id };
        let times = libc::itimerspec { it_interval: timespec(AGAIN), it_value: timespec(time_max) };
        // SAFETY: the timer was just made; the old setting is not asked for.
        let set = unsafe { libc::timer_settime(timer.id, 0, &raw const times, null_mut()) };
        (set == 0).then_some(timer)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: made by `start`, and deleted only here.
        unsafe { libc::timer_delete(self.id) };
    }
}

/// A program that blocks signals before it starts threads, to wait for them, blocks them in ours too.
fn let_in(signal: c_int) {
    // SAFETY: plain data that the calls fill in; only this thread's mask changes, and this thread is ours.
    unsafe {
        let mut set: libc::sigset_t = core::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, null_mut());
    }
}

/// At least a nanosecond: zero would mean never.
fn timespec(time: Duration) -> libc::timespec {
    let time = time.max(Duration::from_nanos(1));
    libc::timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: i64::from(time.subsec_nanos()) }
}
