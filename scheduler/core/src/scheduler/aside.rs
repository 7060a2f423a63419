//! Tasks that may not stand in the queue yet: somebody holds them, their user has as much as a user may have, or their
//! program overruns.
//!
//! Trap: they stand beside the queue and not in it, because there they would hold up others where the first blocks the rest.

use super::{Retry, Scheduler};
use crate::action::Action;
use crate::model::Task;
use crate::reason::Reason;
use crate::units::{Bytes, Nanos, TaskId};

impl Scheduler {
    /// Tasks that a user may not have at all.
    pub(super) fn over_quota(&self, task: &Task, itself: usize) -> Option<Reason> {
        let (limits, uid, wanted) = (&self.options.limits, self.uid_of(task), task.requirement);
        if let Some(limit) = limits.user_bytes_max.filter(|limit| wanted > *limit) {
            return Some(Reason::UserMayNot { uid, wanted, limit });
        }
        let limit = limits.user_waiting_max.filter(|_| task.is_new())?;
        let aside = self.aside.iter().filter_map(|id| self.state.tasks.get(id));
        let others = self.lined_up(uid) + aside.filter(|other| self.uid_of(other) == uid).count();
        (others >= limit as usize + itself).then_some(Reason::UserWaits { uid, limit })
    }

    /// An extension that its user may not have.
    pub(super) fn extends_beyond_user(&self, id: TaskId, wanted: Bytes) -> Option<Reason> {
        let limit = self.options.limits.user_bytes_max?;
        let uid = self.uid_of(self.state.tasks.get(&id)?);
        let has = self.sum_of(uid, None);
        (has.saturating_add(wanted) > limit).then_some(Reason::ExtendsBeyondUser { uid, has, wanted, limit })
    }

    /// A user's tasks that run or stand in the queue, but for one.
    fn sum_of(&self, uid: u32, but: Option<TaskId>) -> Bytes {
        let counts = |task: &&Task| Some(task.id) != but && !self.aside.contains(&task.id);
        self.tasks_of(uid).filter(counts).map(|task| task.requirement).sum()
    }

    /// Why a task has to stand beside the queue.
    fn kept_back(&self, task: &Task) -> Option<Reason> {
        if let Some(by) = task.request.held_by {
            return Some(Reason::Held { by });
        }
        let wait = self.options.limits.overrun_wait_ns;
        let waited = self.now.saturating_sub(task.asked_at);
        if self.is_throttled(task.client) && waited < wait {
            return Some(Reason::Throttled { client: task.client, wait });
        }
        let limit = self.options.limits.user_bytes_max?;
        let (uid, wanted) = (self.uid_of(task), task.requirement);
        let has = self.sum_of(uid, Some(task.id));
        (has.saturating_add(wanted) > limit).then_some(Reason::UserFull { uid, has, wanted, limit })
    }

    /// Takes a newcomer out of the queue again if it has to be.
    pub(super) fn put_aside(&mut self, id: TaskId, out: &mut Vec<Action>) -> bool {
        let Some(task) = self.state.tasks.get(&id).cloned() else { return false };
        let Some(reason) = self.kept_back(&task) else { return false };
        self.dequeue(&task);
        self.aside.insert(id);
        self.wait(id, reason, out);
        true
    }

    /// Puts into the queue who may stand there now; says whether anybody came.
    pub(super) fn take_from_aside(&mut self) -> bool {
        let mut came = false;
        for id in self.aside.clone() {
            if self.state.tasks.get(&id).is_none_or(|task| self.kept_back(task).is_some()) {
                continue;
            }
            self.arrivals += 1;
            let Some(task) = self.state.tasks.get_mut(&id) else { continue };
            // Who started while it was not in the queue has not passed it.
            task.arrival = self.arrivals;
            let task = task.clone();
            self.line_up(&task);
            self.aside.remove(&id);
            came = true;
        }
        if came {
            self.retry = Retry::Everybody;
        }
        came
    }

    /// Why a task stands beside the queue, if it does. None also means that it need not: for the invariants.
    pub(super) fn why_aside(&self, task: &Task) -> Option<Reason> {
        self.aside.contains(&task.id).then(|| self.kept_back(task)).flatten()
    }

    /// When the first of them has waited for long enough.
    pub(super) fn aside_deadline(&self) -> Option<Nanos> {
        let wait = self.options.limits.overrun_wait_ns;
        let tasks = self.aside.iter().filter_map(|id| self.state.tasks.get(id));
        let throttled = tasks.filter(|task| self.is_throttled(task.client));
        throttled.map(|task| Nanos(task.asked_at.0.saturating_add(wait.0))).filter(|at| *at > self.now).min()
    }

    /// Looks at all tasks: only where there is a limit.
    fn tasks_of(&self, uid: u32) -> impl Iterator<Item = &Task> {
        self.state.tasks.values().filter(move |task| self.uid_of(task) == uid)
    }
}
