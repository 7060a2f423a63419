//! Late reservation: a task asks for memory at its first use of a device, and its allocations are addresses until then
//! (eager launch specification §9.2).
//!
//! Every use must be seen before it reaches the device, so only tasks of which the pass shows that each use is a call that
//! names the memory ([`eager_abi::TASK_NAMED`]) are deferred. Traps: such a task cannot run over-subscribed, since what
//! it has handed out are not addresses of managed memory; and an allocation that no device can ever hold must fail where
//! it is made, so a task that asks for more than the daemon ever grants is not deferred.

use crate::account::{Announced, FrameId};
use crate::ledger::{Backing, Origin};
use crate::outcome::{Outcome, Why};
use crate::runtime::{Copy, CopyKind, DeviceIndex, Geometry, Launch, Order, Rows, Runtime, Span, StreamId};
use crate::scheduler::Scheduler;
use crate::shim::{Answer, Shim, Stop};
use crate::state::{Staged, State, Thread};
use crate::task::{Asks, Phase, Release, Task, TaskKey};
use crate::voice::size_text;
use eager_proto::request::BEGIN_WHOLE;

/// How many pieces of the device's granularity a task's allocations may waste together; no ledger counts the waste.
const WASTED_PIECES_MAX: u64 = 32;

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// May the memory of a site's task come with the calls that name it?
    pub(crate) fn comes_by_name(&self, site: u64) -> bool {
        let wanted = self.habits.late_reservation || self.habits.live_requirement;
        let named = || {
            let program = self.program.read();
            program.is_named(site) && !program.shares_memory()
        };
        wanted && named() && self.common_granularity().is_some()
    }

    /// Could a device ever hold this much?
    pub(crate) fn can_ever_fit(&self, bytes: u64) -> bool {
        self.habits.grant_max.is_some_and(|max| bytes <= max)
    }

    /// What sizes must be multiples of on every device, since it is not known which one it will be; `None`: one of them
    /// maps nothing.
    fn common_granularity(&self) -> Option<u64> {
        let devices = self.runtime.device_count().ok()?;
        let each = (0..devices).map(|device| self.runtime.map_granularity(DeviceIndex(device)));
        // Powers of two: the largest is a multiple of all.
        each.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    /// Puts a task's request off; it has a slot already.
    pub(crate) fn defer(&self, thread: &mut Thread, key: TaskKey, announced: Announced, geometry: Geometry) {
        let site = announced.site;
        let mut state = self.state.lock();
        let Some(task) = state.task_mut(key) else { return };
        (task.phase, task.asks) = (Phase::Deferred, Some(Asks { site, geometry }));
        thread.open_own(site, key, task.account.frame_of(site));
    }

    /// A site begins inside a deferred task: it is asked for together with it. False: the task is not deferred (any
    /// more), or is bound now because the site's memory could not wait.
    pub(crate) fn defer_inside(&self, thread: &mut Thread, key: TaskKey, announced: Announced) -> bool {
        let mut state = self.lock_settled(key);
        let Some(task) = state.task_mut(key).filter(|task| task.phase == Phase::Deferred) else {
            return false;
        };
        let wanted = task.account.reserved().saturating_add(announced.bytes);
        if self.program.read().is_named(announced.site) && self.can_ever_fit(wanted) {
            let frame = task.account.open(announced);
            thread.open_own(announced.site, key, Some(frame));
            return true;
        }
        drop(state);
        let _ = self.bind_deferred(thread, key);
        false
    }

    /// Addresses for an allocation of a task whose memory comes by name; `None`: it is made in another way.
    pub(crate) fn reserve_new(&self, thread: &mut Thread, bytes: u64) -> Option<Result<u64, Stop>> {
        let (key, frame) = self.state.lock().owner_of_new(thread);
        let frame = frame?;
        // What would be asked for with it, if it has not been asked for.
        let by_name = |state: &State| {
            let task = state.task(key).filter(|task| task.by_name && state.captures.is_empty())?;
            match task.phase {
                Phase::Deferred => {
                    let mut after = task.account.clone();
                    after.expect(Some(frame), bytes);
                    Some(after.reserved())
                }
                Phase::Bound if !task.terms.managed() => Some(0),
                _ => None,
            }
        };
        by_name(&self.lock_settled(key)).filter(|&bytes| self.can_ever_fit(bytes))?;
        let granularity = self.common_granularity()?;
        let rounded = bytes.checked_next_multiple_of(granularity)?;
        let wasted = self.state.lock().ledger.waste_of(key).saturating_add(rounded - bytes);
        if wasted > WASTED_PIECES_MAX * granularity {
            return None;
        }
        let reserved = self.runtime.reserve(rounded).ok()?;
        let counted = self.expect(thread, key, frame, bytes);
        if let Err(stop) = counted {
            let _ = self.runtime.unreserve(reserved, false);
            return Some(Err(stop));
        }
        let mut state = self.state.lock();
        let origin = Origin::Mapped { reserved: rounded, backing: Backing::Awaited };
        state.ledger.insert(Span { start: reserved.start, bytes }, key, Some(frame), origin);
        self.note_watched(&state);
        Some(Ok(reserved.start))
    }

    /// Counts an allocation without memory; a bound task asks for what it had not announced.
    fn expect(&self, thread: &mut Thread, key: TaskKey, frame: FrameId, bytes: u64) -> Result<(), Stop> {
        let (beyond, is_bound) = {
            let mut state = self.state.lock();
            let Some(task) = state.task_mut(key) else { return Ok(()) };
            (task.account.expect(Some(frame), bytes), task.phase == Phase::Bound)
        };
        if !is_bound {
            return Ok(());
        }
        self.extend(thread, key, beyond).inspect_err(|_| {
            let mut state = self.state.lock();
            let pinned = state.pinned;
            let release = state.task_mut(key).map_or(Release::Nothing, |task| {
                let lost = task.account.unexpect(Some(frame), bytes, beyond);
                task.release(lost, pinned)
            });
            let streams = self.release(&mut state, key, release);
            drop(state);
            self.destroy(streams);
        })
    }

    /// The first use of a device by a deferred task: asks for it, and waits as long as memory is short.
    pub(crate) fn bind_deferred(&self, thread: &mut Thread, key: TaskKey) -> Result<(), Stop> {
        let (requirement, asks) = {
            let mut state = self.lock_settled(key);
            match state.task_mut(key).map(|task| (task.phase, task)) {
                Some((Phase::Deferred, task)) => {
                    task.phase = Phase::Asking;
                    (task.account.reserved(), task.asks)
                }
                Some((Phase::Refused, _)) => {
                    drop(state);
                    return Err(self.out_of_memory());
                }
                _ => return Ok(()),
            }
        };
        let Some(Asks { site, geometry }) = asks else { return Ok(()) };
        let answer = self.ask(key.slot, &self.begin_body(site, requirement, geometry, BEGIN_WHOLE));
        let outcome = match answer {
            Ok(Answer::Bound(terms)) => {
                self.bound(thread, key, terms);
                self.tell_all_launched(&mut self.state.lock(), key);
                Ok(())
            }
            Ok(Answer::Refused(reason)) => {
                self.set_phase(key, Phase::Refused);
                let (function, size) =
                    (self.program.read().function(site).to_owned(), size_text(requirement));
                self.voice.say(&format!(
                    "the task in {function} ({size}) is refused: {reason}. Its CUDA calls return out-of-memory errors"
                ));
                Err(self.out_of_memory())
            }
            Err(stop) => {
                self.set_phase(key, Phase::Deferred);
                Err(stop)
            }
        };
        self.notify_settled();
        outcome
    }

    fn set_phase(&self, key: TaskKey, phase: Phase) {
        if let Some(task) = self.state.lock().task_mut(key) {
            task.phase = phase;
        }
    }

    /// The thread's innermost task, if it is deferred, is bound now: a call stands in the order of a stream, or asks about
    /// the device.
    pub(crate) fn bind_own(&self, thread: &mut Thread) -> Result<(), Stop> {
        let own = {
            let state = self.state.lock();
            state.innermost(thread).map(|open| open.key).filter(|&key| state.is_deferred(key))
        };
        let Some(key) = own else { return Ok(()) };
        self.bind_deferred(thread, key)?;
        self.flush(thread, key)
    }

    /// Before a call that names these addresses: their tasks are bound, what was kept for them is on the device, and there
    /// is memory behind them.
    pub(crate) fn prepare(&self, thread: &mut Thread, words: &[u64]) -> Result<(), Stop> {
        let owners: Vec<TaskKey> = {
            let state = self.state.lock();
            let owners = state.ledger.absent_among(words).into_iter().map(|a| a.owner);
            let named = state.ledger.pointed_at(words).into_iter().map(|a| a.owner);
            owners.chain(named).collect()
        };
        for owner in owners {
            if self.state.lock().is_deferred(owner) {
                self.bind_deferred(thread, owner)?;
            }
            self.flush(thread, owner)?;
        }
        self.bring_named(thread, words)
    }

    /// The same before a launch. A kernel that no module registered may use all that its task has.
    pub(crate) fn prepare_launch(&self, thread: &mut Thread, launch: &Launch) -> Result<(), Stop> {
        let key = self.task_of(thread, launch);
        if self.state.lock().is_deferred(key) {
            self.bind_deferred(thread, key)?;
        }
        self.flush(thread, key)?;
        if self.program.read().kernel(launch.stub).is_none() {
            return self.bring_all(thread, key);
        }
        self.prepare(thread, &self.arguments(launch))
    }

    /// Keeps the source of a copy to the memory of a deferred task, so that the program can go on (eager launch
    /// specification §9.2). False: the copy must be made.
    pub(crate) fn keep(&self, copy: &Copy) -> bool {
        let at_once = copy.order.blocks()
            || matches!(copy.order, Order::On(s) if s.is_legacy() || s == StreamId::PER_THREAD);
        if !self.habits.early_copies || copy.kind != CopyKind::HOST_TO_DEVICE || !at_once {
            return false;
        }
        let bytes = copy.bytes.saturating_mul(copy.rows.count);
        let owner = {
            let state = self.state.lock();
            let target = copy.dst_span().and_then(|span| state.ledger.find_span(span));
            let is_kept = |owner: &TaskKey| state.is_deferred(*owner) && state.captures.is_empty();
            let is_host =
                copy.src != 0 && copy.src_span().is_some_and(|span| state.ledger.find(span.start).is_none());
            let has_room = state.staged_bytes().saturating_add(bytes) <= self.config.staging_bytes;
            target.map(|target| target.owner).filter(is_kept).filter(|_| is_host && has_room && bytes > 0)
        };
        let Some(owner) = owner else { return false };
        let Some(data) = self.runtime.keep_source(copy) else { return false };
        let rows = match copy.rows {
            Rows::ONE => Rows::ONE,
            rows => Rows { src_pitch: copy.bytes, ..rows },
        };
        let kept = Copy { src: data.address(), rows, order: Order::Blocking, ..*copy };
        let mut state = self.state.lock();
        if !state.is_deferred(owner) {
            // Another thread has bound it meanwhile: in the program's order this copy comes after what that one does.
            return false;
        }
        state.staged.push(Staged { owner, copy: kept, data });
        self.note_watched(&state);
        true
    }

    /// Sends what was kept for a task, in the program's order; the task is bound.
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
                (state.staged.remove(next), state.task(key).map(|task: &Task| task.terms.device))
            };
            let base = self.state.lock().ledger.find(staged.copy.dst).map(|allocation| allocation.span.start);
            let Some((base, device)) = base.zip(device) else { continue };
            let sent = self
                .bring(thread, base)
                .and_then(|()| self.enter(thread, device).map_err(Stop::Cuda))
                .and_then(|()| self.copy_now(&staged.copy).map_err(Stop::Cuda));
            if let Err(stop) = sent {
                // Nothing is lost: the next call that names the memory tries again.
                self.state.lock().staged.insert(0, staged);
                return Err(stop);
            }
        }
    }

    /// Before a copy or memset: the same, and a look whether it uses a dead buffer.
    pub(crate) fn prepare_call(&self, thread: &mut Thread, addresses: &[u64]) -> Result<(), Stop> {
        let lost = self.state.lock().ledger.is_lost_among(addresses);
        self.prepare(thread, addresses)?;
        self.watch_addresses(lost, addresses);
        Ok(())
    }

    /// A call that is given addresses, belongs to one device and is otherwise made as it came.
    pub fn on_a_device_with(&self, thread: &mut Thread, addresses: &[u64]) -> Outcome<()> {
        if let Some(bypass) = self.bypass() {
            return bypass;
        }
        if self.is_watched()
            && let Err(stop) = self.prepare_call(thread, addresses)
        {
            return self.stopped(stop);
        }
        self.on_a_device(thread)
    }

    /// `cudaPointerGetAttributes`: an address that has no memory yet would be said to be none.
    pub fn about_address(&self, thread: &mut Thread, address: u64) -> Outcome<()> {
        if let Some(bypass) = self.bypass_harmless() {
            return bypass;
        }
        if self.is_watched()
            && let Err(stop) = self.prepare(thread, &[address])
        {
            return self.stopped(stop);
        }
        Outcome::PassThrough(Why::AsItIs)
    }
}
