//! The only code that changes grants (specification S-103, S-104). It rejects proposals of a policy that do not fit the
//! books.
//!
//! Trap: a client's context is charged once per device and stays until the client is gone, because the process keeps
//! its context after its tasks have ended. Freed with the last task, its memory would be granted twice.

use crate::account::Account;
use crate::action::Gate;
use crate::event::KernelRequest;
use crate::model::{Activity, Bound, Device, State, Stay, Task, TaskState};
use crate::reason::Reason;
use eager_units::{Bytes, Class, ClientId, DeviceId, Nanos, TaskId};
use std::collections::BTreeSet;

/// A binding that a policy proposes.
pub(crate) struct Binding {
    pub task: TaskId,
    pub device: DeviceId,
    pub grant: Bytes,
    pub managed: bool,
    /// The policy starts tasks eagerly, so a grant below the requirement is its choice.
    pub eagerly: bool,
    /// It breaks a circle or is restored, and passes tasks that have waited longer.
    pub out_of_turn: bool,
    pub reason: Reason,
}

impl State {
    /// Adds a new device.
    pub(crate) fn add_device(&mut self, device: Device) {
        let id = device.id;
        self.devices.insert(id, device);
    }

    /// Bytes that a task of this client costs on this device besides its grant: a context's, or 0 if the client's program
    /// has one there.
    pub fn context_cost(&self, device: &Device, client: ClientId, context_bytes: Bytes) -> Bytes {
        if self.has_program(device, client) { Bytes::ZERO } else { context_bytes }
    }

    /// True if the client's program has a context on the device.
    pub(crate) fn has_program(&self, device: &Device, client: ClientId) -> bool {
        self.clients.get(&client).is_some_and(|client| device.programs.contains_key(&client.program()))
    }

    /// Binds a task and reserves its grant. Returns its class; None, with nothing changed, if the books do not allow
    /// it.
    pub(crate) fn bind(&mut self, binding: Binding, context_bytes: Bytes, now: Nanos) -> Option<Class> {
        let task = self.tasks.get(&binding.task)?;
        let context = self.context_cost(self.devices.get(&binding.device)?, task.client, context_bytes);
        let device = self.devices.get_mut(&binding.device)?;
        let wanted = binding.grant.0.checked_add(context.0)?;
        if task.bound().is_some() || binding.grant > task.requirement || wanted > device.free().0 {
            return None;
        }
        device.granted = device.granted.saturating_add(binding.grant);
        device.contexts = device.contexts.saturating_add(context);
        device.warps = device.warps.saturating_add(task.warps());
        device.tasks.insert(binding.task);
        let class = if binding.grant < task.requirement { Class::Eager } else { Class::Normal };
        if class == Class::Eager {
            device.eager.insert(binding.task);
        }
        let client = task.client;
        self.note_context(client, binding.device);
        let task = self.tasks.get_mut(&binding.task)?;
        task.state = TaskState::Bound(Box::new(Bound {
            device: binding.device,
            class,
            grant: binding.grant,
            managed: binding.managed,
            started_eager: class == Class::Eager && binding.eagerly,
            bound_at: now,
            reason: binding.reason,
            gate: Gate::Ungated,
            held: None,
            admitted: None,
            waived_until: None,
            barrier_passed: false,
            all_launched: false,
            // A task that was bound just now has launched nothing; if it is not watched, its activity becomes unknown.
            activity: Activity::Idle,
            watched: false,
            promotion_done: false,
            out_of_turn: binding.out_of_turn,
            account: Account::default(),
            stay: Stay::Within,
        }));
        self.count_bound(client, true);
        self.recount_idle(client);
        Some(class)
    }

    /// Records a context that a client has on a device already, with or without a task there. Returns false, with
    /// nothing changed, if the client or the device is unknown or the context does not fit; then the client's tasks
    /// there do not fit either.
    pub(crate) fn keep_context(&mut self, client: ClientId, id: DeviceId, context_bytes: Bytes) -> bool {
        if !self.clients.contains_key(&client) {
            return false;
        }
        let cost_on = |device| self.context_cost(device, client, context_bytes);
        let Some(cost) = self.devices.get(&id).map(cost_on) else { return false };
        let Some(device) = self.devices.get_mut(&id).filter(|device| device.free() >= cost) else {
            return false;
        };
        device.contexts = device.contexts.saturating_add(cost);
        self.note_context(client, id);
        self.recount_idle(client);
        true
    }

