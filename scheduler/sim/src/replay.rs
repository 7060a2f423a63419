//! A journal's text, stepped again through today's core.
//!
//! Trap: it replays to the same decisions only from its first line.

use eager_core::journal::ReplayError;
use eager_journal::{Journal, TextError};

/// Why a journal was not replayed to the same decisions.
#[derive(Debug, thiserror::Error)]
pub enum Divergence {
    #[error(transparent)]
    Text(#[from] TextError),
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// Steps the core through a journal's text and compares every action. Returns how many steps agreed.
///
/// # Errors
/// Text that is no journal, or the first step that decides differently.
pub fn replay(text: &str) -> Result<usize, Divergence> {
    let Journal { header, lines } = Journal::read(text)?;
    let count = lines.len();
    eager_core::journal::replay(header, lines)?;
    Ok(count)
}
