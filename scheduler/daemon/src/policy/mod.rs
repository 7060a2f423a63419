//! The core under guard: its steps, what is counted and learnt of them, and a watch over the policy.

pub mod guarded_core;
pub mod recent;
pub mod run_history;
pub mod tally;
pub mod watchdog;
