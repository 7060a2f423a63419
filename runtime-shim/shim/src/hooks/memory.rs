//! Allocation and free: chooses the owner and the kind of an allocation, and updates the daemon.

use crate::address_map::{Found, TakenOut};
use crate::ledger::{Allocation, Backing, Held, Origin};
use crate::outcome::{Outcome, Why};
use crate::runtime::{CudaError, CudaResult, DeviceIndex, Order, Pitched, Runtime, Span, StreamId};
use crate::scheduler::Scheduler;
use crate::shim::{Shim, Stop};
use crate::state::Thread;
use crate::task::TaskKey;
use eager_abi::calls::PITCH_ALIGNMENT;
use eager_client::way::{Case, Form, Way};
use eager_client::{Allocating, Counted, Extended, Extension, Wanted};
use eager_units::shown;

/// `cudaMemAttachGlobal`, the default of `cudaMallocManaged`.
pub(super) const ATTACH_GLOBAL: u32 = 1;

/// Result of an allocation: an address, and for pitched memory the bytes between rows.
pub(crate) trait Made: std::marker::Copy {
    fn start(&self) -> u64;
}

impl Made for u64 {
    fn start(&self) -> u64 {
        *self
    }
}

impl Made for Pitched {
    fn start(&self) -> u64 {
        self.start
    }
}

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// `cudaMalloc`: managed memory that prefers the device (specification S-201) for an unbound lazy task or a task
    /// that the daemon wants managed; otherwise plain device memory.
    pub fn malloc(&self, thread: &mut Thread, bytes: u64) -> Outcome<u64> {
        self.allocate(thread, bytes, Form::Linear, |runtime| runtime.malloc(bytes), |start| start)
    }

    /// `cudaMallocPitch`, and `cudaMalloc3D` with `height` rows in all. Counts rows at multiples of
    /// [`PITCH_ALIGNMENT`], which managed memory gets and which bounds the device's own pitch.
    pub fn malloc_pitch(&self, thread: &mut Thread, width: u64, height: u64) -> Outcome<Pitched> {
        let Some(bytes) = width.checked_next_multiple_of(PITCH_ALIGNMENT).and_then(|p| p.checked_mul(height))
        else {
            return Outcome::PassThrough(Why::AsItIs);
        };
        let managed = |start| Pitched { start, pitch: width.next_multiple_of(PITCH_ALIGNMENT) };
        self.allocate(thread, bytes, Form::Linear, |runtime| runtime.malloc_pitch(width, height), managed)
    }

    /// `cudaMallocAsync`, `cudaMallocFromPoolAsync` (`pool`). Managed memory is usable by every stream from now on,
    /// which is more than the call promises. While a graph is recorded, the allocation is a node of it.
    pub fn malloc_async(
        &self,
        thread: &mut Thread,
        bytes: u64,
        stream: StreamId,
        pool: Option<usize>,
    ) -> Outcome<u64> {
        let plain = |runtime: &R| runtime.malloc_async(bytes, stream, pool);
        self.allocate(thread, bytes, Form::Given, plain, |start| start)
    }

    /// Counts `bytes`, and allocates them by `plain`, as managed memory or as mapped memory; `managed` converts an
    /// address of the latter two to the result.
    fn allocate<M: Made>(
        &self,
        thread: &mut Thread,
        bytes: u64,
        form: Form,
        plain: impl FnOnce(&R) -> CudaResult<Option<M>>,
        managed: impl FnOnce(u64) -> M,
    ) -> Outcome<M> {
        if self.measuring.is_some() && bytes > 0 {
            return self.malloc_measured(bytes, ATTACH_GLOBAL).map(managed).into();
        }
        self.served(|| {
            let mut counted = self.count_new(thread, bytes, form)?;
            if let Some(reserved) = counted.by_name {
                if let Ok(addresses) = self.runtime.reserve(reserved) {
                    let origin = Origin::Mapped { reserved, backing: Backing::Awaited };
                    return self.record_allocation(thread, &counted, Ok(managed(addresses.start)), origin);
                }
                self.uncount_allocation(&counted, true);
                counted = self.count_new(thread, bytes, Form::Given)?;
            }
            self.make_now(thread, &counted, plain, managed)
        })
    }

    /// Makes the memory of an allocation that is counted.
    fn make_now<M: Made>(
        &self,
        thread: &mut Thread,
        counted: &Counted,
        plain: impl FnOnce(&R) -> CudaResult<Option<M>>,
        managed: impl FnOnce(u64) -> M,
    ) -> Result<M, Stop> {
        let bytes = counted.wanted.bytes;
        let Some((device, case)) = self.case_on_device(thread, counted)? else {
            let made = self.runtime.malloc_managed(bytes, ATTACH_GLOBAL).map(managed);
            return self.record_allocation(thread, counted, made, Origin::REWRITTEN);
        };
        let way = Way::choose(&case, || self.piece_on(device));
        let mapped = match way {
            Way::Mapped { reserved } => self.map_new(reserved, device).map(|start| (start, way.origin())),
            Way::Managed | Way::Plain => None,
        };
        let (made, origin) = match mapped {
            Some((start, origin)) => (Ok(managed(start)), origin),
            None => {
                let plain = (way != Way::Managed).then_some(plain);
                self.malloc_on(bytes, device, plain, managed)
            }
        };
        self.record_allocation(thread, counted, made, origin)
    }

    /// Counts an allocation that the program makes now.
    fn count_new(&self, thread: &mut Thread, bytes: u64, form: Form) -> Result<Counted, Stop> {
        if bytes == 0 {
            return Err(Stop::Pass(Why::AsItIs));
        }
        self.sync_with_daemon(thread);
        self.count_allocation(thread, bytes, form)
    }

    /// [`eager_client::Client::case`] of a counted allocation, on whose device the thread is then; without one, on a
    /// device where the program may have a context.
    fn case_on_device(
        &self,
        thread: &mut Thread,
        counted: &Counted,
    ) -> Result<Option<(DeviceIndex, Case)>, Stop> {
        let case = self.state.lock().client.case(counted);
        let entered = match case {
            Some((device, _)) => self.enter(thread, device).map_err(Stop::Cuda),
            None => self.enter_foothold(thread),
        };
        if entered.is_err() {
            self.uncount_allocation(counted, true);
        }
        entered.map(|()| case)
    }

    /// `cudaMallocManaged` of the program: counted, and otherwise made as requested.
    pub fn malloc_managed(&self, thread: &mut Thread, bytes: u64, flags: u32) -> Outcome<u64> {
        if self.measuring.is_some() && bytes > 0 {
            return self.malloc_measured(bytes, flags).into();
        }
        self.served(|| {
            let counted = self.count_new(thread, bytes, Form::Given)?;
            self.case_on_device(thread, &counted)?;
            let made = self.runtime.malloc_managed(bytes, flags);
            self.record_allocation(thread, &counted, made, Origin::Program)
        })
    }

    /// `cudaFree`.
    pub fn free(&self, thread: &mut Thread, address: u64) -> Outcome<()> {
        if let Some(freed) = self.free_measured(address) {
            return freed.into();
        }
        if let Some(bypass) = self.bypass_harmless() {
            return self.free_unscheduled(address).unwrap_or(bypass);
        }
        self.sync_with_daemon(thread);
        if address == 0 {
            // Programs call this to make a context, but the daemon has not chosen a device for one.
            return Outcome::Handled(());
        }
        let Some(found) = self.state.lock().memory().at(address) else {
            return self.not_ours(thread);
        };
        if let Err(error) = self.wait_for_users(thread, &found) {
            return Outcome::Fail(error);
        }
        // Removed from the ledger before it is freed, since another thread may get the same address at once.
        let Some(taken) = self.take_out(found) else {
            return Outcome::PassThrough(Why::NotOurs);
        };
        if let Err(error) = self.free_memory(address, taken.found.origin) {
            self.put_back(taken);
            return Outcome::Fail(error);
        }
        self.uncount_freed(&taken.found);
        Outcome::Handled(())
    }

    /// Removes an allocation from the ledger, with the copies kept for it and its entry among the dying buffers.
    pub(crate) fn take_out(&self, found: Found) -> Option<TakenOut> {
        // The mapping lock excludes a thread that maps or frees this allocation's memory: it has counted the memory, and
        // must find the allocation when it finishes. Its request is answered at once.
        let mapping = self.mapping.lock();
        let mut state = self.state.lock();
        let taken = state.remove_memory(found.id)?;
        state.kept.forget(found.id);
        if let Some(beliefs) = &mut state.beliefs {
            beliefs.freed(found.id);
        }
        let left = state.dying.remove(|dying, _| dying == found.id);
        self.note_watched(&state);
        drop((state, mapping));
        self.forget_until(left);
        Some(taken)
    }

    /// Restores an allocation that could not be freed.
    pub(crate) fn put_back(&self, taken: TakenOut) {
        let mut state = self.state.lock();
        state.restore_memory(taken);
        self.note_watched(&state);
    }

    /// Tells the daemon of a freed allocation.
    pub(crate) fn uncount_freed(&self, found: &Found) {
        self.give_back(|client| client.freed(&found.allocation, &mut self.outbox()));
    }

    /// Tells the daemon of freed memory without an address.
    pub(crate) fn uncount(&self, held: Held) {
        self.give_back(|client| client.release(held, &mut self.outbox()));
    }

    /// Waits for the device of the task that owns the memory. Managed memory may have been allocated while another
    /// device was current than the one its task was bound to, and CUDA does not promise that `cudaFree` waits for any
    /// device but the current one.
    fn wait_for_users(&self, thread: &mut Thread, found: &Found) -> CudaResult<()> {
        let user = {
            let state = self.state.lock();
            let managed = Some(found).filter(|found| found.origin != Origin::Plain);
            let owner = managed.and_then(|found| state.client.task(found.owner));
            owner.filter(|task| task.is_bound()).map(|task| task.key)
        };
        user.map_or(Ok(()), |key| self.quiesce(thread, key, Order::Blocking))
    }

    /// Counts an allocation and requests the bytes beyond what the daemon holds.
    pub(crate) fn count_allocation(
        &self,
        thread: &mut Thread,
        bytes: u64,
        form: Form,
    ) -> Result<Counted, Stop> {
        loop {
            let (wanted, next) = {
                let state = &mut *self.state.lock();
                let wanted = Wanted { bytes, form, is_captured: !state.captures.is_empty() };
                (wanted, state.client.allocate(&mut thread.sites, wanted))
            };
            match next {
                Allocating::Refused => return Err(self.out_of_memory()),
                Allocating::Needs(key) => self.await_device(thread, key)?,
                // If it can never fit, it must fail here, not at the first launch.
                Allocating::Asks(key, frame) => {
                    if let Some(counted) = self.bind_with(thread, key, frame, wanted)? {
                        return Ok(counted);
                    }
                }
                Allocating::Counted(counted) if counted.more == 0 => return Ok(counted),
                Allocating::Counted(counted) => {
                    let asked = self.extend(thread, counted.key, counted.more);
                    match &asked {
                        Ok(()) => self.state.lock().client.granted(&counted),
                        Err(_) => self.uncount_allocation(&counted, false),
                    }
                    return asked.map(|()| counted);
                }
            }
        }
    }

    /// Requests `bytes` more for a bound task. A refusal becomes the program's out-of-memory error.
    pub(crate) fn extend(&self, thread: &mut Thread, key: TaskKey, bytes: u64) -> Result<(), Stop> {
        let Some(refusal) = self.ask_extension(thread, key, bytes)? else { return Ok(()) };
        self.report_refused_allocation(bytes, &refusal);
        Err(self.out_of_memory())
    }

    /// Requests `bytes` more for a bound task; returns the reason if that is refused.
    pub(crate) fn ask_extension(
        &self,
        thread: &mut Thread,
        key: TaskKey,
        bytes: u64,
    ) -> Result<Option<String>, Stop> {
        if bytes == 0 {
            return Ok(None);
        }
        let mut extension = Extension::new(key, bytes);
        let extended = self.await_cell(key.slot, |cell| {
            match self.state.lock().client.extend(&mut extension, cell, &mut self.outbox()) {
                Extended::Wait => None,
                extended => Some(extended),
            }
        })?;
        match extended {
            Extended::Refused(code) => return Ok(Some(self.reason(key.slot, code))),
            Extended::Granted(terms) => self.adopt_terms(thread, key, terms),
            Extended::Gone | Extended::Wait => {}
        }
        Ok(None)
    }

    pub(crate) fn report_refused_allocation(&self, bytes: u64, reason: &str) {
        let size = shown::size(bytes);
        self.reporter.report(&format!(
            "an allocation of {size} is refused: {reason}. It returns an out-of-memory error"
        ));
    }

    fn malloc_on<M: Made>(
        &self,
        bytes: u64,
        device: DeviceIndex,
        plain: Option<impl FnOnce(&R) -> CudaResult<Option<M>>>,
        managed: impl FnOnce(u64) -> M,
    ) -> (CudaResult<M>, Origin) {
        if let Some(plain) = plain {
            match plain(&self.runtime) {
                Ok(Some(made)) => return (Ok(made), Origin::Plain),
                Err(error) => return (Err(error), Origin::Plain),
                Ok(None) if !self.state.lock().captures.is_empty() => {
                    return (Err(CudaError::MEMORY_ALLOCATION), Origin::Plain);
                }
                // Granted, and yet no room: some process takes memory that the daemon does not count, such as the
                // contexts of programs that are not bound yet. The grant is kept all the same.
                Ok(None) => self.reporter.report_once("full", || {
                    let size = shown::size(bytes);
                    format!(
                        "device {} has no room for {size} that the daemon granted: using managed memory",
                        device.0
                    )
                }),
            }
        }
        let made = self.runtime.malloc_managed(bytes, ATTACH_GLOBAL);
        if let Ok(start) = made {
            // A hint: without it the memory works, but its pages leave the device more easily.
            let _ = self.runtime.prefer_device(Span { start, bytes }, device);
        }
        (made.map(managed), Origin::REWRITTEN)
    }

    /// Enters an allocation in the ledger, or uncounts it if it was not made.
    fn record_allocation<M: Made>(
        &self,
        thread: &Thread,
        counted: &Counted,
        made: CudaResult<M>,
        origin: Origin,
    ) -> Result<M, Stop> {
        let made = made.inspect_err(|_| self.uncount_allocation(counted, true))?;
        let start = made.start();
        let mut state = self.state.lock();
        let allocation = Allocation { set_device: thread.program_device, ..counted.allocation(origin) };
        let (is_of_site, buffer) = (allocation.frame.is_some(), state.insert_memory(start, allocation));
        if origin.is_rewritten() {
            if let Some(task) = state.client.task_mut(counted.key) {
                // Its next launch looks whether the grant has room.
                task.lacks_pages = true;
            }
            if let Some(beliefs) = state.beliefs.as_mut().filter(|_| !is_of_site) {
                beliefs.allocated(buffer);
            }
        }
        self.note_watched(&state);
        Ok(made)
    }

    /// Uncounts an allocation that was not made. Bytes requested for it are returned if they were granted; the whole
    /// task ends if nothing else is left of it.
    pub(crate) fn uncount_allocation(&self, counted: &Counted, is_granted: bool) {
        self.give_back(|client| client.not_made(counted, is_granted, &mut self.outbox()));
    }
}
