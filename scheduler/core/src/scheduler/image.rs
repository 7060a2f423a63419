//! The whole state of a scheduler as plain data, with which a journal can begin anywhere.
//!
//! Trap: a field that is missing here lets a journal replay differently, long after the place where it begins. So
//! [`Image::of`] names every field of the scheduler, and a new field does not compile until it is listed. Fields that
//! follow from the others are left out and recomputed; reading an image gives a consistent scheduler or an error,
//! whatever the image contains.

use super::revert::Replaced;
use super::{Anomaly, Retry, Scheduler};
use crate::invariants::{self, Violation};
use crate::model::{Client, Device, Overrun, Task};
use crate::options::Options;
use crate::policy::faulty::Fault;
use crate::policy::{Policy, PolicyName};
use eager_units::{ClientId, DeviceId, Nanos, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Image of a scheduler. Policy and options are beside it, in the journal's header.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Image {
    now: Nanos,
    arrivals: u64,
    asked_last: Option<Nanos>,
    silent_since: Nanos,
    promotion_expected: Option<Nanos>,
    reversions: u32,
    replaced: Option<ReplacedImage>,
    /// Only in tests of faulty policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fault: Option<Fault>,
    anomalies: BTreeMap<Anomaly, u64>,
    devices: Vec<Device>,
    clients: Vec<Client>,
    tasks: Vec<Task>,
    aside: BTreeSet<TaskId>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    behind: BTreeSet<TaskId>,
    overruns: Vec<(ClientId, DeviceId, Overrun)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uninformed_gone: Option<Nanos>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ReplacedImage {
    policy: PolicyName,
    agreed: u32,
    needed: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fault: Option<Fault>,
}

/// The data is not the image of any scheduler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidImage {
    #[error("{what} occurs twice")]
    Twice { what: String },
    #[error("{what} is missing")]
    Missing { what: String },
    #[error("it contradicts itself: {0}")]
    Unsound(#[from] Violation),
}

impl Image {
    /// Takes an image between two steps; None if nothing has happened yet.
    pub fn of(scheduler: &Scheduler) -> Option<Image> {
        let Scheduler {
            name: _,
            policy,
            traits: _,
            options: _,
            state,
            anomalies,
            now,
            arrivals,
            asked_last,
            queue: _,
            aside,
            lines,
            retry: _,
            touched: _,
            silent_since,
            promotion_expected,
            replaced,
            reversions,
            uninformed_gone,
            overdue_since: _,
        } = scheduler;
        let image = Image {
            now: *now,
            arrivals: *arrivals,
            asked_last: *asked_last,
            silent_since: *silent_since,
            promotion_expected: *promotion_expected,
            reversions: *reversions,
            replaced: replaced.as_ref().map(ReplacedImage::of),
            fault: policy.fault,
            anomalies: anomalies.clone(),
            devices: state.devices.values().cloned().collect(),
            clients: state.clients.values().cloned().collect(),
            tasks: state.tasks.values().cloned().collect(),
            aside: aside.clone(),
            behind: lines.behind().collect(),
            overruns: state.overruns.iter().map(|(&(client, on), &overrun)| (client, on, overrun)).collect(),
            uninformed_gone: *uninformed_gone,
        };
        (image != Image::blank()).then_some(image)
    }

    fn blank() -> Image {
        Image {
            now: Nanos::default(),
            arrivals: 0,
            asked_last: None,
            silent_since: Nanos::default(),
            promotion_expected: None,
            reversions: 0,
            replaced: None,
            fault: None,
            anomalies: BTreeMap::new(),
            devices: Vec::new(),
            clients: Vec::new(),
            tasks: Vec::new(),
            aside: BTreeSet::new(),
            behind: BTreeSet::new(),
            overruns: Vec::new(),
            uninformed_gone: None,
        }
    }

    /// Time of the last step.
    pub fn now(&self) -> Nanos {
        self.now
    }

    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    pub fn clients(&self) -> &[Client] {
        &self.clients
    }

    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }
}

impl ReplacedImage {
    fn of(replaced: &Replaced) -> ReplacedImage {
        let Replaced { name, policy, agreed, needed } = replaced;
        ReplacedImage { policy: *name, agreed: *agreed, needed: *needed, fault: policy.fault }
    }

    fn restore(self) -> Replaced {
        let ReplacedImage { policy: name, agreed, needed, fault } = self;
        Replaced { name, policy: Policy::with_fault(name, fault), agreed, needed }
    }
}

