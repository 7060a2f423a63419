//! Memory that is in use on the devices beside what was declared.
//!
//! Memory that was not declared cannot be granted: it is subtracted from the device's free memory, whether programs
//! that are not scheduled use it or clients beyond their grants. Trap: ledger and device are never looked at in the
//! same moment, and a program that frees and then ends seems to use too much in between. So what counts is the smaller
//! of the last two looks (specification S-709).

use super::{Anomaly, Retry, Scheduler};
use crate::action::Action;
use crate::event::ClientUse;
use crate::limits::Measure;
use crate::model::{Bound, Overrun, Seen, State, Task};
use crate::reason::Reason;
use eager_units::{Bytes, ClientId, DeviceId};
use std::collections::BTreeMap;

impl Scheduler {
    /// True if what was seen on a device differs from the ledger, or from what was seen before. If not, no event is
    /// needed.
    pub fn is_news(&self, device: DeviceId, foreign: Bytes, clients: &[ClientUse]) -> bool {
        let known = self.state.devices.get(&device).is_some_and(|device| device.foreign != Seen::default())
            || self.state.overruns.keys().any(|(_, on)| *on == device);
        let beyond = |usage: &ClientUse| usage.bytes > self.declared(usage.client, device);
        known || foreign > Bytes::ZERO || clients.iter().any(beyond)
    }

    pub(super) fn observe(
        &mut self,
        id: DeviceId,
        foreign: Bytes,
        clients: Vec<ClientUse>,
        out: &mut Vec<Action>,
    ) -> Result<(), Anomaly> {
        let device = self.state.devices.get_mut(&id).ok_or(Anomaly::UnknownDevice)?;
        device.foreign = device.foreign.push(foreign);
        let used: BTreeMap<ClientId, Bytes> =
            clients.iter().map(|usage| (usage.client, usage.bytes)).collect();
        for &client in used.keys().filter(|client| self.state.clients.contains_key(client)) {
            if self.beyond(client, id, used[&client]) > Bytes::ZERO {
                self.state.overruns.entry((client, id)).or_default();
            }
        }
        let known: Vec<ClientId> = self.state.overrunning(id).collect();
        for client in known {
            let beyond = self.beyond(client, id, used.get(&client).copied().unwrap_or_default());
            if let Some(overrun) = self.state.overruns.get_mut(&(client, id)) {
                overrun.beyond = overrun.beyond.push(beyond);
            }
            self.judge(client, id, out);
        }
        self.state.overruns.retain(|(_, on), overrun| *on != id || overrun.beyond != Seen::default());
        self.state.take_into_account(id);
        self.touched.devices.add(id);
        self.retry = Retry::Fitting;
        Ok(())
    }

    /// Reports once that a program overruns, when it does so beyond what drivers and libraries add.
    fn judge(&mut self, client: ClientId, device: DeviceId, out: &mut Vec<Action>) {
        let declared = self.declared(client, device);
        let tolerated = declared.percent(self.options.limits.overrun_percent);
        let tolerated = tolerated.saturating_add(self.options.context_bytes);
        let Some(overrun) = self.state.overruns.get_mut(&(client, device)) else { return };
        let beyond = overrun.beyond.confirmed();
        let is_over = beyond > tolerated;
        if is_over && !overrun.reported {
            let used = declared.saturating_add(beyond);
            let reason = Reason::Overruns { client, device, used, declared };
            out.push(Action::Overrun { client, measure: self.options.limits.overrun, reason });
        }
        overrun.reported = is_over;
    }

    /// Bytes that a client uses beyond what it declared. What it asks for while it waits counts as declared, or it
    /// would wait for its own memory.
    fn beyond(&self, client: ClientId, device: DeviceId, used: Bytes) -> Bytes {
        used.saturating_sub(self.declared(client, device)).saturating_sub(self.asked(client))
    }

    /// Bytes that the ledger has for a client on a device: its grants and its context.
    fn declared(&self, id: ClientId, device: DeviceId) -> Bytes {
        self.on_device(id, device, |_, bound| bound.grant)
    }

