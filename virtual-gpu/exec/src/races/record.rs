//! Records kept of the accesses to a word of memory: the last write, and two reads of different threads. Pure.
//!
//! A record has 8 bytes, so times and places are numbers. If several threads write bytes of one word, only the last
//! write is kept, which may miss races but never invents one.

/// How an access is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain = 0,
    Volatile = 1,
    /// Atomic, or a volatile store directly after a fence of the same thread: a flag.
    Atomic = 2,
}

/// One access. The default is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Record(u64);

impl Record {
    pub const PLACES: u32 = 1 << 14;

    pub fn new(time: u32, place: u32, thread: u32, bytes: u8, kind: Kind) -> Record {
        let low =
            (place % Self::PLACES) << 18 | (thread & 0x3ff) << 8 | u32::from(bytes & 15) << 4 | kind as u32;
        Record(u64::from(time) << 32 | u64::from(low))
    }

    /// The same access, of these bytes of another word.
    pub fn of_bytes(self, bytes: u8) -> Record {
        Record(self.0 & !0xf0 | u64::from(bytes & 15) << 4)
    }

    /// Time of the access; 0 for none.
    pub fn time(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub fn place(self) -> u32 {
        (self.0 as u32) >> 18
    }

    /// Linear index in the block.
    pub fn thread(self) -> u32 {
        self.0 as u32 >> 8 & 0x3ff
    }

    pub fn warp(self) -> u32 {
        self.thread() / 32
    }

    /// Mask of the word's bytes that were accessed.
    pub fn bytes(self) -> u8 {
        (self.0 >> 4 & 15) as u8
    }

    pub fn kind(self) -> Kind {
        match self.0 & 3 {
            0 => Kind::Plain,
            1 => Kind::Volatile,
            _ => Kind::Atomic,
        }
    }
}

/// Relation of an earlier access to the present one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Relation {
    /// Same thread, ordered by some event, or of another launch.
    Ordered,
    SameWarp,
    OtherWarp,
    OtherBlock,
}

/// Records for four bytes of memory.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Word {
    write: Record,
    reads: [Record; 2],
}

/// A race: two unordered accesses, the later being made now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Clash {
    pub earlier: Record,
    pub earlier_writes: bool,
    pub relation: Relation,
}

impl Word {
    /// Records an access; returns the access that it races with, if any.
    #[inline]
    pub fn access(
        &mut self,
        mine: Record,
        writes: bool,
        relate: &impl Fn(Record) -> Relation,
    ) -> Option<Clash> {
        let clash = |earlier: Record, earlier_writes| {
            if earlier.bytes() & mine.bytes() == 0 {
                return None;
            }
            let relation = relate(earlier);
            let sides = [(earlier.kind(), earlier_writes), (mine.kind(), writes)];
            let harmless = relation == Relation::Ordered || is_handed_over(sides[0], sides[1], relation);
            (!harmless).then_some(Clash { earlier, earlier_writes, relation })
        };
        let mut found = clash(self.write, true);
        if !writes {
            self.note_read(mine, relate);
            return found;
        }
        for read in self.reads {
            found = found.or_else(|| clash(read, false));
        }
        self.write = mine;
        found
    }

    /// Keeps unordered readers, of two different warps if possible, so that any later write races with at least one of
    /// them.
    #[inline]
    fn note_read(&mut self, mine: Record, relate: &impl Fn(Record) -> Relation) {
        let [first, second] = self.reads;
        if relate(first) == Relation::Ordered {
            self.reads[0] = mine;
        } else if first.warp() == second.warp() || relate(second) == Relation::Ordered {
            self.reads[1] = mine;
        }
    }
}

/// True if two accesses are meant to be concurrent. A plain read and an atomic are: loops around `atomicCAS` begin with
/// a plain read, as a guess. Volatile accesses within one warp are not: programs that rely on warps in step use them.
fn is_handed_over(a: (Kind, bool), b: (Kind, bool), relation: Relation) -> bool {
    match (a, b) {
        ((Kind::Plain, false), (Kind::Atomic, _)) | ((Kind::Atomic, _), (Kind::Plain, false)) => true,
        ((Kind::Plain, _), _) | (_, (Kind::Plain, _)) => false,
        ((Kind::Volatile, _), (Kind::Volatile, _)) => relation != Relation::SameWarp,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_keeps_its_parts() {
        let record = Record::new(u32::MAX, 16_383, 1023, 15, Kind::Atomic);
        assert_eq!((record.time(), record.place(), record.thread()), (u32::MAX, 16_383, 1023));
        assert_eq!((record.bytes(), record.kind()), (15, Kind::Atomic));
        let record = Record::new(1, 0, 32, 4, Kind::Volatile);
        assert_eq!((record.time(), record.place(), record.warp()), (1, 0, 1));
        assert_eq!((record.bytes(), record.kind()), (4, Kind::Volatile));
    }

    #[test]
    fn a_write_races_with_some_reader_whoever_writes() {
        let apart = |other: Record| if other.time() == 0 { Relation::Ordered } else { Relation::OtherWarp };
        for writer in 0..4 {
            let mut word = Word::default();
            for reader in 0..4 {
                let mine = Record::new(1, 0, 32 * reader, 15, Kind::Plain);
                let relate = |other: Record| {
                    if other.thread() == mine.thread() { Relation::Ordered } else { apart(other) }
                };
                assert_eq!(word.access(mine, false, &relate), None);
            }
            let mine = Record::new(1, 0, 32 * writer, 15, Kind::Plain);
            let relate = |other: Record| {
                if other.thread() == mine.thread() { Relation::Ordered } else { apart(other) }
            };
            assert!(word.access(mine, true, &relate).is_some_and(|clash| !clash.earlier_writes));
        }
    }
}
