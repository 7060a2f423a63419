//! Converts a journal to tracks for a viewer: one per device with its memory, one per task on its device and, while
//! it waits, one in the queue.
//!
//! Trap: slices of one track must nest. A task's track holds the task, in it the class, in that the kernel that
//! stands at the gate. Running kernels may overlap the slice of the gate, so they have a track of their own.

mod reader;

use eager_core::journal::{JournalHeader, JournalLine};
use eager_units::Nanos;

/// Index into [`Timeline::tracks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrackId(pub usize);

/// Identifier that both ends of an arrow share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowId(pub u64);

/// One row of the viewer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Track {
    pub name: String,
    /// Track that this track is shown under.
    pub parent: Option<TrackId>,
    pub shows: Shows,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    /// Nothing itself; only the tracks under it are shown.
    Tracks,
    Slices,
    Bytes,
    Count,
}

/// One entry of a track. A track's entries are in order of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub at: Nanos,
    pub track: TrackId,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq)]
pub enum What {
    Begin(Event),
    /// End of the slice that began last.
    End,
    Mark(Event),
    Value(u64),
}

/// A slice or a mark.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Event {
    pub name: String,
    /// One of `wait`, `task`, `normal`, `eager`, `promoted`, `gate`, `kernels`, `device`, `daemon`.
    pub category: &'static str,
    /// Names and values for the viewer's details.
    pub notes: Vec<(&'static str, String)>,
    /// Identifies the arrows from request to grant to promotion.
    pub flow: Option<FlowId>,
}

/// A journal in the form in which viewers draw it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    pub tracks: Vec<Track>,
    pub entries: Vec<Entry>,
}

impl Timeline {
    /// Converts all lines. Slices still open at the last line stay open: those tasks were waiting or running.
    pub fn of(lines: &[JournalLine]) -> Timeline {
        let mut drawing = Drawing::default();
        drawing.add(lines);
        drawing.finish()
    }
}

/// Timeline under construction, piece by piece.
#[derive(Debug, Default)]
pub struct Drawing(reader::Reader);

impl Drawing {
    /// Starts at the beginning of the piece with this header, with the state that the header records.
    pub fn from(header: &JournalHeader) -> Drawing {
        let mut reader = reader::Reader::default();
        if let Some(image) = &header.image {
            reader.begin_with(image);
        }
        Drawing(reader)
    }

    pub fn add(&mut self, lines: &[JournalLine]) {
        lines.iter().for_each(|line| self.0.line(line));
    }

    pub fn finish(self) -> Timeline {
        self.0.timeline
    }
}
