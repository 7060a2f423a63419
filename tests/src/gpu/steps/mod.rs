//! The checks, one file for each kind. Each returns rows; none ends the others.
//!
//! Trap: every program must run in the environment that [`super::served::environment`] makes; otherwise it could find
//! another CUDA.

pub mod calibration;
pub mod conformance;
pub mod corpus;
pub mod cost;
pub mod driver;
pub mod faults;
pub mod footprints;
pub mod mix;
pub mod programs;
mod reference;

use super::bundle::{Build, Bundle};
use super::choice::{Sizes, run_of};
use super::machine::Gpu;
use super::record::Row;
use super::served::alone;
use eager_rodinia::{Program, Run};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Inputs of every step.
#[derive(Debug)]
pub struct Context<'a> {
    pub bundle: &'a Bundle,
    pub gpu: &'a Gpu,
    /// Sizes of the programs where time matters.
    pub sizes: Sizes,
    pub rounds: usize,
    /// Most bytes that the scheduler may give away.
    pub capacity: u64,
    pub scratch: &'a Path,
    /// Time limit of one program.
    pub limit: Duration,
}

/// Fixed, so that inputs are the same wherever they are made.
const SEED: u64 = 1;

impl Context<'_> {
    /// Returns a program's arguments at these sizes; makes its input if it reads one.
    pub fn arguments(&self, program: &Program, sizes: Sizes) -> Result<Vec<String>, String> {
        arguments(run_of(program, sizes), self.scratch)
    }

    pub fn plain(&self, binary: &str) -> Command {
        alone(self.bundle, self.gpu, Build::Plain, binary)
    }

    /// Path for a program's result.
    pub fn result(&self, name: &str) -> PathBuf {
        self.scratch.join(format!("{name}.result"))
    }
}

/// Returns the arguments of a run; makes its input in `folder`.
pub fn arguments(run: &Run, folder: &Path) -> Result<Vec<String>, String> {
    let input = run.input.as_ref().map(|input| input.make(SEED, folder)).transpose();
    Ok(run.arguments(input.map_err(|error| format!("input: {error}"))?.as_deref()))
}

/// Runs a check and fills in how long it took.
pub fn timed(check: impl FnOnce() -> Row) -> Row {
    let start = Instant::now();
    let mut row = check();
    row.elapsed_s = start.elapsed().as_secs_f64();
    eprintln!("{} {}: {:?}: {}", row.step, row.what, row.status, row.said);
    row
}
