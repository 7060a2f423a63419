//! The shim itself: its state, its connection to the daemon, and what every hook does (new terms, promotion,
//! activity).
//!
//! The hooks are in [`crate::hooks`]. The daemon can be lost at any moment; then [`Shim::lose_daemon`] changes the
//! standing once, and every later hook passes through (or fails, under `closed`). Nothing is undone: tasks keep their
//! device and their memory.

use crate::buffers;
use crate::config::Config;
use crate::host_memory::HostMemory;
use crate::ledger::BufferId;
use crate::measure::Measurement;
use crate::outcome::Why;
use crate::profile::Profile;
use crate::program::Program;
use crate::reporter::Reporter;
use crate::ring::Ring;
use crate::runtime::{CudaError, CudaResult, DeviceIndex, Priority, Runtime, Span, StreamFlags, StreamId};
use crate::scheduler::{Scheduler, Unsent, Wake};
use crate::state::{Mark, State, Thread};
use crate::task::{OwnStream, Task, TaskKey, Terms, Work};
use crate::visible::Visible;
use crate::wait_message::WaitMessage;
use eager_client::cell::Cell;
use eager_client::loss::Standing;
use eager_client::request::{Begin, Kernel, Outbox, Request};
use eager_client::{Client, News, Occasion};
use eager_proto::request::{RequestBody, Slot};
use eager_units::DeviceId;
use parking_lot::{Mutex, RwLock};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

/// How long one sleep lasts before the shim checks again whether the daemon is alive (specification S-703).
const SLEEP: Duration = Duration::from_secs(1);

/// The same while the device's next task waits for the end of this program's kernels: nothing wakes the shim when they
/// end (specification S-139).
const SLEEP_WHILE_AWAITED: Duration = Duration::from_millis(1);

/// Why a hook does not do what the call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The daemon is lost; [`Shim::bypass`] decides how the call continues.
    Lost,
    Cuda(CudaError),
    /// The call goes to the runtime unchanged.
    Pass(Why),
}

impl From<CudaError> for Stop {
    fn from(error: CudaError) -> Stop {
        Stop::Cuda(error)
    }
}

