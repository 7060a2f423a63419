//! All programs at once where about half of their memory fits: what `eager-opt` makes of what `case` lets wait. Makespan, and for
//! each program its wait and how much longer it takes than alone.
//!
//! Traps: the capacity is logical, so that the card itself is never over-subscribed; and programs that are alone in turn have
//! the whole card, so a slowdown holds both the wait and the neighbours.

use super::programs::POLICIES;
use super::reference::{Reference, beside_others, references};
use super::{Context, timed};
use crate::gpu::bundle::Devices;
use crate::gpu::choice::squeezed;
use crate::gpu::journal::{eager_starts, waits};
use crate::gpu::record::{Row, Status};
use crate::gpu::rule;
use crate::gpu::served::Served;
use crate::measure::{geometric_mean, median, ratios, turns};
use std::time::Instant;

pub const STEP: &str = "mix";
/// Each round runs all programs under both policies.
const ROUNDS_MAX: usize = 3;

/// One run of all under one policy.
struct Run {
    makespan_s: f64,
    /// By program.
    elapsed_s: Vec<f64>,
    wait_s: Vec<f64>,
    eager_starts: usize,
}

pub fn rows(context: &Context<'_>) -> Vec<Row> {
    let (references, mut rows) = references(context, STEP);
    if references.len() < 2 {
        rows.push(Row::new(STEP, "all").with(Status::Failed, "fewer than two programs run on plain CUDA"));
        return rows;
    }
    let mut runs: [Vec<Run>; 2] = Default::default();
    for round in 0..context.rounds.clamp(1, ROUNDS_MAX) {
        for which in turns(round, POLICIES.len()) {
            let policy = POLICIES[which];
            match all_at_once(context, policy, &references) {
                Ok(run) => runs[which].push(run),
                Err(why) => {
                    let what = format!("all, {policy}, round {}", round + 1);
                    rows.push(timed(|| Row::new(STEP, what).with(Status::Failed, why)));
                }
            }
        }
    }
    for (policy, runs) in POLICIES.into_iter().zip(&runs).filter(|(_, runs)| !runs.is_empty()) {
        rows.extend(by_program(policy, &references, runs));
        rows.push(together(policy, runs));
    }
    rows.extend(compared(context, &runs).map(|row| timed(|| row)));
    rows
}

fn all_at_once(context: &Context<'_>, policy: &str, references: &[Reference]) -> Result<Run, String> {
    let bytes: Vec<u64> = references.iter().map(|one| one.bytes).collect();
    rule::allows(context.gpu.free()?, &bytes)?;
    let capacity = squeezed(&bytes, context.capacity);
    let daemon = Served::start(context.bundle, context.gpu, policy, capacity)?;
    let start = Instant::now();
    let ended: Vec<Result<f64, String>> = std::thread::scope(|scope| {
        let run = |(which, one)| {
            let daemon = &daemon;
            scope.spawn(move || beside_others(context, daemon, which, one))
        };
        let running: Vec<_> = references.iter().enumerate().map(run).collect();
        let failed = || Err("the check itself failed".to_owned());
        running.into_iter().map(|one| one.join().unwrap_or_else(|_| failed())).collect()
    });
    let makespan_s = start.elapsed().as_secs_f64();
    let elapsed_s = ended.into_iter().collect::<Result<Vec<f64>, String>>()?;
    let journal = daemon.stop()?;
    let waited = waits(&journal.lines);
    let wait_of = |one: &Reference| waited.get(&one.program.name).copied().unwrap_or_default();
    let wait_s = references.iter().map(wait_of).collect();
    Ok(Run { makespan_s, elapsed_s, wait_s, eager_starts: eager_starts(&journal) })
}

fn by_program(policy: &str, references: &[Reference], runs: &[Run]) -> Vec<Row> {
    let row = |(number, one): (usize, &Reference)| {
        let of =
            |values: fn(&Run) -> &Vec<f64>| runs.iter().map(|run| values(run)[number]).collect::<Vec<f64>>();
        let (elapsed, wait) = (of(|run| &run.elapsed_s), of(|run| &run.wait_s));
        let (shared, alone) = (median(&elapsed), one.elapsed_s);
        let said = format!(
            "writes what plain CUDA writes; waited {:.2} s, took {shared:.2} s, alone {alone:.2} s: {:.2} times",
            median(&wait),
            shared / alone
        );
        Row::new(STEP, format!("{}, {policy}", one.program.name))
            .with(Status::Ok, said)
            .samples("shared_s", elapsed)
            .samples("wait_s", wait)
            .samples("plain_alone_s", vec![alone])
    };
    references.iter().enumerate().map(|one| timed(|| row(one))).collect()
}

fn together(policy: &str, runs: &[Run]) -> Row {
    let makespans: Vec<f64> = runs.iter().map(|run| run.makespan_s).collect();
    let starts: usize = runs.iter().map(|run| run.eager_starts).sum();
    // Under `case` a task that does not fit waits.
    let status = if policy == "case" && starts > 0 { Status::Failed } else { Status::Ok };
    let said =
        format!("{starts} eager start(s) in {} round(s); makespan {:.2} s", runs.len(), median(&makespans));
    let mut row = timed(|| Row::new(STEP, format!("all, {policy}")).with(status, said));
    row.elapsed_s = makespans.iter().sum();
    row.samples("makespan_s", makespans)
}

/// Round by round, as far as both ran.
fn compared(context: &Context<'_>, [case, eager]: &[Vec<Run>; 2]) -> Option<Row> {
    if case.is_empty() || eager.is_empty() {
        return None;
    }
    let makespans = |runs: &[Run]| runs.iter().map(|run| run.makespan_s).collect::<Vec<f64>>();
    let ratio = geometric_mean(&ratios(&makespans(case), &makespans(eager)));
    let said = format!("makespan under eager-opt {ratio:.2} times that under case");
    let judged = context.bundle.contents.devices == Devices::Gpu;
    let said = if judged { said } else { format!("{said}; not judged") };
    let status = if judged && ratio > 1.0 { Status::Missed } else { Status::Ok };
    Some(Row::new(STEP, "eager-opt against case").with(status, said).samples("ratio", vec![ratio]))
}
