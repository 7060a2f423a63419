//! The pinned ring: host memory through which copies of pageable memory go, so that the device reads one piece while the
//! CPU fills the next (specification S-306). Pure but for getting and giving back the memory.
//!
//! Trap: page-locked memory is scarce and slow to get. It is got once, when so much was copied without it that it would
//! have paid (buying after renting for the price, which at worst costs twice the best); if the host has none, copies go as
//! they came from then on.

use crate::runtime::Runtime;

/// Places in the ring: one that the CPU works on and one under way, and as many again against jitter.
pub const PLACES: usize = 4;
/// Copies up to this size go as they came: CUDA stages them without waiting for the device (CUDA runtime API, "API
/// synchronization behavior"; specification S-308).
pub const SMALL_BYTES: u64 = 64 << 10;
const PAGE_BYTES: u64 = 4096;

/// A part of a copy, and the place in the ring that it goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    pub offset: u64,
    pub bytes: u64,
    pub place: usize,
    /// Address of its host memory.
    pub at: u64,
}

/// The ring that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// In all; 0: none.
    pub bytes: u64,
    /// Bytes that are copied without it first.
    pub after: u64,
}

#[derive(Debug)]
pub enum Ring {
    /// So many bytes were copied without.
    NotYet(u64),
    Ready(Places),
    /// The host has none to give, or none is wanted.
    Unavailable,
}

impl Default for Ring {
    fn default() -> Ring {
        Ring::NotYet(0)
    }
}

/// Where the ring's places are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    start: u64,
    /// Of each.
    bytes: u64,
}

impl Ring {
    /// The ring's places for a copy of `bytes`; `None`: it goes without.
    pub fn places(&mut self, runtime: &impl Runtime, wanted: Wanted, bytes: u64) -> Option<Places> {
        if let Ring::NotYet(before) = self {
            if *before < wanted.after {
                *before = before.saturating_add(bytes);
                return None;
            }
            *self = Ring::got(runtime, wanted.bytes);
        }
        match self {
            Ring::Ready(places) => Some(*places),
            Ring::NotYet(_) | Ring::Unavailable => None,
        }
    }

    fn got(runtime: &impl Runtime, wanted: u64) -> Ring {
        let bytes = wanted / PLACES as u64 / PAGE_BYTES * PAGE_BYTES;
        let start = (bytes > 0).then(|| runtime.malloc_host(bytes * PLACES as u64)).flatten();
        start.map_or(Ring::Unavailable, |start| Ring::Ready(Places { start, bytes }))
    }

    /// Gives the memory back, to be got again as the first time. No copy is under way.
    pub fn release(&mut self, runtime: &impl Runtime) {
        if let Ring::Ready(places) = std::mem::take(self) {
            runtime.free_host(places.start);
        }
    }
}

impl Places {
    /// The parts of a copy of `bytes`, in order; each place is used again only `PLACES` parts later.
    pub fn pieces(self, bytes: u64) -> impl Iterator<Item = Piece> {
        let offsets = (0..bytes.div_ceil(self.bytes)).map(move |index| index * self.bytes);
        offsets.zip((0..PLACES).cycle()).map(move |(offset, place)| Piece {
            offset,
            bytes: self.bytes.min(bytes - offset),
            place,
            at: self.start + place as u64 * self.bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_copy_and_take_the_places_in_turns() {
        let places = Places { start: 1000, bytes: 100 };
        let pieces: Vec<Piece> = places.pieces(520).collect();
        assert_eq!(pieces.iter().map(|piece| piece.bytes).sum::<u64>(), 520);
        assert_eq!(pieces.iter().map(|piece| piece.place).collect::<Vec<_>>(), [0, 1, 2, 3, 0, 1]);
        assert_eq!(pieces[5], Piece { offset: 500, bytes: 20, place: 1, at: 1100 });
        assert_eq!(places.pieces(100).count(), 1);
        assert_eq!(places.pieces(0).count(), 0);
    }
}
