//! The program's live device allocations: their owners, their kinds, and where their data was last put.
//!
//! Trap: `on_host` and `on_device` record what the shim *requested* (copies it made, prefetches it issued), not the
//! real residency: kernels move pages by faulting and the driver evicts without notice.

use crate::account::FrameId;
use crate::spans::{Span, Spans};
use crate::task::TaskKey;
use std::collections::{BTreeMap, BTreeSet};

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// Its place in the order of allocation; never reused.
    pub number: u64,
    pub span: Span,
    pub owner: TaskKey,
    /// The site that made the allocation, as its task counts it.
    pub frame: Option<FrameId>,
    pub origin: Origin,
    /// Ranges filled by the host and not yet moved in.
    pub on_host: Spans,
    /// Ranges prefetched, and not written by the host since.
    pub on_device: Spans,
    /// Believed dead: moved to the host, and not counted.
    pub is_away: bool,
    /// The device that the program had set at the allocation, in the program's numbers.
    pub set_device: i32,
}

impl Allocation {
    /// True if its memory is there, counted for its task, and the shim may free it.
    fn is_counted(&self) -> bool {
        self.origin.backing() == Some(Backing::Present) && !self.is_away
    }

    /// Managed memory that the shim has neither filled nor moved in. Empty for memory that needs no move.
    fn unwritten(&self) -> Spans {
        let mut left = Spans::default();
        if self.origin == Origin::REWRITTEN {
            left.insert(self.span);
            self.on_host.iter().chain(self.on_device.iter()).for_each(|span| left.remove(span));
        }
        left
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

/// A word that points at most this many bytes outside an allocation may mean it (specification S-716).
const NEAR_BYTES: u64 = 64 << 10;

/// All live allocations by base address, and the arrays, which have no address. What goes through the allocations of a
/// task takes them in the order of allocation, since addresses differ from run to run.
#[derive(Debug, Default)]
pub struct Ledger {
    allocations: BTreeMap<u64, Allocation>,
    arrays: BTreeMap<u64, Held>,
    /// Start addresses of allocations that the compiler proves dead.
    dead: BTreeSet<u64>,
    /// Numbers and start addresses of allocations without memory.
    absent: BTreeSet<(u64, u64)>,
    /// Start addresses in the order of allocation.
    in_order: BTreeMap<u64, u64>,
    next: u64,
}

impl Ledger {
    pub fn insert(&mut self, span: Span, owner: TaskKey, frame: Option<FrameId>, origin: Origin) {
        let (on_host, on_device) = (Spans::default(), Spans::default());
        let (number, is_away, set_device) = (self.next, false, 0);
        self.next += 1;
        self.restore(Allocation {
            number,
            span,
            owner,
            frame,
            origin,
            on_host,
            on_device,
            is_away,
            set_device,
        });
    }

    /// Records the device that the program had set at the allocation.
    pub fn set_device_of(&mut self, base: u64, device: i32) {
        if let Some(allocation) = self.allocations.get_mut(&base) {
            allocation.set_device = device;
        }
    }

    /// Addresses of allocations made while the program had this device set, and whether it has allocations on others.
    pub fn on_set_device(&self, device: i32) -> (Vec<u64>, bool) {
        let (own, others): (Vec<_>, Vec<_>) =
            self.all().partition(|allocation| allocation.set_device == device);
        (own.into_iter().map(|allocation| allocation.span.start).collect(), !others.is_empty())
    }

    /// Restores an allocation that [`Self::remove`] took out.
    pub fn restore(&mut self, allocation: Allocation) {
        let base = allocation.span.start;
        self.in_order.insert(allocation.number, base);
        // Memory that was freed unseen, such as that of a graph, may still be entered at this address.
        if let Some(old) = self.allocations.insert(base, allocation) {
            self.in_order.remove(&old.number);
        }
        self.note_absent(base);
    }

    /// The allocation that starts at `base`.
    pub fn get(&self, base: u64) -> Option<&Allocation> {
        self.allocations.get(&base)
    }

    /// Records that an allocation is dead; returns its task and bytes the first time.
    pub fn declare_dead(&mut self, base: u64) -> Option<(TaskKey, u64)> {
        let allocation = self.allocations.get(&base)?;
        let told = (allocation.owner, allocation.span.bytes);
        self.dead.insert(base).then_some(told)
    }

    /// A dead allocation whose memory can be freed.
    pub fn dead_and_present(&self, base: u64) -> Option<&Allocation> {
        let allocation = self.allocations.get(&base).filter(|_| self.dead.contains(&base))?;
        allocation.is_counted().then_some(allocation)
    }

    /// An allocation whose contents may move to the host and back at any access, and that has not moved yet.
    pub fn movable(&self, base: u64) -> Option<&Allocation> {
        self.allocations.get(&base).filter(|found| found.origin.is_rewritten() && found.is_counted())
    }

    /// Records whether an allocation's contents are on the host.
    pub fn set_away(&mut self, base: u64, is_away: bool) {
        if let Some(allocation) = self.allocations.get_mut(&base) {
            allocation.is_away = is_away;
        }
    }

    /// Records the memory behind an allocation's addresses.
    pub fn set_backing(&mut self, base: u64, now: Backing) {
        let Some(allocation) = self.allocations.get_mut(&base) else { return };
        if let Origin::Mapped { backing, .. } | Origin::Rewritten { backing } = &mut allocation.origin {
            *backing = now;
            if now == Backing::Gone {
                // None of its data is to be moved any more.
                (allocation.on_host, allocation.on_device) = (Spans::default(), Spans::default());
            }
            self.note_absent(base);
        }
    }

    fn note_absent(&mut self, base: u64) {
        let Some(allocation) = self.allocations.get(&base) else { return };
        let key = (allocation.number, base);
        match allocation.origin.backing() {
            None | Some(Backing::Present) => self.absent.remove(&key),
            Some(Backing::Awaited | Backing::Gone) => self.absent.insert(key),
        };
    }

    /// True if calls must be searched for the addresses that they name, since some have no memory, or should not be
    /// used any more.
    pub fn is_watched(&self) -> bool {
        !self.absent.is_empty() || !self.dead.is_empty()
    }

    /// Allocations without memory that some words name. A word that points into no allocation also names awaited
    /// allocations that it misses by at most `NEAR_BYTES`, since programs shift pointers to index from 1. A word
    /// inside an allocation names only that one: where addresses touch, its neighbour would be requested as well, and
    /// could be refused. A near miss never names a dead allocation.
    pub fn absent_among(&self, words: &[u64]) -> Vec<Allocation> {
        if self.absent.is_empty() {
            return Vec::new();
        }
        let strays: Vec<u64> = words.iter().copied().filter(|word| self.find(*word).is_none()).collect();
        let is_named = |allocation: &&Allocation| {
            let Span { start, bytes } = allocation.span;
            let end = start.saturating_add(bytes);
            let is_awaited = allocation.origin.backing() == Some(Backing::Awaited);
            let near = start.saturating_sub(NEAR_BYTES)..end.saturating_add(NEAR_BYTES);
            words.iter().any(|word| (start..end).contains(word))
                || is_awaited && strays.iter().any(|word| near.contains(word))
        };
        self.absent().filter(is_named).cloned().collect()
    }

    /// Awaited allocations within `NEAR_BYTES` of some words. Where addresses touch, a pointer shifted to index
    /// from 1 points into the neighbour.
    pub fn awaited_beside(&self, words: &[u64]) -> Vec<&Allocation> {
        let is_beside = |allocation: &&Allocation| {
            let Span { start, bytes } = allocation.span;
            let near =
                start.saturating_sub(NEAR_BYTES)..start.saturating_add(bytes).saturating_add(NEAR_BYTES);
            allocation.origin.backing() == Some(Backing::Awaited)
                && words.iter().any(|word| near.contains(word))
        };
        self.absent().filter(is_beside).collect()
    }

    /// Allocations of a task without memory.
    pub fn absent_of(&self, owner: TaskKey) -> Vec<Allocation> {
        self.absent().filter(|allocation| allocation.owner == owner).cloned().collect()
    }

    /// All allocations without memory.
    pub fn absent(&self) -> impl Iterator<Item = &Allocation> + '_ {
        self.absent.iter().filter_map(|(_, base)| self.allocations.get(base))
    }

    /// Bytes that a task's mapped memory takes beyond what the program asked for.
    pub fn waste_of(&self, owner: TaskKey) -> u64 {
        let waste = |allocation: &Allocation| match allocation.origin {
            Origin::Mapped { reserved, .. } => reserved - allocation.span.bytes,
            Origin::Plain | Origin::Rewritten { .. } | Origin::Program => 0,
        };
        self.of_task(owner).map(waste).sum()
    }

    /// The dead allocations that some addresses point into.
    pub fn dead_among(&self, addresses: &[u64]) -> Vec<Allocation> {
        let used = self.pointed_at(addresses).into_iter();
        used.filter(|allocation| self.dead.contains(&allocation.span.start)).cloned().collect()
    }

    /// True if some addresses point into an allocation whose contents are lost.
    pub fn is_lost_among(&self, addresses: &[u64]) -> bool {
        let is_lost = |a: &&Allocation| a.origin.backing() == Some(Backing::Gone);
        self.pointed_at(addresses).iter().any(is_lost)
    }

    pub fn remove(&mut self, base: u64) -> Option<Allocation> {
        self.dead.remove(&base);
        let allocation = self.allocations.remove(&base)?;
        self.absent.remove(&(allocation.number, base));
        self.in_order.remove(&allocation.number);
        Some(allocation)
    }

    pub fn clear(&mut self) {
        self.allocations.clear();
        self.arrays.clear();
        self.dead.clear();
        self.absent.clear();
        self.in_order.clear();
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
        self.of_task(owner).map(|allocation| allocation.span.bytes).chain(arrays).sum()
    }

    /// The allocation that `address` points into.
    pub fn find(&self, address: u64) -> Option<&Allocation> {
        let (_, allocation) = self.allocations.range(..=address).next_back()?;
        allocation.span.holds(Span { start: address, bytes: 1 }).then_some(allocation)
    }

    /// The allocation that holds all of `span`.
    pub fn find_span(&self, span: Span) -> Option<&Allocation> {
        self.find(span.start).filter(|allocation| allocation.span.holds(span))
    }

    /// The distinct allocations that some words point into, in order of their base addresses.
    pub fn pointed_at(&self, words: &[u64]) -> Vec<&Allocation> {
        let bases: BTreeSet<u64> = words
            .iter()
            .filter_map(|&word| self.find(word))
            .map(|allocation| allocation.span.start)
            .collect();
        bases.into_iter().filter_map(|base| self.get(base)).collect()
    }

    /// Address and origin of the allocations that the shim mapped itself.
    pub fn mapped(&self) -> Vec<(u64, Origin)> {
        let all = self.all().map(|allocation| (allocation.span.start, allocation.origin));
        all.filter(|(_, origin)| matches!(origin, Origin::Mapped { .. })).collect()
    }

    pub fn of_task(&self, owner: TaskKey) -> impl Iterator<Item = &Allocation> + '_ {
        self.all().filter(move |allocation| allocation.owner == owner)
    }

