//! When a program's buffers take and give back device memory, as in the runtime shim: at allocation and free, or,
//! under the policy's habits, from the first use on the device to the last.
//!
//! Trap: a buffer gives its memory back in stream order. A program that continues at once may want the next buffer's
//! memory before the last buffer's is free, and then waits for its stream.

use crate::client::{Blocked, Buffer, Queued};
use crate::engine::{SimError, World, model_time};
use crate::job::JobOp;
use crate::lives;
use crate::result::Outcome;
use crate::steps::Step;
use eager_client::ledger::{Allocation, Backing, BufferId, Origin, Part};
use eager_client::spans::Span;
use eager_client::way::{Form, Way};
use eager_client::{Allocating, Direction, Extension, FILL_PIECE_BYTES, KeptCopy, Route, Wanted};
use eager_gpu_model::{Advice, AllocKind, Op, Range};
use eager_units::Bytes;
use std::collections::BTreeSet;

/// Result of preparing a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    /// The program waits, or has ended.
    Wait,
    /// The step has already been carried out in another way.
    Done,
}

impl<'a> World<'a> {
    /// Prepares a step's use of the device: requests the task, enters the context, sends staged data, and gives
    /// memory to buffers without any. A copy to the device that comes before the memory is staged instead.
    pub(crate) fn prepare(&mut self, index: usize, step: &Step<'a>) -> Result<Readiness, SimError> {
        let names = lives::uses(step);
        if names.is_empty() {
            return Ok(Readiness::Ready);
        }
        let is_bound = self.need_task(index)?;
        if self.clients[index].result.outcome != Outcome::Done {
            self.end(index)?;
            return Ok(Readiness::Wait);
        }
        if !is_bound {
            return self.do_without_device(index, step);
        }
        if !self.clients[index].is_in_context() && !self.enter_context(index)? {
            return Ok(Readiness::Wait);
        }
        let sent = self.send_staged(index)?;
        if sent != Readiness::Ready {
            return Ok(sent);
        }
        for name in &names {
            let placed = self.place(index, name)?;
            if placed != Readiness::Ready {
                return Ok(placed);
            }
        }
        self.note_use(index, &names)?;
        Ok(Readiness::Ready)
    }

    /// Checks that the buffers which a step is about to use have memory.
    fn note_use(&self, index: usize, names: &BTreeSet<&str>) -> Result<(), SimError> {
        let client = &self.clients[index];
        let task = client.task().and_then(|task| task.own.id);
        let Some(task) = task.filter(|_| self.options.audit) else { return Ok(()) };
        self.judge("a step uses its buffers", self.auditor.uses(client.id, task, names))
    }

    /// Handles a step without a device: only a copy to the device can be done, by staging it.
    fn do_without_device(&mut self, index: usize, step: &Step<'a>) -> Result<Readiness, SimError> {
        if let Step::Other(JobOp::CopyToDevice { buffer, bytes, .. }) = step
            && self.stage(index, buffer, *bytes)
        {
            return Ok(Readiness::Done);
        }
        self.clients[index].blocked = Blocked::Asked;
        Ok(Readiness::Wait)
    }

    /// Keeps a copy of the data on the host, made at the rate of one host thread on one core. Returns false if there is no room.
    fn stage(&mut self, index: usize, name: &'a str, bytes: u64) -> bool {
        let client = &mut self.clients[index];
        let Some(&buffer) = client.addresses.get(name) else { return false };
        let part = Part { buffer, span: Span { start: 0, bytes } };
        if client.tasks.could_keep(part).is_none() || !self.host.stage(bytes) {
            return false;
        }
        client.kept.push(KeptCopy { buffer, bytes, copy: name });
        client.staged += bytes;
        self.begin_host_phase(index, bytes as f64 / self.options.model.host_copy_bytes_per_s);
        true
    }

    /// Frees staged host memory.
    pub(crate) fn unstage(&mut self, index: usize, bytes: u64) -> Result<(), SimError> {
        let client = &mut self.clients[index];
        client.staged -= bytes;
        self.host.unstage(bytes);
        self.submit_jobs()
    }

    /// Sends staged data, beside the host's work.
    fn send_staged(&mut self, index: usize) -> Result<Readiness, SimError> {
        loop {
            let client = &mut self.clients[index];
            let Some(key) = client.task().map(|task| task.key) else { return Ok(Readiness::Ready) };
            let Some(kept) = client.kept.take_first_of(&client.tasks.ledger, key) else {
                return Ok(Readiness::Ready);
            };
            let placed = self.place(index, kept.copy)?;
            if placed != Readiness::Ready {
                self.clients[index].kept.put_back(kept);
                return Ok(placed);
            }
            let part = Part { buffer: kept.buffer, span: Span { start: 0, bytes: kept.bytes } };
            let pinned = self.clients[index].tasks.uses_ring(part);
            self.copy_by_engine(index, kept.copy, kept.bytes, pinned)?;
            self.clients[index].stream.push_back(Queued::Unstage(kept.bytes));
            self.start_next(index)?;
        }
    }

