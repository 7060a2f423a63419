//! Host memory that the shim allocated in place of CUDA; `hooks/host_memory.rs` says when.

use std::collections::BTreeMap;

/// Blocks of host memory by start address.
#[derive(Debug, Default)]
pub struct HostMemory(pub BTreeMap<u64, Block>);

/// An allocation.
#[derive(Debug)]
pub struct Block {
    pub bytes: u64,
    pub is_locked: bool,
}
