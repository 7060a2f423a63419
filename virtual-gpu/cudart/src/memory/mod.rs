//! Memory of the process: addresses ([`Arena`]), what is allocated there ([`Table`]), what is
//! kept for later ([`Pools`]), and what the program maps itself ([`VirtualMemory`]).
//!
//! Trap: whether an allocation *fits* is the server's decision; this module only finds addresses for it.

mod advice;
mod arena;
mod array;
mod host_watch;
mod image;
mod pages;
mod pool;
mod ranges;
mod table;
mod virtual_memory;

pub use advice::{Advice, Advised, Side};
pub use arena::Arena;
pub use array::{Array, ChannelDesc};
pub use host_watch::HostWatch;
pub use image::{Description, Images, RESOURCE_WORDS, ResourceWords, TextureDesc};
pub use pages::{Access, protect};
pub use pool::{Pool, PoolKey, Pools, Reuse, Reused};
pub use table::{Allocation, Kind, Modelled, Table};
pub use virtual_memory::VirtualMemory;

use std::collections::BTreeMap;

/// Addresses and what lies there.
#[derive(Debug)]
pub struct Memory {
    pub arena: Arena,
    pub table: Table,
    /// What of it the program mapped itself.
    pub virtual_memory: VirtualMemory,
    /// What it said about managed memory.
    pub advice: Advice,
    /// What the host does with managed memory by itself.
    pub host_watch: HostWatch,
    /// Page-locked host memory of the runtime's own by address, kept alive here.
    pub pinned: BTreeMap<u64, Vec<u128>>,
}

impl Memory {
    /// Gives an allocation's addresses back; the model was told already.
    pub fn forget(&mut self, allocation: &Allocation) {
        self.table.remove(allocation.address);
        match allocation.kind {
            Kind::Pinned { .. } => drop(self.pinned.remove(&allocation.address)),
            Kind::Modelled { .. } => {
                self.advice.forget(allocation.address, allocation.bytes);
                self.host_watch.remove(allocation.address);
                self.arena.release(allocation.address, allocation.bytes);
            }
        }
    }
}
