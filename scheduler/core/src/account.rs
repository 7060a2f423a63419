//! What a task has had of its device's time, and what it was due (specification S-130 to S-133).
//!
//! A task's virtual time is the device time that it was charged, divided by its weight. The virtual time of a device is
//! the mean of those of its active tasks, weighted: so a task that has had less than its share is behind it, and the
//! lags of the active tasks sum to zero, whoever comes and goes.
//!
//! Trap: all of it is in integers, with the rests of divisions kept, since a journal must replay to the same decisions.

use crate::event::is_default;
use eager_units::Nanos;
use serde::{Deserialize, Serialize};

/// Weights of the nice values -20 to 19: each step is about 1.25 times, as the kernel's scheduler has them
/// (`sched_prio_to_weight` in Linux's `kernel/sched/core.c`).
const WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121,
    2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29,
    23, 18, 15,
];

/// Weight of nice 0: a task of this weight is charged one unit of virtual time for each nanosecond.
const UNIT: u64 = 1024;

/// The least and the greatest nice value.
pub const NICE: (i8, i8) = (-20, 19);

/// Weight of a nice value; values out of range count as the nearest.
pub fn weight(nice: i8) -> u64 {
    let at = (nice.clamp(NICE.0, NICE.1) - NICE.0) as usize;
    u64::from(WEIGHTS[at])
}

/// Device time in nanoseconds, divided by a weight; for weight 1024 the two are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct VirtualTime {
    pub units: u64,
    /// What the divisions left over so far.
    #[serde(default, skip_serializing_if = "is_default")]
    rest: u64,
}

impl VirtualTime {
    pub fn at(units: u64) -> VirtualTime {
        VirtualTime { units, rest: 0 }
    }

    /// This time after `time` of a device was charged to a task of `weight`, one of `sharers` that had the device
    /// meanwhile.
    pub fn after(self, time: Nanos, weight: u64, sharers: u64) -> VirtualTime {
        let divisor = u128::from(weight.max(1)) * u128::from(sharers.max(1));
        let total = u128::from(time.0) * u128::from(UNIT) + u128::from(self.rest).min(divisor - 1);
        let (whole, rest) = (total / divisor, total % divisor);
        let units = self.units.saturating_add(u64::try_from(whole).unwrap_or(u64::MAX));
        VirtualTime { units, rest: u64::try_from(rest).unwrap_or_default() }
    }
}

/// A task's account on its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Account {
    /// Device time that it was charged since it was bound.
    pub service: Nanos,
    pub virtual_time: VirtualTime,
    /// Device time that its last slice took. None before the first one has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_slice: Option<Nanos>,
    /// Since when it computes on the host, with neither a kernel on its device nor one at its gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_since: Option<Nanos>,
    /// How long it last computed on the host between two kernels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<Nanos>,
    /// It wants its device, or has kernels there: only then is it due a share.
    pub active: bool,
}

impl Account {
    /// Charges the task for `time` of its device, which it shared with others.
    pub fn charge(&mut self, time: Nanos, weight: u64, sharers: u64) {
        self.service = Nanos(self.service.0.saturating_add(time.0 / sharers.max(1)));
        self.virtual_time = self.virtual_time.after(time, weight, sharers);
    }

    /// Notes that the task has no kernel on its device or at its gate, or has one again.
    pub fn note_pause(&mut self, now: Nanos, pauses: bool) {
        if !pauses && let Some(since) = self.host_since {
            self.pause = Some(now.saturating_sub(since));
        }
        self.host_since = pauses.then(|| self.host_since.unwrap_or(now));
    }

    /// How far the task is behind its share, as device time; negative where it is ahead. `device`: the virtual time
    /// there.
    pub fn lag(&self, weight: u64, device: u64) -> i64 {
        let behind = i128::from(device) - i128::from(self.virtual_time.units);
        let time = behind * i128::from(weight) / i128::from(UNIT);
        i64::try_from(time).unwrap_or(if time < 0 { i64::MIN } else { i64::MAX })
    }
}

/// The virtual time of a device, from the weights and virtual times of its active tasks; None if there are none.
pub fn mean(tasks: impl Iterator<Item = (u64, u64)> + Clone) -> Option<u64> {
    let first = tasks.clone().next()?.1;
    let (mut weights, mut sum) = (0i128, 0i128);
    for (weight, time) in tasks {
        weights += i128::from(weight);
        sum += i128::from(weight) * (i128::from(time) - i128::from(first));
    }
    let mean = i128::from(first) + sum.div_euclid(weights.max(1));
    Some(u64::try_from(mean).unwrap_or_default())
}

/// The share of `round` that a task of `weight` is due beside others, all together of weight `load`.
pub fn share_of(round: Nanos, weight: u64, load: u64) -> Nanos {
    let share = u128::from(round.0) * u128::from(weight) / u128::from(load.max(1));
    Nanos(u64::try_from(share).unwrap_or(u64::MAX))
}

/// Virtual time that a task of `weight` will have been charged for `time`.
pub fn virtual_length(time: Nanos, weight: u64) -> u64 {
    VirtualTime::default().after(time, weight, 1).units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_those_of_linux() {
        assert_eq!([-20, -3, 0, 5, 10, 19].map(weight), [88761, 1991, 1024, 335, 110, 15]);
        assert_eq!([weight(-128), weight(127)], [88761, 15]);
    }

    #[test]
    fn charges_in_parts_sum_to_the_charge_at_once() {
        for weight in [15, 110, 1024, 1991, 88761] {
            let mut parts = VirtualTime::default();
            for _ in 0..1000 {
                parts = parts.after(Nanos(7), weight, 3);
            }
            assert_eq!(parts, VirtualTime::default().after(Nanos(7000), weight, 3), "weight {weight}");
        }
    }

    #[test]
    fn lags_sum_to_zero() {
        let tasks = [(1991u64, 5_000u64), (1024, 900), (110, 77_777)];
        let device = mean(tasks.iter().copied()).expect("tasks");
        let lags = tasks.map(|(weight, units)| {
            let account = Account { virtual_time: VirtualTime::at(units), ..Account::default() };
            account.lag(weight, device)
        });
        assert!(lags.iter().sum::<i64>().abs() <= 3, "{lags:?}");
    }
}
