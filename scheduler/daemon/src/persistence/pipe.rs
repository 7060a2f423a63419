//! A pipe or device that takes lines and is never waited for.
//!
//! Trap: a write to a pipe may take a part of a line. The rest is kept and goes first at the next write, so that a reader
//! who is slow gets fewer lines, but each of them whole.

use crate::process::users::is_another;
use nix::fcntl::{FcntlArg, fcntl};
use std::collections::VecDeque;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Largest pipe that a process without privileges gets, unless the machine is set up otherwise (pipe(7)).
const PIPE_BYTES_MAX: i32 = 1 << 20;

#[derive(Debug)]
pub struct Pipe {
    file: File,
    /// End of a line of which the pipe has the beginning.
    rest: VecDeque<u8>,
}

impl Pipe {
    /// Opens a pipe or a character device. A pipe without a reader fails with ENXIO.
    ///
    /// # Errors
    /// It is something else, or belongs to another user, who would read what the users of this machine do.
    pub fn open(path: &Path) -> std::io::Result<Pipe> {
        check(&std::fs::metadata(path)?)?;
        let file = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        // Another user may have put a pipe there since.
        check(&file.metadata()?)?;
        Ok(Pipe { file, rest: VecDeque::new() })
    }

    /// True if `path` still names this pipe.
    pub fn is_at(&self, path: &Path) -> bool {
        let inode = |found: Metadata| (found.dev(), found.ino());
        let (Ok(there), Ok(here)) = (std::fs::metadata(path), self.file.metadata()) else { return false };
        inode(there) == inode(here)
    }

    /// Writes a line, or its beginning and keeps the rest for the next write.
    ///
    /// # Errors
    /// Nothing of the line was written, for example because the pipe is full (EAGAIN).
    pub fn write_line(&mut self, line: &[u8]) -> std::io::Result<()> {
        while !self.rest.is_empty() {
            let written = some(&mut self.file, self.rest.make_contiguous())?;
            self.rest.drain(..written);
        }
        self.enlarge(line.len());
        let written = some(&mut self.file, line)?;
        self.rest.extend(&line[written..]);
        Ok(())
    }
}

impl Pipe {
    /// Makes the pipe as large as one line needs, if the system allows it: otherwise a reader gets a long line in as many
    /// parts as it takes. Has no effect on a device.
    fn enlarge(&mut self, bytes: usize) {
        let (Ok(size), Ok(wanted)) = (fcntl(&self.file, FcntlArg::F_GETPIPE_SZ), i32::try_from(bytes)) else {
            return;
        };
        if size < wanted && fcntl(&self.file, FcntlArg::F_SETPIPE_SZ(wanted)).is_err() {
            let _ = fcntl(&self.file, FcntlArg::F_SETPIPE_SZ(wanted.min(PIPE_BYTES_MAX)));
        }
    }
}

/// Writes as much as there is room for, at least one byte.
fn some(file: &mut File, bytes: &[u8]) -> std::io::Result<usize> {
    loop {
        match file.write(bytes) {
            Ok(0) if !bytes.is_empty() => return Err(ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn check(found: &Metadata) -> std::io::Result<()> {
    let kind = found.file_type();
    let wrong = match found.uid() {
        _ if !kind.is_fifo() && !kind.is_char_device() => {
            "it is neither a file nor a pipe nor a device".into()
        }
        uid if is_another(uid) => format!("it belongs to uid {uid}"),
        _ => return Ok(()),
    };
    Err(std::io::Error::new(ErrorKind::InvalidInput, wrong))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_slow_reader_gets_fewer_lines_and_each_is_whole() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("pipe");
        assert_eq!(Pipe::open(&path).expect_err("no reader").raw_os_error(), Some(libc::ENXIO));
        let mut reader =
            OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path).expect("reader");
        let mut pipe = Pipe::open(&path).expect("a reader is there");
        assert!(pipe.is_at(&path) && !pipe.is_at(dir.path()));
        let line = |letter: char| letter.to_string().repeat(3_000_000) + "\n";
        let mut taken = Vec::new();
        let mut lost = 0;
        let mut read = String::new();
        for letter in ('a'..='z').cycle().take(100) {
            match pipe.write_line(line(letter).as_bytes()) {
                Ok(()) => taken.push(letter),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    lost += 1;
                }
            }
            let mut bytes = vec![0; 1_500_000];
            let length = reader.read(&mut bytes).expect("bytes");
            read += std::str::from_utf8(&bytes[..length]).expect("text");
        }
        let whole: Vec<&str> = read.split_inclusive('\n').filter(|line| line.ends_with('\n')).collect();
        assert!(lost > 5 && whole.len() > 5, "{lost} lost, {} read", whole.len());
        assert!(whole.iter().zip(&taken).all(|(read, taken)| **read == line(*taken)));
    }
}
