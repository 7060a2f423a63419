//! The tasks of a program: when each is asked for, what its answer means, and when it ends.
//!
//! A task is *begun* by a site or by the first use of memory outside sites, *asked for* at once or at its first use of
//! a device, *decided on* by the daemon, and *ended* when its last site has ended and its last buffer is freed. The
//! user holds one lock over a [`Client`] and sends what the client hands to its [`Outbox`] under that lock; it waits
//! without the lock, for a slot's cell to change, and then asks again. Nothing is claimed by a thread that waits, so a
//! thread that never returns from its wait leaves nothing behind.
//!
//! Trap: read the cell *before* taking the lock. If the client still waits then, the decision changes the cell once
//! more, so that no wake is lost.

use crate::account::{Account, Announced, FrameId};
use crate::cell::Told;
use crate::ledger::Ledger;
use crate::request::{Outbox, Request};
use crate::sites::{OpenSite, Sites};
use crate::task::{Declared, Due, Kind, Phase, Slot, Task, TaskKey, lazy_slot};
use eager_proto::TASK_SLOTS;
use eager_units::Habits;

/// Stands for the site of a task that no site announced.
const NO_SITE: u64 = 0;

mod asked;
mod begin;
mod copies;
mod fetch;
mod gate;
mod memory;

pub use asked::{Extended, Extension};
pub use copies::{Direction, FILL_PIECE_BYTES, KeptCopies, KeptCopy, Pieces, Route};
pub use fetch::{News, Occasion};
pub use gate::AtGate;
pub use memory::{Allocating, Coming, Counted, Dead, Wanted};

/// What a thread that needs a task does next.
#[derive(Debug)]
pub enum Step<D, W> {
    /// The task is bound.
    Ready,
    /// The task is refused: the call fails as out of memory.
    Refused,
    /// The task has ended.
    Gone,
    /// The task is not asked for.
    Unasked,
    /// Wait for the decision on this task, which is asked for now if it has not been, and ask again.
    First(TaskKey),
    /// Wait until the slot's cell is no longer the one that was read, and ask again.
    Wait,
    /// This thread is the first to see the daemon's decision: carry out what it means, and ask again.
    Decided(Decided<D>, Over<D, W>),
}

/// A decision of the daemon that has just been entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided<D> {
    Bound(Told<D>),
    /// Bound to another device than the one that the program's handles are on. [`Client::open`] ends the task.
    Apart,
    /// A task of this kind, which asked for these bytes.
    Refused {
        kind: Kind,
        site: u64,
        bytes: u64,
    },
    /// A task that begins is larger than every device. [`Client::open`] opens its site in the lazy task.
    TooLarge {
        site: u64,
        bytes: u64,
    },
    /// An allocation of these bytes.
    RefusedAllocation {
        bytes: u64,
    },
    /// The program may have a context on [`Client::foothold`].
    Foothold,
}

/// The task that a change ended, if it did. The user disposes of what it kept with it.
pub type Over<D, W> = Option<Box<Task<D, W>>>;

/// A request for an allocation, which its thread follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocationAsked {
    pub counted: Counted,
    sequence: u32,
}

#[derive(Debug)]
pub struct Client<D, W> {
    pub habits: Habits,
    /// Set before the first task. All that the program does is then one task of this size, and sites mean nothing.
    pub declared: Option<Declared>,
    /// Its allocations.
    pub ledger: Ledger,
    tasks: [Option<Task<D, W>>; TASK_SLOTS],
    /// Sequence of the end that must be answered before the slot is used again.
    ended: [Option<u32>; TASK_SLOTS],
    generations: u64,
    /// The program has streams, events or constants on the lazy task's device.
    pub pinned: bool,
    /// The device that the program was given last, on which it may have a context with or without a task there.
    pub foothold: Option<D>,
}

impl<D, W> Default for Client<D, W> {
    fn default() -> Client<D, W> {
        Client {
            habits: Habits::PLAIN,
            declared: None,
            ledger: Ledger::default(),
            tasks: [const { None }; TASK_SLOTS],
            ended: [None; TASK_SLOTS],
            generations: 0,
            pinned: false,
            foothold: None,
        }
    }
}

/// Tasks, and which task a call belongs to.
impl<D: Default + Copy + PartialEq, W: Default> Client<D, W> {
    pub fn task(&self, key: TaskKey) -> Option<&Task<D, W>> {
        self.tasks[key.slot.index()].as_ref().filter(|task| task.key == key)
    }

    pub fn task_mut(&mut self, key: TaskKey) -> Option<&mut Task<D, W>> {
        self.tasks[key.slot.index()].as_mut().filter(|task| task.key == key)
    }

