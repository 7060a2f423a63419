//! Late reservation: a task requests memory at its first use of a device, and its allocations are addresses until
//! then (specification S-303).
//!
//! Every use must be seen before it reaches the device, so a task is deferred only if the pass shows that each use is
//! a call that names the memory ([`eager_abi::TASK_NAMED`]). Traps: such a task cannot run over-subscribed, since the
//! addresses that it has handed out are not managed memory; and an allocation that no device can ever hold must fail
//! where it is made, so a task that requests more than the daemon ever grants must not be deferred.

use crate::account::{Announced, FrameId};
use crate::ledger::{Allocation, Backing, Origin};
use crate::outcome::Outcome;
use crate::program::Program;
use crate::runtime::{DeviceIndex, Geometry, Launch, Runtime};
use crate::scheduler::Scheduler;
use crate::shim::{Answer, Shim, Stop};
use crate::state::Thread;
use crate::task::{Asks, Kind, Phase, Queued, Release, TaskKey};
use eager_client::way::{Case, Form, Standing, Way};
use eager_proto::request::BeginFlags;
use eager_units::shown;

/// A deferred task while a thread requests it.
#[derive(Debug, Clone, Copy)]
struct Asking {
    asks: Asks,
    bytes: u64,
    /// The request, if it was sent before.
    queued: Option<Queued>,
}

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// True if the memory of a site's task may come with the calls that name it.
    pub(crate) fn comes_by_name(&self, site: u64) -> bool {
        let wanted = self.habits.late_reservation || self.habits.live_requirement;
        let named = || {
            let program = self.program.read();
            program.is_named(site) && !program.shares_memory()
        };
        wanted && named() && self.common_granularity().is_some()
    }

    /// True if some device could hold this much beside the program's managed variables, which each request includes.
    pub(crate) fn can_ever_fit(&self, bytes: u64) -> bool {
        self.room_beside(&self.program.read()).is_some_and(|room| bytes <= room)
    }

    /// The part of the largest grant that the managed variables leave.
    fn room_beside(&self, program: &Program) -> Option<u64> {
        self.habits.grant_max?.checked_sub(program.with_variables(0))
    }

    /// Bytes that sizes must be a multiple of on every device, since the task's device is not known yet; `None`: some
    /// device cannot map memory.
    fn common_granularity(&self) -> Option<u64> {
        let devices = self.runtime.device_count().ok()?;
        let each = (0..devices).map(|device| self.runtime.map_granularity(DeviceIndex(device)));
        // Granularities are powers of two, so the largest is a multiple of all.
        each.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    /// Defers the request of a task, which has a slot already.
    pub(crate) fn defer(&self, thread: &mut Thread, key: TaskKey, announced: Announced, geometry: Geometry) {
        let site = announced.site;
        let mut state = self.state.lock();
        let Some(task) = state.task_mut(key) else { return };
        (task.phase, task.asks) = (Phase::Deferred, Some(Asks { site, geometry }));
        thread.open_own(site, key, task.account.frame_of(site));
    }

    /// Begins a site inside a deferred task, so that both are requested together. False: the task is not deferred
    /// (any more), or it is bound now because it was already requested or the site's memory could not wait.
    pub(crate) fn defer_inside(&self, thread: &mut Thread, key: TaskKey, announced: Announced) -> bool {
        let (is_named, room) = {
            let program = self.program.read();
            (program.is_named(announced.site), self.room_beside(&program))
        };
        let mut state = self.lock_settled(key);
        let Some(task) = state.task_mut(key).filter(|task| task.phase.is_deferred()) else {
            return false;
        };
        let is_asked_for = task.phase != Phase::Deferred;
        let wanted = task.account.reserved().saturating_add(announced.bytes);
        if !is_asked_for && is_named && room.is_some_and(|room| wanted <= room) {
            let frame = task.account.open(announced);
            thread.open_own(announced.site, key, Some(frame));
            return true;
        }
        drop(state);
        let _ = self.bind_deferred(thread, key);
        false
    }

    /// Reserves addresses for an allocation of a task whose memory comes by name; `None`: the allocation is made in
    /// another way.
    pub(crate) fn reserve_new(&self, thread: &mut Thread, bytes: u64) -> Option<Result<u64, Stop>> {
        let (key, frame) = self.state.lock().owner_of_new(thread);
        let frame = frame?;
        if let Err(stop) = self.bind_if_beyond(thread, key, frame, bytes) {
            return Some(Err(stop));
        }
        let (standing, wanted) = self.by_name(key, frame, bytes)?;
        if !self.can_ever_fit(wanted) {
            return None;
        }
        let case = Case {
            standing,
            form: Form::Linear,
            bytes,
            has_site: true,
            by_name: true,
            is_captured: false,
            piece: self.common_granularity(),
            wasted: self.state.lock().memory.ledger.waste_of(key),
        };
        let Way::ByName { reserved: rounded } = Way::choose(&case) else { return None };
        let reserved = self.runtime.reserve(rounded).ok()?;
        let counted = self.expect(thread, key, frame, bytes);
        if let Err(stop) = counted {
            let _ = self.runtime.unreserve(reserved, false);
            return Some(Err(stop));
        }
        let mut state = self.state.lock();
        let origin = Origin::Mapped { reserved: rounded, backing: Backing::Awaited };
        let set_device = thread.program_device;
        let allocation = Allocation { set_device, ..Allocation::new(bytes, key, Some(frame), origin) };
        state.memory.insert(reserved.start, allocation);
        self.note_watched(&state);
        Some(Ok(reserved.start))
    }

    /// Standing of a task whose memory comes by name, and its reservation with this allocation if it has not been
    /// requested yet; `None`: memory does not come by name, or not now.
    fn by_name(&self, key: TaskKey, frame: FrameId, bytes: u64) -> Option<(Standing, u64)> {
        let state = self.lock_settled(key);
        let task = state.task(key).filter(|task| task.by_name && state.captures.is_empty())?;
        match task.phase {
            Phase::Deferred => {
                let mut after = task.account.clone();
                after.expect(Some(frame), bytes);
                Some((Standing::Deferred, after.reserved()))
            }
            Phase::Bound => Some((task.terms.standing(), 0)),
            _ => None,
        }
    }

    /// Binds a waiting task whose site allocates more than it announced, since it cannot request more while it waits.
    fn bind_if_beyond(
        &self,
        thread: &mut Thread,
        key: TaskKey,
        frame: FrameId,
        bytes: u64,
    ) -> Result<(), Stop> {
        let is_beyond = self.lock_settled(key).task(key).is_some_and(|task| {
            matches!(task.phase, Phase::Queued(_)) && task.account.clone().expect(Some(frame), bytes) > 0
        });
        if is_beyond { self.bind_deferred(thread, key) } else { Ok(()) }
    }

    /// Counts an allocation without memory; a bound task requests the bytes that its site had not announced.
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

    /// Requests a deferred task at its first use of a device, and waits as long as memory is short.
    pub(crate) fn bind_deferred(&self, thread: &mut Thread, key: TaskKey) -> Result<(), Stop> {
        let Some(asking) = self.take_turn(key)? else { return Ok(()) };
        let answer = self.request(key, &asking).and_then(|queued| {
            let answer = self.await_decision(key.slot, queued.sequence)?;
            Ok((queued, Some(answer)))
        });
        self.settle(thread, key, asking, answer)
    }

    /// Requests a deferred task if no thread has yet, and takes the daemon's answer if there is one; does not wait
    /// for memory.
    pub(crate) fn ask_deferred(&self, thread: &mut Thread, key: TaskKey) -> Result<(), Stop> {
        let Some(asking) = self.take_turn(key)? else { return Ok(()) };
        let answer = self.request(key, &asking).and_then(|queued| {
            let answer = self.await_decision_or_wait(key.slot, queued.sequence)?;
            Ok((queued, answer))
        });
        self.settle(thread, key, asking, answer)
    }

    /// Claims the task's request: until [`Self::settle`] other threads wait for the task. `None`: it is bound, or
    /// gone.
    fn take_turn(&self, key: TaskKey) -> Result<Option<Asking>, Stop> {
        let mut state = self.lock_settled(key);
        let Some(task) = state.task_mut(key) else { return Ok(None) };
        let queued = match task.phase {
            Phase::Deferred => None,
            Phase::Queued(queued) => Some(queued),
            Phase::Refused => {
                drop(state);
                return Err(self.out_of_memory());
            }
            _ => return Ok(None),
        };
        let Some(asks) = task.asks else { return Ok(None) };
        task.phase = Phase::Asking;
        Ok(Some(Asking { asks, bytes: task.account.reserved(), queued }))
    }

    fn request(&self, key: TaskKey, asking: &Asking) -> Result<Queued, Stop> {
        if let Some(queued) = asking.queued {
            return Ok(queued);
        }
        let Asks { site, geometry } = asking.asks;
        let body = self.begin_body(site, asking.bytes, geometry, BeginFlags::WHOLE);
        Ok(Queued { sequence: self.send(key.slot, &body)?, bytes: asking.bytes })
    }

    /// Records the result of a request. `None` as answer: the task waits.
    fn settle(
        &self,
        thread: &mut Thread,
        key: TaskKey,
        asking: Asking,
        answer: Result<(Queued, Option<Answer>), Stop>,
    ) -> Result<(), Stop> {
        let outcome = match answer {
            Ok((queued, Some(Answer::Bound(terms)))) => {
                self.bound(thread, key, terms);
                self.catch_up(key, queued.bytes);
                Ok(())
            }
            Ok((queued, Some(Answer::Refused(refusal)))) => {
                self.set_phase(key, Phase::Refused);
                self.catch_up(key, queued.bytes);
                self.report_refused_task(asking.asks.site, queued.bytes, &refusal.why);
                Err(self.out_of_memory())
            }
            Ok((queued, None)) => {
                self.set_phase(key, Phase::Queued(queued));
                self.catch_up(key, queued.bytes);
                Ok(())
            }
            Err(stop) => {
                self.set_phase(key, Phase::Deferred);
                self.catch_up(key, 0);
                Err(stop)
            }
        };
        self.notify_settled();
        outcome
    }

    /// Sends the daemon what it could not be told while the request for `asked` bytes was unanswered: memory that
    /// other threads freed meanwhile, sites that they ended, and that all kernels are launched.
    ///
    /// The lazy task is never ended here: the call that requested it is about to use it.
    pub(crate) fn catch_up(&self, key: TaskKey, asked: u64) {
        let mut state = self.state.lock();
        let pinned = state.pinned;
        let release = state.task(key).map_or(Release::Nothing, |task| {
            let gone = asked.saturating_sub(task.account.reserved());
            match task.release(gone, pinned) {
                Release::End if task.kind == Kind::Lazy && task.phase == Phase::Bound => {
                    Release::Shrink(gone)
                }
                release => release,
            }
        });
        let release = if release == Release::Shrink(0) { Release::Nothing } else { release };
        let streams = self.release(&mut state, key, release);
        self.send_all_launched(&mut state, key);
        drop(state);
        self.destroy(streams);
    }

    pub(crate) fn report_refused_task(&self, site: u64, bytes: u64, reason: &str) {
        let (function, size) = (self.program.read().function(site).to_owned(), shown::size(bytes));
        self.reporter.report(&format!(
            "the task in {function} ({size}) is refused: {reason}. Its CUDA calls return out-of-memory errors"
        ));
    }

    pub(crate) fn set_phase(&self, key: TaskKey, phase: Phase) {
        if let Some(task) = self.state.lock().task_mut(key) {
            task.phase = phase;
        }
    }

    /// Binds the thread's innermost task if it is deferred: a call is ordered in a stream, or queries the device.
    pub(crate) fn bind_own(&self, thread: &mut Thread) -> Result<(), Stop> {
        let own = {
            let state = self.state.lock();
            state.innermost(thread).map(|open| open.key).filter(|&key| state.is_deferred(key))
        };
        let Some(key) = own else { return Ok(()) };
        self.bind_deferred(thread, key)?;
        self.flush(thread, key)
    }

    /// Prepares a call that names these addresses: binds their tasks, copies what was kept for them to the device,
    /// and gives the addresses memory.
    pub(crate) fn prepare(&self, thread: &mut Thread, words: &[u64]) -> Result<(), Stop> {
        let owners: Vec<TaskKey> = {
            let state = self.state.lock();
            // A word that points near a buffer must not make this thread wait for a task that another thread has
            // open.
            let own = state.innermost(thread).map(|open| open.key);
            let is_others =
                |key| own != Some(key) && state.task(key).is_some_and(|task| task.account.is_open());
            let owners = state.memory.absent_among(words).into_iter().map(|found| found.owner);
            let owners = owners.filter(|&key| !is_others(key));
            let named = state.memory.pointed_at(words).into_iter().map(|found| found.owner);
            owners.chain(named).collect()
        };
        for owner in owners {
            if self.state.lock().is_deferred(owner) {
                self.bind_deferred(thread, owner)?;
            }
            self.flush(thread, owner)?;
        }
        self.give_memory_to_named(thread, words)
    }

    /// Prepares a launch. A kernel that no module registered may use all memory of its task.
    pub(crate) fn prepare_launch(&self, thread: &mut Thread, launch: &Launch) -> Result<(), Stop> {
        let key = self.task_of(thread, launch);
        if self.state.lock().is_deferred(key) {
            self.bind_deferred(thread, key)?;
        }
        self.flush(thread, key)?;
        if self.program.read().kernel(launch.stub).is_none() {
            return self.give_memory_to_all(thread, key);
        }
        self.prepare(thread, &self.arguments(launch))
    }

    /// Prepares a copy or memset, and reports it if it uses a dead buffer.
    pub(crate) fn prepare_call(&self, thread: &mut Thread, addresses: &[u64]) -> Result<(), Stop> {
        let lost = self.state.lock().memory.is_lost_among(addresses);
        self.prepare(thread, addresses)?;
        self.watch_addresses(lost, addresses);
        Ok(())
    }

    /// A call that takes addresses and belongs to one device, and is otherwise forwarded.
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

    /// `cudaPointerGetAttributes`: the runtime would not recognize an address that has no memory yet, so it gets
    /// memory first.
    pub fn about_address(&self, thread: &mut Thread, address: u64) -> Outcome<()> {
        if let Some(bypass) = self.bypass_harmless() {
            return bypass;
        }
        if self.is_watched()
            && let Err(stop) = self.prepare(thread, &[address])
        {
            return self.stopped(stop);
        }
        self.about_host_memory(thread, address)
    }
}
