//! Writes the journal: a header, then one line per step.
//!
//! Trap: scheduling goes on without it. A full disk costs the record, never a program its device; it is said once.

use eager_core::Scheduler;
use eager_core::journal::{JournalHeader, JournalLine};
use serde::Serialize;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Its lines name users, programs and what they ask for: the daemon's own user and its group may read it.
const MODE: u32 = 0o640;

/// Does it fail for lack of room, or by a device's fault, which may pass? Else what names the file is wrong.
pub fn may_pass(error: &std::io::Error) -> bool {
    use ErrorKind::{FileTooLarge, OutOfMemory, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let passes = [StorageFull, QuotaExceeded, FileTooLarge, ReadOnlyFilesystem, OutOfMemory];
    passes.contains(&error.kind()) || error.raw_os_error() == Some(nix::libc::EIO)
}

/// The file, or nothing when none was asked for or it failed.
#[derive(Debug)]
pub struct Journal {
    file: Option<BufWriter<File>>,
}

impl Journal {
    pub fn none() -> Journal {
        Journal { file: None }
    }

    /// Starts a journal; an older file there is kept as `FILE.old`, because a journal replays only from its first line.
    pub fn create(path: &Path, scheduler: &Scheduler) -> std::io::Result<Journal> {
        if std::fs::metadata(path).is_ok_and(|old| old.is_file() && old.len() > 0) {
            let mut kept = path.as_os_str().to_owned();
            kept.push(".old");
            std::fs::rename(path, kept)?;
        }
        let file = OpenOptions::new().create(true).truncate(true).write(true).mode(MODE).open(path)?;
        // Whatever the process's mask is, and the mode of a file that was there. What is no file has its own.
        if file.metadata()?.is_file() {
            file.set_permissions(Permissions::from_mode(MODE))?;
        }
        let mut file = BufWriter::new(file);
        write_line(&mut file, &JournalHeader::of(scheduler))?;
        Ok(Journal { file: Some(file) })
    }

    pub fn is_on(&self) -> bool {
        self.file.is_some()
    }

    /// Adds a step. The first failure ends the journal and is returned.
    pub fn record(&mut self, line: &JournalLine) -> std::io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        write_line(file, line).inspect_err(|_| self.file = None)
    }
}

fn write_line(file: &mut impl Write, line: &impl Serialize) -> std::io::Result<()> {
    serde_json::to_writer(&mut *file, line)?;
    file.write_all(b"\n")?;
    file.flush()
}
