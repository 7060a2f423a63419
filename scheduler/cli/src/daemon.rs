//! Where the daemon is, and questions to it.
//!
//! Trap: a socket file may be there without a daemon. Only a connection says that one listens.

use crate::say;
use anyhow::{Context, bail};
use eager_proto::admin::{AdminReply, AdminRequest, from_line, to_line};
use eager_proto::newcomer::{CONNECT_MAX, ENV_CONNECT_MAX, is_inhabited, parse_connect_max};
use eager_proto::place::{ADMIN_SOCKET_NAME, CLIENT_SOCKET_NAME, VGPU_SOCKET_NAME, run_dirs_to_look_in};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A daemon that does not answer for so long is stuck.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A daemon that is alive takes a connection at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two looks whether one is there.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Who waits for longer says so.
const UNSAID_MAX: Duration = Duration::from_secs(1);

/// How long to wait for a daemon that is to be expected, as programs do.
pub fn connect_max() -> anyhow::Result<Duration> {
    let Some(value) = std::env::var_os(ENV_CONNECT_MAX).filter(|value| !value.is_empty()) else {
        return Ok(CONNECT_MAX);
    };
    let seconds = value.to_str().and_then(parse_connect_max);
    seconds
        .with_context(|| format!("{ENV_CONNECT_MAX}={value:?} is not a number of seconds, such as 10 or 0.5"))
}

/// A daemon that answers.
#[derive(Debug)]
pub struct Present {
    pub client_socket: PathBuf,
    /// Of the virtual GPU server, where its devices are virtual.
    pub vgpu_socket: Option<PathBuf>,
}

/// A run directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonPlace {
    pub run_dir: PathBuf,
}

impl DaemonPlace {
    /// The named run directory, or the first of the usual ones that has a daemon's socket, or had one, or the first.
    pub fn find(named: Option<PathBuf>) -> anyhow::Result<DaemonPlace> {
        let usual = run_dirs_to_look_in(std::env::var_os("XDG_RUNTIME_DIR").as_deref());
        let socket = |dir: &PathBuf| dir.join(CLIENT_SOCKET_NAME);
        let inhabited = || {
            let has_socket = usual.iter().find(|dir| socket(dir).exists());
            has_socket.or_else(|| usual.iter().find(|dir| is_inhabited(&socket(dir))))
        };
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

    /// Waits for a daemon that is being started again; `find` says where to look, and is asked anew each time. `Err`: the
    /// place where none came.
    pub fn await_daemon(
        patience: Duration,
        mut find: impl FnMut() -> anyhow::Result<(DaemonPlace, PathBuf)>,
    ) -> anyhow::Result<Result<Present, DaemonPlace>> {
        let (start, mut is_said) = (Instant::now(), false);
        loop {
            let (place, socket) = find()?;
            if let Some(present) = place.look(&socket) {
                return Ok(Ok(present));
            }
            let waited = start.elapsed();
            if waited >= patience || !is_inhabited(&socket) {
                return Ok(Err(place));
            }
            if waited >= UNSAID_MAX && !std::mem::replace(&mut is_said, true) {
                let (place, most) = (place.run_dir.display(), patience.as_secs_f32());
                say(&format!("no daemon at {place}: waiting for one, {most} s at most"));
            }
            std::thread::sleep(LOOK_EVERY.min(patience.saturating_sub(waited)));
        }
    }

    /// `None`: nobody is there, or one that ends. A daemon whose devices are virtual has their server's socket there for as
    /// long as its own; where there is none, it may be about to go or to come, and only its word counts.
    fn look(&self, socket: &Path) -> Option<Present> {
        let is_there = || eager_shm::connect_seqpacket(socket, CONNECT_TIMEOUT).is_ok();
        let present = |is_virtual: bool| {
            let vgpu_socket = is_virtual.then(|| self.vgpu_socket());
            Some(Present { client_socket: socket.into(), vgpu_socket })
        };
        if !is_there() {
            return None;
        }
        let has_server = || self.vgpu_socket().exists();
        if has_server() || !self.run_dir.join(ADMIN_SOCKET_NAME).exists() {
            return present(has_server());
        }
        match self.ask(&AdminRequest::Info) {
            Ok(AdminReply::Info { devices, .. }) => {
                present(devices.iter().any(|device| device.kind == "virtual"))
            }
            // It tells this user nothing, or not now.
            _ if is_there() => present(has_server()),
            _ => None,
        }
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
