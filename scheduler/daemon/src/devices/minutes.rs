//! Utilization and memory of each device over the last minutes, for small plots. Pure.
//!
//! Observations do not come at even times, so a moment is a span of time, with the mean of the observations in it.

use eager_proto::snapshot::{Minutes as Row, Moment};
use eager_units::{Bytes, DeviceId, Nanos};
use std::collections::{BTreeMap, VecDeque};

/// Length of a moment, and how many are kept: five minutes (specification S-723).
const MOMENT_NS: Nanos = Nanos::from_secs(5);
const MOMENTS_MAX: usize = 60;

/// Moments of each device, newest last.
#[derive(Debug, Default)]
pub struct Minutes {
    devices: BTreeMap<DeviceId, VecDeque<Sum>>,
}

/// Sums over the observations of one moment.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    number: u64,
    observations: u64,
    resident: u64,
    /// Observations that reported utilization; some do not.
    reported: u64,
    percent: u64,
}

impl Minutes {
    /// Takes in an observation of a device.
    pub fn add(&mut self, now: Nanos, device: DeviceId, resident: Bytes, utilization: Option<u32>) {
        let number = now.0 / MOMENT_NS.0;
        let moments = self.devices.entry(device).or_default();
        if moments.back().is_none_or(|last| last.number != number) {
            moments.push_back(Sum { number, ..Sum::default() });
        }
        while moments.front().is_some_and(|first| first.number + MOMENTS_MAX as u64 <= number) {
            moments.pop_front();
        }
        if let Some(sum) = moments.back_mut() {
            sum.observations += 1;
            // The sum of one moment's observations is far below 2^64 bytes.
            sum.resident = sum.resident.saturating_add(resident.0);
            sum.reported += u64::from(utilization.is_some());
            sum.percent += u64::from(utilization.unwrap_or_default());
        }
    }

    /// The kept moments, in spans of equal length that end now; a span without an observation is empty.
    pub fn rows(&self, now: Nanos) -> Vec<Row> {
        let number = now.0 / MOMENT_NS.0;
        let row = |(device, moments): (&DeviceId, &VecDeque<Sum>)| {
            let first = moments.front().map_or(number, |first| first.number);
            let first = first.max((number + 1).saturating_sub(MOMENTS_MAX as u64));
            let at = |wanted: u64| moments.iter().find(|sum| sum.number == wanted).map(Sum::moment);
            let moments = (first..=number).map(|wanted| at(wanted).unwrap_or_default()).collect();
            Row { device: device.0, moment_ms: MOMENT_NS.0 / 1_000_000, moments }
        };
        self.devices.iter().map(row).collect()
    }
}

impl Sum {
    fn moment(&self) -> Moment {
        let mean = |sum: u64, count: u64| sum.checked_div(count);
        Moment {
            utilization_percent: mean(self.percent, self.reported).and_then(|mean| u32::try_from(mean).ok()),
            resident_bytes: mean(self.resident, self.observations),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Nanos {
        Nanos::from_secs(second)
    }

    #[test]
    fn a_moment_is_the_mean_of_its_looks_and_gaps_stay_empty() {
        let mut minutes = Minutes::default();
        for (second, resident, utilization) in
            [(0, 100, None), (1, 200, Some(40)), (3, 300, Some(60)), (16, 8, Some(1))]
        {
            minutes.add(at(second), DeviceId(1), Bytes(resident), utilization);
        }
        let rows = minutes.rows(at(17));
        let reported: Vec<_> = rows[0]
            .moments
            .iter()
            .map(|moment| (moment.utilization_percent, moment.resident_bytes))
            .collect();
        assert_eq!(reported, [(Some(50), Some(200)), (None, None), (None, None), (Some(1), Some(8))]);
        assert_eq!((rows[0].device, rows[0].moment_ms), (1, 5000));
    }

    #[test]
    fn only_the_last_minutes_are_kept() {
        let mut minutes = Minutes::default();
        for second in 0..10_000 {
            minutes.add(at(second), DeviceId(0), Bytes(second), Some(7));
        }
        assert_eq!((minutes.devices[&DeviceId(0)].len(), minutes.rows(at(9999))[0].moments.len()), (60, 60));
        assert_eq!(
            minutes.rows(at(10_100))[0].moments.iter().filter(|one| one.resident_bytes.is_some()).count(),
            39
        );
        assert!(minutes.rows(at(20_000))[0].moments.iter().all(|one| one.resident_bytes.is_none()));
    }
}