    pub fn tasks(&self) -> impl Iterator<Item = &Task<D, W>> + '_ {
        self.tasks.iter().flatten()
    }

    pub fn tasks_mut(&mut self) -> impl Iterator<Item = &mut Task<D, W>> + '_ {
        self.tasks.iter_mut().flatten()
    }

    pub fn bound(&self) -> impl Iterator<Item = &Task<D, W>> + '_ {
        self.tasks().filter(|task| task.is_bound())
    }

    /// The lazy task, or the declared one, which is created if there is none.
    pub fn lazy(&mut self) -> TaskKey {
        let slot = lazy_slot();
        match (&self.tasks[slot.index()], self.declared) {
            (Some(task), _) => task.key,
            (None, None) => self.add(slot, Kind::Lazy),
            (None, Some(declared)) => self.add_declared(slot, declared),
        }
    }

    /// The task of a program whose size is declared (specification S-226).
    fn add_declared(&mut self, slot: Slot, declared: Declared) -> TaskKey {
        let key = self.add(slot, Kind::Declared);
        if let Some(task) = self.task_mut(key) {
            // Kept open, so that the task has its memory until the program ends.
            task.account.open(Announced { site: NO_SITE, bytes: declared.bytes, reuses: true });
        }
        key
    }

    fn add(&mut self, slot: Slot, kind: Kind) -> TaskKey {
        self.generations += 1;
        let key = TaskKey { slot, generation: self.generations };
        self.tasks[slot.index()] = Some(Task::new(key, kind));
        key
    }

    /// The task of a site that is still open.
    fn task_of_open(&self, open: &OpenSite) -> Option<&Task<D, W>> {
        self.task(open.key).filter(|task| task.account.has(open.frame))
    }

    pub fn is_open(&self, open: &OpenSite) -> bool {
        self.task_of_open(open).is_some()
    }

    /// The thread's innermost open site.
    pub fn innermost<'a>(&self, sites: &'a Sites) -> Option<&'a OpenSite> {
        sites.open.iter().rev().find(|open| self.is_open(open))
    }

    /// The task of the thread's innermost open site.
    pub fn innermost_task(&self, sites: &Sites) -> Option<&Task<D, W>> {
        sites.open.iter().rev().find_map(|open| self.task_of_open(open))
    }

    /// The lazy task, or the declared one, if there is one.
    pub fn lazy_task(&self) -> Option<&Task<D, W>> {
        self.tasks[lazy_slot().index()].as_ref()
    }

    /// The task of the thread's innermost open site, or else the lazy or declared task, if it is bound.
    pub fn bound_of(&self, sites: &Sites) -> Option<&Task<D, W>> {
        self.innermost_task(sites).or(self.lazy_task()).filter(|task| task.is_bound())
    }

    /// The task that an allocation by this thread belongs to, and the frame that it takes from.
    pub fn owner_of_new(&mut self, sites: &Sites) -> (TaskKey, Option<FrameId>) {
        if let Some(open) = self.innermost(sites) {
            return (open.key, Some(open.frame));
        }
        let key = self.lazy();
        // Of these two, only the declared task has a promise to take from.
        let declared = self.task(key).filter(|task| task.kind == Kind::Declared);
        (key, declared.and_then(|task| task.account.frame_of(NO_SITE)))
    }

    /// The task that a call of this thread needs before it may use a device, though it has not been asked for.
    pub fn deferred_of(&mut self, sites: &Sites) -> Option<TaskKey> {
        let declared = self.declared.map(|_| self.lazy());
        let own = self.innermost(sites).map(|open| open.key).or(declared);
        own.filter(|&key| self.is_deferred(key))
    }

    /// Bytes that a bound task of a declared size may still allocate without asking for more.
    pub fn left_of_declared(&self) -> Option<u64> {
        let task = self.lazy_task().filter(|task| task.kind == Kind::Declared && task.is_bound())?;
        Some(task.account.reserved().saturating_sub(task.account.live()))
    }

    /// True if the task has no device because it has not used one yet.
    pub fn is_deferred(&self, key: TaskKey) -> bool {
        self.task(key).is_some_and(Task::is_deferred)
    }

    /// The task to decide on before the lazy task is asked for: one without a device whose thread has used the lazy task.
    /// Otherwise that thread would wait for a device while it holds the lazy task's memory.
    fn before_lazy(&self, lazy: TaskKey) -> Option<TaskKey> {
        self.tasks().find(|task| task.lazy_used == Some(lazy) && task.is_deferred()).map(|task| task.key)
    }

    /// True if the daemon does not know this task, whose memory may go to another task.
    pub fn is_unbound(&self, key: TaskKey) -> bool {
        self.task(key).is_some_and(|task| task.phase == Phase::Unbound)
    }

    /// The sites with which the thread's innermost frame was announced, innermost first: the frame's own site, and
    /// covered sites begun in it.
    fn announced_by<'a>(&self, sites: &'a Sites) -> impl Iterator<Item = u64> + 'a {
        let frame = self.innermost(sites).map(|open| (open.key, open.frame));
        let same = move |open: &&OpenSite| Some((open.key, open.frame)) == frame;
        sites.open.iter().rev().filter(same).map(|open| open.site)
    }

    /// The open entry of the site that ends now; the thread's own before another thread's.
    fn open_at(&self, sites: &Sites, site: u64) -> Option<OpenSite> {
        let own = sites.open.iter().rev().find(|open| open.site == site && self.is_open(open));
        let other = || {
            let found = |task: &Task<D, W>| Some((task.key, task.account.frame_of(site)?));
            self.tasks().find_map(found).map(|(key, frame)| OpenSite { site, key, frame, covered: false })
        };
        own.copied().or_else(other)
    }
}

