//! Replays a journal through the current core.
//!
//! Trap: a piece replays to the same decisions only from its first line. If a piece follows another, it must begin in
//! the state in which the other ended; otherwise lines between them are missing.

use eager_core::journal::{ReplayError, check_continues};
use eager_journal::pieces::{self, Piece, PiecesError};
use eager_journal::{Journal, TextError};
use std::path::{Path, PathBuf};

/// Reasons why a journal was not replayed to the same decisions.
#[derive(Debug, thiserror::Error)]
pub enum Divergence {
    #[error(transparent)]
    Text(#[from] TextError),
    #[error(transparent)]
    Pieces(#[from] PiecesError),
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error("{}: {error}", path.display())]
    In { path: PathBuf, error: ReplayError },
}

/// Counts of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replayed {
    pub pieces: usize,
    pub steps: usize,
    /// Pieces that do not continue where the piece before ended: another run, or steps that were not recorded.
    pub gaps: usize,
}

/// Steps the core through a journal's text and compares every action. Returns the number of steps.
///
/// # Errors
/// Text that is no journal, or the first step that decides differently.
pub fn replay(text: &str) -> Result<usize, Divergence> {
    let Journal { header, lines } = Journal::read(text)?;
    let count = lines.len();
    eager_core::journal::replay(header, lines)?;
    Ok(count)
}

/// Replays all pieces of a journal, or one piece. Each piece that follows another must begin in the state in which
/// that one ended.
///
/// # Errors
/// A piece that cannot be read, or the first one that decides differently.
pub fn replay_pieces(path: &Path) -> Result<Replayed, Divergence> {
    let mut all = Replayed::default();
    let mut ended = None;
    for piece in pieces::read(path)? {
        let Piece { path, journal: Journal { header, lines }, follows } = piece?;
        let in_piece = |error| Divergence::In { path: path.clone(), error };
        if let Some(before) = ended.as_ref().filter(|_| follows) {
            check_continues(before, &header).map_err(in_piece)?;
        }
        all.gaps += usize::from(all.pieces > 0 && !follows);
        all.pieces += 1;
        all.steps += lines.len();
        ended = Some(eager_core::journal::replay(header, lines).map_err(in_piece)?);
    }
    Ok(all)
}
