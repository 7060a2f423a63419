//! Runs all programs at once where about a third of their memory fits, and compares `eager-opt` with `case`, under
//! which tasks wait. Reports the makespan, and for each program its slowdown and what each of its tasks met: wait,
//! class, promotion.
//!
//! Traps: the capacity is logical, so the card itself is never over-subscribed; and the times alone are measured on the
//! whole card, so a slowdown includes both the wait and the neighbours.

use super::programs::POLICIES;
use super::reference::{Reference, beside_others, references};
use super::{Context, timed};
use crate::gpu::bundle::Devices;
use crate::gpu::choice::{Sizes, run_of, squeezed};
use crate::gpu::journal::{Task, Tasks, eager_starts, tasks};
use crate::gpu::record::{Row, Status};
use crate::gpu::rule;
use crate::gpu::served::Served;
use eager_measure::statistics::{geometric_mean, median, ratios};
use eager_measure::turns;
use eager_units::Class;
use std::time::Instant;

pub const STEP: &str = "mix";
/// Each round runs all programs under both policies.
const ROUNDS_MAX: usize = 3;

/// One run of all programs under one policy.
struct Run {
    makespan_s: f64,
    /// Seconds by program.
    elapsed_s: Vec<f64>,
    tasks: Tasks,
}

impl Run {
    fn tasks_of(&self, one: &Reference) -> Vec<Task> {
        self.tasks.get(&one.program.name).cloned().unwrap_or_default()
    }
}

pub fn rows(context: &Context<'_>) -> Vec<Row> {
    let memory = match may_run_together(context) {
        Ok(memory) => memory,
        Err(why) => return vec![timed(|| Row::new(STEP, "all").with(Status::Failed, why))],
    };
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
        rows.push(all(context, policy, runs, &memory));
    }
    rows.extend(compared(context, &runs).map(|row| timed(|| row)));
    rows
}

/// Checks before the step's first run that all programs may run together: the most memory that may be managed, against
/// what is free.
fn may_run_together(context: &Context<'_>) -> Result<String, String> {
    let programs = context.bundle.programs();
    let bytes: Vec<u64> = programs.iter().map(|program| run_of(program, context.sizes).bytes).collect();
    rule::allows(context.gpu.free()?, &bytes)
}

fn all_at_once(context: &Context<'_>, policy: &str, references: &[Reference]) -> Result<Run, String> {
    let bytes: Vec<u64> = references.iter().map(|one| one.bytes).collect();
    // Other processes may have started meanwhile.
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
    Ok(Run { makespan_s, elapsed_s, tasks: tasks(&daemon.stop()?.lines) })
}

fn by_program(policy: &str, references: &[Reference], runs: &[Run]) -> Vec<Row> {
    let row = |(number, one): (usize, &Reference)| {
        let tasks: Vec<Vec<Task>> = runs.iter().map(|run| run.tasks_of(one)).collect();
        let wait: Vec<f64> = tasks.iter().map(|tasks| tasks.iter().map(|task| task.wait_s).sum()).collect();
        let elapsed: Vec<f64> = runs.iter().map(|run| run.elapsed_s[number]).collect();
        let slowdown: Vec<f64> = elapsed.iter().map(|elapsed| elapsed / one.elapsed_s).collect();
        let said = format!(
            "writes what plain CUDA writes; {}; waited {:.2} s, took {:.2} s, alone {:.2} s: {:.2} times",
            started(&tasks.concat()),
            median(&wait),
            median(&elapsed),
            one.elapsed_s,
            median(&slowdown)
        );
        Row::new(STEP, format!("{}, {policy}", one.program.name))
            .with(Status::Ok, said)
            .samples("shared_s", elapsed)
            .samples("wait_s", wait)
            .samples("slowdown", slowdown)
            .samples("plain_alone_s", vec![one.elapsed_s])
            .tasks(tasks)
    };
    references.iter().enumerate().map(|one| timed(|| row(one))).collect()
}

/// Returns text such as `2 of 3 tasks eager, 1 promoted after 0.31 s`.
fn started(tasks: &[Task]) -> String {
    let eager = tasks.iter().filter(|task| task.class == Class::Eager).count();
    let promoted: Vec<f64> = tasks.iter().filter_map(|task| task.promoted_after_s).collect();
    let said = format!("{eager} of {} task(s) eager", tasks.len());
    match promoted.len() {
        0 => said,
        count => format!("{said}, {count} promoted after {:.2} s", median(&promoted)),
    }
}

fn all(context: &Context<'_>, policy: &str, runs: &[Run], memory: &str) -> Row {
    let makespans: Vec<f64> = runs.iter().map(|run| run.makespan_s).collect();
    let starts: usize = runs.iter().map(|run| eager_starts(&run.tasks)).sum();
    let status = match (policy, starts) {
        // Under `case` a task that does not fit must wait.
        ("case", 1..) => Status::Failed,
        // Programs that end at once need not meet. Longer ones must, or the run showed nothing.
        ("eager-opt", 0) if context.sizes != Sizes::Smoke => Status::Missed,
        _ => Status::Ok,
    };
    let said = format!(
        "{starts} eager start(s) in {} round(s); makespan {:.2} s; {memory}",
        runs.len(),
        median(&makespans)
    );
    let mut row = timed(|| Row::new(STEP, format!("all, {policy}")).with(status, said));
    row.elapsed_s = makespans.iter().sum();
    row.samples("makespan_s", makespans).samples("eager_starts", vec![starts as f64])
}

/// Compares the policies round by round, as far as both ran.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_tasks_started_is_said_in_words() {
        let of = |class, promoted_after_s| Task { wait_s: 0.0, class, promoted_after_s };
        let [normal, eager] = [Class::Normal, Class::Eager].map(|class| of(class, None));
        assert_eq!(started(&[normal]), "0 of 1 task(s) eager");
        let promoted = of(Class::Eager, Some(0.25));
        assert_eq!(started(&[normal, eager, promoted]), "2 of 3 task(s) eager, 1 promoted after 0.25 s");
    }
}
