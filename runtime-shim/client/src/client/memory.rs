//! Memory of the program's allocations: when it comes, how it is counted, and when it is given back. The ledger records
//! where an allocation's memory is, and its task's account what of it is counted; here both change together.
//!
//! Trap: memory is made without the lock, so it is counted first. A user that cannot make it undoes that
//! ([`Client::not_made`], [`Client::uncount_coming`]) with what the counting returned.

use super::{Client, Over};
use crate::account::{FrameId, Taken};
use crate::ledger::{Allocation, Backing, BufferId, Held, Origin};
use crate::request::Outbox;
use crate::sites::Sites;
use crate::task::{Kind, Phase, Task, TaskKey};
use crate::way::{Case, Form};

/// An allocation that a thread makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    pub bytes: u64,
    pub form: Form,
    /// A graph is being recorded.
    pub is_captured: bool,
}

/// What a thread that allocates does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocating {
    /// The call fails as out of memory.
    Refused,
    /// Wait for the device of this task, and ask again.
    Needs(TaskKey),
    /// Ask for the lazy task with this allocation ([`Client::ask_for_allocation`]), since its site is refused.
    Asks(TaskKey, FrameId),
    /// Ask for [`Counted::more`] bytes, and make it.
    Counted(Counted),
}

/// An allocation that is counted, and not made yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    pub key: TaskKey,
    pub wanted: Wanted,
    /// Bytes to ask for before it is made.
    pub more: u64,
    /// Addresses to reserve, in bytes, for memory that comes with the calls that name it.
    pub by_name: Option<u64>,
    frame: Option<FrameId>,
    taken: Taken,
}

impl Counted {
    /// An allocation for which the lazy task is asked for.
    pub(super) fn with_request(key: TaskKey, frame: FrameId, wanted: Wanted, taken: Taken) -> Counted {
        Counted { key, wanted, more: 0, by_name: None, frame: Some(frame), taken }
    }

    pub fn allocation(&self, origin: Origin) -> Allocation {
        Allocation::new(self.wanted.bytes, self.key, self.frame, origin)
    }

    /// For memory without an address.
    pub fn held(&self) -> Held {
        Held { owner: self.key, frame: self.frame, bytes: self.wanted.bytes }
    }
}

/// Memory that is about to come behind an allocation's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coming {
    pub buffer: BufferId,
    pub owner: TaskKey,
    pub bytes: u64,
    /// Bytes to ask for first.
    pub more: u64,
    before: Before,
}

/// Where an allocation's memory was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Awaited,
    /// Given back, so that it is counted anew.
    Gone(Taken),
    /// Believed dead: its contents were on the host.
    Away,
}

/// What becomes of an allocation that is dead now.
#[derive(Debug)]
pub enum Dead<D, W> {
    /// It never had memory, and gets none.
    Unused(Over<D, W>),
    /// Its memory goes back when the device has finished with it: [`Client::give_up`].
    Used,
}

impl<D, W> Task<D, W> {
    /// Addresses to reserve for an allocation that is made while its memory comes later; `None`: it needs memory now.
    fn reserved_by_name(&self, frame: FrameId, wanted: &Wanted, wasted: u64) -> Option<u64> {
        let by_name = self.by_name.filter(|_| wanted.form == Form::Linear && !wanted.is_captured)?;
        let beyond = self.account.beyond(frame, wanted.bytes);
        let can_wait = match self.phase {
            // What no device can ever hold must fail where it is allocated.
            Phase::Deferred => self.account.reserved().saturating_add(beyond) <= by_name.room,
            // A task that waits cannot ask for more.
            Phase::Asked(_) => beyond == 0,
            Phase::Bound => !self.terms.managed,
            Phase::Unbound | Phase::Refused(_) => false,
        };
        by_name.reserved(wanted.bytes, wasted).filter(|_| can_wait)
    }
}

