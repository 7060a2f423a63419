//! `--detach`: the daemon goes on in the background, and the command that started it ends when it serves.
//!
//! Trap: the process that serves is the program started anew, with [`FLAG`], since a thread or a lock that a fork would copy
//! may exist already. Until it serves it says errors where it was started; after that everything goes into [`LOG`]. The
//! virtual GPU server writes there too and outlives the daemon: a log that is too large is copied and emptied, since a file
//! that was only renamed would go on growing under its hands.

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

/// Given to the process in the background in place of `--detach`.
const FLAG: &str = "--detached";
/// In the run directory.
const LOG: &str = "eagerd.log";
/// As the journal's: its lines name programs and users.
const LOG_MODE: u32 = 0o640;

/// The log is at most about so large, and there is one older piece of it (specification S-725).
const LOG_BYTES_MAX: u64 = 4 << 20;
/// Where it is; nowhere in the foreground.
static LOG_PATH: OnceLock<PathBuf> = OnceLock::new();

/// Standard error of whoever started the daemon, for what keeps it from serving.
static STARTER: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// Starts the daemon in the background with this one's flags and waits until it serves or has ended.
pub fn start() -> anyhow::Result<ExitCode> {
    let own = std::env::current_exe().context("cannot find the daemon's own executable")?;
    let flags = std::env::args_os().skip(1).filter(|flag| flag != "--detach");
    let mut command = Command::new(own);
    command.args(flags).arg(FLAG).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start the daemon")?;
    let mut ready = String::new();
    if let Some(output) = child.stdout.take() {
        // An error is an end without the line.
        let _ = BufReader::new(output).read_line(&mut ready);
    }
    if ready.is_empty() {
        let status = child.wait().context("the daemon")?;
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
        return Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)));
    }
    // Nobody is left to be told that standard output is closed.
    let _ = std::io::stdout().write_all(ready.as_bytes());
    Ok(ExitCode::SUCCESS)
}

/// In the background: leaves the terminal, and says everything into the log from now on.
pub fn leave(run_dir: &Path) -> anyhow::Result<()> {
    let path = run_dir.join(LOG);
    let cannot = || format!("cannot write {}", path.display());
    let log = OpenOptions::new().append(true).create(true).mode(LOG_MODE).open(&path).with_context(cannot)?;
    let starter = std::io::stderr().as_fd().try_clone_to_owned().context("standard error")?;
    dup2_stderr(&log).with_context(cannot)?;
    let _ = LOG_PATH.set(path.clone());
    bound_log();
    *STARTER.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(starter);
    // It fails where the process leads a session already, which is as good.
    let _ = setsid();
    Ok(())
}

/// After each line: a log that has become too large becomes the older piece. Where there is no room for that piece it is
/// lost, and the limit holds all the same.
pub fn bound_log() {
    let Some(path) = LOG_PATH.get() else { return };
    // Of the file that is written to, whatever lies at its place by now.
    let Ok(log) = std::io::stderr().as_fd().try_clone_to_owned().map(File::from) else { return };
    if log.metadata().is_ok_and(|file| file.is_file() && file.len() >= LOG_BYTES_MAX) {
        let _ = keep_older(path);
        let _ = log.set_len(0);
    }
}

fn keep_older(path: &Path) -> std::io::Result<()> {
    let older = path.with_extension("log.1");
    // Made anew, so that what somebody put there is not written to; and there is room for it where this was there before.
    let _ = std::fs::remove_file(&older);
    let mut log = File::open(path)?;
    // A hole or a flood by other hands is not copied whole.
    let from = log.metadata()?.len().saturating_sub(2 * LOG_BYTES_MAX);
    log.seek(SeekFrom::Start(from))?;
    let mut kept = OpenOptions::new().write(true).create_new(true).open(&older)?;
    // The daemon's mask of modes leaves others less by now.
    kept.set_permissions(Permissions::from_mode(LOG_MODE))?;
    std::io::copy(&mut log.take(2 * LOG_BYTES_MAX), &mut kept).map(drop)
}

/// It serves, and has said so: whoever started it is not held up by an open file.
pub fn serves() {
    let starter = STARTER.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    if starter.is_some()
        && let Ok(nothing) = OpenOptions::new().write(true).open("/dev/null")
    {
        let _ = dup2_stdout(nothing);
    }
}

/// A line for whoever started a daemon that does not serve yet.
pub fn tell_starter(line: &str) {
    let starter = STARTER.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    if let Some(starter) = starter {
        let _ = writeln!(File::from(starter), "{line}");
    }
}
