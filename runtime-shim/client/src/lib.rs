//! What a program's calls mean for the daemon and for the device, as pure code with two users: `libeager.so` decides by it
//! over CUDA and the daemon, the simulator over its world.
//!
//! Trap: no lock, no wait, no system call, no clock, no environment in here, or the two users behave differently; a test of
//! `eager-tests` reads these sources for them.
#![forbid(unsafe_code)]

pub mod account;
pub mod way;
