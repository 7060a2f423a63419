//! Where the daemon is, and questions to it.
//!
//! Trap: a socket file may be there without a daemon. Only a connection says that one listens.

use anyhow::{Context, bail};
use eager_proto::admin::{AdminReply, AdminRequest, from_line, to_line};
use eager_proto::place::{ADMIN_SOCKET_NAME, CLIENT_SOCKET_NAME, VGPU_SOCKET_NAME, run_dirs_to_look_in};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// A daemon that does not answer for so long is stuck.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A run directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonPlace {
    pub run_dir: PathBuf,
}

impl DaemonPlace {
    /// The named run directory, or the first of the usual ones that has a daemon's socket, or the first.
    pub fn find(named: Option<PathBuf>) -> anyhow::Result<DaemonPlace> {
        let usual = run_dirs_to_look_in(std::env::var_os("XDG_RUNTIME_DIR").as_deref());
        let inhabited = || usual.iter().find(|dir| dir.join(CLIENT_SOCKET_NAME).exists());
        let run_dir = named.or_else(|| inhabited().or(usual.first()).cloned());
        Ok(DaemonPlace { run_dir: run_dir.context("no run directory; give --run-dir DIR")? })
    }

    pub fn client_socket(&self) -> PathBuf {
        self.run_dir.join(CLIENT_SOCKET_NAME)
    }

    /// Socket of the virtual GPU server; it is there only while the daemon's devices are virtual.
    pub fn vgpu_socket(&self) -> PathBuf {
        self.run_dir.join(VGPU_SOCKET_NAME)
    }

    /// One line that says what to do.
    pub fn nobody_there(&self) -> String {
        format!("no daemon at {}: start one with `eagerd --virtual 4xV100-16GB`", self.run_dir.display())
    }

    /// An answer that is no [`AdminReply::Error`].
    pub fn ask(&self, request: &AdminRequest) -> anyhow::Result<AdminReply> {
        let path = self.run_dir.join(ADMIN_SOCKET_NAME);
        let mut stream = UnixStream::connect(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => anyhow::anyhow!(self.nobody_there()),
            ErrorKind::PermissionDenied => {
                anyhow::anyhow!("{} is for the daemon's own user and root only", path.display())
            }
            _ => anyhow::Error::new(error).context(path.display().to_string()),
        })?;
        let waiting = || format!("the daemon at {} does not answer", self.run_dir.display());
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).context("admin socket")?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT)).context("admin socket")?;
        stream.write_all(&to_line(request)?).with_context(waiting)?;
        let mut answer = Vec::new();
        BufReader::new(stream).read_until(b'\n', &mut answer).with_context(waiting)?;
        if answer.is_empty() {
            // It serves nobody of this user, or has enough of his connections.
            bail!("the daemon at {} closed the connection without an answer", self.run_dir.display());
        }
        match from_line(&answer)
            .context("the daemon's answer is not understood; use programs of one build")?
        {
            AdminReply::Error { message } => bail!("the daemon says: {message}"),
            reply => Ok(reply),
        }
    }
}