impl Scheduler {
    /// Makes a scheduler that has the state of the image and decides like the one from which the image was taken.
    ///
    /// # Errors
    /// The image contradicts itself.
    pub fn from_image(name: PolicyName, options: Options, image: Image) -> Result<Scheduler, InvalidImage> {
        let policy = Policy::with_fault(name, image.fault);
        let mut scheduler = Scheduler::with(name, policy, options);
        scheduler.now = image.now;
        scheduler.arrivals = image.arrivals;
        scheduler.asked_last = image.asked_last;
        scheduler.silent_since = image.silent_since;
        scheduler.promotion_expected = image.promotion_expected;
        scheduler.reversions = image.reversions;
        scheduler.uninformed_gone = image.uninformed_gone;
        scheduler.replaced = image.replaced.map(ReplacedImage::restore);
        scheduler.anomalies = image.anomalies;
        scheduler.aside = image.aside;
        scheduler.restore_devices(image.devices)?;
        scheduler.restore_clients(image.clients)?;
        let overruns = image.overruns.into_iter();
        scheduler.state.overruns = overruns.map(|(client, on, overrun)| ((client, on), overrun)).collect();
        image.tasks.into_iter().try_for_each(|task| scheduler.restore_task(task, &image.behind))?;
        scheduler.sum_up();
        invariants::check_books(&scheduler)?;
        Ok(scheduler)
    }

    fn restore_devices(&mut self, devices: Vec<Device>) -> Result<(), InvalidImage> {
        for device in devices {
            let id = device.id;
            // An image that was not written to a file still has the sums; they are taken anew.
            let device = Device { programs: BTreeMap::new(), warps: 0, ..device };
            if self.state.devices.insert(id, device).is_some() {
                return Err(InvalidImage::Twice { what: id.to_string() });
            }
        }
        Ok(())
    }

    fn restore_clients(&mut self, clients: Vec<Client>) -> Result<(), InvalidImage> {
        for client in clients {
            if let Some(device) = client.contexts.iter().find(|id| !self.state.devices.contains_key(*id)) {
                return Err(InvalidImage::Missing { what: device.to_string() });
            }
            let id = client.id;
            if self.state.insert_client(client).is_some() {
                return Err(InvalidImage::Twice { what: id.to_string() });
            }
        }
        Ok(())
    }

    /// Adds a task in the place that its state names, and counts it there.
    fn restore_task(&mut self, task: Task, behind: &BTreeSet<TaskId>) -> Result<(), InvalidImage> {
        let id = task.id;
        if task.bound().is_none() && !self.aside.contains(&id) {
            self.restore_in_line(&task, behind.contains(&id));
        }
        let state = &mut self.state;
        let missing = |what: String| InvalidImage::Missing { what };
        let client = state.clients.get_mut(&task.client).ok_or_else(|| missing(task.client.to_string()))?;
        client.tasks.insert(id);
        match task.bound() {
            None => {}
            Some(bound) => {
                let device = state.devices.get_mut(&bound.device);
                let device = device.ok_or_else(|| missing(bound.device.to_string()))?;
                device.tasks.insert(id);
                device.eager.extend((bound.class == eager_units::Class::Eager).then_some(id));
                device.held.extend(bound.held.as_ref().map(|(_, since)| (*since, id)));
                device.warps = device.warps.saturating_add(task.warps());
            }
        }
        if task.bound().is_some() {
            state.count_bound(task.client, true);
        }
        match state.tasks.insert(id, task) {
            None => Ok(()),
            Some(_) => Err(InvalidImage::Twice { what: id.to_string() }),
        }
    }

    /// Recomputes what is kept beside devices, clients and tasks so that a step need not look at all of them.
    fn sum_up(&mut self) {
        let frozen = self.state.clients.values().filter(|client| client.frozen);
        self.state.frozen = frozen.map(|client| client.id).collect();
        let clients: Vec<ClientId> = self.state.clients.keys().copied().collect();
        clients.into_iter().for_each(|id| self.state.recount_idle(id));
        for client in self.state.clients.values() {
            for id in &client.contexts {
                if let Some(device) = self.state.devices.get_mut(id) {
                    *device.programs.entry(client.program()).or_default() += 1;
                }
            }
        }
        self.retry = Retry::None;
    }
}
