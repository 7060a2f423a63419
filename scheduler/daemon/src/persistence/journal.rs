//! Writes the journal in pieces: a header with the whole state, then one line per step. The newest piece has the
//! journal's own name, earlier pieces have a number behind it; the oldest are removed when all together would be too
//! large.
//!
//! Traps: scheduling must go on without the journal. A full disk costs the record, never a program its device; it is
//! reported once and retried. And no step may be missing within a piece: after a lost step a new piece begins.

use crate::persistence::pipe::Pipe;
use crate::persistence::whole_file::create_fresh;
use eager_core::Scheduler;
use eager_core::journal::{JournalHeader, JournalLine};
use eager_journal::pieces;
use eager_units::Nanos;
use std::fs::{File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The lines name users, programs and their requests, so only the daemon's own user and its group may read them.
const MODE: u32 = 0o640;
/// Number of pieces in a journal of the largest permitted size (specification S-718).
const PIECES: u64 = 8;
/// Most bytes of lines in one piece, however large the journal may grow.
const PIECE_MAX: u64 = 64 << 20;
/// Time after a failure until the next try.
const PAUSE_NS: Nanos = Nanos::from_secs(10);

/// True for a failure that may pass: no room, a fault of the device, a pipe without a reader or one that is full. Any
/// other failure means that the path is wrong.
pub fn may_pass(error: &std::io::Error) -> bool {
    use ErrorKind::{FileTooLarge, OutOfMemory, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let passes = [StorageFull, QuotaExceeded, FileTooLarge, ReadOnlyFilesystem, OutOfMemory];
    let pipe_or_device = [nix::libc::EIO, nix::libc::ENXIO, nix::libc::EAGAIN, nix::libc::EPIPE];
    passes.contains(&error.kind()) || error.raw_os_error().is_some_and(|code| pipe_or_device.contains(&code))
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// The journal's path and size limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub path: PathBuf,
    /// Bytes of all pieces; 0: no limit.
    pub bytes_max: u64,
}

impl Place {
    fn limit(&self) -> u64 {
        if self.bytes_max == 0 { u64::MAX } else { self.bytes_max }
    }

    fn piece_max(&self) -> u64 {
        (self.limit() / PIECES).min(PIECE_MAX)
    }
}

/// The journal; records nothing without a place.
#[derive(Debug, Default)]
pub struct Journal {
    place: Option<Place>,
    /// Tells the pieces of this run from those of other runs.
    run: u64,
    /// Steps so far, recorded or not.
    steps: u64,
    piece: Option<Piece>,
    /// Where the lines go if the path names no regular file. Outlives a piece, as it may have the rest of a line.
    pipe: Option<Pipe>,
    /// When to try again after a failure.
    again_at: Option<Nanos>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Piece {
    /// None: the lines go to the pipe, without end.
    file: Option<File>,
    header: u64,
    lines: u64,
}

impl Journal {
    pub fn new(place: Option<Place>, run: u64) -> Journal {
        Journal { place, run, ..Journal::default() }
    }

    pub fn set_bytes_max(&mut self, bytes_max: u64) {
        if let Some(place) = &mut self.place {
            place.bytes_max = bytes_max;
        }
    }

    /// Prepares for a step: begins a new piece if the last is full or a retry is due. Returns true if recording resumes
    /// after a failure.
    pub fn prepare(&mut self, scheduler: &Scheduler, now: Nanos) -> std::io::Result<bool> {
        let Some(place) = &self.place else { return Ok(false) };
        if let Some(piece) = &self.piece {
            // A piece has at least as many bytes of lines as of header, so that headers take no more than half of the
            // journal.
            let is_full = piece.file.is_some() && piece.lines >= place.piece_max().max(piece.header);
            return if is_full { self.begin(scheduler, now).map(|()| false) } else { Ok(false) };
        }
        if self.again_at.is_none_or(|at| now < at) {
            return Ok(false);
        }
        let said = self.begin(scheduler, now);
        // A failure that goes on is not reported again.
        Ok(said.is_ok())
    }

    /// Begins a new piece.
    pub fn begin(&mut self, scheduler: &Scheduler, now: Nanos) -> std::io::Result<()> {
        self.piece = None;
        let Some(place) = &self.place else { return Ok(()) };
        let header = JournalHeader { run: self.run, steps: self.steps, ..JournalHeader::of(scheduler) };
        let mut text = serde_json::to_vec(&header)?;
        text.push(b'\n');
        let begun = open_piece(place, &mut self.pipe, &text);
        self.again_at = begun.is_err().then_some(Nanos(now.0.saturating_add(PAUSE_NS.0)));
        self.piece = Some(begun?);
        Ok(())
    }

    /// Appends a step. The first failure ends the piece and is returned.
    pub fn record(&mut self, line: &JournalLine, now: Nanos) -> std::io::Result<()> {
        self.steps = self.steps.saturating_add(1);
        let Some(piece) = &mut self.piece else { return Ok(()) };
        self.buffer.clear();
        serde_json::to_writer(&mut self.buffer, line)?;
        self.buffer.push(b'\n');
        let written = match (&mut piece.file, &mut self.pipe) {
            (Some(file), _) => file.write_all(&self.buffer),
            (None, Some(pipe)) => pipe.write_line(&self.buffer),
            (None, None) => Ok(()),
        };
        if let Err(error) = written {
            if let Some(file) = &piece.file {
                // Cuts off the torn line if possible; a reader skips it as well.
                let _ = file.set_len(piece.header + piece.lines);
            }
            if error.kind() == ErrorKind::BrokenPipe {
                // The next reader shall not get the rest of the last one's line.
                self.pipe = None;
            }
            self.piece = None;
            self.again_at = Some(Nanos(now.0.saturating_add(PAUSE_NS.0)));
            return Err(error);
        }
        piece.lines += self.buffer.len() as u64;
        Ok(())
    }

    pub fn is_on(&self) -> bool {
        self.piece.is_some()
    }

    /// Counts a step that is not recorded.
    pub fn count_unrecorded(&mut self) {
        self.steps = self.steps.saturating_add(1);
    }
}

/// Writes the new piece beside the last one, and renames both only then: whatever fails, every piece begins with a
/// header.
fn open_piece(place: &Place, pipe: &mut Option<Pipe>, header: &[u8]) -> std::io::Result<Piece> {
    let (path, length) = (&place.path, header.len() as u64);
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        begin_in_pipe(path, pipe, header)?;
        return Ok(Piece { file: None, header: length, lines: 0 });
    }
    let wanted = length.saturating_add(place.piece_max().max(length));
    make_room(path, place.limit().saturating_sub(wanted))?;
    let fresh = pieces::beside(path, "new");
    let file = loop {
        match write_fresh(&fresh, header) {
            Ok(file) => break file,
            // The journal's older pieces may be what fills the disk.
            Err(error) if is_full(&error) && drop_oldest(path)? => {}
            Err(error) => {
                let _ = std::fs::remove_file(&fresh);
                return Err(error);
            }
        }
    };
    if std::fs::metadata(path).is_ok_and(|last| last.len() > 0) {
        let next = pieces::numbered(path)?.last().map_or(1, |(number, _)| number.saturating_add(1));
        std::fs::rename(path, pieces::beside(path, &next.to_string()))?;
    }
    std::fs::rename(&fresh, path)?;
    // The previous piece counts among the older ones from now on.
    make_room(path, place.limit().saturating_sub(wanted))?;
    Ok(Piece { file: Some(file), header: length, lines: 0 })
}

/// Writes a header into the pipe, which is opened again if it is another one than before or lost its reader.
fn begin_in_pipe(path: &Path, pipe: &mut Option<Pipe>, header: &[u8]) -> std::io::Result<()> {
    if !pipe.as_ref().is_some_and(|pipe| pipe.is_at(path)) {
        *pipe = Some(Pipe::open(path)?);
    }
    let Some(open) = pipe else { return Ok(()) };
    let written = open.write_line(header);
    if written.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        *pipe = None;
    }
    written
}

fn write_fresh(path: &Path, header: &[u8]) -> std::io::Result<File> {
    let mut file = create_fresh(path, MODE)?;
    // Whatever the process's mask is.
    file.set_permissions(Permissions::from_mode(MODE))?;
    file.write_all(header)?;
    Ok(file)
}

/// Removes the oldest pieces until the others take no more than `bytes`.
fn make_room(path: &Path, bytes: u64) -> std::io::Result<()> {
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    let older = pieces::numbered(path)?;
    let mut total: u64 = older.iter().map(|(_, path)| length(path)).sum();
    for (_, piece) in older {
        if total <= bytes {
            break;
        }
        total = total.saturating_sub(length(&piece));
        std::fs::remove_file(piece)?;
    }
    Ok(())
}

/// Removes the oldest piece; false if there is none.
fn drop_oldest(path: &Path) -> std::io::Result<bool> {
    let Some((_, oldest)) = pieces::numbered(path)?.into_iter().next() else { return Ok(false) };
    std::fs::remove_file(oldest).map(|()| true)
}
