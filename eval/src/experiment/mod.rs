//! Experiments as data: a file names lists, systems, variants and tables. Every run becomes one line of
//! `samples.jsonl`, and medians with intervals are computed from those lines alone. `docs/reference/experiments.md`
//! explains the format.
//!
//! Trap: a ratio compares two runs of the *same* list on the same machine. It is taken seed by seed, before any
//! median.

mod check;
mod claims;
mod figures;
mod fill;
mod interference;
mod machine;
mod page;
#[cfg(test)]
mod reference;
mod run;
mod sample;
mod spec;
mod summary;
mod tables;
mod thresholds;
mod timeline;

pub use machine::Machine;
pub use run::{redraw, run};
pub use spec::System;
