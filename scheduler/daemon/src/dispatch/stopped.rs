//! Clients whose process is stopped (SIGSTOP): no task waits for kernels of theirs that have ended.
//!
//! A stopped process sends nothing, and its last message may be "busy". That its kernels have ended shows on the
//! device: if no kernel ran there for a while, none of its own did, and a stopped process starts none. Trap: a driver's
//! utilization sample may be a second old, so only a longer rest counts (specification S-719). Later kernels on the
//! device are its neighbours', so only the process's state shows that it goes on.

use crate::clients::identity;
use crate::dispatch::Dispatch;
use eager_core::event::Event;
use eager_core::model::{Bound, Device, Task};
use eager_units::{Class, ClientId, DeviceId, Nanos, TaskId};
use std::collections::BTreeSet;

/// How long a device must have been seen without kernels (specification S-719).
const STILL_NS: Nanos = Nanos::from_secs(2);
/// Most processes that one explanation looks at.
const LOOKS_MAX: usize = 256;

impl Dispatch {
    /// Reports clients to the core as frozen or thawed. Called after each observation of the devices.
    pub fn look_for_stopped(&mut self) {
        let now = self.now();
        let stopped_since = std::mem::take(&mut self.truth.stopped_since);
        for (client, pid) in self.waited_for() {
            let was_frozen =
                self.core.scheduler.state().clients.get(&client).is_some_and(|client| client.frozen);
            let is_stopped = identity::is_stopped_by_signal(pid);
            if was_frozen && !is_stopped {
                self.step(Event::Thawed { client }, None);
            } else if !was_frozen && is_stopped && self.is_at_rest(client) {
                let since = stopped_since.get(&client).copied().unwrap_or(now);
                self.truth.stopped_since.insert(client, since);
                if now.saturating_sub(since) >= STILL_NS {
                    self.log_stopped(client, pid);
                    self.step(Event::Frozen { client }, None);
                }
            }
        }
    }

    fn log_stopped(&mut self, client: ClientId, pid: i32) {
        let Some((label, uid)) = self.clients.get(&client).map(|found| (found.label.clone(), found.peer.uid))
        else {
            return;
        };
        let line =
            format!("{label} (pid {pid}) is stopped, and its kernels have ended: no task waits for them");
        self.log_of_user(Some(uid), line);
    }

    /// Clients whose messages an eager task's gate depends on, clients that hold memory while tasks wait, or a slice while
    /// kernels are held, and frozen clients.
    fn waited_for(&self) -> Vec<(ClientId, i32)> {
        let state = self.core.scheduler.state();
        let bound = || state.tasks.values().filter_map(|task| Some((task, task.bound()?)));
        let shared: BTreeSet<DeviceId> =
            bound().filter(|(_, bound)| bound.class == Class::Eager).map(|(_, bound)| bound.device).collect();
        let is_waited_for = state.tasks.values().any(|task| task.bound().is_none());
        let is_at_gate = |device: &Device| !device.held.is_empty();
        let decides = |(task, bound): (&Task, &Bound)| {
            let is_beside_eager = bound.class != Class::Eager && shared.contains(&bound.device);
            let device = state.devices.get(&bound.device);
            let keeps_others =
                device.is_some_and(|device| is_at_gate(device) && device.slice_of(task.id).is_some());
            (is_waited_for || is_beside_eager || keeps_others).then_some(task.client)
        };
        let frozen = state.clients.values().filter(|client| client.frozen).map(|client| client.id);
        let wanted: BTreeSet<ClientId> = bound().filter_map(decides).chain(frozen).collect();
        let pid = |id: ClientId| Some((id, self.clients.get(&id)?.peer.pid));
        wanted.into_iter().filter_map(pid).collect()
    }

    /// True if no kernel ran on any device where the client has a task.
    fn is_at_rest(&self, client: ClientId) -> bool {
        let state = self.core.scheduler.state();
        let tasks = state.clients.get(&client).into_iter().flat_map(|client| &client.tasks);
        let mut devices = tasks.filter_map(|id| Some(state.tasks.get(id)?.bound()?.device));
        devices.all(|device| self.truth.utilization(device) == Some(0))
    }

    /// Sentences about stopped processes that concern a task: its own, those beside which it runs, and those for which
    /// it may wait.
    pub fn explain_stopped(&self, task: TaskId) -> Vec<String> {
        let state = self.core.scheduler.state();
        let Some(asked) = state.tasks.get(&task) else { return Vec::new() };
        let place = asked.bound().map(|bound| bound.device);
        let concerns = |other: &&Task| {
            let device = other.bound().map(|bound| bound.device);
            other.id == task || device.is_some_and(|device| place.is_none_or(|place| place == device))
        };
        let describe = |other: &Task| {
            let client = self.clients.get(&other.client)?;
            let pid = client.peer.pid;
            if !identity::is_stopped(pid) {
                return None;
            }
            let bound = other.bound();
            let holds = bound.map_or(String::new(), |bound| {
                format!(
                    "; {} keeps its {} on {} until it goes on or ends",
                    other.id, bound.grant, bound.device
                )
            });
            let frozen = state.clients.get(&other.client).is_some_and(|client| client.frozen);
            let ended = if frozen { ". Its kernels have ended, and no task waits for them" } else { "" };
            Some(format!("{} (pid {pid}) is stopped, by a signal or a debugger{holds}{ended}.", client.label))
        };
        state.tasks.values().filter(concerns).take(LOOKS_MAX).filter_map(describe).collect()
    }
}
