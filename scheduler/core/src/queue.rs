//! The waiting tasks by arrival, by size, and by expected remaining run time.
//!
//! Trap: size and estimate are parts of keys, so they must not change while a task waits (only bound tasks extend and
//! shrink). Orders in which the policy never looks are not maintained.

use crate::model::Task;
use crate::options::QueueOrder;
use eager_units::{Bytes, Nanos, TaskId};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Bound;

/// Sort key of a waiting task: the largest first, then by arrival.
pub(crate) type SizeKey = (Reverse<Bytes>, u64, TaskId);
/// Sort key of a waiting task with an estimate: the longest first, then by arrival.
type LengthKey = (Reverse<Nanos>, u64, TaskId);

#[derive(Debug)]
pub(crate) struct Queue {
    order: QueueOrder,
    by_arrival: BTreeSet<(u64, TaskId)>,
    /// Those of them that can run over-subscribed.
    short_by_arrival: BTreeSet<(u64, TaskId)>,
    by_size: BTreeSet<SizeKey>,
    by_length: BTreeSet<LengthKey>,
    of_unknown_length: BTreeSet<(u64, TaskId)>,
    /// Sum over the tasks with an estimate: expected hold time in nanoseconds, times bytes.
    byte_nanos: u128,
}

impl Queue {
    pub fn new(order: QueueOrder) -> Queue {
        Queue {
            order,
            by_arrival: BTreeSet::new(),
            short_by_arrival: BTreeSet::new(),
            by_size: BTreeSet::new(),
            by_length: BTreeSet::new(),
            of_unknown_length: BTreeSet::new(),
            byte_nanos: 0,
        }
    }

    fn is_by_size(&self) -> bool {
        matches!(self.order, QueueOrder::LargestFirst | QueueOrder::LongestRemaining)
    }

    fn is_by_length(&self) -> bool {
        self.order == QueueOrder::LongestRemaining
    }

    pub fn insert(&mut self, task: &Task) {
        self.by_arrival.insert((task.arrival, task.id));
        if !task.request.whole {
            self.short_by_arrival.insert((task.arrival, task.id));
        }
        if self.is_by_size() {
            self.by_size.insert(size_key(task));
        }
        if self.is_by_length() {
            let is_new = match length_key(task) {
                Some(key) => self.by_length.insert(key),
                None => self.of_unknown_length.insert((task.arrival, task.id)),
            };
            if is_new {
                self.byte_nanos = self.byte_nanos.saturating_add(byte_nanos(task));
            }
        }
    }

    pub fn remove(&mut self, task: &Task) {
        self.by_arrival.remove(&(task.arrival, task.id));
        self.short_by_arrival.remove(&(task.arrival, task.id));
        if self.is_by_size() {
            self.by_size.remove(&size_key(task));
        }
        if self.is_by_length() {
            let was_there = match length_key(task) {
                Some(key) => self.by_length.remove(&key),
                None => self.of_unknown_length.remove(&(task.arrival, task.id)),
            };
            if was_there {
                self.byte_nanos = self.byte_nanos.saturating_sub(byte_nanos(task));
            }
        }
    }

    pub fn contains(&self, task: &Task) -> bool {
        let has_length = || match length_key(task) {
            Some(key) => self.by_length.contains(&key),
            None => self.of_unknown_length.contains(&(task.arrival, task.id)),
        };
        self.by_arrival.contains(&(task.arrival, task.id))
            && self.short_by_arrival.contains(&(task.arrival, task.id)) != task.request.whole
            && (!self.is_by_size() || self.by_size.contains(&size_key(task)))
            && (!self.is_by_length() || has_length())
    }

    /// The first task in order of arrival that can run over-subscribed.
    pub fn first_short(&self) -> Option<TaskId> {
        self.short_by_arrival.first().map(|&(_, id)| id)
    }

    pub fn len(&self) -> usize {
        self.by_arrival.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_arrival.is_empty()
    }

    pub fn in_order_of_arrival(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.by_arrival.iter().map(|&(_, id)| id)
    }

    pub fn largest_first(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.by_size.iter().map(|&(_, _, id)| id)
    }

    /// The longest remaining run time first; tasks without an estimate in the middle of the others, by arrival. If no
    /// task has an estimate, the largest first.
    pub fn longest_first(&self) -> Vec<TaskId> {
        if self.by_length.is_empty() {
            return self.largest_first().collect();
        }
        let longer = self.by_length.len() / 2;
        let known = || self.by_length.iter().map(|&(_, _, id)| id);
        let unknown = self.of_unknown_length.iter().map(|&(_, id)| id);
        known().take(longer).chain(unknown).chain(known().skip(longer)).collect()
    }

    /// The longest estimated remaining run time of a waiting task; None without estimates, or under other orders.
    pub fn longest(&self) -> Option<Nanos> {
        self.by_length.first().map(|&(Reverse(remaining), ..)| remaining)
    }

    /// How long the waiting tasks would occupy this much memory if it were never idle, by their estimates alone.
    pub fn drains_in(&self, memory: Bytes) -> Nanos {
        let nanos = self.byte_nanos / u128::from(memory.0.max(1));
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
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

fn byte_nanos(task: &Task) -> u128 {
    let held = task.request.estimate.map_or(0, |estimate| estimate.hold.0);
    u128::from(held) * u128::from(task.request.requirement.0)
}

fn length_key(task: &Task) -> Option<LengthKey> {
    Some((Reverse(task.request.estimate?.remaining), task.arrival, task.id))
}
