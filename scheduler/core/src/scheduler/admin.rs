//! What people ask for beside the programs: devices that take nothing new.
//!
//! Trap: whatever is asked for here changes only what *starts*. What runs keeps its device and its grant, and gets more
//! of it as before.

use super::{Anomaly, Retry, Scheduler};
use crate::model::{Task, View};
use crate::policy::Placement;
use crate::reason::Reason;
use crate::units::DeviceId;

impl Scheduler {
    pub(super) fn drain(&mut self, id: DeviceId, drained: bool) -> Result<(), Anomaly> {
        let device = self.state.devices.get_mut(&id).ok_or(Anomaly::UnknownDevice)?;
        if device.drained == drained {
            return Err(Anomaly::RepeatedDrain);
        }
        device.drained = drained;
        if drained {
            self.state.drained.insert(id);
        } else {
            self.state.drained.remove(&id);
        }
        // What was said of those who wait may not hold any more, whichever way it went.
        self.retry = Retry::Everybody;
        Ok(())
    }

    /// The drained device that keeps a task waiting: it would start there, or there is no other.
    pub(super) fn keeps_drained(&self, view: View<'_>, task: &Task) -> Option<Reason> {
        let first = *self.state.drained.first()?;
        let without_drains = View { ignores_drains: true, ..view };
        match self.place(without_drains, task) {
            Placement::Bind { device, .. } if self.state.drained.contains(&device) => {
                Some(Reason::Drained { device })
            }
            _ if self.state.drained.len() == self.state.devices.len() => {
                Some(Reason::Drained { device: first })
            }
            _ => None,
        }
    }
}
