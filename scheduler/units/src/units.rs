//! Ids and units as types of their own, so that numbers of different meaning cannot be exchanged.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A length of time, or a point in time as nanoseconds since the scheduler or the modelled machine started (monotonic).
/// Always a parameter; this crate never reads a clock.
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

/// The device in the terms of a task that has none.
impl Default for DeviceId {
    fn default() -> DeviceId {
        DeviceId(0)
    }
}

impl Bytes {
    pub const ZERO: Bytes = Bytes(0);

    pub const fn from_mib(mib: u64) -> Bytes {
        Bytes(mib << 20)
    }

    /// Stops at 0: a demand above the supply leaves nothing, and does not wrap around.
    pub const fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }

    /// Stops at `u64::MAX`: sums from clients may be absurd, and must then compare as too large.
    pub const fn saturating_add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }

    /// This many hundredths of it, rounded down; at most `u64::MAX`.
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

/// Shown as `15.6 GiB`, `10 MiB`, `512 B`: the largest binary unit that keeps the number at 1 or above, with three or
/// four digits. Tables rely on a width of at most 8 columns.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let Some((unit, shift)) = units.into_iter().find(|(_, shift)| self.0 >> shift != 0) else {
            return write!(f, "{} B", self.0);
        };
        // Integer arithmetic: the same number must read the same on every machine.
        let tenths = (u128::from(self.0) * 10 + (1 << (shift - 1))) >> shift;
        // A number that rounds up to 1024 stays below the next unit; there is none above TiB.
        let most = if shift == 40 { u128::MAX } else { 1023 };
        match (tenths / 10, tenths % 10) {
            (whole, 0) => write!(f, "{} {unit}", whole.min(most)),
            (whole @ 0..=99, tenth) => write!(f, "{whole}.{tenth} {unit}"),
            (whole, tenth) => write!(f, "{} {unit}", (whole + u128::from(tenth >= 5)).min(most)),
        }
    }
}

/// Shown as a length of time, in two units at most: `31 ms`, `0.4 s`, `12 s`, `2m06s`, `2h07m`, `4d03h`. For a point in
/// time, use [`Nanos::moment`].
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

    /// Stops at `u64::MAX` nanoseconds.
    pub const fn from_millis(ms: u64) -> Nanos {
        Nanos(ms.saturating_mul(1_000_000))
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
    use super::{Bytes, Nanos};

    #[test]
    fn sizes_are_short_and_keep_three_digits() {
        let shown = |bytes: u64| Bytes(bytes).to_string();
        let sizes = [0, 1023, 1024, 10 << 20, 12 << 30, 9_556_302_234, 107_374_182_400, 3 << 40].map(shown);
        assert_eq!(sizes, ["0 B", "1023 B", "1 KiB", "10 MiB", "12 GiB", "8.9 GiB", "100 GiB", "3 TiB"]);
        assert_eq!(shown(u64::MAX), "16777216 TiB");
        let edges = [(1 << 30) - 1, 104_857_599, 104_962_458, (1 << 40) - (1 << 29), 2047 << 20].map(shown);
        assert_eq!(edges, ["1023 MiB", "100 MiB", "100 MiB", "1023 GiB", "2 GiB"]);
        assert!((0..=43).all(|shift| shown((1 << shift) - 1).len() <= 8 && shown(3 << shift).len() <= 8));
    }

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
