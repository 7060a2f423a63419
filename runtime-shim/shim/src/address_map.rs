//! The addresses of the program's allocations, beside the client's ledger, which knows them by number: what the
//! arguments of a call name.
//!
//! Trap: another thread may free an allocation and get its address again for the next one, so an address may be kept
//! only while the lock is held. What outlasts the lock is a [`BufferId`], which then names nothing.

use crate::ledger::{Allocation, Backing, BufferId, Ledger, Origin, Part, Removed};
use crate::runtime::Span;
use crate::state::State;
use crate::task::TaskKey;
use std::collections::BTreeMap;
use std::ops::Deref;

/// A word that points at most this many bytes outside an allocation may mean it (specification S-716).
const NEAR_BYTES: u64 = 64 << 10;

/// A live allocation with its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub id: BufferId,
    pub start: u64,
    pub allocation: Allocation,
}

impl Deref for Found {
    type Target = Allocation;

    fn deref(&self) -> &Allocation {
        &self.allocation
    }
}

impl Found {
    pub fn span(&self) -> Span {
        Span { start: self.start, bytes: self.bytes }
    }

    fn holds(&self, address: u64) -> bool {
        self.span().holds(Span { start: address, bytes: 1 })
    }

    fn is_near(&self, address: u64) -> bool {
        let Span { start, bytes } = self.span();
        let end = start.saturating_add(bytes);
        (start.saturating_sub(NEAR_BYTES)..end.saturating_add(NEAR_BYTES)).contains(&address)
    }
}

/// An allocation taken out, with its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenOut {
    pub found: Found,
    removed: Removed,
}

/// Start addresses of the program's live allocations.
#[derive(Debug, Default)]
pub struct AddressMap {
    by_start: BTreeMap<u64, BufferId>,
    /// By [`BufferId::index`]; those of free indices are stale.
    starts: Vec<u64>,
}

impl State {
    pub fn memory(&self) -> Memory<'_> {
        Memory { ledger: &self.client.ledger, addresses: &self.addresses }
    }

    pub fn insert_memory(&mut self, start: u64, allocation: Allocation) -> BufferId {
        let id = self.client.ledger.insert(allocation);
        self.note_start(id, start);
        id
    }

    fn note_start(&mut self, id: BufferId, start: u64) {
        let AddressMap { by_start, starts } = &mut self.addresses;
        if starts.len() <= id.index() {
            starts.resize(id.index() + 1, 0);
        }
        starts[id.index()] = start;
        // Memory that was freed unseen, such as that of a graph, may still be entered at this address.
        if let Some(old) = by_start.insert(start, id) {
            self.client.ledger.remove(old);
        }
    }

    pub fn remove_memory(&mut self, id: BufferId) -> Option<TakenOut> {
        let found = self.memory().get(id)?;
        self.addresses.by_start.remove(&found.start);
        Some(TakenOut { found, removed: self.client.ledger.remove(id)? })
    }

    /// Restores an allocation that [`Self::remove_memory`] took out.
    pub fn restore_memory(&mut self, taken: TakenOut) {
        let id = self.client.ledger.restore(taken.removed);
        self.note_start(id, taken.found.start);
    }
}

/// The program's live allocations, with their addresses.
#[derive(Debug, Clone, Copy)]
pub struct Memory<'a> {
    ledger: &'a Ledger,
    addresses: &'a AddressMap,
}

impl<'a> Memory<'a> {
    pub fn get(self, id: BufferId) -> Option<Found> {
        let allocation = *self.ledger.get(id)?;
        Some(Found { id, start: self.start_of(id), allocation })
    }

    /// The address of a live allocation.
    fn start_of(self, id: BufferId) -> u64 {
        self.addresses.starts[id.index()]
    }

    /// The allocation that starts at an address.
    pub fn at(self, start: u64) -> Option<Found> {
        self.get(*self.addresses.by_start.get(&start)?)
    }

    /// The allocation that `address` points into.
    pub fn find(self, address: u64) -> Option<Found> {
        let (_, &id) = self.addresses.by_start.range(..=address).next_back()?;
        self.get(id).filter(|found| found.holds(address))
    }

    /// The allocation that holds all of `span`.
    pub fn find_span(self, span: Span) -> Option<Found> {
        self.find(span.start).filter(|found| found.span().holds(span))
    }

    /// The distinct allocations that some words point into, in order of their addresses.
    pub fn pointed_at(self, words: &[u64]) -> Vec<Found> {
        let found: BTreeMap<u64, Found> =
            words.iter().filter_map(|&word| self.find(word)).map(|found| (found.start, found)).collect();
        found.into_values().collect()
    }

