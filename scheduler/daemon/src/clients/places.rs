//! Places for connections that have not asked for anything yet, counted per user. Pure.
//!
//! Trap: a program that is evicted or refused for lack of a place may have been about to send. So the program gets an
//! answer or sees its connection closed, and connects again; a connection whose data has arrived already must not be
//! evicted.

use std::collections::BTreeMap;

/// The number of places, and how many each user has taken.
#[derive(Debug)]
pub struct Places {
    counts: BTreeMap<u32, usize>,
    taken: usize,
    limit: usize,
}

impl Places {
    /// `limit` places at once, half of them for one user.
    pub fn new(limit: usize) -> Places {
        Places { counts: BTreeMap::new(), taken: 0, limit }
    }

    /// User who has to give up a connection for one more of `uid`: `uid` itself if it has all that a user may have,
    /// otherwise the user with the most. `None`: there is a free place.
    pub fn wanted_from(&self, uid: u32) -> Option<u32> {
        if self.counts.get(&uid).is_some_and(|count| *count >= self.limit.div_ceil(2)) {
            return Some(uid);
        }
        if self.taken < self.limit {
            return None;
        }
        Some(self.counts.iter().max_by_key(|(_, count)| **count).map_or(uid, |(most, _)| *most))
    }

    pub fn take(&mut self, uid: u32) {
        *self.counts.entry(uid).or_default() += 1;
        self.taken += 1;
    }

    pub fn give_back(&mut self, uid: u32) {
        let Some(count) = self.counts.get_mut(&uid) else { return };
        *count -= 1;
        self.taken -= 1;
        if *count == 0 {
            self.counts.remove(&uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_at_his_share_gives_way_himself_and_whoever_has_most_when_all_are_taken() {
        let mut places = Places::new(8);
        (0..4).for_each(|_| places.take(7));
        assert_eq!((places.wanted_from(7), places.wanted_from(8)), (Some(7), None));
        [8, 8, 8, 9].into_iter().for_each(|uid| places.take(uid));
        assert_eq!((places.wanted_from(8), places.wanted_from(10)), (Some(7), Some(7)));
        [7, 7].into_iter().for_each(|uid| places.give_back(uid));
        [9, 10].into_iter().for_each(|uid| places.take(uid));
        assert_eq!(places.wanted_from(10), Some(8));
        [7, 7, 8, 8, 8, 9, 9, 10, 10].into_iter().for_each(|uid| places.give_back(uid));
        assert!(places.counts.is_empty() && places.taken == 0);
    }
}
