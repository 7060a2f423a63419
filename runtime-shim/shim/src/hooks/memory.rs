//! Allocation and free: chooses the owner and the kind of an allocation, and updates the daemon.

use crate::account::{FrameId, Taken};
use crate::address_map::{Found, TakenOut};
use crate::ledger::{Allocation, Held, Origin};
use crate::outcome::{Outcome, Why};
use crate::runtime::{CudaError, CudaResult, DeviceIndex, Order, Pitched, Runtime, Span, StreamId};
use crate::scheduler::Scheduler;
use crate::shim::{Shim, Stop};
use crate::state::Thread;
use crate::task::{Kind, NO_TERMS, Phase, TaskKey, Terms};
use eager_abi::calls::PITCH_ALIGNMENT;
use eager_client::cell::Decision;
use eager_client::way::{Case, Form, Standing, Way};
use eager_proto::request::RequestBody;
use eager_units::shown;

/// `cudaMemAttachGlobal`, the default of `cudaMallocManaged`.
pub(super) const ATTACH_GLOBAL: u32 = 1;

/// An allocation that is counted and granted, but not made yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CountedAllocation {
    pub key: TaskKey,
    pub frame: Option<FrameId>,
    pub taken: Taken,
    /// The task's standing after the answer to the request for this allocation.
    pub standing: Standing,
    /// The task's device; `None`: not known yet.
    pub device: Option<DeviceIndex>,
    /// The device that the program had set, in its own numbers.
    pub set_device: i32,
}

impl CountedAllocation {
    fn bound(
        key: TaskKey,
        frame: Option<FrameId>,
        taken: Taken,
        terms: &Terms,
        set_device: i32,
    ) -> CountedAllocation {
        CountedAllocation {
            key,
            frame,
            taken,
            standing: terms.standing(),
            device: Some(terms.device),
            set_device,
        }
    }

