//! Replaces the policy: makes a new scheduler with the state of the old one.
//!
//! All of it is one step. Bound tasks keep their devices and grants, whatever the new policy would have done; waiting
//! tasks are asked again in the old order. If a bound task cannot keep its device, nothing changes at all.

use super::{Anomaly, Retry, Scheduler, regrant};
use crate::action::{Action, Gate};
use crate::event::Restored;
use crate::model::{Bound, Client, Task, TaskState};
use crate::policy::{GateRule, PolicyName};
use crate::reason::Reason;
use std::collections::BTreeSet;

impl Scheduler {
    pub(super) fn set_policy(&mut self, name: PolicyName, out: &mut Vec<Action>) -> Result<(), Anomaly> {
        let mut actions = Vec::new();
        *self = self.transfer_to(Scheduler::new(name, self.options.clone()), &mut actions)?;
        out.append(&mut actions);
        Ok(())
    }

    /// Transfers the state of this scheduler to `next`, which has none yet.
    pub(super) fn transfer_to(
        &self,
        mut next: Scheduler,
        out: &mut Vec<Action>,
    ) -> Result<Scheduler, Anomaly> {
        next.now = self.now;
        next.silent_since = self.now;
        next.asked_last = self.asked_last;
        next.anomalies = self.anomalies.clone();
        self.hand_over_devices_and_clients(&mut next);
        let mut tasks: Vec<&Task> = self.state.tasks.values().collect();
        tasks.sort_by_key(|task| (task.arrival, task.id));
        for (task, bound) in tasks.iter().filter_map(|task| Some((*task, task.bound()?))) {
            next.take_over(task, bound, out)?;
        }
        for device in self.state.devices.values().filter(|device| device.lost) {
            // These actions are dropped: tasks there got them when the device was lost.
            next.lose_device(device.id, &mut Vec::new())?;
        }
        for task in tasks.into_iter().filter(|task| task.bound().is_none()) {
            next.requeue(task, out);
        }
        next.arrivals = self.arrivals;
        next.state.overruns = self.state.overruns.clone();
        let devices: Vec<_> = next.state.devices.keys().copied().collect();
        devices.into_iter().for_each(|device| next.state.take_into_account(device));
        next.retry = Retry::All;
        next.touch_all();
        Ok(next)
    }

    fn hand_over_devices_and_clients(&self, next: &mut Scheduler) {
        for device in self.state.devices.values() {
            // The new scheduler has no devices yet, so none is a duplicate.
            let _ = next.add_device(device.id, device.profile.clone());
            if let Some(new) = next.state.devices.get_mut(&device.id) {
                new.foreign = device.foreign;
                new.drained = device.drained;
            }
        }
        next.uninformed_gone = self.uninformed_gone;
        for client in self.state.clients.values() {
            // As it was, but for what it has: also a client of a process whose first client has gone.
            next.state.insert_client(Client {
                tasks: BTreeSet::new(),
                contexts: BTreeSet::new(),
                idle_on: BTreeSet::new(),
                frozen: false,
                ..client.clone()
            });
            for &device in &client.contexts {
                next.state.keep_context(client.id, device, self.options.context_bytes);
            }
        }
    }

    /// Takes over a bound task as it was, and emits actions for what differs, so that a journal has them.
    fn take_over(&mut self, task: &Task, old: &Bound, out: &mut Vec<Action>) -> Result<(), Anomaly> {
        let id = task.id;
        // A grant that does not fit any more is cut, which is counted and reported.
        if let Err(anomaly) = self.restore_one(restored(task, old)) {
            self.state.tasks.get(&id).ok_or(anomaly)?;
            self.count(anomaly);
        }
        let held = old.held.clone().filter(|_| self.traits.gate != GateRule::None);
        let gates = self.traits.gate != GateRule::None;
        if let Some(new) = self.state.tasks.get_mut(&id) {
            (new.asked_at, new.arrival) = (task.asked_at, task.arrival);
        }
        let new = self.bound(id)?;
        new.bound_at = old.bound_at;
        new.barrier_passed = old.barrier_passed;
        new.admitted = old.admitted.clone();
        if (new.grant, new.class) == (old.grant, old.class) {
            new.reason = old.reason.clone();
        } else {
            new.reason = Reason::Cut { device: new.device, had: old.grant, grant: new.grant };
            out.push(regrant(id, new));
        }
        if old.watched {
            out.push(Action::Watch { task: id, on: false });
        }
        if gates {
            // Judged anew in this step, and reported if it differs.
            self.bound(id)?.gate = old.gate;
        } else if old.gate != Gate::Ungated {
            out.push(Action::SetGate { task: id, gate: Gate::Ungated, reason: Reason::NoGate });
        }
        if let Some((kernel, since)) = held {
            self.state.hold(id, kernel, since);
        }
        Ok(())
    }

    fn requeue(&mut self, task: &Task, out: &mut Vec<Action>) {
        let id = task.id;
        if let Some(client) = self.state.clients.get_mut(&task.client) {
            client.tasks.insert(id);
        }
        let task = Task { state: TaskState::Waiting { last_reported: None }, ..task.clone() };
        self.line_up(&task);
        self.state.tasks.insert(id, task);
        // Tasks behind the queue are not asked with it.
        if let Some(reason) = self.why_behind(id) {
            self.wait(id, reason, out);
        }
    }
}

fn restored(task: &Task, bound: &Bound) -> Restored {
    Restored {
        task: task.id,
        client: task.client,
        request: task.request.clone(),
        device: bound.device,
        class: bound.class,
        grant: bound.grant,
        requirement: task.requirement,
        managed: bound.managed,
        all_launched: bound.all_launched,
        promotion_done: bound.promotion_done,
    }
}
