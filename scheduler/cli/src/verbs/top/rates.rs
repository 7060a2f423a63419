//! Computes how fast counters rise, from the last snapshots. Pure.
//!
//! Trap: devices are measured twice a second, and snapshots come at other times. A rate over one second would jump,
//! so it is taken over a few seconds.

use eager_proto::snapshot::Snapshot;
use std::collections::{BTreeMap, VecDeque};

/// Older snapshots are dropped.
const WINDOW_MS: u64 = 5000;

/// Bytes paged by each device, at each of the last snapshots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rates {
    seen: VecDeque<(u64, BTreeMap<u32, u64>)>,
}

impl Rates {
    pub fn see(&mut self, snapshot: &Snapshot) {
        let at = snapshot.daemon.uptime_ms;
        // The daemon was restarted, and counts from 0 again.
        if self.seen.back().is_some_and(|(last, _)| *last > at) {
            self.seen.clear();
        }
        let paged = snapshot.devices.iter().filter_map(|device| Some((device.device, device.paged_bytes?)));
        self.seen.push_back((at, paged.collect()));
        while self.seen.len() > 2 && self.seen[0].0 + WINDOW_MS < at {
            self.seen.pop_front();
        }
    }

    /// Bytes per second that a device pages; None if the device does not report it, or after a single snapshot.
    pub fn paging(&self, device: u32) -> Option<u64> {
        let ((first, before), (last, after)) = (self.seen.front()?, self.seen.back()?);
        let (before, after) = (before.get(&device)?, after.get(&device)?);
        let ms = last.checked_sub(*first).filter(|ms| *ms > 0)?;
        Some((u128::from(after.saturating_sub(*before)) * 1000 / u128::from(ms)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_proto::admin::{DaemonRow, DeviceRow};

    fn at(uptime_ms: u64, paged: Option<u64>) -> Snapshot {
        let device = DeviceRow { device: 1, paged_bytes: paged, ..DeviceRow::default() };
        let daemon = DaemonRow { uptime_ms, ..DaemonRow::default() };
        Snapshot { daemon, devices: vec![device], ..Snapshot::default() }
    }

    #[test]
    fn a_rate_is_over_the_last_seconds() {
        let mut rates = Rates::default();
        rates.see(&at(1000, Some(100)));
        assert_eq!(rates.paging(1), None, "seen once");
        rates.see(&at(3000, Some(300)));
        assert_eq!((rates.paging(1), rates.paging(2)), (Some(100), None));
        for second in 4..20 {
            rates.see(&at(second * 1000, Some(300)));
        }
        assert_eq!(rates.paging(1), Some(0), "nothing was paged for longer than the window");
    }

    #[test]
    fn another_daemon_and_a_silent_device_have_no_rate() {
        let mut rates = Rates::default();
        rates.see(&at(9000, Some(100)));
        rates.see(&at(10, Some(0)));
        assert_eq!(rates.paging(1), None);
        rates.see(&at(20, None));
        assert_eq!(rates.paging(1), None);
    }
}
