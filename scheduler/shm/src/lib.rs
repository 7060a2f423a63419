//! Everything between shim and daemon that needs `unsafe` or the kernel: sealed pages, futexes, packets, peers.
//!
//! [`client`] is the shim's half, [`daemon`] the daemon's; [`pages`] is the memory between them.
//!
//! Trap: a page is written by another process while this one reads it. It is only ever seen through the atomics of
//! [`pages`], never as a plain Rust reference, and a value that was checked is the value that is used: copy once, then
//! decode the copy.

pub mod client;
pub mod daemon;
mod futex;
pub mod packet;
mod pages;
pub mod process;

pub use packet::{bind_seqpacket, connect_seqpacket};
