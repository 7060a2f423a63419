//! The run directory: one daemon at a time, and nothing left behind.
//!
//! Trap: a socket file outlives its daemon, so its presence says nothing. The lock says it, and the kernel drops the
//! lock with the process; files are removed only by who holds it.

use eager_proto::place::{
    ADMIN_SOCKET_NAME, CLIENT_SOCKET_NAME, HISTORY_FILE_NAME, HTTP_SOCKET_NAME, LOCK_FILE_NAME,
    STATE_FILE_NAME, VGPU_SOCKET_NAME,
};
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::Uid;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    #[error("{}: {error}; give another with --run-dir DIR", path.display())]
    Unusable { path: PathBuf, error: std::io::Error },
    #[error("{} belongs to uid {uid}; give another with --run-dir DIR", path.display())]
    NotOurs { path: PathBuf, uid: u32 },
    #[error("a daemon{pid} serves {} already; stop it with `eager shutdown`, or give --run-dir DIR", path.display())]
    Taken { path: PathBuf, pid: String },
}

/// Held while the daemon lives; its sockets are removed on drop.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    _lock: Flock<File>,
    /// Sockets that stay where they are: who made them goes on listening, or keeps them for the next daemon.
    stay: Vec<PathBuf>,
}

impl RunDir {
    /// Makes the directory if need be, locks it, and removes what a dead daemon left, but for sockets that are `given`:
    /// somebody listens there, and hands that down.
    pub fn claim(path: &Path, given: impl Fn(&Path) -> bool) -> Result<RunDir, RunDirError> {
        let unusable = |error| RunDirError::Unusable { path: path.into(), error };
        match DirBuilder::new().mode(0o755).create(path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(unusable(error)),
            _ => {}
        }
        let uid = std::fs::metadata(path).map_err(unusable)?.uid();
        if uid != Uid::effective().as_raw() && uid != 0 {
            return Err(RunDirError::NotOurs { path: path.into(), uid });
        }
        let lock_path = path.join(LOCK_FILE_NAME);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o644)
            .open(&lock_path)
            .map_err(unusable)?;
        let mut lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, _)| {
            let pid = std::fs::read_to_string(&lock_path).unwrap_or_default();
            let pid = pid.trim().parse::<u32>().map_or(String::new(), |pid| format!(" (pid {pid})"));
            RunDirError::Taken { path: path.into(), pid }
        })?;
        lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id())).map_err(unusable)?;
        let dir = RunDir { path: path.into(), _lock: lock, stay: Vec::new() };
        // Not the clients' socket: programs that wait for a daemon to come back see by it that one may.
        let left = [dir.admin_socket(), dir.http_socket(), dir.fresh_client_socket()];
        dir.remove(left.iter().filter(|socket| !given(socket))).map_err(unusable)?;
        // A server of virtual GPUs outlives its daemon.
        let virtual_gpus = dir.vgpu_socket();
        if UnixStream::connect(&virtual_gpus).is_err() {
            dir.remove(std::iter::once(&virtual_gpus)).map_err(unusable)?;
        }
        Ok(dir)
    }

    /// Who comes there while nobody is here shall wait for the next daemon, and not find nothing.
    pub fn leave(&mut self, socket: PathBuf) {
        self.stay.push(socket);
    }

    pub fn leaves(&self, socket: &Path) -> bool {
        self.stay.iter().any(|left| left == socket)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn client_socket(&self) -> PathBuf {
        self.path.join(CLIENT_SOCKET_NAME)
    }

    /// Where the clients' socket is made before it takes its place.
    pub fn fresh_client_socket(&self) -> PathBuf {
        self.path.join(CLIENT_SOCKET_NAME.to_owned() + ".new")
    }

    /// What a later daemon must know; see [`crate::state_file`].
    pub fn state_file(&self) -> PathBuf {
        self.path.join(STATE_FILE_NAME)
    }

    /// What earlier runs took; see [`crate::learnt`].
    pub fn history_file(&self) -> PathBuf {
        self.path.join(HISTORY_FILE_NAME)
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

    fn remove<'a>(&self, sockets: impl Iterator<Item = &'a PathBuf>) -> std::io::Result<()> {
        for socket in sockets {
            match std::fs::remove_file(socket) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // Best effort: the next daemon cleans up as well. The lock file stays: without it two daemons could lock two
        // different files of one name.
        let ours = [self.client_socket(), self.admin_socket(), self.http_socket()];
        let _ = self.remove(ours.iter().filter(|socket| !self.leaves(socket)));
    }
}
