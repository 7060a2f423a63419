//! Samples of measurements: medians, spreads, and where they were taken. Pure but for [`Stamp::now`] and
//! [`Sample::of`].
//!
//! Trap: A and B of a comparison are compared round by round, because they ran in turns on a machine whose speed changes;
//! the ratio of their medians would mix rounds.

use crate::{root, run_ok};
use eager_rodinia::{Program, Run};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde::Serialize;
use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The run of each program: the largest scaled configuration that takes at most about a second, so that start-up does not
/// hide what a call costs. `lavaMD` launches once and computes for a minute at those sizes.
const TIMED_RUNS: [(&str, &str); 7] = [
    ("backprop", "backprop-64M.scaled"),
    ("bfs", "bfs-32M.scaled"),
    ("dwt2d", "dwt2d-16384.scaled"),
    ("lavaMD", "lavaMD.small"),
    ("nw", "needle-32768.scaled"),
    ("srad_v1", "srad_v1-11000.scaled"),
    ("srad_v2", "srad_v2-16384.scaled"),
];

/// What one command took.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Sample {
    /// Elapsed seconds.
    pub wall_s: f64,
    /// Seconds of processor time, user and system, of the command and all that it waited for.
    pub cpu_s: f64,
}

impl Sample {
    /// Runs a command that must succeed. Trap: a child that somebody else waits for meanwhile would be counted too.
    pub fn of(command: &mut Command) -> Sample {
        let (before, start) = (children_cpu_s(), Instant::now());
        run_ok(command);
        Sample { wall_s: start.elapsed().as_secs_f64(), cpu_s: children_cpu_s() - before }
    }
}

/// Processor time of all children that have ended and were waited for, in seconds.
fn children_cpu_s() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("a valid `who` is the only condition");
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

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

/// Ratios of B over A, by round: of processor time and of elapsed time.
pub fn both_ratios(a: &[Sample], b: &[Sample]) -> [Vec<f64>; 2] {
    let by = |part: fn(&Sample) -> f64| {
        let of = |samples: &[Sample]| samples.iter().map(part).collect::<Vec<f64>>();
        ratios(&of(a), &of(b))
    };
    [by(|sample| sample.cpu_s), by(|sample| sample.wall_s)]
}

/// The variants of one round: forwards in even rounds, backwards in odd ones.
pub fn turns(round: usize, variants: usize) -> Vec<usize> {
    if round.is_multiple_of(2) { (0..variants).collect() } else { (0..variants).rev().collect() }
}

/// The run of a program that benches time.
pub fn timed_run(program: &Program) -> &Run {
    let (_, name) = TIMED_RUNS.iter().find(|(of, _)| *of == program.name).expect("a run of each program");
    program.runs().into_iter().find(|(of, _)| of == name).expect("a run of the manifest").1
}

/// Machine, commit and time. What cannot be found out is "unknown".
#[derive(Debug, Clone, Serialize)]
pub struct Stamp {
    pub commit: String,
    pub cpu: String,
    pub cores: usize,
    /// Processes that wanted to run at that time, over the last minute: above 1 the machine did other work too.
    pub load: f64,
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
            load: first_number("/proc/loadavg").unwrap_or(f64::NAN),
            unix_time_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        }
    }
}

fn first_number(path: &str) -> Option<f64> {
    std::fs::read_to_string(path).ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_of_what_the_command_did() {
        let idle = Sample::of(Command::new("sleep").arg("0.2"));
        let busy =
            Sample::of(Command::new("sh").args(["-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"]));
        assert!(idle.wall_s >= 0.2 && idle.cpu_s < busy.cpu_s, "{idle:?} {busy:?}");
    }

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
