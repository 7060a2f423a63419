//! Priorities of a user's own tasks: they change places among themselves, and other users' tasks keep theirs
//! (specification S-124).
//!
//! Trap: a place in the order of arrival is the number that a task got on arrival. A task that goes before others of
//! its user takes the number of the first of them; with a new lower number it would pass other users' tasks as well.

use super::{Anomaly, Retry, Scheduler};
use eager_units::TaskId;
use std::cmp::Reverse;
use std::collections::BTreeMap;

impl Scheduler {
    /// Distributes the places of a user's queued tasks among these tasks, the highest priority first.
    pub(super) fn rank(&mut self, uid: u32) {
        if !self.lines.has_priorities() {
            return;
        }
        let queued = self.queue.in_order_of_arrival().filter(|id| self.lines.user_of(*id) == Some(uid));
        let own: Vec<_> = queued.filter_map(|id| self.state.tasks.get(&id)).cloned().collect();
        let places: Vec<u64> = own.iter().map(|task| task.arrival).collect();
        let mut ranked = own;
        ranked.sort_by_key(|task| Reverse(task.request.priority));
        let moved: Vec<_> =
            ranked.into_iter().zip(places).filter(|(task, place)| task.arrival != *place).collect();
        moved.iter().for_each(|(task, _)| self.queue.remove(task));
        for (mut task, place) in moved {
            task.arrival = place;
            self.queue.insert(&task);
            if let Some(own) = self.state.tasks.get_mut(&task.id) {
                own.arrival = place;
            }
        }
    }

    /// Reorders the tasks of each user by priority, in an order that does not sort by arrival first.
    pub(super) fn by_priority(&self, order: Vec<TaskId>) -> Vec<TaskId> {
        if !self.lines.has_priorities() {
            return order;
        }
        let mut own: BTreeMap<Option<u32>, Vec<TaskId>> = BTreeMap::new();
        for &id in order.iter().rev() {
            own.entry(self.lines.user_of(id)).or_default().push(id);
        }
        // Tasks are popped from the end: so the highest priority is last, and of equal ones the first.
        let priority = |id: &TaskId| self.state.tasks.get(id).map(|task| task.request.priority);
        own.values_mut().for_each(|tasks| tasks.sort_by_key(priority));
        let next = |id: TaskId| own.get_mut(&self.lines.user_of(id)).and_then(Vec::pop).unwrap_or(id);
        order.into_iter().map(next).collect()
    }

    pub(super) fn set_priority(&mut self, id: TaskId, priority: i8) -> Result<(), Anomaly> {
        let task = self.waiting(id)?;
        task.request.priority = priority;
        let task = task.clone();
        self.lines.note_priority(&task);
        self.rank(self.uid_of(&task));
        // Another task of the user may be the first now, and fit.
        self.retry = Retry::Fitting;
        Ok(())
    }
}
