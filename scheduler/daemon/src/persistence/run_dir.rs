//! Claims the run directory: one daemon at a time, and nothing left behind.
//!
//! Trap: a socket file outlives its daemon, so its presence proves nothing. The lock does, since the kernel drops it
//! with the process; only the lock's holder may remove files.

use crate::persistence::safe_path::{self, Replaceable, other_writers};
use crate::persistence::whole_file::with_suffix;
use crate::process::users::is_own;
use eager_proto::place::{
    ADMIN_SOCKET_NAME, CLIENT_SOCKET_NAME, ENDED_FILE_NAME, HISTORY_FILE_NAME, HTTP_SOCKET_NAME,
    LOCK_FILE_NAME, STATE_FILE_NAME, VGPU_SOCKET_NAME,
};
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::Uid;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// A process that can open the lock file can hold a lock on it, and keep every daemon from starting.
const LOCK_MODE: u32 = 0o600;
/// Longest name of a Unix socket, without its final zero (unix(7)).
const SOCKET_BYTES_MAX: usize = 107;

#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    #[error("{}: {error}; give another with --run-dir DIR", path.display())]
    Unusable { path: PathBuf, error: std::io::Error },
    #[error("{} belongs to uid {uid}; give another with --run-dir DIR", path.display())]
    NotOurs { path: PathBuf, uid: u32 },
    #[error("{}: {who} may write there and change the daemon's files; remove that permission with chmod go-w", path.display())]
    OpenToOthers { path: PathBuf, who: String },
    #[error(
        "{}: the way to it goes through {}, where {who} can put something else in its place; give another with --run-dir DIR",
        path.display(),
        at.display()
    )]
    Replaceable { path: PathBuf, at: PathBuf, who: String },
    #[error("{}: its sockets would have names of more than {SOCKET_BYTES_MAX} bytes; give a shorter --run-dir DIR", path.display())]
    TooLong { path: PathBuf },
    #[error(
        "{}: some process holds this lock, and other users can open it; remove the file if no daemon runs",
        path.display()
    )]
    LockOpenToAll { path: PathBuf },
    #[error("a daemon{pid} serves {} already; stop it with `eager shutdown`, or give --run-dir DIR", path.display())]
    Taken { path: PathBuf, pid: String },
}

/// The claimed directory. Holds the lock while the daemon lives; its sockets are removed on drop.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    _lock: Flock<File>,
    /// Sockets that stay on drop: another process goes on listening, or keeps them for the next daemon.
    kept_sockets: Vec<PathBuf>,
}

impl RunDir {
    /// Creates the directory if needed, locks it, and removes what a dead daemon left. Sockets for which `given` is
    /// true stay: another process listens there, and hands the listener down.
    pub fn claim(path: &Path, given: impl Fn(&Path) -> bool) -> Result<RunDir, RunDirError> {
        let unusable = |error| RunDirError::Unusable { path: path.into(), error };
        if path.join(CLIENT_SOCKET_NAME.to_owned() + ".new").as_os_str().len() > SOCKET_BYTES_MAX {
            return Err(RunDirError::TooLong { path: path.into() });
        }
        // The folder that it lies in, before anything is made there.
        let above = std::path::absolute(path).map_err(unusable)?;
        refuse_replaceable(path, above.parent().unwrap_or(&above))?;
        match DirBuilder::new().mode(0o755).create(path) {
            // Other users' programs must reach the sockets, whatever the process's mask is.
            Ok(()) => std::fs::set_permissions(path, Permissions::from_mode(0o755)).map_err(unusable)?,
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(unusable(error)),
            Err(_) => {}
        }
        // The owner of a symbolic link is checked too: that user chooses where the daemon writes, and may change it at
        // any moment.
        let named: PathBuf = path.components().collect();
        let link = std::fs::symlink_metadata(named).map_err(unusable)?;
        let folder = std::fs::metadata(path).map_err(unusable)?;
        if let Some(uid) = [link.uid(), folder.uid()].into_iter().find(|uid| !is_own(*uid)) {
            return Err(RunDirError::NotOurs { path: path.into(), uid });
        }
        if let Some(who) = other_writers(&folder) {
            return Err(RunDirError::OpenToOthers { path: path.into(), who });
        }
        refuse_replaceable(path, path)?;
        let _lock = lock(path)?;
        let dir = RunDir { path: path.into(), _lock, kept_sockets: Vec::new() };
        // The client socket stays: programs that wait for a daemon to come back see from it that one may.
        let left = [dir.admin_socket(), dir.http_socket(), dir.fresh_client_socket()];
        dir.remove(left.iter().filter(|socket| !given(socket))).map_err(unusable)?;
        // A server of virtual GPUs outlives its daemon.
        let virtual_gpus = dir.vgpu_socket();
        if UnixStream::connect(&virtual_gpus).is_err() {
            dir.remove(std::iter::once(&virtual_gpus)).map_err(unusable)?;
        }
        Ok(dir)
    }

