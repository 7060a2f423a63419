//! `--detach`: runs the daemon in the background; the command that started it ends once the daemon serves.
//!
//! Trap: the background process is the program executed again with [`FLAG`], not a fork, since a thread or a lock that
//! a fork would copy may exist already. Until it serves it reports errors to the starting command; after that all
//! output goes into [`LOG`]. The virtual GPU server writes there too and outlives the daemon, so a log that is too
//! large is copied and truncated: after a rename the server would go on growing the old file.

use anyhow::Context;
use nix::unistd::{dup2_stderr, dup2_stdout, setsid};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, OnceLock};

/// Flag of the background process, in place of `--detach`.
const FLAG: &str = "--detached";
/// Name of the log in the run directory.
const LOG: &str = "eagerd.log";
/// Mode of the log, as of the journal: its lines name programs and users.
const LOG_MODE: u32 = 0o640;

/// Approximate limit of the log; one older piece of it is kept beside it (specification S-725).
const LOG_BYTES_MAX: u64 = 4 << 20;
/// Path of the log; unset in the foreground.
static LOG_PATH: OnceLock<PathBuf> = OnceLock::new();

/// Standard error of the starting command, for the error that keeps the daemon from serving.
static STARTER: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// Starts the daemon in the background with this process's flags, and waits until it serves or has ended.
pub fn start() -> anyhow::Result<ExitCode> {
    let own = std::env::current_exe().context("cannot find the daemon's own executable")?;
    let flags = std::env::args_os().skip(1).filter(|flag| flag != "--detach");
    let mut command = Command::new(own);
    command.args(flags).arg(FLAG).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start the daemon")?;
    let mut ready = String::new();
    if let Some(output) = child.stdout.take() {
        // A read error counts as an end without the ready line.
        let _ = BufReader::new(output).read_line(&mut ready);
    }
    if ready.is_empty() {
        let status = child.wait().context("the daemon")?;
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
        return Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)));
    }
    // If standard output is closed, the line has no reader.
    let _ = std::io::stdout().write_all(ready.as_bytes());
    Ok(ExitCode::SUCCESS)
}

/// Leaves the terminal, and sends all further log lines into the log file. Runs in the background process.
pub fn enter_background(run_dir: &Path) -> anyhow::Result<()> {
    let path = run_dir.join(LOG);
    let cannot = || format!("cannot write {}", path.display());
    let log = OpenOptions::new().append(true).create(true).mode(LOG_MODE).open(&path).with_context(cannot)?;
    let starter = std::io::stderr().as_fd().try_clone_to_owned().context("standard error")?;
    dup2_stderr(&log).with_context(cannot)?;
    let _ = LOG_PATH.set(path.clone());
    limit_log_size();
    *STARTER.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(starter);
    // Fails where the process leads a session already, which is just as good.
    let _ = setsid();
    Ok(())
}

/// Moves a log that has become too large into the older piece; called after each line. Where there is no room for that
/// piece its lines are lost, so that the limit holds all the same.
pub fn limit_log_size() {
    let Some(path) = LOG_PATH.get() else { return };
    // Measures the open file, whatever file is at the log's path by now.
    let Ok(log) = std::io::stderr().as_fd().try_clone_to_owned().map(File::from) else { return };
    if log.metadata().is_ok_and(|file| file.is_file() && file.len() >= LOG_BYTES_MAX) {
        let _ = keep_older(path);
        let _ = log.set_len(0);
    }
}

fn keep_older(path: &Path) -> std::io::Result<()> {
    let older = path.with_extension("log.1");
    // Created anew, so that a file planted under this name is not written to; removing the old piece also frees its
    // space.
    let _ = std::fs::remove_file(&older);
    let mut log = File::open(path)?;
    // Copies only the end, in case another process left a hole or a flood of lines in the log.
    let from = log.metadata()?.len().saturating_sub(2 * LOG_BYTES_MAX);
    log.seek(SeekFrom::Start(from))?;
    let mut kept = OpenOptions::new().write(true).create_new(true).open(&older)?;
    // The daemon's umask is stricter than this mode by now.
    kept.set_permissions(Permissions::from_mode(LOG_MODE))?;
    std::io::copy(&mut log.take(2 * LOG_BYTES_MAX), &mut kept).map(drop)
}

/// Releases the starting command's output after the ready line, so that its reader does not wait for an open pipe.
pub fn release_starter() {
    let starter = STARTER.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    if starter.is_some()
        && let Ok(nothing) = OpenOptions::new().write(true).open("/dev/null")
    {
        let _ = dup2_stdout(nothing);
    }
}

/// Writes a line to the starting command, if the daemon does not serve yet.
pub fn report_to_starter(line: &str) {
    let starter = STARTER.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    if let Some(starter) = starter {
        let _ = writeln!(File::from(starter), "{line}");
    }
}
