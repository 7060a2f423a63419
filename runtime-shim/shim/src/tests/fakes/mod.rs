//! Replacements for CUDA and the daemon in these tests.

mod cuda;
mod daemon;

pub use cuda::{FakeCuda, PINNED};
pub use daemon::{Decision, FakeDaemon, Habits, first_slot, lazy_slot};
