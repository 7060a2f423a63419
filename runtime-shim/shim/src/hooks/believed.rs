//! Buffers that are believed dead ([`crate::beliefs`]): their contents move to the host and their device memory is
//! returned, until a call names them again.
//!
//! Only memory that the shim made managed is moved: a later use finds the contents, whether the shim sees the use or
//! not. A kernel that reaches such a buffer through a pointer in memory uses it unseen; its pages then return by page
//! faults, uncounted.

use crate::dying::Certainty;
use crate::ledger::Allocation;
use crate::runtime::{Runtime, StreamId};
use crate::scheduler::Scheduler;
use crate::shim::Shim;
use crate::state::{State, Thread};
use crate::stats;
use crate::task::{Phase, Release, Task};
use std::collections::BTreeSet;

/// Start addresses of the allocations that words point into; `None` where there are no beliefs, as in most programs,
/// so that their launches do not pay for the search.
fn bases(state: &State, words: &[u64]) -> Option<Vec<u64>> {
    state.beliefs.as_ref()?;
    Some(state.ledger.pointed_at(words).into_iter().map(|allocation| allocation.span.start).collect())
}

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// Called before a call that names these addresses: moves back what was moved to the host.
    pub(crate) fn note_uses(&self, thread: &mut Thread, words: &[u64]) {
        let away: Vec<u64> = {
            let mut state = self.state.lock();
            let Some(mut bases) = bases(&state, words) else { return };
            let Some(beliefs) = &mut state.beliefs else { return };
            beliefs.used(&bases);
            let named: BTreeSet<u64> = bases.iter().copied().collect();
            // A mark made before this use no longer shows that the buffer is dead.
            let is_over =
                |address: u64, certainty| certainty == Certainty::Believed && named.contains(&address);
            let left = state.dying.remove(is_over);
            bases.retain(|base| state.ledger.get(*base).is_some_and(|allocation| allocation.is_away));
            drop(state);
            self.forget_until(left);
            bases
        };
        away.into_iter().for_each(|base| self.bring_back(thread, base));
    }

    /// Called after a call that names these addresses: buffers now believed dead are moved out once the device has
    /// finished with them.
    pub(crate) fn believe(&self, thread: &mut Thread, words: &[u64]) {
        {
            let mut state = self.state.lock();
            let Some(bases) = bases(&state, words) else { return };
            let Some(beliefs) = &mut state.beliefs else { return };
            let dead = beliefs.dead_among(&bases);
            if dead.is_empty() {
                return;
            }
            dead.into_iter().for_each(|address| state.dying.push(address, Certainty::Believed));
        }
        self.return_dying_memory(thread);
    }

    /// Moves a buffer's contents to the host. The caller has checked that the device has finished all earlier work on
    /// it.
    pub(crate) fn send_away(&self, address: u64) {
        let _mapping = self.mapping.lock();
        let found = self.state.lock().ledger.movable(address).cloned();
        let Some(Allocation { owner, span, .. }) = found else { return };
        if self.runtime.move_to_host(span).is_err() {
            // The contents stay on the device, and counted.
            return;
        }
        let mut state = self.state.lock();
        state.ledger.set_away(address, true);
        let pinned = state.pinned;
        let sent = |task: &mut Task| task.send_away(span.bytes, pinned);
        let release = state.task_mut(owner).map_or(Release::Nothing, sent);
        let streams = self.release(&mut state, owner, release);
        drop(state);
        self.destroy(streams);
        stats::count_believed();
    }

    /// Counts a buffer that is used after all, and moves it to the device. If the daemon refuses its memory, it stays
    /// uncounted on the host, and its pages move by faults: slow, but correct.
    fn bring_back(&self, thread: &mut Thread, address: u64) {
        let _mapping = self.mapping.lock();
        let (owner, span, device, more) = {
            let mut state = self.state.lock();
            let found = state.ledger.get(address).filter(|allocation| allocation.is_away);
            let Some((owner, span)) = found.map(|allocation| (allocation.owner, allocation.span)) else {
                return;
            };
            let Some(task) = state.task_mut(owner).filter(|task| task.phase == Phase::Bound) else { return };
            let (device, more) = (task.terms.device, task.account.bring_back(span.bytes));
            state.ledger.set_away(address, false);
            (owner, span, device, more)
        };
        stats::count_believed_use();
        if !matches!(self.ask_extension(thread, owner, more), Ok(None)) {
            let mut state = self.state.lock();
            if let Some(task) = state.task_mut(owner) {
                task.account.undo_bring_back(span.bytes, more);
            }
            state.ledger.set_away(address, true);
            return;
        }
        if self.enter(thread, device).is_ok() {
            // A hint: without it the pages move by faults.
            let _ = self.runtime.prefetch(span, device, StreamId::LEGACY);
        }
    }

    /// Updates the task of an allocation that is freed while its contents are on the host.
    pub(crate) fn forget_away(&self, allocation: &Allocation) {
        let Allocation { owner, span, .. } = *allocation;
        debug_assert!(allocation.origin.is_rewritten());
        let mut state = self.state.lock();
        let pinned = state.pinned;
        let gone = |task: &mut Task| task.forget_away(span.bytes, pinned);
        let release = state.task_mut(owner).map_or(Release::Nothing, gone);
        let streams = self.release(&mut state, owner, release);
        drop(state);
        self.destroy(streams);
    }
}
