//! A program's live device allocations by number: their owners, their kinds, and where their data was last put. The
//! user knows their addresses or names.
//!
//! Trap: `on_host` and `on_device` record what was *requested* (copies made, prefetches issued), not the real
//! residency: kernels move pages by faulting and the driver evicts without notice.

use crate::account::FrameId;
use crate::spans::{Span, Spans};
use crate::task::TaskKey;
use crate::way::Way;
use std::collections::BTreeMap;
use sums::{Share, Sums};

mod sums;
#[cfg(test)]
mod tests;

/// Names an allocation; never reused. Ids are in the order of allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BufferId {
    number: u64,
    index: u32,
}

impl BufferId {
    /// A number below the most allocations that were live at once; a later allocation may have it again.
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// A range of an allocation, in bytes from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub buffer: BufferId,
    pub span: Span,
}

/// Kind of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// `cudaMalloc`, made by the runtime.
    Plain,
    /// `cudaMalloc` on `reserved` bytes of the shim's addresses, to which device memory is mapped, so that memory can
    /// come later than the addresses and be freed before them.
    Mapped { reserved: u64, backing: Backing },
    /// `cudaMalloc`, made managed by the shim. Never `Awaited`, since it has memory from the allocation on.
    Rewritten { backing: Backing },
    /// `cudaMallocManaged` of the program: the shim does not handle its copies and hints.
    Program,
}

/// Memory behind addresses whose memory the shim may free before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backing {
    /// None yet: memory comes with the first call that names the addresses.
    Awaited,
    Present,
    /// None any more, and the contents are lost.
    Gone,
}

impl Origin {
    /// Made managed by the shim, with its contents.
    pub const REWRITTEN: Origin = Origin::Rewritten { backing: Backing::Present };

    /// `None`: the memory stays until it is freed.
    pub fn backing(self) -> Option<Backing> {
        match self {
            Origin::Mapped { backing, .. } | Origin::Rewritten { backing } => Some(backing),
            Origin::Plain | Origin::Program => None,
        }
    }

    pub fn is_rewritten(self) -> bool {
        matches!(self, Origin::Rewritten { .. })
    }
}

impl Way {
    /// What the ledger records of memory that is made so.
    pub fn origin(self) -> Origin {
        match self {
            Way::Managed => Origin::REWRITTEN,
            Way::Mapped { reserved } => Origin::Mapped { reserved, backing: Backing::Present },
            Way::Plain => Origin::Plain,
        }
    }
}

/// A live allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    pub bytes: u64,
    pub owner: TaskKey,
    /// The site that made the allocation, as its task counts it.
    pub frame: Option<FrameId>,
    pub origin: Origin,
    /// Believed dead: moved to the host, and not counted.
    pub is_away: bool,
    /// The device that the program had set at the allocation, in the program's numbers.
    pub set_device: i32,
}

impl Allocation {
    /// An allocation made while the program had its first device set.
    pub fn new(bytes: u64, owner: TaskKey, frame: Option<FrameId>, origin: Origin) -> Allocation {
        Allocation { bytes, owner, frame, origin, is_away: false, set_device: 0 }
    }

    /// True if its memory is there, counted for its task, and the shim may free it.
    fn is_counted(&self) -> bool {
        self.origin.backing() == Some(Backing::Present) && !self.is_away
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    id: BufferId,
    allocation: Allocation,
    /// Ranges filled by the host and not yet moved in.
    on_host: Spans,
    /// Ranges prefetched, and not written by the host since.
    on_device: Spans,
    /// The compiler proves it dead.
    is_dead: bool,
}

impl Entry {
    fn share(&self) -> Share {
        let Allocation { bytes, owner, origin, is_away, .. } = self.allocation;
        let written = self.on_host.total_bytes().saturating_add(self.on_device.total_bytes());
        let moves = self.moves();
        Share {
            owner,
            bytes,
            wasted: match origin {
                Origin::Mapped { reserved, .. } => reserved - bytes,
                Origin::Plain | Origin::Rewritten { .. } | Origin::Program => 0,
            },
            moved: if is_away { 0 } else { self.on_device.total_bytes() },
            has_data: moves && !self.on_host.is_empty(),
            lacks_pages: moves && origin == Origin::REWRITTEN && written < bytes,
            is_absent: matches!(origin.backing(), Some(Backing::Awaited | Backing::Gone)),
            is_dead: self.is_dead,
        }
    }

