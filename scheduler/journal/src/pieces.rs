//! Files of a journal: the piece being written has the journal's name, earlier pieces have `.1`, `.2` and so on
//! appended.
//!
//! Trap: the writer continues meanwhile, and removes the oldest piece. A piece that is gone by the time it is read is
//! left out, which is no error.

use crate::text::{Journal, TextError};
use eager_core::journal::JournalHeader;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Reasons why a journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PiecesError {
    #[error("cannot read the journal {}: {error}", path.display())]
    Unreadable { path: PathBuf, error: std::io::Error },
    #[error("{}: {error}", path.display())]
    Text { path: PathBuf, error: TextError },
    #[error("there is no journal in {}", path.display())]
    None { path: PathBuf },
    #[error("there are several journals in {}: name one of {}", path.display(), names.join(", "))]
    Several { path: PathBuf, names: Vec<String> },
}

/// One piece of a journal, with its contents.
#[derive(Debug)]
pub struct Piece {
    pub path: PathBuf,
    pub journal: Journal,
    /// True if it continues where the piece before it ended.
    pub follows: bool,
}

/// Returns the path with `.suffix` appended to the file's name.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// Returns the numbers and paths of the earlier pieces, oldest first.
///
/// # Errors
/// The folder cannot be read.
pub fn numbered(path: &Path) -> std::io::Result<Vec<(u64, PathBuf)>> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if let Some((base, number)) = entry.file_name().to_str().and_then(split)
            && base == name
        {
            found.push((number, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// Splits the name of a piece: `journal.12` is piece 12 of `journal`.
fn split(name: &str) -> Option<(&str, u64)> {
    let (base, number) = name.rsplit_once('.')?;
    let is_number =
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) && !number.starts_with('0');
    Some((base, number.parse().ok().filter(|_| is_number && !base.is_empty())?))
}

/// Returns the files of a journal in order. `path` is the journal's name, a folder with only one journal, or a single
/// piece.
///
/// # Errors
/// The folder cannot be read, or holds no journal, or several.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, PiecesError> {
    let unreadable = |error| PiecesError::Unreadable { path: path.to_owned(), error };
    let base = if path.is_dir() { only_one_in(path)? } else { path.to_owned() };
    let mut files: Vec<PathBuf> =
        numbered(&base).map_err(unreadable)?.into_iter().map(|(_, path)| path).collect();
    if files.is_empty() || base.exists() {
        files.push(base);
    }
    Ok(files)
}

fn only_one_in(folder: &Path) -> Result<PathBuf, PiecesError> {
    let unreadable = |error| PiecesError::Unreadable { path: folder.to_owned(), error };
    let mut names = std::collections::BTreeSet::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.ends_with(".new") && is_journal(&entry.path()) {
            names.insert(split(&name).map_or(name.as_str(), |(base, _)| base).to_owned());
        }
    }
    let path = folder.to_owned();
    match (names.pop_first(), names.len()) {
        (Some(name), 0) => Ok(folder.join(name)),
        (None, _) => Err(PiecesError::None { path }),
        (Some(name), _) => {
            Err(PiecesError::Several { path, names: std::iter::once(name).chain(names).collect() })
        }
    }
}

fn is_journal(path: &Path) -> bool {
    const MARK: &[u8] = b"{\"journal\":";
    let mut start = [0; MARK.len()];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    path.is_file() && read.is_ok() && start == MARK
}

/// Reads a journal piece by piece, in order, with one piece in memory at a time.
///
/// # Errors
/// See [`files`]; each piece may also fail on its own.
pub fn read(path: &Path) -> Result<impl Iterator<Item = Result<Piece, PiecesError>>, PiecesError> {
    let files = files(path)?;
    let last = files.last().cloned();
    let mut before: Option<(JournalHeader, u64)> = None;
    Ok(files.into_iter().filter_map(move |path| {
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound && Some(&path) != last.as_ref() => return None,
            Err(error) => return Some(Err(PiecesError::Unreadable { path, error })),
        };
        let journal = match Journal::read(&text) {
            Ok(journal) => journal,
            Err(error) => return Some(Err(PiecesError::Text { path, error })),
        };
        let follows = before.as_ref().is_some_and(|(header, lines)| journal.header.follows(header, *lines));
        before = Some((JournalHeader { image: None, ..journal.header.clone() }, journal.lines.len() as u64));
        Some(Ok(Piece { path, journal, follows }))
    }))
}

/// Joins the last pieces that follow each other without a gap.
///
/// # Errors
/// See [`read`].
pub fn last_run(path: &Path) -> Result<Journal, PiecesError> {
    let mut joined: Option<Journal> = None;
    for piece in read(path)? {
        let Piece { journal, follows, .. } = piece?;
        match &mut joined {
            Some(joined) if follows => joined.lines.extend(journal.lines),
            _ => joined = Some(journal),
        }
    }
    joined.ok_or_else(|| PiecesError::None { path: path.to_owned() })
}
