//! Programs that wait for another program's task to end (`eager run --after`): each asks again and again, and is listed
//! while it does. Pure.
//!
//! Trap: any served user may ask, under any name and at any rate, so the places in the list are limited per user.

use eager_units::Nanos;
use std::collections::BTreeMap;

/// A program that has not asked for this long does not wait any more; programs ask four times a second (specification
/// S-722).
const SILENT_NS: Nanos = Nanos::from_secs(3);
/// Most programs listed, of one user and of all users.
const USER_MAX: usize = 64;
const ALL_MAX: usize = 1024;

/// A program that waits for a task to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    pub uid: u32,
    pub label: String,
    pub task: u64,
    pub since: Nanos,
    asked_at: Nanos,
}

/// All listed programs, by process id.
#[derive(Debug, Default)]
pub struct Waiters {
    all: BTreeMap<i32, Waiter>,
}

impl Waiters {
    /// Notes that a program asked for a task that has not ended. A program that finds no place waits all the same,
    /// unlisted.
    pub fn ask(&mut self, now: Nanos, pid: i32, uid: u32, label: String, task: u64) {
        self.all.retain(|_, waiter| waits(waiter, now));
        if let Some(waiter) = self.all.get_mut(&pid)
            && (waiter.uid, waiter.task) == (uid, task)
        {
            waiter.asked_at = now;
            return;
        }
        let theirs = self.all.values().filter(|waiter| waiter.uid == uid).count();
        if theirs < USER_MAX && self.all.len() < ALL_MAX {
            self.all.insert(pid, Waiter { uid, label, task, since: now, asked_at: now });
        }
    }

    /// Removes a program whose task has ended.
    pub fn forget(&mut self, pid: i32) {
        self.all.remove(&pid);
    }

    /// Programs that still ask, longest wait first.
    pub fn list(&self, now: Nanos) -> Vec<(i32, &Waiter)> {
        let mut list: Vec<(i32, &Waiter)> =
            self.all.iter().filter(|(_, waiter)| waits(waiter, now)).map(|(pid, it)| (*pid, it)).collect();
        list.sort_by_key(|(pid, waiter)| (waiter.since, *pid));
        list
    }
}

fn waits(waiter: &Waiter, now: Nanos) -> bool {
    now.saturating_sub(waiter.asked_at) <= SILENT_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pids(waiters: &Waiters, second: u64) -> Vec<i32> {
        waiters.list(Nanos::from_secs(second)).iter().map(|(pid, _)| *pid).collect()
    }

    #[test]
    fn who_asks_again_stays_and_who_is_silent_goes() {
        let mut waiters = Waiters::default();
        waiters.ask(Nanos::from_secs(1), 20, 7, "late".into(), 3);
        waiters.ask(Nanos::from_secs(2), 10, 7, "later".into(), 3);
        assert_eq!((pids(&waiters, 4), pids(&waiters, 5)), (vec![20, 10], vec![10]));
        waiters.ask(Nanos::from_secs(5), 10, 7, "later".into(), 3);
        assert_eq!(waiters.list(Nanos::from_secs(5))[0].1.since, Nanos::from_secs(2));
        waiters.forget(10);
        assert!(pids(&waiters, 5).is_empty());
    }

    #[test]
    fn one_user_does_not_take_all_places() {
        let mut waiters = Waiters::default();
        for pid in 0..2000 {
            waiters.ask(Nanos(1), pid, 7, "flood".into(), 3);
        }
        waiters.ask(Nanos(1), 5000, 8, "other".into(), 3);
        assert_eq!((waiters.all.len(), pids(&waiters, 1).last()), (USER_MAX + 1, Some(&5000)));
    }
}
