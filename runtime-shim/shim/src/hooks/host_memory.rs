//! Page-locked host memory that a program allocates before it has a device.
//!
//! `cudaMallocHost` needs a context, and without a task the daemon has chosen no device for one: the context would be
//! made on the first device, take hundreds of MiB there that no task has requested, and be followed by a second
//! context on the task's device. So until the program has a context it gets pageable memory, which is page-locked
//! when its first device is entered. Trap: a hook that returns how memory is locked, or needs it locked, must lock
//! the waiting memory first, or CUDA reports it as pageable.

use crate::host_memory::Block;
use crate::outcome::{Outcome, Why};
use crate::runtime::{CudaResult, Runtime, Span};
use crate::scheduler::Scheduler;
use crate::shim::Shim;
use crate::state::Thread;

/// `cudaHostAllocPortable` and `cudaHostAllocMapped`, which all page-locked memory is under unified addressing.
const PORTABLE_OR_MAPPED: u32 = 3;

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// `cudaMallocHost`, and `cudaHostAlloc` with its flags.
    pub fn malloc_host(&self, thread: &mut Thread, bytes: u64, flags: u32) -> Outcome<u64> {
        if let Some(bypass) = self.bypass_harmless() {
            return bypass;
        }
        let is_plain = flags & !PORTABLE_OR_MAPPED == 0 && bytes > 0;
        if !is_plain || self.foothold_device(thread).is_some() || self.runtime.has_context() {
            return self.on_some_device(thread).map(|()| 0);
        }
        let made = self.runtime.map_host(bytes);
        if let Ok(start) = made {
            self.host_memory.lock().0.insert(start, Block { bytes, is_locked: false });
        }
        made.into()
    }

    /// `cudaFreeHost`.
    pub fn free_host(&self, address: u64) -> Outcome<()> {
        let Some(Block { bytes, is_locked }) = self.host_memory.lock().0.remove(&address) else {
            return Outcome::PassThrough(Why::NotOurs);
        };
        let unlocked = if is_locked { self.runtime.unlock_host(address) } else { Ok(()) };
        if unlocked.is_ok() {
            self.runtime.unmap_host(Span { start: address, bytes });
        }
        unlocked.into()
    }

    /// A call that reads how host memory is locked: `cudaHostGetDevicePointer`, `cudaPointerGetAttributes`, …
    pub fn about_host_memory(&self, thread: &mut Thread, address: u64) -> Outcome<()> {
        match self.on_some_device(thread) {
            Outcome::PassThrough(_) => {}
            outcome => return outcome,
        }
        let is_ours = {
            let blocks = &self.host_memory.lock().0;
            blocks.range(..=address).next_back().is_some_and(|(start, block)| address < start + block.bytes)
        };
        let locked = if is_ours { self.lock_host_memory() } else { Ok(()) };
        locked.map_or_else(Outcome::Fail, |()| Outcome::PassThrough(Why::AsItIs))
    }

    /// Page-locks the memory that waits for it. There is a context now, or this makes one.
    pub(crate) fn lock_host_memory(&self) -> CudaResult<()> {
        let blocks = &mut self.host_memory.lock().0;
        for (&start, block) in blocks.iter_mut().filter(|(_, block)| !block.is_locked) {
            self.runtime.lock_host(Span { start, bytes: block.bytes })?;
            block.is_locked = true;
        }
        Ok(())
    }

    /// Marks all memory as unlocked, after a reset has ended the contexts and with them every lock.
    pub(crate) fn host_memory_unlocked(&self) {
        self.host_memory.lock().0.values_mut().for_each(|block| block.is_locked = false);
    }
}
