//! Decides how a program's calls affect its reservation and its memory, as pure code with two users: `libeager.so` over
//! CUDA and the daemon, and the simulator over its world.
//!
//! Trap: a lock, wait, system call, clock or environment variable in here makes the two users behave differently. A
//! test of `eager-tests` searches these sources for them.
#![forbid(unsafe_code)]

pub mod account;
pub mod beliefs;
pub mod buffers;
pub mod cell;
mod client;
pub mod ledger;
pub mod loss;
pub mod request;
pub mod sites;
pub mod spans;
pub mod task;
pub mod way;

pub use client::{
    Allocating, AllocationAsked, AtGate, Client, Coming, Counted, Dead, Decided, Direction, Extended,
    Extension, FILL_PIECE_BYTES, KeptCopies, KeptCopy, News, Occasion, Over, Pieces, Route, Step, Wanted,
};
