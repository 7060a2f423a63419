//! Files that another process finds as they were before or as they are now, never half written.
//!
//! Trap: several runs of a program end at once. Each writes a file of its own and moves it into place; the last one counts.

use std::path::Path;

/// Writes it as a whole or not at all.
///
/// # Errors
/// What the system said; nothing is left of the attempt.
pub fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let own = path.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&own, text).and_then(|()| std::fs::rename(&own, path)).inspect_err(|_| {
        let _ = std::fs::remove_file(&own);
    })
}
