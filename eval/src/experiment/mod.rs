//! Experiments as data: a file names workloads, policies, seeds and variants; every run becomes one line of
//! `samples.jsonl`, and medians with intervals come from those lines alone.
//!
//! Trap: a ratio compares two runs of the *same* list on the same machine. It is taken seed by seed, before any median.

mod claims;
mod document;
mod interference;
mod page;
mod results;
mod run;
mod sample;
mod spec;
mod summary;
mod tables;
mod thresholds;
mod timeline;
mod variant;

pub use document::fill;
pub use run::{redraw, run};
pub use spec::read_toml;
pub use summary::{Figures, Summary};
pub use tables::Table;
pub use variant::Variant;
