//! Decides which programs may have a context on a device: memory that a program takes there before it holds any of its
//! own.
//!
//! A context stays until its program ends, and cannot be evicted. Programs that hold only contexts would keep tasks
//! from starting that all of them wait for, so their contexts are bounded, for each user and for all together
//! (specification S-121). Contexts are bounded under policies that do not count memory, too (S-122).

use crate::model::{Device, Task, View};
use crate::reason::Reason;
use eager_units::{Bytes, TaskId};
use std::collections::BTreeMap;

/// Contexts of one user's programs that hold no memory may take one part of this many of a device: an eighth.
const IDLE_OF_USER: u64 = 8;
/// Such contexts of all users' programs together may take one part of this many: half.
const IDLE_OF_ALL: u64 = 2;
/// Contexts may take one part of this many under policies that do not count memory: half.
const UNCOUNTED: u64 = 2;

impl View<'_> {
    /// Why the task's program may have no context on the device; None if it may, or has one.
    pub(crate) fn why_no_context(&self, device: &Device, task: &Task) -> Option<Reason> {
        let context = self.state.context_cost(device, task.client, self.options.context_bytes);
        if context == Bytes::ZERO {
            return None;
        }
        let is_counted = device.capacity <= device.task_max;
        if !is_counted && device.contexts.saturating_add(context) > Bytes(device.task_max.0 / UNCOUNTED) {
            return Some(Reason::NoRoomForContext { context });
        }
        if task.requirement == Bytes::ZERO
            && let Some(reason) = self.too_many_idle(device, task)
        {
            return Some(reason);
        }
        self.second_beyond_user(task, context)
    }

    /// Why a program that holds nothing yet may have no context there: too many such programs have one. A single one
    /// always may.
    fn too_many_idle(&self, device: &Device, task: &Task) -> Option<Reason> {
        let uid = self.state.clients.get(&task.client)?.uid;
        let context = self.options.context_bytes;
        let (user, all) = (device.task_max.0 / IDLE_OF_USER, device.task_max.0 / IDLE_OF_ALL);
        let is_full = |idle: u32, share: u64| {
            let with_it = context.0.saturating_mul(u64::from(idle).saturating_add(1));
            idle > 0 && with_it > share
        };
        let of_user = device.idle.get(&uid).copied().unwrap_or_default();
        let of_all = device.idle.values().fold(0, |sum: u32, idle| sum.saturating_add(*idle));
        let is_bounded = is_full(of_user, user) || is_full(of_all, all);
        let (device, user, all) = (device.id, Bytes(user), Bytes(all));
        is_bounded.then_some(Reason::ContextsIdle { device, uid, user, all })
    }

    /// Why a program with a context elsewhere may not have a further one under its user's limit. Its first context was
    /// counted when its task asked.
    fn second_beyond_user(&self, task: &Task, context: Bytes) -> Option<Reason> {
        let limit = self.options.limits.user_bytes_max?;
        let client = self.state.clients.get(&task.client).filter(|client| !client.contexts.is_empty())?;
        let has = self.held_by_user(client.uid, |_| true).total();
        let (uid, wanted) = (client.uid, context);
        (has.saturating_add(wanted) > limit).then_some(Reason::UserFull { uid, has, wanted, limit })
    }

    /// Memory that the tasks of a user that `counts` accepts require, and that the contexts of their programs take.
    /// Looks at all tasks, so it is used only where there is a limit.
    pub(crate) fn held_by_user(&self, uid: u32, counts: impl Fn(TaskId) -> bool) -> Held {
        let clients = self.state.clients.values().filter(|client| client.uid == uid);
        let mut contexts: BTreeMap<_, usize> =
            clients.map(|client| (client.id, client.contexts.len())).collect();
        let mut required = Bytes::ZERO;
        for task in self.state.tasks.values().filter(|task| counts(task.id)) {
            if let Some(contexts) = contexts.get_mut(&task.client) {
                required = required.saturating_add(task.requirement);
                // The program will have a context, wherever the task goes.
                *contexts = (*contexts).max(1);
            }
        }
        let count: usize = contexts.values().sum();
        Held { required, contexts: Bytes(self.options.context_bytes.0.saturating_mul(count as u64)) }
    }

    /// Why a task may go nowhere, if nothing but its program's context keeps it out.
    pub(crate) fn why_no_context_anywhere(&self, task: &Task) -> Option<Reason> {
        let is_open = self.openness(task);
        let mut open = self.state.devices.values().filter(|device| is_open(device));
        let first = self.why_no_context(open.next()?, task)?;
        open.all(|device| self.why_no_context(device, task).is_some()).then_some(first)
    }

    /// Of the devices that are as loaded as `best` and fit, the one where the task's context costs least: one where its
    /// program has it already, or for a program that will hold nothing yet the one with the fewest such programs.
    pub(crate) fn cheapest_like<'a>(
        &'a self,
        best: &'a Device,
        task: &Task,
        fits: impl Fn(&Device) -> bool,
    ) -> &'a Device {
        if self.options.context_bytes == Bytes::ZERO {
            return best;
        }
        let devices = &self.state.devices;
        let load = |device: &Device| (device.warps, device.tasks.len());
        let is_alike = |device: &&Device| load(device) == load(best) && fits(device);
        let own = self.state.clients.get(&task.client).map(|client| &client.contexts);
        let mut own_devices = own.into_iter().flatten().filter_map(|id| devices.get(id));
        if let Some(own) = own_devices.find(is_alike) {
            return own;
        }
        if task.requirement > Bytes::ZERO {
            return best;
        }
        let idle =
            |device: &&Device| (device.idle.values().map(|idle| u64::from(*idle)).sum::<u64>(), device.id);
        devices.values().filter(is_alike).min_by_key(idle).unwrap_or(best)
    }
}

/// Memory that counts against a user's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub required: Bytes,
    pub contexts: Bytes,
}

impl Held {
    pub fn total(self) -> Bytes {
        self.required.saturating_add(self.contexts)
    }
}
