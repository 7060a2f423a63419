//! Memory of the process: addresses ([`Arena`]), allocations ([`Table`]), blocks kept for reuse ([`Pools`]), and
//! mappings made by the program ([`VirtualMemory`]).
//!
//! The server decides whether an allocation *fits*; this module only finds addresses for it.

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

/// The process's addresses and the memory at them.
#[derive(Debug)]
pub struct Memory {
    pub arena: Arena,
    pub table: Table,
    /// The part that the program has mapped itself.
    pub virtual_memory: VirtualMemory,
    /// The program's advice on managed memory.
    pub advice: Advice,
    /// The host's own use of managed memory.
    pub host_watch: HostWatch,
    /// Page-locked host memory made by the runtime, by address, kept alive here.
    pub pinned: BTreeMap<u64, Vec<u128>>,
}

impl Memory {
    /// Frees an allocation's addresses; the model has freed it already.
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
