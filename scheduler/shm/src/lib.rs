//! Everything between shim and daemon that needs `unsafe` or the kernel: sealed pages, futexes, packets, peers.
//!
//! [`client`] is the shim's half, [`daemon`] the daemon's; [`pages`] is the memory between them.
//!
//! Trap: another process writes a page while this one reads it. Access it only through the atomics of [`pages`], never
//! through a plain Rust reference, and use the value that was checked: copy once, then decode the copy.

#![allow(unexpected_cfgs, reason = "`make test-long` sets loom")]

mod exchange;

// Under loom only the memory orderings of `exchange` are built: loom's atomics cannot lie in a shared page.
#[cfg(not(loom))]
pub mod client;
#[cfg(not(loom))]
pub mod daemon;
#[cfg(not(loom))]
mod futex;
#[cfg(not(loom))]
pub mod inherited;
#[cfg(not(loom))]
pub mod packet;
#[cfg(not(loom))]
mod pages;
#[cfg(not(loom))]
pub mod process;
#[cfg(not(loom))]
pub mod users;

#[cfg(not(loom))]
pub use packet::{bind_seqpacket, connect_seqpacket};
