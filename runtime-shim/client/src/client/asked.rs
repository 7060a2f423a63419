//! Requests for tasks, and what the daemon's decisions mean.

use super::{AllocationAsked, Client, Counted, Decided, Over, Step, Wanted};
use crate::account::FrameId;
use crate::cell::{Cell, Decision, Told};
use crate::request::{Begin, Outbox, Request};
use crate::task::{Asked, Cause, Geometry, Kind, Phase, Slot, TaskKey};
use eager_proto::reply::{REASON_TOO_LARGE, has_reached};
use eager_proto::request::BeginFlags;

/// A thread's request for more memory of a bound task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension {
    pub key: TaskKey,
    pub bytes: u64,
    /// Sequence of the request, once it is sent.
    asked: Option<u32>,
}

impl Extension {
    pub fn new(key: TaskKey, bytes: u64) -> Extension {
        Extension { key, bytes, asked: None }
    }
}

/// What becomes of an [`Extension`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extended<D> {
    /// Wait until the slot's cell is no longer the one that was read, and ask again.
    Wait,
    /// The task has the bytes, under these terms: it may be over-subscribed now.
    Granted(Told<D>),
    /// The task keeps what it had. With the number of the reason.
    Refused(u32),
    /// The task is over, and nothing was asked for it.
    Gone,
}

impl<D: Default + Copy + PartialEq, W: Default> Client<D, W> {
    /// Asks for more memory for a bound task, once. The daemon answers at once: an extension never waits for memory, since
    /// the task would hold memory while it waits.
    ///
    /// A slot's cell has one flag for the answer, so one thread asks at a time. Whoever sees the answer first keeps it for
    /// the thread that asked, so that a thread which never looks again stops no other.
    pub fn extend(
        &mut self,
        extension: &mut Extension,
        cell: &Cell<D>,
        out: &mut impl Outbox,
    ) -> Extended<D> {
        let Extension { key, bytes, asked } = *extension;
        let Some(task) = self.task_mut(key).filter(|task| task.is_bound()) else { return Extended::Gone };
        if let Some(sequence) = task.extending
            && let Some(decision) = cell.decision(sequence)
        {
            let refusal = match decision {
                Decision::Bound(told) => told.extend_refused.then_some(told.reason),
                Decision::Refused(code) => Some(code),
            };
            task.extending = None;
            task.extended.push((sequence, refusal));
        }
        if let Some(answer) = task.extended.iter().position(|(sequence, _)| Some(*sequence) == asked) {
            return match (task.extended.swap_remove(answer).1, cell.told()) {
                (Some(code), _) => Extended::Refused(code),
                (None, Some(told)) => Extended::Granted(told),
                (None, None) => Extended::Gone,
            };
        }
        if asked.is_none() && task.extending.is_none() {
            task.extending = Some(out.send(key.slot, Request::Extend(bytes)));
            extension.asked = task.extending;
        }
        Extended::Wait
    }

    /// A thread needs the device of a task, which is asked for now if it has not been. `geometry`: of the launch that
    /// needs it, for the lazy task.
    pub fn need(
        &mut self,
        key: TaskKey,
        cell: &Cell<D>,
        geometry: Geometry,
        out: &mut impl Outbox,
    ) -> Step<D, W> {
        let Some(task) = self.task(key) else { return Step::Gone };
        let (bytes, geometry, flags) = match task.phase {
            Phase::Unbound => {
                let bytes = task.account.live();
                if let Some(first) = self.before_lazy(key) {
                    return Step::First(first);
                }
                (bytes, geometry, BeginFlags { managed: bytes > 0, ..BeginFlags::LAZY })
            }
            Phase::Deferred => {
                // Memory that comes by name is never over-subscribed.
                let whole = task.by_name.is_some() || self.declared.is_some_and(|declared| declared.whole);
                let flags = BeginFlags { whole, ..BeginFlags::NONE };
                (task.account.reserved(), task.geometry, flags)
            }
            _ => return self.look(key, cell, out),
        };
        if !self.is_slot_free(key.slot, cell) {
            return Step::Wait;
        }
        self.ask(key, bytes, geometry, flags, Cause::Use, out);
        Step::Wait
    }

    /// Asks for the lazy task for an allocation by a refused site: all that the task has, and these bytes. `Err`: what
    /// the thread does first. The request may wait, as no memory is held.
    pub fn ask_for_allocation(
        &mut self,
        key: TaskKey,
        frame: FrameId,
        wanted: Wanted,
        cell: &Cell<D>,
        out: &mut impl Outbox,
    ) -> Result<AllocationAsked, Step<D, W>> {
        if !self.is_unbound(key) {
            return Err(self.look(key, cell, out));
        }
        if let Some(first) = self.before_lazy(key) {
            return Err(Step::First(first));
        }
        if !self.is_slot_free(key.slot, cell) {
            return Err(Step::Wait);
        }
        let Some(task) = self.task_mut(key) else { return Err(Step::Gone) };
        let flags = BeginFlags { managed: task.account.live() > 0, ..BeginFlags::LAZY };
        let bytes = wanted.bytes;
        let taken = task.account.take(Some(frame), bytes);
        let live = task.account.live();
        let cause = Cause::Allocation { frame, bytes, taken };
        let sequence = self.ask(key, live, Geometry::UNKNOWN, flags, cause, out);
        Ok(AllocationAsked { counted: Counted::with_request(key, frame, wanted, taken), sequence })
    }

