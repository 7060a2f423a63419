//! Writes files that another process sees either as they were or as they are now, never partly written.
//!
//! Trap: several runs of a program may end at once. Each must write a file of its own and move it into place, so that
//! the last one wins.

use std::path::Path;

/// Writes the file as a whole or not at all.
///
/// # Errors
/// The error of the system; the temporary file is removed.
pub fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let own = path.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&own, text).and_then(|()| std::fs::rename(&own, path)).inspect_err(|_| {
        let _ = std::fs::remove_file(&own);
    })
}
