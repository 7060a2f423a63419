//! Measures what Eager costs a program that runs alone: whole programs, one launch, one task. Plain CUDA and Eager
//! alternate.
//!
//! Trap: only a GPU's numbers are judged. On the stand-in runtime both sides measure the CPU.

use super::{Context, timed};
use crate::gpu::bundle::{Devices, PROBE};
use crate::gpu::choice::run_of;
use crate::gpu::record::{Row, Status};
use crate::gpu::rule;
use crate::gpu::served::{Served, run_with};
use eager_measure::statistics::{geometric_mean, median, ratios};
use eager_measure::turns;
use eager_rodinia::Program;
use std::process::Command;

pub const OVERHEAD: &str = "overhead";
pub const CALLS: &str = "calls";
/// Goal for the added share of a program's time, at the median.
const GOAL: f64 = 0.01;
/// The default, whose informed programs take memory by name, and a policy that makes the memory of all tasks managed.
const POLICIES: [&str; 2] = ["eager-fair", "eager-opt"];
/// A kernel that takes this many times the added time loses one percent.
const PER_PERCENT: f64 = 100.0;
const NS_PER_US: f64 = 1000.0;

/// Seconds of both sides, by round.
type Turns = [Vec<f64>; 2];

pub fn overhead(context: &Context<'_>) -> Vec<Row> {
    POLICIES.into_iter().flat_map(|policy| overhead_under(context, policy)).collect()
}

fn overhead_under(context: &Context<'_>, policy: &'static str) -> Vec<Row> {
    let mut medians = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    for program in context.bundle.programs() {
        let row = Row::new(OVERHEAD, format!("{}, {policy}", program.name));
        rows.push(timed(|| match in_turns(context, program, policy) {
            Ok([plain, eager]) => {
                let ratio = median(&ratios(&plain, &eager));
                medians.push(ratio);
                judged(context, row.samples("plain_s", plain).samples("eager_s", eager), ratio)
            }
            Err(why) => row.with(Status::Failed, why),
        }));
    }
    if !medians.is_empty() {
        let row = Row::new(OVERHEAD, format!("geometric mean, {policy}"));
        rows.push(judged(context, row, geometric_mean(&medians)));
    }
    rows
}

fn judged(context: &Context<'_>, row: Row, ratio: f64) -> Row {
    let said = format!("{:+.2} % of plain CUDA's time at the median", (ratio - 1.0) * PER_PERCENT);
    match context.bundle.contents.devices {
        Devices::Virtual => row.with(Status::Ok, format!("{said}; not judged")),
        Devices::Gpu if ratio <= 1.0 + GOAL => row.with(Status::Ok, said),
        Devices::Gpu => row.with(Status::Missed, said),
    }
}

fn in_turns(context: &Context<'_>, program: &Program, policy: &str) -> Result<Turns, String> {
    rule::allows(context.gpu.free()?, &[run_of(program, context.sizes).bytes])?;
    let words = context.arguments(program, context.sizes)?;
    let daemon = Served::start(context.bundle, context.gpu, policy, context.capacity)?;
    let elapsed = |command: &mut Command| {
        run_with(command, &words, context.limit).map(|ended| ended.elapsed.as_secs_f64())
    };
    let both = [&|| elapsed(&mut context.plain(&program.binary)), &|| {
        elapsed(&mut daemon.program(&program.binary, &program.name))
    }] as [&dyn Fn() -> Result<f64, String>; 2];
    let found = take_turns(context.rounds, both)?;
    daemon.stop()?;
    Ok(found)
}

/// Runs each side once to warm up, then both alternately; the side that begins changes each round.
fn take_turns(rounds: usize, both: [&dyn Fn() -> Result<f64, String>; 2]) -> Result<Turns, String> {
    both.iter().try_for_each(|one| one().map(drop))?;
    let mut found = Turns::default();
    for round in 0..rounds {
        for which in turns(round, both.len()) {
            found[which].push(both[which]()?);
        }
    }
    Ok(found)
}

/// Measures a launch with and without the gate, and a task with and without its round trip.
pub fn calls(context: &Context<'_>) -> Vec<Row> {
    let all = POLICIES.into_iter().flat_map(|policy| ["launch", "task"].map(|what| (what, policy)));
    all.map(|(what, policy)| timed(|| call(context, what, policy))).collect()
}

fn call(context: &Context<'_>, what: &'static str, policy: &'static str) -> Row {
    let row = Row::new(CALLS, format!("{what}, {policy}"));
    let found = (|| {
        let daemon = Served::start(context.bundle, context.gpu, policy, context.capacity)?;
        let time = |command: &mut Command| nanoseconds(&run_with(command, &[what], context.limit)?.out);
        let both = [&|| time(&mut context.plain(PROBE)), &|| time(&mut daemon.program(PROBE, what))]
            as [&dyn Fn() -> Result<f64, String>; 2];
        let found = take_turns(context.rounds, both)?;
        daemon.stop()?;
        Ok::<_, String>(found)
    })();
    match found {
        Ok([plain, eager]) => {
            let [a, b] = [&plain, &eager].map(|samples| median(samples) / NS_PER_US);
            let mut said = format!("plain {a:.2} us, Eager {b:.2} us: {:+.2} us each", b - a);
            if b > a && what == "launch" {
                said += &format!(", 1 % of kernels of {:.0} us", (b - a) * PER_PERCENT);
            }
            row.with(Status::Ok, said).samples("plain_ns", plain).samples("eager_ns", eager)
        }
        Err(why) => row.with(Status::Failed, why),
    }
}

/// Returns the median of the printed lines, which are nanoseconds.
fn nanoseconds(printed: &str) -> Result<f64, String> {
    let samples: Vec<f64> = printed.lines().filter_map(|line| line.parse().ok()).collect();
    if samples.is_empty() { Err("the probe printed no time".to_owned()) } else { Ok(median(&samples)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_begin_in_turn_and_warm_ups_do_not_count() {
        let order = std::cell::RefCell::new(String::new());
        let one = |name: char, value: f64| {
            order.borrow_mut().push(name);
            Ok(value)
        };
        let found = take_turns(2, [&|| one('a', 1.0), &|| one('b', 2.0)]).expect("no failure");
        assert_eq!((found, order.into_inner().as_str()), ([vec![1.0; 2], vec![2.0; 2]], "ababba"));
    }

    #[test]
    fn a_probe_that_says_nothing_measured_nothing() {
        assert_eq!(nanoseconds("3\n1\n2\n"), Ok(2.0));
        assert!(nanoseconds("error 35\n").is_err());
    }
}
