//! Priorities of a user's own tasks: they change places among themselves, and nobody else's place changes (specification S-124).
//!
//! Trap: a place in the order of arrival is the number that a task got when it came. So a task that goes before others of its
//! user takes the number of the first of them, and not a number of its own before everybody.

use super::{Anomaly, Retry, Scheduler};
use eager_units::TaskId;
use std::cmp::Reverse;
use std::collections::BTreeMap;

impl Scheduler {
    /// Gives the queued tasks of a user the places that they have together, the highest priority first.
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

    /// The same for an order in which arrival is not what counts first.
    pub(super) fn by_priority(&self, order: Vec<TaskId>) -> Vec<TaskId> {
        if !self.lines.has_priorities() {
            return order;
        }
        let mut own: BTreeMap<Option<u32>, Vec<TaskId>> = BTreeMap::new();
        for &id in order.iter().rev() {
            own.entry(self.lines.user_of(id)).or_default().push(id);
        }
        // From the end on, as they are taken: the highest last, and of equal ones the first.
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
        // Another one may be the first of its user now, and fit.
        self.retry = Retry::WhoFits;
        Ok(())
    }
}
