//! Finds a policy that loops or starves somebody. The scheme is that of sched_ext: a stalled task ends the policy, not
//! the machine, and a plain policy goes on.
//!
//! Trap: a policy that loops never comes back, and a thread cannot be ended from outside. So a second thread starts the
//! daemon again in the same process (`exec`), told to use `case`; clients find it again as after any restart.

use eager_core::action::Reason;
use eager_core::policy::MemoryRule;
use eager_core::scheduler::Stage;
use eager_core::units::Nanos;
use eager_core::{PolicyName, Scheduler};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Says since when a step of the core has been running.
#[derive(Debug, Default)]
pub struct Heartbeat {
    /// Nanoseconds since the daemon started, plus one; 0: no step is running.
    since: AtomicU64,
}

impl Heartbeat {
    pub fn begin(&self, now: Nanos) {
        // Relaxed: only how old it is matters, by seconds.
        self.since.store(now.0.saturating_add(1), Ordering::Relaxed);
    }

    pub fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// Has one step been running for longer than `limit`?
    fn is_stuck(&self, now: Nanos, limit: Nanos) -> bool {
        let since = self.since.load(Ordering::Relaxed);
        since != 0 && now.0.saturating_sub(since - 1) > limit.0
    }
}

/// Starts the thread that restarts the daemon when a step takes longer than `limit`. `reverted`: it was restarted so
/// already, and the process ends instead. `listeners` are handed down.
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
    let why = format!("did not come to a decision within {limit}");
    // Nobody is left to be told that standard error is closed.
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

/// Does the policy owe every task that fits somewhere a start, if it is the one that came first?
fn owes_a_start(scheduler: &Scheduler) -> bool {
    let limits_otherwise = matches!(scheduler.policy(), PolicyName::Sa | PolicyName::CaseAlg2)
        || scheduler.traits().reserve_head;
    scheduler.traits().memory == MemoryRule::Counted && !limits_otherwise
}

/// The task that came first has waited for longer than `limit` although a device has room for all of it.
pub fn starved(scheduler: &Scheduler, now: Nanos, limit: Nanos) -> Option<String> {
    if !owes_a_start(scheduler) {
        return None;
    }
    // Whom a limit keeps from the queue waits for that, not for the policy.
    let waits = |stage: &Stage<'_>| {
        let limits = |reason: &Reason| {
            matches!(reason, Reason::Throttled { .. } | Reason::UserFull { .. } | Reason::Held { .. })
        };
        matches!(stage, Stage::Waiting { reason } if !limits(reason))
    };
    let waiting = scheduler.tasks().filter(|task| waits(&task.stage));
    let first = waiting.min_by_key(|task| (task.asked_at, task.task))?;
    let context = scheduler.options().context_bytes;
    let needs = first.requirement.saturating_add(context);
    let waited = now.saturating_sub(first.asked_at);
    let fits = scheduler.devices().any(|device| device.free >= needs && !device.drained && !device.lost);
    (fits && waited > limit).then(|| format!("left {} waiting for {waited} although it fits", first.task))
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
