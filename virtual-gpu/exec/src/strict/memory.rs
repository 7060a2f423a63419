//! The memory that kernels may use, and which of its bytes are initialised. It uses no clock, file or address of its
//! own.
//!
//! Trap: the allocator reports the present allocations with [`Memory::update`] before each launch only, so only its
//! identity distinguishes memory that was freed and allocated again in between.

use std::collections::{BTreeMap, VecDeque};

use super::bits::Bits;
use super::finding::{Piece, Problem, SpaceKind};

/// Number of freed pieces that are remembered.
const RELEASED_MAX: usize = 256;

/// Memory further away than this is unrelated to an address, which is then a null pointer, or one of the host's.
const NEAR_BYTES: u64 = 1 << 30;

/// A piece of memory of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub start: u64,
    pub bytes: u64,
    pub kind: SpaceKind,
    /// Distinguishes two allocations at one address.
    pub identity: u64,
}

#[derive(Debug)]
struct Space {
    known: Known,
    /// Initialised bytes; `None` if the memory may be written unseen.
    written: Option<Bits>,
}

impl Space {
    fn new(known: Known) -> Space {
        let written = (known.kind == SpaceKind::Device).then(|| Bits::new(known.bytes));
        Space { known, written }
    }

    fn holds(&self, address: u64, bytes: u64) -> bool {
        address >= self.known.start
            && address.checked_add(bytes).is_some_and(|end| end <= self.known.start + self.known.bytes)
    }

    fn piece(&self) -> Piece {
        let Known { start, bytes, ref kind, .. } = self.known;
        Piece { start, bytes, kind: kind.clone(), released: false }
    }
}

/// All memory except that of single blocks and threads.
#[derive(Debug, Default)]
pub struct Memory {
    spaces: BTreeMap<u64, Space>,
    /// Argument of the last `update`, sorted.
    known: Vec<Known>,
    /// Pieces freed last, the latest first.
    released: VecDeque<Piece>,
}

impl Memory {
    /// Takes over the program's present allocations, given in any order.
    pub fn update(&mut self, mut known: Vec<Known>) {
        known.sort_by_key(|known| known.start);
        if known == self.known {
            return;
        }
        for old in std::mem::take(&mut self.known) {
            let stays = known.binary_search_by_key(&old.start, |k| k.start).is_ok_and(|at| known[at] == old);
            if !stays {
                self.release(old.start);
            }
        }
        for new in &known {
            self.spaces.entry(new.start).or_insert_with(|| Space::new(new.clone()));
        }
        self.known = known;
    }

    /// Adds memory that a kernel has allocated.
    pub(crate) fn allocated(&mut self, start: u64, bytes: u64) {
        let known = Known { start, bytes, kind: SpaceKind::Heap, identity: 0 };
        self.spaces.insert(start, Space::new(known));
    }

    /// Removes the memory that started at `start`.
    pub(crate) fn release(&mut self, start: u64) {
        let Some(space) = self.spaces.remove(&start) else { return };
        self.released.truncate(RELEASED_MAX - 1);
        self.released.push_front(Piece { released: true, ..space.piece() });
    }

    /// Marks bytes as initialised by a copy or a fill.
    pub fn initialise(&mut self, address: u64, bytes: u64) {
        let Some((_, space)) = self.spaces.range_mut(..=address).next_back() else { return };
        if space.holds(address, bytes)
            && let Some(written) = &mut space.written
        {
            written.insert(address - space.known.start, bytes);
        }
    }

    /// Marks all bytes as initialised, because memory may now be written unseen.
    pub fn initialise_all(&mut self) {
        self.spaces.values_mut().for_each(|space| space.written = None);
    }

    /// Returns the memory that holds an address.
    fn at(&self, address: u64) -> Option<&Space> {
        self.spaces.range(..=address).next_back().map(|(_, space)| space).filter(|s| s.holds(address, 1))
    }

    /// Returns the kind of the memory that holds an address.
    pub(crate) fn kind_at(&self, address: u64) -> Option<SpaceKind> {
        self.at(address).map(|space| space.known.kind.clone())
    }

    /// Returns kind and start of the memory that holds an address.
    pub(crate) fn holding(&self, address: u64) -> Option<(SpaceKind, u64)> {
        self.at(address).map(|space| (space.known.kind.clone(), space.known.start))
    }

    /// Judges an access whose address was computed from `base` (0: unknown). `None` if no memory holds its address.
    pub(crate) fn judge(
        &mut self,
        base: u64,
        address: u64,
        bytes: u64,
        reads: bool,
        writes: bool,
    ) -> Option<Verdict> {
        let from = self.at(base).filter(|space| space.known.kind != SpaceKind::Mapped);
        if let Some(space) = from.filter(|space| !space.holds(address, bytes)) {
            return Some(Err(Problem::Outside(Some(space.piece()))));
        }
        let first = self.at(address)?;
        let outside = !first.holds(address, bytes) && !self.joined(address, bytes);
        if outside {
            return Some(Err(Problem::Outside(Some(first.piece()))));
        }
        let start = first.known.start;
        let space = self.spaces.get_mut(&start).expect("found just now");
        let Some(written) = &mut space.written else { return Some(Ok(())) };
        let offset = address - start;
        let unknown = reads && !written.contains(offset, bytes);
        if writes || unknown {
            // Marks uninitialised bytes too, so that they are reported once.
            written.insert(offset, bytes);
        }
        Some(if unknown { Err(Problem::Uninitialised(space.piece())) } else { Ok(()) })
    }