    /// All allocations, in their order.
    fn all(&self) -> impl Iterator<Item = &Allocation> + '_ {
        self.in_order.values().filter_map(|base| self.allocations.get(base))
    }

    /// Bytes of the owner that were moved in and not sent away since.
    fn moved(&self, owner: TaskKey) -> u64 {
        let here = self.of_task(owner).filter(|allocation| !allocation.is_away);
        here.map(|allocation| allocation.on_device.total_bytes()).sum()
    }

    /// True if the owner has memory without pages, for which its grant has room.
    pub fn lacks_pages(&self, owner: TaskKey, grant: u64) -> bool {
        self.moved(owner) < grant && self.of_task(owner).any(|allocation| !allocation.unwritten().is_empty())
    }

    /// Detaches an allocation from its site, whose promise its future memory does not use.
    pub fn leave_frame(&mut self, base: u64) {
        if let Some(allocation) = self.allocations.get_mut(&base) {
            allocation.frame = None;
        }
    }

    /// Moves an allocation to another task, which had not announced it; returns its bytes, or 0 if there is none at
    /// `base`.
    pub fn hand_over(&mut self, base: u64, owner: TaskKey) -> u64 {
        self.allocations.get_mut(&base).map_or(0, |allocation| {
            (allocation.owner, allocation.frame) = (owner, None);
            allocation.span.bytes
        })
    }

    /// Records that the host wrote `span`.
    pub fn filled(&mut self, span: Span) {
        let base = self.find_span(span).map(|allocation| allocation.span.start);
        if let Some(allocation) = base.and_then(|base| self.allocations.get_mut(&base)) {
            allocation.on_host.insert(span);
            allocation.on_device.remove(span);
        }
    }

    /// Records that a copy puts data of the host into `span` of managed memory on the device.
    pub fn moved_in(&mut self, span: Span) {
        let base = self.find_span(span).map(|allocation| allocation.span.start);
        let found = base.and_then(|base| self.allocations.get_mut(&base));
        if let Some(allocation) = found.filter(|allocation| allocation.origin.is_rewritten()) {
            allocation.on_host.remove(span);
            allocation.on_device.insert(span);
        }
    }

    /// True if `grant` has room for `span` beside what was moved in before.
    pub fn fits(&self, owner: TaskKey, span: Span, grant: u64) -> bool {
        let mut new = Spans::default();
        new.insert(span);
        if let Some(allocation) = self.find_span(span) {
            allocation.on_device.iter().for_each(|here| new.remove(here));
        }
        self.moved(owner).saturating_add(new.total_bytes()) <= grant
    }

    /// Chooses what to move in, as much as `grant` leaves beside what was moved in before: data of `owner` on the host,
    /// the allocations in `first` (base addresses) before the others, none of those in `not`; then the `unwritten`
    /// memory that is asked for, which moves no data but gets its pages. Records the chosen spans as moved.
    pub fn plan_fetch(
        &mut self,
        owner: TaskKey,
        grant: u64,
        first: &[u64],
        not: &[u64],
        unwritten: Unwritten,
    ) -> Vec<Span> {
        let mut budget = grant.saturating_sub(self.moved(owner));
        let others = self.of_task(owner).map(|allocation| allocation.span.start);
        let order: Vec<u64> =
            first.iter().copied().chain(others.filter(|base| !first.contains(base))).collect();
        let filled = order.iter().map(|base| (*base, false));
        let made = order.iter().filter(|base| match unwritten {
            Unwritten::Nothing => false,
            Unwritten::First => first.contains(base),
            Unwritten::All => true,
        });
        let mut plan = Vec::new();
        for (base, is_unwritten) in filled.chain(made.map(|base| (*base, true))) {
            let Some(allocation) = self.allocations.get_mut(&base).filter(|a| a.owner == owner) else {
                continue;
            };
            if not.contains(&base) || allocation.is_away {
                continue;
            }
            let source = if is_unwritten { allocation.unwritten() } else { allocation.on_host.clone() };
            for span in source.prefix(budget) {
                allocation.on_host.remove(span);
                allocation.on_device.insert(span);
                budget -= span.bytes;
                plan.push(span);
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

    fn span(start: u64, bytes: u64) -> Span {
        Span { start, bytes }
    }

    fn two_buffers() -> Ledger {
        let mut ledger = Ledger::default();
        ledger.insert(span(1000, 100), owner(), None, Origin::REWRITTEN);
        ledger.insert(span(2000, 50), owner(), None, Origin::REWRITTEN);
        ledger
    }

    #[test]
    fn finds_by_interior_pointer_and_not_past_the_end() {
        let ledger = two_buffers();
        assert_eq!(ledger.find(1099).map(|a| a.span.start), Some(1000));
        assert!(ledger.find(1100).is_none() && ledger.find(999).is_none());
        assert!(ledger.find_span(span(1050, 51)).is_none(), "reaches past the end");
        assert!(ledger.find_span(span(1050, u64::MAX)).is_none(), "wraps round");
    }

    #[test]
    fn counts_each_buffer_once_however_many_arguments_point_into_it() {
        let ledger = two_buffers();
        let bytes: u64 = ledger.pointed_at(&[1000, 1001, 5, 2049]).iter().map(|a| a.span.bytes).sum();
        assert_eq!(bytes, 150);
    }

    #[test]
    fn fetches_within_the_grant_and_the_rest_when_it_grows() {
        let mut ledger = two_buffers();
        ledger.filled(span(1000, 100));
        ledger.filled(span(2000, 50));
        assert_eq!(
            ledger.plan_fetch(owner(), 80, &[2000], &[], Unwritten::Nothing),
            [span(2000, 50), span(1000, 30)]
        );
        assert_eq!(ledger.plan_fetch(owner(), 80, &[], &[], Unwritten::Nothing), [], "the grant is used up");
        assert_eq!(ledger.plan_fetch(owner(), 150, &[], &[], Unwritten::Nothing), [span(1030, 70)]);
        ledger.filled(span(1000, 10));
        assert_eq!(
            ledger.plan_fetch(owner(), 150, &[], &[], Unwritten::Nothing),
            [span(1000, 10)],
            "written again, fetched again"
        );
    }

    /// A runtime may give later allocations lower addresses.
    #[test]
    fn buffers_move_in_in_the_order_of_their_allocation() {
        let mut ledger = Ledger::default();
        for start in [3000, 1000, 2000] {
            ledger.insert(span(start, 10), owner(), None, Origin::REWRITTEN);
            ledger.filled(span(start, 10));
        }
        let plan = ledger.plan_fetch(owner(), 30, &[2000], &[], Unwritten::Nothing);
        let starts: Vec<u64> = plan.into_iter().map(|span| span.start).collect();
        assert_eq!(starts, [2000, 3000, 1000]);
    }
}