    /// Counts a client with its program on a device, unless it is counted there already.
    fn note_context(&mut self, id: ClientId, on: DeviceId) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        if client.contexts.insert(on)
            && let Some(device) = self.devices.get_mut(&on)
        {
            *device.programs.entry(client.program()).or_default() += 1;
        }
    }

    /// Updates [`Device::idle`] after a change of what a client holds: it counts on its devices until it has held
    /// memory.
    pub(crate) fn recount_idle(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let holds = |task: &Task| task.bound().is_some() && task.requirement > Bytes::ZERO;
        let mut tasks = client.tasks.iter().filter_map(|task| self.tasks.get(task));
        client.has_held = client.has_held || tasks.any(holds);
        let now = if client.has_held { BTreeSet::new() } else { client.contexts.clone() };
        let before = std::mem::replace(&mut client.idle_on, now.clone());
        let uid = client.uid;
        for &device in now.difference(&before) {
            self.count_idle(device, uid, 1);
        }
        for &device in before.difference(&now) {
            self.count_idle(device, uid, -1);
        }
    }

    fn count_idle(&mut self, device: DeviceId, uid: u32, change: i32) {
        let Some(device) = self.devices.get_mut(&device) else { return };
        let idle = device.idle.entry(uid).or_default();
        *idle = idle.saturating_add_signed(change);
        if *idle == 0 {
            device.idle.remove(&uid);
        }
    }

    /// Grants a bound task the `missing` bytes if all are free, otherwise what is free beyond the part left to others.
    /// Returns the bytes added.
    pub(crate) fn grow(&mut self, task: TaskId, missing: Bytes, parts: Option<u64>) -> Bytes {
        let Some((device, _, bound)) = self.bound_parts(task) else { return Bytes::ZERO };
        let free = device.free();
        let added = if missing <= free { missing } else { free.saturating_sub(device.left_to_others(parts)) };
        device.granted = device.granted.saturating_add(added);
        bound.grant = bound.grant.saturating_add(added);
        self.recount_idle_of(task);
        added
    }

    /// Takes memory back from an over-subscribed task, as far as its device lacks the part that such tasks leave to
    /// others (specification S-327).
    pub(crate) fn return_to_others(&mut self, task: TaskId, parts: Option<u64>) {
        let Some((device, _, bound)) = self.bound_parts(task) else { return };
        let lacks = device.left_to_others(parts).saturating_sub(device.free());
        let returned = lacks.min(bound.grant);
        device.granted = device.granted.saturating_sub(returned);
        bound.grant = bound.grant.saturating_sub(returned);
        self.recount_idle_of(task);
    }

    fn recount_idle_of(&mut self, task: TaskId) {
        if let Some(client) = self.tasks.get(&task).map(|task| task.client) {
            self.recount_idle(client);
        }
    }

    /// Lowers the requirement by `bytes`, and the grant to at most the new requirement. None, with nothing changed, if
    /// the requirement is smaller than `bytes`.
    pub(crate) fn shrink(&mut self, task: TaskId, bytes: Bytes) -> Option<()> {
        let (device, requirement, bound) = self.bound_parts(task)?;
        let left = Bytes(requirement.0.checked_sub(bytes.0)?);
        *requirement = left;
        let returned = bound.grant.saturating_sub(left);
        bound.grant = bound.grant.saturating_sub(returned);
        device.granted = device.granted.saturating_sub(returned);
        self.recount_idle_of(task);
        Some(())
    }

    /// Changes a bound task's class.
    pub(crate) fn set_class(&mut self, id: TaskId, class: Class) {
        let Some((device, _, bound)) = self.bound_parts(id) else { return };
        bound.class = class;
        if class == Class::Eager {
            device.eager.insert(id);
        } else {
            device.eager.remove(&id);
        }
    }

    /// Records the kernel that a task holds at its closed gate; if it held one already, the start of the hold is kept.
    pub(crate) fn hold(&mut self, id: TaskId, kernel: KernelRequest, now: Nanos) {
        let Some((device, _, bound)) = self.bound_parts(id) else { return };
        let since = bound.held.as_ref().map_or(now, |(_, since)| *since);
        bound.held = Some((kernel, since));
        device.held.insert((since, id));
    }

    /// Lets a task's held kernel through, if there is one; returns whether there was.
    pub(crate) fn let_through(&mut self, id: TaskId) -> bool {
        let Some((device, _, bound)) = self.bound_parts(id) else { return false };
        bound.barrier_passed = true;
        let Some((kernel, since)) = bound.held.take() else { return false };
        bound.admitted = Some(kernel);
        device.held.remove(&(since, id));
        true
    }

    /// Removes a task and frees what it holds.
    pub(crate) fn remove_task(&mut self, id: TaskId) -> Option<Task> {
        let task = self.tasks.remove(&id)?;
        if task.bound().is_some() {
            self.count_bound(task.client, false);
        }
        if let Some(client) = self.clients.get_mut(&task.client) {
            client.tasks.remove(&id);
        }
        self.recount_idle(task.client);
        if let Some(bound) = task.bound()
            && let Some(device) = self.devices.get_mut(&bound.device)
        {
            device.tasks.remove(&id);
            device.eager.remove(&id);
            if let Some((_, since)) = bound.held {
                device.held.remove(&(since, id));
            }
            device.granted = device.granted.saturating_sub(bound.grant);
            device.warps = if device.warps < u64::MAX {
                device.warps - task.warps()
            } else {
                // The sum may have saturated, so it is recomputed from the remaining tasks.
                let left = device.tasks.iter().filter_map(|id| self.tasks.get(id));
                left.map(Task::warps).fold(0, u64::saturating_add)
            };
        }
        Some(task)
    }

    /// Removes a client; returns its tasks, and the devices on which it had contexts.
    pub(crate) fn remove_client(
        &mut self,
        id: ClientId,
        context_bytes: Bytes,
    ) -> Option<(Vec<Task>, BTreeSet<DeviceId>)> {
        let tasks = self.clients.get(&id)?.tasks.clone();
        let removed = tasks.into_iter().filter_map(|task| self.remove_task(task)).collect();
        let client = self.clients.remove(&id)?;
        self.frozen.remove(&id);
        if let Some(first) = client.first_of_process
            && let Some(later) = self.later_clients.get_mut(&first)
        {
            later.remove(&id);
            if later.is_empty() {
                self.later_clients.remove(&first);
            }
        }
        client.idle_on.iter().for_each(|&device| self.count_idle(device, client.uid, -1));
        for &device in &client.contexts {
            if let Some(device) = self.devices.get_mut(&device)
                && device.remove_client_of(client.program())
            {
                device.contexts = device.contexts.saturating_sub(context_bytes);
            }
        }
        Some((removed, client.contexts))
    }

    fn bound_parts(&mut self, task: TaskId) -> Option<(&mut Device, &mut Bytes, &mut Bound)> {
        let Task { requirement, state, .. } = self.tasks.get_mut(&task)?;
        let TaskState::Bound(bound) = state else { return None };
        Some((self.devices.get_mut(&bound.device)?, requirement, bound))
    }
}
