//! How policies share a device's time: the values by which their rounds differ (specification S-117, S-130).

use crate::options::Options;
use eager_units::Nanos;

/// How a device's time is given to its tasks: in rounds, in which each task that wants the device has a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rounds {
    /// Slices that a device may have at once.
    pub in_flight: u32,
    /// The limit holds only while the tasks that have slices fill the device's warps.
    pub while_saturated: bool,
    pub length: SliceLength,
    pub order: SliceOrder,
}

/// How long a slice lasts while other tasks want the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SliceLength {
    /// [`Options::quantum_ns`] of wall time, or until the task had no kernel for [`Options::quantum_idle_ns`].
    Quantum,
    /// The task's share of [`Options::round_ns`], by the weights of the tasks that want the device, or until it has no
    /// kernel.
    Share,
    /// Until the task has no kernel.
    Endless,
}

/// Which of the tasks that wait for a slice is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SliceOrder {
    /// The one whose kernel has been held at its gate for longest.
    LongestHeld,
    /// Of those that are not ahead of their share, the one whose next slice would end first by its weight (specification
    /// S-133).
    EarliestDeadline,
}

impl Rounds {
    /// One slice at a time, of a fixed length.
    pub const QUANTA: Rounds = Rounds {
        in_flight: 1,
        while_saturated: false,
        length: SliceLength::Quantum,
        order: SliceOrder::LongestHeld,
    };

    /// The rounds, with what the options override.
    pub(crate) fn under(self, options: &Options) -> Rounds {
        Rounds { in_flight: options.in_flight.unwrap_or(self.in_flight).max(1), ..self }
    }

    /// True if tasks are charged for the device's time, so that they have shares and lags.
    pub fn are_charged(self) -> bool {
        self.length != SliceLength::Quantum
    }

    /// For how long the end of the kernels of a slice that is over is waited for; None: until they end.
    pub(crate) fn grace(self, options: &Options) -> Option<Nanos> {
        self.are_charged().then_some(options.round_grace_ns)
    }
}