    /// Most bytes that a client uses on a device by its own account: all that its tasks there require, granted or not,
    /// and its context.
    pub fn may_use(&self, id: ClientId, device: DeviceId) -> Bytes {
        self.on_device(id, device, |task, _| task.requirement)
    }

    fn on_device(&self, id: ClientId, device: DeviceId, of: impl Fn(&Task, &Bound) -> Bytes) -> Bytes {
        let Some(client) = self.state.clients.get(&id) else { return Bytes::ZERO };
        let context =
            if client.contexts.contains(&device) { self.options.context_bytes } else { Bytes::ZERO };
        let tasks = client.tasks.iter().filter_map(|task| self.state.tasks.get(task));
        let here =
            tasks.filter_map(|task| Some((task, task.bound().filter(|bound| bound.device == device)?)));
        here.map(|(task, bound)| of(task, bound)).sum::<Bytes>().saturating_add(context)
    }

    fn asked(&self, id: ClientId) -> Bytes {
        let tasks = self.state.clients.get(&id).into_iter().flat_map(|client| &client.tasks);
        let waiting =
            tasks.filter_map(|task| self.state.tasks.get(task)).filter(|task| task.bound().is_none());
        waiting.map(|task| task.requirement).sum()
    }

    /// Deducts a client's new request from its overruns, since what it has already may be what it asks for. Returns
    /// whether it had any.
    pub(super) fn forgive(&mut self, client: ClientId, asked: Bytes) -> bool {
        let devices: Vec<DeviceId> = self.state.overruns_of(client).map(|(device, _)| device).collect();
        for &device in &devices {
            if let Some(overrun) = self.state.overruns.get_mut(&(client, device)) {
                overrun.beyond = overrun.beyond.deduct(asked);
            }
            self.state.take_into_account(device);
            self.touched.devices.add(device);
        }
        !devices.is_empty()
    }

    /// Removes the overruns of a client that is gone.
    pub(super) fn forget_use(&mut self, client: ClientId) {
        let devices: Vec<DeviceId> = self.state.overruns_of(client).map(|(device, _)| device).collect();
        for device in devices {
            self.state.overruns.remove(&(client, device));
            self.state.take_into_account(device);
            self.touched.devices.add(device);
            self.retry = Retry::Fitting;
        }
    }

    /// True if the client uses more than it declared, and its further tasks have to wait for that.
    pub(super) fn is_throttled(&self, client: ClientId) -> bool {
        self.options.limits.overrun == Measure::Throttle
            && self.state.overruns_of(client).any(|(_, overrun)| overrun.reported)
    }
}

impl State {
    fn overrunning(&self, device: DeviceId) -> impl Iterator<Item = ClientId> + '_ {
        self.overruns.keys().filter(move |(_, on)| *on == device).map(|(client, _)| *client)
    }

    pub(crate) fn overruns_of(&self, client: ClientId) -> impl Iterator<Item = (DeviceId, &Overrun)> {
        let range = (client, DeviceId(0))..=(client, DeviceId(u32::MAX));
        self.overruns.range(range).map(|((_, device), overrun)| (*device, overrun))
    }

    /// Bytes that are in use on a device and were never granted.
    pub(crate) fn unaccounted_on(&self, device: DeviceId) -> Bytes {
        let foreign = self.devices.get(&device).map_or(Bytes::ZERO, |device| device.foreign.confirmed());
        let overruns = self.overruns.iter().filter(|((_, on), _)| *on == device);
        overruns.map(|(_, overrun)| overrun.beyond.confirmed()).fold(foreign, Bytes::saturating_add)
    }

    /// Subtracts the unaccounted bytes from the device's free memory.
    pub(crate) fn take_into_account(&mut self, id: DeviceId) {
        let unaccounted = self.unaccounted_on(id);
        if let Some(device) = self.devices.get_mut(&id) {
            device.unaccounted = unaccounted;
        }
    }
}
