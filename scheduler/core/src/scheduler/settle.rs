//! What follows from an event, always in the same order: promotion, queue, gates, watches.
//!
//! Trap: promotion must come before the queue, or a small waiting task takes what the eager task needs to stop paging
//! (eager launch specification §4.3).

use super::{Anomaly, Retry, Scheduler, regrant};
use crate::action::{Action, Class, Gate};
use crate::gate;
use crate::ledger::Binding;
use crate::model::{Activity, Bound, Task, TaskState};
use crate::options::QueueOrder;
use crate::policy::{GateRule, Placement};
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
            Retry::Newcomer(id) => {
                let head = self.queue.head().filter(|&head| head != id);
                self.try_next(id, head, out);
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

    fn queue_order(&self) -> QueueOrder {
        self.options.queue.unwrap_or(self.traits.queue)
    }

    /// Tries those whom what was freed can help. Who waits for memory that no device has is not asked again.
    pub(super) fn try_who_fits(&mut self, out: &mut Vec<Action>) {
        match self.queue_order() {
            QueueOrder::Fifo => while self.queue.head().is_some_and(|head| self.try_one(head, out)) {},
            QueueOrder::LargestFirst => {
                let mut last = None;
                while let Some(next) = self.queue.next_within(self.largest_startable(), last) {
                    self.try_one(next.2, out);
                    last = Some(next);
                }
            }
            QueueOrder::Backfill => {
                let waiting: Vec<TaskId> = self.queue.in_order_of_arrival().collect();
                for id in waiting {
                    let wanted = self.state.tasks.get(&id).map_or(Bytes::ZERO, |task| task.requirement);
                    if wanted <= self.largest_startable() {
                        self.try_one(id, out);
                    }
                }
            }
        }
    }

    /// No task with a larger requirement can start.
    fn largest_startable(&self) -> Bytes {
        if self.traits.eager { Bytes(u64::MAX) } else { self.state.index.most_free() }
    }

    fn try_everybody(&mut self, out: &mut Vec<Action>) {
        let waiting: Vec<TaskId> = match self.queue_order() {
            QueueOrder::LargestFirst => self.queue.largest_first().collect(),
            QueueOrder::Fifo | QueueOrder::Backfill => self.queue.in_order_of_arrival().collect(),
        };
        let mut head = None;
        for id in waiting {
            if !self.try_next(id, head, out) {
                head = head.or(Some(id));
            }
        }
    }

    /// Tries a task behind `head`, the first that must wait. False if it still waits itself.
    fn try_next(&mut self, id: TaskId, head: Option<TaskId>, out: &mut Vec<Action>) -> bool {
        if let Some(reason) = self.too_large(id) {
            self.forget(id);
            out.push(Action::Refuse { task: id, reason });
            return true;
        }
        match head {
            Some(head) if self.queue_order() == QueueOrder::Fifo => {
                self.wait(id, Reason::Behind { head }, out);
                false
            }
            _ => self.try_one(id, out),
        }
    }

    /// True if it was bound.
    fn try_one(&mut self, id: TaskId, out: &mut Vec<Action>) -> bool {
        let Some(task) = self.state.tasks.get(&id) else { return false };
        if self.state.devices.is_empty() {
            self.wait(id, Reason::NoDevice, out);
            return false;
        }
        let (device, grant, reason) = match self.policy.place(self.read(), task) {
            Placement::Wait(reason) => {
                self.wait(id, reason, out);
                return false;
            }
            Placement::Bind { device, grant, reason } => (device, grant, reason),
        };
        let (managed, eagerly) = (self.is_managed(task, grant), self.traits.eager);
        if self.start(Binding { task: id, device, grant, managed, eagerly, reason }, out) {
            return true;
        }
        self.count(Anomaly::DroppedProposal);
        self.wait(id, Reason::ProposalDropped, out);
        false
    }

    pub(super) fn is_managed(&self, task: &Task, grant: Bytes) -> bool {
        task.request.managed
            || self.traits.managed
            || grant < task.requirement
            || (self.traits.eager && self.options.managed_normal_tasks)
    }

    /// Binds a waiting task; false, and nothing changed, if the ledger does not allow it.
    pub(super) fn start(&mut self, binding: Binding, out: &mut Vec<Action>) -> bool {
        let Binding { task: id, device, grant, managed, .. } = binding;
        let reason = binding.reason.clone();
        let Some(class) = self.state.bind(binding, self.options.context_bytes, self.now) else {
            return false;
        };
        if let Some(task) = self.state.tasks.get(&id) {
            self.queue.remove(task);
        }
        self.touch_task(id);
        out.push(Action::Bind { task: id, device, class, grant, managed, reason });
        true
    }

    /// Could this waiting task start as things stand? For the invariants: between steps none can.
    pub(crate) fn could_start(&self, task: &Task) -> bool {
        let first = self.queue.head() == Some(task.id);
        let has_turn = first || self.queue_order() != QueueOrder::Fifo;
        let may_ask = has_turn && !self.state.devices.is_empty();
        may_ask && matches!(self.policy.place(self.read(), task), Placement::Bind { .. })
    }

    /// Requirements that no device can ever hold are refused at once, wherever they stand in the queue.
    fn too_large(&self, id: TaskId) -> Option<Reason> {
        let wanted = self.state.tasks.get(&id)?.requirement;
        let largest = self.read().largest_task()?.saturating_sub(self.options.context_bytes);
        let limit = largest.percent(self.options.oversize_percent_under(self.traits.eager));
        (wanted > limit).then_some(Reason::TooLarge { wanted, largest, limit })
    }

    fn forget(&mut self, id: TaskId) {
        self.touch_task(id);
        if let Some(task) = self.state.remove_task(id) {
            self.queue.remove(&task);
        }
    }

    /// Says it only when the kind of the reason is new: in a long queue the numbers change at every release.
    fn wait(&mut self, id: TaskId, reason: Reason, out: &mut Vec<Action>) {
        let Some(Task { state: TaskState::Waiting { said }, .. }) = self.state.tasks.get_mut(&id) else {
            return;
        };
        if said.replace(reason.code()) != Some(reason.code()) {
            out.push(Action::Wait { task: id, reason });
        }
    }

    /// Is a bound task's gate what it would be if it were judged now? For the invariants.
    pub(crate) fn gate_is_current(&self, task: &Task, bound: &Bound) -> bool {
        gate::judge(self.read(), self.traits.gate, task, bound).gate == bound.gate
    }

    /// Why a waiting task waits, as things stand.
    pub(super) fn why_waiting(&self, task: &Task) -> Reason {
        let head = self.queue.head().filter(|&head| head != task.id);
        match head {
            _ if self.state.devices.is_empty() => Reason::NoDevice,
            Some(head) if self.queue_order() == QueueOrder::Fifo => Reason::Behind { head },
            _ => match self.policy.place(self.read(), task) {
                Placement::Wait(reason) => reason,
                Placement::Bind { .. } => Reason::ProposalDropped,
            },
        }
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
