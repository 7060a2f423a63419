//! Early copies: keeps a copy to the memory of a task that waits for a device on the host, so that the program goes
//! on (specification S-304).
//!
//! Trap: kept data must reach the device before any later use of the memory, and in the program's order. A hook that
//! names memory of a deferred task without calling [`Shim::flush`] first reads old contents.

use crate::runtime::{Copy, CopyKind, Order, Rows, Runtime, StreamId};
use crate::scheduler::Scheduler;
use crate::shim::{Shim, Stop};
use crate::state::Thread;
use crate::task::{Task, TaskKey};
use eager_client::KeptCopy;
use eager_client::ledger::BufferId;

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// Requests the deferred task that a copy writes to, and keeps the copy if the task must wait. False: the copy
    /// can be made now.
    pub(crate) fn keep(&self, thread: &mut Thread, copy: &Copy) -> Result<bool, Stop> {
        let Some((owner, buffer)) = self.could_wait(copy) else { return Ok(false) };
        self.ask_deferred(thread, owner)?;
        if !self.state.lock().client.is_deferred(owner) {
            return Ok(false);
        }
        let Some(data) = self.runtime.keep_source(copy) else { return Ok(false) };
        let rows = match copy.rows {
            Rows::ONE => Rows::ONE,
            rows => Rows { src_pitch: copy.bytes, ..rows },
        };
        let kept = Copy { src: data.address(), rows, order: Order::Blocking, ..*copy };
        let mut state = self.state.lock();
        if !state.client.is_deferred(owner) {
            // Another thread has bound the task meanwhile; by the program's order this copy comes after that thread's
            // work.
            return Ok(false);
        }
        state.kept.push(KeptCopy { buffer, bytes: data.bytes(), copy: (kept, data) });
        self.note_watched(&state);
        Ok(true)
    }

    /// The deferred task, and the buffer, for whose memory a copy can be kept: a copy from the host, in program order, and
    /// within the budget.
    fn could_wait(&self, copy: &Copy) -> Option<(TaskKey, BufferId)> {
        let in_order = copy.order.blocks()
            || matches!(copy.order, Order::On(s) if s.is_legacy() || s == StreamId::PER_THREAD);
        if copy.kind != CopyKind::HOST_TO_DEVICE || !in_order {
            return None;
        }
        let bytes = copy.bytes.saturating_mul(copy.rows.count);
        let state = self.state.lock();
        let to = state.memory().part(copy.dst_span()?)?;
        let owner = state.client.could_keep(to)?;
        let is_host =
            copy.src != 0 && copy.src_span().is_some_and(|span| state.memory().find(span.start).is_none());
        let has_room = state.kept.bytes().saturating_add(bytes) <= self.config.staging_bytes;
        (is_host && has_room && bytes > 0 && state.captures.is_empty()).then_some((owner, to.buffer))
    }

    /// Copies the data kept for a task to the device, in program order. The task is bound.
    pub(crate) fn flush(&self, thread: &mut Thread, key: TaskKey) -> Result<(), Stop> {
        if self.state.lock().kept.is_empty() {
            return Ok(());
        }
        let _flushing = self.flushing.lock();
        loop {
            let (kept, device) = {
                let state = &mut *self.state.lock();
                let kept = state.kept.take_first_of(&state.client.ledger, key);
                let Some(kept) = kept else {
                    self.note_watched(state);
                    return Ok(());
                };
                (kept, state.client.task(key).map(|task: &Task| task.terms.device))
            };
            let Some(device) = device else { continue };
            let sent = self
                .give_memory(thread, kept.buffer)
                .and_then(|()| Ok(self.enter(thread, device)?))
                .and_then(|()| Ok(self.copy_now(&kept.copy.0)?));
            if let Err(stop) = sent {
                self.state.lock().kept.put_back(kept);
                return Err(stop);
            }
        }
    }
}