    /// Gives memory to an address.
    fn place(&mut self, index: usize, name: &'a str) -> Result<Readiness, SimError> {
        let client = &mut self.clients[index];
        let Some(&id) = client.addresses.get(name) else { return Ok(Readiness::Ready) };
        if client.releases_pending() && client.tasks.short_task(id).is_some() {
            client.blocked = Blocked::Stream;
            return Ok(Readiness::Wait);
        }
        client.addresses.remove(name);
        let coming = client.tasks.count_coming(id);
        if !self.extend(index, coming.map_or(0, |coming| coming.more))? {
            return Ok(Readiness::Wait);
        }
        self.clients[index].tasks.ledger.set_backing(id, Backing::Present);
        let has_memory = self.take_memory(index, name, id)?;
        let is_free = self.clients[index].blocked == Blocked::Not;
        Ok(if has_memory && is_free { Readiness::Ready } else { Readiness::Wait })
    }

    /// Handles an allocation; where memory comes later, it gets an address only. Returns false if the program waits or
    /// ends. After true the program may still have to wait until the memory is free.
    pub(crate) fn alloc(&mut self, index: usize, name: &'a str, bytes: u64) -> Result<bool, SimError> {
        let client = &mut self.clients[index];
        if client.buffers.contains_key(name) {
            // Another buffer of this name has not given its memory back yet.
            client.blocked = Blocked::Stream;
            return Ok(false);
        }
        let Some(task) = client.task() else { return Ok(true) };
        let has_memory_now = task.is_bound() && (task.by_name.is_none() || task.terms.managed);
        if has_memory_now && !client.is_in_context() && !self.enter_context(index)? {
            return Ok(false);
        }
        let client = &mut self.clients[index];
        let wanted = Wanted { bytes, form: Form::Linear, is_captured: false };
        let Allocating::Counted(counted) = client.tasks.allocate(&mut client.sites, wanted) else {
            // Asked for already: a task that is not asked for yet gives addresses.
            client.blocked = Blocked::Asked;
            return Ok(false);
        };
        if !self.extend(index, counted.more)? {
            return Ok(false);
        }
        let client = &mut self.clients[index];
        client.tasks.granted(&counted);
        if let Some(reserved) = counted.by_name {
            let origin = Origin::Mapped { reserved, backing: Backing::Awaited };
            let id = client.tasks.ledger.insert(counted.allocation(origin));
            client.addresses.insert(name, id);
            return Ok(true);
        }
        let Some((_, case)) = client.tasks.case(&counted) else { return Ok(true) };
        let origin = Way::choose(&case, || Some(1)).origin();
        let id = client.tasks.ledger.insert(counted.allocation(origin));
        self.take_memory(index, name, id)
    }

    /// Requests more bytes for the open task. Returns false if they are refused, and the program ends.
    fn extend(&mut self, index: usize, beyond: u64) -> Result<bool, SimError> {
        let Some(task) = self.clients[index].task().filter(|_| beyond > 0) else { return Ok(true) };
        let mut extension = Extension::new(task.key, beyond);
        // The core answers at once.
        for _ in 0..2 {
            let cell = self.cell(index, extension.key);
            let client = &mut self.clients[index];
            client.tasks.extend(&mut extension, &cell, &mut client.wire);
            self.send_requests(index)?;
        }
        if self.clients[index].result.outcome != Outcome::Done {
            self.end(index)?;
            return Ok(false);
        }
        self.take_terms(index, extension.key)?;
        Ok(true)
    }

    /// Makes the memory of a buffer that is counted. Returns false if the device has no room, and the program ends.
    fn take_memory(&mut self, index: usize, name: &'a str, buffer: BufferId) -> Result<bool, SimError> {
        let client = &self.clients[index];
        let found = client.tasks.ledger.get(buffer).zip(client.task().and_then(|task| task.own.id));
        let (Some(context), Some((&Allocation { bytes, origin, .. }, task))) = (client.context, found) else {
            return Ok(true);
        };
        let kind = if origin.is_rewritten() { AllocKind::Managed } else { AllocKind::Device };
        let (id, now) = (client.id, model_time(self.now));
        let made = match self.model.alloc(now, context, bytes, kind) {
            Ok(made) => made,
            Err(error) => return self.out_of_memory(index, error),
        };
        let alloc = made.id;
        if kind == AllocKind::Managed {
            self.model.advise(now, alloc, Range { offset: 0, bytes }, Advice::PreferredDevice)?;
        }
        if self.options.audit {
            let taken = self.auditor.takes(id, task, name, Bytes(bytes), kind == AllocKind::Device);
            self.judge("a buffer takes memory", taken)?;
        }
        let client = &mut self.clients[index];
        client.buffers.insert(name, Buffer { id: buffer, alloc, bytes });
        if let Some(op) = made.ready {
            client.blocked = Blocked::Operation(op);
            self.operations.insert(op, index);
        }
        Ok(true)
    }

