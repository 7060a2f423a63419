//! Kernel launches: chooses the task and the stream, and decides whether the kernel may start now.
//!
//! Order of a launch: find the task, bind it if it is lazy and new, take over memory it uses, pass the gate, choose
//! the stream, count, launch. Trap: nothing here may be slow for an ungated task. Where nothing has changed since the
//! last launch ([`State::settled_launch`](crate::state::State::settled_launch)) there is one lock, a load per task,
//! no allocation and no system call; arguments are read only where the decision depends on them.

use crate::address_map::Found;
use crate::buffers;
use crate::ledger::BufferId;
use crate::outcome::{Outcome, Why};
use crate::runtime::{CudaResult, Launch, Runtime, StreamId};
use crate::scheduler::Scheduler;
use crate::shim::{Shim, Stop};
use crate::state::{State, Thread};
use crate::task::{Kind, Lane, Phase, Task, TaskKey, Terms};
use eager_client::task::lazy_slot;
use eager_client::{AtGate, Occasion};
use eager_proto::reply::FLAG_WATCH;
use eager_units::AccessClass;

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// `cudaLaunchKernel`. Returns when the kernel is queued; before that it may wait for the task's binding or gate.
    pub fn launch(&self, thread: &mut Thread, launch: &Launch) -> Outcome<()> {
        if let Some(outcome) = self.launch_measured(launch) {
            return outcome;
        }
        if let Some(bypass) = self.bypass() {
            return bypass;
        }
        if !self.is_watched() {
            return self.launch_prepared(thread, launch);
        }
        self.poll_dying(thread);
        let words = self.arguments(launch);
        let lost = self.state.lock().memory().is_lost_among(&words);
        if let Err(stop) = self.prepare_launch(thread, launch) {
            return self.stopped(stop);
        }
        self.watch_launch(lost, launch);
        self.note_uses(thread, &words);
        let outcome = self.launch_prepared(thread, launch);
        self.believe(thread, &words);
        outcome
    }

    /// Launches a kernel whose buffers all have memory.
    fn launch_prepared(&self, thread: &mut Thread, launch: &Launch) -> Outcome<()> {
        if let Some(result) = self.launch_settled(thread, launch) {
            return result.into();
        }
        if self.is_captured(launch.stream) {
            return Outcome::PassThrough(Why::Captured);
        }
        self.observe(thread);
        let key = match self.admit(thread, launch) {
            Ok(key) => key,
            Err(stop) => return self.stopped(stop),
        };
        let Some(terms) = self.state.lock().client.task(key).map(|task| task.terms) else {
            return Outcome::PassThrough(Why::NotOurs);
        };
        if let Err(error) = self.enter(thread, terms.device) {
            return Outcome::Fail(error);
        }
        self.make_pages(key, launch);
        let choice = self.choose_stream(key, &terms, launch.stream);
        if choice.foreign {
            // The program's stream is on another device than this task. Waiting on both sides preserves its order.
            let _ = self.runtime.stream_synchronize(launch.stream);
        }
        let lane = Lane::of(choice.stream, thread.number);
        self.count_launch(&mut self.state.lock(), key, lane);
        let result = self.runtime.launch(&Launch { stream: choice.stream, ..*launch });
        if result.is_err() {
            self.cancel_launch(key, lane);
        } else if choice.foreign {
            let _ = self.runtime.stream_synchronize(choice.stream);
        }
        self.send_activity();
        result.into()
    }

    /// True if `stream` records a graph. A stream may have joined a capture by waiting for an event of it, so the
    /// runtime is queried while there is a capture.
    pub(crate) fn is_captured(&self, stream: StreamId) -> bool {
        let (any, this) = {
            let state = self.state.lock();
            (!state.captures.is_empty(), state.captures.contains(&stream))
        };
        this || any && self.runtime.stream_is_capturing(stream)
    }

    /// `cudaGetKernel`, `__cudaGetKernel`: later launches may name the kernel by its handle.
    pub fn kernel_has_handle(&self, stub: usize, handle: usize) {
        self.state.lock().kernel_handles.insert(handle, stub);
    }

    /// The stub of a kernel that is named by its stub or its handle.
    pub fn stub_of(&self, function: usize) -> usize {
        self.state.lock().kernel_handles.get(&function).copied().unwrap_or(function)
    }

    /// `cudaStreamBeginCapture…`: nothing may be bound, moved or held before the capture ends, so that is done first.
    /// The capture counts from before the runtime's call: another thread must not query a stream between that call
    /// and the shim's record of it. A query that is already under way is not awaited.
    pub fn begin_capture(
        &self,
        thread: &mut Thread,
        stream: StreamId,
        begin: impl FnOnce() -> CudaResult<()>,
    ) -> Outcome<()> {
        match self.on_a_device(thread) {
            Outcome::PassThrough(Why::AsItIs) => {}
            outcome => return outcome,
        }
        let is_new = self.state.lock().captures.insert(stream);
        let begun = begin();
        if begun.is_err() && is_new {
            self.state.lock().captures.remove(&stream);
        }
        begun.into()
    }

    /// `cudaStreamEndCapture`.
    pub fn end_capture(&self, stream: StreamId, end: impl FnOnce() -> CudaResult<()>) -> Outcome<()> {
        let ended = end();
        self.state.lock().captures.remove(&stream);
        ended.into()
    }

    /// Launches the kernel if there is nothing to decide; otherwise `None`.
    fn launch_settled(&self, thread: &Thread, launch: &Launch) -> Option<CudaResult<()>> {
        let scheduler = self.scheduler.as_ref()?;
        let (key, stream, lane, watched) = {
            let mut state = self.state.lock();
            let sequence = |slot| scheduler.sequence(slot);
            let (key, stream) = state.settled_launch(thread, launch.stream, sequence)?;
            let lane = Lane::of(stream, thread.number);
            let watched = self.count_launch(&mut state, key, lane);
            (key, stream, lane, watched)
        };
        let result = self.runtime.launch(&Launch { stream, ..*launch });
        if result.is_err() {
            self.cancel_launch(key, lane);
        }
        if watched {
            self.send_activity();
        }
        Some(result)
    }

    /// Ensures all that must hold before a kernel may start; returns the task it belongs to.
    fn admit(&self, thread: &mut Thread, launch: &Launch) -> Result<TaskKey, Stop> {
        let key = self.task_of(thread, launch);
        if key.slot == lazy_slot() {
            thread.sites.lazy = Some(key);
        }
        self.bind(thread, key, Some(launch))?;
        self.take_over(thread, key, launch)?;
        self.pass_gate(thread, key, launch)?;
        Ok(key)
    }

    /// The task of the thread's innermost site, unless that task is refused and has no memory yet; otherwise the task
    /// that owns an argument, or else the lazy task.
    pub(crate) fn task_of(&self, thread: &Thread, launch: &Launch) -> TaskKey {
        let mut state = self.state.lock();
        if let Some(open) =
            state.client.innermost(&thread.sites).filter(|open| !state.client.is_unbound(open.key))
        {
            return open.key;
        }
        if state.client.tasks().any(|task| task.kind == Kind::Static) {
            drop(state);
            let words = self.arguments(launch);
            state = self.state.lock();
            let owners = state.memory().pointed_at(&words).into_iter().map(|found| found.owner);
            let has_device = |task: &Task| !matches!(task.phase, Phase::Unbound | Phase::Refused(_));
            let found = |key: &TaskKey| state.client.task(*key).is_some_and(has_device);
            if let Some(key) = owners.into_iter().find(found) {
                return key;
            }
        }
        state.client.lazy()
    }

    /// The 8-byte words of a launch's arguments; none for a kernel that no module registered.
    pub(crate) fn arguments(&self, launch: &Launch) -> Vec<u64> {
        let program = self.program.read();
        let kernel = program.kernel(launch.stub);
        kernel.map_or(Vec::new(), |kernel| self.runtime.argument_words(launch.args, &kernel.argument_sizes))
    }

    /// Order in which a launch's buffers should be moved in before it; empty for a kernel that no module registered.
    pub(crate) fn fetch_order(&self, launch: &Launch) -> buffers::Order<BufferId> {
        let program = self.program.read();
        let Some(kernel) = program.kernel(launch.stub) else { return buffers::Order::default() };
        let words = self.runtime.argument_words(launch.args, &kernel.argument_sizes);
        let flags = buffers::flags_by_word(&kernel.argument_sizes, &kernel.argument_flags, words.len());
        let state = self.state.lock();
        let buffer = |&word: &u64| state.memory().find(word).map(|found| found.id);
        buffers::order(words.iter().map(buffer).zip(flags))
    }

    /// Makes the pages of managed memory that was allocated for a bound task, before the first kernel that uses it.
    fn make_pages(&self, key: TaskKey, launch: &Launch) {
        if !self.state.lock().client.task(key).is_some_and(|task| task.lacks_pages) {
            return;
        }
        let order = self.fetch_order(launch);
        self.fetch(key, &order, Occasion::Kernel);
    }

    /// Moves memory that the unbound lazy task holds and this task's kernel uses to this task, so that it is counted
    /// there only.
    fn take_over(&self, thread: &mut Thread, key: TaskKey, launch: &Launch) -> Result<(), Stop> {
        let lazy = {
            let state = self.state.lock();
            let unbound = |task: &&Task| task.phase == Phase::Unbound && task.account.live() > 0;
            state.client.tasks().find(unbound).map(|task| task.key).filter(|&lazy| lazy != key)
        };
        let Some(lazy) = lazy else { return Ok(()) };
        let words = self.arguments(launch);
        let taken: Vec<Found> = {
            let state = self.state.lock();
            state.memory().pointed_at(&words).into_iter().filter(|found| found.owner == lazy).collect()
        };
        for found in taken {
            self.hand_over(thread, key, &found)?;
        }
        Ok(())
    }

    fn hand_over(&self, thread: &mut Thread, key: TaskKey, found: &Found) -> Result<(), Stop> {
        // Not counted against a promise, since a site announces only its own allocations.
        self.extend(thread, key, found.bytes)?;
        let (device, streams) = {
            let state = &mut *self.state.lock();
            let (id, out) = (found.id, &mut self.outbox());
            let (over, is_moved) = state.client.hand_over(id, found.bytes, key, out);
            let device = state.client.task(key).filter(|_| is_moved).map(|task| task.terms.device);
            (device, self.dispose(state, over))
        };
        self.destroy(streams);
        let Some(device) = device else { return Ok(()) };
        self.enter(thread, device)?;
        let _ = self.runtime.prefer_device(found.span(), device);
        let order = buffers::Order { first: vec![found.id], sparse: Vec::new() };
        self.fetch(key, &order, Occasion::TakenOver);
        Ok(())
    }

    /// Waits until the gate admits this kernel. A gate that a daemon left open when it died would stay open for good, since
    /// a program that never waits there asks nothing; so whoever has a gate looks whether its daemon lives.
    fn pass_gate(&self, thread: &mut Thread, key: TaskKey, launch: &Launch) -> Result<(), Stop> {
        let is_gated = self.state.lock().client.task(key).is_some_and(|task| task.terms.gated);
        let is_orphan = is_gated && self.scheduler.as_ref().is_some_and(Scheduler::is_gone);
        if is_orphan && !self.reconnect() {
            return Err(self.lose_daemon());
        }
        let mut held: Option<(AtGate, String)> = None;
        self.await_cell(key.slot, |cell| {
            if held.is_some() {
                // The wait may be over since the task was promoted.
                self.observe(thread);
            }
            let scheduler = self.scheduler.as_ref().filter(|_| cell.is_gated());
            let Some(scheduler) = scheduler else { return Some(()) };
            let (at_gate, name) = held.get_or_insert_with(|| self.at_gate(key, launch));
            let word = scheduler.gate(key.slot);
            let out = &mut self.outbox_about(name);
            let passes = self.state.lock().client.pass_gate(key, at_gate, cell, word, out);
            if !passes {
                self.send_activity();
            }
            passes.then_some(())
        })
    }

    /// A launch as the gate needs it, with its kernel's name. A kernel that no module registered may touch all memory of
    /// its task.
    fn at_gate(&self, key: TaskKey, launch: &Launch) -> (AtGate, String) {
        let program = self.program.read();
        let name = program.kernel_name(launch.stub).unwrap_or("unknown");
        let (bytes, access) = match program.kernel(launch.stub) {
            None => {
                let live = self.state.lock().client.task(key).map_or(0, |task| task.account.live());
                (live, AccessClass::Unknown)
            }
            Some(kernel) => {
                let words = self.runtime.argument_words(launch.args, &kernel.argument_sizes);
                let flags =
                    buffers::flags_by_word(&kernel.argument_sizes, &kernel.argument_flags, words.len());
                let state = self.state.lock();
                let buffer = |&word: &u64| state.memory().find(word).map(|found| (found.id, found.bytes));
                let used = buffers::used(words.iter().map(buffer).zip(flags));
                (used.bytes, used.access)
            }
        };
        (AtGate::new(self.profile.size(name, bytes, access)), name.to_owned())
    }

    /// The stream for a kernel. Launches on the legacy default stream go to the task's own stream, in program order
    /// across all tasks, unless the program has blocking streams of its own.
    fn choose_stream(&self, key: TaskKey, terms: &Terms, asked: StreamId) -> Choice {
        let stays = |stream| Choice { stream, foreign: false };
        let (blocking, foreign) = {
            let state = self.state.lock();
            let foreign = state.streams.get(&asked).is_some_and(|stream| stream.device != terms.device);
            (state.has_blocking_streams(), foreign)
        };
        if (asked.is_legacy() && blocking) || (!asked.is_legacy() && !foreign) {
            return stays(asked);
        }
        let Some(own) = self.own_stream(key) else { return stays(StreamId::LEGACY) };
        if !asked.is_legacy() {
            return Choice { stream: own, foreign: true };
        }
        let previous = self.state.lock().last_default.replace(own);
        if let Some(previous) = previous.filter(|&previous| previous != own) {
            self.order(previous, own);
        }
        stays(own)
    }

    /// Counts a launch before it is made, so that the daemon does not see the device idle while a kernel is about to
    /// start. The flags are read again after counting: a daemon that began to watch meanwhile has either counted this
    /// launch or is told of it. Returns true if the task is watched.
    fn count_launch(&self, state: &mut State, key: TaskKey, lane: Lane) -> bool {
        let Some(scheduler) = &self.scheduler else { return false };
        state.unsynchronized = true;
        scheduler.add_launched(key.slot, 1);
        let is_watched = scheduler.flags(key.slot) & FLAG_WATCH != 0;
        if let Some(task) = state.client.task_mut(key) {
            task.own.in_flight.launch(lane);
            if is_watched {
                task.terms.terms.watched = true;
            }
        }
        is_watched
    }

    fn cancel_launch(&self, key: TaskKey, lane: Lane) {
        let mut state = self.state.lock();
        let Some(task) = state.client.task_mut(key) else { return };
        task.own.in_flight.cancel(lane);
        if let Some(scheduler) = &self.scheduler {
            scheduler.add_retired(key.slot, 1);
        }
    }
}

/// The stream that a kernel is launched on.
#[derive(Debug, Clone, Copy)]
struct Choice {
    stream: StreamId,
    /// The program's stream is on another device: the task's own stream is used, with a wait before and after.
    foreign: bool,
}
