//! Map of the blocks of device memory that the kernels of one or more launches read and wrote.
//!
//! Trap: kernels must not store here: workers that mark one map would contend for its few cache lines. Each worker
//! marks a private map and merges it into this one when its share of the grid is done.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Accesses to one memory block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch {
    pub read: bool,
    pub written: bool,
}

/// One entry per `1 << shift` bytes of the device address range that starts at `base`, and one for everything outside.
/// Marks accumulate over launches until [`TouchMap::reset`].
#[derive(Debug)]
pub struct TouchMap {
    base: u64,
    shift: u32,
    /// Two bytes per block (read, written); the last pair is "outside the range".
    marks: Vec<AtomicU8>,
}

impl TouchMap {
    /// Creates a map of `bytes` of memory from address `base`, in blocks of `1 << shift` bytes (the last one may be
    /// partial).
    ///
    /// # Panics
    /// If blocks are smaller than 64 bytes: kernels mark only the two ends of a copy up to that size.
    pub fn new(base: u64, bytes: u64, shift: u32) -> Self {
        assert!(shift >= 6, "blocks of a touch map have 64 bytes at least");
        let blocks = usize::try_from(bytes.div_ceil(1 << shift)).expect("a touch map fits the address space");
        let marks = std::iter::repeat_with(|| AtomicU8::new(0)).take(2 * (blocks + 1)).collect();
        TouchMap { base, shift, marks }
    }

    pub fn base(&self) -> u64 {
        self.base
    }

    /// log2 of the block size in bytes.
    pub fn shift(&self) -> u32 {
        self.shift
    }

    /// Number of blocks in the range.
    pub fn block_count(&self) -> usize {
        self.marks.len() / 2 - 1
    }

    pub fn reset(&self) {
        self.marks.iter().for_each(|mark| mark.store(0, Relaxed));
    }

    /// Returns the blocks touched, by rising index.
    pub fn touched(&self) -> impl Iterator<Item = (usize, Touch)> + '_ {
        (0..self.block_count()).map(|block| (block, self.entry(block))).filter(|(_, t)| t.read || t.written)
    }

    /// Returns accesses that fell outside the range: device variables of the program, wild pointers.
    pub fn outside(&self) -> Touch {
        self.entry(self.block_count())
    }

    fn entry(&self, block: usize) -> Touch {
        Touch {
            read: self.marks[2 * block].load(Relaxed) != 0,
            written: self.marks[2 * block + 1].load(Relaxed) != 0,
        }
    }

    /// Length in bytes of the private map that a worker needs.
    pub(crate) fn mark_count(&self) -> usize {
        self.marks.len()
    }

    /// Adds a worker's marks and clears them.
    pub(crate) fn merge(&self, private: &mut [u8]) {
        const CHUNK: usize = 64;
        for (shared, private) in self.marks.chunks(CHUNK).zip(private.chunks_mut(CHUNK)) {
            if private.iter().all(|&mark| mark == 0) {
                continue;
            }
            for (shared, private) in shared.iter().zip(private) {
                if std::mem::take(private) != 0 {
                    shared.store(1, Relaxed);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_accumulates_and_reset_forgets() {
        let map = TouchMap::new(0x1000, 3 * 4096 + 1, 12);
        assert_eq!(map.block_count(), 4);
        let mut private = vec![0; map.mark_count()];
        private[2 * 3] = 1;
        map.merge(&mut private);
        assert!(private.iter().all(|&m| m == 0), "a worker's map is clean for its next launch");
        private[2 * 3 + 1] = 1;
        private[2 * 4] = 1;
        map.merge(&mut private);
        assert_eq!(map.touched().collect::<Vec<_>>(), [(3, Touch { read: true, written: true })]);
        assert_eq!(map.outside(), Touch { read: true, written: false });
        map.reset();
        assert_eq!(map.touched().count(), 0);
        assert_eq!(map.outside(), Touch { read: false, written: false });
    }
}
