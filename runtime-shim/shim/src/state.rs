//! The shim's knowledge of its process, under one lock: tasks, allocations, the program's streams.
//!
//! Traps: the lock must not be held over a call to CUDA or a wait for the daemon's answer. A decision is made under
//! it and carried out without it; a key ([`TaskKey`]) that became stale meanwhile finds no task. Only shrinks, ends,
//! busy and idle are *sent* under it (sending waits only while the ring is full), because their order matters. The
//! pass's tables ([`crate::shim::Shim::program`]) must be locked *before* the state: a module that registers waits
//! for the readers, and new readers wait behind it, so that the other order deadlocks.

use crate::account::{Announced, FrameId};
use crate::address_map::Memory;
use crate::beliefs::Beliefs;
use crate::dying::DyingList;
use crate::ledger::Origin;
use crate::runtime::{Copy, DeviceIndex, HostCopy, Setting, Span, StreamFlags, StreamId};
use crate::task::{Kind, Lane, Phase, Task, TaskKey};
use eager_proto::TASK_SLOTS;
use eager_proto::request::Slot;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

/// A site that a thread has begun and not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenSite {
    pub site: u64,
    pub key: TaskKey,
    /// The frame whose promise the site's allocations take from.
    pub frame: FrameId,
    /// Announced with the site around it: the frame is the outer site's, and the end of this site changes nothing.
    pub covered: bool,
}

/// State that the shim keeps for each thread, since CUDA's current device is per thread.
#[derive(Debug)]
pub struct Thread {
    /// Never reused.
    pub number: u64,
    /// Open sites, innermost last. An entry whose task or frame is gone (ended by another thread, or with an outer
    /// one) is stale.
    pub open: Vec<OpenSite>,
    /// The lazy task, if this thread has used it.
    pub lazy: Option<TaskKey>,
    /// The device that the program set with `cudaSetDevice` and that `cudaGetDevice` returns.
    pub program_device: i32,
    /// The device that the shim last set in the real runtime.
    pub real_device: Option<DeviceIndex>,
}

impl Default for Thread {
    fn default() -> Thread {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        Thread {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            open: Vec::new(),
            lazy: None,
            program_device: 0,
            real_device: None,
        }
    }
}

impl Thread {
    /// Opens a site that is not part of the site around it.
    pub fn open_own(&mut self, site: u64, key: TaskKey, frame: Option<FrameId>) {
        self.open.extend(frame.map(|frame| OpenSite { site, key, frame, covered: false }));
    }
}

/// A stream that the program made.
#[derive(Debug, Clone, Copy)]
pub struct ProgramStream {
    pub flags: StreamFlags,
    pub device: DeviceIndex,
    /// The device that the program had set, in its own numbers.
    pub set_device: i32,
}

/// Stands for all kernels of a stream up to one launch.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    pub key: TaskKey,
    pub device: DeviceIndex,
    pub lane: Lane,
    pub launch: u64,
}

#[derive(Debug, Default)]
pub struct State {
    tasks: [Option<Task>; TASK_SLOTS],
    /// Sequence of the end request that must be answered before the slot is used again.
    ended: [Option<u32>; TASK_SLOTS],
    generations: u64,
    pub memory: Memory,
    pub streams: BTreeMap<StreamId, ProgramStream>,
    /// The program has streams, events or constants on the lazy task's device.
    pub pinned: bool,
    /// The device that the program was given last, on which it may have a context with or without a task there.
    pub foothold: Option<DeviceIndex>,
    /// Asynchronous work may be running: a host write to managed memory must wait for it.
    pub unsynchronized: bool,
    /// Stream of the last default-stream launch.
    pub last_default: Option<StreamId>,
    /// Streams whose capture has begun and not ended. While there are any, the shim makes no calls that a capture
    /// forbids, and changes nothing in what is recorded.
    pub captures: BTreeSet<StreamId>,
    /// Stubs of kernels by their `cudaKernel_t`.
    pub kernel_handles: BTreeMap<usize, usize>,
    /// Settings that the program made on its device, to be applied to the devices that its tasks get.
    pub settings: Vec<Setting>,
    /// Dead allocations whose memory is freed when the device has finished earlier work.
    pub dying: DyingList,
    /// Copies to the device that wait for their task's memory, in the program's order.
    pub staged: Vec<Staged>,
    /// Managed memory that the program freed in stream order.
    pub unfreed: Vec<Unfreed>,
    /// Beliefs about the buffers of lazy tasks; `None`: nothing is learnt.
    pub beliefs: Option<Beliefs>,
    /// The device of the program that used device variables of this real device first.
    variables: BTreeMap<DeviceIndex, i32>,
}