#[derive(Debug)]
pub struct Shim<R, S> {
    pub(crate) runtime: R,
    pub(crate) scheduler: Option<S>,
    pub(crate) profile: Profile,
    pub(crate) reporter: Reporter,
    pub(crate) program: &'static RwLock<Program>,
    pub(crate) state: Mutex<State>,
    pub(crate) config: Config,
    pub(crate) standing: AtomicU8,
    /// True once a task has been bound. From then on the device is the daemon's choice, even after the daemon is
    /// lost.
    pub(crate) ever_bound: AtomicBool,
    /// Determined when the first task is bound.
    visible: OnceLock<Visible>,
    /// [`State::is_watched`], readable without the lock.
    watched: AtomicBool,
    /// Held while memory is mapped to addresses or unmapped, so that no thread frees them meanwhile.
    pub(crate) mapping: Mutex<()>,
    /// Held while kept copies are sent to the device, so that no thread uses the memory that they write too early.
    pub(crate) flushing: Mutex<()>,
    /// Measurement of kernels; `None`: nothing is measured.
    pub(crate) measuring: Option<Mutex<Measurement>>,
    /// Held while a decision of the daemon on a task is entered and carried out.
    pub(crate) entering: Mutex<()>,
    /// Held while host memory is page-locked or freed.
    pub(crate) host_memory: Mutex<HostMemory>,
    /// Held while a copy goes through the ring.
    pub(crate) ring: Mutex<Ring>,
}

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// Makes the shim. `scheduler`: `None` when no daemon was found.
    pub fn new(
        runtime: R,
        scheduler: Option<S>,
        config: Config,
        profile: Profile,
        reporter: Reporter,
        program: &'static RwLock<Program>,
    ) -> Shim<R, S> {
        let standing = match &scheduler {
            Some(_) => Standing::Scheduled,
            None => config.loss.standing(false),
        };
        let mut state = State::default();
        // A daemon that takes this one's place may want others: the requests that the shim then makes are correct under
        // every policy, but hold memory for longer or shorter than that daemon's policy would.
        state.client.habits = scheduler.as_ref().map(Scheduler::habits).unwrap_or_default();
        state.client.declared = config.declared;
        Shim {
            runtime,
            scheduler,
            profile,
            reporter,
            program,
            state: Mutex::new(state),
            measuring: config.measure.as_ref().map(|_| Mutex::default()),
            config,
            standing: AtomicU8::new(standing as u8),
            ever_bound: AtomicBool::new(false),
            visible: OnceLock::new(),
            watched: AtomicBool::new(false),
            mapping: Mutex::default(),
            flushing: Mutex::default(),
            entering: Mutex::default(),
            host_memory: Mutex::default(),
            ring: Mutex::default(),
        }
    }

    /// Makes the error that programs understand as a refusal, also those that only read `cudaGetLastError`.
    pub(crate) fn out_of_memory(&self) -> Stop {
        self.runtime.provoke_out_of_memory();
        Stop::Cuda(CudaError::MEMORY_ALLOCATION)
    }

    /// True if calls must be searched for the addresses that they name. Costs one load.
    pub(crate) fn is_watched(&self) -> bool {
        // Relaxed: a thread that uses what it has itself allocated or declared dead has seen the store.
        self.watched.load(Ordering::Relaxed)
    }

    /// Called after a change of the dead, absent or kept memory.
    pub(crate) fn note_watched(&self, state: &State) {
        self.watched.store(state.is_watched(), Ordering::Relaxed);
    }

    /// Makes `device` the calling thread's device in the real runtime.
    pub(crate) fn enter(&self, thread: &mut Thread, device: DeviceIndex) -> CudaResult<()> {
        if thread.real_device != Some(device) {
            self.runtime.set_device(device)?;
            thread.real_device = Some(device);
            self.lock_host_memory()?;
        }
        Ok(())
    }

    /// Sends a request that must not be lost; waits a bounded time for room in the ring.
    pub(crate) fn send(&self, slot: Slot, body: &RequestBody) -> Result<u32, Stop> {
        let Some(scheduler) = &self.scheduler else { return Err(Stop::Lost) };
        let step = Duration::from_millis(10);
        let mut waited = Duration::ZERO;
        loop {
            match scheduler.send(slot, body.clone()) {
                Ok(sequence) => return Ok(sequence),
                Err(Unsent::Full) if waited < self.config.loss.unheard_max() => {
                    let cell = self.cell(slot)?;
                    scheduler.wait(slot, cell.sequence, step);
                    waited += step;
                }
                Err(Unsent::Gone) if self.reconnect() => {}
                Err(Unsent::Full | Unsent::Gone) => return Err(self.lose_daemon()),
            }
        }
    }

    /// The slot's cell, with the program's number for the device.
    pub(crate) fn cell(&self, slot: Slot) -> Result<Cell<DeviceIndex>, Stop> {
        let read = || self.scheduler.as_ref().and_then(|scheduler| scheduler.cell(slot)).map(Cell::from);
        let cell = read().or_else(|| self.reconnect().then(read).flatten());
        Ok(cell.ok_or_else(|| self.lose_daemon())?.on(|device| self.device(device)))
    }

    /// Sleeps until the slot's cell changes. `unheard` sums up how long the daemon has taken no request; past the
    /// limit it counts as lost (it may be stopped, with its socket open).
    pub(crate) fn sleep(
        &self,
        slot: Slot,
        sequence: u32,
        longest: Duration,
        unheard: &mut Duration,
    ) -> Result<(), Stop> {
        let Some(scheduler) = &self.scheduler else { return Err(Stop::Lost) };
        match scheduler.wait(slot, sequence, longest) {
            Wake::Changed => *unheard = Duration::ZERO,
            Wake::TimedOut if scheduler.heard() => *unheard = Duration::ZERO,
            Wake::TimedOut => *unheard += longest,
            Wake::Gone if self.reconnect() => *unheard = Duration::ZERO,
            Wake::Gone => return Err(self.lose_daemon()),
        }
        if *unheard > self.config.loss.unheard_max() { Err(self.lose_daemon()) } else { Ok(()) }
    }

    /// Waits until `read` finds what it looks for in the slot's cell. `read` may change the program's state.
    pub(crate) fn await_cell<T>(
        &self,
        slot: Slot,
        mut read: impl FnMut(&Cell<DeviceIndex>) -> Option<T>,
    ) -> Result<T, Stop> {
        let mut unheard = Duration::ZERO;
        let mut message: Option<WaitMessage> = None;
        loop {
            let cell = self.cell(slot)?;
            let found = read(&cell);
            match &found {
                Some(_) => message.iter_mut().for_each(WaitMessage::end),
                None if self.config.shows_waits && cell.is_waiting() => {
                    // Made here, since it asks the system for the terminal.
                    message.get_or_insert_with(WaitMessage::new).show(|| self.reason(slot, cell.reason));
                }
                None => {}
            }
            match found {
                Some(found) => return Ok(found),
                // The request could not be sent.
                None if !self.is_scheduled() => return Err(Stop::Lost),
                None => {
                    let is_awaited = self.state.lock().client.is_awaited_at_gate(slot, &cell);
                    let longest = if is_awaited { SLEEP_WHILE_AWAITED } else { SLEEP };
                    self.sleep(slot, cell.sequence, longest, &mut unheard)?;
                }
            }
        }
    }

    /// The program's number for a device.
    pub(crate) fn device(&self, device: DeviceId) -> DeviceIndex {
        let visible = self.visible.get_or_init(|| {
            let daemons = self.scheduler.as_ref().map(Scheduler::devices).unwrap_or_default();
            let count = if daemons.is_empty() { 0 } else { self.runtime.device_count().unwrap_or(0) };
            let seen: Vec<_> =
                (0..count).map(|number| self.runtime.device_uuid(DeviceIndex(number))).collect();
            Visible::new(&daemons, &seen)
        });
        visible.program_device(device.0)
    }

    /// The daemon's reason for a refusal or a wait, in words.
    pub(crate) fn reason(&self, slot: Slot, number: u32) -> String {
        let words = self.scheduler.as_ref().map(|scheduler| scheduler.reason(slot)).unwrap_or_default();
        match words.strip_prefix("refused: ").unwrap_or(&words) {
            "" => format!("reason {number}"),
            words => words.to_owned(),
        }
    }

    /// Called at every hook: applies what the daemon changed meanwhile, and reports activity to it.
    pub(crate) fn sync_with_daemon(&self, thread: &mut Thread) {
        self.observe(thread);
        self.send_activity();
    }

    /// The first half of [`Self::sync_with_daemon`]. A launch reports activity only after its kernel is counted: between two
    /// kernels it would report "idle", and so open the gate for a neighbour at the very moment in which this task
    /// starts its next kernel.
    pub(crate) fn observe(&self, thread: &mut Thread) {
        let bound: Vec<(TaskKey, u32)> = {
            let state = self.state.lock();
            if !state.captures.is_empty() {
                // During a capture, querying streams is forbidden too.
                return;
            }
            state.client.bound().map(|task| (task.key, task.terms.sequence)).collect()
        };
        for (key, sequence) in bound {
            let Ok(cell) = self.cell(key.slot) else { return };
            if cell.sequence != sequence
                && let Some(told) = cell.told()
            {
                self.adopt_terms(thread, key, told);
            }
        }
        self.poll_watched(thread);
        self.free_unfreed(thread);
        self.return_dying_memory(thread);
    }

    /// Applies new terms of a bound task. A larger grant moves more data in; a promotion moves in the rest, beside
    /// the running kernels, and switches to the high-priority stream.
    pub(crate) fn adopt_terms(&self, thread: &mut Thread, key: TaskKey, terms: Terms) {
        let news = {
            let mut state = self.state.lock();
            if !state.captures.is_empty() {
                // New terms move data and make streams, which a capture forbids; the cell still holds them after it.
                return;
            }
            state.client.adopt(key, terms, &mut self.outbox())
        };
        if !matches!(news, Some(News::Grant | News::Promotion)) || self.enter(thread, terms.device).is_err() {
            return;
        }
        self.fetch(key, &buffers::Order::default(), Occasion::Grown);
        if news == Some(News::Promotion) {
            let had_stream = self.state.lock().client.task(key).is_some_and(|task| task.own.stream.is_some());
            if had_stream {
                self.own_stream(key);
            }
        }
    }

    /// Moves data in, and makes pages, as far as the grant allows.
    pub(crate) fn fetch(&self, key: TaskKey, order: &buffers::Order<BufferId>, occasion: Occasion) {
        let spans = {
            let state = &mut *self.state.lock();
            let plan = state.client.plan_fetch(key, order, occasion);
            state.memory().spans_of(plan)
        };
        self.prefetch(key, spans, occasion);
    }

    /// Moves data of a task to its device. A failed prefetch is no error: the pages move by faults, later and slower.
    pub(crate) fn prefetch(&self, key: TaskKey, spans: Vec<Span>, occasion: Occasion) {
        if spans.is_empty() {
            return;
        }
        let stream = match occasion {
            Occasion::Grown => self.copy_stream(key),
            Occasion::Filled | Occasion::TakenOver | Occasion::Kernel => Some(self.fill_stream(key)),
        };
        let device = self.state.lock().client.task(key).map(|task| task.terms.device);
        let Some((stream, device)) = stream.zip(device) else { return };
        for span in spans {
            if let Err(error) = self.runtime.prefetch(span, device, stream) {
                let code = error.code();
                self.reporter.report_once("prefetch", || {
                    format!(
                        "cudaMemPrefetchAsync failed with error {code}: data moves by page faults instead, which is slower"
                    )
                });
            }
        }
    }

    /// The stream on which data is moved in beside running kernels. Made at first use and non-blocking, so that
    /// neither copies nor kernels of the default stream wait for it.
    fn copy_stream(&self, key: TaskKey) -> Option<StreamId> {
        if let Some(stream) = self.state.lock().client.task(key)?.own.copy_stream {
            return Some(stream);
        }
        let stream = self.runtime.stream_create(StreamFlags::NON_BLOCKING, Priority::Lowest).ok()?;
        if let Some(task) = self.state.lock().client.task_mut(key) {
            task.own.copy_stream = Some(stream);
        }
        Some(stream)
    }

    /// The task's stream for default-stream launches, with the priority that it should have now. It is a blocking
    /// stream: the legacy default stream and it wait for each other, so synchronous copies keep their meaning.
    /// `None`: no stream could be made, use the default stream.
    pub(crate) fn own_stream(&self, key: TaskKey) -> Option<StreamId> {
        let (present, high_priority) = {
            let state = self.state.lock();
            let task = state.client.task(key)?;
            (task.own.stream, task.terms.high_priority)
        };
        if let Some(stream) = present.filter(|stream| stream.high_priority == high_priority) {
            return Some(stream.id);
        }
        let priority = if high_priority { Priority::Highest } else { Priority::Lowest };
        let id = match self.runtime.stream_create(StreamFlags::BLOCKING, priority) {
            Ok(id) => id,
            Err(_) => return present.map(|stream| stream.id),
        };
        if let Some(old) = present {
            self.order(old.id, id);
        }
        let mut state = self.state.lock();
        let unchanged = state.client.task(key)?.own.stream == present;
        if !unchanged {
            // Another thread has made a stream meanwhile, and its kernels are on that one.
            let winner = state.client.task(key)?.own.stream.map(|stream| stream.id);
            drop(state);
            let _ = self.runtime.stream_destroy(id);
            return winner;
        }
        if let Some(old) = present.filter(|old| state.last_default == Some(old.id)) {
            debug_assert_ne!(old.id, id);
            state.last_default = Some(id);
        }
        let task = state.client.task_mut(key)?;
        task.own.old_streams.extend(present.map(|stream| stream.id));
        task.own.stream = Some(OwnStream { id, high_priority });
        Some(id)
    }

    /// Makes later work on `later` wait for all work now on `earlier`, by an event, or by waiting if no event can be
    /// made.
    pub(crate) fn order(&self, earlier: StreamId, later: StreamId) {
        if self.runtime.order_streams(earlier, later).is_err() {
            let _ = self.runtime.stream_synchronize(earlier);
        }
    }

    /// Records that kernels up to these marks have ended.
    pub(crate) fn retire(&self, marks: &[Mark]) {
        let Some(scheduler) = &self.scheduler else { return };
        let mut state = self.state.lock();
        for mark in marks {
            let newly = state
                .client
                .task_mut(mark.key)
                .map_or(0, |task| task.own.in_flight.retire(mark.lane, mark.launch));
            if newly > 0 {
                scheduler.add_retired(mark.key.slot, newly);
            }
        }
    }

    /// Queries whether the kernels of watched tasks have ended. A device that idles *between* two hooks is not seen,
    /// since the shim has no thread that could look.
    fn poll_watched(&self, thread: &mut Thread) {
        let watched: Vec<Mark> = {
            let state = self.state.lock();
            let is_watched = |mark: &Mark| state.client.task(mark.key).is_some_and(|task| task.terms.watched);
            state.marks().into_iter().filter(is_watched).collect()
        };
        let number = thread.number;
        let ended: Vec<Mark> = watched
            .into_iter()
            .filter(|mark| mark.lane.is_seen_by(number))
            .filter(|mark| {
                self.enter(thread, mark.device).is_ok()
                    && self.runtime.stream_query(mark.lane.stream) == Ok(true)
            })
            .collect();
        self.retire(&ended);
    }

    /// Tells the daemon of watched tasks that became busy or idle.
    ///
    /// Sends under the lock, so that the last message is the current state: one thread's "idle" must not follow
    /// another's "busy". A hint that cannot be sent is repeated the next time; nothing here waits for a daemon that
    /// is gone.
    pub(crate) fn send_activity(&self) {
        let Some(scheduler) = &self.scheduler else { return };
        let send = |slot, request| scheduler.send(slot, body(request, 0, "")).is_ok();
        self.state.lock().client.tell_activity(|work| work.in_flight.busy(), send);
    }

    /// Makes a change by which the daemon may hold less, or a task may end.
    pub(crate) fn give_back<O: IntoIterator<Item = Box<Task>>>(
        &self,
        change: impl FnOnce(&mut Client<DeviceIndex, Work>) -> O,
    ) {
        let streams = {
            let state = &mut *self.state.lock();
            let over = change(&mut state.client);
            self.dispose(state, over)
        };
        self.destroy(streams);
    }

    /// Sends shrinks and ends, which need no names. Used under the state's lock, so that the daemon gets the messages
    /// in the order of the decisions.
    pub(crate) fn outbox(&self) -> impl Outbox {
        self.outbox_about("")
    }

    /// The same for requests about this kernel.
    pub(crate) fn outbox_about<'a>(&'a self, kernel: &'a str) -> impl Outbox + 'a {
        move |slot: Slot, request: Request| self.send(slot, &body(request, 0, kernel)).unwrap_or(0)
    }

    /// The same for requests that may begin a task. `kernel`: the lazy task's first.
    pub(crate) fn asking<'a>(&'a self, program: &'a Program, kernel: &'a str) -> impl Outbox + 'a {
        move |slot: Slot, request: Request| {
            let function = match request {
                Request::Begin(Begin { site: 0, .. }) => kernel,
                Request::Begin(Begin { site, .. }) => program.function(site),
                _ => "",
            };
            self.send(slot, &body(request, program.with_variables(0), function)).unwrap_or(0)
        }
    }

    /// Takes what the shim kept with tasks that are over; returns streams to destroy once the state is unlocked.
    pub(crate) fn dispose(
        &self,
        state: &mut State,
        over: impl IntoIterator<Item = Box<Task>>,
    ) -> Vec<StreamId> {
        let mut streams = Vec::new();
        for task in over {
            // A slot's counters pass to its next task, so kernels that can no longer be retired are removed from them.
            if let Some(scheduler) = &self.scheduler {
                scheduler.add_retired(task.key.slot, task.own.in_flight.count());
            }
            if task.own.stream.is_some_and(|stream| state.last_default == Some(stream.id)) {
                state.last_default = None;
            }
            streams.extend(task.own.into_streams());
        }
        streams
    }

    /// Destroys streams of the shim's own; CUDA lets the work on them finish.
    pub(crate) fn destroy(&self, streams: Vec<StreamId>) {
        for stream in streams {
            let _ = self.runtime.stream_destroy(stream);
        }
    }
}

/// A request on the wire. `more`: bytes that a task's first request includes beside its own. `name`: of the function or
/// the kernel that it is about.
fn body(request: Request, more: u64, name: &str) -> RequestBody {
    match request {
        Request::Begin(Begin { site, bytes, geometry, flags }) => RequestBody::TaskBegin {
            requirement: bytes.saturating_add(more),
            site,
            blocks: geometry.blocks,
            threads_per_block: geometry.threads_per_block,
            flags,
            function: name.to_owned(),
        },
        Request::Extend(bytes) => RequestBody::TaskExtend { bytes },
        Request::Shrink(bytes) => RequestBody::TaskShrink { bytes },
        Request::AllLaunched => RequestBody::AllLaunched,
        Request::End => RequestBody::TaskEnd,
        Request::Held(Kernel { footprint, static_size, access }) => {
            RequestBody::KernelHeld { footprint, static_size, access, kernel: name.to_owned() }
        }
        Request::Busy => RequestBody::Busy,
        Request::Idle => RequestBody::Idle,
        Request::Promoted => RequestBody::Promoted,
    }
}
