//! Static tasks as the pass announces them, and the binding of the lazy task.

use crate::account::{Announced, FrameId, Requirement, Taken};
use crate::buffers;
use crate::nvtx;
use crate::program::Program;
use crate::runtime::{CudaError, DeviceIndex, Geometry, Launch, Runtime, Span, StreamId};
use crate::scheduler::Scheduler;
use crate::shim::{Answer, Shim, Stop};
use crate::state::{Around, NoSlot, OpenSite, State, Thread};
use crate::task::{Kind, Phase, Release, Task, TaskKey, Terms};
use crate::trace;
use eager_proto::reply::REASON_TOO_LARGE;
use eager_proto::request::{BeginFlags, RequestBody, Slot};
use eager_units::shown;
use parking_lot::MutexGuard;
use std::sync::atomic::Ordering;

/// Error: the daemon bound a task to another device than the one that the program's handles are on.
#[derive(Debug)]
struct WrongDevice;

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// `eager_task_begin`. Returns when the daemon has bound or refused the task. A refused task is final: until the
    /// site ends, its allocations and launches fail, and it is not requested again. The exception is a task that is
    /// larger than every device: its announcement is an upper bound, so its allocations are requested one by one, and
    /// those that can never fit fail, as without the shim. Never waits for memory while this thread holds some: see
    /// [`Self::begin_inside`].
    pub fn task_begin(
        &self,
        thread: &mut Thread,
        site: u64,
        requirement: impl Into<Requirement>,
        geometry: Geometry,
    ) {
        let Requirement { bytes, live_bytes } = requirement.into();
        if self.bypass::<()>().is_some() {
            return;
        }
        self.sync_with_daemon(thread);
        let reuses = self.program.read().site(site).is_some_and(|site| site.reuses);
        let announced = Announced { site, bytes, reuses };
        let around = {
            let state = self.state.lock();
            thread.open.retain(|open| state.is_open(open));
            state.around(thread)
        };
        match around {
            Around::Task(key) => self.begin_inside(thread, key, announced),
            Around::Nothing => {
                let _ = self.begin_alone(thread, announced, live_bytes, geometry, None);
                // The request of a deferred task will record it.
                let has_asked = |open: &&OpenSite| !self.state.lock().is_deferred(open.key);
                if let Some(open) = thread.open.last().filter(|open| open.site == site).filter(has_asked) {
                    trace::record_live(open.key.slot, live_bytes.min(bytes));
                }
            }
            Around::Handles(lazy) => {
                let device = self.state.lock().task(lazy).map(|task| task.terms.device);
                if let Err(WrongDevice) = self.begin_alone(thread, announced, live_bytes, geometry, device) {
                    self.begin_inside(thread, lazy, announced);
                }
            }
        }
    }

    /// Begins a site outside all others as a task of its own. A task bound to another device than `must` is returned.
    fn begin_alone(
        &self,
        thread: &mut Thread,
        announced: Announced,
        live_bytes: u64,
        geometry: Geometry,
        required: Option<DeviceIndex>,
    ) -> Result<(), WrongDevice> {
        let Announced { site, bytes, .. } = announced;
        let Some(key) = self.claim_slot(announced) else { return Ok(()) };
        // If no device could ever grant all of it, the task is requested without by-name memory, so that it may start
        // over-subscribed.
        let by_name = self.comes_by_name(site) && self.can_ever_fit(bytes);
        let requirement = match self.state.lock().task_mut(key).filter(|_| by_name) {
            Some(task) => {
                task.by_name = true;
                if self.habits.live_requirement {
                    task.account.ask_for(live_bytes);
                }
                task.account.reserved()
            }
            None => bytes,
        };
        if by_name && self.habits.late_reservation && required.is_none() {
            self.defer(thread, key, announced, geometry);
            return Ok(());
        }
        let flags = BeginFlags { whole: by_name, ..BeginFlags::NONE };
        match self.ask(key.slot, &self.begin_body(site, requirement, geometry, flags)) {
            Ok(Answer::Bound(terms)) => {
                let here = required.is_none_or(|device| device == terms.device);
                if !here {
                    let mut state = self.state.lock();
                    if let Some(task) = state.task_mut(key) {
                        task.phase = Phase::Bound;
                    }
                    let _ = self.end(&mut state, key);
                    return Err(WrongDevice);
                }
                self.bound(thread, key, terms);
                self.catch_up(key, requirement);
            }
            Ok(Answer::Refused(refusal)) if refusal.code == REASON_TOO_LARGE => {
                self.site_refused(thread, key, announced, &refusal.why);
                return Ok(());
            }
            Ok(Answer::Refused(refusal)) => {
                self.set_phase(key, Phase::Refused);
                self.catch_up(key, requirement);
                self.report_refused_task(site, bytes, &refusal.why);
            }
            Err(_) => {
                self.state.lock().remove_task(key);
                return Ok(());
            }
        }
        let frame = self.state.lock().task(key).and_then(|task| task.account.frame_of(site));
        thread.open_own(site, key, frame);
        Ok(())
    }

    /// The request for a static task.
    pub(crate) fn begin_body(
        &self,
        site: u64,
        requirement: u64,
        geometry: Geometry,
        flags: BeginFlags,
    ) -> RequestBody {
        let program = self.program.read();
        RequestBody::TaskBegin {
            requirement: program.with_variables(requirement),
            site,
            blocks: geometry.blocks,
            threads_per_block: u64::from(geometry.threads_per_block),
            flags,
            function: program.function(site).to_owned(),
        }
    }

    /// Opens a refused site in the lazy task. No device can hold all that the site announced, but the program may do
    /// without some of it: nothing is announced, and each of its allocations is requested by itself.
    fn site_refused(&self, thread: &mut Thread, key: TaskKey, announced: Announced, reason: &str) {
        let Announced { site, bytes, .. } = announced;
        self.report_refused_site(site, bytes, "", reason);
        let mut state = self.state.lock();
        // Another thread may have ended the site meanwhile.
        let mut is_open = false;
        if let Some(task) = state.task_mut(key) {
            is_open = task.account.is_open();
            task.phase = Phase::Refused;
        }
        let _ = self.end(&mut state, key);
        let lazy = state.lazy();
        if let Some(task) = state.task_mut(lazy).filter(|_| is_open) {
            let frame = task.account.open(Announced { site, bytes: 0, reuses: false });
            thread.open.push(OpenSite { site, key: lazy, frame, covered: false });
        }
    }

    fn report_refused_site(&self, site: u64, bytes: u64, place: &str, reason: &str) {
        let (function, size) = (self.program.read().function(site).to_owned(), shown::size(bytes));
        self.reporter.report(&format!(
            "the task in {function} ({size}){place} is refused as a whole: {reason}. Each of its allocations is \
             requested by itself"
        ));
    }

    /// Begins a site inside another site of the thread (or inside the bound lazy task that the thread has used). It
    /// belongs to that task: covered by its announcement, or as an extension of it, which never waits.
    fn begin_inside(&self, thread: &mut Thread, key: TaskKey, announced: Announced) {
        let Announced { site, bytes, .. } = announced;
        let outer = {
            let program = self.program.read();
            let state = self.state.lock();
            let covers = |outer| program.site(outer).is_some_and(|outer| outer.covered.contains(&site));
            let covered = state.announced_by(thread).any(covers)
                || state.task(key).is_some_and(|task| task.phase == Phase::Refused);
            state.innermost(thread).copied().filter(|_| covered)
        };
        if let Some(outer) = outer {
            thread.open.push(OpenSite { site, covered: true, ..outer });
            return;
        }
        if self.defer_inside(thread, key, announced) {
            return;
        }
        let promised = match self.ask_extension(thread, key, bytes) {
            Ok(None) => bytes,
            Ok(Some(refusal)) => {
                self.report_refused_site(site, bytes, ", inside another one,", &refusal);
                0
            }
            Err(_) => return,
        };
        let mut state = self.state.lock();
        if let Some(task) = state.task_mut(key) {
            let frame = task.account.open(Announced { bytes: promised, ..announced });
            thread.open.push(OpenSite { site, key, frame, covered: false });
        }
    }

    /// `eager_all_launched`.
    pub fn all_launched(&self, thread: &Thread, site: u64) {
        if self.bypass::<()>().is_some() {
            return;
        }
        let mut state = self.state.lock();
        let Some(open) = state.open_at(thread, site).filter(|open| !open.covered) else { return };
        if let Some(task) = state.task_mut(open.key) {
            task.account.set_all_launched(open.frame);
        }
        self.send_all_launched(&mut state, open.key);
    }

    /// Called under the lock, like shrinks and ends: this message must not follow the end.
    pub(crate) fn send_all_launched(&self, state: &mut State, key: TaskKey) {
        if state.task_mut(key).is_some_and(Task::must_send_all_launched) {
            let _ = self.send(key.slot, &RequestBody::AllLaunched);
        }
    }

    /// `eager_task_end`.
    pub fn task_end(&self, thread: &mut Thread, site: u64) {
        if self.bypass::<()>().is_some() {
            return;
        }
        self.sync_with_daemon(thread);
        let program = self.program.read();
        let mut state = self.state.lock();
        let Some(ending) = state.open_at(thread, site) else { return };
        let mut streams = Vec::new();
        for OpenSite { key, frame, .. } in take_ended(&program, thread, ending) {
            let pinned = state.pinned;
            let release = state.task_mut(key).map_or(Release::Nothing, |task| task.close(frame, pinned));
            streams.extend(self.release(&mut state, key, release));
            self.send_all_launched(&mut state, key);
        }
        thread.open.retain(|open| state.is_open(open));
        drop(state);
        drop(program);
        self.destroy(streams);
    }

    /// Claims a slot for a static task. Without one the site counts as not announced: its memory goes to the lazy
    /// task.
    fn claim_slot(&self, announced: Announced) -> Option<TaskKey> {
        let is_answered = |slot: Slot, end: u32| self.cell(slot).is_ok_and(|cell| cell.answers(end));
        loop {
            let claimed = self.state.lock().add_static(announced, is_answered);
            match claimed {
                Ok(key) => return Some(key),
                Err(NoSlot::Unanswered(slot, end)) => self.await_answer(slot, end).ok()?,
                Err(NoSlot::Full) => {
                    self.reporter.report_once("slots", || {
                        "this program has more open tasks than the limit: further ones are scheduled together as one \
                         task, bound at its first launch"
                            .into()
                    });
                    return None;
                }
            }
        }
    }

    /// Records a binding and moves the thread to the task's device.
    pub(crate) fn bound(&self, thread: &mut Thread, key: TaskKey, terms: Terms) {
        self.ever_bound.store(true, Ordering::Relaxed);
        nvtx::bound(key.slot, &terms);
        {
            let mut state = self.state.lock();
            state.foothold = Some(terms.device);
            if let Some(task) = state.task_mut(key) {
                task.terms = terms;
                task.phase = Phase::Bound;
            }
        }
        if let Err(error) = self.enter(thread, terms.device) {
            self.reporter.report_once("device", || unusable(terms.device, error));
        }
        let settings = self.state.lock().settings.clone();
        settings.into_iter().for_each(|setting| self.runtime.apply(setting));
    }

    pub(crate) fn lazy_refused(&self, key: TaskKey, bytes: u64, reason: &str) {
        if let Some(task) = self.state.lock().task_mut(key) {
            task.phase = Phase::Refused;
        }
        let size = shown::size(bytes);
        self.reporter.report(&format!(
            "the task in the whole program ({size}) is refused: {reason}. Its CUDA calls return out-of-memory errors"
        ));
    }

    /// Ensures that a task is bound; a lazy or deferred task is requested now. `launch`: its first launch, if that is
    /// the cause.
    pub(crate) fn bind(
        &self,
        thread: &mut Thread,
        key: TaskKey,
        launch: Option<&Launch>,
    ) -> Result<(), Stop> {
        let mut state = self.lock_settled(key);
        let Some(task) = state.task_mut(key) else { return Ok(()) };
        match task.phase {
            Phase::Bound | Phase::Asking => return Ok(()),
            Phase::Deferred | Phase::Queued(_) => {
                drop(state);
                return self.bind_deferred(thread, key);
            }
            Phase::Refused => {
                drop(state);
                return Err(self.out_of_memory());
            }
            Phase::Unbound => task.phase = Phase::Asking,
        }
        let requirement = task.account.live();
        let ended = state.take_ended(key.slot);
        drop(state);
        let result = self.ask_lazy(key, requirement, requirement > 0, ended, launch);
        let outcome = match result {
            Ok(Answer::Bound(terms)) => {
                self.bound(thread, key, terms);
                self.catch_up(key, requirement);
                self.place(key, launch);
                Ok(())
            }
            Ok(Answer::Refused(refusal)) => {
                self.lazy_refused(key, requirement, &refusal.why);
                self.catch_up(key, requirement);
                Err(self.out_of_memory())
            }
            Err(stop) => {
                if let Some(task) = self.state.lock().task_mut(key) {
                    task.phase = Phase::Unbound;
                }
                Err(stop)
            }
        };
        self.notify_settled();
        outcome
    }

    /// Binds the lazy task, which is unbound in `state`, for an allocation of `bytes` by a refused site. The task
    /// requests all that it has and these bytes; the request may wait, as no memory is held. If it is refused, this
    /// allocation alone fails.
    pub(crate) fn bind_with(
        &self,
        thread: &mut Thread,
        mut state: MutexGuard<'_, State>,
        key: TaskKey,
        frame: FrameId,
        bytes: u64,
    ) -> Result<Taken, Stop> {
        let Some(task) = state.task_mut(key) else { return Err(Stop::Cuda(CudaError::INITIALIZATION)) };
        let has_memory = task.account.live() > 0;
        let taken = task.account.take(Some(frame), bytes);
        task.phase = Phase::Asking;
        let requirement = task.account.live();
        let ended = state.take_ended(key.slot);
        drop(state);
        let outcome = match self.ask_lazy(key, requirement, has_memory, ended, None) {
            Ok(Answer::Bound(terms)) => {
                self.bound(thread, key, terms);
                self.catch_up(key, requirement);
                self.place(key, None);
                Ok(taken)
            }
            Ok(Answer::Refused(refusal)) => {
                self.report_refused_allocation(bytes, &refusal.why);
                Err(self.out_of_memory())
            }
            Err(stop) => Err(stop),
        };
        if let Err(stop) = outcome {
            let mut state = self.state.lock();
            if let Some(task) = state.task_mut(key) {
                task.account.untake(Some(frame), bytes, taken);
                task.phase = Phase::Unbound;
            }
            // The daemon shows the refused task in the slot until it is ended.
            if stop != Stop::Lost
                && let Ok(end) = self.send(key.slot, &RequestBody::TaskEnd)
            {
                state.set_ended(key.slot, end);
            }
        }
        self.notify_settled();
        outcome
    }

    fn ask_lazy(
        &self,
        key: TaskKey,
        requirement: u64,
        has_memory: bool,
        ended: Option<u32>,
        launch: Option<&Launch>,
    ) -> Result<Answer, Stop> {
        if let Some(end) = ended {
            self.await_answer(key.slot, end)?;
        }
        let product =
            |sizes: [u32; 3]| sizes.iter().fold(1u64, |all, &one| all.saturating_mul(u64::from(one)));
        let program = self.program.read();
        let kernel = launch.and_then(|launch| program.kernel_name(launch.stub)).map(ToOwned::to_owned);
        let body = RequestBody::TaskBegin {
            requirement: program.with_variables(requirement),
            site: 0,
            blocks: launch.map_or(0, |launch| product(launch.grid)),
            threads_per_block: launch.map_or(0, |launch| product(launch.block)),
            flags: BeginFlags { managed: has_memory, ..BeginFlags::LAZY },
            function: kernel.unwrap_or_default(),
        };
        drop(program);
        self.ask(key.slot, &body)
    }

    /// Makes memory that was allocated before the device was known prefer the device, and moves filled data in, data
    /// that the first launch reads first.
    fn place(&self, key: TaskKey, launch: Option<&Launch>) {
        let (device, spans) = {
            let state = self.state.lock();
            let Some(terms) = state.task(key).map(|task| task.terms) else { return };
            let rewritten = state.memory.of_task(key).filter(|found| found.origin.is_rewritten());
            (terms.device, rewritten.map(|found| found.span()).collect::<Vec<Span>>())
        };
        if spans.is_empty() {
            return;
        }
        for span in spans {
            let _ = self.runtime.prefer_device(span, device);
        }
        let order = launch.map_or_else(buffers::Order::default, |launch| self.fetch_order(launch));
        let stream = self.fill_stream(key);
        self.fetch(key, stream, &order, self.unwritten_for(key));
        self.state.lock().note_pages(key);
    }

    /// The stream on which filled data moves in before the next kernel: that of the task's kernels, so that they
    /// start after it and need not fault.
    pub(crate) fn fill_stream(&self, key: TaskKey) -> StreamId {
        if self.state.lock().has_blocking_streams() {
            return StreamId::LEGACY;
        }
        self.own_stream(key).unwrap_or(StreamId::LEGACY)
    }

    /// Binds the lazy task now if this thread would use it, for an object that belongs to one device.
    pub(crate) fn need_device(&self, thread: &mut Thread) -> Result<TaskKey, Stop> {
        self.sync_with_daemon(thread);
        self.bind_own(thread)?;
        let (key, _) = self.state.lock().owner_of_new(thread);
        self.bind(thread, key, None)?;
        let mut state = self.state.lock();
        if state.task(key).is_some_and(|task| task.kind == Kind::Lazy) {
            state.pinned = true;
            thread.lazy = Some(key);
        }
        let device = state.task(key).map(|task| task.terms.device);
        drop(state);
        device.map_or(Ok(()), |device| self.enter(thread, device)).map_err(Stop::Cuda)?;
        Ok(key)
    }
}

