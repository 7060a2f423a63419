//! Lines for the administrator, limited per user: a client must not be able to fill the disk, nor to drown lines about
//! others.
//!
//! Suppressed lines are counted and reported later, so that a quiet log is not mistaken for a quiet system.

use eager_units::Nanos;
use std::collections::BTreeMap;

const WINDOW: Nanos = Nanos::from_secs(10);
/// Lines, and recorded refusals (specification S-720), of one user in a window.
const LINES_PER_WINDOW: u32 = 20;
/// Users with a window of their own; further users share the daemon's.
const USERS_MAX: usize = 256;

/// Decides which lines are printed.
#[derive(Debug, Default)]
pub struct LogLimit {
    own: Window,
    users: BTreeMap<u32, Window>,
}

#[derive(Debug, Default)]
struct Window {
    start: Nanos,
    said: u32,
    suppressed: u64,
}

impl LogLimit {
    /// Lines to print for `line`: none, itself, or itself after a note on suppressed ones. `uid`: the user whose
    /// program caused it; `None`: the daemon itself.
    pub fn admit(&mut self, now: Nanos, uid: Option<u32>, line: String) -> Vec<String> {
        let Some(uid) = uid else { return self.own.admit(now, "", line) };
        if self.users.len() >= USERS_MAX && !self.users.contains_key(&uid) {
            self.users.retain(|_, window| !window.is_over(now) || window.suppressed > 0);
        }
        if self.users.len() >= USERS_MAX && !self.users.contains_key(&uid) {
            return self.own.admit(now, "", line);
        }
        self.users.entry(uid).or_default().admit(now, &format!(" of uid {uid}"), line)
    }
}

/// Limits the refusals of one user's tasks that are stepped and recorded; the rest of a window are only answered and
/// counted.
#[derive(Debug, Default)]
pub struct RefusalLimit(BTreeMap<u32, Window>);

impl RefusalLimit {
    /// True if so many refusals of the user were recorded in this window that one more counts as a flood.
    pub fn is_flood(&self, now: Nanos, uid: u32) -> bool {
        self.0.get(&uid).is_some_and(|window| !window.is_over(now) && window.said >= LINES_PER_WINDOW)
    }

    /// Counts a refusal that was not recorded.
    pub fn leave_out(&mut self, uid: u32) {
        if let Some(window) = self.0.get_mut(&uid) {
            window.suppressed += 1;
        }
    }

    /// Counts a refusal that was recorded. Returns how many before it were not, once that window is over.
    pub fn note(&mut self, now: Nanos, uid: u32) -> Option<u64> {
        if self.0.len() >= USERS_MAX && !self.0.contains_key(&uid) {
            self.0.retain(|_, window| !window.is_over(now));
        }
        if self.0.len() >= USERS_MAX && !self.0.contains_key(&uid) {
            return None;
        }
        let window = self.0.entry(uid).or_default();
        let left_out = window.is_over(now).then_some(window.suppressed).filter(|count| *count > 0);
        if window.is_over(now) {
            *window = Window { start: now, said: 0, suppressed: 0 };
        }
        window.said += 1;
        left_out
    }
}

impl Window {
    fn is_over(&self, now: Nanos) -> bool {
        now.saturating_sub(self.start) >= WINDOW
    }

    fn admit(&mut self, now: Nanos, whose: &str, line: String) -> Vec<String> {
        let mut lines = Vec::new();
        if self.is_over(now) {
            if self.suppressed > 0 {
                lines.push(format!("{} more messages{whose} were left out", self.suppressed));
            }
            *self = Window { start: now, said: 0, suppressed: 0 };
        }
        if self.said < LINES_PER_WINDOW {
            self.said += 1;
            lines.push(line);
        } else {
            self.suppressed += 1;
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted_and_leaves_others_their_lines() {
        let mut limit = LogLimit::default();
        let said = (0..50).filter(|_| !limit.admit(Nanos(1), Some(7), "x".into()).is_empty()).count();
        assert_eq!(said, 20);
        assert_eq!(limit.admit(Nanos(1), Some(8), "other".into()), ["other"]);
        assert_eq!(limit.admit(Nanos(1), None, "own".into()), ["own"]);
        let later = limit.admit(Nanos::from_secs(11), Some(7), "y".into());
        assert_eq!(later, ["30 more messages of uid 7 were left out", "y"]);
        assert_eq!(limit.admit(Nanos::from_secs(12), Some(7), "z".into()), ["z"]);
    }

    #[test]
    fn refusals_of_a_flood_are_counted_and_told_with_the_first_of_the_next_window() {
        let mut limit = RefusalLimit::default();
        for _ in 0..20 {
            assert!(!limit.is_flood(Nanos(1), 7));
            assert_eq!(limit.note(Nanos(1), 7), None);
        }
        assert!(limit.is_flood(Nanos(2), 7) && !limit.is_flood(Nanos(2), 8));
        (0..5).for_each(|_| limit.leave_out(7));
        assert!(!limit.is_flood(Nanos::from_secs(11), 7));
        assert_eq!(limit.note(Nanos::from_secs(11), 7), Some(5));
        assert!(!limit.is_flood(Nanos::from_secs(11), 7));
    }

    #[test]
    fn many_users_do_not_make_it_grow_for_ever() {
        let mut limit = LogLimit::default();
        let said: usize = (0..10_000).map(|uid| limit.admit(Nanos(1), Some(uid), "x".into()).len()).sum();
        assert_eq!((said, limit.users.len()), (USERS_MAX + 20, USERS_MAX));
    }
}
