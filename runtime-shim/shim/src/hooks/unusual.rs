//! Device memory other than `cudaMalloc`'s: freed in stream order, behind array handles, inside graphs, advised and
//! prefetched by the program.
//!
//! Trap: a managed buffer that a program frees with `cudaFreeAsync` must outlive the kernels before it on that
//! stream. The shim has no thread that could wait for them, so the buffer is freed at the first hook that finds the
//! streams idle. It must be *uncounted* at once: managed memory can be paged out, and a loop of allocations and frees
//! in one stream would otherwise seem to need all of them together.

use crate::address_map::Found;
use crate::ledger::{Allocation, Origin};
use crate::outcome::{Outcome, Why};
use crate::runtime::{CudaError, CudaResult, DeviceIndex, Runtime, StreamId};
use crate::scheduler::Scheduler;
use crate::shim::Shim;
use crate::state::{State, Thread, Unfreed};
use crate::task::Phase;
use eager_client::Counted;
use eager_client::way::Form;
use eager_units::shown;

/// How the program's hint about the place of its memory is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// Not forwarded, as it would contradict the daemon's decision.
    Drop,
    /// Forwarded with the device that the daemon chose in place of the program's.
    On(DeviceIndex),
    /// Forwarded unchanged.
    AsItIs,
}

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// `cudaFreeAsync`. Plain memory returns to its pool in stream order; a pool's cache is not counted.
    pub fn free_async(&self, thread: &mut Thread, address: u64, stream: StreamId) -> Outcome<()> {
        if let Some(freed) = self.free_measured(address) {
            return freed.into();
        }
        if let Some(bypass) = self.bypass_harmless() {
            return self.free_unscheduled(address).unwrap_or(bypass);
        }
        self.sync_with_daemon(thread);
        if self.is_captured(stream) {
            // Recorded as a free node: the memory is needed again whenever the graph runs, so it stays counted.
            return Outcome::PassThrough(Why::Captured);
        }
        let found = self.state.lock().memory().at(address);
        let Some(taken) = found.and_then(|found| self.take_out(found)) else {
            return Outcome::PassThrough(Why::NotOurs);
        };
        let freed = match taken.found.origin {
            Origin::Plain => self.runtime.free_async(address, stream),
            Origin::Mapped { .. } | Origin::Rewritten { .. } | Origin::Program => {
                self.free_later(thread, &taken.found, stream)
            }
        };
        if let Err(error) = freed {
            self.put_back(taken);
            return Outcome::Fail(error);
        }
        self.uncount_freed(&taken.found);
        Outcome::Handled(())
    }

    fn free_later(&self, thread: &mut Thread, found: &Found, stream: StreamId) -> CudaResult<()> {
        let (address, origin) = (found.start, found.origin);
        let unfreed = {
            let state = self.state.lock();
            let bound = state.client.task(found.owner).filter(|task| task.is_bound());
            bound.map(|task| {
                let own = task.own.stream.map(|own| own.id).filter(|_| stream.is_legacy());
                let streams = [stream].into_iter().chain(own).collect();
                Unfreed { address, origin, device: task.terms.device, streams }
            })
        };
        match unfreed {
            Some(unfreed) => {
                self.state.lock().unfreed.push(unfreed);
                self.free_unfreed(thread);
                Ok(())
            }
            // No device has ever touched the memory.
            None => self.free_memory(address, origin),
        }
    }

    /// Frees memory whose streams are idle now.
    pub(crate) fn free_unfreed(&self, thread: &mut Thread) {
        let waiting = std::mem::take(&mut self.state.lock().unfreed);
        for unfreed in waiting {
            let idle = |stream: &StreamId| self.runtime.stream_query(*stream) != Ok(false);
            let free = self.enter(thread, unfreed.device).is_ok() && unfreed.streams.iter().all(idle);
            if !free || self.free_memory(unfreed.address, unfreed.origin).is_err() {
                self.state.lock().unfreed.push(unfreed);
            }
        }
    }

    /// `cudaMallocArray` and its like, of about `bytes`. Arrays cannot be managed: for an eager task, too, they are
    /// plain device memory, and fail if the device has no room.
    pub fn malloc_array(
        &self,
        thread: &mut Thread,
        bytes: u64,
        make: impl FnOnce() -> CudaResult<u64>,
    ) -> Outcome<()> {
        let make = || {
            make().inspect_err(|&error| {
                if error == CudaError::MEMORY_ALLOCATION {
                    let size = shown::size(bytes);
                    self.reporter.report(&format!(
                        "an array of {size} does not fit on its device and cannot be managed memory: out of memory"
                    ));
                }
            })
        };
        self.malloc_plain(thread, bytes, make, |state, counted, handle| {
            state.client.ledger.insert_array(handle, counted.held());
        })
    }

    /// `cudaFreeArray`, `cudaFreeMipmappedArray`.
    pub fn free_array(
        &self,
        thread: &mut Thread,
        handle: u64,
        free: impl FnOnce() -> CudaResult<()>,
    ) -> Outcome<()> {
        if let Some(bypass) = self.bypass_harmless() {
            return bypass;
        }
        self.sync_with_daemon(thread);
        let Some(held) = self.state.lock().client.ledger.remove_array(handle) else {
            return Outcome::PassThrough(Why::NotOurs);
        };
        let freed = free();
        match freed {
            Ok(()) => self.uncount(held),
            Err(_) => self.state.lock().client.ledger.insert_array(handle, held),
        }
        freed.into()
    }

    /// `cudaGraphAddMemAllocNode`: memory that each run of the graph uses. Counted as long as its task lives or until
    /// the program frees it by its address.
    pub fn graph_malloc(
        &self,
        thread: &mut Thread,
        bytes: u64,
        make: impl FnOnce() -> CudaResult<u64>,
    ) -> Outcome<()> {
        let set_device = thread.program_device;
        self.malloc_plain(thread, bytes, make, |state, counted, start| {
            state.insert_memory(start, Allocation { set_device, ..counted.allocation(Origin::Plain) });
        })
    }

    /// Allocates device memory that cannot be managed, whatever the task's class. `count` enters it in the ledger.
    fn malloc_plain(
        &self,
        thread: &mut Thread,
        bytes: u64,
        make: impl FnOnce() -> CudaResult<u64>,
        count: impl FnOnce(&mut State, &Counted, u64),
    ) -> Outcome<()> {
        match self.on_a_device(thread) {
            Outcome::PassThrough(Why::AsItIs) => {}
            outcome => return outcome,
        }
        self.served(|| {
            let counted = self.count_allocation(thread, bytes, Form::Fixed)?;
            let handle = make().inspect_err(|_| self.uncount_allocation(&counted, true))?;
            count(&mut self.state.lock(), &counted, handle);
            Ok(())
        })
    }

    /// `cudaMemAdvise` and `cudaMemPrefetchAsync` of the program, for a device.
    ///
    /// A hint for a task without a device is dropped, and so is a hint for more than an eager task's grant: the rest
    /// would push other data out.
    pub fn placement_hint(&self, thread: &mut Thread, address: u64, bytes: u64) -> Hint {
        if self.bypass_harmless::<()>().is_some() {
            return Hint::AsItIs;
        }
        self.sync_with_daemon(thread);
        let state = self.state.lock();
        let Some(task) = state.memory().find(address).and_then(|found| state.client.task(found.owner)) else {
            return Hint::AsItIs;
        };
        match task.phase {
            Phase::Bound if task.terms.is_eager() && bytes > task.terms.grant.0 => Hint::Drop,
            Phase::Bound => Hint::On(task.terms.device),
            _ => Hint::Drop,
        }
    }
}