/// Removes the sites that end from the thread's open sites: `ending`, and sites begun after it in functions that it
/// called and that have returned without an end (by `longjmp`). Sites of the same function may overlap and have ends
/// of their own. Returns the sites whose frames must be closed.
fn take_ended(program: &Program, thread: &mut Thread, ending: OpenSite) -> Vec<OpenSite> {
    let Some(position) = thread.open.iter().rposition(|open| *open == ending) else {
        return vec![ending];
    };
    let function = program.function(ending.site);
    let later = thread.open.split_off(position + 1);
    thread.open.truncate(position);
    let (ended, kept): (Vec<_>, Vec<_>) =
        later.into_iter().partition(|open| program.function(open.site) != function);
    thread.open.extend(kept);
    [ending].into_iter().chain(ended).filter(|open| !open.covered).collect()
}

/// Message that says why a device chosen by the daemon cannot be used.
fn unusable(device: DeviceIndex, error: CudaError) -> String {
    let code = error.code();
    if matches!(error, CudaError::INSUFFICIENT_DRIVER | CudaError::NO_DEVICE) {
        return format!(
            "CUDA finds no device (error {code}): is NVIDIA's driver loaded here, and new enough for the program's CUDA runtime?"
        );
    }
    if error == CudaError::INITIALIZATION {
        return format!(
            "CUDA cannot start (error {code}): the cause may be a limit on memory, locked memory or processes (ulimit -v, -l, -u)"
        );
    }
    if device == DeviceIndex::NONE {
        return "the daemon chose a GPU that this program does not see: unset CUDA_VISIBLE_DEVICES, since the daemon \
                chooses the device"
            .into();
    }
    format!(
        "cudaSetDevice({}) failed with error {code}: does the daemon see other devices than this program?",
        device.0
    )
}
