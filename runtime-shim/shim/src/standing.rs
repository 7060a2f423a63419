//! The standing of the shim towards the daemon: what calls do with a daemon, without one, and after it is lost.
//!
//! Trap: a program that is not scheduled any more is never scheduled again. A task that was bound keeps its device and
//! its memory.

use crate::outcome::{Outcome, Why};
use crate::runtime::{CudaError, DeviceIndex, Runtime};
use crate::scheduler::Scheduler;
use crate::shim::{Shim, Stop};
use crate::state::Thread;
use eager_client::loss::{Resumed, Standing};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Pause between two attempts; up to twice as long, depending on the process id, so that programs do not all connect
/// at once (specification S-702).
const RESUME_PAUSE: Duration = Duration::from_millis(50);

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    fn standing(&self) -> Standing {
        // Relaxed: a hook that sees the old standing behaves like one that came a moment earlier.
        match self.standing.load(Ordering::Relaxed) {
            code if code == Standing::Scheduled as u8 => Standing::Scheduled,
            code if code == Standing::Closed as u8 => Standing::Closed,
            _ => Standing::Plain,
        }
    }

    pub(crate) fn is_scheduled(&self) -> bool {
        self.standing() == Standing::Scheduled
    }

    /// Outcome without a daemon of a call that takes memory or starts work; `None`: there is a daemon.
    pub(crate) fn bypass<T>(&self) -> Option<Outcome<T>> {
        match self.standing() {
            Standing::Scheduled => None,
            Standing::Plain => {
                self.settle_unscheduled();
                Some(Outcome::PassThrough(Why::NoDaemon))
            }
            Standing::Closed => Some(Outcome::Fail(CudaError::DEVICES_UNAVAILABLE)),
        }
    }

    /// Outcome without a daemon of a call that only waits, queries or frees, and so never fails; `None`: there is a
    /// daemon.
    pub(crate) fn bypass_harmless<T>(&self) -> Option<Outcome<T>> {
        (self.standing() != Standing::Scheduled).then_some(Outcome::PassThrough(Why::NoDaemon))
    }

    /// Serves a call that takes memory or starts work.
    pub(crate) fn served<T>(&self, serve: impl FnOnce() -> Result<T, Stop>) -> Outcome<T> {
        self.bypass().unwrap_or_else(|| serve().map_or_else(|stop| self.stopped(stop), Outcome::Handled))
    }

    /// Serves a call that only waits, queries or frees.
    pub(crate) fn served_harmless<T>(&self, serve: impl FnOnce() -> Result<T, Stop>) -> Outcome<T> {
        let served = || serve().map_or_else(|stop| self.stopped(stop), Outcome::Handled);
        self.bypass_harmless().unwrap_or_else(served)
    }

    pub(crate) fn stopped<T>(&self, stop: Stop) -> Outcome<T> {
        match stop {
            Stop::Lost => self.bypass().unwrap_or(Outcome::PassThrough(Why::NoDaemon)),
            Stop::Cuda(error) => Outcome::Fail(error),
            Stop::Pass(why) => Outcome::PassThrough(why),
        }
    }

    /// Switches to plain CUDA, or errors, after the daemon is lost. Takes no lock, since it is also called under the
    /// state's.
    pub(crate) fn lose_daemon(&self) -> Stop {
        let next = self.config.loss.standing(self.ever_bound.load(Ordering::Relaxed));
        if self.standing.swap(next as u8, Ordering::Relaxed) == Standing::Scheduled as u8 {
            let then = match next {
                Standing::Closed => "CUDA calls fail from now on",
                _ => "going on as plain CUDA on the same device",
            };
            self.reporter.report_once("lost", || {
                format!("lost the daemon at {}: {then}", self.config.socket.display())
            });
        }
        Stop::Lost
    }

    /// Called after a call that went to the runtime because the daemon is lost: enters the device that the program
    /// had set, which was only remembered so far. After a task has been bound, its device stays.
    pub(crate) fn enter_program_device(&self, thread: &mut Thread) {
        let is_lost = self.scheduler.is_some() && self.standing() == Standing::Plain;
        let is_set = thread.real_device.is_none() && thread.program_device != 0;
        if is_lost && is_set && !self.ever_bound.load(Ordering::Relaxed) {
            // If this fails, CUDA reports it at the next call.
            let _ = self.enter(thread, DeviceIndex(thread.program_device));
        }
    }

    /// Switches to plain CUDA, or errors, although there is a daemon. True if the program was scheduled until now.
    pub(crate) fn stop_scheduling(&self) -> bool {
        let next = self.config.loss.standing(false);
        self.standing.swap(next as u8, Ordering::Relaxed) == Standing::Scheduled as u8
    }

    /// Looks for a new daemon after the daemon is gone. True when one has taken its place in time: nothing is lost
    /// then, and the call that noticed goes on. May be called under the state's lock, where shrinks and ends are sent
    /// in order. Then every other thread waits too, even one that only launches; without a daemon the others could
    /// not be served anyway.
    pub(crate) fn reconnect(&self) -> bool {
        let Some(scheduler) = self.scheduler.as_ref().filter(|_| self.standing() == Standing::Scheduled)
        else {
            return false;
        };
        let pause = RESUME_PAUSE + RESUME_PAUSE.mul_f64(f64::from(std::process::id() % 16) / 16.0);
        let mut waited = Duration::ZERO;
        loop {
            let resumed = scheduler.resume();
            if !self.config.loss.looks_again(resumed, waited, self.ever_bound.load(Ordering::Relaxed)) {
                return resumed == Resumed::Done;
            }
            std::thread::sleep(pause);
            waited += pause;
        }
    }
}
