//! The record's file. It is written again after each step, since a GPU may be lent for minutes only: a run that is ended half-way
//! keeps what it has.
//!
//! Trap: a record may be hours of a GPU, so none that is there is written over.

use super::process::said;
use super::record::Record;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct Kept(PathBuf);

impl Kept {
    /// Before the work, not after it: is there a place for the record?
    ///
    /// # Errors
    /// One line: something is there already, or nothing can be written there.
    pub fn at(path: &Path) -> Result<Kept, String> {
        let shown = path.display();
        let made = OpenOptions::new().append(true).create(true).open(path);
        let there = made.and_then(|file| file.metadata()).map_err(said(path.display()))?;
        match there.is_file() && there.len() == 0 {
            true => Ok(Kept(path.to_owned())),
            false => {
                Err(format!("{shown} is there already, and is not written over: --out names another file"))
            }
        }
    }

    /// In the place of what was written before, as a whole.
    ///
    /// # Errors
    /// One line.
    pub fn write(&self, record: &Record<'_>) -> Result<(), String> {
        let text = serde_json::to_string_pretty(record).map_err(|error| error.to_string())?;
        let fresh = self.0.with_added_extension("part");
        std::fs::write(&fresh, text + "\n").map_err(said(fresh.display()))?;
        std::fs::rename(&fresh, &self.0).map_err(said(self.0.display()))
    }
}
