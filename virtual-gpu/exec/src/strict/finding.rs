//! Findings of strict mode, and their text.
//!
//! A finding outlives the launch and perhaps the memory, so it holds copies of all that it names.

use core::fmt;

/// Kind of a piece of memory, from the program's view.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpaceKind {
    /// Memory of a device, the only kind whose bytes are uninitialised until written.
    Device,
    Managed,
    /// Mapped by the program itself; mappings at adjacent addresses count as one memory.
    Mapped,
    Pinned,
    /// A `__device__` or `__constant__` variable of this name.
    Variable(String),
    /// Allocated by `malloc` in device code.
    Heap,
    Shared,
    /// A local array of a thread.
    Local,
}

impl fmt::Display for SpaceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpaceKind::Device => f.write_str("device memory"),
            SpaceKind::Managed => f.write_str("managed memory"),
            SpaceKind::Mapped => f.write_str("mapped memory"),
            SpaceKind::Pinned => f.write_str("page-locked host memory"),
            SpaceKind::Variable(name) => write!(f, "variable {name}"),
            SpaceKind::Heap => f.write_str("memory that a kernel allocated"),
            SpaceKind::Shared => f.write_str("shared memory"),
            SpaceKind::Local => f.write_str("a local array"),
        }
    }
}

/// A piece of memory that an access hit or missed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub start: u64,
    pub bytes: u64,
    pub kind: SpaceKind,
    /// The program has freed it.
    pub released: bool,
}

impl Piece {
    /// Writes the position of an access relative to this piece.
    fn locate(&self, address: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.start + self.bytes;
        if address < self.start {
            write!(f, "{} bytes before", self.start - address)?;
        } else if address >= end {
            write!(f, "{} bytes past the end of", address - end)?;
        } else {
            write!(f, "at offset {} of", address - self.start)?;
        }
        let released = if self.released { ", which was freed" } else { "" };
        write!(f, " the {} bytes of {} at {:#x}{released}", self.bytes, self.kind, self.start)
    }
}

/// Error of an access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// Outside of the memory that it may use; the nearest memory, or the one that its address was computed from.
    Outside(Option<Piece>),
    /// The address is not a multiple of this.
    Misaligned(u64),
    /// Reads bytes that were never written.
    Uninitialised(Piece),
}

/// Kind of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Reads,
    Writes,
    /// Reads and writes atomically.
    Updates,
}

/// An access that strict mode rejects or reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub problem: Problem,
    pub way: Way,
    pub address: u64,
    pub bytes: u64,
    pub block: [u32; 3],
    pub thread: [u32; 3],
    /// `file:line`; empty if the device code was compiled without line information.
    pub place: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        let ([bx, by, bz], [x, y, z]) = (self.block, self.thread);
        let way = match self.way {
            Way::Reads => "reads",
            Way::Writes => "writes",
            Way::Updates => "updates",
        };
        let (bytes, address) = (self.bytes, self.address);
        write!(f, "thread ({x}, {y}, {z}) of block ({bx}, {by}, {bz}) {way} {bytes} bytes at {address:#x}")?;
        match &self.problem {
            Problem::Outside(None) => f.write_str(", which is not memory it may access"),
            Problem::Outside(Some(piece)) => {
                // True if the access begins inside and ends outside.
                let inside = (piece.start..piece.start + piece.bytes).contains(&address) && !piece.released;
                f.write_str(if inside { ", beyond the end: it begins " } else { ", outside: " })?;
                piece.locate(address, f)
            }
            Problem::Misaligned(align) => write!(f, ", which is not a multiple of {align}"),
            Problem::Uninitialised(piece) => {
                f.write_str(", which was never written: ")?;
                piece.locate(address, f)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_who_where_and_how_far() {
        let piece = Piece { start: 0x1000, bytes: 64, kind: SpaceKind::Device, released: false };
        let finding = |problem, address| {
            let way = Way::Writes;
            let place = "a.cu:7".to_owned();
            Finding { problem, way, address, bytes: 4, block: [2, 0, 0], thread: [5, 1, 0], place }
                .to_string()
        };
        let who = "a.cu:7: thread (5, 1, 0) of block (2, 0, 0) writes 4 bytes at";
        assert_eq!(
            finding(Problem::Outside(Some(piece.clone())), 0x1048),
            format!("{who} 0x1048, outside: 8 bytes past the end of the 64 bytes of device memory at 0x1000")
        );
        assert_eq!(
            finding(Problem::Outside(Some(piece.clone())), 0xffe),
            format!("{who} 0xffe, outside: 2 bytes before the 64 bytes of device memory at 0x1000")
        );
        assert_eq!(
            finding(Problem::Outside(Some(Piece { released: true, ..piece.clone() })), 0x1000),
            format!(
                "{who} 0x1000, outside: at offset 0 of the 64 bytes of device memory at 0x1000, which was freed"
            )
        );
        assert_eq!(
            finding(Problem::Outside(Some(piece.clone())), 0x103e),
            format!(
                "{who} 0x103e, beyond the end: it begins at offset 62 of the 64 bytes of device memory at 0x1000"
            )
        );
        assert_eq!(
            finding(Problem::Uninitialised(piece), 0x1004),
            format!(
                "{who} 0x1004, which was never written: at offset 4 of the 64 bytes of device memory at 0x1000"
            )
        );
        assert_eq!(
            finding(Problem::Misaligned(4), 0x1001),
            format!("{who} 0x1001, which is not a multiple of 4")
        );
    }
}
