//! Settles what follows from an event, always in the same order: promotion, queue, gates, watches.
//!
//! Trap: promotion must come before the queue, or a small waiting task takes what the eager task needs to stop paging
//! (specification S-207).

use super::touched::Touched;
use super::{Retry, Scheduler, regrant};
use crate::action::{Action, Gate};
use crate::gate;
use crate::model::{Activity, Bound, Device, Task};
use crate::policy::GateRule;
use crate::reason::Reason;
use eager_units::{Bytes, Class, DeviceId, Nanos, TaskId};
use std::collections::BTreeSet;

/// How long the gate stays open after a kernel was held for the longest time allowed: enough for the program to see it
/// (specification S-218).
const WAIVER: Nanos = Nanos::from_secs(1);

impl Scheduler {
    pub(super) fn settle(&mut self, out: &mut Vec<Action>) {
        self.touch_held_long();
        if let Some(id) = self.take_newcomer() {
            self.try_newcomer(id, out);
        }
        match std::mem::replace(&mut self.retry, Retry::None) {
            Retry::None => {}
            Retry::Newcomer(id) => self.try_newcomer(id, out),
            Retry::NewcomerAndFitting(id) => {
                self.try_newcomer(id, out);
                self.try_fitting(out);
            }
            Retry::Fitting => {
                self.promote(out);
                self.try_fitting(out);
            }
            Retry::All => {
                self.promote(out);
                self.try_all(out);
            }
        }
        self.break_circle(out);
        self.expect_promotions();
        if self.traits.gate == GateRule::None {
            self.touched.clear();
            return;
        }
        // A kernel let through may end the reason to hold another, so this repeats until nothing changes.
        while !self.touched.devices.is_empty() {
            let mut now = std::mem::take(&mut self.touched);
            self.settle_rounds(&mut now);
            let judged = self.settle_gates(&now, out);
            self.settle_watches(&now, judged, out);
        }
        self.touched.clear();
    }

    /// Grants free memory to the eager tasks of its device, the one bound longest first.
    fn promote(&mut self, out: &mut Vec<Action>) {
        let mut eager: Vec<(DeviceId, Nanos, u64, TaskId)> = Vec::new();
        for device in self.touched.devices.iter().filter_map(|id| self.state.devices.get(&id)) {
            if device.free() > Bytes::ZERO {
                let tasks = device.eager.iter().filter_map(|id| self.state.tasks.get(id));
                let bound = tasks.filter_map(|task| Some((task, task.bound()?)));
                eager.extend(bound.map(|(task, bound)| (device.id, bound.bound_at, task.arrival, task.id)));
            }
        }
        eager.sort();
        for (_, _, _, task) in eager {
            self.grow(task, out);
        }
    }

    fn grow(&mut self, id: TaskId, out: &mut Vec<Action>) {
        let Some(requirement) = self.state.tasks.get(&id).map(|task| task.requirement) else { return };
        let grant = self.state.tasks.get(&id).and_then(Task::bound).map_or(Bytes::ZERO, |bound| bound.grant);
        let added = self.state.grow(id, requirement.saturating_sub(grant), self.traits.sharing.eager_leaves);
        if added == Bytes::ZERO {
            return;
        }
        let Ok(bound) = self.bound(id) else { return };
        let (device, missing) = (bound.device, requirement.saturating_sub(bound.grant));
        self.touched.tasks.push((device, id));
        let Ok(bound) = self.bound(id) else { return };
        if missing == Bytes::ZERO {
            bound.reason = Reason::Promoted { added, requirement };
            self.state.set_class(id, Class::Promoted);
        } else {
            bound.reason = Reason::Grows { added, missing };
        }
        if let Ok(bound) = self.bound(id) {
            out.push(regrant(id, bound));
        }
    }

    /// True if a bound task's gate is what it would be if it were judged now; for the invariants.
    pub(crate) fn gate_is_current(&self, task: &Task, bound: &Bound) -> bool {
        gate::judge(self.read(), &self.traits, task, bound).gate == bound.gate
    }

    /// Judges anew the tasks whose gates may have changed: those that the event was about, and eager ones, whose gates
    /// depend on other tasks of their device. A normal task has a gate only in rounds, where its own slice decides.
    fn settle_gates(&mut self, now: &Touched, out: &mut Vec<Action>) -> Vec<TaskId> {
        let tasks = self.look_at(now, |device| if now.everything { &device.tasks } else { &device.eager });
        tasks.iter().for_each(|&id| self.settle_gate(id, out));
        tasks
    }

