//! What follows from an event, always in the same order: promotion, queue, gates, watches.
//!
//! Trap: promotion must come before the queue, or a small waiting task takes what the eager task needs to stop paging
//! (eager launch specification §4.3).

use super::{Retry, Scheduler, regrant};
use crate::action::{Action, Class, Gate};
use crate::gate;
use crate::model::{Activity, Bound, Task};
use crate::policy::GateRule;
use crate::reason::Reason;
use crate::units::{Bytes, DeviceId, Nanos, TaskId};
use std::collections::BTreeSet;

/// How long the gate stays open after a kernel was held for the longest time allowed: enough to be seen.
const WAIVER: Nanos = Nanos::from_secs(1);

impl Scheduler {
    pub(super) fn settle(&mut self, out: &mut Vec<Action>) {
        if self.options.hold_ns_max.is_some() {
            // Time alone may have opened or closed any gate.
            self.touch_all();
        }
        match std::mem::replace(&mut self.retry, Retry::Nobody) {
            Retry::Nobody => {}
            Retry::Newcomer(id) => self.try_newcomer(id, out),
            Retry::NewcomerAndWhoFits(id) => {
                self.try_newcomer(id, out);
                self.try_who_fits(out);
            }
            Retry::WhoFits => {
                self.promote(out);
                self.try_who_fits(out);
            }
            Retry::Everybody => {
                self.promote(out);
                self.try_everybody(out);
            }
        }
        self.break_circle(out);
        self.expect_promotions();
        // A kernel let through may end the reason to hold another: until nothing changes any more.
        while !self.touched.is_empty() {
            let devices: Vec<DeviceId> = std::mem::take(&mut self.touched).into_iter().collect();
            self.settle_turns(&devices);
            self.settle_gates(&devices, out);
            self.settle_watches(&devices, out);
        }
    }

    /// Free memory goes to the eager tasks of its device, the longest bound first.
    fn promote(&mut self, out: &mut Vec<Action>) {
        let devices: Vec<DeviceId> = self.touched.iter().copied().collect();
        for device in devices {
            let mut eager: Vec<(Nanos, u64, TaskId)> = self
                .read()
                .tasks_on(device)
                .filter(|(_, bound)| bound.class == Class::Eager)
                .map(|(task, bound)| (bound.bound_at, task.arrival, task.id))
                .collect();
            eager.sort();
            for (_, _, task) in eager {
                self.grow(task, out);
            }
        }
    }

    fn grow(&mut self, id: TaskId, out: &mut Vec<Action>) {
        let Some(requirement) = self.state.tasks.get(&id).map(|task| task.requirement) else { return };
        let grant = self.state.tasks.get(&id).and_then(Task::bound).map_or(Bytes::ZERO, |bound| bound.grant);
        let added = self.state.grow(id, requirement.saturating_sub(grant));
        if added == Bytes::ZERO {
            return;
        }
        let Ok(bound) = self.bound(id) else { return };
        let missing = requirement.saturating_sub(bound.grant);
        if missing == Bytes::ZERO {
            bound.class = Class::Promoted;
            bound.reason = Reason::Promoted { added, requirement };
        } else {
            bound.reason = Reason::Grows { added, missing };
        }
        out.push(regrant(id, bound));
        let device = bound.device;
        self.state.reindex(device);
    }

    /// Is a bound task's gate what it would be if it were judged now? For the invariants.
    pub(crate) fn gate_is_current(&self, task: &Task, bound: &Bound) -> bool {
        gate::judge(self.read(), self.traits.gate, task, bound).gate == bound.gate
    }

    fn settle_gates(&mut self, devices: &[DeviceId], out: &mut Vec<Action>) {
        if self.traits.gate == GateRule::None {
            return;
        }
        for id in self.bound_tasks(devices) {
            self.settle_gate(id, out);
        }
    }

    fn bound_tasks(&self, devices: &[DeviceId]) -> Vec<TaskId> {
        let devices = devices.iter().filter_map(|device| self.state.devices.get(device));
        devices.flat_map(|device| device.tasks.iter().copied()).collect()
    }

    fn settle_gate(&mut self, id: TaskId, out: &mut Vec<Action>) {
        self.waive(id);
        let Some(task) = self.state.tasks.get(&id) else { return };
        let Some(bound) = task.bound() else { return };
        let verdict = gate::judge(self.read(), self.traits.gate, task, bound);
        let Ok(bound) = self.bound(id) else { return };
        let goes = verdict.gate != Gate::Hold && let_through(bound);
        if verdict.gate != bound.gate {
            out.push(Action::SetGate { task: id, gate: verdict.gate, reason: verdict.reason.clone() });
            bound.gate = verdict.gate;
        }
        bound.gate_reason = verdict.reason;
        if goes {
            self.touch_task(id);
        }
    }

    /// Opens the gate for a while when its kernel was held for the longest time allowed.
    fn waive(&mut self, id: TaskId) {
        let (now, hold_ns_max) = (self.now, self.options.hold_ns_max);
        let Ok(bound) = self.bound(id) else { return };
        if bound.waived_until.is_some_and(|until| until <= now) {
            bound.waived_until = None;
        }
        if let (Some((_, since)), Some(longest)) = (&bound.held, hold_ns_max)
            && now.saturating_sub(*since) >= longest
        {
            bound.waived_until = Some(Nanos(now.0.saturating_add(WAIVER.0)));
        }
    }

    /// Normal tasks beside an eager one that is judged kernel by kernel are watched, and tasks in their turn; no others.
    fn settle_watches(&mut self, devices: &[DeviceId], out: &mut Vec<Action>) {
        if !matches!(self.traits.gate, GateRule::PerKernel | GateRule::Turns) {
            return;
        }
        let with_eager: BTreeSet<DeviceId> =
            devices.iter().copied().filter(|&device| self.read().eager_tasks_on(device) > 0).collect();
        for id in self.bound_tasks(devices) {
            let on = self.should_watch(id, &with_eager);
            let Ok(bound) = self.bound(id) else { continue };
            if bound.watched != on {
                bound.watched = on;
                out.push(Action::Watch { task: id, on });
            }
            if !on {
                bound.activity = Activity::Unknown;
            }
        }
    }

    fn should_watch(&self, id: TaskId, with_eager: &BTreeSet<DeviceId>) -> bool {
        let Some(bound) = self.state.tasks.get(&id).and_then(Task::bound) else { return false };
        let turn = self.state.devices.get(&bound.device).and_then(|device| device.turn);
        match self.traits.gate {
            GateRule::Turns => turn.is_some_and(|turn| turn.task == id),
            _ => bound.class != Class::Eager && with_eager.contains(&bound.device),
        }
    }
}

/// The kernel at the gate, if any, may start; says whether one was there.
fn let_through(bound: &mut Bound) -> bool {
    bound.barrier_passed = true;
    let held = bound.held.take();
    let goes = held.is_some();
    if let Some((kernel, _)) = held {
        bound.admitted = Some(kernel);
    }
    goes
}