    /// Copies to a buffer. The program continues once the data has arrived, or, where the CPU makes the copy, once the last
    /// piece is written; kernels wait for the prefetches in the stream.
    pub(crate) fn copy_in(
        &mut self,
        index: usize,
        name: &'a str,
        bytes: u64,
        pinned: bool,
    ) -> Result<bool, SimError> {
        let client = &mut self.clients[index];
        let Some(whole) = client.buffers.get(name).map(|buffer| buffer.part(0, bytes)) else {
            return Ok(true);
        };
        if client.filling.is_none() {
            match client.tasks.route(Direction::ToDevice, Some(whole), None) {
                Route::Cpu(pieces) => client.filling = Some((pieces, None)),
                _ => {
                    let pinned = pinned || client.tasks.uses_ring(whole);
                    self.copy_by_engine(index, name, bytes, pinned)?;
                    self.clients[index].blocked = Blocked::Stream;
                    return Ok(true);
                }
            }
        }
        self.fill(index, name)
    }

    fn copy_by_engine(
        &mut self,
        index: usize,
        name: &'a str,
        bytes: u64,
        pinned: bool,
    ) -> Result<(), SimError> {
        let Some(buffer) = self.clients[index].buffers.get(name).copied() else { return Ok(()) };
        let range = Range { offset: 0, bytes };
        self.enqueue(index, Op::CopyToDevice { alloc: buffer.alloc, range, pinned })
    }

    /// Called once for each piece that the CPU writes, and once more at the end.
    fn fill(&mut self, index: usize, name: &'a str) -> Result<bool, SimError> {
        let client = &mut self.clients[index];
        let (Some((mut pieces, written)), Some(buffer), Some(context)) =
            (client.filling, client.buffers.get(name).copied(), client.context)
        else {
            return Ok(true);
        };
        if pieces.is_new() && client.launches_pending() > 0 {
            client.blocked = Blocked::Kernels;
            return Ok(false);
        }
        if let Some(written) = written {
            let plan = client.tasks.filled(written);
            let ops = client.prefetches(plan);
            ops.into_iter().try_for_each(|op| self.enqueue(index, op))?;
        }
        let next = pieces.next(FILL_PIECE_BYTES);
        self.clients[index].filling = next.map(|piece| (pieces, Some(piece)));
        let Some(Part { span: Span { start, bytes }, .. }) = next else { return Ok(true) };
        let range = Range { offset: start, bytes };
        let op = self.submit(index, context, Op::HostAccess { alloc: buffer.alloc, range })?;
        self.clients[index].blocked = Blocked::Operation(op);
        Ok(false)
    }

    /// Handles `cudaFree`; does nothing for a buffer that is already dead.
    pub(crate) fn free(&mut self, index: usize, name: &'a str) -> Result<bool, SimError> {
        if self.clients[index].addresses.contains_key(name) {
            return self.forget_address(index, name).map(|()| true);
        }
        let client = &mut self.clients[index];
        let is_dead =
            client.stream.iter().any(|queued| matches!(queued, Queued::Release(dead) if *dead == name));
        if is_dead || !client.buffers.contains_key(name) {
            return Ok(true);
        }
        if !client.stream_empty() {
            client.blocked = Blocked::Stream;
            return Ok(false);
        }
        self.release(index, name)?;
        Ok(true)
    }

    /// Gives back buffers that nothing uses after the step just finished, in stream order.
    pub(crate) fn release_dead(&mut self, index: usize) -> Result<(), SimError> {
        let client = &self.clients[index];
        for name in client.lives.dead_after(client.at).to_vec() {
            if self.clients[index].addresses.contains_key(name) {
                self.forget_address(index, name)?;
            } else {
                self.clients[index].stream.push_back(Queued::Release(name));
                self.start_next(index)?;
            }
        }
        Ok(())
    }

    /// Drops an address that never got memory, and gives back what was reserved for it.
    pub(crate) fn forget_address(&mut self, index: usize, name: &str) -> Result<(), SimError> {
        let client = &mut self.clients[index];
        let Some(buffer) = client.addresses.remove(name) else { return Ok(()) };
        let kept = client.kept.forget(buffer);
        self.unstage(index, kept)?;
        self.give_back(index, buffer)
    }

    pub(crate) fn release(&mut self, index: usize, name: &str) -> Result<(), SimError> {
        let client = &mut self.clients[index];
        let Some(buffer) = client.buffers.remove(name) else { return Ok(()) };
        let id = client.id;
        self.auditor.returns(id, name);
        self.model.free(model_time(self.now), buffer.alloc)?;
        self.give_back(index, buffer.id)
    }
}
