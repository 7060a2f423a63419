//! The scheduler's core inside the daemon: [`guarded_core`] runs its steps and survives a policy that panics,
//! [`watchdog`] detects one that hangs or starves a task, and the other files count the steps and learn from them.

pub mod guarded_core;
pub mod recent;
pub mod run_history;
pub mod tally;
pub mod watchdog;
