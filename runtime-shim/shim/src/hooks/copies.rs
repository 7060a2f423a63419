//! Copies and memsets: which of them the CPU does in managed memory, and which go to the runtime unchanged.
//!
//! [`eager_client::Client::route`] decides; what goes to the runtime goes on the memory's device, perhaps through the
//! pinned ring ([`super::fast`]).
//!
//! Trap: kernels may still use memory that the CPU is about to write, and CUDA orders nothing of the CPU's.

use crate::outcome::{Outcome, Why};
use crate::runtime::{Copy, CopyKind, CudaResult, DeviceIndex, Fill, Order, Rows, Runtime, Span, StreamId};
use crate::scheduler::Scheduler;
use crate::shim::{Shim, Stop};
use crate::state::{Mark, State, Thread};
use crate::task::{Lane, TaskKey};
use crate::virtual_clock;
use eager_client::ledger::Part;
use eager_client::{Direction, Occasion, Pieces, Route};

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
        // Not in the match, which would hold the lock.
        let route = route(&mut self.state.lock(), copy)?;
        match route {
            Route::Cpu(pieces) => self.fill_in_pieces(thread, copy, pieces),
            Route::CpuReads => {
                self.copy_rows_on_host(copy);
                copy.src_span().into_iter().for_each(virtual_clock::copied);
                Ok(())
            }
            Route::Elsewhere => self.leave_to_runtime(thread),
            Route::Device(device) => self.copy_on(thread, copy, device),
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

    fn fill_in_pieces(&self, thread: &mut Thread, copy: &Copy, mut pieces: Pieces) -> Result<(), Stop> {
        if let Some(owner) = pieces.bound {
            self.quiesce(thread, owner, copy.order)?;
        }
        let is_one_row = copy.rows == Rows::ONE;
        let bytes_max = if is_one_row { self.config.fill_piece_bytes } else { 0 };
        let start = pieces.whole.span.start;
        while let Some(piece) = pieces.next(bytes_max) {
            let Span { start: at, bytes } = piece.span;
            match is_one_row {
                true => self.runtime.copy_on_host(copy.dst + (at - start), copy.src + (at - start), bytes),
                false => self.copy_rows_on_host(copy),
            }
            self.filled(thread, Span { start: copy.dst + (at - start), bytes }, piece);
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
            let route = {
                let mut state = self.state.lock();
                let to = fill.span().and_then(|span| state.memory().part(span));
                let route = state.client.route(Direction::Fill, to, None);
                state.unsynchronized |= matches!(route, Route::Device(_));
                route
            };
            match route {
                Route::Cpu(pieces) => {
                    for row in 0..fill.rows {
                        // `cudaMemset` uses the low byte of its value.
                        let value = fill.value.to_le_bytes()[0];
                        self.runtime.fill_on_host(fill.dst + row * fill.pitch, value, fill.bytes);
                    }
                    let bytes = pieces.whole.span.bytes;
                    self.filled(thread, Span { start: fill.dst, bytes }, pieces.whole);
                    Ok(())
                }
                Route::Device(device) => {
                    self.enter(thread, device)?;
                    Err(Stop::Pass(Why::AsItIs))
                }
                Route::CpuReads | Route::Elsewhere => self.leave_to_runtime(thread),
            }
        })
    }

    /// The CPU has written `span`, a part of managed memory.
    fn filled(&self, thread: &mut Thread, span: Span, part: Part) {
        virtual_clock::copied(span);
        let (spans, owner) = {
            let state = &mut *self.state.lock();
            let plan = state.client.filled(part);
            let owner = state.client.ledger.get(part.buffer).and_then(|found| state.client.task(found.owner));
            (state.memory().spans_of(plan), owner.map(|task| (task.key, task.terms.device)))
        };
        if let Some((key, device)) = owner.filter(|_| !spans.is_empty())
            && self.enter(thread, device).is_ok()
        {
            self.prefetch(key, spans, Occasion::Filled);
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

/// Who makes a copy.
fn route(state: &mut State, copy: &Copy) -> Result<Route<DeviceIndex>, Stop> {
    if copy.bytes == 0 || copy.rows.count == 0 || copy.src == 0 {
        return Ok(Route::Elsewhere);
    }
    if !state.captures.is_empty() && !copy.order.blocks() {
        // Not executed now: a graph records it.
        return Err(Stop::Pass(Why::Captured));
    }
    let direction = match copy.kind {
        CopyKind::HOST_TO_DEVICE => Direction::ToDevice,
        CopyKind::DEVICE_TO_HOST => Direction::ToHost,
        CopyKind::DEVICE_TO_DEVICE => Direction::OnDevice,
        _ => Direction::Unknown,
    };
    let part = |span: Option<Span>| span.and_then(|span| state.memory().part(span));
    let (to, from) = (part(copy.dst_span()), part(copy.src_span()));
    Ok(state.client.route(direction, to, from))
}
