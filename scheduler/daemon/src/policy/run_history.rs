//! The history of earlier runs, in a file beside the state file: gives estimates for tasks that begin, and learns from
//! each step.
//!
//! Traps: the estimate goes into the event before the core and the journal see it, so that a journal replays without
//! this file. The file only saves time, so no damage to it stops the daemon, and it is not written at each step.

use crate::persistence::whole_file::{self, put_aside, replace};
use eager_core::action::Action;
use eager_core::event::Event;
use eager_core::history::{History, HistoryError, HistoryFile};
use eager_units::Nanos;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Time between two writes, and before a failed write is retried.
const WRITE_EVERY: Nanos = Nanos::from_secs(10);
/// A longer file is rejected: this is far more than the history ever holds.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Why the history of earlier daemons is not used.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error(transparent)]
    Unreadable(std::io::Error),
    #[error(transparent)]
    Malformed(#[from] serde_json::Error),
    #[error(transparent)]
    Content(#[from] HistoryError),
}

/// The history and its file.
#[derive(Debug)]
pub struct RunHistory {
    history: History,
    path: PathBuf,
    /// [`History::learnt`] at the last write.
    written: u64,
    not_before: Nanos,
    /// Why the file cannot be written now.
    problem: Option<String>,
}

impl RunHistory {
    /// Reads the history of earlier daemons. A file that cannot be used is put aside and begun anew; the second value
    /// is the message to log.
    pub fn open(path: PathBuf) -> (RunHistory, Option<String>) {
        let (history, damage) = match read(&path) {
            Ok(history) => (history, None),
            Err(why) => {
                let kept = put_aside(&path, &why);
                let damage =
                    format!("the history of runs, {}, {kept}, and estimates are learnt anew", path.display());
                (History::default(), Some(damage))
            }
        };
        let written = history.learnt();
        (RunHistory { history, path, written, not_before: Nanos(0), problem: None }, damage)
    }

    /// Adds the estimate for a task that begins to the event, if earlier runs of it are known. This happens under every
    /// policy: policies that do not order by it still show people when a start is expected, and another policy may
    /// decide later.
    pub fn estimate(&self, event: &mut Event) {
        if let Event::TaskBegin { client, request, .. } = event {
            request.estimate = self.history.estimate(*client, request);
        }
    }

    /// Learns from one step of the core.
    pub fn note(&mut self, now: Nanos, event: &Event, actions: &[Action]) {
        self.history.note(now, event, actions);
    }

    /// When to write the file; None if it is up to date.
    pub fn next_write(&self) -> Option<Nanos> {
        (self.history.learnt() != self.written).then_some(self.not_before)
    }

    /// Writes the file if it is out of date and no write was done or tried within [`WRITE_EVERY`]. `Err` once for a
    /// file that fails.
    pub fn write_if_due(&mut self, now: Nanos) -> std::io::Result<()> {
        if self.next_write().is_some_and(|at| at <= now) { self.write(now) } else { Ok(()) }
    }

    /// Writes the file if it is out of date, however recent the last write.
    pub fn write_at_end(&mut self, now: Nanos) -> std::io::Result<()> {
        if self.next_write().is_some() { self.write(now) } else { Ok(()) }
    }

    /// Why a restart would lose the latest history.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    fn write(&mut self, now: Nanos) -> std::io::Result<()> {
        self.not_before = Nanos(now.0.saturating_add(WRITE_EVERY.0));
        let text = serde_json::to_vec(&self.history.to_file()).map_err(std::io::Error::from);
        let done = text.and_then(|text| replace(&self.path, &text));
        let problem = done.as_ref().err().map(std::io::Error::to_string);
        let was_failing = std::mem::replace(&mut self.problem, problem).is_some();
        match done {
            Ok(_) => {
                self.written = self.history.learnt();
                Ok(())
            }
            Err(_) if was_failing => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn read(path: &Path) -> Result<History, Unusable> {
    let text = match whole_file::read(path, FILE_BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(History::default()),
        Err(error) => return Err(Unusable::Unreadable(error)),
    };
    Ok(History::from_file(serde_json::from_slice::<HistoryFile>(&text)?)?)
}
