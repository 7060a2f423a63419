//! The experiment `live`: what holding memory only while the device needs it is worth, each part alone and left out.
//!
//! Trap: a *system* here is a policy with some of its switches set, so the name of a policy alone does not say what ran.

mod figures;
mod report;
mod run;
mod sample;
mod spec;

pub use run::{is_named, redraw, run};
