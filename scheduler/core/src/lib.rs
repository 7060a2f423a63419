//! The pure decision core: the same events in the same order give the same actions. No clock, no I/O, no randomness.
#![forbid(unsafe_code)]

pub mod action;
pub mod event;
pub mod units;
