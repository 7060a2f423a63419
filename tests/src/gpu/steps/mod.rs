//! The checks, one file for each kind. Each gives rows; none ends the others.
//!
//! Trap: all of them run programs of the bundle, in the environment that [`super::served::environment`] makes; a program
//! started otherwise could find another CUDA.

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

/// What all steps are given.
#[derive(Debug)]
pub struct Context<'a> {
    pub bundle: &'a Bundle,
    pub gpu: &'a Gpu,
    /// Where time matters.
    pub sizes: Sizes,
    pub rounds: usize,
    /// The most that the scheduler is told of.
    pub capacity: u64,
    pub scratch: &'a Path,
    /// Of one program.
    pub limit: Duration,
}

/// Inputs are the same wherever they are made.
const SEED: u64 = 1;

impl Context<'_> {
    /// The programs' arguments at these sizes; their input is made if they read one.
    pub fn arguments(&self, program: &Program, sizes: Sizes) -> Result<Vec<String>, String> {
        arguments(run_of(program, sizes), self.scratch)
    }

    pub fn plain(&self, binary: &str) -> Command {
        alone(self.bundle, self.gpu, Build::Plain, binary)
    }

    /// Where a program's result goes.
    pub fn result(&self, name: &str) -> PathBuf {
        self.scratch.join(format!("{name}.result"))
    }
}

/// Arguments of a run with its input, which is made in this folder.
pub fn arguments(run: &Run, folder: &Path) -> Result<Vec<String>, String> {
    let input = run.input.as_ref().map(|input| input.make(SEED, folder)).transpose();
    Ok(run.arguments(input.map_err(|error| format!("input: {error}"))?.as_deref()))
}

/// Fills in how long it took.
pub fn timed(check: impl FnOnce() -> Row) -> Row {
    let start = Instant::now();
    let mut row = check();
    row.elapsed_s = start.elapsed().as_secs_f64();
    eprintln!("{} {}: {:?}: {}", row.step, row.what, row.status, row.said);
    row
}
