//! Computes the bytes that a launch uses and its access class, from its arguments and the compiler's facts about
//! them.
//!
//! Trap: the class of a launch is that of its worst buffer, small buffers excepted. Without the exception, a small
//! table that every block reads again would make a kernel that streams through gigabytes cyclic; a small buffer fits
//! on the device in any case.

use eager_abi::{
    ACCESS_CYCLIC, ACCESS_ONE_PASS, ACCESS_SPARSE, ACCESS_UNUSED, ARG_ACCESS_BITS, ARG_ACCESS_SHIFT,
    ARG_READ, ARG_REPEATED, ARG_WRITTEN,
};
use eager_units::AccessClass;
use std::collections::BTreeMap;

/// A buffer smaller than all bytes used divided by this does not affect the class (specification S-404).
const SMALL_SHARE: u64 = 16;

/// Memory use of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// Sum of the allocations behind the launch's arguments, without those that it never touches.
    pub bytes: u64,
    pub access: AccessClass,
}

/// Flags for each 8-byte word of the arguments; all 0 where the table and the words disagree.
pub fn flags_by_word(sizes: &[u32], flags: &[u32], words: usize) -> Vec<u32> {
    let counts = sizes.iter().map(|&size| size as usize / 8);
    let by_word: Vec<u32> =
        counts.zip(flags).flat_map(|(count, &flags)| std::iter::repeat_n(flags, count)).collect();
    if by_word.len() == words { by_word } else { vec![0; words] }
}

/// Sums up the use of a launch. `words`: the allocation (its name and bytes) that each argument word points into, if any,
/// and the word's flags.
pub fn used<B: Ord>(words: impl Iterator<Item = (Option<(B, u64)>, u32)>) -> Used {
    let mut buffers: BTreeMap<B, (u64, AccessClass)> = BTreeMap::new();
    for (allocation, flags) in words {
        let (Some((buffer, bytes)), Some(access)) = (allocation, access_of(flags)) else { continue };
        let known = buffers.entry(buffer).or_insert((bytes, access));
        known.1 = worse(known.1, access);
    }
    let bytes = buffers.values().fold(0u64, |sum, (bytes, _)| sum.saturating_add(*bytes));
    let large = buffers.values().filter(|(one, _)| *one >= bytes / SMALL_SHARE);
    let access = large.map(|(_, access)| *access).reduce(worse).unwrap_or(AccessClass::Unknown);
    Used { bytes, access }
}

/// Order in which buffers should be moved in before a launch; equal ones in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order<B> {
    /// Buffers that the launch reads, then those that it only writes, whose contents from the host are probably
    /// overwritten.
    pub first: Vec<B>,
    /// Buffers of which the launch touches few pages or none: page faults move those in, and the rest would only take
    /// room.
    pub sparse: Vec<B>,
}

impl<B> Default for Order<B> {
    fn default() -> Order<B> {
        Order { first: Vec::new(), sparse: Vec::new() }
    }
}

/// The order for moving in the buffers that these argument words (the buffer's name, and flags) point into.
pub fn order<B: Ord + Copy>(words: impl Iterator<Item = (Option<B>, u32)>) -> Order<B> {
    // By buffer: whether it is read, and whether it is touched densely.
    let mut buffers: BTreeMap<B, (bool, bool)> = BTreeMap::new();
    for (buffer, flags) in words {
        let Some(buffer) = buffer else { continue };
        let dense = !matches!(access_of(flags), None | Some(AccessClass::Sparse));
        // With neither flag the use is unknown, so it may be read.
        let read = flags & ARG_READ != 0 || flags & ARG_WRITTEN == 0;
        let known = buffers.entry(buffer).or_default();
        *known = (known.0 | read, known.1 | dense);
    }
    let chosen = |wanted: (bool, bool)| {
        let matching = buffers.iter().filter(move |(_, found)| **found == wanted);
        matching.map(|(&buffer, _)| buffer).collect::<Vec<_>>()
    };
    Order {
        first: [chosen((true, true)), chosen((false, true))].concat(),
        sparse: [chosen((true, false)), chosen((false, false))].concat(),
    }
}

