//! Restores tasks that held memory under an earlier scheduler.
//!
//! Their memory is in use whatever this ledger has. A grant that does not fit any more (the device was configured
//! smaller) is cut to what is free and counted, and its task is over-subscribed from then on.

use super::{Anomaly, Retry, Scheduler};
use crate::event::Restored;
use crate::ledger::Binding;
use crate::model::{Activity, Task, TaskState, View};
use crate::reason::Reason;
use eager_units::{Class, ClientId, DeviceId};

impl Scheduler {
    pub(super) fn restore(
        &mut self,
        tasks: Vec<Restored>,
        contexts: &[(ClientId, DeviceId)],
    ) -> Result<(), Anomaly> {
        let mut result = Ok(());
        // Before the tasks: a context cannot be evicted, a grant can be cut.
        for &(client, device) in contexts {
            if !self.state.keep_context(client, device, self.options.context_bytes) {
                result = Err(Anomaly::NotRestored);
            }
        }
        for restored in tasks {
            result = self.restore_one(restored).and(result);
        }
        self.retry = Retry::Fitting;
        result
    }

    pub(super) fn restore_one(&mut self, restored: Restored) -> Result<(), Anomaly> {
        let Restored { task: id, client, device, .. } = restored;
        if self.state.tasks.contains_key(&id) {
            return Err(Anomaly::DuplicateTask);
        }
        if !self.state.clients.contains_key(&client) {
            return Err(Anomaly::UnknownClient);
        }
        let free = {
            let device = self.state.devices.get(&device).ok_or(Anomaly::NotRestored)?;
            // The task runs there already.
            let view = View { ignores_drains: true, ..self.read() };
            let there = Some(device).filter(|device| view.takes_tasks(device));
            there.and_then(|device| view.free_beside_context(device, client)).ok_or(Anomaly::NotRestored)?
        };
        let wanted = restored.grant.min(restored.requirement);
        let grant = wanted.min(free);
        self.arrivals += 1;
        if let Some(client) = self.state.clients.get_mut(&client) {
            client.tasks.insert(id);
        }
        let task = Task {
            id,
            client,
            requirement: restored.requirement,
            request: restored.request,
            asked_at: self.now,
            arrival: self.arrivals,
            state: TaskState::Waiting { last_reported: None },
        };
        self.state.tasks.insert(id, task);
        let reason = Reason::Restored { device, grant };
        let managed = restored.managed;
        let binding = Binding { task: id, device, grant, managed, eagerly: false, out_of_turn: true, reason };
        let (context_bytes, now) = (self.options.context_bytes, self.now);
        if self.state.bind(binding, context_bytes, now).is_none() {
            self.state.remove_task(id);
            return Err(Anomaly::NotRestored);
        }
        let bound = self.bound(id)?;
        if bound.class == Class::Normal && restored.class == Class::Promoted {
            bound.class = Class::Promoted;
            bound.promotion_done = restored.promotion_done;
        }
        bound.all_launched = restored.all_launched;
        // Its kernels went on while it was not watched.
        bound.activity = Activity::Unknown;
        if grant < wanted {
            return Err(Anomaly::NotRestored);
        }
        Ok(())
    }
}
