//! Barriers of a block at which some threads wait in one place of the program and others in another. Pure.
//!
//! A GPU counts the threads that wait, and takes no notice of where; CUDA leaves open what happens then (programming
//! guide, "Synchronization Functions"). Trap: only threads of a barrier that all of them reach are compared, so those
//! that have exited, and barriers with a count, must not be passed on.

use core::fmt;

/// Barriers that the threads of a block have passed.
#[derive(Debug, Default)]
pub(crate) struct Meetings {
    /// Number of barriers that each thread has passed, and the maximum.
    passed: Vec<u32>,
    most: u32,
    /// The first thread that passed the latest barrier, and the address of the text of its place.
    first: (u32, usize),
}

impl Meetings {
    /// Resets the state for a new block.
    pub fn begin(&mut self, threads: usize) {
        self.passed.clear();
        self.passed.resize(threads, 0);
        self.most = 0;
    }

    /// Called when a thread continues after a barrier of its whole block, with the address of the text of its place, or
    /// 0. Returns a thread that has passed the same barrier in another place, with that place.
    pub fn passes(&mut self, thread: u32, place: usize) -> Option<(u32, usize)> {
        let passed = self.passed.get_mut(thread as usize)?;
        *passed += 1;
        if *passed > self.most {
            self.most = *passed;
            self.first = (thread, place);
        }
        let latest = *passed == self.most;
        Some(self.first).filter(|&(_, other)| latest && other != place && other != 0 && place != 0)
    }
}

/// Two threads of a block that wait at one barrier in different places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parted {
    pub block: [u32; 3],
    pub threads: [[u32; 3]; 2],
    /// `file:line` of each.
    pub places: [String; 2],
}

impl fmt::Display for Parted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [bx, by, bz] = self.block;
        let [[x, y, z], [other_x, other_y, other_z]] = self.threads;
        let [place, other] = &self.places;
        write!(
            f,
            "{place}: thread ({x}, {y}, {z}) of block ({bx}, {by}, {bz}) waits at this barrier, thread \
             ({other_x}, {other_y}, {other_z}) at that of {other}; all threads of a block must call the same \
             __syncthreads(), or a GPU may hang or give wrong results"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_barrier_in_two_places_is_found() {
        let mut meetings = Meetings::default();
        meetings.begin(3);
        assert_eq!([0, 1, 2].map(|thread| meetings.passes(thread, 7)), [None; 3]);
        assert_eq!([2, 0].map(|thread| meetings.passes(thread, 8)), [None; 2]);
        assert_eq!(meetings.passes(1, 9), Some((2, 8)));
    }

    #[test]
    fn threads_that_have_exited_and_places_without_a_text_are_not_compared() {
        let mut meetings = Meetings::default();
        meetings.begin(3);
        assert_eq!([0, 1, 2].map(|thread| meetings.passes(thread, 7)), [None; 3]);
        assert_eq!([0, 1].map(|thread| meetings.passes(thread, 8)), [None; 2]);
        assert_eq!([0, 1].map(|thread| meetings.passes(thread, 9)), [None; 2]);
        assert_eq!([meetings.passes(0, 0), meetings.passes(1, 7)], [None; 2]);
        meetings.begin(2);
        assert_eq!([meetings.passes(1, 5), meetings.passes(0, 5)], [None; 2]);
    }
}