/// A copy whose data is kept until its task has memory.
#[derive(Debug)]
pub struct Staged {
    pub owner: TaskKey,
    /// The copy, with the kept data as its source.
    pub copy: Copy,
    pub data: HostCopy,
}

/// Managed memory to be freed when these streams have finished their present work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfreed {
    pub address: u64,
    pub origin: Origin,
    pub device: DeviceIndex,
    pub streams: Vec<StreamId>,
}

/// The task around a site that begins, as far as the thread has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Around {
    Nothing,
    /// An open site's task, or the bound lazy task with memory.
    Task(TaskKey),
    /// The bound lazy task without memory, on whose device the program has streams, events or constants.
    Handles(TaskKey),
}

/// Reason why there is no slot for a static task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSlot {
    /// The end of this slot's last task is not answered yet.
    Unanswered(Slot, u32),
    /// All slots are in use.
    Full,
}

impl State {
    /// The slot reserved for the lazy task, so that static tasks cannot use up all slots.
    pub fn lazy_slot() -> Slot {
        Slot::all().last().unwrap_or_else(|| unreachable!("a client has task slots"))
    }

    pub fn task(&self, key: TaskKey) -> Option<&Task> {
        self.tasks[key.slot.index()].as_ref().filter(|task| task.key == key)
    }

    pub fn task_mut(&mut self, key: TaskKey) -> Option<&mut Task> {
        self.tasks[key.slot.index()].as_mut().filter(|task| task.key == key)
    }

