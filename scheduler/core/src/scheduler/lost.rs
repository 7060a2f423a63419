//! Devices that are lost while tasks are bound there, and devices that return.
//!
//! The ledger keeps grants on a lost device until their tasks end: the programs may still count on them, and no new
//! task starts there anyway.

use super::{Anomaly, Retry, Scheduler};
use crate::action::Action;
use crate::reason::Reason;
use eager_units::{DeviceId, TaskId};

impl Scheduler {
    pub(super) fn lose_device(&mut self, id: DeviceId, out: &mut Vec<Action>) -> Result<(), Anomaly> {
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

    pub(super) fn recover_device(&mut self, id: DeviceId) -> Result<(), Anomaly> {
        let device = self.state.devices.get_mut(&id).ok_or(Anomaly::UnknownDevice)?;
        if !std::mem::replace(&mut device.lost, false) {
            return Err(Anomaly::RepeatedLoss);
        }
        self.devices_changed(id);
        Ok(())
    }

    /// Waiting tasks may be too large for the remaining devices or have another place now, and gates there are judged
    /// anew.
    fn devices_changed(&mut self, id: DeviceId) {
        if let Some(device) = self.state.devices.get(&id) {
            self.touched.tasks.extend(device.tasks.iter().map(|&task| (id, task)));
            self.touched.devices.add(id);
        }
        self.retry = Retry::All;
    }

    /// Why every task waits if no device is left; None if one is.
    pub(super) fn why_all_lost(&self) -> Option<Reason> {
        let mut devices = self.state.devices.values();
        let first = devices.clone().next()?.id;
        devices.all(|device| device.lost).then_some(Reason::DeviceLost { device: first })
    }
}
