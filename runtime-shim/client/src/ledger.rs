//! A program's live device allocations by number: their owners, their kinds, and where their data was last put. The
//! user knows their addresses or names.
//!
//! Trap: `on_host` and `on_device` record what was *requested* (copies made, prefetches issued), not the real
//! residency: kernels move pages by faulting and the driver evicts without notice.

use crate::account::FrameId;
use crate::spans::{Span, Spans};
use crate::task::TaskKey;
use std::collections::{BTreeMap, BTreeSet};

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
/// the order of allocation.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    slots: Vec<Option<Entry>>,
    /// Free slots.
    free: Vec<u32>,
    next: u64,
    all: BTreeSet<BufferId>,
    arrays: BTreeMap<u64, Held>,
    /// Number of allocations that the compiler proves dead.
    dead: usize,
    /// Allocations without memory.
    absent: BTreeSet<BufferId>,
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
        self.slots[id.index()] = Some(Entry { id, allocation, on_host, on_device, is_dead: false });
        self.all.insert(id);
        self.note_absent(id);
        id
    }

    /// Restores an allocation that [`Self::remove`] took out, at its place in the order. Its death is forgotten.
    pub fn restore(&mut self, removed: Removed) -> BufferId {
        let Entry { id, allocation, on_host, on_device, .. } = removed.0;
        self.enter(id.number, allocation, on_host, on_device)
    }

    fn entry(&self, id: BufferId) -> Option<&Entry> {
        self.slots.get(id.index())?.as_ref().filter(|entry| entry.id == id)
    }

    fn entry_mut(&mut self, id: BufferId) -> Option<&mut Entry> {
        self.slots.get_mut(id.index())?.as_mut().filter(|entry| entry.id == id)
    }

    pub fn get(&self, id: BufferId) -> Option<&Allocation> {
        Some(&self.entry(id)?.allocation)
    }

    /// Allocations made while the program had this device set, and whether it has allocations on others.
    pub fn on_set_device(&self, device: i32) -> (Vec<BufferId>, bool) {
        let (own, others): (Vec<_>, Vec<_>) =
            self.entries().partition(|entry| entry.allocation.set_device == device);
        (own.into_iter().map(|entry| entry.id).collect(), !others.is_empty())
    }

    /// Records that an allocation is dead; returns it the first time.
    pub fn declare_dead(&mut self, id: BufferId) -> Option<Allocation> {
        let entry = self.entry_mut(id).filter(|entry| !entry.is_dead)?;
        entry.is_dead = true;
        let allocation = entry.allocation;
        self.dead += 1;
        Some(allocation)
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
        if let Some(entry) = self.entry_mut(id) {
            entry.allocation.is_away = is_away;
        }
    }

    /// Records the memory behind an allocation's addresses.
    pub fn set_backing(&mut self, id: BufferId, now: Backing) {
        let Some(entry) = self.entry_mut(id) else { return };
        if let Origin::Mapped { backing, .. } | Origin::Rewritten { backing } = &mut entry.allocation.origin {
            *backing = now;
            if now == Backing::Gone {
                // None of its data is to be moved any more.
                (entry.on_host, entry.on_device) = (Spans::default(), Spans::default());
            }
            self.note_absent(id);
        }
    }

    fn note_absent(&mut self, id: BufferId) {
        match self.get(id).and_then(|allocation| allocation.origin.backing()) {
            None | Some(Backing::Present) => self.absent.remove(&id),
            Some(Backing::Awaited | Backing::Gone) => self.absent.insert(id),
        };
    }

    /// True if some allocations have no memory.
    pub fn has_absent(&self) -> bool {
        !self.absent.is_empty()
    }

    /// True if calls must be searched for the allocations that they name, since some have no memory, or should not be
    /// used any more.
    pub fn is_watched(&self) -> bool {
        self.has_absent() || self.dead > 0
    }

    /// Allocations of a task without memory.
    pub fn absent_of(&self, owner: TaskKey) -> Vec<(BufferId, Allocation)> {
        let absent = self.absent().filter(|(_, allocation)| allocation.owner == owner);
        absent.map(|(id, allocation)| (id, *allocation)).collect()
    }

    /// All allocations without memory.
    pub fn absent(&self) -> impl Iterator<Item = (BufferId, &Allocation)> + '_ {
        self.absent.iter().filter_map(|&id| Some((id, self.get(id)?)))
    }

    /// Bytes that a task's mapped memory takes beyond what the program asked for.
    pub fn waste_of(&self, owner: TaskKey) -> u64 {
        let waste = |(_, allocation): (_, &Allocation)| match allocation.origin {
            Origin::Mapped { reserved, .. } => reserved - allocation.bytes,
            Origin::Plain | Origin::Rewritten { .. } | Origin::Program => 0,
        };
        self.of_task(owner).map(waste).sum()
    }

    pub fn remove(&mut self, id: BufferId) -> Option<Removed> {
        self.entry(id)?;
        let entry = self.slots[id.index()].take()?;
        self.free.push(id.index);
        self.all.remove(&id);
        self.absent.remove(&id);
        self.dead -= usize::from(entry.is_dead);
        Some(Removed(entry))
    }

    /// Forgets all allocations and arrays. Their ids name nothing any more.
    pub fn clear(&mut self) {
        *self = Ledger { next: self.next, ..Ledger::default() };
    }

    pub fn insert_array(&mut self, handle: u64, held: Held) {
        self.arrays.insert(handle, held);
    }

    pub fn remove_array(&mut self, handle: u64) -> Option<Held> {
        self.arrays.remove(&handle)
    }

    /// Bytes of all memory that a task has.
    pub fn bytes_of(&self, owner: TaskKey) -> u64 {
        let arrays = self.arrays.values().filter(|held| held.owner == owner).map(|held| held.bytes);
        self.of_task(owner).map(|(_, allocation)| allocation.bytes).chain(arrays).sum()
    }

    /// The allocations that the shim mapped itself.
    pub fn mapped(&self) -> Vec<(BufferId, Origin)> {
        let all = self.entries().map(|entry| (entry.id, entry.allocation.origin));
        all.filter(|(_, origin)| matches!(origin, Origin::Mapped { .. })).collect()
    }

    pub fn of_task(&self, owner: TaskKey) -> impl Iterator<Item = (BufferId, &Allocation)> + '_ {
        self.entries_of(owner).map(|entry| (entry.id, &entry.allocation))
    }

    fn entries_of(&self, owner: TaskKey) -> impl Iterator<Item = &Entry> + '_ {
        self.entries().filter(move |entry| entry.allocation.owner == owner)
    }

    /// All allocations, in their order.
    fn entries(&self) -> impl Iterator<Item = &Entry> + '_ {
        self.all.iter().filter_map(|&id| self.entry(id))
    }

    /// Bytes of the owner that were moved in and not sent away since.
    fn moved(&self, owner: TaskKey) -> u64 {
        let here = self.entries_of(owner).filter(|entry| !entry.allocation.is_away);
        here.map(|entry| entry.on_device.total_bytes()).sum()
    }

    /// True if the owner has memory on its device without pages, for which its grant has room.
    pub fn lacks_pages(&self, owner: TaskKey, grant: u64) -> bool {
        let mut here = self.entries_of(owner).filter(|entry| !entry.allocation.is_away);
        self.moved(owner) < grant && here.any(|entry| !entry.unwritten().is_empty())
    }

    /// Detaches an allocation from its site, whose promise its future memory does not use.
    pub fn leave_frame(&mut self, id: BufferId) {
        if let Some(entry) = self.entry_mut(id) {
            entry.allocation.frame = None;
        }
    }

    /// Moves an allocation to another task, which had not announced it; returns its bytes, or 0 if it is gone.
    pub fn hand_over(&mut self, id: BufferId, owner: TaskKey) -> u64 {
        self.entry_mut(id).map_or(0, |entry| {
            (entry.allocation.owner, entry.allocation.frame) = (owner, None);
            entry.allocation.bytes
        })
    }

    /// Records that the host wrote a part of an allocation.
    pub fn filled(&mut self, part: Part) {
        if let Some(entry) = self.entry_mut(part.buffer) {
            entry.on_host.insert(part.span);
            entry.on_device.remove(part.span);
        }
    }

    /// Records that a copy puts data of the host into a part of managed memory on the device.
    pub fn moved_in(&mut self, part: Part) {
        let found = self.entry_mut(part.buffer);
        if let Some(entry) = found.filter(|entry| entry.allocation.origin.is_rewritten()) {
            entry.on_host.remove(part.span);
            entry.on_device.insert(part.span);
        }
    }

    /// True if `grant` has room for `part` beside what was moved in before.
    pub fn fits(&self, owner: TaskKey, part: Part, grant: u64) -> bool {
        let mut new = Spans::default();
        new.insert(part.span);
        if let Some(entry) = self.entry(part.buffer) {
            entry.on_device.iter().for_each(|here| new.remove(here));
        }
        self.moved(owner).saturating_add(new.total_bytes()) <= grant
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
        let mut budget = grant.saturating_sub(self.moved(owner));
        let others = self.of_task(owner).map(|(id, _)| id);
        let order: Vec<BufferId> =
            first.iter().copied().chain(others.filter(|id| !first.contains(id))).collect();
        let filled = order.iter().map(|id| (*id, false));
        let made = order.iter().filter(|id| match unwritten {
            Unwritten::Nothing => false,
            Unwritten::First => first.contains(id),
            Unwritten::All => true,
        });
        let mut plan = Vec::new();
        for (id, is_unwritten) in filled.chain(made.map(|id| (*id, true))) {
            let Some(entry) = self.entry_mut(id).filter(|entry| entry.allocation.owner == owner) else {
                continue;
            };
            if not.contains(&id) || entry.allocation.is_away {
                continue;
            }
            let source = if is_unwritten { entry.unwritten() } else { entry.on_host.clone() };
            for span in source.prefix(budget) {
                entry.on_host.remove(span);
                entry.on_device.insert(span);
                budget -= span.bytes;
                plan.push(Part { buffer: id, span });
            }
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_proto::request::Slot;

    fn owner() -> TaskKey {
        TaskKey { slot: Slot::new(0).expect("slot 0"), generation: 1 }
    }

    fn managed(ledger: &mut Ledger, bytes: u64) -> BufferId {
        ledger.insert(Allocation::new(bytes, owner(), None, Origin::REWRITTEN))
    }

    fn part(buffer: BufferId, start: u64, bytes: u64) -> Part {
        Part { buffer, span: Span { start, bytes } }
    }

    fn fetch(ledger: &mut Ledger, grant: u64, first: &[BufferId]) -> Vec<Part> {
        ledger.plan_fetch(owner(), grant, first, &[], Unwritten::Nothing)
    }

    #[test]
    fn fetches_within_the_grant_and_the_rest_when_it_grows() {
        let mut ledger = Ledger::default();
        let (a, b) = (managed(&mut ledger, 100), managed(&mut ledger, 50));
        ledger.filled(part(a, 0, 100));
        ledger.filled(part(b, 0, 50));
        assert_eq!(fetch(&mut ledger, 80, &[b]), [part(b, 0, 50), part(a, 0, 30)]);
        assert_eq!(fetch(&mut ledger, 80, &[]), [], "the grant is used up");
        assert_eq!(fetch(&mut ledger, 150, &[]), [part(a, 30, 70)]);
        ledger.filled(part(a, 0, 10));
        assert_eq!(fetch(&mut ledger, 150, &[]), [part(a, 0, 10)], "written again, fetched again");
    }

    #[test]
    fn buffers_move_in_in_the_order_of_their_allocation_wherever_they_are_kept() {
        let mut ledger = Ledger::default();
        let [a, b, c] = [(); 3].map(|()| managed(&mut ledger, 10));
        ledger.remove(a).expect("a");
        let taken = ledger.remove(b).expect("b");
        let d = managed(&mut ledger, 10);
        let b = ledger.restore(taken);
        [b, c, d].into_iter().for_each(|id| ledger.filled(part(id, 0, 10)));
        let plan = fetch(&mut ledger, 30, &[c]);
        assert_eq!(plan.into_iter().map(|part| part.buffer).collect::<Vec<_>>(), [c, b, d]);
    }

    #[test]
    fn memory_that_is_away_lacks_no_pages() {
        let mut ledger = Ledger::default();
        let buffer = managed(&mut ledger, 10);
        for (is_away, lacks_pages) in [(false, true), (true, false), (false, true)] {
            ledger.set_away(buffer, is_away);
            assert_eq!(ledger.lacks_pages(owner(), 5), lacks_pages);
            let plan = ledger.clone().plan_fetch(owner(), 5, &[], &[], Unwritten::All);
            assert_eq!(plan.is_empty(), is_away, "nothing of it is moved in");
        }
    }

    #[test]
    fn the_id_of_a_freed_buffer_names_nothing_although_its_slot_is_used_again() {
        let mut ledger = Ledger::default();
        let old = managed(&mut ledger, 10);
        ledger.remove(old).expect("live");
        let new = managed(&mut ledger, 20);
        assert_eq!(new.index(), old.index());
        assert!(ledger.get(old).is_none() && ledger.remove(old).is_none());
        ledger.clear();
        let newest = managed(&mut ledger, 30);
        assert_eq!((ledger.get(new), ledger.get(newest).map(|found| found.bytes)), (None, Some(30)));
    }
}