    /// True if its data may be moved in: not where its contents are believed dead, or are proven to be.
    fn moves(&self) -> bool {
        !self.allocation.is_away && !self.is_dead
    }

    /// Managed memory that was neither filled nor moved in. Empty for memory that needs no move.
    fn unwritten(&self) -> Spans {
        let mut left = Spans::default();
        if self.allocation.origin == Origin::REWRITTEN {
            left.insert(Span { start: 0, bytes: self.allocation.bytes });
            self.on_host.iter().chain(self.on_device.iter()).for_each(|span| left.remove(span));
        }
        left
    }
}

/// An allocation taken out of the ledger, with what it needs to be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed(Entry);

impl Removed {
    pub fn allocation(&self) -> Allocation {
        self.0.allocation
    }
}

/// Which memory that the host never wrote is moved in: its pages are made on the device, without data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwritten {
    Nothing,
    /// That of the buffers that are moved in first.
    First,
    All,
}

/// Counted device memory without an address, such as that of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    pub owner: TaskKey,
    pub frame: Option<FrameId>,
    pub bytes: u64,
}

/// All live allocations by number, and the arrays by handle. What goes through the allocations of a task takes them in
/// the order of allocation. Only [`Self::mapped`], [`Self::on_set_device`] and what returns allocations without memory
/// visit those of other tasks.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    slots: Vec<Option<Entry>>,
    /// Free slots.
    free: Vec<u32>,
    next: u64,
    arrays: BTreeMap<u64, Held>,
    sums: Sums,
    /// Number of times that an allocation was looked at.
    #[cfg(test)]
    visits: std::cell::Cell<u64>,
}

impl Ledger {
    pub fn insert(&mut self, allocation: Allocation) -> BufferId {
        let number = self.next;
        self.next += 1;
        self.enter(number, allocation, Spans::default(), Spans::default())
    }

