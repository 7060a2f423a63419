//! Chooses the sizes of programs, the pairs of programs, and the memory that the scheduler may use. Pure.

use crate::measure::timed_run;
use clap::ValueEnum;
use eager_rodinia::{Program, Run};

/// How large the programs are where time matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sizes {
    /// Instant: shows that the steps work
    Smoke,
    /// Some tens of MiB
    Small,
    /// The smallest published configuration of each program, 1 to 8 GiB (bfs stays small: its input is text)
    Medium,
}

impl Sizes {
    pub fn word(self) -> &'static str {
        match self {
            Sizes::Smoke => "smoke",
            Sizes::Small => "small",
            Sizes::Medium => "medium",
        }
    }
}

/// Program whose input is text: reading a graph of 32 M nodes takes longer than everything else together.
const TEXT_INPUT: &str = "bfs";

pub fn run_of(program: &Program, sizes: Sizes) -> &Run {
    match sizes {
        Sizes::Smoke => &program.smoke,
        Sizes::Medium if program.name != TEXT_INPUT => {
            program.configurations.first().map_or(&program.small, |configuration| &configuration.full)
        }
        Sizes::Small | Sizes::Medium => timed_run(program),
    }
}

/// Pairs each program with its successor, in a ring; two programs make one pair.
pub fn pairs(count: usize) -> Vec<(usize, usize)> {
    match count {
        0 | 1 => Vec::new(),
        2 => vec![(0, 1)],
        _ => (0..count).map(|first| (first, (first + 1) % count)).collect(),
    }
}

/// Bytes that the daemon reserves for the context of a client on a GPU (`context_bytes`).
pub const CONTEXT_BYTES: u64 = 512 << 20;

/// Returns a capacity, of at most `most` bytes, in which either program fits and both together do not.
pub fn pressed(first: u64, second: u64, most: u64) -> u64 {
    let (large, small) = (first.max(second), first.min(second));
    (large + small / 2 + 2 * CONTEXT_BYTES).min(most)
}

/// Returns a capacity in which the largest program fits, and otherwise about a third of all programs together.
///
/// It has room for the contexts of half of the programs. With room for all contexts, programs smaller than a context
/// would all fit, because a program that has not begun leaves the room of its context to the others.
pub fn squeezed(bytes: &[u64], most: u64) -> u64 {
    let (sum, largest) = (bytes.iter().sum::<u64>(), bytes.iter().copied().max().unwrap_or(0));
    let contexts = bytes.len().div_ceil(2).max(2) as u64;
    (largest.max(sum / 3) + contexts * CONTEXT_BYTES).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_meets_two_others() {
        assert_eq!(pairs(3), [(0, 1), (1, 2), (2, 0)]);
        assert_eq!(pairs(2), [(0, 1)]);
        assert!(pairs(1).is_empty());
    }

    #[test]
    fn either_fits_and_both_do_not() {
        assert_eq!(pressed(10, 4, u64::MAX), 12 + 2 * CONTEXT_BYTES);
        assert_eq!(pressed(4, 10, u64::MAX), 12 + 2 * CONTEXT_BYTES);
        assert_eq!(pressed(60 << 30, 60 << 30, 80 << 30), 80 << 30);
    }

    #[test]
    fn about_a_third_of_many_fit_and_each_of_them() {
        assert_eq!(squeezed(&[10; 6], u64::MAX), 20 + 3 * CONTEXT_BYTES);
        assert_eq!(squeezed(&[90, 2, 2], u64::MAX), 90 + 2 * CONTEXT_BYTES);
        assert_eq!(squeezed(&[60 << 30; 2], 80 << 30), 60 << 30 | 1 << 30);
        assert_eq!(squeezed(&[60 << 30; 4], 61 << 30), 61 << 30);
    }

    #[test]
    fn at_all_sizes_each_program_fits_and_half_of_them_do_not() {
        for sizes in [Sizes::Smoke, Sizes::Small, Sizes::Medium] {
            let mut bytes: Vec<u64> =
                eager_rodinia::programs().iter().map(|program| run_of(program, sizes).bytes).collect();
            bytes.sort_unstable();
            let capacity = squeezed(&bytes, 16 << 30);
            let with_contexts = |bytes: &[u64]| bytes.iter().map(|bytes| bytes + CONTEXT_BYTES).sum::<u64>();
            let (half, largest) = bytes.split_at(bytes.len() / 2);
            assert!(with_contexts(&largest[largest.len() - 1..]) <= capacity, "{}", sizes.word());
            assert!(with_contexts(largest) > capacity && half.len() < largest.len(), "{}", sizes.word());
        }
    }

    /// For any size: when half of the programs are running, one more of the same size does not fit whole.
    #[test]
    fn half_of_equal_programs_leave_no_room_for_one_more() {
        for (count, bytes) in [(7, 1), (7, CONTEXT_BYTES / 20), (7, 3 * CONTEXT_BYTES), (2, 5), (3, 5)] {
            let there = (count / 2) as u64;
            let taken = there * (bytes + CONTEXT_BYTES);
            assert!(
                squeezed(&vec![bytes; count], u64::MAX) < taken + bytes + CONTEXT_BYTES,
                "{count} of {bytes}"
            );
        }
    }

    #[test]
    fn published_sizes_are_for_cards_and_small_ones_for_all() {
        for program in eager_rodinia::programs() {
            let [smoke, small, medium] =
                [Sizes::Smoke, Sizes::Small, Sizes::Medium].map(|sizes| run_of(program, sizes).bytes);
            assert!(smoke < small && small <= medium, "{}", program.name);
            assert!(medium < 16 << 30, "{} fits the capacity that is told", program.name);
        }
    }
}
