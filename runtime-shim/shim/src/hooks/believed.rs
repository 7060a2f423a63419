//! Buffers that are believed dead ([`crate::beliefs`]): their contents move to the host and their device memory is
//! returned, until a call names them again.
//!
//! Only memory that the shim made managed is moved: a later use finds the contents, whether the shim sees the use or
//! not. A kernel that reaches such a buffer through a pointer in memory uses it unseen; its pages then return by page
//! faults, uncounted.

use crate::dying::Certainty;
use crate::ledger::BufferId;
use crate::runtime::{Runtime, StreamId};
use crate::scheduler::Scheduler;
use crate::shim::Shim;
use crate::state::{State, Thread};
use crate::stats;
use std::collections::BTreeSet;

/// The allocations that words point into; `None` where there are no beliefs, as in most programs,
/// so that their launches do not pay for the search.
fn named(state: &State, words: &[u64]) -> Option<Vec<BufferId>> {
    state.beliefs.as_ref()?;
    Some(state.memory().named(words))
}

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// Called before a call that names these addresses: moves back what was moved to the host.
    pub(crate) fn note_uses(&self, thread: &mut Thread, words: &[u64]) {
        let away: Vec<BufferId> = {
            let mut state = self.state.lock();
            let Some(mut buffers) = named(&state, words) else { return };
            let Some(beliefs) = &mut state.beliefs else { return };
            beliefs.used(&buffers);
            let used: BTreeSet<BufferId> = buffers.iter().copied().collect();
            // A mark made before this use no longer shows that the buffer is dead.
            let is_over = |buffer, certainty| certainty == Certainty::Believed && used.contains(&buffer);
            let left = state.dying.remove(is_over);
            buffers.retain(|buffer| state.memory().get(*buffer).is_some_and(|found| found.is_away));
            drop(state);
            self.forget_until(left);
            buffers
        };
        away.into_iter().for_each(|buffer| self.bring_back(thread, buffer));
    }

    /// Called after a call that names these addresses: buffers now believed dead are moved out once the device has
    /// finished with them.
    pub(crate) fn believe(&self, thread: &mut Thread, words: &[u64]) {
        {
            let mut state = self.state.lock();
            let Some(buffers) = named(&state, words) else { return };
            let Some(beliefs) = &mut state.beliefs else { return };
            let dead = beliefs.dead_among(&buffers);
            if dead.is_empty() {
                return;
            }
            dead.into_iter().for_each(|buffer| state.dying.push(buffer, Certainty::Believed));
        }
        self.return_dying_memory(thread);
    }

    /// Moves a buffer's contents to the host. The caller has checked that the device has finished all earlier work on
    /// it.
    pub(crate) fn send_away(&self, buffer: BufferId) {
        let _mapping = self.mapping.lock();
        let found = {
            let state = self.state.lock();
            state.memory().get(buffer).filter(|_| state.client.ledger.movable(buffer).is_some())
        };
        let Some(found) = found else { return };
        if self.runtime.move_to_host(found.span()).is_err() {
            // The contents stay on the device, and counted.
            return;
        }
        self.give_back(|client| client.send_away(buffer, &mut self.outbox()));
        stats::count_believed();
    }

    /// Counts a buffer that is used after all, and moves it to the device. If the daemon refuses its memory, it stays
    /// uncounted on the host, and its pages move by faults: slow, but correct.
    fn bring_back(&self, thread: &mut Thread, buffer: BufferId) {
        let _mapping = self.mapping.lock();
        let Some(coming) = self.count_coming(buffer) else { return };
        stats::count_believed_use();
        if self.ask_extension(thread, coming.owner, coming.more) != Ok(None) {
            self.uncount_coming(&coming, false);
            return;
        }
        let (span, device) = {
            let state = self.state.lock();
            let span = state.memory().get(buffer).map(|found| found.span());
            (span, state.client.task(coming.owner).map(|task| task.terms.device))
        };
        if let Some((span, device)) = span.zip(device)
            && self.enter(thread, device).is_ok()
        {
            // A hint: without it the pages move by faults.
            let _ = self.runtime.prefetch(span, device, StreamId::LEGACY);
        }
    }
}
