//! Journals as text: one JSON object per line, the header first.
//!
//! A last line without a line end was cut off when the writer died. It is left out, which is no error.

use eager_core::Scheduler;
use eager_core::event::Event;
use eager_core::journal::{JOURNAL_VERSION, JournalHeader, JournalLine};
use eager_units::Nanos;

/// A journal in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Journal {
    pub header: JournalHeader,
    pub lines: Vec<JournalLine>,
}

/// Reasons why a text is no journal.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    #[error("the journal is empty: its first line must be the header, {{\"journal\":{JOURNAL_VERSION},...}}")]
    Empty,
    #[error("line {line} of the journal cannot be read: {error}")]
    Malformed { line: usize, error: serde_json::Error },
    #[error("it is a journal of version {found}, and this program reads versions 1 to {JOURNAL_VERSION}")]
    Version { found: u32 },
}

impl Journal {
    /// Steps a fresh scheduler through the events, and returns the journal that the daemon would have written.
    pub fn recorded(mut scheduler: Scheduler, events: impl IntoIterator<Item = (Nanos, Event)>) -> Journal {
        let header = JournalHeader::of(&scheduler);
        let line = |(now, event): (Nanos, Event)| {
            let mut actions = Vec::new();
            scheduler.step(now, event.clone(), &mut actions);
            JournalLine { now, event, actions }
        };
        Journal { header, lines: events.into_iter().map(line).collect() }
    }

    /// Parses a journal.
    ///
    /// # Errors
    /// The first line that cannot be parsed, by its number from 1.
    pub fn read(text: &str) -> Result<Journal, TextError> {
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut lines = whole.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let malformed = |index: usize, error| TextError::Malformed { line: index + 1, error };
        let (index, first) = lines.next().ok_or(TextError::Empty)?;
        let header: JournalHeader = serde_json::from_str(first).map_err(|error| malformed(index, error))?;
        if !(1..=JOURNAL_VERSION).contains(&header.journal) {
            return Err(TextError::Version { found: header.journal });
        }
        let lines = lines
            .map(|(index, line)| serde_json::from_str(line).map_err(|error| malformed(index, error)))
            .collect::<Result<_, _>>()?;
        Ok(Journal { header, lines })
    }

    /// Formats the journal as text.
    ///
    /// # Errors
    /// None in practice: all of it is plain data.
    pub fn write(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string(&self.header)?;
        text.push('\n');
        for line in &self.lines {
            text += &serde_json::to_string(line)?;
            text.push('\n');
        }
        Ok(text)
    }
}
