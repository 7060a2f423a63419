//! Samples of an experiment's runs, each on disk as soon as it is there, so that a run that is stopped loses nothing.
//!
//! Trap: lines stand in the order in which runs ended, which differs from time to time; who reads them sorts them.

use anyhow::{Context, Result, anyhow};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A file of samples, one JSON object a line, that several threads add to.
pub struct Samples<S> {
    path: PathBuf,
    kept: Mutex<(File, Vec<S>)>,
}

impl<S: Serialize> Samples<S> {
    /// # Errors
    /// The file cannot be made; one that was there is emptied.
    pub fn create(path: &Path) -> Result<Samples<S>> {
        let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Samples { path: path.to_owned(), kept: Mutex::new((file, Vec::new())) })
    }

    /// # Errors
    /// The file cannot be written, or another thread panicked.
    pub fn keep(&self, sample: S) -> Result<()> {
        let line = serde_json::to_string(&sample).context("a sample as JSON")? + "\n";
        let mut kept = self.kept.lock().map_err(|_| anyhow!("another run panicked"))?;
        kept.0.write_all(line.as_bytes()).with_context(|| format!("cannot write {}", self.path.display()))?;
        kept.1.push(sample);
        Ok(())
    }

    /// All that were kept.
    ///
    /// # Errors
    /// A thread panicked.
    pub fn into_all(self) -> Result<Vec<S>> {
        let (_, samples) = self.kept.into_inner().map_err(|_| anyhow!("a run panicked"))?;
        Ok(samples)
    }
}
