//! The queue's limit per user: further tasks of a user wait behind the queue. Decisions look at the queue, so their
//! cost must not grow with what one user asks for.
//!
//! Trap: a task behind the queue blocks no other task, and is not tried. It enters the queue, as the last, when another
//! task of its user has left it. So code that takes tasks out of the queue must go through [`Scheduler::dequeue`].

use super::{Retry, Scheduler};
use crate::model::Task;
use crate::reason::Reason;
use eager_units::TaskId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Tasks by user, beside the queue itself.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// User of each queued task; its client may be gone before the task leaves.
    users: BTreeMap<TaskId, u32>,
    counts: BTreeMap<u32, u32>,
    /// Queued tasks whose priority is not the default.
    ranked: BTreeSet<TaskId>,
    /// Tasks behind the queue, by user and arrival.
    behind: BTreeMap<u32, BTreeSet<(u64, TaskId)>>,
    behind_of: BTreeMap<TaskId, (u32, u64)>,
    /// Users who have room in the queue again, and tasks behind it.
    freed: BTreeSet<u32>,
    /// The task that arrived in this step and waits behind the queue, where asking the queue does not reach it.
    newcomer: Option<TaskId>,
}

impl Lines {
    pub fn behind(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.behind_of.keys().copied()
    }

    /// True if a queued task has another priority than the default.
    pub fn has_priorities(&self) -> bool {
        !self.ranked.is_empty()
    }

    /// User of a queued task; None if the task is not queued.
    pub fn user_of(&self, id: TaskId) -> Option<u32> {
        self.users.get(&id).copied()
    }

    /// Notes that the priority of a waiting task may have changed.
    pub fn note_priority(&mut self, task: &Task) {
        if task.request.priority == 0 || !self.users.contains_key(&task.id) {
            self.ranked.remove(&task.id);
        } else {
            self.ranked.insert(task.id);
        }
    }

    fn put_behind(&mut self, uid: u32, arrival: u64, id: TaskId) {
        self.behind.entry(uid).or_default().insert((arrival, id));
        self.behind_of.insert(id, (uid, arrival));
    }

    fn take_behind(&mut self, id: TaskId) -> bool {
        let Some((uid, arrival)) = self.behind_of.remove(&id) else { return false };
        if let Some(tasks) = self.behind.get_mut(&uid) {
            tasks.remove(&(arrival, id));
            if tasks.is_empty() {
                self.behind.remove(&uid);
            }
        }
        true
    }
}

impl Scheduler {
    /// Lines up a waiting task of a connected client: in the queue if its user has room there, otherwise behind it.
    pub(super) fn line_up(&mut self, task: &Task) {
        let uid = self.uid_of(task);
        if self.is_full_for(uid) {
            self.lines.put_behind(uid, task.arrival, task.id);
            self.lines.newcomer = Some(task.id);
        } else {
            self.enqueue(task, uid);
        }
    }

    pub(super) fn take_newcomer(&mut self) -> Option<TaskId> {
        self.lines.newcomer.take()
    }

    /// Adds a task to the queue without regard to the limit.
    pub(super) fn enqueue(&mut self, task: &Task, uid: u32) {
        self.queue.insert(task);
        if self.lines.users.insert(task.id, uid).is_none() {
            *self.lines.counts.entry(uid).or_default() += 1;
        }
        self.lines.note_priority(task);
    }

    /// Lines up a task where it stood when an image was made.
    pub(super) fn restore_in_line(&mut self, task: &Task, is_behind: bool) {
        let uid = self.uid_of(task);
        if is_behind {
            self.lines.put_behind(uid, task.arrival, task.id);
        } else {
            self.enqueue(task, uid);
        }
    }

    /// Removes a task from the queue, or from behind it.
    pub(super) fn dequeue(&mut self, task: &Task) {
        self.queue.remove(task);
        self.lines.take_behind(task.id);
        self.lines.ranked.remove(&task.id);
        let Some(uid) = self.lines.users.remove(&task.id) else { return };
        if let Some(count) = self.lines.counts.get_mut(&uid) {
            *count -= 1;
            if *count == 0 {
                self.lines.counts.remove(&uid);
            }
        }
        self.note_room(uid);
    }

    fn is_full_for(&self, uid: u32) -> bool {
        let limit = self.options.limits.user_queued_max;
        limit.is_some_and(|limit| self.lines.counts.get(&uid).copied().unwrap_or_default() >= limit.max(1))
    }

    fn note_room(&mut self, uid: u32) {
        if self.lines.behind.contains_key(&uid) && !self.is_full_for(uid) {
            self.lines.freed.insert(uid);
        }
    }

    /// Finds the users who have room in the queue again after a change of the limit.
    pub(super) fn look_behind(&mut self) {
        let users: Vec<u32> = self.lines.behind.keys().copied().collect();
        users.into_iter().for_each(|uid| self.note_room(uid));
    }

    /// Moves the first task from behind the queue into it, for a user with room there; returns whether one moved. Other
    /// tasks need not be asked again, since it enters as the last.
    pub(super) fn take_from_behind(&mut self) -> bool {
        let Some(uid) = self.lines.freed.pop_first() else { return false };
        let first = self.first_behind(uid);
        let Some(id) = first.filter(|_| !self.is_full_for(uid)) else { return self.take_from_behind() };
        self.lines.take_behind(id);
        self.arrivals += 1;
        if let Some(task) = self.state.tasks.get_mut(&id) {
            // Tasks that started while it was not in the queue have not passed it.
            task.arrival = self.arrivals;
            let task = task.clone();
            self.enqueue(&task, uid);
            self.rank(uid);
        }
        self.note_room(uid);
        self.retry = match self.retry {
            Retry::None if self.traits.reserve_head => Retry::NewcomerAndFitting(id),
            Retry::None => Retry::Newcomer(id),
            _ => Retry::All,
        };
        true
    }

    /// Of a user's tasks behind the queue, the first one with the highest priority.
    fn first_behind(&self, uid: u32) -> Option<TaskId> {
        let priority = |id: TaskId| self.state.tasks.get(&id).map(|task| task.request.priority);
        let behind = self.lines.behind.get(&uid)?.iter();
        behind.min_by_key(|&&(arrival, id)| (Reverse(priority(id)), arrival)).map(|&(_, id)| id)
    }

    /// Why a task waits behind the queue; None if it does not.
    pub(super) fn why_behind(&self, id: TaskId) -> Option<Reason> {
        let (uid, _) = *self.lines.behind_of.get(&id)?;
        Some(Reason::UserQueues { uid, limit: self.options.limits.user_queued_max? })
    }

    /// True if the task should not wait behind the queue any more; for the invariants.
    pub(super) fn may_come_in(&self, id: TaskId) -> bool {
        self.lines.behind_of.get(&id).is_some_and(|&(uid, _)| !self.is_full_for(uid))
    }

    pub(super) fn is_behind(&self, id: TaskId) -> bool {
        self.lines.behind_of.contains_key(&id)
    }

    /// Number of a user's tasks that wait, in the queue or behind it.
    pub(super) fn lined_up(&self, uid: u32) -> usize {
        let behind = self.lines.behind.get(&uid).map_or(0, BTreeSet::len);
        self.lines.counts.get(&uid).map_or(0, |count| *count as usize) + behind
    }
}
