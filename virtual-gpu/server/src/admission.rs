//! Admission and fair turns: counts connections, bytes and requests per user from `accept` on. Pure.
//!
//! Trap: the user is the one that the kernel reports for `connect`; no message of a connection may change it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Connections of one user, where the process has enough descriptors.
const CONNECTIONS_MAX: u64 = 4096;
/// Bytes that one user's connections may make the server keep: incomplete messages and untaken answers.
pub const BUFFERED_BYTES_MAX: usize = 64 << 20;
/// Requests of one user in a turn.
const USER_REQUESTS: u32 = 1024;
pub const CONNECTION_REQUESTS: u32 = 256;
/// Time that one user's requests may take in a turn; a request begun before the limit is finished. Most take some
/// microseconds; a kernel that pages takes a tenth of a second where time jumps to its end.
const USER_TIME: Duration = Duration::from_millis(2);
/// A connection that has not said hello for this long is dropped.
pub const HELLO_WAIT_MAX: Duration = Duration::from_secs(10);
/// Descriptors reserved for the server itself and its own user.
const DESCRIPTORS_RESERVED: u64 = 64;

/// Per-user counts. Keys of the maps are uids.
#[derive(Debug)]
pub struct Admission {
    connections_max: u64,
    connections: BTreeMap<u32, u64>,
    /// Bytes that users' connections make the server keep.
    kept: BTreeMap<u32, usize>,
    /// Requests of each user in this turn.
    asked: BTreeMap<u32, u32>,
    /// Time that these requests took.
    spent: BTreeMap<u32, Duration>,
    /// Number of turns so far.
    turn: usize,
}

impl Admission {
    /// `descriptors`: number of descriptors that the process may have.
    pub fn new(descriptors: u64) -> Admission {
        Admission {
            connections_max: (descriptors.saturating_sub(DESCRIPTORS_RESERVED) / 4).clamp(1, CONNECTIONS_MAX),
            connections: BTreeMap::new(),
            kept: BTreeMap::new(),
            asked: BTreeMap::new(),
            spent: BTreeMap::new(),
            turn: 0,
        }
    }

    /// Counts a connection, or returns how many its user has already. For the server's own user and root only the
    /// system's limits apply.
    pub fn enter(&mut self, uid: u32, is_owner: bool) -> Result<(), u64> {
        let count = self.connections.entry(uid).or_default();
        if *count >= self.connections_max && !is_owner {
            return Err(*count);
        }
        *count += 1;
        Ok(())
    }

    pub fn leave(&mut self, uid: u32) {
        if let Some(count) = self.connections.get_mut(&uid) {
            *count = count.saturating_sub(1);
        }
        self.connections.retain(|_, count| *count > 0);
    }

    /// Records that a connection of the user now makes the server keep `after` bytes instead of `before`.
    pub fn keep(&mut self, uid: u32, before: usize, after: usize) {
        let kept = self.kept.entry(uid).or_default();
        *kept = kept.saturating_sub(before).saturating_add(after);
        if *kept == 0 {
            self.kept.remove(&uid);
        }
    }

    pub fn kept(&self, uid: u32) -> usize {
        self.kept.get(&uid).copied().unwrap_or_default()
    }

    /// Begins a turn. Returns where to start in a list of `ready` clients, so that no client is always last.
    pub fn begin_turn(&mut self, ready: usize) -> usize {
        self.asked.clear();
        self.spent.clear();
        self.turn = self.turn.wrapping_add(1);
        if ready == 0 { 0 } else { self.turn % ready }
    }

    /// Counts a request of the user; false if the user has had all its requests of this turn.
    pub fn ask(&mut self, uid: u32) -> bool {
        let asked = self.asked.entry(uid).or_default();
        *asked += 1;
        *asked <= USER_REQUESTS
    }

    /// Records that a request of the user took `time`.
    pub fn spend(&mut self, uid: u32, time: Duration) {
        let spent = self.spent.entry(uid).or_default();
        *spent = spent.saturating_add(time);
    }

    /// True if the user has requests and time left in this turn.
    pub fn may_ask(&self, uid: u32) -> bool {
        self.asked.get(&uid).is_none_or(|asked| *asked < USER_REQUESTS)
            && self.spent.get(&uid).is_none_or(|spent| *spent < USER_TIME)
    }
}

/// Deadline for the hello of a connection made at `since`.
pub fn hello_deadline(since: Instant) -> Instant {
    since + HELLO_WAIT_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_so_many_connections_and_another_has_as_many() {
        let mut admission = Admission::new(104);
        assert_eq!((0..20).filter(|_| admission.enter(1, false).is_ok()).count(), 10);
        assert_eq!(admission.enter(1, false), Err(10));
        admission.enter(2, false).unwrap();
        assert_eq!((0..20).filter(|_| admission.enter(0, true).is_ok()).count(), 20, "its own user's");
        admission.leave(1);
        admission.enter(1, false).unwrap();
        (0..10).for_each(|_| admission.leave(1));
        admission.leave(2);
        (0..20).for_each(|_| admission.leave(0));
        assert!(admission.connections.is_empty());
    }

    #[test]
    fn few_descriptors_leave_everybody_one_connection() {
        for descriptors in [0, 64, 70] {
            let mut admission = Admission::new(descriptors);
            assert_eq!((admission.enter(1, false), admission.enter(1, false)), (Ok(()), Err(1)));
        }
    }

    #[test]
    fn a_turn_has_so_many_requests_of_a_user_and_begins_elsewhere_each_time() {
        let mut admission = Admission::new(1 << 20);
        let first = admission.begin_turn(3);
        assert_eq!((0..5000).filter(|_| admission.ask(1)).count(), 1024);
        assert!(admission.ask(2) && !admission.may_ask(1) && admission.may_ask(2));
        assert_ne!(admission.begin_turn(3), first);
        assert!(admission.ask(1));
        assert_eq!(admission.begin_turn(0), 0);
    }

    #[test]
    fn a_turn_has_so_much_time_for_a_user() {
        let mut admission = Admission::new(1 << 20);
        admission.spend(1, USER_TIME / 2);
        assert!(admission.may_ask(1));
        admission.spend(1, USER_TIME);
        assert!(!admission.may_ask(1) && admission.may_ask(2));
        admission.begin_turn(2);
        assert!(admission.may_ask(1));
    }
}
