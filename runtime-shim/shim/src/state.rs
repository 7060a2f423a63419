//! The shim's knowledge of its process, under one lock: tasks, allocations, the program's streams.
//!
//! Traps: the lock must not be held over a call to CUDA or a wait for the daemon's answer. A decision is made under
//! it and carried out without it; a key ([`TaskKey`]) that became stale meanwhile finds no task. Begins, shrinks, ends,
//! busy and idle are *sent* under it (sending waits only while the ring is full), because their order matters. The
//! pass's tables ([`crate::shim::Shim::program`]) must be locked *before* the state: a module that registers waits
//! for the readers, and new readers wait behind it, so that the other order deadlocks.

use crate::address_map::AddressMap;
use crate::beliefs::Beliefs;
use crate::dying::DyingList;
use crate::ledger::Origin;
use crate::runtime::{Copy, DeviceIndex, HostCopy, Setting, StreamFlags, StreamId};
use crate::task::{Kind, Lane, Phase, Task, TaskKey, Work};
use eager_client::sites::Sites;
use eager_client::task::Slot;
use eager_client::{Client, KeptCopies};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

/// State that the shim keeps for each thread, since CUDA's current device is per thread.
#[derive(Debug)]
pub struct Thread {
    /// Never reused.
    pub number: u64,
    pub sites: Sites,
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
            sites: Sites::default(),
            program_device: 0,
            real_device: None,
        }
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
    pub client: Client<DeviceIndex, Work>,
    pub(crate) addresses: AddressMap,
    pub streams: BTreeMap<StreamId, ProgramStream>,
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
    /// Copies to the device that wait for their task's memory, with the kept data as their source.
    pub kept: KeptCopies<(Copy, HostCopy)>,
    /// Managed memory that the program freed in stream order.
    pub unfreed: Vec<Unfreed>,
    /// Beliefs about the buffers of lazy tasks; `None`: nothing is learnt.
    pub beliefs: Option<Beliefs>,
    /// The device of the program that used device variables of this real device first.
    variables: BTreeMap<DeviceIndex, i32>,
}

/// Managed memory to be freed when these streams have finished their present work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfreed {
    pub address: u64,
    pub origin: Origin,
    pub device: DeviceIndex,
    pub streams: Vec<StreamId>,
}

impl State {
    /// The device of the task that this thread's next call belongs to, if the task is bound.
    pub fn own_device(&self, thread: &Thread) -> Option<DeviceIndex> {
        self.client.bound_of(&thread.sites).map(|task| task.terms.device)
    }

    /// Forgets all objects on the devices, after a reset.
    pub fn forget(&mut self) {
        self.client.ledger.clear();
        self.addresses = AddressMap::default();
        self.streams.clear();
        self.captures.clear();
        self.settings.clear();
        self.unfreed.clear();
        self.dying.clear();
        self.kept = KeptCopies::default();
        if let Some(beliefs) = &mut self.beliefs {
            beliefs.all_freed();
        }
        self.client.pinned = false;
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

    /// True if calls must be searched for the addresses that they name.
    pub fn is_watched(&self) -> bool {
        let learns = self.beliefs.as_ref().is_some_and(Beliefs::is_watching);
        self.client.ledger.is_watched() || !self.kept.is_empty() || learns
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
        for task in self.client.tasks() {
            let settled = match task.phase {
                Phase::Bound => {
                    task.terms.sequence == sequence(task.key.slot) && !task.terms.watched && !task.lacks_pages
                }
                Phase::Unbound | Phase::Deferred | Phase::Asked(_) => task.account.live() == 0,
                Phase::Refused(_) => true,
            };
            if !settled {
                return None;
            }
            only_lazy &= !task.is_bound() || task.kind == Kind::Lazy;
        }
        let own = self.client.innermost_task(&thread.sites);
        let lazy = || self.client.lazy_task().filter(|_| only_lazy);
        let task = own.or_else(lazy).filter(|task| task.is_bound() && !task.terms.gated)?;
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
        let own = task.own.stream.filter(|own| own.high_priority == task.terms.high_priority)?;
        (self.last_default == Some(own.id)).then_some(own.id)
    }

    /// Marks for the kernels in flight of all tasks.
    pub fn marks(&self) -> Vec<Mark> {
        let of_task = |task: &Task| {
            let (key, device) = (task.key, task.terms.device);
            let marks = task.own.in_flight.marks().into_iter();
            marks.map(move |(lane, launch)| Mark { key, device, lane, launch }).collect::<Vec<_>>()
        };
        self.client.tasks().flat_map(of_task).collect()
    }

    /// True if a blocking call on the legacy default stream of `device` waits for the stream of `mark`.
    pub fn legacy_waits_for(&self, mark: &Mark, device: DeviceIndex) -> bool {
        let blocking = self.streams.get(&mark.lane.stream).is_none_or(|stream| stream.flags.is_blocking());
        mark.device == device && blocking
    }
}
