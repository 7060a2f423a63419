//! The core under guard: its steps, what is counted and learnt of them, and a watch over the policy.

pub mod learnt;
pub mod mind;
pub mod recent;
pub mod tally;
pub mod watchdog;
