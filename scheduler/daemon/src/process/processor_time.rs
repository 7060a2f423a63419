//! Processor time, by which users are charged for what they make the daemon do.

use eager_units::Nanos;
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Processor time that this thread has used: what other programs on the machine take is no user's fault.
pub fn processor_time() -> Nanos {
    // It fails for no clock of the process's own.
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default();
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
