//! Memory for addresses that the shim reserved: mapped at the first call that names them, and freed when it is dead.
//!
//! Trap: the driver's calls wait for nothing. Memory may be unmapped only when no kernel can use it any more, and a
//! call that names addresses without memory must get it before it is made; otherwise kernels fault.

use crate::address_map::Found;
use crate::ledger::{Allocation, Backing, BufferId, Origin};
use crate::outcome::Outcome;
use crate::runtime::{CudaError, CudaResult, DeviceIndex, Runtime, Span};
use crate::scheduler::Scheduler;
use crate::shim::{Shim, Stop};
use crate::state::Thread;
use crate::task::TaskKey;
use eager_client::Coming;
use eager_units::shown;

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// Bytes that sizes must be a multiple of to be mapped on the thread's device; `None`: nothing is mapped there, or for
    /// this program.
    pub(crate) fn piece_on(&self, device: DeviceIndex) -> Option<u64> {
        if self.program.read().shares_memory() {
            return None;
        }
        self.runtime.map_granularity(device)
    }

    /// Reserves this many bytes of addresses and maps memory of the thread's device to them; `None`: no room, or not
    /// possible now.
    pub(crate) fn map_new(&self, bytes: u64, device: DeviceIndex) -> Option<u64> {
        let reserved = self.runtime.reserve(bytes).ok()?;
        if let Ok(Some(())) = self.runtime.map_memory(reserved, device) {
            return Some(reserved.start);
        }
        let _ = self.runtime.unreserve(reserved, false);
        None
    }

    /// Frees an allocation's memory and addresses, which nothing uses any more.
    pub(crate) fn free_memory(&self, address: u64, origin: Origin) -> CudaResult<()> {
        let Origin::Mapped { reserved, backing } = origin else { return self.runtime.free(address) };
        let reserved = Span { start: address, bytes: reserved };
        let _mapping = self.mapping.lock();
        self.runtime.unreserve(reserved, backing == Backing::Present)
    }

    /// Frees mapped memory without the daemon: the runtime frees what it allocated, but does not know mapped memory.
    /// `None`: the allocation is not mapped.
    pub(crate) fn free_unscheduled(&self, address: u64) -> Option<Outcome<()>> {
        let is_mapped = |origin| matches!(origin, Origin::Mapped { .. });
        let origin = {
            let mut state = self.state.lock();
            let found = state.memory().at(address).filter(|found| is_mapped(found.origin))?;
            state.remove_memory(found.id);
            self.note_watched(&state);
            found.origin
        };
        // `cudaFree` waits for the device as well.
        let waited = self.runtime.device_synchronize();
        Some(waited.and_then(|()| self.free_memory(address, origin)).into())
    }

    /// Maps memory to the addresses that a call names, of tasks that are bound.
    pub(crate) fn give_memory_to_named(&self, thread: &mut Thread, words: &[u64]) -> Result<(), Stop> {
        let absent = self.state.lock().memory().absent_among(words);
        absent.into_iter().try_for_each(|found| self.give_memory(thread, found.id))?;
        let beside: Vec<BufferId> = {
            let state = self.state.lock();
            let has_room = |found: &Found| {
                let task = state.client.task(found.owner).filter(|task| task.is_bound());
                task.is_some_and(|task| !task.account.is_short_of(found.bytes))
            };
            let beside = state.memory().awaited_beside(words).into_iter().filter(has_room);
            beside.map(|found| found.id).collect()
        };
        // The words may or may not mean these neighbours, so a failure here fails nothing.
        beside.into_iter().for_each(|buffer| _ = self.give_memory_if_reserved(thread, buffer));
        Ok(())
    }

    /// Maps memory for an allocation, unless the bytes would have to be requested.
    fn give_memory_if_reserved(&self, thread: &mut Thread, buffer: BufferId) -> CudaResult<bool> {
        let _mapping = self.mapping.lock();
        let Some(coming) = self.count_coming(buffer) else { return Ok(true) };
        let backed = if coming.more == 0 { self.map_memory(thread, buffer) } else { Ok(false) };
        if backed != Ok(true) {
            self.uncount_coming(&coming, false);
        }
        backed
    }

    /// Maps memory for all allocations of a task.
    pub(crate) fn give_memory_to_all(&self, thread: &mut Thread, key: TaskKey) -> Result<(), Stop> {
        let absent = self.state.lock().client.ledger.absent_of(key);
        // Dead buffers stay without memory until they are named.
        let awaited =
            absent.into_iter().filter(|(_, found)| found.origin.backing() == Some(Backing::Awaited));
        awaited.map(|(buffer, _)| buffer).try_for_each(|buffer| self.give_memory(thread, buffer))
    }

    /// Maps memory for an allocation without any. Bytes that its task has not reserved are requested; the answer
    /// comes at once.
    pub(crate) fn give_memory(&self, thread: &mut Thread, buffer: BufferId) -> Result<(), Stop> {
        self.await_own_dying(thread, buffer);
        // Held until the memory is there: two threads may name it.
        let _mapping = self.mapping.lock();
        let Some(coming) = self.count_coming(buffer) else { return Ok(()) };
        let asked = self.ask_extension(thread, coming.owner, coming.more);
        if asked != Ok(None) {
            self.uncount_coming(&coming, false);
        }
        if let Some(reason) = asked? {
            return self.handle_refused_memory(buffer, coming.bytes, &reason);
        }
        let mapped = self.map_memory(thread, buffer);
        if mapped == Ok(true) {
            return Ok(());
        }
        self.uncount_coming(&coming, true);
        mapped?;
        self.reporter.report_once("full", || {
            let size = shown::size(coming.bytes);
            format!("the device has no room for {size} that the daemon granted: another process uses memory that is not counted")
        });
        Err(self.out_of_memory())
    }

    /// Handles the daemon's refusal of memory for an allocation: managed memory stays uncounted, and is moved by page
    /// faults.
    fn handle_refused_memory(&self, buffer: BufferId, bytes: u64, reason: &str) -> Result<(), Stop> {
        let is_managed =
            self.state.lock().memory().get(buffer).is_some_and(|found| found.origin.is_rewritten());
        if is_managed {
            return Ok(());
        }
        self.report_refused_allocation(bytes, reason);
        Err(self.out_of_memory())
    }

    pub(crate) fn count_coming(&self, buffer: BufferId) -> Option<Coming> {
        let state = &mut *self.state.lock();
        state.client.count_coming(buffer)
    }

    pub(crate) fn uncount_coming(&self, coming: &Coming, is_granted: bool) {
        self.give_back(|client| client.uncount_coming(coming, is_granted, &mut self.outbox()));
    }

    /// Maps memory to an allocation; false if the device has no room.
    fn map_memory(&self, thread: &mut Thread, buffer: BufferId) -> CudaResult<bool> {
        let found = {
            let state = self.state.lock();
            let found = state.memory().get(buffer).filter(|found| found.origin.backing().is_some());
            found.and_then(|found| Some((found, state.client.task(found.owner)?.terms.device)))
        };
        let Some((Found { start, allocation: Allocation { origin, .. }, .. }, device)) = found else {
            return Err(CudaError::INVALID_VALUE);
        };
        if origin.backing() != Some(Backing::Present) {
            // Managed memory is moved by page faults.
            if let Origin::Mapped { reserved, .. } = origin {
                self.enter(thread, device)?;
                if self.runtime.map_memory(Span { start, bytes: reserved }, device)?.is_none() {
                    return Ok(false);
                }
            }
            let mut state = self.state.lock();
            state.client.ledger.set_backing(buffer, Backing::Present);
            self.note_watched(&state);
        }
        Ok(true)
    }

    /// After the daemon is lost, gives memory to all addresses that waited for it, so that the program can go on as
    /// plain CUDA.
    pub(crate) fn settle_unscheduled(&self) {
        // If this fails, CUDA reports it at the call that needs the memory locked.
        let _ = self.lock_host_memory();
        if !self.is_watched() {
            return;
        }
        // Held from here on, so that another thread that finds the daemon lost continues only when all memory is
        // there.
        let _mapping = self.mapping.lock();
        let (awaiting, kept) = {
            let mut state = self.state.lock();
            (state.client.awaiting(), state.kept.take_all())
        };
        for (buffer, device) in awaiting {
            let found = self.state.lock().memory().get(buffer);
            let Some(Found { start, allocation, .. }) = found else { continue };
            let Origin::Mapped { reserved, .. } = allocation.origin else { continue };
            if self.runtime.map_memory(Span { start, bytes: reserved }, device) == Ok(Some(())) {
                self.state.lock().client.ledger.set_backing(buffer, Backing::Present);
            }
        }
        for kept in kept {
            let _ = self.runtime.copy(&kept.copy.0);
        }
        self.note_watched(&self.state.lock());
    }
}
