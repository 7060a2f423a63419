//! The record's file. It is written again after each step: a GPU may be lent for minutes only, and a run that is cut
//! off must keep its results.
//!
//! Trap: a record may hold hours of a GPU's work, so an existing file is never overwritten.

use super::process::io_error;
use super::record::Record;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct Kept(PathBuf);

impl Kept {
    /// Creates the record's file before the work starts, so that a bad path fails early.
    ///
    /// # Errors
    /// One line: a file exists there already, or the path cannot be written.
    pub fn at(path: &Path) -> Result<Kept, String> {
        let shown = path.display();
        let made = OpenOptions::new().append(true).create(true).open(path);
        let there = made.and_then(|file| file.metadata()).map_err(io_error(path.display()))?;
        match there.is_file() && there.len() == 0 {
            true => Ok(Kept(path.to_owned())),
            false => {
                Err(format!("{shown} is there already, and is not written over: --out names another file"))
            }
        }
    }

    /// Replaces the file's contents as a whole.
    ///
    /// # Errors
    /// One line: the file cannot be written.
    pub fn write(&self, record: &Record<'_>) -> Result<(), String> {
        let text = serde_json::to_string_pretty(record).map_err(|error| error.to_string())?;
        let fresh = self.0.with_added_extension("part");
        std::fs::write(&fresh, text + "\n").map_err(io_error(fresh.display()))?;
        std::fs::rename(&fresh, &self.0).map_err(io_error(self.0.display()))
    }
}
