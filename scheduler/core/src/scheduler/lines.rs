//! Who stands in the queue, and who behind it because the user has as many there as one user may have: decisions look at the
//! queue, so what they cost must not grow with what one user asks for.
//!
//! Trap: a task that stands behind the queue holds up nobody, and nothing is tried for it. Once another of its user's has left
//! the queue it comes in, as the last; whatever takes tasks out of the queue must go through [`Scheduler::leave_queue`].

use super::{Retry, Scheduler};
use crate::model::Task;
use crate::reason::Reason;
use eager_units::TaskId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Beside the queue itself, and made anew from it.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Whose each queued task is; a client may be gone before its tasks leave.
    users: BTreeMap<TaskId, u32>,
    counts: BTreeMap<u32, u32>,
    /// Queued tasks whose priority is not the usual one.
    ranked: BTreeSet<TaskId>,
    /// By user and arrival.
    behind: BTreeMap<u32, BTreeSet<(u64, TaskId)>>,
    behind_of: BTreeMap<TaskId, (u32, u64)>,
    /// Users with room in the queue again, and tasks behind it.
    freed: BTreeSet<u32>,
    /// Came with this step and stands behind the queue: whoever is asked in the queue's order is not this one.
    newcomer: Option<TaskId>,
}

impl Lines {
    pub fn behind(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.behind_of.keys().copied()
    }

    /// Has any queued task another priority than the usual one?
    pub fn has_priorities(&self) -> bool {
        !self.ranked.is_empty()
    }

    /// Whose a queued task is.
    pub fn user_of(&self, id: TaskId) -> Option<u32> {
        self.users.get(&id).copied()
    }

    /// The priority of a waiting task may be another now.
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
    /// A task of a connected client waits from now on: in the queue where its user has room there.
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

    /// In the queue whatever the limit: it was there before.
    pub(super) fn enqueue(&mut self, task: &Task, uid: u32) {
        self.queue.insert(task);
        if self.lines.users.insert(task.id, uid).is_none() {
            *self.lines.counts.entry(uid).or_default() += 1;
        }
        self.lines.note_priority(task);
    }

    /// Where it stood when an image was made.
    pub(super) fn raise_in_line(&mut self, task: &Task, is_behind: bool) {
        let uid = self.uid_of(task);
        if is_behind {
            self.lines.put_behind(uid, task.arrival, task.id);
        } else {
            self.enqueue(task, uid);
        }
    }

    /// Out of the queue, or from behind it.
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

    /// The limit is another.
    pub(super) fn look_behind(&mut self) {
        let users: Vec<u32> = self.lines.behind.keys().copied().collect();
        users.into_iter().for_each(|uid| self.note_room(uid));
    }

    /// Lets the first from behind the queue in whose user has room there; says whether anybody came. Nobody else is asked
    /// again for that: what comes is the last.
    pub(super) fn take_from_behind(&mut self) -> bool {
        let Some(uid) = self.lines.freed.pop_first() else { return false };
        let first = self.first_behind(uid);
        let Some(id) = first.filter(|_| !self.is_full_for(uid)) else { return self.take_from_behind() };
        self.lines.take_behind(id);
        self.arrivals += 1;
        if let Some(task) = self.state.tasks.get_mut(&id) {
            // Who started while it was not in the queue has not passed it.
            task.arrival = self.arrivals;
            let task = task.clone();
            self.enqueue(&task, uid);
            self.rank(uid);
        }
        self.note_room(uid);
        self.retry = match self.retry {
            Retry::Nobody if self.traits.reserve_head => Retry::NewcomerAndWhoFits(id),
            Retry::Nobody => Retry::Newcomer(id),
            _ => Retry::Everybody,
        };
        true
    }

    /// Of a user's tasks behind the queue the first of those with the highest priority.
    fn first_behind(&self, uid: u32) -> Option<TaskId> {
        let priority = |id: TaskId| self.state.tasks.get(&id).map(|task| task.request.priority);
        let behind = self.lines.behind.get(&uid)?.iter();
        behind.min_by_key(|&&(arrival, id)| (Reverse(priority(id)), arrival)).map(|&(_, id)| id)
    }

    /// Why a task stands behind the queue, if it does.
    pub(super) fn why_behind(&self, id: TaskId) -> Option<Reason> {
        let (uid, _) = *self.lines.behind_of.get(&id)?;
        Some(Reason::UserQueues { uid, limit: self.options.limits.user_queued_max? })
    }

    /// It should not stand there any more: for the invariants.
    pub(super) fn may_come_in(&self, id: TaskId) -> bool {
        self.lines.behind_of.get(&id).is_some_and(|&(uid, _)| !self.is_full_for(uid))
    }

    pub(super) fn is_behind(&self, id: TaskId) -> bool {
        self.lines.behind_of.contains_key(&id)
    }

    /// Tasks of a user that wait, in the queue or behind it.
    pub(super) fn lined_up(&self, uid: u32) -> usize {
        let behind = self.lines.behind.get(&uid).map_or(0, BTreeSet::len);
        self.lines.counts.get(&uid).map_or(0, |count| *count as usize) + behind
    }
}
