//! Devices and tasks that a step has touched, and so has to settle: nearly always one device and one task.

use eager_units::{DeviceId, TaskId};

/// A small set of devices in order.
#[derive(Debug, Default)]
pub(super) struct Devices(Vec<DeviceId>);

impl Devices {
    pub fn add(&mut self, id: DeviceId) {
        if let Err(at) = self.0.binary_search(&id) {
            self.0.insert(at, id);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.0.iter().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[derive(Debug, Default)]
pub(super) struct Touched {
    pub devices: Devices,
    /// Bound tasks that an event was about, with their devices.
    pub tasks: Vec<(DeviceId, TaskId)>,
    /// Time alone may have opened or closed any gate.
    pub everything: bool,
}

impl Touched {
    pub fn clear(&mut self) {
        self.devices.clear();
        self.tasks.clear();
        self.everything = false;
    }
}
