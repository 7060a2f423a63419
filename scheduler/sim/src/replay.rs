//! Journals as text: one JSON object per line, written by the daemon or by a simulation, replayed through today's core.
//!
//! Trap: a last line without its end of line was being written when the writer died; it is left out, never an error.

use eager_core::journal::{JournalHeader, JournalLine, ReplayError};

/// Why a journal was not replayed to the same decisions.
#[derive(Debug, thiserror::Error)]
pub enum Divergence {
    #[error("the journal is empty: its first line must be the header, {{\"journal\":1,...}}")]
    Empty,
    #[error("line {line} of the journal cannot be read: {error}")]
    Malformed { line: usize, error: serde_json::Error },
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// Steps the core through a journal's text and compares every action. Returns how many steps agreed.
///
/// # Errors
/// Text that is no journal, or the first step that decides differently.
pub fn replay(text: &str) -> Result<usize, Divergence> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut lines = whole.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let malformed = |index: usize, error| Divergence::Malformed { line: index + 1, error };
    let (index, first) = lines.next().ok_or(Divergence::Empty)?;
    let header: JournalHeader = serde_json::from_str(first).map_err(|error| malformed(index, error))?;
    let mut steps: Vec<JournalLine> = Vec::new();
    for (index, line) in lines {
        steps.push(serde_json::from_str(line).map_err(|error| malformed(index, error))?);
    }
    let count = steps.len();
    eager_core::journal::replay(header, steps)?;
    Ok(count)
}

/// The text form of a journal.
///
/// # Errors
/// None in practice: all of it is plain data.
pub fn write(header: &JournalHeader, lines: &[JournalLine]) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string(header)?;
    text.push('\n');
    for line in lines {
        text += &serde_json::to_string(line)?;
        text.push('\n');
    }
    Ok(text)
}
