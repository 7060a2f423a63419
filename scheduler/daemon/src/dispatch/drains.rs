//! Drained devices: nothing new starts on them, as an administrator asked. They stay drained when the daemon restarts
//! or its policy is replaced.
//!
//! Trap: the start of a drain is kept on the kernel's monotonic clock, since the daemon's own clock begins anew with
//! each daemon.

use crate::devices::numbering::DeviceStatus;
use crate::dispatch::Dispatch;
use eager_core::event::Event;
use eager_units::{DeviceId, Nanos};
use nix::time::{ClockId, clock_gettime};

/// Nanoseconds since the machine started.
fn monotonic_ns() -> u64 {
    // Cannot fail for this clock; 0 only makes a drain look old.
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(std::time::Duration::ZERO, Into::into);
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// The named device does not exist.
#[derive(Debug, thiserror::Error)]
#[error("there is no GPU {device}: `eager info` lists all GPUs")]
pub struct NoSuchDevice {
    device: u32,
}

impl Dispatch {
    fn has_device(&self, device: DeviceId) -> bool {
        self.core.scheduler.state().devices.contains_key(&device)
    }

    /// Time for which the device has been drained; none if it takes tasks.
    pub fn drained_for(&self, device: DeviceId) -> Option<Nanos> {
        let at_ns = *self.state.kept().drained.get(&device.0)?;
        Some(Nanos(monotonic_ns().saturating_sub(at_ns)))
    }

    /// Drains or undrains the device; returns whether that changed anything.
    pub fn drain(&mut self, device: DeviceId, drained: bool) -> Result<bool, NoSuchDevice> {
        if !self.has_device(device) {
            return Err(NoSuchDevice { device: device.0 });
        }
        if drained == self.drained_for(device).is_some() {
            return Ok(false);
        }
        if drained {
            self.state.drained(device.0, monotonic_ns());
            self.step(Event::Drained { device }, None);
            self.log(format!("{device} is drained: nothing new starts there"));
        } else {
            self.state.undrained(device.0);
            self.step(Event::Undrained { device }, None);
            self.log(format!("{device} takes tasks again"));
        }
        Ok(true)
    }

    /// Restores the drain of a device that was drained when an earlier daemon ended.
    pub fn restore_drain(&mut self, device: DeviceId, at_ns: u64) {
        if self.has_device(device) {
            self.state.drained(device.0, at_ns);
            self.step(Event::Drained { device }, None);
        } else {
            self.log(format!("{device} was drained, and is missing now"));
        }
    }

    /// Applies the status of a device that running programs know.
    pub fn apply_status(&mut self, device: DeviceId, status: DeviceStatus) {
        match status {
            DeviceStatus::Served => {}
            DeviceStatus::NotServed => {
                self.log(format!("{device} is not served any more: tasks that run there may finish"));
                // The device was added, so this cannot fail.
                let _ = self.drain(device, true);
            }
            DeviceStatus::Missing => self.update_lost(device, true),
        }
    }

    /// Drains the drained devices in a new scheduler.
    pub fn repeat_drains(&mut self) {
        let drained: Vec<u32> = self.state.kept().drained.keys().copied().collect();
        drained.into_iter().for_each(|id| self.step(Event::Drained { device: DeviceId(id) }, None));
    }
}