/// Allocations.
impl<D: Default + Copy + PartialEq, W: Default> Client<D, W> {
    /// A thread allocates: counts the allocation, for the task of the thread's innermost open site or else the lazy task.
    pub fn allocate(&mut self, sites: &mut Sites, wanted: Wanted) -> Allocating {
        let (key, frame) = self.owner_of_new(sites);
        let wasted = self.ledger.waste_of(key);
        let Some(task) = self.task_mut(key) else { return Allocating::Refused };
        if task.kind == Kind::Lazy {
            sites.lazy = Some(key);
        }
        let by_name = frame.and_then(|frame| task.reserved_by_name(frame, &wanted, wasted));
        match (task.phase, frame) {
            (Phase::Refused(_), _) => return Allocating::Refused,
            (Phase::Deferred | Phase::Asked(_), _) if by_name.is_none() => return Allocating::Needs(key),
            (Phase::Unbound, Some(frame)) => return Allocating::Asks(key, frame),
            _ => {}
        }
        let (is_bound, account) = (task.phase == Phase::Bound, &mut task.account);
        let taken = match by_name {
            Some(_) => account.expect(frame, wanted.bytes),
            None => account.take(frame, wanted.bytes),
        };
        // A task that is not bound asks for these bytes with the rest.
        let more = if is_bound { taken.more } else { 0 };
        account.ask(by_name.map_or(0, |_| more));
        Allocating::Counted(Counted { key, wanted, more, by_name, frame, taken })
    }

    /// The daemon has granted [`Counted::more`].
    pub fn granted(&mut self, counted: &Counted) {
        if let Some(task) = self.task_mut(counted.key) {
            task.account.answer(counted.by_name.map_or(0, |_| counted.more));
        }
    }

    /// Undoes what was counted for an allocation that could not be made. `is_granted`: the daemon holds what was asked
    /// for it, as [`Client::granted`] was told. A task of which nothing else is left ends.
    pub fn not_made(&mut self, counted: &Counted, is_granted: bool, out: &mut impl Outbox) -> Over<D, W> {
        let Counted { key, wanted: Wanted { bytes, .. }, more, by_name, frame, taken } = *counted;
        self.undo(
            key,
            |account| {
                let lost = match by_name {
                    Some(_) => {
                        account.answer(if is_granted { 0 } else { more });
                        account.unexpect(frame, bytes, taken)
                    }
                    None => account.untake(frame, bytes, taken),
                };
                lost.saturating_add(if is_granted { taken.more } else { 0 })
            },
            out,
        )
    }

    /// The device of a counted allocation, and the facts that decide how its memory is made. `None`: the device is not
    /// known yet, so the memory must be managed.
    ///
    /// Trap: ask after the answer to the request for [`Counted::more`]. An extension may be granted over-subscribed, and
    /// memory that is allocated with it must be managed.
    pub fn case(&self, counted: &Counted) -> Option<(D, Case)> {
        let task = self.task(counted.key).filter(|task| task.is_bound())?;
        let (managed, releases) = (task.terms.managed, task.terms.releases);
        let Wanted { bytes, form, is_captured } = counted.wanted;
        let has_site = counted.frame.is_some();
        Some((task.terms.device, Case { managed, releases, form, bytes, has_site, is_captured }))
    }
}

/// Memory that comes, goes and comes again.
impl<D: Default + Copy + PartialEq, W: Default> Client<D, W> {
    /// Counts memory that is about to come behind an allocation's address; `None`: it is there already, or its task has
    /// no device.
    pub fn count_coming(&mut self, buffer: BufferId) -> Option<Coming> {
        let Allocation { owner, bytes, origin, is_away, .. } = *self.ledger.get(buffer)?;
        let backing = origin.backing()?;
        let task =
            self.tasks[owner.slot.index()].as_mut().filter(|task| task.key == owner && task.is_bound())?;
        let account = &mut task.account;
        let (more, before) = match backing {
            Backing::Present if is_away => {
                self.ledger.set_away(buffer, false);
                (account.bring_back(bytes), Before::Away)
            }
            Backing::Present => return None,
            Backing::Awaited => (account.hold(bytes), Before::Awaited),
            Backing::Gone => {
                self.ledger.leave_frame(buffer);
                let taken = account.take(None, bytes);
                (taken.more, Before::Gone(taken))
            }
        };
        Some(Coming { buffer, owner, bytes, more, before })
    }

