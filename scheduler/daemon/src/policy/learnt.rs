//! What earlier runs took, kept in a file beside the state file: estimates for tasks that begin, and what to learn from
//! each step.
//!
//! Traps: the estimate goes into the event before the core and the journal see it, so that a journal replays without this
//! file; and the file is only worth time, so nothing that is wrong with it stops the daemon, nor is it written at each
//! step.

use crate::persistence::whole_file::{put_aside, replace};
use eager_core::action::Action;
use eager_core::event::Event;
use eager_core::history::{History, HistoryFile};
use eager_units::Nanos;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Between two writes, and until a failed one is tried again.
const WRITE_EVERY: Nanos = Nanos::from_secs(10);
/// Nothing longer is read: far more than the history ever holds.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The history and its file.
#[derive(Debug)]
pub struct Learnt {
    history: History,
    path: PathBuf,
    /// [`History::learnt`] of what the file says.
    written: u64,
    not_before: Nanos,
    /// Why the file cannot be written now.
    problem: Option<String>,
}

impl Learnt {
    /// Reads what earlier daemons learnt. One that cannot be used is put aside, and begun anew; the second is what is to be
    /// said of that.
    pub fn open(path: PathBuf) -> (Learnt, Option<String>) {
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
        (Learnt { history, path, written, not_before: Nanos(0), problem: None }, damage)
    }

    /// Tells the event what is expected of a task that begins, where runs of it are known. Under every policy: those that
    /// do not order by it tell people when a start is expected, and another one may decide later.
    pub fn estimate(&self, event: &mut Event) {
        if let Event::TaskBegin { client, request, .. } = event {
            request.estimate = self.history.estimate(*client, request);
        }
    }

    /// Takes in one step of the core.
    pub fn note(&mut self, now: Nanos, event: &Event, actions: &[Action]) {
        self.history.note(now, event, actions);
    }

    /// When the file is to be written, if it is old.
    pub fn next_write(&self) -> Option<Nanos> {
        (self.history.learnt() != self.written).then_some(self.not_before)
    }

    /// Writes the file if it is old, and was not written or tried for a while. `Err` once for a file that fails.
    pub fn write_if_due(&mut self, now: Nanos) -> std::io::Result<()> {
        if self.next_write().is_some_and(|at| at <= now) { self.write(now) } else { Ok(()) }
    }

    /// The same, however short ago.
    pub fn write_at_end(&mut self, now: Nanos) -> std::io::Result<()> {
        if self.next_write().is_some() { self.write(now) } else { Ok(()) }
    }

    /// Why a restart would not know what was learnt.
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

fn read(path: &Path) -> Result<History, String> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(History::default()),
        Err(error) => return Err(error.to_string()),
    };
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("longer than {FILE_BYTES_MAX} bytes"));
    }
    let file: HistoryFile = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    History::from_file(file).map_err(|error| error.to_string())
}
