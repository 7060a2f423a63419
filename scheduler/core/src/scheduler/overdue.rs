//! Overdue tasks, for which later tasks must leave room, and turns among the users (specification S-314, S-324).
//!
//! A program may keep its memory for ever, so the overdue task may never fit. Tasks behind it must not wait for that:
//! they start in the memory that it leaves, and a user who holds nothing may have one task in any case.

use super::Scheduler;
use crate::model::{Beside, Task, View};
use crate::policy::{MemoryRule, Placement};
use crate::reason::Reason;
use eager_units::{Bytes, Nanos, TaskId};

impl Scheduler {
    /// The first task in order of arrival, once it has waited for the longest time that others may pass it. Later tasks
    /// are younger, so only the first is looked at. Where priorities have moved a task to the place of an older one,
    /// the first task that has waited for so long counts. A task that only its own program's device can take is none, nor
    /// one that wants only a context: it comes into the queue when it can start, and others would leave room for it alone.
    pub(super) fn overdue(&self) -> Option<&Task> {
        let longest = self.traits.overtake_ns?;
        let queued = self.queue.in_order_of_arrival().filter_map(|id| self.state.tasks.get(&id));
        let mut able = queued.filter(|task| task.requirement > Bytes::ZERO && !self.stays_with_program(task));
        let is_due = |task: &&Task| self.now.saturating_sub(task.asked_at) >= longest;
        if self.lines.has_priorities() { able.find(is_due) } else { able.next().filter(is_due) }
    }

    /// Records the overdue task for the invariants: from the next step on, tasks that start leave it room.
    pub(super) fn note_overdue(&mut self) {
        let first = self.overdue().map(|head| head.id);
        if self.overdue_since.map(|(id, _)| id) != first {
            self.overdue_since = first.map(|id| (id, self.now));
        }
    }

    pub(crate) fn overdue_since(&self) -> Option<(TaskId, Nanos)> {
        self.overdue_since
    }

    /// True if tasks behind an overdue one start where there is room beside it. Otherwise none starts, since devices
    /// may be full by tasks and not by bytes.
    pub(crate) fn passes_beside(&self) -> bool {
        self.traits.starts_by_room && self.traits.memory == MemoryRule::Counted
    }

    /// The overdue task that this one has to leave room for.
    pub(super) fn must_leave_room_for(&self, task: &Task) -> Option<&Task> {
        let head = self.overdue().filter(|head| head.id != task.id && !self.stays_with_program(task))?;
        let is_exempt = self.holds_nothing(task) && self.uid_of(task) != self.uid_of(head);
        (!is_exempt).then_some(head)
    }

    /// The view with which to place a task: room is kept for the overdue task, if this one may not pass it.
    pub(super) fn leaving_room<'a>(&'a self, view: View<'a>, task: &Task) -> View<'a> {
        let since = |head: &Task| {
            Nanos(head.asked_at.0.saturating_add(self.traits.overtake_ns.unwrap_or_default().0))
        };
        let head = self.must_leave_room_for(task).filter(|_| self.passes_beside());
        View { beside: head.map(|head| Beside { head, since: since(head) }), ..view }
    }

    /// Where a task that could start may start beside an overdue one; None if it need not leave room.
    pub(super) fn beside_overdue(&self, view: View<'_>, task: &Task) -> Option<Placement> {
        let head = self.must_leave_room_for(task)?;
        Some(match self.policy_placement(self.leaving_room(view, task), task) {
            Placement::Wait(_) => Placement::Wait(self.why_not_past(head)),
            bind => bind,
        })
    }

    pub(super) fn why_not_past(&self, head: &Task) -> Reason {
        Reason::NotPast { head: head.id, waited: self.now.saturating_sub(head.asked_at) }
    }

    /// True if none of its user's tasks has a device.
    pub(super) fn holds_nothing(&self, task: &Task) -> bool {
        !self.state.bound_by_user.contains_key(&self.uid_of(task))
    }

    /// True if it may start with less than it asks for, if the policy proposes that.
    pub(super) fn may_start_short(&self, task: &Task) -> bool {
        !self.traits.sharing.eager_in_turn
            || self.queue.first_short() == Some(task.id)
            || self.holds_nothing(task)
    }

    pub(super) fn uid_of(&self, task: &Task) -> u32 {
        self.state.clients.get(&task.client).map_or(0, |client| client.uid)
    }
}
