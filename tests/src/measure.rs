//! Samples of measurements: medians, spreads, and where they were taken. Pure but for [`Stamp::now`].
//!
//! Trap: A and B of a comparison are compared round by round, because they ran in turns on a machine whose speed changes;
//! the ratio of their medians would mix rounds.

use crate::root;
use serde::Serialize;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The middle value; of an even number the mean of the two in the middle. 0 without samples.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}

/// Half the distance between the first and the third quartile, over the median: how far samples usually lie apart.
pub fn spread(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: usize| sorted.get(sorted.len() * part / 4).copied().unwrap_or_default();
    if sorted.is_empty() { 0.0 } else { (at(3) - at(1)).abs() / 2.0 / median(samples) }
}

/// Of ratios; 1 without any.
pub fn geometric_mean(ratios: &[f64]) -> f64 {
    if ratios.is_empty() {
        return 1.0;
    }
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

/// B over A of each round.
pub fn ratios(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| b / a).collect()
}

/// Machine, commit and time. What cannot be found out is "unknown".
#[derive(Debug, Clone, Serialize)]
pub struct Stamp {
    pub commit: String,
    pub cpu: String,
    pub cores: usize,
    pub unix_time_s: u64,
}

impl Stamp {
    pub fn now() -> Stamp {
        let git = |words: &[&str]| {
            let output = Command::new("git").args(words).current_dir(root()).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|s| !s.is_empty());
        let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model =
            cpuinfo.lines().find(|line| line.starts_with("model name")).and_then(|l| l.split_once(": "));
        Stamp {
            commit: if changed { format!("{commit}+changes") } else { commit },
            cpu: model.map_or("unknown", |(_, name)| name).to_owned(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            unix_time_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_even_and_no_samples() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn spread_does_not_see_one_outlier() {
        assert_eq!(spread(&[1.0, 1.0, 1.0, 1.0, 100.0]), 0.0);
        assert!((spread(&[1.0, 2.0, 3.0, 4.0, 5.0]) - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn geometric_mean_of_opposite_ratios_is_one() {
        assert!((geometric_mean(&[2.0, 0.5]) - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), 1.0);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        assert_eq!(ratios(&[1.0, 2.0], &[2.0, 2.0]), [2.0, 1.0]);
    }
}
