//! Buffers that the compiler proves dead: returns their memory to the daemon, and detects uses that must not occur.
//!
//! Memory that was mapped ([`Origin::Mapped`]) is unmapped; of memory that the shim made managed
//! ([`Origin::Rewritten`]) the contents are discarded. Other buffers keep their memory until they are freed. Traps:
//! the device may still work on a buffer when its last *call* has been made, so an event is recorded after that call
//! on each busy stream, and memory is freed at the first hook, or end of a wait, that finds all events completed; and
//! while there are dead buffers each launch searches its arguments, while without any it costs one load.

use crate::address_map::Found;
use crate::dying::{Answered, Certainty, Taken, Until};
use crate::ledger::{Allocation, BufferId, Origin};
use crate::runtime::{DeviceIndex, Launch, Runtime, Span, StreamId};
use crate::scheduler::Scheduler;
use crate::shim::Shim;
use crate::state::{State, Thread};
use crate::task::TaskKey;
use crate::{stats, trace};
use eager_client::Dead;

/// Number of launches after which a program that makes no other calls queries the device about dead buffers
/// (specification S-724).
const LAUNCHES_PER_LOOK: u32 = 16;

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// `eager_buffer_dead`. A pointer that is not the start of an allocation is ignored.
    pub fn buffer_dead(&self, thread: &mut Thread, address: u64) {
        if address == 0 || self.bypass::<()>().is_some() {
            return;
        }
        let unused = {
            let state = &mut *self.state.lock();
            let Some(found) = state.memory().at(address) else { return };
            let Some(dead) = state.client.declare_dead(found.id, &mut self.outbox()) else { return };
            trace::record_dead(found.owner.slot, found.bytes);
            stats::count_dead();
            let unused = match dead {
                Dead::Used => {
                    state.dying.push(found.id, Certainty::Proven);
                    None
                }
                Dead::Unused(over) => {
                    state.kept.forget(found.id);
                    Some(self.dispose(state, over))
                }
            };
            self.note_watched(state);
            unused
        };
        match unused {
            Some(streams) => self.destroy(streams),
            None => self.return_dying_memory(thread),
        }
    }

    /// Frees the memory of dead buffers with which the device has finished.
    pub(crate) fn return_dying_memory(&self, thread: &mut Thread) {
        let taken = {
            let mut state = self.state.lock();
            if state.dying.is_empty() || !state.captures.is_empty() {
                return;
            }
            state.dying.take(|_| true)
        };
        for mut dying in taken {
            let users = users(&self.state.lock(), &dying);
            let marked = dying.until.take();
            let Some(users) = users else {
                self.forget_dying(&dying, marked.unwrap_or_default());
                continue;
            };
            let mut until = marked.unwrap_or_else(|| self.mark(thread, &users));
            if self.enter(thread, users.device).is_ok() {
                until.retain(|until| !self.is_over(*until));
            }
            self.settle_dying(&dying, until);
        }
    }

    /// Records the answer of the device about a dead buffer; `left`: the conditions that are not met yet.
    fn settle_dying(&self, dying: &Taken, left: Vec<Until>) {
        let answered = self.state.lock().dying.answer(dying, left);
        match (answered, dying.certainty) {
            (Answered::Waits, _) => {}
            (Answered::Over, Certainty::Proven) => self.return_memory(dying.buffer),
            (Answered::Over, Certainty::Believed) => self.send_away(dying.buffer),
            (Answered::Cancelled(left), _) => self.forget_until(left),
        }
    }

    /// Drops a dead buffer whose memory is not to be freed, now or later.
    fn forget_dying(&self, dying: &Taken, left: Vec<Until>) {
        // Without conditions left, the entry is removed.
        let _ = self.state.lock().dying.answer(dying, Vec::new());
        self.forget_until(left);
    }

    /// Destroys the events of conditions that will not be queried any more.
    pub(crate) fn forget_until(&self, until: Vec<Until>) {
        for until in until {
            if let Until::Event(event) = until {
                self.runtime.event_destroy(event);
            }
        }
    }

    /// Called before a launch while calls are watched ([`Shim::is_watched`]): a program that only launches makes no
    /// other call that queries the device.
    pub(crate) fn poll_dying(&self, thread: &mut Thread) {
        if self.state.lock().dying.is_due(LAUNCHES_PER_LOOK) {
            self.return_dying_memory(thread);
        }
    }

    /// Waits for dying buffers of the task that owns `buffer`, if `buffer` has no memory and needs what they hold: the
    /// task has requested its live requirement, and more may be refused.
    pub(crate) fn await_own_dying(&self, thread: &mut Thread, buffer: BufferId) {
        if self.short_task(buffer).is_none() {
            return;
        }
        self.return_dying_memory(thread);
        while let Some(key) = self.short_task(buffer) {
            let taken = {
                let mut guard = self.state.lock();
                let state = &mut *guard;
                let ledger = &state.client.ledger;
                let is_own = |buffer| ledger.get(buffer).is_some_and(|dying| dying.owner == key);
                // The oldest finishes first; the others keep their marks.
                let oldest = state.dying.first(is_own);
                oldest.map(|oldest| state.dying.take(|buffer| buffer == oldest))
            };
            let Some(taken) = taken else { return };
            for mut dying in taken {
                let left = dying.until.take().unwrap_or_default();
                let waited = left.iter().try_for_each(|until| match *until {
                    Until::Event(event) => self.runtime.event_synchronize(event),
                    Until::Idle(stream) => self.runtime.stream_synchronize(stream),
                });
                if waited.is_err() {
                    // The call that needs the memory reports the device's error.
                    self.forget_dying(&dying, left);
                    return;
                }
                self.forget_until(left);
                self.settle_dying(&dying, Vec::new());
            }
        }
    }

    /// [`eager_client::Client::short_task`]; `None` during captures.
    fn short_task(&self, buffer: BufferId) -> Option<TaskKey> {
        let state = self.state.lock();
        if state.captures.is_empty() { state.client.short_task(buffer) } else { None }
    }

    /// Conditions to meet before the memory is freed: all work that was requested of the device so far.
    fn mark(&self, thread: &mut Thread, users: &Users) -> Vec<Until> {
        // Stream handles are valid on their own device only.
        if self.enter(thread, users.device).is_err() {
            return users.streams.iter().copied().map(Until::Idle).collect();
        }
        let busy = users.streams.iter().filter(|stream| self.runtime.stream_query(**stream) != Ok(true));
        let until =
            |&stream: &StreamId| self.runtime.record_event(stream).map_or(Until::Idle(stream), Until::Event);
        busy.map(until).collect()
    }

    fn is_over(&self, until: Until) -> bool {
        match until {
            Until::Idle(stream) => self.runtime.stream_query(stream) == Ok(true),
            Until::Event(event) => {
                let is_over = self.runtime.event_query(event) == Ok(true);
                if is_over {
                    self.runtime.event_destroy(event);
                }
                is_over
            }
        }
    }

    fn return_memory(&self, buffer: BufferId) {
        let _mapping = self.mapping.lock();
        let dead = {
            let state = self.state.lock();
            state.memory().get(buffer).filter(|_| state.client.ledger.dead_and_present(buffer).is_some())
        };
        let Some(Found { start, allocation: Allocation { bytes, origin, .. }, .. }) = dead else { return };
        let gone = match origin {
            Origin::Mapped { reserved, .. } => self.runtime.unmap_memory(Span { start, bytes: reserved }),
            Origin::Rewritten { .. } => self.runtime.discard(Span { start, bytes }),
            Origin::Plain | Origin::Program => return,
        };
        // If it fails, the buffer keeps its memory until it is freed; a lost device is reported there.
        if gone.is_ok() {
            self.give_back(|client| client.give_up(buffer, &mut self.outbox()));
        }
    }

    /// Reports a launch that uses a dead buffer. Memory that was freed has been replaced by now.
    pub(crate) fn watch_launch(&self, lost: bool, launch: &Launch) {
        self.watch(lost, &self.arguments(launch), "a kernel");
    }

    /// Reports a copy or memset that uses a dead buffer.
    pub(crate) fn watch_addresses(&self, lost: bool, addresses: &[u64]) {
        self.watch(lost, addresses, "a copy or memset");
    }

    /// A use is a fault of the compiler. `lost`: the contents of a used buffer were freed.
    fn watch(&self, lost: bool, addresses: &[u64], user: &str) {
        let used = {
            let mut state = self.state.lock();
            let used = state.memory().dead_among(addresses);
            // The condition was recorded before this use, so the buffer keeps its memory until it is freed.
            let left = state.dying.remove(|buffer, _| used.iter().any(|found| found.id == buffer));
            drop(state);
            self.forget_until(left);
            used
        };
        for allocation in &used {
            trace::record_dead_use(allocation.owner.slot);
            stats::count_dead_use();
        }
        if lost {
            self.reporter.report_once("lost contents", || {
                format!(
                    "{user} used a buffer that the compiler had shown to be dead and whose memory was given back: THE \
                     RESULTS OF THIS PROGRAM ARE WRONG; run it as EAGER_DISABLE=1 PROGRAM and please report it"
                )
            });
        } else if !used.is_empty() {
            self.reporter.report_once("dead", || {
                format!(
                    "a buffer that the compiler has shown to be dead was used by {user}: please report it (results are \
                     not affected)"
                )
            });
        }
    }
}

