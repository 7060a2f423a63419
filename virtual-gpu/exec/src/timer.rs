//! Time limit of a kernel: a timer that signals the kernel's thread.
//!
//! It counts the thread's own processor time, so a kernel that ends in time on a quiet machine is not aborted on a
//! loaded one. A kernel that sleeps in the system would never be signalled, but kernels cannot sleep.

use core::ffi::c_int;
use std::ptr::null_mut;
use std::time::Duration;

/// Interval at which the signal is repeated until the kernel is aborted.
const AGAIN: Duration = Duration::from_millis(10);

/// A timer that runs until dropped.
pub(crate) struct Timer {
    id: libc::timer_t,
}

impl Timer {
    /// Starts a timer for the calling thread, whose id is `thread`; the handler of `signal` is installed. `None` if the
    /// system has no timer left: the kernel then has no time limit.
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
        // SAFETY: the timer was just created; the old setting is not requested.
        let set = unsafe { libc::timer_settime(timer.id, 0, &raw const times, null_mut()) };
        (set == 0).then_some(timer)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: created by `start`, and deleted only here.
        unsafe { libc::timer_delete(self.id) };
    }
}

/// Unblocks the signal: threads inherit blocked signals from a program that blocks them to wait for them elsewhere.
fn let_in(signal: c_int) {
    // SAFETY: plain data that the calls fill in; only the mask of this thread changes, which runs a kernel.
    unsafe {
        let mut set: libc::sigset_t = core::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, null_mut());
    }
}

/// Converts a time; at least a nanosecond, because zero would disarm the timer.
fn timespec(time: Duration) -> libc::timespec {
    let time = time.max(Duration::from_nanos(1));
    libc::timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: i64::from(time.subsec_nanos()) }
}