    /// Keeps this socket on exit, so that programs that connect meanwhile wait for the next daemon.
    pub fn keep_socket(&mut self, socket: PathBuf) {
        self.kept_sockets.push(socket);
    }

    pub fn keeps_socket(&self, socket: &Path) -> bool {
        self.kept_sockets.iter().any(|left| left == socket)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn client_socket(&self) -> PathBuf {
        self.path.join(CLIENT_SOCKET_NAME)
    }

    /// Where the client socket is made before it is renamed into place.
    pub fn fresh_client_socket(&self) -> PathBuf {
        self.path.join(CLIENT_SOCKET_NAME.to_owned() + ".new")
    }

    /// What a later daemon must know; see [`crate::persistence::state_file`].
    pub fn state_file(&self) -> PathBuf {
        self.path.join(STATE_FILE_NAME)
    }

    /// What earlier runs took; see [`crate::policy::run_history`].
    pub fn history_file(&self) -> PathBuf {
        self.path.join(HISTORY_FILE_NAME)
    }

    /// Programs that have ended; see [`crate::persistence::ended`].
    pub fn ended_file(&self) -> PathBuf {
        self.path.join(ENDED_FILE_NAME)
    }

    pub fn admin_socket(&self) -> PathBuf {
        self.path.join(ADMIN_SOCKET_NAME)
    }

    pub fn http_socket(&self) -> PathBuf {
        self.path.join(HTTP_SOCKET_NAME)
    }

    pub fn vgpu_socket(&self) -> PathBuf {
        self.path.join(VGPU_SOCKET_NAME)
    }

    fn remove<'a>(&self, mut sockets: impl Iterator<Item = &'a PathBuf>) -> std::io::Result<()> {
        sockets.try_for_each(|socket| remove_if_there(socket))
    }
}

/// Fails if another user can replace a folder or link on the way to a path, because all the daemon's files are found by it.
fn refuse_replaceable(run_dir: &Path, path: &Path) -> Result<(), RunDirError> {
    let unusable = |error| RunDirError::Unusable { path: run_dir.into(), error };
    let Some(Replaceable { at, who }) = safe_path::replaceable(path).map_err(unusable)? else {
        return Ok(());
    };
    Err(RunDirError::Replaceable { path: run_dir.into(), at, who })
}

/// Holds the directory's lock, in a file that only the daemon's own user can open. One that an earlier version left open to
/// others is replaced: they may have opened it already.
fn lock(folder: &Path) -> Result<Flock<File>, RunDirError> {
    let unusable = |error| RunDirError::Unusable { path: folder.into(), error };
    let path = folder.join(LOCK_FILE_NAME);
    loop {
        let mut private = OpenOptions::new();
        private.read(true).write(true).mode(LOCK_MODE).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let file = private.clone().create(true).truncate(false).open(&path).map_err(unusable)?;
        let found = file.metadata().map_err(unusable)?;
        let is_open_to_others = found.mode() & 0o077 != 0 || found.uid() != Uid::effective().as_raw();
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock);
        let mut lock = match lock {
            Ok(lock) => lock,
            Err(_) if is_open_to_others => return Err(RunDirError::LockOpenToAll { path }),
            Err(_) => return Err(taken(folder, &path)),
        };
        // Another daemon may have replaced the file since it was opened.
        if !std::fs::metadata(&path).is_ok_and(|now| (now.dev(), now.ino()) == (found.dev(), found.ino())) {
            continue;
        }
        if is_open_to_others {
            // No other daemon gets this far while the old file is locked, and none has the new file yet.
            let fresh = with_suffix(&path, ".new");
            remove_if_there(&fresh).map_err(unusable)?;
            let file = private.create_new(true).open(&fresh).map_err(unusable)?;
            let new = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| taken(folder, &path))?;
            std::fs::rename(&fresh, &path).map_err(unusable)?;
            // The old lock is released only now: a daemon that opened the old file meanwhile finds that it was
            // replaced.
            lock = new;
        }
        // The process id is only for people; a full disk costs nothing else.
        let _ = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
        return Ok(lock);
    }
}

fn remove_if_there(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn taken(folder: &Path, lock: &Path) -> RunDirError {
    let pid = std::fs::read_to_string(lock).unwrap_or_default();
    let pid = pid.trim().parse::<u32>().map_or(String::new(), |pid| format!(" (pid {pid})"));
    RunDirError::Taken { path: folder.into(), pid }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // Best effort: the next daemon cleans up as well. The lock file stays: without it two daemons could lock two
        // different files of one name.
        let ours = [self.client_socket(), self.admin_socket(), self.http_socket()];
        let _ = self.remove(ours.iter().filter(|socket| !self.keeps_socket(socket)));
    }
}