    pub(super) fn allocation(&self, bytes: u64, origin: Origin) -> Allocation {
        let set_device = self.set_device;
        Allocation { set_device, ..Allocation::new(bytes, self.key, self.frame, origin) }
    }
}

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
        self.allocate(thread, bytes, Form::OnStream, plain, |start| start)
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
        if let Some(bypass) = self.bypass() {
            return bypass;
        }
        if bytes == 0 {
            return Outcome::PassThrough(Why::AsItIs);
        }
        self.sync_with_daemon(thread);
        match (form == Form::Linear).then(|| self.reserve_new(thread, bytes)).flatten() {
            Some(Ok(start)) => return Outcome::Handled(managed(start)),
            Some(Err(stop)) => return self.stopped(stop),
            None => {}
        }
        let counted = match self.count_allocation(thread, bytes) {
            Ok(counted) => counted,
            Err(stop) => return self.stopped(stop),
        };
        let Some(device) = counted.device else {
            if let Err(stop) = self.enter_foothold(thread) {
                self.uncount_allocation(counted, bytes, true);
                return self.stopped(stop);
            }
            let made = self.runtime.malloc_managed(bytes, ATTACH_GLOBAL).map(managed);
            return self.record_allocation(counted, made, bytes, Origin::REWRITTEN).into();
        };
        let way = Way::choose(&self.case(thread, &counted, form, bytes, device));
        let mapped = match way {
            Way::Mapped { reserved } => self.map_new(thread, reserved, device),
            _ => None,
        };
        let (made, origin) = match mapped {
            Some((start, origin)) => (Ok(managed(start)), origin),
            None => {
                let plain = (way != Way::Managed).then_some(plain);
                self.malloc_on(thread, bytes, device, plain, managed)
            }
        };
        self.record_allocation(counted, made, bytes, origin).into()
    }

    /// The facts that decide how a counted allocation is made.
    fn case(
        &self,
        thread: &mut Thread,
        counted: &CountedAllocation,
        form: Form,
        bytes: u64,
        device: DeviceIndex,
    ) -> Case {
        let has_site = counted.frame.is_some();
        let may_map =
            has_site && matches!(counted.standing, Standing::Bound { managed: false, releases: true });
        Case {
            standing: counted.standing,
            form,
            bytes,
            has_site,
            // Otherwise `reserve_new` would have made it.
            by_name: false,
            is_captured: !self.state.lock().captures.is_empty(),
            piece: if may_map { self.piece_on(thread, device) } else { None },
            wasted: 0,
        }
    }

    /// `cudaMallocManaged` of the program: counted, and otherwise made as requested.
    pub fn malloc_managed(&self, thread: &mut Thread, bytes: u64, flags: u32) -> Outcome<u64> {
        if self.measuring.is_some() && bytes > 0 {
            return self.malloc_measured(bytes, flags).into();
        }
        if let Some(bypass) = self.bypass() {
            return bypass;
        }
        if bytes == 0 {
            return Outcome::PassThrough(Why::AsItIs);
        }
        self.sync_with_daemon(thread);
        let counted = match self.count_allocation(thread, bytes) {
            Ok(counted) => counted,
            Err(stop) => return self.stopped(stop),
        };
        let entered = match counted.device {
            Some(device) => self.enter(thread, device).map_err(Stop::Cuda),
            None => self.enter_foothold(thread),
        };
        if let Err(stop) = entered {
            self.uncount_allocation(counted, bytes, true);
            return self.stopped(stop);
        }
        let made = self.runtime.malloc_managed(bytes, flags);
        self.record_allocation(counted, made, bytes, Origin::Program).into()
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
        let Some(found) = self.state.lock().memory.at(address) else {
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
        let taken = state.memory.remove(found.id)?;
        state.unstage(found.span());
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
        state.memory.restore(taken);
        self.note_watched(&state);
    }

    /// Tells the daemon of freed memory.
    pub(crate) fn uncount(&self, held: Held) {
        let Held { owner, frame, bytes } = held;
        self.give_back(self.state.lock(), owner, |account| account.give(frame, bytes));
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
    ) -> Result<CountedAllocation, Stop> {
        // Memory that cannot come by name is allocated now, which needs the task's device.
        self.bind_own(thread)?;
        let set_device = thread.program_device;
        let (key, frame, taken, is_bound, terms) = loop {
            let mut state = self.state.lock();
            let (key, frame) = state.client.owner_of_new(&thread.sites);
            let Some(task) = state.client.task_mut(key) else {
                return Err(Stop::Cuda(CudaError::INITIALIZATION));
            };
            if task.kind == Kind::Lazy {
                thread.sites.lazy = Some(key);
            }
            match (task.phase, frame) {
                (Phase::Refused(_), _) => {
                    drop(state);
                    return Err(self.out_of_memory());
                }
                (Phase::Asked(_), _) => {
                    drop(state);
                    self.settle(thread, key)?;
                }
                (Phase::Unbound, Some(frame)) => {
                    drop(state);
                    // A refused site's allocation: if it can never fit, it must fail here, not at the first launch.
                    if let Some(taken) = self.bind_with(thread, key, frame, bytes)? {
                        let terms = self.state.lock().client.task(key).map_or(NO_TERMS, |task| task.terms);
                        return Ok(CountedAllocation::bound(key, Some(frame), taken, &terms, set_device));
                    }
                }
                _ => break (key, frame, task.account.take(frame, bytes), task.is_bound(), task.terms),
            }
        };
        if !is_bound {
            return Ok(CountedAllocation {
                key,
                frame,
                taken,
                standing: Standing::Unbound,
                device: None,
                set_device,
            });
        }
        match self.extend(thread, key, taken.more) {
            Ok(()) => {
                // The answer may have made the task over-subscribed; what it allocates from then on must be managed.
                let terms = self.state.lock().client.task(key).map_or(terms, |task| task.terms);
                Ok(CountedAllocation::bound(key, frame, taken, &terms, set_device))
            }
            Err(stop) => {
                self.uncount_allocation(
                    CountedAllocation::bound(key, frame, taken, &terms, set_device),
                    bytes,
                    false,
                );
                Err(stop)
            }
        }
    }

    /// Requests `bytes` more for a bound task. The daemon answers at once: an extension never waits for memory, since
    /// the task would hold memory while it waits. A refusal becomes the program's out-of-memory error.
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
        // One at a time: the cell has a single flag for the last extension of a slot.
        let _extending = self.extending.lock();
        let sequence = self.send(key.slot, &RequestBody::TaskExtend { bytes })?;
        let refused = match self.await_cell(key.slot, |cell| cell.decision(sequence))? {
            Decision::Bound(told) if told.extend_refused => told.reason,
            Decision::Bound(told) => {
                self.adopt_terms(thread, key, self.terms(told));
                return Ok(None);
            }
            Decision::Refused(code) => code,
        };
        Ok(Some(self.reason(key.slot, refused)))
    }

    pub(crate) fn report_refused_allocation(&self, bytes: u64, reason: &str) {
        let size = shown::size(bytes);
        self.reporter.report(&format!(
            "an allocation of {size} is refused: {reason}. It returns an out-of-memory error"
        ));
    }

    fn malloc_on<M: Made>(
        &self,
        thread: &mut Thread,
        bytes: u64,
        device: DeviceIndex,
        plain: Option<impl FnOnce(&R) -> CudaResult<Option<M>>>,
        managed: impl FnOnce(u64) -> M,
    ) -> (CudaResult<M>, Origin) {
        if let Err(error) = self.enter(thread, device) {
            return (Err(error), Origin::Plain);
        }
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
        counted: CountedAllocation,
        made: CudaResult<M>,
        bytes: u64,
        origin: Origin,
    ) -> CudaResult<M> {
        if let Ok(made) = made {
            let mut state = self.state.lock();
            let buffer = state.memory.insert(made.start(), counted.allocation(bytes, origin));
            if origin.is_rewritten()
                && let Some(task) = state.client.task_mut(counted.key)
            {
                // Its next launch looks whether the grant has room.
                task.own.lacks_pages = true;
            }
            if counted.frame.is_none()
                && origin.is_rewritten()
                && let Some(beliefs) = &mut state.beliefs
            {
                beliefs.allocated(buffer);
                self.note_watched(&state);
            }
        } else {
            self.uncount_allocation(counted, bytes, true);
        }
        made
    }

    /// Uncounts an allocation that was not made. Bytes requested for it are returned if they were granted; the whole
    /// task ends if nothing else is left of it.
    pub(crate) fn uncount_allocation(&self, counted: CountedAllocation, bytes: u64, is_granted: bool) {
        let CountedAllocation { key, frame, taken, .. } = counted;
        self.undo(self.state.lock(), key, |account| {
            let lost = account.untake(frame, bytes, taken);
            lost.saturating_add(if is_granted { taken.more } else { 0 })
        });
    }
}