    pub fn tasks(&self) -> impl Iterator<Item = &Task> + '_ {
        self.tasks.iter().flatten()
    }

    pub fn tasks_mut(&mut self) -> impl Iterator<Item = &mut Task> + '_ {
        self.tasks.iter_mut().flatten()
    }

    pub fn bound(&self) -> impl Iterator<Item = &Task> + '_ {
        self.tasks().filter(|task| task.phase == Phase::Bound)
    }

    fn add_task(&mut self, slot: Slot, announced: Option<Announced>) -> TaskKey {
        self.generations += 1;
        let key = TaskKey { slot, generation: self.generations };
        self.tasks[slot.index()] = Some(Task::new(key, announced));
        key
    }

    /// The lazy task, which is created if there is none.
    pub fn lazy(&mut self) -> TaskKey {
        let slot = Self::lazy_slot();
        match &self.tasks[slot.index()] {
            Some(task) => task.key,
            None => self.add_task(slot, None),
        }
    }

    /// Adds a static task. `answered` returns whether the daemon has answered a slot's request.
    pub fn add_static(
        &mut self,
        announced: Announced,
        answered: impl Fn(Slot, u32) -> bool,
    ) -> Result<TaskKey, NoSlot> {
        let mut failure = NoSlot::Full;
        for slot in Slot::all().filter(|&slot| slot != Self::lazy_slot()) {
            if self.tasks[slot.index()].is_some() {
                continue;
            }
            match self.ended[slot.index()] {
                Some(end) if !answered(slot, end) => failure = NoSlot::Unanswered(slot, end),
                _ => {
                    self.ended[slot.index()] = None;
                    return Ok(self.add_task(slot, Some(announced)));
                }
            }
        }
        Err(failure)
    }

    /// Takes the sequence of the end that must be answered before anything is requested in this slot.
    pub fn take_ended(&mut self, slot: Slot) -> Option<u32> {
        self.ended[slot.index()].take()
    }

    /// Removes a task. Its slot can be reused when its end is answered ([`Self::set_ended`]).
    pub fn remove_task(&mut self, key: TaskKey) -> Option<Task> {
        self.task(key)?;
        let task = self.tasks[key.slot.index()].take()?;
        if task.stream.is_some_and(|stream| self.last_default == Some(stream.id)) {
            self.last_default = None;
        }
        Some(task)
    }

    pub fn set_ended(&mut self, slot: Slot, sequence: u32) {
        self.ended[slot.index()] = Some(sequence);
    }

    /// The task that an allocation by this thread belongs to, and the frame that it takes from.
    pub fn owner_of_new(&mut self, thread: &Thread) -> (TaskKey, Option<FrameId>) {
        self.innermost(thread).map_or_else(|| (self.lazy(), None), |open| (open.key, Some(open.frame)))
    }

    /// The device of the task that this thread's next call belongs to, if the task is bound.
    pub fn own_device(&self, thread: &Thread) -> Option<DeviceIndex> {
        let own = self.innermost_task(thread);
        let lazy = || self.tasks[Self::lazy_slot().index()].as_ref();
        own.or_else(lazy).filter(|task| task.phase == Phase::Bound).map(|task| task.terms.device)
    }

    /// Forgets all objects on the devices, after a reset.
    pub fn forget(&mut self) {
        self.memory.clear();
        self.streams.clear();
        self.captures.clear();
        self.settings.clear();
        self.unfreed.clear();
        self.dying.clear();
        self.staged.clear();
        if let Some(beliefs) = &mut self.beliefs {
            beliefs.all_freed();
        }
        self.pinned = false;
        self.last_default = None;
    }

    /// Notes that the program uses device variables of `real` as those of its device `own`. Returns another device of
    /// the program that used the same ones before.
    pub fn use_variables(&mut self, own: i32, real: DeviceIndex) -> Option<i32> {
        let first = *self.variables.entry(real).or_insert(own);
        (first != own).then_some(first)
    }

    /// Stores a setting of the program, replacing an earlier one of the same kind.
    pub fn remember(&mut self, setting: Setting) {
        let kind = |setting: &Setting| match *setting {
            Setting::Function { stub, attribute, .. } => (0, stub, attribute),
            Setting::FunctionCache { stub, .. } => (1, stub, 0),
            Setting::Limit { limit, .. } => (2, 0, limit),
            Setting::Cache { .. } => (3, 0, 0),
        };
        self.settings.retain(|old| kind(old) != kind(&setting));
        self.settings.push(setting);
    }

    /// The thread's innermost open site.
    pub fn innermost<'a>(&self, thread: &'a Thread) -> Option<&'a OpenSite> {
        thread.open.iter().rev().find(|open| self.is_open(open))
    }

    /// The task of the thread's innermost open site.
    fn innermost_task(&self, thread: &Thread) -> Option<&Task> {
        let open = |open: &OpenSite| self.task(open.key).filter(|task| task.account.has(open.frame));
        thread.open.iter().rev().find_map(open)
    }

    pub fn is_open(&self, open: &OpenSite) -> bool {
        self.task(open.key).is_some_and(|task| task.account.has(open.frame))
    }

    /// True if the task has no device because it has not used one yet.
    pub fn is_deferred(&self, key: TaskKey) -> bool {
        self.task(key).is_some_and(|task| task.phase.is_deferred())
    }

    /// True if calls must be searched for the addresses that they name.
    pub fn is_watched(&self) -> bool {
        let learns = self.beliefs.as_ref().is_some_and(Beliefs::is_watching);
        self.memory.ledger.is_watched() || !self.staged.is_empty() || learns
    }

    /// Drops the copies kept for an allocation whose contents will not be read.
    pub fn unstage(&mut self, span: Span) {
        self.staged.retain(|staged| !span.holds(Span { start: staged.copy.dst, bytes: 1 }));
    }

    /// Bytes of host memory that kept copies take.
    pub fn staged_bytes(&self) -> u64 {
        self.staged.iter().map(|staged| staged.data.bytes()).sum()
    }

    /// True if the daemon does not know this task yet.
    pub fn is_unbound(&self, key: TaskKey) -> bool {
        self.task(key).is_some_and(|task| task.phase == Phase::Unbound)
    }

    /// The task around a site that begins in this thread.
    ///
    /// A site that begins while the thread uses lazy *memory* is part of the lazy task: their kernels may share the
    /// memory, and a site that waited for its own would wait while holding some. With lazy *handles* only, nothing is
    /// held: the site may wait, but must get the device that the handles are on. A refused site has nothing until it
    /// allocates.
    pub fn around(&self, thread: &Thread) -> Around {
        if let Some(open) = self.innermost(thread) {
            return if self.is_unbound(open.key) { Around::Nothing } else { Around::Task(open.key) };
        }
        let lazy = thread.lazy.and_then(|key| self.task(key)).filter(|task| task.phase == Phase::Bound);
        match lazy {
            Some(lazy) if lazy.account.live() > 0 => Around::Task(lazy.key),
            Some(lazy) if self.pinned => Around::Handles(lazy.key),
            _ => Around::Nothing,
        }
    }

    /// The sites with which the thread's innermost frame was announced, innermost first: the frame's own site, and
    /// covered sites begun in it.
    pub fn announced_by<'a>(&self, thread: &'a Thread) -> impl Iterator<Item = u64> + 'a {
        let frame = self.innermost(thread).map(|open| (open.key, open.frame));
        let same = move |open: &&OpenSite| Some((open.key, open.frame)) == frame;
        thread.open.iter().rev().filter(same).map(|open| open.site)
    }

    /// The open entry of the site that ends now; the thread's own before another thread's.
    pub fn open_at(&self, thread: &Thread, site: u64) -> Option<OpenSite> {
        let own = thread.open.iter().rev().find(|open| open.site == site && self.is_open(open));
        let other = || {
            let found = |task: &Task| Some((task.key, task.account.frame_of(site)?));
            self.tasks().find_map(found).map(|(key, frame)| OpenSite { site, key, frame, covered: false })
        };
        own.copied().or_else(other)
    }

    /// Notes whether the task has managed memory whose pages the next kernel would have to make.
    pub fn note_pages(&mut self, key: TaskKey) {
        let Some(grant) = self.task(key).map(|task| task.terms.grant.0) else { return };
        let lacks_pages = self.memory.ledger.lacks_pages(key, grant);
        if let Some(task) = self.task_mut(key) {
            task.lacks_pages = lacks_pages;
        }
    }

    /// True if the program has streams that the legacy default stream waits for. Default-stream launches then stay
    /// there, since they would lose that order on a stream of the shim's.
    pub fn has_blocking_streams(&self) -> bool {
        self.streams.values().any(|stream| stream.flags.is_blocking())
    }

    /// Task and stream of a launch that needs no decision: its task is clear without reading the arguments, bound and
    /// ungated, the daemon has changed nothing and watches no task (`sequence` returns the current sequence of a
    /// slot's cell), and the stream exists. `None`: the launch needs the full path.
    pub fn settled_launch(
        &self,
        thread: &Thread,
        asked: StreamId,
        sequence: impl Fn(Slot) -> u32,
    ) -> Option<(TaskKey, StreamId)> {
        if !self.captures.is_empty() {
            return None;
        }
        let mut only_lazy = true;
        for task in self.tasks() {
            let settled = match task.phase {
                Phase::Bound => {
                    task.terms.sequence == sequence(task.key.slot) && !task.terms.watched && !task.lacks_pages
                }
                Phase::Unbound | Phase::Deferred | Phase::Queued(_) => task.account.live() == 0,
                Phase::Asking | Phase::Refused => true,
            };
            if !settled {
                return None;
            }
            only_lazy &= task.phase != Phase::Bound || task.kind == Kind::Lazy;
        }
        let own = self.innermost_task(thread);
        let lazy = || self.tasks[Self::lazy_slot().index()].as_ref().filter(|_| only_lazy);
        let task = own.or_else(lazy).filter(|task| task.phase == Phase::Bound && !task.terms.gated)?;
        let stream = self.settled_stream(task, asked)?;
        (thread.real_device == Some(task.terms.device)).then_some((task.key, stream))
    }

    fn settled_stream(&self, task: &Task, asked: StreamId) -> Option<StreamId> {
        if !asked.is_legacy() {
            let here = self.streams.get(&asked).is_none_or(|stream| stream.device == task.terms.device);
            return here.then_some(asked);
        }
        if self.has_blocking_streams() {
            return Some(asked);
        }
        let own = task.stream.filter(|own| own.high_priority == task.terms.high_priority)?;
        (self.last_default == Some(own.id)).then_some(own.id)
    }

    /// Marks for the kernels in flight of all tasks.
    pub fn marks(&self) -> Vec<Mark> {
        let of_task = |task: &Task| {
            let (key, device) = (task.key, task.terms.device);
            let marks = task.in_flight.marks().into_iter();
            marks.map(move |(lane, launch)| Mark { key, device, lane, launch }).collect::<Vec<_>>()
        };
        self.tasks().flat_map(of_task).collect()
    }

    /// True if a blocking call on the legacy default stream of `device` waits for the stream of `mark`.
    pub fn legacy_waits_for(&self, mark: &Mark, device: DeviceIndex) -> bool {
        let blocking = self.streams.get(&mark.lane.stream).is_none_or(|stream| stream.flags.is_blocking());
        mark.device == device && blocking
    }
}
