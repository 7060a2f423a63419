//! Detects a policy that loops or starves a task. The scheme is that of sched_ext: a stalled task ends the policy, not
//! the machine, and a plain policy goes on.
//!
//! Trap: a policy that loops never returns, and a thread cannot be ended from outside. So a second thread executes the
//! daemon again in the same process (`exec`) under `case`; clients reconnect as after any restart.

use eager_core::Scheduler;
use eager_units::Nanos;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Tells since when a step of the core has been running.
#[derive(Debug, Default)]
pub struct Heartbeat {
    /// Nanoseconds since the daemon started, plus one; 0: no step is running.
    since: AtomicU64,
}

impl Heartbeat {
    pub fn begin(&self, now: Nanos) {
        // Relaxed: only its age matters, in seconds.
        self.since.store(now.0.saturating_add(1), Ordering::Relaxed);
    }

    pub fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// True if a step has been running for longer than `limit`.
    fn is_stuck(&self, now: Nanos, limit: Nanos) -> bool {
        let since = self.since.load(Ordering::Relaxed);
        since != 0 && now.0.saturating_sub(since - 1) > limit.0
    }
}

/// Starts the thread that restarts the daemon when a step takes longer than `limit`. `reverted`: the watchdog has
/// restarted the daemon before, so the process ends instead. `listeners` are handed down.
pub fn start(
    heartbeat: Arc<Heartbeat>,
    started: Instant,
    limit: Nanos,
    reverted: bool,
    listeners: Vec<(String, OwnedFd)>,
) -> std::io::Result<()> {
    let interval = Duration::from_nanos(limit.0 / 4).clamp(Duration::from_millis(20), Duration::from_secs(2));
    let look = move || {
        loop {
            std::thread::sleep(interval);
            let now = Nanos(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
            if heartbeat.is_stuck(now, limit) {
                restart(limit, reverted, &listeners);
            }
        }
    };
    std::thread::Builder::new().name("watchdog".into()).spawn(look).map(drop)
}

fn restart(limit: Nanos, reverted: bool, listeners: &[(String, OwnedFd)]) -> ! {
    let why = format!("made no decision within {limit}");
    // If standard error is closed, the line has no reader.
    let _ = writeln!(std::io::stderr(), "eagerd: the policy {why}: starting again");
    if !reverted {
        let mut again = Command::new("/proc/self/exe");
        again.args(std::env::args_os().skip(1)).args(["--reverted", &why]);
        let error = match eager_shm::inherited::hand_down(listeners) {
            Ok(variables) => again.envs(variables).exec(),
            Err(errno) => errno.into(),
        };
        let _ = writeln!(std::io::stderr(), "eagerd: cannot start again: {error}");
    }
    std::process::exit(1)
}

/// Says why if the policy has left a task waiting for longer than `limit` although the core owes it a start
/// ([`Scheduler::owed`]). Only a defect of the policy makes that so, never what programs ask for.
pub fn starved(scheduler: &Scheduler, now: Nanos, limit: Nanos) -> Option<String> {
    scheduler.owed().find_map(|(task, device)| {
        let waited = now.saturating_sub(scheduler.task(task)?.asked_at);
        (waited > limit).then(|| format!("left {task} waiting for {waited} although it fits on {device}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_step_that_runs_is_stuck() {
        let heartbeat = Heartbeat::default();
        let limit = Nanos::from_secs(30);
        assert!(!heartbeat.is_stuck(Nanos::from_secs(100), limit));
        heartbeat.begin(Nanos(0));
        assert!(!heartbeat.is_stuck(Nanos::from_secs(30), limit));
        assert!(heartbeat.is_stuck(Nanos::from_secs(31), limit));
        heartbeat.end();
        assert!(!heartbeat.is_stuck(Nanos::from_secs(100), limit));
    }
}
