//! Tasks that may not enter the queue yet: a user holds them, their user has as much as one user may have, their
//! program overruns, or it cannot have its first context.
//!
//! Trap: they wait beside the queue and not in it, because in it they would block other tasks where the first blocks
//! the rest.

use super::{Retry, Scheduler};
use crate::action::Action;
use crate::event::TaskRequest;
use crate::model::Task;
use crate::reason::Reason;
use eager_units::{Bytes, Nanos, TaskId};
use std::collections::BTreeSet;

impl Scheduler {
    /// Why the user may not have this task at all. `itself`: how often the task is counted among the waiting ones.
    pub(super) fn why_over_quota(&self, task: &Task, itself: usize) -> Option<Reason> {
        let (limits, uid) = (&self.options.limits, self.uid_of(task));
        let wanted = task.requirement.saturating_add(self.options.context_bytes);
        if let Some(limit) = limits.user_bytes_max.filter(|limit| wanted > *limit) {
            return Some(Reason::UserMayNot { uid, wanted, limit });
        }
        let limit = limits.user_waiting_max.filter(|_| task.is_new())?;
        let aside = self.aside.iter().filter_map(|id| self.state.tasks.get(id));
        let others = self.lined_up(uid) + aside.filter(|other| self.uid_of(other) == uid).count();
        (others >= limit as usize + itself).then_some(Reason::UserWaits { uid, limit })
    }

    /// Why the user may not have this extension; None if it fits the user's limit.
    pub(super) fn extends_beyond_user(&self, id: TaskId, wanted: Bytes) -> Option<Reason> {
        let limit = self.options.limits.user_bytes_max?;
        let uid = self.uid_of(self.state.tasks.get(&id)?);
        let has = self.read().held_by_user(uid, |task| !self.aside.contains(&task)).total();
        (has.saturating_add(wanted) > limit).then_some(Reason::ExtendsBeyondUser { uid, has, wanted, limit })
    }

    /// Why a task has to wait beside the queue; None if it need not.
    fn why_kept_back(&self, task: &Task) -> Option<Reason> {
        if let Some(by) = task.request.held_by {
            return Some(Reason::Held { by });
        }
        let wait = self.options.limits.overrun_wait_ns;
        let waited = self.now.saturating_sub(task.asked_at);
        if self.is_throttled(task.client) && waited < wait {
            return Some(Reason::Throttled { client: task.client, wait });
        }
        self.why_user_full(task)
            .or_else(|| self.needs_first_context(task).then(|| self.why_no_first_context(task)).flatten())
    }

    fn why_user_full(&self, task: &Task) -> Option<Reason> {
        let limit = self.options.limits.user_bytes_max?;
        let uid = self.uid_of(task);
        let counts = |id| !self.aside.contains(&id);
        let others = self.read().held_by_user(uid, |id| id != task.id && counts(id));
        let all = self.read().held_by_user(uid, |id| id == task.id || counts(id));
        // Were it kept back by contexts alone, the programs that hold these contexts could wait for it in turn
        // (specification S-123).
        let is_first = others.required == Bytes::ZERO && task.requirement > Bytes::ZERO;
        let (has, wanted) = (others.total(), all.total().saturating_sub(others.total()));
        (!is_first && all.total() > limit).then_some(Reason::UserFull { uid, has, wanted, limit })
    }

    /// True if the task wants no memory yet, and its program has no context anywhere.
    fn needs_first_context(&self, task: &Task) -> bool {
        let has_none = |id| self.state.clients.get(id).is_some_and(|client| client.contexts.is_empty());
        let is_empty = task.requirement == Bytes::ZERO && self.options.context_bytes > Bytes::ZERO;
        is_empty && task.bound().is_none() && has_none(&task.client)
    }

    /// Moves a task from the queue to beside it, if it has to wait there; returns whether it has to.
    pub(super) fn put_aside(&mut self, id: TaskId, out: &mut Vec<Action>) -> bool {
        let Some(task) = self.state.tasks.get(&id).cloned() else { return false };
        let Some(reason) = self.why_kept_back(&task) else { return false };
        self.dequeue(&task);
        self.aside.insert(id);
        self.wait(id, reason, out);
        true
    }

    /// Moves tasks that may enter the queue now into it; returns whether there was any.
    pub(super) fn take_from_aside(&mut self) -> bool {
        let mut came = false;
        // All tasks of a user that want only their program's first context wait for the same.
        let mut without_first_context = BTreeSet::new();
        for id in self.aside.clone() {
            let Some(task) = self.state.tasks.get(&id) else { continue };
            let is_alike = self.needs_first_context(task)
                && declares_nothing(&task.request)
                && !self.is_throttled(task.client);
            let uid = self.uid_of(task);
            if is_alike && without_first_context.contains(&uid) {
                continue;
            }
            if self.why_kept_back(task).is_some() {
                without_first_context.extend(is_alike.then_some(uid));
                continue;
            }
            let keeps_place = self.needs_first_context(task);
            self.arrivals += 1;
            let arrival = self.arrivals;
            let Some(task) = self.state.tasks.get_mut(&id) else { continue };
            if !keeps_place {
                // Tasks that started while it was not in the queue have not passed it.
                task.arrival = arrival;
            }
            let task = task.clone();
            self.line_up(&task);
            self.rank(self.uid_of(&task));
            self.aside.remove(&id);
            came = true;
        }
        if came {
            self.retry = Retry::All;
        }
        came
    }

    /// Why a task waits beside the queue. None if it does not, or (for the invariants) if it need not.
    pub(super) fn why_aside(&self, task: &Task) -> Option<Reason> {
        self.aside.contains(&task.id).then(|| self.why_kept_back(task)).flatten()
    }

    /// When the first throttled task has waited for long enough.
    pub(super) fn aside_deadline(&self) -> Option<Nanos> {
        let wait = self.options.limits.overrun_wait_ns;
        let tasks = self.aside.iter().filter_map(|id| self.state.tasks.get(id));
        let throttled = tasks.filter(|task| self.is_throttled(task.client));
        throttled.map(|task| Nanos(task.asked_at.0.saturating_add(wait.0))).filter(|at| *at > self.now).min()
    }
}

/// True if the request declares nothing: two such requests of one user get the same answer.
fn declares_nothing(request: &TaskRequest) -> bool {
    let TaskRequest {
        requirement, blocks, threads_per_block, managed, whole, barred, held_by, estimate, ..
    } = request;
    let is_free = barred.is_empty() && held_by.is_none() && estimate.is_none() && !managed && !whole;
    is_free && *requirement == Bytes::ZERO && *blocks == 0 && *threads_per_block == 0
}