/// What becomes less, and the end.
impl<D: Default + Copy + PartialEq, W: Default> Client<D, W> {
    /// Changes a task's bytes, and tells the daemon what that leaves unneeded. `change` returns how many bytes that
    /// is.
    fn give_back(
        &mut self,
        key: TaskKey,
        change: impl FnOnce(&mut Account) -> u64,
        out: &mut impl Outbox,
    ) -> Over<D, W> {
        let pinned = self.pinned;
        let task = self.task_mut(key)?;
        let gone = change(&mut task.account);
        let due = task.due(gone, pinned);
        self.tell(key, due, out)
    }

    /// Undoes what was counted for memory that could not be made. Does not end a task that is not bound: this use of
    /// it is over, and the task is not; a refused one stays refused.
    fn undo(
        &mut self,
        key: TaskKey,
        change: impl FnOnce(&mut Account) -> u64,
        out: &mut impl Outbox,
    ) -> Over<D, W> {
        let task = self.task_mut(key)?;
        if task.is_bound() {
            return self.give_back(key, change, out);
        }
        change(&mut task.account);
        None
    }

    /// Returns bytes that were requested for a task and are not needed. The task stays even if it has nothing.
    fn shrink(&mut self, key: TaskKey, bytes: u64, out: &mut impl Outbox) {
        if bytes > 0 && self.task(key).is_some_and(Task::is_bound) {
            self.tell(key, Due::Shrink(bytes), out);
        }
    }

    fn tell(&mut self, key: TaskKey, due: Due, out: &mut impl Outbox) -> Over<D, W> {
        match due {
            Due::Nothing => None,
            Due::Shrink(bytes) => {
                out.send(key.slot, Request::Shrink(bytes));
                None
            }
            Due::End => self.end(key, out),
        }
    }

    /// Ends a task of which nothing remains; without a message if the daemon does not know it.
    pub fn end(&mut self, key: TaskKey, out: &mut impl Outbox) -> Over<D, W> {
        let task = self.tasks[key.slot.index()].take_if(|task| task.key == key)?;
        if task.is_known() {
            self.send_end(key.slot, out);
        }
        Some(Box::new(task))
    }

    fn send_end(&mut self, slot: Slot, out: &mut impl Outbox) {
        self.ended[slot.index()] = Some(out.send(slot, Request::End));
    }

    /// A site makes no more launches.
    pub fn all_launched(&mut self, sites: &Sites, site: u64, out: &mut impl Outbox) {
        let Some(open) = self.open_at(sites, site).filter(|open| !open.covered) else { return };
        if let Some(task) = self.task_mut(open.key) {
            task.account.set_all_launched(open.frame);
        }
        self.tell_all_launched(open.key, out);
    }

    fn tell_all_launched(&mut self, key: TaskKey, out: &mut impl Outbox) {
        if self.task_mut(key).is_some_and(Task::takes_all_launched) {
            out.send(key.slot, Request::AllLaunched);
        }
    }

    /// A site ends, in this thread or another. Buffers that are still allocated keep their task, at their size, until
    /// they are freed. Returns the tasks that are over.
    pub fn end_site(
        &mut self,
        sites: &mut Sites,
        site: u64,
        is_same_function: impl Fn(u64, u64) -> bool,
        out: &mut impl Outbox,
    ) -> Vec<Box<Task<D, W>>> {
        let Some(ending) = self.open_at(sites, site) else { return Vec::new() };
        let mut over = Vec::new();
        for OpenSite { key, frame, .. } in sites.take_ended(ending, is_same_function) {
            over.extend(self.give_back(key, |account| account.close(frame), out));
            self.tell_all_launched(key, out);
        }
        sites.open.retain(|open| self.is_open(open));
        over
    }
}