    /// Ids of [`Self::pointed_at`].
    pub fn named(self, words: &[u64]) -> Vec<BufferId> {
        self.pointed_at(words).into_iter().map(|found| found.id).collect()
    }

    /// Allocations without memory that some words name. A word that points into no allocation also names awaited
    /// allocations that it misses by at most `NEAR_BYTES`, since programs shift pointers to index from 1. A word
    /// inside an allocation names only that one: where addresses touch, its neighbour would be requested as well, and
    /// could be refused. A near miss never names a dead allocation.
    pub fn absent_among(self, words: &[u64]) -> Vec<Found> {
        if !self.ledger.has_absent() {
            return Vec::new();
        }
        let named = words.iter().flat_map(|&word| match self.find(word) {
            Some(found) => vec![found],
            None => self.awaited_near(word),
        });
        let is_absent =
            |found: &Found| matches!(found.origin.backing(), Some(Backing::Awaited | Backing::Gone));
        in_order(named.filter(is_absent))
    }

    /// Awaited allocations within `NEAR_BYTES` of some words. Where addresses touch, a pointer shifted to index
    /// from 1 points into the neighbour.
    pub fn awaited_beside(self, words: &[u64]) -> Vec<Found> {
        if !self.ledger.has_absent() {
            return Vec::new();
        }
        in_order(words.iter().flat_map(|&word| self.awaited_near(word)))
    }

    /// Awaited allocations that a word misses by at most `NEAR_BYTES`, or points into. Allocations do not overlap, so
    /// these lie side by side.
    fn awaited_near(self, word: u64) -> Vec<Found> {
        let before = self.addresses.by_start.range(..=word.saturating_add(NEAR_BYTES)).rev();
        let near = before.filter_map(|(_, &id)| self.get(id)).take_while(|found| found.is_near(word));
        near.filter(|found| found.origin.backing() == Some(Backing::Awaited)).collect()
    }

    /// The dead allocations that some addresses point into.
    pub fn dead_among(self, addresses: &[u64]) -> Vec<Found> {
        self.pointed_at(addresses).into_iter().filter(|found| self.ledger.is_dead(found.id)).collect()
    }

    /// True if some addresses point into an allocation whose contents are lost.
    pub fn is_lost_among(self, addresses: &[u64]) -> bool {
        self.pointed_at(addresses).iter().any(|found| found.origin.backing() == Some(Backing::Gone))
    }

    pub fn of_task(self, owner: TaskKey) -> impl Iterator<Item = Found> + 'a {
        let all = self.ledger.of_task(owner);
        all.map(move |(id, &allocation)| Found { id, start: self.start_of(id), allocation })
    }

    /// Address and origin of the allocations that the shim mapped itself.
    pub fn mapped(self) -> Vec<(u64, Origin)> {
        self.ledger.mapped().into_iter().map(|(id, origin)| (self.start_of(id), origin)).collect()
    }

    /// Addresses of allocations made while the program had this device set, and whether it has allocations on others.
    pub fn on_set_device(self, device: i32) -> (Vec<u64>, bool) {
        let (own, has_others) = self.ledger.on_set_device(device);
        (own.into_iter().map(|id| self.start_of(id)).collect(), has_others)
    }

    /// The part of an allocation that is all of `span`.
    pub fn part(self, span: Span) -> Option<Part> {
        let found = self.find_span(span)?;
        Some(Part { buffer: found.id, span: Span { start: span.start - found.start, bytes: span.bytes } })
    }

    /// The addresses of parts of live allocations.
    pub fn spans_of(self, parts: Vec<Part>) -> Vec<Span> {
        let span = |part: Part| Span { start: self.start_of(part.buffer) + part.span.start, ..part.span };
        parts.into_iter().map(span).collect()
    }
}

