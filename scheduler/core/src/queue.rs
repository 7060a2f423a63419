//! The waiting tasks, in order of arrival and by size.
//!
//! Trap: the size of a waiting task never changes (only bound tasks extend and shrink), so it can be part of a key.

use crate::model::Task;
use crate::units::{Bytes, TaskId};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Bound;

/// Place of a waiting task when the largest comes first; then by arrival.
pub(crate) type SizeKey = (Reverse<Bytes>, u64, TaskId);

#[derive(Debug, Default)]
pub(crate) struct Queue {
    by_arrival: BTreeSet<(u64, TaskId)>,
    by_size: BTreeSet<SizeKey>,
}

impl Queue {
    pub fn insert(&mut self, task: &Task) {
        self.by_arrival.insert((task.arrival, task.id));
        self.by_size.insert(size_key(task));
    }

    pub fn remove(&mut self, task: &Task) {
        self.by_arrival.remove(&(task.arrival, task.id));
        self.by_size.remove(&size_key(task));
    }

    pub fn contains(&self, task: &Task) -> bool {
        self.by_arrival.contains(&(task.arrival, task.id)) && self.by_size.contains(&size_key(task))
    }

    /// Who came first.
    pub fn head(&self) -> Option<TaskId> {
        self.by_arrival.first().map(|&(_, id)| id)
    }

    pub fn in_order_of_arrival(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.by_arrival.iter().map(|&(_, id)| id)
    }

    pub fn largest_first(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.by_size.iter().map(|&(_, _, id)| id)
    }

    /// The largest task of at most `room` behind `last` in order of size.
    pub fn next_within(&self, room: Bytes, last: Option<SizeKey>) -> Option<SizeKey> {
        let first_of_room = (Reverse(room), 0, TaskId(0));
        let start = match last {
            Some(last) if last >= first_of_room => Bound::Excluded(last),
            _ => Bound::Included(first_of_room),
        };
        self.by_size.range((start, Bound::Unbounded)).next().copied()
    }
}

fn size_key(task: &Task) -> SizeKey {
    (Reverse(task.request.requirement), task.arrival, task.id)
}