    /// The touched tasks, and the `others` of each touched device, in order of devices and tasks.
    fn look_at(&self, now: &Touched, others: impl Fn(&Device) -> &BTreeSet<TaskId>) -> Vec<TaskId> {
        let mut tasks = now.tasks.clone();
        for device in now.devices.iter().filter_map(|id| self.state.devices.get(&id)) {
            tasks.extend(others(device).iter().map(|&task| (device.id, task)));
        }
        tasks.sort_unstable();
        tasks.dedup();
        tasks.into_iter().map(|(_, task)| task).collect()
    }

    fn settle_gate(&mut self, id: TaskId, out: &mut Vec<Action>) {
        if self.traits.hold_ns_max.is_some() {
            self.waive(id);
        }
        let Some(task) = self.state.tasks.get(&id) else { return };
        let Some(bound) = task.bound() else { return };
        let (verdict, before) = (gate::judge(self.read(), &self.traits, task, bound), bound.gate);
        let was_let_through = bound.barrier_passed && bound.held.is_none();
        let gate = verdict.gate;
        if gate != before {
            let Ok(bound) = self.bound(id) else { return };
            bound.gate = gate;
            out.push(Action::SetGate { task: id, gate, reason: verdict.reason });
        }
        if gate != Gate::Hold && !was_let_through && self.state.let_through(id) {
            self.touch_task(id);
        }
    }

    /// Marks devices on which time alone may have opened or closed gates.
    fn touch_held_long(&mut self) {
        let now = self.now;
        let is_due = |device: &&Device| self.held_until(device).is_some_and(|at| at <= now);
        let due: Vec<DeviceId> = self.state.devices.values().filter(is_due).map(|device| device.id).collect();
        due.into_iter().for_each(|device| self.touched.devices.add(device));
    }

    /// When a kernel on the device will have been held for the longest time allowed, or a waiver there ends; None if
    /// neither.
    pub(super) fn held_until(&self, device: &Device) -> Option<Nanos> {
        let longest = self.traits.hold_ns_max?;
        let held = device.held.first().map(|(since, _)| Nanos(since.0.saturating_add(longest.0)));
        let gated = if self.traits.rounds().is_some() { &device.tasks } else { &device.eager };
        let waived = gated.iter().filter_map(|id| self.state.tasks.get(id)?.bound()?.waived_until).min();
        [held, waived].into_iter().flatten().min()
    }

    /// Opens the gate for a while when its kernel was held for the longest time allowed.
    fn waive(&mut self, id: TaskId) {
        let (now, hold_ns_max) = (self.now, self.traits.hold_ns_max);
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

    /// Watches normal tasks beside an eager one that is judged kernel by kernel, and tasks that have a slice; no
    /// others. The activity of a task that is not watched is forgotten. `judged`: in rounds, the only tasks that may
    /// have to be watched from now on, or no longer.
    fn settle_watches(&mut self, now: &Touched, judged: Vec<TaskId>, out: &mut Vec<Action>) {
        let tasks = match self.traits.gate {
            GateRule::PerKernel | GateRule::WhileIdle => self.look_at(now, |device| &device.tasks),
            GateRule::Rounds(_) => judged,
            GateRule::None | GateRule::Barrier => return,
        };
        tasks.into_iter().for_each(|id| self.settle_watch(id, out));
    }

    fn settle_watch(&mut self, id: TaskId, out: &mut Vec<Action>) {
        let Some(bound) = self.state.tasks.get(&id).and_then(Task::bound) else { return };
        let on = self.should_watch(id, bound);
        let is_so = bound.watched == on && (on || bound.activity == Activity::Unknown);
        if is_so {
            return;
        }
        let Ok(bound) = self.bound(id) else { return };
        if !on {
            bound.activity = Activity::Unknown;
        }
        if std::mem::replace(&mut bound.watched, on) != on {
            out.push(Action::Watch { task: id, on });
        }
    }

    fn should_watch(&self, id: TaskId, bound: &Bound) -> bool {
        let Some(device) = self.state.devices.get(&bound.device) else { return false };
        match self.traits.gate {
            GateRule::Rounds(_) => device.slice_of(id).is_some(),
            _ => bound.class != Class::Eager && !device.eager.is_empty(),
        }
    }
}
