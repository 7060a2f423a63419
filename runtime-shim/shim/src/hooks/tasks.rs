//! Tasks as the pass announces them, and the binding of each at its time. What a begin, a decision of the daemon or an
//! end means is decided by [`eager_client::Client`]; here it is sent, waited for and carried out.
//!
//! Trap: the client is entered under the state's lock, and the names in a request come from the pass's tables, which
//! must be locked before the state.

use crate::account::{FrameId, Requirement};
use crate::buffers;
use crate::nvtx;
use crate::program::Program;
use crate::runtime::{CudaError, DeviceIndex, Launch, Runtime, Span, StreamId};
use crate::scheduler::Scheduler;
use crate::shim::{Shim, Stop};
use crate::state::Thread;
use crate::task::{Kind, Phase, Task, TaskKey, Work};
use crate::trace;
use eager_client::cell::{Cell, State as CellState};
use eager_client::sites::{Beginning, Begun};
use eager_client::task::Geometry;
use eager_client::{AllocationAsked, Client, Counted, Decided, Occasion, Step, Wanted};
use eager_units::shown;
use std::sync::atomic::Ordering;

/// The client, the slot's cell and the pass's tables, from which a thread takes its next step.
pub(crate) struct Look<'a> {
    pub client: &'a mut Client<DeviceIndex, Work>,
    pub cell: &'a Cell<DeviceIndex>,
    pub program: &'a Program,
}

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// `eager_task_begin`. Returns when the daemon has bound or refused the task, unless that is requested at its
    /// first use of a device. Never waits for memory while this thread holds some.
    pub fn task_begin(
        &self,
        thread: &mut Thread,
        site: u64,
        requirement: impl Into<Requirement>,
        geometry: Geometry,
    ) {
        if self.bypass::<()>().is_some() {
            return;
        }
        self.sync_with_daemon(thread);
        let beginning = Beginning {
            site,
            requirement: requirement.into(),
            geometry,
            reuses: self.program.read().site(site).is_some_and(|site| site.reuses),
            by_name: self.by_name(site),
        };
        // Otherwise the daemon is lost, and the site is not open.
        let _ = self.begin(thread, &beginning);
    }

    fn begin(&self, thread: &mut Thread, beginning: &Beginning) -> Result<(), Stop> {
        let site = beginning.site;
        loop {
            let begun = {
                let program = self.program.read();
                let covers = |outer| program.site(outer).is_some_and(|outer| outer.covered.contains(&site));
                let is_answered = |slot, end| self.cell(slot).is_ok_and(|cell| cell.answers(end));
                let out = &mut self.asking(&program, "");
                let mut state = self.state.lock();
                state.client.begin(&mut thread.sites, beginning, covers, is_answered, out)
            };
            match begun {
                Begun::Open => return Ok(()),
                Begun::Asked(key) => return self.open(thread, key, beginning),
                Begun::Extends(key) => return self.begin_inside(thread, key, beginning),
                // A refused task takes the site in, which is refused with it.
                Begun::Waits(key) => {
                    if let Err(Stop::Lost) = self.bind(thread, key, None) {
                        return Err(Stop::Lost);
                    }
                }
                Begun::Unanswered(slot, end) => {
                    self.await_cell(slot, |cell| cell.answers(end).then_some(()))?;
                }
                Begun::Full => {
                    self.reporter.report_once("slots", || {
                        "this program has more open tasks than the limit: further ones are scheduled together as one \
                         task, bound at its first launch"
                            .into()
                    });
                    return Ok(());
                }
            }
        }
    }

    /// Opens a site whose task was requested at its begin.
    fn open(&self, thread: &mut Thread, key: TaskKey, beginning: &Beginning) -> Result<(), Stop> {
        self.settle(thread, key)?;
        let apart = self.state.lock().client.open(&mut thread.sites, key, &mut self.outbox());
        if let Some(other) = apart {
            return self.begin_inside(thread, other, beginning);
        }
        if let Some(open) = thread.sites.open.last().filter(|open| open.site == beginning.site) {
            let Requirement { bytes, live_bytes } = beginning.requirement;
            trace::record_live(open.key.slot, live_bytes.min(bytes));
        }
        Ok(())
    }

    /// Begins a site inside another site of the thread, or inside the bound lazy task that the thread has used, as an
    /// extension of that task, which never waits.
    fn begin_inside(&self, thread: &mut Thread, key: TaskKey, beginning: &Beginning) -> Result<(), Stop> {
        let mut announced = beginning.announced();
        if let Some(refusal) = self.ask_extension(thread, key, announced.bytes)? {
            self.report_refused_site(announced.site, announced.bytes, ", inside another one,", &refusal);
            announced.bytes = 0;
        }
        self.state.lock().client.open_inside(&mut thread.sites, key, announced);
        Ok(())
    }

    fn report_refused_site(&self, site: u64, bytes: u64, place: &str, reason: &str) {
        let (function, size) = (self.program.read().function(site).to_owned(), shown::size(bytes));
        self.reporter.report(&format!(
            "the task in {function} ({size}){place} is refused as a whole: {reason}. Each of its allocations is \
             requested by itself"
        ));
    }

    /// `eager_all_launched`.
    pub fn all_launched(&self, thread: &Thread, site: u64) {
        if self.bypass::<()>().is_some() {
            return;
        }
        self.state.lock().client.all_launched(&thread.sites, site, &mut self.outbox());
    }

    /// `eager_task_end`.
    pub fn task_end(&self, thread: &mut Thread, site: u64) {
        if self.bypass::<()>().is_some() {
            return;
        }
        self.sync_with_daemon(thread);
        let streams = {
            let program = self.program.read();
            let same = |one, other| program.function(one) == program.function(other);
            let state = &mut *self.state.lock();
            let over = state.client.end_site(&mut thread.sites, site, same, &mut self.outbox());
            self.dispose(state, over)
        };
        self.destroy(streams);
    }

    /// Waits until `step` has nothing to wait for, and carries out each decision of the daemon that this thread is the
    /// first to see.
    pub(crate) fn follow(
        &self,
        thread: &mut Thread,
        key: TaskKey,
        mut step: impl FnMut(Look<'_>) -> Step<DeviceIndex, Work>,
    ) -> Result<Step<DeviceIndex, Work>, Stop> {
        self.await_cell(key.slot, |cell| {
            // Read now: the words of a refusal go with the task.
            let why = (cell.state == CellState::Refused).then(|| self.reason(key.slot, cell.reason));
            let why = why.unwrap_or_default();
            // A thread that waited goes on only when the first to see the decision has carried it out.
            let _entering = self.entering.lock();
            loop {
                let (decided, streams) = {
                    let program = &self.program.read();
                    let mut state = self.state.lock();
                    match step(Look { client: &mut state.client, cell, program }) {
                        Step::Wait => return None,
                        Step::Decided(decided, over) => (decided, self.dispose(&mut state, over)),
                        step => return Some(step),
                    }
                };
                self.destroy(streams);
                self.carry_out(thread, key, decided, &why);
            }
        })
    }

    /// Carries out a decision of the daemon on a task.
    fn carry_out(&self, thread: &mut Thread, key: TaskKey, decided: Decided<DeviceIndex>, why: &str) {
        match decided {
            Decided::Bound(terms) => {
                self.ever_bound.store(true, Ordering::Relaxed);
                nvtx::bound(key.slot, &terms);
                if let Err(error) = self.enter(thread, terms.device) {
                    self.reporter.report_once("device", || unusable(terms.device, error));
                }
                let settings = self.state.lock().settings.clone();
                settings.into_iter().for_each(|setting| self.runtime.apply(setting));
            }
            Decided::Foothold => self.ever_bound.store(true, Ordering::Relaxed),
            Decided::Refused { kind, site, bytes } => {
                let program = self.program.read();
                let place = if kind == Kind::Static { program.function(site) } else { "the whole program" };
                let size = shown::size(bytes);
                self.reporter.report(&format!(
                    "the task in {place} ({size}) is refused: {why}. Its CUDA calls return out-of-memory errors"
                ));
            }
            Decided::RefusedAllocation { bytes } => self.report_refused_allocation(bytes, why),
            Decided::TooLarge { site, bytes } => self.report_refused_site(site, bytes, "", why),
            Decided::Apart => {}
        }
    }

    /// Waits while a task is requested and not decided on.
    pub(crate) fn settle(&self, thread: &mut Thread, key: TaskKey) -> Result<(), Stop> {
        let is_asked = |task: &Task| matches!(task.phase, Phase::Asked(_));
        if self.state.lock().client.task(key).is_some_and(is_asked) {
            self.follow(thread, key, |look| look.client.look(key, look.cell, &mut self.outbox()))?;
        }
        Ok(())
    }

    /// Ensures that a task is bound; a lazy or deferred task is requested now. `launch`: its first launch, if that is
    /// the cause.
    pub(crate) fn bind(
        &self,
        thread: &mut Thread,
        key: TaskKey,
        launch: Option<&Launch>,
    ) -> Result<(), Stop> {
        let is_unbound = match self.state.lock().client.task(key) {
            Some(task) if !task.is_bound() => task.phase == Phase::Unbound,
            _ => return Ok(()),
        };
        let geometry = launch.map_or(Geometry::UNKNOWN, geometry);
        let need = |look: Look<'_>| {
            // A declared task is no kernel's.
            let first = launch.filter(|_| look.client.declared.is_none());
            let kernel = first.and_then(|launch| look.program.kernel_name(launch.stub));
            let out = &mut self.asking(look.program, kernel.unwrap_or_default());
            look.client.need(key, look.cell, geometry, out)
        };
        match self.follow(thread, key, need)? {
            Step::Refused => return Err(self.out_of_memory()),
            Step::First(first) => {
                self.ask_first(thread, first)?;
                return self.bind(thread, key, launch);
            }
            _ if is_unbound => self.place(key, launch),
            _ => {}
        }
        Ok(())
    }

    /// Waits for the decision on a task that must have one before another task is asked for.
    fn ask_first(&self, thread: &mut Thread, first: TaskKey) -> Result<(), Stop> {
        let need = |look: Look<'_>| {
            look.client.need(first, look.cell, Geometry::UNKNOWN, &mut self.asking(look.program, ""))
        };
        self.follow(thread, first, need).map(drop)
    }

    /// Requests a deferred task if it has not been, and takes the daemon's decision if there is one; does not wait for
    /// memory.
    pub(crate) fn ask_deferred(&self, thread: &mut Thread, key: TaskKey) -> Result<(), Stop> {
        let need = |look: Look<'_>| {
            let out = &mut self.asking(look.program, "");
            match look.client.need(key, look.cell, Geometry::UNKNOWN, out) {
                // The slot was free before, so this state belongs to the request.
                Step::Wait if look.cell.is_waiting() => Step::Ready,
                step => step,
            }
        };
        match self.follow(thread, key, need)? {
            Step::Refused => Err(self.out_of_memory()),
            _ => Ok(()),
        }
    }

    /// Binds the lazy task, which is unbound, for an allocation by a refused site. `None`: look again what the allocation
    /// needs, since a task has changed.
    pub(crate) fn bind_with(
        &self,
        thread: &mut Thread,
        key: TaskKey,
        frame: FrameId,
        wanted: Wanted,
    ) -> Result<Option<Counted>, Stop> {
        let mut asked: Option<AllocationAsked> = None;
        let ask = |look: Look<'_>| {
            let Look { client, cell, program } = look;
            match &asked {
                Some(asked) if client.is_refused(asked) => Step::Unasked,
                Some(_) => client.look(key, cell, &mut self.outbox()),
                None => {
                    match client.ask_for_allocation(key, frame, wanted, cell, &mut self.asking(program, "")) {
                        Ok(new) => {
                            asked = Some(new);
                            Step::Wait
                        }
                        Err(step) => step,
                    }
                }
            }
        };
        let step = self.follow(thread, key, ask)?;
        if let Step::First(first) = step {
            self.ask_first(thread, first)?;
        }
        let Some(asked) = asked else { return Ok(None) };
        if self.state.lock().client.is_refused(&asked) {
            return Err(self.out_of_memory());
        }
        self.place(key, None);
        Ok(Some(asked.counted))
    }

    /// Makes memory that was allocated before the device was known prefer the device, and moves filled data in, data
    /// that the first launch reads first.
    fn place(&self, key: TaskKey, launch: Option<&Launch>) {
        let (device, spans) = {
            let state = self.state.lock();
            let Some(terms) = state.client.task(key).map(|task| task.terms) else { return };
            let rewritten = state.memory().of_task(key).filter(|found| found.origin.is_rewritten());
            (terms.device, rewritten.map(|found| found.span()).collect::<Vec<Span>>())
        };
        if spans.is_empty() {
            return;
        }
        for span in spans {
            let _ = self.runtime.prefer_device(span, device);
        }
        let order = launch.map_or_else(buffers::Order::default, |launch| self.fetch_order(launch));
        self.fetch(key, &order, Occasion::Kernel);
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
        let (key, _) = self.state.lock().client.owner_of_new(&thread.sites);
        self.bind(thread, key, None)?;
        let mut state = self.state.lock();
        if state.client.task(key).is_some_and(|task| task.kind == Kind::Lazy) {
            state.client.pinned = true;
            thread.sites.lazy = Some(key);
        }
        let device = state.client.task(key).map(|task| task.terms.device);
        drop(state);
        device.map_or(Ok(()), |device| self.enter(thread, device))?;
        Ok(key)
    }
}

/// Size of a launch, as a request tells it.
fn geometry(launch: &Launch) -> Geometry {
    let product = |sizes: [u32; 3]| sizes.iter().fold(1u64, |all, &one| all.saturating_mul(u64::from(one)));
    Geometry { blocks: product(launch.grid), threads_per_block: product(launch.block) }
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