    fn enter(&mut self, number: u64, allocation: Allocation, on_host: Spans, on_device: Spans) -> BufferId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).unwrap_or_else(|_| unreachable!("2^32 allocations"))
        });
        let id = BufferId { number, index };
        let entry = Entry { id, allocation, on_host, on_device, is_dead: false };
        self.sums.add(id, &entry.share());
        self.slots[id.index()] = Some(entry);
        id
    }

    /// Restores an allocation that [`Self::remove`] took out, at its place in the order. Its death is forgotten.
    pub fn restore(&mut self, removed: Removed) -> BufferId {
        let Entry { id, allocation, on_host, on_device, .. } = removed.0;
        self.enter(id.number, allocation, on_host, on_device)
    }

    fn entry(&self, id: BufferId) -> Option<&Entry> {
        #[cfg(test)]
        self.visits.set(self.visits.get() + 1);
        self.slots.get(id.index())?.as_ref().filter(|entry| entry.id == id)
    }

    /// Changes an allocation, and the sums that it is part of.
    fn change<T>(&mut self, id: BufferId, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        #[cfg(test)]
        self.visits.set(self.visits.get() + 1);
        let entry = self.slots.get_mut(id.index())?.as_mut().filter(|entry| entry.id == id)?;
        let before = entry.share();
        let result = change(entry);
        self.sums.replace(id, &before, &entry.share());
        Some(result)
    }

    pub fn get(&self, id: BufferId) -> Option<&Allocation> {
        Some(&self.entry(id)?.allocation)
    }

    /// Allocations made while the program had this device set, and whether it has allocations on others.
    pub fn on_set_device(&self, device: i32) -> (Vec<BufferId>, bool) {
        let all = self.sums.all().filter_map(|id| Some((id, self.get(id)?.set_device)));
        let (own, others): (Vec<_>, Vec<_>) = all.partition(|(_, set)| *set == device);
        (own.into_iter().map(|(id, _)| id).collect(), !others.is_empty())
    }

    /// Records that an allocation is dead; returns it the first time.
    pub fn declare_dead(&mut self, id: BufferId) -> Option<Allocation> {
        self.entry(id).filter(|entry| !entry.is_dead)?;
        self.change(id, |entry| {
            entry.is_dead = true;
            entry.allocation
        })
    }

    /// True if the compiler proves the allocation dead.
    pub fn is_dead(&self, id: BufferId) -> bool {
        self.entry(id).is_some_and(|entry| entry.is_dead)
    }

    /// A dead allocation whose memory can be freed.
    pub fn dead_and_present(&self, id: BufferId) -> Option<&Allocation> {
        let entry = self.entry(id).filter(|entry| entry.is_dead && entry.allocation.is_counted())?;
        Some(&entry.allocation)
    }

    /// An allocation whose contents may move to the host and back at any access, and that has not moved yet.
    pub fn movable(&self, id: BufferId) -> Option<&Allocation> {
        self.get(id).filter(|found| found.origin.is_rewritten() && found.is_counted())
    }

    /// Records whether an allocation's contents are on the host.
    pub fn set_away(&mut self, id: BufferId, is_away: bool) {
        self.change(id, |entry| entry.allocation.is_away = is_away);
    }

    /// Records the memory behind an allocation's addresses.
    pub fn set_backing(&mut self, id: BufferId, now: Backing) {
        self.change(id, |entry| {
            if let Origin::Mapped { backing, .. } | Origin::Rewritten { backing } =
                &mut entry.allocation.origin
            {
                *backing = now;
                if now == Backing::Gone {
                    // None of its data is to be moved any more.
                    (entry.on_host, entry.on_device) = (Spans::default(), Spans::default());
                }
            }
        });
    }

    /// True if some allocations have no memory.
    pub fn has_absent(&self) -> bool {
        self.sums.has_absent()
    }

    /// True if calls must be searched for the allocations that they name, since some have no memory, or should not be
    /// used any more.
    pub fn is_watched(&self) -> bool {
        self.has_absent() || self.sums.has_dead()
    }

    /// Allocations of a task without memory.
    pub fn absent_of(&self, owner: TaskKey) -> Vec<(BufferId, Allocation)> {
        let absent = self.absent().filter(|(_, allocation)| allocation.owner == owner);
        absent.map(|(id, allocation)| (id, *allocation)).collect()
    }

    /// All allocations without memory.
    pub fn absent(&self) -> impl Iterator<Item = (BufferId, &Allocation)> + '_ {
        self.sums.absent().filter_map(|id| Some((id, self.get(id)?)))
    }

    /// Bytes that a task's mapped memory takes beyond what the program asked for.
    pub fn waste_of(&self, owner: TaskKey) -> u64 {
        self.sums.wasted(owner)
    }

    pub fn remove(&mut self, id: BufferId) -> Option<Removed> {
        self.entry(id)?;
        let entry = self.slots[id.index()].take()?;
        self.free.push(id.index);
        self.sums.remove(id, &entry.share());
        Some(Removed(entry))
    }

    /// Forgets all allocations and arrays. Their ids name nothing any more.
    pub fn clear(&mut self) {
        *self = Ledger { next: self.next, ..Ledger::default() };
    }

    pub fn insert_array(&mut self, handle: u64, held: Held) {
        self.remove_array(handle);
        self.arrays.insert(handle, held);
        self.sums.add_array(held);
    }

    pub fn remove_array(&mut self, handle: u64) -> Option<Held> {
        let held = self.arrays.remove(&handle)?;
        self.sums.remove_array(held);
        Some(held)
    }

    /// Bytes of all memory that a task has.
    pub fn bytes_of(&self, owner: TaskKey) -> u64 {
        self.sums.bytes(owner)
    }

    /// The allocations that the shim mapped itself.
    pub fn mapped(&self) -> Vec<(BufferId, Origin)> {
        let all = self.sums.all().filter_map(|id| Some((id, self.get(id)?.origin)));
        all.filter(|(_, origin)| matches!(origin, Origin::Mapped { .. })).collect()
    }

    pub fn of_task(&self, owner: TaskKey) -> impl Iterator<Item = (BufferId, &Allocation)> + '_ {
        self.sums.of_task(owner).filter_map(|id| Some((id, self.get(id)?)))
    }

    /// True if the owner has memory on its device without pages, for which its grant has room.
    pub fn lacks_pages(&self, owner: TaskKey, grant: u64) -> bool {
        self.sums.moved(owner) < grant && self.sums.next(owner, Kind::Unwritten, None).is_some()
    }

    /// Detaches an allocation from its site, whose promise its future memory does not use.
    pub fn leave_frame(&mut self, id: BufferId) {
        self.change(id, |entry| entry.allocation.frame = None);
    }

    /// Moves an allocation to another task, which had not announced it; returns its bytes, or 0 if it is gone.
    pub fn hand_over(&mut self, id: BufferId, owner: TaskKey) -> u64 {
        let given = self.change(id, |entry| {
            (entry.allocation.owner, entry.allocation.frame) = (owner, None);
            entry.allocation.bytes
        });
        given.unwrap_or(0)
    }

    /// Records that the host wrote a part of an allocation.
    pub fn filled(&mut self, part: Part) {
        self.change(part.buffer, |entry| {
            entry.on_host.insert(part.span);
            entry.on_device.remove(part.span);
        });
    }

    /// Records that a copy puts data of the host into a part of managed memory on the device.
    pub fn moved_in(&mut self, part: Part) {
        self.change(part.buffer, |entry| {
            if entry.allocation.origin.is_rewritten() {
                entry.on_host.remove(part.span);
                entry.on_device.insert(part.span);
            }
        });
    }

    /// True if `grant` has room for `part` beside what was moved in before.
    pub fn fits(&self, owner: TaskKey, part: Part, grant: u64) -> bool {
        let mut new = Spans::default();
        new.insert(part.span);
        if let Some(entry) = self.entry(part.buffer) {
            entry.on_device.iter().for_each(|here| new.remove(here));
        }
        self.sums.moved(owner).saturating_add(new.total_bytes()) <= grant
    }

    /// Chooses what to move in, as much as `grant` leaves beside what was moved in before: data of `owner` on the host,
    /// the allocations in `first` before the others, none of those in `not`; then the `unwritten` memory that is asked
    /// for, which moves no data but gets its pages. Records the chosen parts as moved.
    pub fn plan_fetch(
        &mut self,
        owner: TaskKey,
        grant: u64,
        first: &[BufferId],
        not: &[BufferId],
        unwritten: Unwritten,
    ) -> Vec<Part> {
        let mut plan = Plan { parts: Vec::new(), budget: grant.saturating_sub(self.sums.moved(owner)) };
        let (made_first, made_others) = (unwritten != Unwritten::Nothing, unwritten == Unwritten::All);
        for (kind, with_first, with_others) in
            [(Kind::Data, true, true), (Kind::Unwritten, made_first, made_others)]
        {
            let own = first.iter().filter(|id| self.get(**id).is_some_and(|found| found.owner == owner));
            let own: Vec<BufferId> = own.copied().filter(|id| with_first && !not.contains(id)).collect();
            own.into_iter().for_each(|id| self.take(id, kind, &mut plan));
            let mut last = None;
            while plan.budget > 0
                && with_others
                && let Some(id) = self.sums.next(owner, kind, last)
            {
                last = Some(id);
                if !not.contains(&id) {
                    self.take(id, kind, &mut plan);
                }
            }
        }
        plan.parts
    }

    /// Plans to move in what an allocation has of this kind, within the plan's budget.
    fn take(&mut self, id: BufferId, kind: Kind, plan: &mut Plan) {
        self.change(id, |entry| {
            if !entry.moves() {
                return;
            }
            let source = match kind {
                Kind::Data => entry.on_host.prefix(plan.budget),
                Kind::Unwritten => entry.unwritten().prefix(plan.budget),
            };
            for span in source {
                entry.on_host.remove(span);
                entry.on_device.insert(span);
                plan.budget -= span.bytes;
                plan.parts.push(Part { buffer: id, span });
            }
        });
    }
}

/// What can be moved in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Data of the host.
    Data,
    /// Memory that neither the host nor a copy has written.
    Unwritten,
}

/// What is chosen to be moved in, and what the grant still has room for.
struct Plan {
    parts: Vec<Part>,
    budget: u64,
}
