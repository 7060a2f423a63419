//! The server's socket: one server per path, the socket removed at the end, a dead server's socket taken over.
//!
//! Trap: the lock file beside the socket must stay when the server ends. Removing it would let two servers lock two
//! different files with the same name.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

/// Why the socket cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error("another eager-vgpud already serves {path}; stop it or choose another --socket", path = path.display())]
    Taken { path: PathBuf },
    #[error("cannot serve {path}", path = path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// A listening socket that only this process serves; removed on drop.
#[derive(Debug)]
pub struct Endpoint {
    pub listener: UnixListener,
    path: PathBuf,
    /// Identity of the socket file at the path, while it is this server's.
    file: Option<(u64, u64)>,
    _lock: Flock<File>,
}

impl Endpoint {
    /// # Errors
    /// Another server has the path, or the path cannot be used.
    pub fn bind(path: &Path) -> Result<Endpoint, EndpointError> {
        let io_error = |source| EndpointError::Io { path: path.to_owned(), source };
        let mut lock_name = path.as_os_str().to_owned();
        lock_name.push(".lock");
        let mut private = File::options();
        // A user who can open the file can lock it, and so keep every server from starting.
        private.create(true).truncate(false).write(true).mode(0o600);
        let file = private.open(&lock_name).map_err(io_error)?;
        file.set_permissions(Permissions::from_mode(0o600)).map_err(io_error)?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|_| EndpointError::Taken { path: path.to_owned() })?;
        // With the lock held, an existing socket belonged to a server that was killed.
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(io_error(e)),
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(io_error)?;
        listener.set_nonblocking(true).map_err(io_error)?;
        Ok(Endpoint { listener, path: path.to_owned(), file: identity(path), _lock: lock })
    }
}

/// Identity of a file (device, inode), which distinguishes it from a later file at the same path.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if self.file.is_some() && identity(&self.path) == self.file {
            // Nothing can be done if the socket was removed meanwhile.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
