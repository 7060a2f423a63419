//! Runs all checks in order, and collects their rows.
//!
//! Trap: a step that panics must become a failed row and not end the run: machines with a GPU are lent for minutes.

use super::bundle::Bundle;
use super::choice::Sizes;
use super::machine::{Gpu, Machine};
use super::process::end_left_behind;
use super::record::{Row, Status};
use super::steps::{
    Context, calibration, conformance, corpus, cost, driver, faults, footprints, mix, programs,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

type Check = fn(&Context<'_>) -> Vec<Row>;

/// The steps, the most valuable first, in case time runs out.
pub const STEPS: [(&str, Check); 11] = [
    (programs::ALONE, programs::alone),
    (conformance::STEP, conformance::rows),
    (corpus::STEP, corpus::rows),
    (programs::PAIRS, programs::two_at_a_time),
    (mix::STEP, mix::rows),
    (cost::OVERHEAD, cost::overhead),
    (cost::CALLS, cost::calls),
    (footprints::STEP, footprints::rows),
    (faults::STEP, faults::rows),
    (driver::STEP, driver::rows),
    (calibration::STEP, calibration::rows),
];

/// Code for a newer GPU does not run on an older one; PTX is translated upwards only.
const COMPUTE_MIN: (i32, i32) = (9, 0);

/// Options that a user chose.
#[derive(Debug, Clone)]
pub struct Choice {
    pub only: Vec<String>,
    pub sizes: Sizes,
    pub rounds: usize,
    pub capacity: u64,
    /// Time limit of one program.
    pub limit: Duration,
    /// Time after which no further step begins.
    pub budget: Duration,
}

/// Checks that the steps can run on this GPU.
///
/// # Errors
/// One line: why they cannot.
pub fn check(gpu: &Gpu) -> Result<(), String> {
    let (major, minor) = gpu.compute;
    if gpu.compute < COMPUTE_MIN {
        let (least, least_minor) = COMPUTE_MIN;
        return Err(format!("compute capability {major}.{minor} is below {least}.{least_minor}"));
    }
    Ok(())
}

/// Runs the chosen steps; passes the rows so far to `keep` after each step.
pub fn run(bundle: &Bundle, gpu: &Gpu, choice: &Choice, scratch: &Path, keep: impl Fn(&[Row])) -> Vec<Row> {
    let Choice { sizes, rounds, capacity, limit, .. } = *choice;
    let context = Context { bundle, gpu, sizes, rounds, capacity, scratch, limit };
    let start = Instant::now();
    let mut rows = Vec::new();
    for (name, check) in STEPS {
        if !choice.only.is_empty() && !choice.only.iter().any(|only| only == name) {
            rows.push(Row::new(name, "all").with(Status::Skipped, "not asked for"));
            continue;
        }
        if start.elapsed() >= choice.budget {
            rows.push(Row::new(name, "all").with(Status::Skipped, "no time left: --seconds"));
            continue;
        }
        eprintln!("== {name}");
        let outcome = catch_unwind(AssertUnwindSafe(|| check(&context)));
        rows.extend(outcome.unwrap_or_else(|_| {
            vec![Row::new(name, "all").with(Status::Failed, "the check itself failed: see above")]
        }));
        keep(&rows);
    }
    rows.push(no_process_left(gpu));
    rows
}

fn no_process_left(gpu: &Gpu) -> Row {
    let left = end_left_behind();
    let row = Row::new("end", "processes");
    let count = gpu.processes().map_or(0, |processes| processes.len());
    match left.is_empty() {
        true => row.with(Status::Ok, format!("none left behind; {count} others use the GPU")),
        false => row.with(Status::Failed, format!("left behind, and killed: {left:?}")),
    }
}

/// Returns a warning if other processes use the GPU, because they change its times.
pub fn beside(machine: &Machine) -> Option<String> {
    (machine.processes > 0).then(|| {
        format!("{} other processes use the GPU: measured times are not reliable", machine.processes)
    })
}
