//! The pure decision core: the same events in the same order give the same actions. No clock, no I/O, no randomness.
//!
//! Trap: the actions of one [`Scheduler::step`] belong together. Carry out all of them before any task gets its answer,
//! or a task may see its binding before its gate.
#![forbid(unsafe_code)]

pub mod account;
pub mod action;
mod contexts;
pub mod event;
mod forecast;
mod gate;
pub mod history;
pub mod invariants;
pub mod journal;
mod ledger;
pub mod limits;
pub mod model;
pub mod options;
pub mod policy;
mod queue;
pub mod reason;
pub mod scheduler;

pub use options::Options;
pub use policy::PolicyName;
pub use scheduler::Scheduler;
