//! Ids and units. A function that takes two bare `u64` is a mistake waiting.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Nanoseconds since the scheduler started (monotonic); a parameter everywhere, never read here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// Device memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);
    };
}

id!(/** A connected program. */ ClientId(u64));
id!(/** A task; never used twice. */ TaskId(u64));
id!(/** Index of a device. */ DeviceId(u32));

impl Bytes {
    pub const ZERO: Bytes = Bytes(0);

    pub const fn from_mib(mib: u64) -> Bytes {
        Bytes(mib << 20)
    }

    /// Ends at 0: a demand above the supply leaves nothing, never a wrapped-around fortune.
    pub const fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }

    /// Ends at `u64::MAX`: client-made sums may be absurd, and absurd must compare as too large.
    pub const fn saturating_add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }

    /// This many hundredths of it, rounded down, without overflow on the way.
    pub const fn percent(self, percent: u32) -> Bytes {
        let wide = self.0 as u128 * percent as u128 / 100;
        Bytes(if wide > u64::MAX as u128 { u64::MAX } else { wide as u64 })
    }

    /// `self` in hundredths of `whole`, rounded up so that 100.1 % does not read as allowed; all of nothing is 0.
    pub const fn percent_of(self, whole: Bytes) -> u64 {
        if whole.0 == 0 {
            return 0;
        }
        (self.0 as u128 * 100).div_ceil(whole.0 as u128) as u64
    }
}

impl std::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(items: I) -> Bytes {
        items.fold(Bytes::ZERO, Bytes::saturating_add)
    }
}

/// One decimal in the largest unit that keeps the number at 1 or above: `3.1 GiB`, `128 MiB`, `4 KiB`, `17 B`.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
        for (unit, shift) in units {
            if self.0 >> shift != 0 {
                // Whole arithmetic: the same number must read the same on every machine.
                let tenths = (u128::from(self.0) * 10 + (1 << (shift - 1))) >> shift;
                let (whole, tenth) = (tenths / 10, tenths % 10);
                return if tenth == 0 {
                    write!(f, "{whole} {unit}")
                } else {
                    write!(f, "{whole}.{tenth} {unit}")
                };
            }
        }
        write!(f, "{} B", self.0)
    }
}

/// A length of time as people read it, in two units at most: `31 ms`, `0.4 s`, `12 s`, `2m06s`, `2h07m`, `4d03h`. A point in
/// time is [`Nanos::moment`].
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (micros, seconds) = (self.0 / 1000, self.0 / 1_000_000_000);
        let [ms, tenths] = [micros / 1000, micros / 100_000];
        match seconds {
            0 if self.0 == 0 => write!(f, "0 s"),
            0 if micros == 0 => write!(f, "{} ns", self.0),
            0 if ms == 0 => write!(f, "{micros} µs"),
            0 if ms < 100 => write!(f, "{ms} ms"),
            0..=9 if tenths % 10 != 0 => write!(f, "{seconds}.{} s", tenths % 10),
            0..=59 => write!(f, "{seconds} s"),
            60..=3599 => write!(f, "{}m{:02}s", seconds / 60, seconds % 60),
            3600..=86_399 => write!(f, "{}h{:02}m", seconds / 3600, seconds / 60 % 60),
            _ => write!(f, "{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
        }
    }
}

impl Nanos {
    pub const fn from_secs(seconds: u64) -> Nanos {
        Nanos(seconds * 1_000_000_000)
    }

    pub const fn saturating_sub(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// A point in time, for the first column of traces: seconds with three decimals, `126.345 s`.
    pub fn moment(self) -> String {
        format!("{}.{:03} s", self.0 / 1_000_000_000, self.0 / 1_000_000 % 1000)
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {}", self.0)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.0)
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GPU {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Nanos;

    #[test]
    fn lengths_of_time_have_two_units_points_in_time_one() {
        let said = |ns: u64| Nanos(ns).to_string();
        let short = [0, 7, 999, 1_000, 999_999, 1_000_000, 99_999_999].map(said);
        assert_eq!(short, ["0 s", "7 ns", "999 ns", "1 µs", "999 µs", "1 ms", "99 ms"]);
        let long =
            [100, 430, 2_000, 9_999, 10_400, 126_000, 7_620_000, 356_400_000].map(|ms| said(ms * 1_000_000));
        assert_eq!(long, ["0.1 s", "0.4 s", "2 s", "9.9 s", "10 s", "2m06s", "2h07m", "4d03h"]);
        assert_eq!([0, 126_345_678_901].map(|ns| Nanos(ns).moment()), ["0.000 s", "126.345 s"]);
    }
}
