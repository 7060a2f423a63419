//! Configured times of a program's host work, instead of measured ones, so that a small program can represent the host
//! work of a large one.
//!
//! A place in the program is identified by the number of copies from device to host before it, which does not depend on
//! scheduling; places between the same two copies cannot be distinguished.

use std::collections::BTreeMap;
use std::str::FromStr;

/// Nanoseconds of host work, by the number of copies to the host before it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostTimes(BTreeMap<u32, u64>);

/// The text is not a list of host times.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a list such as 0:5.0,3:0.25 is expected: number of earlier copies to the host, and seconds")]
pub struct HostTimesError;

impl FromStr for HostTimes {
    type Err = HostTimesError;

    fn from_str(text: &str) -> Result<HostTimes, HostTimesError> {
        let entry = |entry: &str| {
            let (copies, seconds) = entry.split_once(':')?;
            let seconds = seconds.parse::<f64>().ok().filter(|seconds| (0.0..=1e6).contains(seconds))?;
            Some((copies.parse::<u32>().ok()?, (seconds * 1e9).round() as u64))
        };
        let mut times = BTreeMap::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (copies, ns) = entry(part).ok_or(HostTimesError)?;
            *times.entry(copies).or_default() += ns;
        }
        Ok(HostTimes(times))
    }
}

impl HostTimes {
    /// Nanoseconds of host work after the first `copies` copies to the host.
    pub fn after(&self, copies: u32) -> u64 {
        self.0.get(&copies).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_stated_by_copies_before() {
        let times: HostTimes = "0:5.0,3:0.25,3:0.25".parse().unwrap();
        assert_eq!((times.after(0), times.after(1), times.after(3)), (5_000_000_000, 0, 500_000_000));
        for text in ["5", "0:-1", "a:1", "0:nan", "0:1;1:2"] {
            assert_eq!(text.parse::<HostTimes>(), Err(HostTimesError), "{text}");
        }
    }
}