    /// True if this allocation's request was refused, which has uncounted it. To be asked when the task is no longer
    /// asked for.
    pub fn is_refused(&self, asked: &AllocationAsked) -> bool {
        let refused = self.task(asked.counted.key).and_then(|task| task.refused_last);
        // A task whose request was granted asks for nothing more in this way.
        refused.is_some_and(|refused| has_reached(refused, asked.sequence))
    }

    /// A thread needs a device for a context: that of the lazy or declared task (`key`), or [`Client::foothold`]. If
    /// there is neither, one is asked for in the lazy task's slot, without memory.
    pub fn need_foothold(&mut self, key: TaskKey, cell: &Cell<D>, out: &mut impl Outbox) -> Step<D, W> {
        if !self.is_unbound(key) {
            // A declared task is asked for now.
            return self.need(key, cell, Geometry::UNKNOWN, out);
        }
        if self.foothold.is_some() {
            return Step::Ready;
        }
        if !self.is_slot_free(key.slot, cell) {
            return Step::Wait;
        }
        self.ask(key, 0, Geometry::UNKNOWN, BeginFlags::LAZY, Cause::Foothold, out);
        Step::Wait
    }

    pub(super) fn ask(
        &mut self,
        key: TaskKey,
        bytes: u64,
        geometry: Geometry,
        flags: BeginFlags,
        cause: Cause,
        out: &mut impl Outbox,
    ) -> u32 {
        let site = self.task(key).map_or(0, |task| task.site);
        let sequence = out.send(key.slot, Request::Begin(Begin { site, bytes, geometry, flags }));
        self.set_phase(key, Phase::Asked(Asked { sequence, bytes, cause }));
        sequence
    }

    /// True if the end of the slot's last task is answered.
    fn is_slot_free(&mut self, slot: Slot, cell: &Cell<D>) -> bool {
        self.ended[slot.index()].take_if(|end| cell.answers(*end));
        self.ended[slot.index()].is_none()
    }

    /// Enters the daemon's decision on a task if its cell shows one; asks for nothing.
    pub fn look(&mut self, key: TaskKey, cell: &Cell<D>, out: &mut impl Outbox) -> Step<D, W> {
        let Some(task) = self.task(key) else { return Step::Gone };
        let (kind, site) = (task.kind, task.site);
        let asked = match task.phase {
            Phase::Asked(asked) => asked,
            Phase::Bound => return Step::Ready,
            Phase::Refused(_) => return Step::Refused,
            Phase::Unbound | Phase::Deferred => return Step::Unasked,
        };
        match (cell.decision(asked.sequence), asked.cause) {
            (None, _) => Step::Wait,
            (Some(Decision::Bound(told)), Cause::Foothold) => {
                self.set_phase(key, Phase::Unbound);
                self.send_end(key.slot, out);
                self.foothold = Some(told.device);
                Step::Decided(Decided::Foothold, None)
            }
            (Some(Decision::Bound(told)), Cause::Begin | Cause::Use | Cause::Allocation { .. }) => {
                if let Some(task) = self.task_mut(key) {
                    (task.terms, task.phase) = (told, Phase::Bound);
                }
                let over = self.catch_up(key, asked.bytes, out);
                if self.task(key).is_some_and(|task| self.handles_apart(task).is_some()) {
                    return Step::Decided(Decided::Apart, over);
                }
                self.foothold = Some(told.device);
                Step::Decided(Decided::Bound(told), over)
            }
            (Some(Decision::Refused(_)), Cause::Allocation { frame, bytes, taken }) => {
                if let Some(task) = self.task_mut(key) {
                    task.account.untake(Some(frame), bytes, taken);
                    (task.phase, task.refused_last) = (Phase::Unbound, Some(asked.sequence));
                }
                // The daemon shows the refused task in the slot until it is ended.
                self.send_end(key.slot, out);
                Step::Decided(Decided::RefusedAllocation { bytes }, None)
            }
            (Some(Decision::Refused(code)), cause) => {
                self.set_phase(key, Phase::Refused(code));
                let over = self.catch_up(key, asked.bytes, out);
                let bytes = asked.bytes;
                let decided = match cause {
                    Cause::Begin if code == REASON_TOO_LARGE => Decided::TooLarge { site, bytes },
                    _ => Decided::Refused { kind, site, bytes },
                };
                Step::Decided(decided, over)
            }
        }
    }

    fn set_phase(&mut self, key: TaskKey, phase: Phase) {
        if let Some(task) = self.task_mut(key) {
            task.phase = phase;
        }
    }

    /// Tells the daemon what it could not be told while the request for `asked` bytes was not decided on: memory that
    /// was freed meanwhile, sites that ended, and that all kernels are launched. Does not end the bound lazy task,
    /// which the thread that asked for it is about to use.
    fn catch_up(&mut self, key: TaskKey, asked: u64, out: &mut impl Outbox) -> Over<D, W> {
        let pinned = self.pinned;
        let task = self.task(key)?;
        let gone = asked.saturating_sub(task.account.reserved());
        let is_used = task.kind == Kind::Lazy && task.is_bound();
        let due = task.due(gone, pinned || is_used);
        let over = self.tell(key, due, out);
        self.tell_all_launched(key, out);
        over
    }
}
