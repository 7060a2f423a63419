//! The file of programs that have ended: a header line with the version, then one line per program, newest last.
//!
//! Lines are appended, so that an end costs one short write. The last line may be torn if the machine lost power, and
//! is then skipped. The file only informs people: no damage to it stops the daemon.

use crate::persistence::ended::{Ended, PROGRAMS_MAX};
use crate::persistence::whole_file::{self, put_aside, replace};
use eager_proto::admin::ProgramRow;
use eager_units::Nanos;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Version of the lines.
const VERSION: u32 = 1;
/// Time between two writes, and before a failed write is retried (specification S-721).
const WRITE_EVERY: Nanos = Nanos::from_secs(1);
/// At this many lines the file is rewritten without the rows that the list has dropped.
const LINES_MAX: usize = 2 * PROGRAMS_MAX;
/// Nothing beyond this is read: far more than that many lines ever take.
const FILE_BYTES_MAX: u64 = 16 << 20;

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    version: u32,
}

/// Why the list of an earlier daemon is not used.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error(transparent)]
    Unreadable(std::io::Error),
    #[error("it is empty")]
    Empty,
    /// The first line is no header.
    #[error(transparent)]
    Malformed(#[from] serde_json::Error),
    #[error("version {found} is not known (this is version {VERSION})")]
    Version { found: u32 },
}

/// The file's path, and how much of the list is in it.
#[derive(Debug)]
pub struct EndedFile {
    path: PathBuf,
    /// Lines in the file, if lines may be appended to it. None: it must be rewritten.
    lines: Option<usize>,
    /// [`Ended::count`] at the last write.
    written: u64,
    not_before: Nanos,
    /// Why the last write failed; None if it did not.
    problem: Option<String>,
}

impl EndedFile {
    /// Reads the programs of earlier daemons. A file that cannot be used is put aside; the last value is the message to
    /// log.
    pub fn open(path: PathBuf) -> (EndedFile, Ended, Option<String>) {
        let (rows, damage) = match read(&path) {
            Ok((rows, 0)) => (rows, None),
            Ok((rows, torn)) => {
                let list = path.display();
                (
                    rows,
                    Some(format!(
                        "{torn} lines of the list of ended programs, {list}, are damaged: they are left out"
                    )),
                )
            }
            Err(why) => {
                let kept = put_aside(&path, &why);
                (
                    Vec::new(),
                    Some(format!("the list of ended programs, {}, {kept}, and begun anew", path.display())),
                )
            }
        };
        let mut ended = Ended::default();
        rows.into_iter().for_each(|row| ended.keep(row));
        let written = ended.count();
        let file = EndedFile { path, lines: None, written, not_before: Nanos(0), problem: None };
        (file, ended, damage)
    }

    /// Why the file cannot be written; None if it can.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// When to write the file; None if it is up to date.
    pub fn next_write(&self, ended: &Ended) -> Option<Nanos> {
        (ended.count() != self.written).then_some(self.not_before)
    }

    /// Writes the missing lines, unless a write was done or tried within [`WRITE_EVERY`]. `Err` once for a file that
    /// fails.
    pub fn write_if_due(&mut self, ended: &Ended, now: Nanos) -> std::io::Result<()> {
        if self.next_write(ended).is_some_and(|at| at <= now) { self.write(ended, now) } else { Ok(()) }
    }

    /// Writes the missing lines, however recent the last write.
    pub fn write_at_end(&mut self, ended: &Ended, now: Nanos) -> std::io::Result<()> {
        if self.next_write(ended).is_some() { self.write(ended, now) } else { Ok(()) }
    }

    fn write(&mut self, ended: &Ended, now: Nanos) -> std::io::Result<()> {
        self.not_before = Nanos(now.0.saturating_add(WRITE_EVERY.0));
        let done = self.try_write(ended);
        if done.is_err() {
            // Half a line may have been written.
            self.lines = None;
        }
        match done {
            Ok(()) => {
                (self.written, self.problem) = (ended.count(), None);
                Ok(())
            }
            Err(error) => match self.problem.replace(error.to_string()) {
                Some(_) => Ok(()),
                None => Err(error),
            },
        }
    }

    fn try_write(&mut self, ended: &Ended) -> std::io::Result<()> {
        let rows = ended.rows();
        let fresh = usize::try_from(ended.count() - self.written).unwrap_or(usize::MAX);
        if let Some(lines) = &mut self.lines
            && fresh < rows.len()
            && *lines + fresh <= LINES_MAX
        {
            let text = text_of(rows.iter().skip(rows.len() - fresh))?;
            // Opened for each write, so that it takes no descriptor from clients in between.
            OpenOptions::new().append(true).open(&self.path)?.write_all(&text)?;
            *lines += fresh;
            return Ok(());
        }
        let mut text = serde_json::to_vec(&Head { version: VERSION })?;
        text.push(b'\n');
        text.extend(text_of(rows.iter())?);
        replace(&self.path, &text)?;
        self.lines = Some(rows.len());
        Ok(())
    }
}

