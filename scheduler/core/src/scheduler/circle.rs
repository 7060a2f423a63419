//! Breaks circular waits: when all programs that hold something wait themselves, one of them goes on.
//!
//! A program keeps its context on a device after its task has ended there, and may hold a task while it asks for
//! another. If every such program waits, none gives anything back, and all would wait for ever (CASE has no rule for
//! this; specification S-107). Then the first of them starts with what is free, over-subscribed in managed memory, like
//! an extension that does not fit (S-106). Where none of them can run over-subscribed, the first is refused: its
//! program frees what it holds, or fails, as it would on a full device without Eager.
//!
//! Trap: a program with several threads may wait with one and work with another, which cannot be seen here. So a circle
//! counts only when no program in it has sent an event for a while ([`crate::Options::circle_ns`]).

use super::Scheduler;
use crate::action::Action;
use crate::ledger::Binding;
use crate::model::Task;
use crate::policy::most_free;
use crate::reason::Reason;
use eager_units::{Nanos, TaskId};

impl Scheduler {
    /// Starts the first task of a circle when it is due.
    pub(super) fn break_circle(&mut self, out: &mut Vec<Action>) {
        if self.circle_deadline().is_none_or(|due| due > self.now) {
            return;
        }
        self.silent_since = self.now;
        let way_out = self.holders().find_map(|task| self.way_out(task));
        let gone = match way_out {
            Some(binding) => self.start(binding, out),
            None => self.refuse_holder(out),
        };
        if gone {
            // It may have been the head that blocked the others.
            self.try_fitting(out);
        }
    }

    fn refuse_holder(&mut self, out: &mut Vec<Action>) -> bool {
        let first = self.holders().find_map(|task| {
            let (device, most) = most_free(self.read(), task)?;
            Some((task.id, Reason::NoWayOut { wanted: task.requirement, most, device: device.id }))
        });
        let Some((task, reason)) = first else { return false };
        self.forget(task);
        out.push(Action::Refuse { task, reason });
        true
    }

    /// When the programs that wait in a circle will have been silent for long enough; None without a circle.
    pub(super) fn circle_deadline(&self) -> Option<Nanos> {
        // Goes through the clients, since there may be many waiting tasks. One that does not wait gives memory back.
        let holders = || self.state.clients.values().filter(|client| !client.contexts.is_empty());
        let all_wait = || holders().all(|client| self.state.waiting_of(client).next().is_some());
        let may_go_on = |client| self.state.waiting_of(client).any(|task| task.request.held_by.is_none());
        let is_circle = all_wait() && holders().any(may_go_on);
        is_circle.then(|| Nanos(self.silent_since.0.saturating_add(self.options.circle_ns.0)))
    }

    /// The waiting tasks whose programs hold something, in order of arrival.
    fn holders(&self) -> impl Iterator<Item = &Task> {
        let holds = |task: &Task| {
            self.state.clients.get(&task.client).is_some_and(|client| !client.contexts.is_empty())
        };
        let waiting =
            self.queue.in_order_of_arrival().chain(self.aside.iter().copied()).chain(self.lines.behind());
        let tasks = waiting.filter_map(|id: TaskId| self.state.tasks.get(&id));
        // A held task waits for a person, and nothing else helps.
        tasks.filter(move |task| task.request.held_by.is_none() && holds(task))
    }

    fn way_out(&self, task: &Task) -> Option<Binding> {
        let (device, free) = most_free(self.read(), task)?;
        let grant = free.min(task.requirement);
        if task.request.whole && grant < task.requirement {
            return None;
        }
        let reason = Reason::BreaksCircle { device: device.id, wanted: task.requirement, granted: grant };
        let managed = self.is_managed(task, grant);
        Some(Binding {
            task: task.id,
            device: device.id,
            grant,
            managed,
            eagerly: false,
            out_of_turn: true,
            reason,
        })
    }
}
