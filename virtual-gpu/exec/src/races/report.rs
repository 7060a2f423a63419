//! Race reports for users.
//!
//! A race does not know the kernel's name; the caller passes it for the first line.

use core::fmt;

use super::record::Relation;
use crate::strict::finding::SpaceKind;

/// One of the two accesses of a race.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    pub block: [u32; 3],
    pub thread: [u32; 3],
    /// "wrote", "read" or "updated".
    pub way: &'static str,
    /// `file:line`; empty if the device code was compiled without line information.
    pub place: String,
}

/// Distance between two threads in the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// Correct only if the threads of a warp run in step.
    SameWarp,
    OtherWarp,
    OtherBlock,
}

impl Distance {
    pub(super) fn of(relation: Relation) -> Distance {
        match relation {
            Relation::Ordered | Relation::SameWarp => Distance::SameWarp,
            Relation::OtherWarp => Distance::OtherWarp,
            Relation::OtherBlock => Distance::OtherBlock,
        }
    }
}

/// Two unordered accesses to one word, at least one of which writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Race {
    pub earlier: Side,
    pub later: Side,
    pub distance: Distance,
    pub memory: SpaceKind,
    /// Start address of the memory; not shown for shared memory, which has no address visible to programs.
    pub start: u64,
    /// Offset from `start` in bytes.
    pub offset: u64,
    pub bits: u64,
    /// Number of further races of these two lines.
    pub more: u64,
}

impl Race {
    /// Formats the report; the first line names the kernel.
    pub fn report(&self, kernel: &str) -> String {
        let block = match self.distance {
            Distance::OtherBlock => String::new(),
            _ => format!(", block {}", Place(self.later.block)),
        };
        let memory = match &self.memory {
            SpaceKind::Shared => "shared memory".to_owned(),
            SpaceKind::Variable(_) => self.memory.to_string(),
            other => format!("{other} at {:#x}", self.start),
        };
        let (offset, bits) = (self.offset, self.bits);
        let ways = self.sides();
        let why = match self.distance {
            Distance::SameWarp => {
                "no __syncwarp() between them; same warp: correct only if its threads run in step"
            }
            Distance::OtherWarp => "no __syncthreads() between them; different warps",
            Distance::OtherBlock => {
                "not ordered: no atomic or flag after a __threadfence(), no grid.sync(); different blocks"
            }
        };
        let more = match self.more {
            0 => String::new(),
            1 => "\n  and 1 more at these lines".to_owned(),
            more => format!("\n  and {more} more at these lines"),
        };
        format!("race in kernel {kernel}{block}, {memory} byte {offset} ({bits}-bit):\n{ways}  {why}{more}")
    }

    fn sides(&self) -> String {
        let sides = [&self.earlier, &self.later];
        let who = sides.map(|side| match self.distance {
            Distance::OtherBlock => format!("thread {} of block {}", Place(side.thread), Place(side.block)),
            _ => format!("thread {}", Place(side.thread)),
        });
        let wide = who.iter().map(String::len).max().unwrap_or(0);
        let lines = sides.iter().zip(&who).map(|(side, who)| {
            let place = if side.place.is_empty() { "(compiled without lines)" } else { &side.place };
            format!("  {who:wide$} {:<7} {place}\n", side.way)
        });
        lines.collect()
    }
}

struct Place([u32; 3]);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.0;
        write!(f, "({x},{y},{z})")
    }
}

/// Races of one launch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Races {
    /// One for each pair of lines, in the order in which they were found.
    pub races: Vec<Race>,
    /// Number of races at further pairs of lines, beyond the maximum kept.
    pub left_out: u64,
    /// First pair of racing stores with equal values.
    pub equal: Option<Race>,
    /// Bytes of accessed words that were not checked, because the records reached their memory limit.
    pub unwatched_bytes: u64,
}

impl Races {
    pub fn is_empty(&self) -> bool {
        *self == Races::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_race_names_both_threads_and_lines() {
        let side =
            |x, way, place: &str| Side { block: [3, 0, 0], thread: [x, 0, 0], way, place: place.to_owned() };
        let race = Race {
            earlier: side(4, "wrote", "f.cu:21 (called at f.cu:40)"),
            later: side(36, "read", "f.cu:23"),
            distance: Distance::OtherWarp,
            memory: SpaceKind::Shared,
            start: 0,
            offset: 512,
            bits: 32,
            more: 7,
        };
        assert_eq!(
            race.report("reduce"),
            "race in kernel reduce, block (3,0,0), shared memory byte 512 (32-bit):\n\
             \x20 thread (4,0,0)  wrote   f.cu:21 (called at f.cu:40)\n\
             \x20 thread (36,0,0) read    f.cu:23\n\
             \x20 no __syncthreads() between them; different warps\n\
             \x20 and 7 more at these lines"
        );
        let other = Race {
            distance: Distance::OtherBlock,
            memory: SpaceKind::Device,
            start: 0x7000,
            earlier: Side { block: [0, 1, 0], ..side(4, "updated", "") },
            more: 0,
            ..race
        };
        assert!(other.report("k").starts_with(
            "race in kernel k, device memory at 0x7000 byte 512 (32-bit):\n\
             \x20 thread (4,0,0) of block (0,1,0)  updated (compiled without lines)\n\
             \x20 thread (36,0,0) of block (3,0,0) read    f.cu:23\n\
             \x20 not ordered"
        ));
    }
}