fn text_of<'a>(rows: impl Iterator<Item = &'a ProgramRow>) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    for row in rows {
        serde_json::to_writer(&mut text, row)?;
        text.push(b'\n');
    }
    Ok(text)
}

/// Reads the programs, and counts the lines that are no row.
fn read(path: &Path) -> Result<(Vec<ProgramRow>, usize), Unusable> {
    let text = match whole_file::read(path, FILE_BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        Err(error) => return Err(Unusable::Unreadable(error)),
    };
    let mut lines = text.split_inclusive(|byte| *byte == b'\n');
    let head = lines.next().ok_or(Unusable::Empty)?;
    let head: Head = serde_json::from_slice(head)?;
    if head.version != VERSION {
        return Err(Unusable::Version { found: head.version });
    }
    let (mut rows, mut torn) = (Vec::new(), 0);
    for line in lines {
        match serde_json::from_slice(line) {
            Ok(row) => rows.push(row),
            Err(_) => torn += 1,
        }
    }
    Ok((rows, torn))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(client: u64) -> ProgramRow {
        ProgramRow { client, uid: 7, label: "train".into(), end: "ended".into(), ..ProgramRow::default() }
    }

    fn clients(ended: &Ended) -> Vec<u64> {
        ended.rows().iter().map(|row| row.client).collect()
    }

    #[test]
    fn lines_are_added_and_read_again_and_a_torn_one_is_left_out() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("eagerd.ended");
        let (mut file, mut ended, damage) = EndedFile::open(path.clone());
        assert_eq!((damage, file.next_write(&ended)), (None, None));
        for client in 1..=3 {
            ended.keep(row(client));
            file.write_if_due(&ended, Nanos::from_secs(client)).expect("written");
        }
        ended.keep(row(4));
        file.write_if_due(&ended, Nanos::from_secs(3)).expect("not yet");
        assert_eq!(file.next_write(&ended), Some(Nanos::from_secs(4)));
        assert_eq!(std::fs::read_to_string(&path).expect("text").lines().count(), 4, "a head and three");
        file.write_at_end(&ended, Nanos::from_secs(3)).expect("written");
        let (mut file, mut again, damage) = EndedFile::open(path.clone());
        assert_eq!((clients(&again), damage), (vec![1, 2, 3, 4], None));

        let text = std::fs::read(&path).expect("bytes");
        std::fs::write(&path, &text[..text.len() - 9]).expect("torn");
        let (_, torn, damage) = EndedFile::open(path.clone());
        assert_eq!(clients(&torn), [1, 2, 3]);
        assert!(damage.expect("said").starts_with("1 lines of the list of ended programs"));
        // The next write rewrites the whole file.
        again.keep(row(5));
        file.write_at_end(&again, Nanos(0)).expect("written");
        assert_eq!(clients(&EndedFile::open(path).1), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn the_file_stays_bounded_and_a_disk_that_fails_is_said_once() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("eagerd.ended");
        let (mut file, mut ended, _) = EndedFile::open(path.clone());
        for client in 0..3 * PROGRAMS_MAX as u64 {
            ended.keep(row(client));
            file.write_at_end(&ended, Nanos(0)).expect("written");
        }
        let count = std::fs::read_to_string(&path).expect("text").lines().count();
        assert!((PROGRAMS_MAX..=LINES_MAX + 1).contains(&count), "{count} lines");
        assert_eq!(clients(&EndedFile::open(path).1), clients(&ended));

        let gone = dir.path().join("no such folder/eagerd.ended");
        let (mut file, mut ended, _) = EndedFile::open(gone);
        ended.keep(row(1));
        assert!(file.write_at_end(&ended, Nanos(0)).is_err());
        assert!(file.write_at_end(&ended, Nanos(0)).is_ok(), "it was said");
        assert!(file.next_write(&ended).is_some(), "it is tried again");
        assert!(file.problem().is_some_and(|why| why.contains("No such file")), "{:?}", file.problem());
    }

    #[test]
    fn another_versions_file_is_kept_and_not_read() {
        let dir = tempfile::tempdir().expect("folder");
        for (text, why) in
            [("{\"version\":9}\n", "version 9 is not known"), ("", "it is empty"), ("x\n", "expected")]
        {
            let path = dir.path().join("eagerd.ended");
            std::fs::write(&path, text).expect("write");
            let (_, ended, damage) = EndedFile::open(path.clone());
            let damage = damage.expect("said");
            assert!(ended.rows().is_empty() && damage.contains(why) && damage.contains(".bad"), "{damage}");
            assert!(!path.exists());
        }
    }
}
