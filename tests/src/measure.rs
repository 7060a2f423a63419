//! Measures the time of commands, and selects the timed runs of the `rodinia/` programs.

use crate::run_ok;
use eager_measure::statistics::ratios;
use eager_rodinia::{Program, Run};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;

/// The timed run of each program: the largest scaled configuration that takes at most about a second, so that start-up
/// does not hide what a call costs. `lavaMD` is small: it launches once and computes for a minute at those sizes.
const TIMED_RUNS: [(&str, &str); 7] = [
    ("backprop", "backprop-64M.scaled"),
    ("bfs", "bfs-32M.scaled"),
    ("dwt2d", "dwt2d-16384.scaled"),
    ("lavaMD", "lavaMD.small"),
    ("nw", "needle-32768.scaled"),
    ("srad_v1", "srad_v1-11000.scaled"),
    ("srad_v2", "srad_v2-16384.scaled"),
];

/// Time that one command took.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Sample {
    /// Elapsed seconds.
    pub wall_s: f64,
    /// Seconds of processor time, user and system, of the command and of all processes that it waited for.
    pub cpu_s: f64,
}

impl Sample {
    /// Runs a command that must succeed. Trap: a child that another thread waits for meanwhile is counted too.
    pub fn of(command: &mut Command) -> Sample {
        let (before, start) = (children_cpu_s(), Instant::now());
        run_ok(command);
        Sample { wall_s: start.elapsed().as_secs_f64(), cpu_s: children_cpu_s() - before }
    }
}

/// Parses what a bench program prints: lines of a name, seconds of processor time, and elapsed seconds.
///
/// # Panics
/// A line is something else.
pub fn samples(printed: &str) -> BTreeMap<String, Vec<Sample>> {
    let mut all: BTreeMap<String, Vec<Sample>> = BTreeMap::new();
    for line in printed.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [work, cpu_s, wall_s] = words[..] else { panic!("not a sample: {line}") };
        let number = |word: &str| word.parse().unwrap_or_else(|_| panic!("not a sample: {line}"));
        let sample = Sample { cpu_s: number(cpu_s), wall_s: number(wall_s) };
        all.entry(work.to_owned()).or_default().push(sample);
    }
    all
}

/// Returns the processor time, in seconds, of all children that have ended and were waited for.
fn children_cpu_s() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("a valid `who` is the only condition");
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

/// Returns the ratios of B over A, by round: first of processor time, then of elapsed time.
pub fn both_ratios(a: &[Sample], b: &[Sample]) -> [Vec<f64>; 2] {
    let by = |part: fn(&Sample) -> f64| {
        let of = |samples: &[Sample]| samples.iter().map(part).collect::<Vec<f64>>();
        ratios(&of(a), &of(b))
    };
    [by(|sample| sample.cpu_s), by(|sample| sample.wall_s)]
}

/// Returns the run of a program that the benches time.
pub fn timed_run(program: &Program) -> &Run {
    let (_, name) = TIMED_RUNS.iter().find(|(of, _)| *of == program.name).expect("a run of each program");
    program.runs().into_iter().find(|(of, _)| of == name).expect("a run of the manifest").1
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
}
