//! Memory of the process: addresses ([`Arena`]), what is allocated there ([`Table`]), what is
//! kept for later ([`Pools`]), and what the program maps itself ([`VirtualMemory`]).
//!
//! Trap: whether an allocation *fits* is the server's decision; this module only finds addresses for it.

mod advice;
mod arena;
mod array;
mod host_watch;
mod pages;
mod pool;
mod ranges;
mod table;
mod virtual_memory;

pub use advice::{Advice, Advised, Side};
pub use arena::Arena;
pub use array::{Array, ChannelDesc};
pub use host_watch::HostWatch;
pub use pages::Access;
pub use pool::{Pool, PoolKey, Pools, Reuse, Reused};
pub use table::{Allocation, Kind, Modelled, Table};
pub use virtual_memory::VirtualMemory;
