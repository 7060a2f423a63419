//! Copies and memsets: which of them the CPU does in managed memory, and which go to the runtime unchanged.
//!
//! Rules (specification S-202, S-509):
//! - host to device, into memory that the shim made managed: the runtime, if the bytes fit the task's grant beside
//!   what it moved in before. Otherwise the CPU fills it, and a prefetch moves in what is *within the grant*: a plain
//!   copy would pull every byte onto the device, whatever the grant is. (The CPU is the slower way: it makes the host's
//!   pages first.)
//! - anything between the host and memory of a task that has no device yet: the CPU;
//! - everything else: forwarded, on the memory's device, perhaps through the pinned ring ([`super::fast`]).
//!
//! Trap: the direction `cudaMemcpyDefault` does not show where the source is, and the CPU must not read device
//! memory. Letting the CPU do such a copy may crash the program.

use crate::buffers;
use crate::ledger::Allocation;
use crate::outcome::{Outcome, Why};
use crate::runtime::{Copy, CopyKind, CudaResult, DeviceIndex, Fill, Order, Rows, Runtime, Span, StreamId};
use crate::scheduler::Scheduler;
use crate::shim::{Shim, Stop};
use crate::state::{Mark, State, Thread};
use crate::task::{Lane, TaskKey};
use crate::virtual_clock;
use eager_client::Occasion;