/// The device and the streams whose work may still use a buffer.
struct Users {
    device: DeviceIndex,
    streams: Vec<StreamId>,
}

/// `None`: the buffer's memory is not to be freed, now or later.
fn users(state: &State, dying: &Taken) -> Option<Users> {
    let allocation = match dying.certainty {
        Certainty::Proven => state.client.ledger.dead_and_present(dying.buffer)?,
        Certainty::Believed => state.client.ledger.movable(dying.buffer)?,
    };
    let task = state.client.task(allocation.owner).filter(|task| task.is_bound() && task.terms.releases)?;
    let device = task.terms.device;
    let own = task.own.stream.map(|own| own.id).into_iter().chain(task.own.old_streams.iter().copied());
    let launched = task.own.in_flight.marks().into_iter().map(|(lane, _)| lane.stream);
    let programs = state.streams.iter().filter(|(_, stream)| stream.device == device).map(|(&id, _)| id);
    // Of the per-thread default streams only the calling thread's can be queried; a buffer that another thread could
    // use is never declared dead.
    let defaults = [StreamId::LEGACY, StreamId::PER_THREAD];
    let mut streams: Vec<StreamId> = own.chain(launched).chain(programs).chain(defaults).collect();
    streams.sort_unstable();
    streams.dedup();
    Some(Users { device, streams })
}