/// The access class in an argument's flags; `None`: the kernel does not touch the argument's buffer.
fn access_of(flags: u32) -> Option<AccessClass> {
    let class = flags >> ARG_ACCESS_SHIFT & ((1 << ARG_ACCESS_BITS) - 1);
    match class {
        ACCESS_UNUSED => None,
        _ if flags & ARG_REPEATED != 0 => Some(AccessClass::Cyclic),
        ACCESS_ONE_PASS => Some(AccessClass::OnePass),
        ACCESS_CYCLIC => Some(AccessClass::Cyclic),
        ACCESS_SPARSE => Some(AccessClass::Sparse),
        _ => Some(AccessClass::Unknown),
    }
}

/// The class that over-subscription slows more.
fn worse(one: AccessClass, other: AccessClass) -> AccessClass {
    let rank = |access: AccessClass| match access {
        AccessClass::Sparse => 0,
        AccessClass::OnePass => 1,
        AccessClass::Unknown => 2,
        AccessClass::Cyclic => 3,
    };
    if rank(other) > rank(one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_abi::{ACCESS_UNKNOWN, ARG_POINTER};

    fn flags(class: u32) -> u32 {
        ARG_POINTER | class << ARG_ACCESS_SHIFT
    }

    fn of(words: &[(u64, u64, u32)]) -> Used {
        used(words.iter().map(|&(base, bytes, flags)| (Some((base, bytes)), flags)))
    }

    #[test]
    fn unused_buffers_do_not_count_and_the_worst_decides() {
        let launch = [
            (0x1000, 100, flags(ACCESS_ONE_PASS)),
            (0x2000, 100, flags(ACCESS_SPARSE)),
            (0x3000, 900, flags(ACCESS_UNUSED)),
        ];
        assert_eq!(of(&launch), Used { bytes: 200, access: AccessClass::OnePass });
        let worst = |class| of(&[launch[0], (0x4000, 50, flags(class))]).access;
        assert_eq!(worst(ACCESS_CYCLIC), AccessClass::Cyclic);
        assert_eq!(worst(ACCESS_UNKNOWN), AccessClass::Unknown);
    }

    #[test]
    fn small_tables_have_no_say_and_repetition_is_cyclic() {
        let table = (0x2000, 64, flags(ACCESS_CYCLIC));
        assert_eq!(of(&[(0x1000, 1 << 20, flags(ACCESS_ONE_PASS)), table]).access, AccessClass::OnePass);
        let again = (0x1000, 1 << 20, flags(ACCESS_ONE_PASS) | ARG_REPEATED);
        assert_eq!(of(&[again, table]).access, AccessClass::Cyclic);
        let unused = flags(ACCESS_UNUSED) | ARG_REPEATED;
        assert_eq!(of(&[(0x1000, 5, unused)]), Used { bytes: 0, access: AccessClass::Unknown });
    }

    #[test]
    fn one_allocation_counts_once_with_its_worst_use() {
        let both = [(0x1000, 100, flags(ACCESS_UNUSED)), (0x1000, 100, flags(ACCESS_ONE_PASS))];
        assert_eq!(of(&both), Used { bytes: 100, access: AccessClass::OnePass });
        assert_eq!(
            used::<u64>([(None, 0), (None, 1)].into_iter()),
            Used { bytes: 0, access: AccessClass::Unknown }
        );
    }

    #[test]
    fn what_is_read_moves_in_before_what_is_written_and_sparse_buffers_do_not() {
        let words = [
            (Some(1), ARG_WRITTEN | flags(ACCESS_ONE_PASS)),
            (Some(2), ARG_READ | flags(ACCESS_ONE_PASS)),
            (Some(3), ARG_READ | flags(ACCESS_SPARSE)),
            (Some(4), 0),
            (Some(5), flags(ACCESS_UNUSED)),
            (Some(6), ARG_READ | flags(ACCESS_SPARSE)),
            (Some(6), ARG_READ | flags(ACCESS_CYCLIC)),
            (None, ARG_READ),
        ];
        assert_eq!(order(words.into_iter()), Order { first: vec![2, 4, 6, 1], sparse: vec![3, 5] });
    }

    #[test]
    fn words_of_a_structure_share_its_flags() {
        assert_eq!(flags_by_word(&[8, 20, 4, 8], &[1, 2, 3, 4], 4), [1, 2, 2, 4]);
        assert_eq!(flags_by_word(&[8, 8], &[1, 2], 1), [0]);
        assert_eq!(flags_by_word(&[8, 8], &[1], 2), [0, 0]);
    }
}