/// How a copy is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    /// By the CPU into managed memory, which is then moved in if its task has a device.
    FillOnHost { owner: TaskKey, bound: bool },
    /// By the CPU, from managed memory that no device has touched.
    ReadOnHost,
    /// By the runtime, on this device if it is known.
    Runtime(Option<DeviceIndex>),
    /// Not executed now: a graph records it.
    Captured,
}

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// `cudaMemcpy`, `cudaMemcpy2D` and their `Async` forms.
    pub fn copy(&self, thread: &mut Thread, copy: &Copy) -> Outcome<()> {
        self.served(|| {
            if !self.is_watched() {
                return self.copy_prepared(thread, copy);
            }
            if self.keep(thread, copy)? {
                return Ok(());
            }
            let ends = [copy.dst, copy.src];
            self.prepare_call(thread, &ends)?;
            self.note_uses(thread, &ends);
            let copied = self.copy_prepared(thread, copy);
            self.believe(thread, &ends);
            copied
        })
    }

    /// Makes a copy whose ends both have memory.
    fn copy_prepared(&self, thread: &mut Thread, copy: &Copy) -> Result<(), Stop> {
        self.sync_with_daemon(thread);
        let route = route(&self.state.lock(), copy);
        match route {
            Route::FillOnHost { owner, bound } => {
                if bound {
                    self.quiesce(thread, owner, copy.order)?;
                }
                self.fill_in_pieces(thread, copy, owner, bound)
            }
            Route::ReadOnHost => {
                self.copy_rows_on_host(copy);
                copy.src_span().into_iter().for_each(virtual_clock::copied);
                Ok(())
            }
            Route::Captured => Err(Stop::Pass(Why::Captured)),
            Route::Runtime(None) => self.leave_to_runtime(thread),
            Route::Runtime(Some(device)) => {
                if copy.kind == CopyKind::HOST_TO_DEVICE
                    && let Some(span) = copy.dst_span()
                {
                    self.state.lock().moved_in(span);
                }
                self.copy_on(thread, copy, device)
            }
        }
    }

    /// Makes a copy that is given in parts: the slices of `cudaMemcpy3D`.
    pub fn copy_slices(&self, thread: &mut Thread, slices: &[Copy]) -> Outcome<()> {
        for (index, slice) in slices.iter().enumerate() {
            match self.copy(thread, slice) {
                Outcome::Handled(()) => {}
                // Nothing is copied yet, so the runtime makes the whole copy.
                Outcome::PassThrough(why) if index == 0 => return Outcome::PassThrough(why),
                Outcome::PassThrough(_) => {
                    if let Err(error) = self.runtime.copy(slice) {
                        return Outcome::Fail(error);
                    }
                }
                Outcome::Fail(error) => return Outcome::Fail(error),
            }
        }
        if slices.is_empty() { Outcome::PassThrough(Why::NotOurs) } else { Outcome::Handled(()) }
    }

    /// `cudaMemcpyPeer…`: a copy without device numbers, since the addresses determine the devices.
    pub fn copy_peer(&self, thread: &mut Thread, slices: &[Copy]) -> Outcome<()> {
        if let Some(bypass) = self.bypass() {
            return bypass;
        }
        match self.copy_slices(thread, slices) {
            Outcome::PassThrough(_) => {
                let copied = slices
                    .iter()
                    .try_for_each(|slice| self.runtime.copy(&Copy { kind: CopyKind::DEFAULT, ..*slice }));
                copied.into()
            }
            outcome => outcome,
        }
    }

    fn copy_rows_on_host(&self, copy: &Copy) {
        for row in 0..copy.rows.count {
            let (dst, src) = (copy.dst + row * copy.rows.dst_pitch, copy.src + row * copy.rows.src_pitch);
            self.runtime.copy_on_host(dst, src, copy.bytes);
        }
    }

    fn fill_in_pieces(
        &self,
        thread: &mut Thread,
        copy: &Copy,
        owner: TaskKey,
        bound: bool,
    ) -> Result<(), Stop> {
        let Some(span) = copy.dst_span() else { return Err(Stop::Pass(Why::NotOurs)) };
        if copy.rows != Rows::ONE {
            self.copy_rows_on_host(copy);
            self.filled(thread, owner, span, bound);
            return Ok(());
        }
        let piece_bytes = match self.config.fill_piece_bytes {
            0 => copy.bytes,
            bytes => bytes,
        };
        let mut done = 0;
        while done < copy.bytes {
            let bytes = piece_bytes.min(copy.bytes - done);
            let piece = Span { start: copy.dst + done, bytes };
            self.runtime.copy_on_host(piece.start, copy.src + done, bytes);
            self.filled(thread, owner, piece, bound);
            done += bytes;
        }
        Ok(())
    }

    /// `cudaMemset`, `cudaMemset2D` and their `Async` forms: done by the CPU while the memory's task has no device.
    pub fn fill(&self, thread: &mut Thread, fill: &Fill) -> Outcome<()> {
        self.served(|| {
            if self.is_watched() {
                self.prepare_call(thread, &[fill.dst])?;
                // Memory is filled to be used again, so no belief is applied after a fill.
                self.note_uses(thread, &[fill.dst]);
            }
            self.sync_with_daemon(thread);
            let span = fill.span();
            let place = {
                let mut state = self.state.lock();
                let found = span.and_then(|span| state.memory().find_span(span));
                let place = found.map_or(Place::Elsewhere, |found| place(&state, &found));
                state.unsynchronized |= matches!(place, Place::Bound { .. });
                place
            };
            match (place, span) {
                (Place::Unbound { owner }, Some(span)) => {
                    for row in 0..fill.rows {
                        // `cudaMemset` uses the low byte of its value.
                        let value = fill.value.to_le_bytes()[0];
                        self.runtime.fill_on_host(fill.dst + row * fill.pitch, value, fill.bytes);
                    }
                    self.filled(thread, owner, span, false);
                    Ok(())
                }
                (Place::Bound { device, .. }, _) => {
                    self.enter(thread, device)?;
                    Err(Stop::Pass(Why::AsItIs))
                }
                _ => self.leave_to_runtime(thread),
            }
        })
    }

    fn filled(&self, thread: &mut Thread, owner: TaskKey, span: Span, bound: bool) {
        virtual_clock::copied(span);
        self.state.lock().filled(span);
        if bound {
            let device = self.state.lock().client.task(owner).map(|task| task.terms.device);
            if device.is_some_and(|device| self.enter(thread, device).is_ok()) {
                let stream = self.fill_stream(owner);
                self.fetch(owner, stream, &buffers::Order::default(), Occasion::Filled);
            }
        }
    }

    /// Waits for device work that may still use memory that is about to be written by the CPU, or freed.
    pub(crate) fn quiesce(&self, thread: &mut Thread, owner: TaskKey, order: Order) -> CudaResult<()> {
        let (device, needed, marks) = {
            let state = self.state.lock();
            let device = state.client.task(owner).map(|task| task.terms.device);
            (device, state.unsynchronized, state.marks())
        };
        if let Some(device) = device {
            self.enter(thread, device)?;
        }
        if needed {
            self.runtime.device_synchronize()?;
            let mut state = self.state.lock();
            let devices: Vec<DeviceIndex> = state.client.bound().map(|task| task.terms.device).collect();
            // With tasks on several devices, only the device just synchronized is idle.
            state.unsynchronized = devices.iter().any(|&other| Some(other) != device);
            drop(state);
            let ended: Vec<_> = marks.into_iter().filter(|mark| Some(mark.device) == device).collect();
            self.retire(&ended);
        } else if let Order::On(stream) = order {
            self.runtime.stream_synchronize(stream)?;
        } else if order == Order::BlockingPerThread {
            self.runtime.stream_synchronize(StreamId::PER_THREAD)?;
        }
        Ok(())
    }

    /// Makes a copy by the runtime. A blocking copy between host and device waits for the kernels before it, as the
    /// legacy default stream does; a copy within the device does not.
    fn copy_on(&self, thread: &mut Thread, copy: &Copy, device: DeviceIndex) -> Result<(), Stop> {
        self.enter(thread, device)?;
        let waits =
            copy.order.blocks() && [CopyKind::HOST_TO_DEVICE, CopyKind::DEVICE_TO_HOST].contains(&copy.kind);
        if !waits {
            self.state.lock().unsynchronized = true;
            return Err(Stop::Pass(Why::AsItIs));
        }
        let own = Lane::of(StreamId::PER_THREAD, thread.number);
        let marks: Vec<_> = {
            let state = self.state.lock();
            let waited = |mark: &Mark| match copy.order {
                Order::BlockingPerThread => mark.lane == own,
                _ => state.legacy_waits_for(mark, device),
            };
            state.marks().into_iter().filter(waited).collect()
        };
        self.copy_now(copy)?;
        self.retire(&marks);
        self.send_activity();
        Ok(())
    }
}

