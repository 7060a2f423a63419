//! The pinned ring: host memory for copies of pageable memory, so that the device reads one piece while the CPU fills
//! the next (specification S-306). Pure except for allocating and freeing that memory.
//!
//! Page-locked memory is scarce and slow to allocate. The ring is allocated once, when so many bytes were copied
//! without it that it would have paid off (buying after renting for the price, which costs at most twice the
//! optimum). If the host has none, copies are forwarded unchanged from then on.

use crate::runtime::Runtime;

/// Places in the ring: one that the CPU works on, one under way, and as many again against jitter.
pub const PLACES: usize = 4;
/// Copies up to this many bytes are forwarded: CUDA stages them without waiting for the device (CUDA runtime API,
/// "API synchronization behavior"; specification S-308).
pub const SMALL_BYTES: u64 = 64 << 10;
const PAGE_BYTES: u64 = 4096;

/// A part of a copy, and the place in the ring that it passes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    pub offset: u64,
    pub bytes: u64,
    pub place: usize,
    /// Address of the place's host memory.
    pub at: u64,
}

/// Settings of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Bytes of the whole ring; 0: none.
    pub bytes: u64,
    /// Bytes to be copied without the ring before it is allocated.
    pub after: u64,
}

#[derive(Debug)]
pub enum Ring {
    /// Not allocated yet; this many bytes were copied without it.
    NotYet(u64),
    Ready(Places),
    /// The host has no memory for it, or no ring is wanted.
    Unavailable,
}

impl Default for Ring {
    fn default() -> Ring {
        Ring::NotYet(0)
    }
}

/// Location of the ring's places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    start: u64,
    /// Bytes of each place.
    bytes: u64,
}

impl Ring {
    /// The ring's places for a copy of `bytes`; `None`: the copy does not use the ring.
    pub fn places(&mut self, runtime: &impl Runtime, wanted: Wanted, bytes: u64) -> Option<Places> {
        if let Ring::NotYet(before) = self {
            if *before < wanted.after {
                *before = before.saturating_add(bytes);
                return None;
            }
            *self = Ring::allocate(runtime, wanted.bytes);
        }
        match self {
            Ring::Ready(places) => Some(*places),
            Ring::NotYet(_) | Ring::Unavailable => None,
        }
    }

    fn allocate(runtime: &impl Runtime, wanted: u64) -> Ring {
        let bytes = wanted / PLACES as u64 / PAGE_BYTES * PAGE_BYTES;
        let start = (bytes > 0).then(|| runtime.malloc_host(bytes * PLACES as u64)).flatten();
        start.map_or(Ring::Unavailable, |start| Ring::Ready(Places { start, bytes }))
    }

    /// Frees the memory; the ring starts again as if new. No copy may be under way.
    pub fn release(&mut self, runtime: &impl Runtime) {
        if let Ring::Ready(places) = std::mem::take(self) {
            runtime.free_host(places.start);
        }
    }
}

impl Places {
    /// The parts of a copy of `bytes`, in order; a place is reused only `PLACES` parts later.
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
