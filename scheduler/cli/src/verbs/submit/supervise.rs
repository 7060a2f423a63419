//! Process that supervises one submitted job: starts `eager run` for it, keeps its output, and records how it ended.
//!
//! Trap: its standard input is the lock that proves that it lives, so no process that it starts may inherit it. Trap:
//! if the log cannot be written any more, output must still be read, because the program would block.

use super::store::{End, Job, now_ms};
use anyhow::{Context, ensure};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};
use std::ffi::OsString;
use std::fs::File;
use std::io::{PipeReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// First word of the command line of a supervising process; not a verb for people.
pub const WORD: &str = "__supervise";
/// First word of the command line of the process that becomes the job's program.
const WORD_RUN: &str = "__run-for";
/// Largest size of a log (specification S-646).
const LOG_BYTES_MAX: u64 = 64 << 20;
/// Time for which output of processes that the program left behind is still read after its end.
const LAST_OUTPUT: Duration = Duration::from_secs(2);

/// Handles command lines of jobs: supervises a job and returns the exit code as `Err`, or returns the words of an
/// `eager run` as `Ok`. None for any other command line.
pub fn run_internal_verb(arguments: &[OsString]) -> Option<Result<Vec<OsString>, ExitCode>> {
    let (word, rest) = arguments.split_first()?;
    match word.to_str()? {
        WORD => Some(Err(supervise(rest).map_or_else(|error| crate::fail(&error), |()| ExitCode::SUCCESS))),
        WORD_RUN => Some(run_for(rest).map_err(|error| crate::fail(&error))),
        _ => None,
    }
}

/// Ties the program to the supervising process: it is killed with it, because nothing else would record how it ends.
fn run_for(arguments: &[OsString]) -> anyhow::Result<Vec<OsString>> {
    let (parent, words) = arguments.split_first().context("no process to run for")?;
    let parent = parent.to_str().and_then(|text| text.parse().ok()).context("no process to run for")?;
    set_pdeathsig(Signal::SIGKILL).context("a tie to the process that watches over the job")?;
    ensure!(getppid() == Pid::from_raw(parent), "the process that watches over the job is gone");
    Ok([&["eager".into(), "run".into()], words].concat())
}

fn supervise(arguments: &[OsString]) -> anyhow::Result<()> {
    let (folder, words) = arguments.split_first().context("no job")?;
    let job = Job::in_folder(PathBuf::from(folder));
    // In a session of its own, the job survives the end of the user's session.
    nix::unistd::setsid().context("a session of its own")?;
    let end = run(&job, words).unwrap_or_else(|error| End { note: format!("{error:#}"), ..End::default() });
    job.write_end(&End { ended_ms: now_ms(), ..end }).context("the job's end")
}

fn run(job: &Job, words: &[OsString]) -> anyhow::Result<End> {
    let log = job.append_log().context("the log")?;
    let (reader, writer) = std::io::pipe().context("a pipe for the program's output")?;
    let own = std::env::current_exe().context("cannot find my own executable")?;
    let mut command = Command::new(own);
    command.arg(WORD_RUN).arg(std::process::id().to_string()).args(words);
    command.stdin(Stdio::null()).stdout(writer.try_clone().context("the pipe")?).stderr(writer);
    let mut child = command.process_group(0).spawn().context("the program was not started")?;
    // The command's ends of the pipe would keep the pipe open.
    drop(command);
    let copied = copy_in_background(reader, log);
    let status = child.wait().context("waiting for the program")?;
    let note = last_note(&copied);
    Ok(End { code: status.code(), signal: status.signal(), note, ..End::default() })
}

/// Waits for the end of the output, or for a while where a process that the program left behind may still write some.
/// Returns the note on the log, if there is one.
fn last_note(copied: &Receiver<String>) -> String {
    let deadline = Instant::now() + LAST_OUTPUT;
    let mut note = String::new();
    while let Ok(next) = copied.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        note = next;
    }
    note
}

/// Copies output to the log in a thread. The receiver gets a note on a problem with the log, and the sender is dropped
/// after the last output.
fn copy_in_background(reader: PipeReader, log: File) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        // The receiver may have given up waiting.
        copy(reader, log, LOG_BYTES_MAX, |note| drop(sender.send(note)));
    });
    receiver
}

/// Reads all output, and writes at most `most` bytes to the log. Tells at once why the log is incomplete, if it is.
fn copy(mut from: impl Read, mut log: impl Write, most: u64, tell: impl Fn(String)) {
    let (mut buffer, mut written, mut is_cut) = (vec![0; 1 << 16], 0_u64, false);
    loop {
        let length = match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return tell(format!("its output could not be read: {error}")),
        };
        if is_cut {
            continue;
        }
        let fits = usize::try_from(most - written).unwrap_or(usize::MAX).min(length);
        if let Err(error) = log.write_all(&buffer[..fits]) {
            is_cut = true;
            tell(format!("its log is incomplete: {error}"));
        } else if fits < length {
            is_cut = true;
            let note = format!("its log is incomplete: it ends after {}", eager_units::shown::size(most));
            let _ = writeln!(log, "\neager: {note}");
            tell(note);
        }
        written += fits as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with room for `.1` bytes.
    #[derive(Debug)]
    struct Disk(Vec<u8>, usize);

    impl Write for &mut Disk {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let room = (self.1 - self.0.len()).min(bytes.len());
            if room == 0 {
                return Err(std::io::ErrorKind::StorageFull.into());
            }
            self.0.extend(&bytes[..room]);
            Ok(room)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The notes of a copy.
    fn notes(from: impl Read, log: impl Write, most: u64) -> Vec<String> {
        let (sender, receiver) = channel();
        copy(from, log, most, |note| sender.send(note).expect("the receiver is there"));
        receiver.try_iter().collect()
    }

    #[test]
    fn a_note_is_not_lost_where_the_output_has_no_end() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let copied = copy_in_background(reader, File::open("/dev/null").expect("a log that takes nothing"));
        writer.write_all(b"x").expect("written");
        assert!(last_note(&copied).starts_with("its log is incomplete: "), "the pipe is still open");
        drop(writer);
    }

    #[test]
    fn all_output_is_taken_whatever_the_log_can_have() {
        let said = vec![b'x'; 300_000];
        let mut enough = Disk(Vec::new(), 1 << 20);
        assert!(notes(&said[..], &mut enough, 1 << 20).is_empty());
        assert_eq!(enough.0, said);
        let mut input = &said[..];
        let mut full = Disk(Vec::new(), 70_000);
        assert!(notes(&mut input, &mut full, 1 << 20)[0].contains("is incomplete: "));
        assert_eq!((input.len(), full.0.len()), (0, 70_000));
        let mut input = &said[..];
        let mut bounded = Disk(Vec::new(), 1 << 20);
        let cut = "its log is incomplete: it ends after 97.7 KiB";
        assert_eq!(notes(&mut input, &mut bounded, 100_000), [cut]);
        assert!(input.is_empty() && bounded.0.starts_with(&said[..100_000]) && bounded.0.len() < 100_200);
    }
}
