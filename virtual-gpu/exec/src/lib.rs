//! Runs CPU kernels: block contexts, persistent worker pool, touch map, cost counters.
//!
//! [`abi`] is the boundary to the code that eager-kernels makes; [`Executor::launch`] runs one grid to its end. Trap: a
//! launch reads the argument values while it runs, so a caller that queues launches must copy them at the program's
//! call, not when the launch starts.

pub mod abi;
mod buffer;
mod cluster;
mod executor;
mod fault;
mod half;
mod host_fault;
pub mod image;
mod leave;
mod printf;
pub mod races;
pub mod schedule;
pub mod strict;
pub mod tensor;
mod timer;
mod touch;
mod turns;
mod warp;
mod worker;

pub use executor::{Executor, Launch, LaunchCost, LaunchFailure};
pub use fault::{Fault, Standstill, report_host_faults};
pub use touch::{Touch, TouchMap};
