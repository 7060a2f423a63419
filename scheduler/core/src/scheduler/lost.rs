//! Devices that are gone while tasks are bound there, and devices that come back.
//!
//! Trap: the ledger keeps what is granted on a lost device until its holders end: nobody knows what their programs still
//! believe, and nothing new starts there anyway.

use super::{Anomaly, Retry, Scheduler};
use crate::action::Action;
use crate::reason::Reason;
use eager_units::{DeviceId, TaskId};

impl Scheduler {
    pub(super) fn lose(&mut self, id: DeviceId, out: &mut Vec<Action>) -> Result<(), Anomaly> {
        let device = self.state.devices.get_mut(&id).ok_or(Anomaly::UnknownDevice)?;
        if std::mem::replace(&mut device.lost, true) {
            return Err(Anomaly::RepeatedLoss);
        }
        let holders: Vec<TaskId> = device.tasks.iter().copied().collect();
        for task_id in holders {
            let Some(task) = self.state.tasks.get_mut(&task_id) else { continue };
            let client = task.client;
            let Some(bound) = task.bound_mut() else { continue };
            let reason = Reason::DeviceLost { device: bound.device };
            bound.reason = reason.clone();
            out.push(Action::Stranded { task: task_id, client, reason });
        }
        self.devices_changed(id);
        Ok(())
    }

    pub(super) fn find_again(&mut self, id: DeviceId) -> Result<(), Anomaly> {
        let device = self.state.devices.get_mut(&id).ok_or(Anomaly::UnknownDevice)?;
        if !std::mem::replace(&mut device.lost, false) {
            return Err(Anomaly::RepeatedLoss);
        }
        self.devices_changed(id);
        Ok(())
    }

    /// Who waits may be too large for what is left, or have another place now; and the gates there are judged anew.
    fn devices_changed(&mut self, id: DeviceId) {
        if let Some(device) = self.state.devices.get(&id) {
            self.touched.tasks.extend(device.tasks.iter().map(|&task| (id, task)));
            self.touched.devices.add(id);
        }
        let there = self.state.devices.values().filter(|device| !device.lost);
        self.state.largest_task = there.map(|device| device.task_max).max();
        self.retry = Retry::Everybody;
    }

    /// Why everybody waits when no device is left.
    pub(super) fn none_left(&self) -> Option<Reason> {
        let mut devices = self.state.devices.values();
        let first = devices.clone().next()?.id;
        devices.all(|device| device.lost).then_some(Reason::DeviceLost { device: first })
    }
}
