//! Early copies: keeps a copy to the memory of a task that waits for a device on the host, so that the program goes
//! on (specification S-304).
//!
//! Trap: kept data must reach the device before any later use of the memory, and in the program's order. A hook that
//! names memory of a deferred task without calling [`Shim::flush`] first reads old contents.

use crate::runtime::{Copy, CopyKind, Order, Rows, Runtime, StreamId};
use crate::scheduler::Scheduler;
use crate::shim::{Shim, Stop};
use crate::state::{Staged, State, Thread};
use crate::task::{Task, TaskKey};

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// Requests the deferred task that a copy writes to, and keeps the copy if the task must wait. False: the copy
    /// can be made now.
    pub(crate) fn keep(&self, thread: &mut Thread, copy: &Copy) -> Result<bool, Stop> {
        let Some(owner) = self.could_wait(copy) else { return Ok(false) };
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
        state.staged.push(Staged { owner, copy: kept, data });
        self.note_watched(&state);
        Ok(true)
    }

    /// The deferred task for whose memory a copy can be kept: a copy from the host, in program order, and within the
    /// budget.
    fn could_wait(&self, copy: &Copy) -> Option<TaskKey> {
        let in_order = copy.order.blocks()
            || matches!(copy.order, Order::On(s) if s.is_legacy() || s == StreamId::PER_THREAD);
        if !self.habits.early_copies || copy.kind != CopyKind::HOST_TO_DEVICE || !in_order {
            return None;
        }
        let bytes = copy.bytes.saturating_mul(copy.rows.count);
        let state = self.state.lock();
        let is_host =
            copy.src != 0 && copy.src_span().is_some_and(|span| state.memory().find(span.start).is_none());
        let has_room = state.staged_bytes().saturating_add(bytes) <= self.config.staging_bytes;
        if !is_host || !has_room || bytes == 0 || !state.captures.is_empty() {
            return None;
        }
        let target = copy.dst_span().and_then(|span| state.memory().find_span(span))?;
        Some(target.owner).filter(|&owner| state.client.is_deferred(owner))
    }

    /// Copies the data kept for a task to the device, in program order. The task is bound.
    pub(crate) fn flush(&self, thread: &mut Thread, key: TaskKey) -> Result<(), Stop> {
        let has_any = |state: &State| state.staged.iter().any(|staged| staged.owner == key);
        if !has_any(&self.state.lock()) {
            return Ok(());
        }
        let _flushing = self.flushing.lock();
        loop {
            let (staged, device) = {
                let mut state = self.state.lock();
                let next = state.staged.iter().position(|staged| staged.owner == key);
                let Some(next) = next else {
                    self.note_watched(&state);
                    return Ok(());
                };
                (state.staged.remove(next), state.client.task(key).map(|task: &Task| task.terms.device))
            };
            let buffer = self.state.lock().memory().find(staged.copy.dst).map(|found| found.id);
            let Some((buffer, device)) = buffer.zip(device) else { continue };
            let sent = self
                .give_memory(thread, buffer)
                .and_then(|()| Ok(self.enter(thread, device)?))
                .and_then(|()| Ok(self.copy_now(&staged.copy)?));
            if let Err(stop) = sent {
                // The copy is kept, and the next call that names the memory retries it.
                self.state.lock().staged.insert(0, staged);
                return Err(stop);
            }
        }
    }
}