/// Where an allocation is, as far as copies depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Managed by the shim, without a device so far.
    Unbound {
        owner: TaskKey,
    },
    Bound {
        owner: TaskKey,
        device: DeviceIndex,
        rewritten: bool,
    },
    /// The program's own managed memory before its task has a device, or memory of a task that is gone.
    Elsewhere,
}

fn place(state: &State, allocation: &Allocation) -> Place {
    let owner = allocation.owner;
    let rewritten = allocation.origin.is_rewritten();
    match state.client.task(owner) {
        Some(task) if task.is_bound() => Place::Bound { owner, device: task.terms.device, rewritten },
        Some(_) if rewritten => Place::Unbound { owner },
        _ => Place::Elsewhere,
    }
}

fn route(state: &State, copy: &Copy) -> Route {
    let at = |span: Option<Span>| {
        let found = span.and_then(|span| state.memory().find_span(span));
        found.map(|found| place(state, &found))
    };
    let has_room = |span: Option<Span>| {
        let part = span.and_then(|span| state.memory().part(span));
        part.is_some_and(|part| state.client.has_room_for(part))
    };
    let asynchronous = !copy.order.blocks();
    match (copy.kind, at(copy.dst_span()), at(copy.src_span())) {
        _ if copy.bytes == 0 || copy.rows.count == 0 || copy.src == 0 => Route::Runtime(None),
        _ if !state.captures.is_empty() && asynchronous => Route::Captured,
        (CopyKind::HOST_TO_DEVICE, Some(Place::Unbound { owner }), None) => {
            Route::FillOnHost { owner, bound: false }
        }
        (CopyKind::HOST_TO_DEVICE, Some(Place::Bound { owner, rewritten: true, .. }), None)
            if !has_room(copy.dst_span()) =>
        {
            Route::FillOnHost { owner, bound: true }
        }
        (CopyKind::DEVICE_TO_DEVICE, Some(Place::Unbound { owner }), Some(Place::Unbound { .. })) => {
            Route::FillOnHost { owner, bound: false }
        }
        (CopyKind::DEVICE_TO_HOST, None, Some(Place::Unbound { .. })) => Route::ReadOnHost,
        (_, Some(Place::Bound { device, .. }), _) | (_, _, Some(Place::Bound { device, .. })) => {
            Route::Runtime(Some(device))
        }
        _ => Route::Runtime(None),
    }
}
