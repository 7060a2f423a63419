//! Read-only tables of tasks and devices, for people and for metrics.
//!
//! The reasons for a wait and for the state of a gate are computed on request, with the numbers of that moment; the
//! action that first reported them may have had others.

use super::{Anomaly, Scheduler};
use crate::action::Gate;
use crate::event::{DeviceProfile, TaskRequest};
use crate::gate;
use crate::model::{Slice, State, Stay, Task, TaskState};
use crate::options::Options;
use crate::policy::{PolicyName, Traits};
use crate::reason::Reason;
use eager_units::{Bytes, Class, ClientId, DeviceId, Nanos, TaskId, Terms};
use std::collections::BTreeMap;

/// One task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskView<'a> {
    pub task: TaskId,
    pub client: ClientId,
    pub uid: u32,
    pub label: &'a str,
    pub request: &'a TaskRequest,
    /// `M` as it stands now.
    pub requirement: Bytes,
    pub asked_at: Nanos,
    pub stage: Stage<'a>,
}

/// State of a task.
#[derive(Debug, Clone, PartialEq)]
pub enum Stage<'a> {
    Waiting {
        reason: Reason,
    },
    Bound {
        device: DeviceId,
        class: Class,
        grant: Bytes,
        managed: bool,
        bound_at: Nanos,
        reason: &'a Reason,
        gate: Gate,
        gate_reason: Reason,
        /// Name of the kernel held at the closed gate, and since when.
        held: Option<(&'a str, Nanos)>,
        all_launched: bool,
        watched: bool,
        promotion_done: bool,
        /// It has the device for longer than it may.
        overstays: bool,
    },
}

/// What a task has had of its device's time, and what it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub nice: i8,
    pub weight: u64,
    /// Sum of the weights of the tasks that want the device, this one included if it does.
    pub load: u64,
    /// Device time that it was charged since it was bound.
    pub service: Nanos,
    /// How far it is behind its share, as device time in nanoseconds; negative where it is ahead. None while it wants no
    /// device time.
    pub lag: Option<i64>,
    pub slice: Option<Slice>,
}

impl Share {
    /// What the task is due of the device's time now, in percent.
    pub fn due_percent(&self) -> f64 {
        let load = if self.lag.is_some() { self.load } else { self.load.saturating_add(self.weight) };
        self.weight as f64 * 100.0 / load.max(1) as f64
    }
}

impl TaskView<'_> {
    /// Terms that a bound task's program gets under a policy with these traits; `None` while the task waits.
    pub fn terms(&self, traits: &Traits) -> Option<Terms> {
        match self.stage {
            Stage::Waiting { .. } => None,
            Stage::Bound { device, class, grant, managed, gate, watched, .. } => Some(Terms {
                device,
                class,
                grant,
                managed: managed || class == Class::Eager,
                releases: traits.habits.release_dead,
                watched,
                gated: gate != Gate::Ungated,
                high_priority: traits.is_urgent(class, self.request),
            }),
        }
    }
}

/// One device.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceView<'a> {
    pub device: DeviceId,
    pub profile: &'a DeviceProfile,
    pub capacity: Bytes,
    pub granted: Bytes,
    /// No new task starts there.
    pub drained: bool,
    /// Its driver does not have it any more.
    pub lost: bool,
    pub contexts: Bytes,
    /// Bytes in use by processes that are not clients (`foreign`), and all bytes in use but granted to no task
    /// (`unaccounted`).
    pub foreign: Bytes,
    pub unaccounted: Bytes,
    pub free: Bytes,
    /// Bytes that eager tasks demand above their grants.
    pub oversubscribed: Bytes,
    /// Normal and promoted tasks.
    pub normal_tasks: u32,
    pub eager_tasks: u32,
}

impl Scheduler {
    /// All tasks of live clients, by id.
    pub fn tasks(&self) -> impl Iterator<Item = TaskView<'_>> {
        self.state.tasks.values().map(|task| self.task_view(task))
    }

    pub fn task(&self, id: TaskId) -> Option<TaskView<'_>> {
        self.state.tasks.get(&id).map(|task| self.task_view(task))
    }

    /// A bound task's share of its device's time; None where the policy does not share it.
    pub fn share(&self, id: TaskId) -> Option<Share> {
        let task = self.state.tasks.get(&id).filter(|_| self.traits.shares_time())?;
        let bound = task.bound()?;
        let device = self.state.devices.get(&bound.device)?;
        let (weight, account) = (self.state.weight_of(task), bound.account);
        Some(Share {
            nice: self.state.clients.get(&task.client)?.nice,
            weight,
            load: self.state.load_of(device),
            service: account.service,
            lag: account.active.then(|| account.lag(weight, self.state.virtual_time_of(device))),
            slice: device.slice_of(id).copied(),
        })
    }

    /// All devices, by id.
    pub fn devices(&self) -> impl Iterator<Item = DeviceView<'_>> {
        self.state.devices.values().map(|device| {
            // Where the ledger does not count memory, the view still shows the memory that the device has.
            let capacity = device.capacity.min(device.task_max);
            let mut view = DeviceView {
                device: device.id,
                profile: &device.profile,
                capacity,
                granted: device.granted,
                drained: device.drained,
                lost: device.lost,
                contexts: device.contexts,
                foreign: device.foreign.confirmed(),
                unaccounted: device.unaccounted,
                free: capacity
                    .saturating_sub(device.granted)
                    .saturating_sub(device.contexts)
                    .saturating_sub(device.unaccounted),
                oversubscribed: Bytes::ZERO,
                normal_tasks: 0,
                eager_tasks: 0,
            };
            for (task, bound) in self.read().tasks_on(device.id) {
                let missing = task.requirement.saturating_sub(bound.grant);
                view.oversubscribed = view.oversubscribed.saturating_add(missing);
                match bound.class {
                    Class::Eager => view.eager_tasks += 1,
                    Class::Normal | Class::Promoted => view.normal_tasks += 1,
                }
            }
            view
        })
    }

    /// Number of events that made no sense, by kind.
    pub fn anomalies(&self) -> &BTreeMap<Anomaly, u64> {
        &self.anomalies
    }

    pub fn policy(&self) -> PolicyName {
        self.name
    }

    pub fn traits(&self) -> Traits {
        self.traits
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The whole state, for checks.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Time of the last step.
    pub fn now(&self) -> Nanos {
        self.now
    }

    pub(super) fn task_view<'a>(&'a self, task: &'a Task) -> TaskView<'a> {
        let owner = self.state.clients.get(&task.client);
        TaskView {
            task: task.id,
            client: task.client,
            uid: owner.map_or(0, |client| client.uid),
            label: owner.map_or("", |client| &client.label),
            request: &task.request,
            requirement: task.requirement,
            asked_at: task.asked_at,
            stage: match &task.state {
                TaskState::Waiting { .. } => Stage::Waiting { reason: self.why_waiting(task) },
                TaskState::Bound(bound) => Stage::Bound {
                    device: bound.device,
                    class: bound.class,
                    grant: bound.grant,
                    managed: bound.managed,
                    bound_at: bound.bound_at,
                    reason: &bound.reason,
                    gate: bound.gate,
                    gate_reason: gate::judge(self.read(), &self.traits, task, bound).reason,
                    held: bound.held.as_ref().map(|(kernel, since)| (kernel.name.as_str(), *since)),
                    all_launched: bound.all_launched,
                    watched: bound.watched,
                    promotion_done: bound.promotion_done,
                    overstays: bound.stay != Stay::Within,
                },
            },
        }
    }
}