/// Each allocation once, in the order of allocation.
fn in_order(found: impl Iterator<Item = Found>) -> Vec<Found> {
    let by_id: BTreeMap<BufferId, Found> = found.map(|found| (found.id, found)).collect();
    by_id.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Unwritten;
    use eager_proto::request::Slot;
    use proptest::prelude::*;

    fn two_buffers() -> State {
        let owner = TaskKey { slot: Slot::FIRST, generation: 1 };
        let mut state = State::default();
        for (start, bytes) in [(2000, 50), (1000, 100)] {
            state.insert_memory(start, Allocation::new(bytes, owner, None, Origin::REWRITTEN));
        }
        state
    }

    #[test]
    fn finds_by_interior_pointer_and_not_past_the_end() {
        let state = two_buffers();
        let memory = state.memory();
        assert_eq!(memory.find(1099).map(|found| found.start), Some(1000));
        assert!(memory.find(1100).is_none() && memory.find(999).is_none());
        let holder = |start, bytes| memory.find_span(Span { start, bytes });
        assert!(holder(1050, 51).is_none(), "reaches past the end");
        assert!(holder(1050, u64::MAX).is_none(), "wraps round");
    }

    #[test]
    fn counts_each_buffer_once_however_many_arguments_point_into_it() {
        let state = two_buffers();
        let memory = state.memory();
        let bytes: u64 = memory.pointed_at(&[1000, 1001, 5, 2049]).iter().map(|found| found.bytes).sum();
        assert_eq!(bytes, 150);
    }

    #[test]
    fn what_moves_in_is_named_by_its_address() {
        let mut state = two_buffers();
        let written = state.memory().part(Span { start: 1010, bytes: 20 }).expect("allocated");
        state.client.ledger.filled(written);
        let owner = state.memory().find(1010).expect("allocated").owner;
        let plan = state.client.ledger.plan_fetch(owner, 15, &[], &[], Unwritten::Nothing);
        assert_eq!(state.memory().spans_of(plan), [Span { start: 1010, bytes: 15 }]);
    }

    #[test]
    fn an_allocation_that_could_not_be_freed_is_restored_with_its_address() {
        let mut state = two_buffers();
        let id = state.memory().at(1000).expect("allocated").id;
        let taken = state.remove_memory(id).expect("live");
        assert!(state.memory().find(1000).is_none() && state.memory().get(id).is_none());
        state.restore_memory(taken);
        assert_eq!(state.memory().find(1050).map(|found| (found.start, found.bytes)), Some((1000, 100)));
    }

    /// Bytes between allocations, then bytes and state of each: `None` is plain memory.
    fn allocations() -> impl Strategy<Value = Vec<(u64, u64, Option<Backing>)>> {
        let distance = prop_oneof![Just(0), 1..2 * NEAR_BYTES, Just(NEAR_BYTES), Just(3 * NEAR_BYTES)];
        let bytes = prop_oneof![1_u64..1000, Just(NEAR_BYTES), Just(3 * NEAR_BYTES)];
        let state = prop::option::of(prop_oneof![
            3 => Just(Backing::Awaited),
            1 => Just(Backing::Present),
            1 => Just(Backing::Gone),
        ]);
        prop::collection::vec((distance, bytes, state), 0..12)
    }

    proptest! {
        /// Compares with the definition, applied to each allocation.
        #[test]
        fn words_name_what_they_point_into_and_awaited_memory_that_they_miss_narrowly(
            allocations in allocations(),
            words in prop::collection::vec((0_usize..12, -2..3_i64, -1..2_i64), 1..4),
        ) {
            let owner = TaskKey { slot: Slot::FIRST, generation: 1 };
            let mut state = State::default();
            let mut end = 4 * NEAR_BYTES;
            let mut edges = vec![end];
            for (distance, bytes, backing) in allocations {
                let start = end + distance;
                end = start + bytes;
                edges.extend([start, end]);
                let origin = backing.map_or(Origin::Plain, |backing| Origin::Mapped { reserved: bytes, backing });
                state.insert_memory(start, Allocation::new(bytes, owner, None, origin));
            }
            let near = NEAR_BYTES.cast_signed();
            let words: Vec<u64> = words
                .into_iter()
                .map(|(edge, far, by)| edges[edge % edges.len()].saturating_add_signed(far * near + by))
                .collect();
            let memory = state.memory();
            let all: Vec<Found> = memory.of_task(owner).collect();
            let points_into = |found: &Found, word: u64| (found.start..found.start + found.bytes).contains(&word);
            let is_stray = |word: u64| !all.iter().any(|found| points_into(found, word));
            let is_near = |found: &Found, word: u64| {
                (found.start - NEAR_BYTES..found.start + found.bytes + NEAR_BYTES).contains(&word)
            };
            let among = all.iter().copied().filter(|found| match found.origin.backing() {
                None | Some(Backing::Present) => false,
                Some(Backing::Gone) => words.iter().any(|&word| points_into(found, word)),
                Some(Backing::Awaited) => words
                    .iter()
                    .any(|&word| points_into(found, word) || is_stray(word) && is_near(found, word)),
            });
            prop_assert_eq!(memory.absent_among(&words), among.collect::<Vec<_>>());
            let beside = all.iter().copied().filter(|found| {
                found.origin.backing() == Some(Backing::Awaited) && words.iter().any(|&word| is_near(found, word))
            });
            prop_assert_eq!(memory.awaited_beside(&words), beside.collect::<Vec<_>>());
        }
    }
}