    /// True if mapped memory without a gap holds the access.
    fn joined(&self, address: u64, bytes: u64) -> bool {
        let end = address.saturating_add(bytes);
        let mut at = address;
        while at < end {
            match self.at(at) {
                Some(space) if space.known.kind == SpaceKind::Mapped => {
                    at = space.known.start + space.known.bytes
                }
                _ => return false,
            }
        }
        true
    }

    /// Returns freed memory that the address hits, else the memory nearest to it.
    pub(crate) fn nearest(&self, address: u64) -> Option<Piece> {
        let hit = |piece: &&Piece| (piece.start..piece.start + piece.bytes).contains(&address);
        if let Some(piece) = self.released.iter().find(hit) {
            return Some(piece.clone());
        }
        let before = self.spaces.range(..=address).next_back().map(|(_, space)| space);
        let after = self.spaces.range(address..).next().map(|(_, space)| space);
        let distance = |space: &&Space| {
            let Known { start, bytes, .. } = space.known;
            if address < start { start - address } else { address - (start + bytes) }
        };
        let near = |space: &&Space| distance(space) < NEAR_BYTES;
        [before, after].into_iter().flatten().filter(near).min_by_key(distance).map(Space::piece)
    }
}

/// Result of judging an access.
pub(crate) type Verdict = Result<(), Problem>;

#[cfg(test)]
mod tests {
    use super::*;

    fn known(start: u64, bytes: u64, kind: SpaceKind, identity: u64) -> Known {
        Known { start, bytes, kind, identity }
    }

    fn memory() -> Memory {
        let mut memory = Memory::default();
        memory.update(vec![
            known(0x2000, 0x100, SpaceKind::Device, 2),
            known(0x1000, 0x100, SpaceKind::Managed, 1),
            known(0x3000, 0x1000, SpaceKind::Mapped, 3),
            known(0x4000, 0x1000, SpaceKind::Mapped, 4),
        ]);
        memory
    }

    fn start(verdict: Option<Verdict>) -> u64 {
        match verdict {
            Some(Err(Problem::Outside(Some(piece)) | Problem::Uninitialised(piece))) => piece.start,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_access_stays_in_the_memory_its_address_comes_from() {
        let mut memory = memory();
        assert_eq!(memory.judge(0x1000, 0x10fc, 4, true, false), Some(Ok(())));
        assert_eq!(start(memory.judge(0x1000, 0x10fd, 4, true, false)), 0x1000);
        assert_eq!(start(memory.judge(0x1000, 0x2000, 4, false, true)), 0x1000, "into somebody else's");
        assert_eq!(memory.judge(0, 0x2000, 4, false, true), Some(Ok(())), "nobody knows where from");
        assert_eq!(memory.judge(0, 0x1100, 4, true, false), None);
        assert_eq!(memory.nearest(0x1100).map(|piece| piece.start), Some(0x1000));
        assert_eq!(memory.judge(0x3000, 0x3ffe, 4, true, false), Some(Ok(())), "mapped memory is joined");
        assert_eq!(start(memory.judge(0x3000, 0x4ffe, 4, true, false)), 0x4000);
    }

    #[test]
    fn bytes_of_devices_need_a_value_and_others_have_one() {
        let mut memory = memory();
        assert_eq!(start(memory.judge(0, 0x2010, 8, true, false)), 0x2000);
        assert_eq!(memory.judge(0, 0x2010, 8, true, false), Some(Ok(())), "said once");
        memory.initialise(0x2020, 4);
        assert_eq!(memory.judge(0, 0x2020, 4, true, false), Some(Ok(())));
        assert_eq!(start(memory.judge(0, 0x2020, 8, true, false)), 0x2000);
        assert_eq!(memory.judge(0, 0x2040, 4, false, true), Some(Ok(())));
        assert_eq!(memory.judge(0, 0x2040, 4, true, true), Some(Ok(())));
        memory.initialise_all();
        assert_eq!(memory.judge(0, 0x2080, 4, true, false), Some(Ok(())));
    }

    #[test]
    fn freed_memory_is_remembered_and_new_memory_there_is_new() {
        let mut memory = memory();
        memory.initialise(0x2000, 0x100);
        memory.update(vec![known(0x1000, 0x100, SpaceKind::Managed, 1)]);
        assert_eq!(memory.judge(0x2000, 0x2000, 4, true, false), None);
        assert!(memory.nearest(0x2000).is_some_and(|piece| piece.released && piece.start == 0x2000));
        memory.update(vec![known(0x2000, 0x100, SpaceKind::Device, 9)]);
        assert_eq!(start(memory.judge(0, 0x2000, 4, true, false)), 0x2000, "its bytes have no value again");
    }
}