    /// Undoes a [`Client::count_coming`]. `is_granted`: as for [`Client::not_made`].
    pub fn uncount_coming(&mut self, coming: &Coming, is_granted: bool, out: &mut impl Outbox) -> Over<D, W> {
        let Coming { buffer, owner, bytes, more, before } = *coming;
        if before == Before::Away {
            self.ledger.set_away(buffer, true);
        }
        self.undo(
            owner,
            |account| {
                match before {
                    Before::Awaited => account.unhold(bytes, more),
                    Before::Gone(taken) => _ = account.untake(None, bytes, taken),
                    Before::Away => account.undo_bring_back(bytes, more),
                }
                if is_granted { more } else { 0 }
            },
            out,
        )
    }

    /// The bound task of an allocation that awaits memory which would exceed the task's reservation. If memory of the
    /// task is about to be given back, the thread waits for that: the task has asked for its live requirement, and more
    /// may be refused.
    pub fn short_task(&self, buffer: BufferId) -> Option<TaskKey> {
        let awaited = |found: &&Allocation| found.origin.backing() == Some(Backing::Awaited);
        let found = self.ledger.get(buffer).filter(awaited)?;
        let task = self.task(found.owner).filter(|task| task.is_bound())?;
        task.account.is_short_of(found.bytes).then_some(task.key)
    }

    /// The program does not use the contents of an allocation again. `None`: it has said so before.
    pub fn declare_dead(&mut self, buffer: BufferId, out: &mut impl Outbox) -> Option<Dead<D, W>> {
        let Allocation { owner, frame, bytes, origin, .. } = self.ledger.declare_dead(buffer)?;
        if origin.backing() != Some(Backing::Awaited) {
            return Some(Dead::Used);
        }
        self.ledger.set_backing(buffer, Backing::Gone);
        Some(Dead::Unused(self.give_back(owner, |account| account.forgo(frame, bytes), out)))
    }

    /// The memory of a dead allocation is given back; its address stays.
    pub fn give_up(&mut self, buffer: BufferId, out: &mut impl Outbox) -> Over<D, W> {
        let Allocation { owner, frame, bytes, .. } = *self.ledger.dead_and_present(buffer)?;
        self.ledger.set_backing(buffer, Backing::Gone);
        self.give_back(owner, |account| account.give(frame, bytes), out)
    }

    /// The contents of an allocation that is believed dead have moved to the host.
    pub fn send_away(&mut self, buffer: BufferId, out: &mut impl Outbox) -> Over<D, W> {
        let Allocation { owner, bytes, .. } = *self.ledger.movable(buffer)?;
        self.ledger.set_away(buffer, true);
        self.give_back(owner, |account| account.send_away(bytes), out)
    }

    /// An allocation is freed. Nothing changes if its memory was given back before.
    pub fn freed(&mut self, freed: &Allocation, out: &mut impl Outbox) -> Over<D, W> {
        let Allocation { owner, frame, bytes, origin, is_away, .. } = *freed;
        match origin.backing() {
            _ if is_away => self.give_back(owner, |account| account.forget_away(bytes), out),
            Some(Backing::Gone) => None,
            Some(Backing::Awaited) => self.give_back(owner, |account| account.forgo(frame, bytes), out),
            Some(Backing::Present) | None => self.release(Held { owner, frame, bytes }, out),
        }
    }

    /// Memory without an address is freed.
    pub fn release(&mut self, held: Held, out: &mut impl Outbox) -> Over<D, W> {
        let Held { owner, frame, bytes } = held;
        self.give_back(owner, |account| account.give(frame, bytes), out)
    }

    /// Moves an allocation to a task that was granted its bytes: the lazy task's memory, which this task's kernel uses.
    /// Returns the task that is over, and false if there is nothing to move; then the bytes go back.
    pub fn hand_over(
        &mut self,
        buffer: BufferId,
        bytes: u64,
        key: TaskKey,
        out: &mut impl Outbox,
    ) -> (Over<D, W>, bool) {
        // Another thread may have bound the previous owner, and the buffer may have lost its memory since.
        let has_memory = |found: &&Allocation| {
            !found.is_away && found.origin.backing().is_none_or(|b| b == Backing::Present)
        };
        let before =
            self.ledger.get(buffer).filter(has_memory).map(|found| found.owner).filter(|&owner| owner != key);
        let (Some(before), Some(task)) = (before, self.task_mut(key)) else {
            self.shrink(key, bytes, out);
            return (None, false);
        };
        task.account.take(None, bytes);
        self.ledger.hand_over(buffer, key);
        (self.give_back(before, |account| account.give(None, bytes), out), true)
    }
}
