//! Buffers that the compiler shows to be dead: their memory goes back to the daemon, and uses that must not be are seen.
//!
//! Memory goes back where it was mapped ([`Origin::Mapped`]); other buffers keep theirs until they are freed. Traps: the
//! device may still work on a buffer when its last *call* is made, so memory goes back when the device's streams are idle,
//! now or at a later call; while there are dead buffers each launch looks at its arguments, without any it costs one load.

use crate::ledger::{Allocation, Held, Origin};
use crate::runtime::{DeviceIndex, Launch, Runtime, Span, StreamId};
use crate::scheduler::Scheduler;
use crate::shim::Shim;
use crate::state::{State, Thread};
use crate::task::Phase;
use crate::{stats, trace};
use std::sync::atomic::Ordering;

/// What must be idle before a dead buffer's memory goes back.
struct Users {
    device: DeviceIndex,
    streams: Vec<StreamId>,
}

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// `eager_buffer_dead`. A pointer that is no allocation's start means nothing.
    pub fn buffer_dead(&self, thread: &mut Thread, address: u64) {
        if address == 0 || self.bypass::<()>().is_some() {
            return;
        }
        let mut state = self.state.lock();
        let Some((owner, bytes)) = state.ledger.declare_dead(address) else { return };
        state.dying.push(address);
        drop(state);
        self.any_dead.store(true, Ordering::Relaxed);
        trace::record_dead(owner.slot, bytes);
        stats::count_dead();
        self.give_back_dying(thread);
    }

    /// Gives back the memory of dead buffers that the device is done with.
    pub(crate) fn give_back_dying(&self, thread: &mut Thread) {
        let dying = std::mem::take(&mut self.state.lock().dying);
        for address in dying {
            let users = users(&self.state.lock(), address);
            match users {
                Some(users) if !self.is_idle(thread, &users) => self.state.lock().dying.push(address),
                Some(_) => self.give_back(address),
                None => {}
            }
        }
    }

    /// The streams' handles mean something on their own device only.
    fn is_idle(&self, thread: &mut Thread, users: &Users) -> bool {
        let idle = |stream: &StreamId| self.runtime.stream_query(*stream) == Ok(true);
        self.enter(thread, users.device).is_ok() && users.streams.iter().all(idle)
    }

    fn give_back(&self, address: u64) {
        let held = {
            let _unmapping = self.unmapping.lock();
            let dead = self.state.lock().ledger.dead_and_backed(address).cloned();
            let Some(Allocation { owner, frame, span, origin: Origin::Mapped { reserved, .. }, .. }) = dead
            else {
                return;
            };
            if self.runtime.unback(Span { start: address, bytes: reserved }).is_err() {
                // It keeps its memory until it is freed; a lost device says so there.
                return;
            }
            self.state.lock().ledger.set_backed(address, false);
            Held { owner, frame, bytes: span.bytes }
        };
        self.uncount(held);
    }

    /// Looks whether a launch uses a dead buffer.
    pub(crate) fn watch_launch(&self, thread: &mut Thread, launch: &Launch) {
        // Relaxed: whoever uses what it has itself declared dead has seen the store.
        if self.any_dead.load(Ordering::Relaxed) {
            self.watch(thread, &self.arguments(launch), "a kernel");
        }
    }

    /// Looks whether a copy or memset uses a dead buffer.
    pub(crate) fn watch_addresses(&self, thread: &mut Thread, addresses: &[u64]) {
        if self.any_dead.load(Ordering::Relaxed) {
            self.watch(thread, addresses, "a copy or memset");
        }
    }

    /// A use is a fault of the compiler's. Where the memory is gone there must be some again, or the program would fault.
    fn watch(&self, thread: &mut Thread, addresses: &[u64], user: &str) {
        let (used, gone) = {
            let state = self.state.lock();
            (state.ledger.dead_among(addresses), state.ledger.given_back_among(addresses))
        };
        for owner in &used {
            trace::record_dead_use(owner.slot);
            stats::count_dead_use();
        }
        for allocation in &gone {
            self.bring_back(thread, allocation);
        }
        if !gone.is_empty() {
            self.voice.once("lost contents", || {
                format!(
                    "{user} used a buffer that the compiler had shown to be dead and whose memory was given back: THE \
                     RESULTS OF THIS PROGRAM ARE WRONG; run it with EAGER_DISABLE=1 and please report it"
                )
            });
        } else if !used.is_empty() {
            self.voice.once("dead", || {
                format!(
                    "a buffer that the compiler has shown to be dead was used by {user}: please report it (results are \
                     not affected)"
                )
            });
        }
    }

    fn bring_back(&self, thread: &mut Thread, allocation: &Allocation) {
        let Allocation { owner, span, origin: Origin::Mapped { reserved, .. }, .. } = *allocation else {
            return;
        };
        let bound = {
            let mut state = self.state.lock();
            state.task_mut(owner).map(|task| (task.terms.device, task.account.take(None, span.bytes)))
        };
        let device = match bound {
            Some((device, beyond)) => {
                // It must have memory whatever the daemon says.
                let _ = self.extend(thread, owner, beyond);
                device
            }
            None => thread.real_device.unwrap_or(DeviceIndex(0)),
        };
        let reserved = Span { start: span.start, bytes: reserved };
        if self.enter(thread, device).is_ok() && matches!(self.runtime.back(reserved, device), Ok(Some(()))) {
            self.state.lock().ledger.set_backed(span.start, true);
        }
    }
}

/// `None`: nothing is to be given back, now or later.
fn users(state: &State, address: u64) -> Option<Users> {
    let allocation = state.ledger.dead_and_backed(address)?;
    let task =
        state.task(allocation.owner).filter(|task| task.phase == Phase::Bound && task.terms.releases())?;
    let device = task.terms.device;
    let own = task.stream.map(|own| own.id).into_iter().chain(task.old_streams.iter().copied());
    let launched = task.flights.marks().into_iter().map(|(stream, _)| stream);
    let programs = state.streams.iter().filter(|(_, stream)| stream.device == device).map(|(&id, _)| id);
    // Only the calling thread's own default stream can be asked: a buffer that another thread could use is never dead.
    let defaults = [StreamId::LEGACY, StreamId::PER_THREAD];
    Some(Users { device, streams: own.chain(launched).chain(programs).chain(defaults).collect() })
}
