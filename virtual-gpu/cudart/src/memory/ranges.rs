//! Free addresses of the arena: first fit over a map of free ranges. Pure.
//!
//! Trap: the hole between allocations must stay. Programs read a little outside their arrays (a real GPU permits that),
//! and such a read must not count as use of the neighbour.

use std::collections::BTreeMap;

/// Free address ranges, coalesced.
#[derive(Debug)]
pub struct FreeRanges {
    /// Start to length in bytes.
    free: BTreeMap<u64, u64>,
    /// Every allocation is rounded up to, and starts at, a multiple of this.
    unit_bytes: u64,
    /// Bytes left unused after each allocation.
    hole_bytes: u64,
}

impl FreeRanges {
    /// `start` and `bytes` must be multiples of `unit_bytes`, a power of two.
    pub fn new(start: u64, bytes: u64, unit_bytes: u64, hole_bytes: u64) -> FreeRanges {
        let hole_bytes = hole_bytes.next_multiple_of(unit_bytes);
        // Leaves a hole before the first allocation too.
        FreeRanges {
            free: BTreeMap::from([(start + hole_bytes, bytes - hole_bytes)]),
            unit_bytes,
            hole_bytes,
        }
    }

    /// Allocates at least `bytes` and returns the address; `None` when no free range is long enough.
    pub fn allocate(&mut self, bytes: u64) -> Option<u64> {
        let taken_bytes = self.taken_bytes(bytes)?;
        let (&start, &length) = self.free.iter().find(|&(_, &length)| length >= taken_bytes)?;
        self.free.remove(&start);
        if length > taken_bytes {
            self.free.insert(start + taken_bytes, length - taken_bytes);
        }
        Some(start)
    }

    /// Frees a range that [`FreeRanges::allocate`] returned for `bytes`.
    pub fn release(&mut self, address: u64, bytes: u64) {
        let (mut start, mut length) =
            (address, self.taken_bytes(bytes).expect("was allocated with this size"));
        if let Some((&before, &before_length)) = self.free.range(..start).next_back() {
            assert!(before + before_length <= start, "address {start:#x} released twice");
            if before + before_length == start {
                self.free.remove(&before);
                (start, length) = (before, before_length + length);
            }
        }
        if let Some(after_length) = self.free.remove(&(start + length)) {
            length += after_length;
        }
        self.free.insert(start, length);
    }

    fn taken_bytes(&self, bytes: u64) -> Option<u64> {
        bytes.max(1).checked_next_multiple_of(self.unit_bytes)?.checked_add(self.hole_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNIT_BYTES: u64 = 0x1000;
    const HOLE_BYTES: u64 = 0x2000;
    const ARENA: std::ops::Range<u64> = 0x10_0000..0x40_0000;

    proptest! {
        /// `Some(bytes)`: allocate. `None`: release the oldest allocation.
        #[test]
        fn allocations_never_meet_and_all_of_it_comes_back(
            steps in proptest::collection::vec(proptest::option::of(1_u64..0x5_0000), 1..200)
        ) {
            let mut ranges = FreeRanges::new(ARENA.start, ARENA.end - ARENA.start, UNIT_BYTES, HOLE_BYTES);
            let mut live: Vec<(u64, u64)> = Vec::new();
            for step in steps {
                match step {
                    Some(bytes) => if let Some(address) = ranges.allocate(bytes) {
                        prop_assert!(address % UNIT_BYTES == 0);
                        prop_assert!(ARENA.start + HOLE_BYTES <= address && address + bytes <= ARENA.end - HOLE_BYTES);
                        for &(other, other_bytes) in &live {
                            let apart = address + bytes + HOLE_BYTES <= other
                                || other + other_bytes + HOLE_BYTES <= address;
                            prop_assert!(apart, "{address:#x}+{bytes:#x} and {other:#x}+{other_bytes:#x}");
                        }
                        live.push((address, bytes));
                    },
                    None if !live.is_empty() => {
                        let (address, bytes) = live.remove(0);
                        ranges.release(address, bytes);
                    }
                    None => {}
                }
            }
            for (address, bytes) in live {
                ranges.release(address, bytes);
            }
            let whole_bytes = ARENA.end - ARENA.start - 2 * HOLE_BYTES;
            prop_assert_eq!(ranges.allocate(whole_bytes), Some(ARENA.start + HOLE_BYTES));
        }
    }

    #[test]
    fn allocations_are_apart_by_a_hole_and_come_back() {
        let mut ranges = FreeRanges::new(0x10_0000, 0x10_0000, 0x1000, 0x4000);
        let first = ranges.allocate(1).unwrap();
        let second = ranges.allocate(0x1001).unwrap();
        assert_eq!((first, second), (0x10_4000, 0x10_9000));
        ranges.release(first, 1);
        assert_eq!(ranges.allocate(0x1000), Some(first), "the hole it left is used again");
        ranges.release(second, 0x1001);
        ranges.release(first, 0x1000);
        let whole = 0x10_0000 - 0x4000 - 0x4000;
        assert_eq!(ranges.allocate(whole), Some(first), "free ranges coalesce on both sides");
    }

    #[test]
    fn what_does_not_fit_is_none_even_near_overflow() {
        let mut ranges = FreeRanges::new(0, 0x10_0000, 0x1000, 0x1000);
        assert_eq!(ranges.allocate(0x10_0000), None);
        assert_eq!(ranges.allocate(u64::MAX), None);
        assert!(ranges.allocate(0x1000).is_some());
    }
}
