//! Runs the seven programs under `eagerd`: alone, checked against the CPU; and in pairs where only one fits, checked
//! against what plain CUDA writes.
//!
//! Trap: the capacity is logical. The card has room for both, so nothing is paged out: the eager path runs, but
//! over-subscription of the card itself is not measured (managed memory beyond what is free can hang it).

use super::reference::{Reference, beside_others, references};
use super::{Context, timed};
use crate::gpu::choice::{Sizes, pairs, pressed, run_of};
use crate::gpu::journal::{eager_starts, tasks};
use crate::gpu::record::{Row, Status};
use crate::gpu::rule;
use crate::gpu::served::{Served, run_with};
use eager_rodinia::Program;
use std::time::Instant;

pub const ALONE: &str = "alone";
pub const PAIRS: &str = "pairs";
/// Policies to compare: under the first a task that does not fit waits, under the second it starts all the same.
pub const POLICIES: [&str; 2] = ["case", "eager-opt"];

pub fn alone(context: &Context<'_>) -> Vec<Row> {
    let programs = context.bundle.programs();
    programs
        .into_iter()
        .map(|program| timed(|| Row::of(ALONE, &program.name, verified(context, program))))
        .collect()
}

fn verified(context: &Context<'_>, program: &Program) -> Result<String, String> {
    // At published sizes the check on the CPU would take longer than everything else.
    let sizes = if context.sizes == Sizes::Smoke { Sizes::Smoke } else { Sizes::Small };
    rule::allows(context.gpu.free()?, &[run_of(program, sizes).bytes])?;
    let mut words = context.arguments(program, sizes)?;
    words.push("--verify".to_owned());
    let daemon = Served::start(context.bundle, context.gpu, "case", context.capacity)?;
    let ended = run_with(&mut daemon.program(&program.binary, &program.name), &words, context.limit)?;
    if !ended.out.lines().any(|line| line == program.expected) {
        return Err(format!("printed no `{}`", program.expected));
    }
    let granted = daemon.granted()?;
    daemon.stop()?;
    match granted {
        0 => Ok(format!("{} under case, nothing left granted", program.expected)),
        left => Err(format!("{left} bytes stayed granted")),
    }
}

pub fn two_at_a_time(context: &Context<'_>) -> Vec<Row> {
    let (references, mut rows) = references(context, PAIRS);
    for policy in POLICIES {
        for (first, second) in pairs(references.len()) {
            rows.push(timed(|| pair(context, policy, [&references[first], &references[second]])));
        }
    }
    rows
}

fn pair(context: &Context<'_>, policy: &str, two: [&Reference; 2]) -> Row {
    let names = two.map(|one| one.program.name.as_str());
    let row = Row::new(PAIRS, format!("{} + {}, {policy}", names[0], names[1]));
    match both(context, policy, two) {
        Ok((eager, elapsed)) => {
            let said = format!("both write what plain CUDA writes; {eager} eager start(s)");
            // Under `case` a task that does not fit must wait.
            let fits = policy != "case" || eager == 0;
            let status = if fits { Status::Ok } else { Status::Failed };
            row.with(status, said)
                .samples("plain_alone_s", two.map(|one| one.elapsed_s).into())
                .samples("shared_s", elapsed[..2].into())
                .samples("makespan_s", elapsed[2..].into())
        }
        Err(why) => row.with(Status::Failed, why),
    }
}

/// Returns the number of eager starts, and the seconds of the first program, of the second, and of both together.
fn both(context: &Context<'_>, policy: &str, two: [&Reference; 2]) -> Result<(usize, [f64; 3]), String> {
    let [first, second] = two;
    rule::allows(context.gpu.free()?, &[first.bytes, second.bytes])?;
    let capacity = pressed(first.bytes, second.bytes, context.capacity);
    let daemon = Served::start(context.bundle, context.gpu, policy, capacity)?;
    let start = Instant::now();
    let one = |which, one| beside_others(context, &daemon, which, one);
    let ended = std::thread::scope(|scope| {
        let other = scope.spawn(|| one(2, second));
        [one(1, first), other.join().unwrap_or_else(|_| Err("the check itself failed".to_owned()))]
    });
    let makespan = start.elapsed().as_secs_f64();
    let [first, second] = ended;
    let elapsed = [first?, second?, makespan];
    Ok((eager_starts(&tasks(&daemon.stop()?.lines)), elapsed))
}
