//! Terms of a bound task: the core decides them, the daemon shows them, the program follows them.

use crate::{Bytes, Class, DeviceId};

/// Terms of a bound task. `D`: the device's number, the daemon's or the program's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms<D = DeviceId> {
    pub device: D,
    pub class: Class,
    /// Memory that is reserved for it.
    pub grant: Bytes,
    /// What it allocates must be managed memory, since the device may have less for it.
    pub managed: bool,
    /// The memory of dead buffers is to be returned.
    pub releases: bool,
    /// Changes between busy and idle are to be reported.
    pub watched: bool,
    /// Its kernels start only when the gate admits them.
    pub gated: bool,
    /// Its kernels are launched with high priority.
    pub high_priority: bool,
}

impl<D> Terms<D> {
    /// Terms that a task keeps while it has none: nothing is granted, nothing wanted.
    pub const fn none(device: D) -> Terms<D> {
        Terms {
            device,
            class: Class::Normal,
            grant: Bytes::ZERO,
            managed: false,
            releases: false,
            watched: false,
            gated: false,
            high_priority: false,
        }
    }

    /// True if it runs over-subscribed.
    pub fn is_eager(&self) -> bool {
        self.class == Class::Eager
    }

    /// True if the task was promoted since `earlier`.
    pub fn promoted_since(&self, earlier: &Terms<D>) -> bool {
        self.class == Class::Promoted && earlier.class != Class::Promoted
    }

    /// The same terms with another number for the device.
    pub fn on<E>(self, device: E) -> Terms<E> {
        let Terms { device: _, class, grant, managed, releases, watched, gated, high_priority } = self;
        Terms { device, class, grant, managed, releases, watched, gated, high_priority }
    }
}
