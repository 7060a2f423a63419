//! Finds the daemon, and sends requests to it.
//!
//! Trap: a socket file may exist without a daemon. Only a successful connection proves that a daemon listens.

use crate::say;
use anyhow::{Context, bail};
use eager_proto::ENV_SOCKET;
use eager_proto::admin::{AdminReply, AdminRequest, from_line, to_line};
use eager_proto::newcomer::{CONNECT_MAX, ENV_CONNECT_MAX, daemon_expected, parse_connect_max};
use eager_proto::place::{ADMIN_SOCKET_NAME, CLIENT_SOCKET_NAME, VGPU_SOCKET_NAME, run_dirs_to_look_in};
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, setsockopt, socket, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A daemon that does not answer within this time is stuck.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The same for a question without whose answer the caller can go on.
const BRIEF_TIMEOUT: Duration = Duration::from_secs(1);

/// A running daemon accepts a connection at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which to look for a daemon.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Shortest and longest pause before a busy daemon is asked again; the pause doubles each time (specification S-715).
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// A wait longer than this is reported.
const REPORT_AFTER: Duration = Duration::from_secs(1);

/// Returns how long to wait for a daemon that is expected to come, as programs do.
pub fn connect_max() -> anyhow::Result<Duration> {
    let Some(value) = std::env::var_os(ENV_CONNECT_MAX).filter(|value| !value.is_empty()) else {
        return Ok(CONNECT_MAX);
    };
    let seconds = value.to_str().and_then(parse_connect_max);
    seconds
        .with_context(|| format!("{ENV_CONNECT_MAX}={value:?} is not a number of seconds, such as 10 or 0.5"))
}

/// Returns the client socket in the environment, which programs use by default.
pub fn socket_of_environment() -> Option<PathBuf> {
    std::env::var_os(ENV_SOCKET).filter(|socket| !socket.is_empty()).map(PathBuf::from)
}

/// A daemon that answers.
#[derive(Debug)]
pub struct Present {
    pub client_socket: PathBuf,
    /// Socket of the virtual GPU server, if the daemon's devices are virtual.
    pub vgpu_socket: Option<PathBuf>,
}

/// Run directory of a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonPlace {
    pub run_dir: PathBuf,
}

impl DaemonPlace {
    /// Returns the named run directory, else that of the socket in the environment. Without both, returns the first
    /// usual directory that has a daemon's socket, else the first that had one, else the first.
    pub fn find(named: Option<PathBuf>) -> anyhow::Result<DaemonPlace> {
        if let Some(run_dir) = named {
            return Ok(DaemonPlace { run_dir });
        }
        if let Some(socket) = socket_of_environment() {
            return Ok(DaemonPlace::of_socket(&socket));
        }
        let usual = run_dirs_to_look_in(std::env::var_os("XDG_RUNTIME_DIR").as_deref());
        let socket = |dir: &PathBuf| dir.join(CLIENT_SOCKET_NAME);
        let has_socket = usual.iter().find(|dir| socket(dir).exists());
        let expected = has_socket.or_else(|| usual.iter().find(|dir| daemon_expected(&socket(dir))));
        let run_dir = expected.or(usual.first()).cloned();
        Ok(DaemonPlace { run_dir: run_dir.context("no run directory; give --run-dir DIR")? })
    }

    /// Returns the run directory of the daemon with this client socket: all its sockets are in one folder.
    pub fn of_socket(socket: &Path) -> DaemonPlace {
        let folder = socket.parent().filter(|folder| !folder.as_os_str().is_empty());
        DaemonPlace { run_dir: folder.unwrap_or(Path::new(".")).into() }
    }

    pub fn client_socket(&self) -> PathBuf {
        self.run_dir.join(CLIENT_SOCKET_NAME)
    }

    /// Socket of the virtual GPU server. It exists only while the daemon's devices are virtual.
    pub fn vgpu_socket(&self) -> PathBuf {
        self.run_dir.join(VGPU_SOCKET_NAME)
    }

    /// Waits for a daemon that is being restarted. `find` returns where to look, and is called before each attempt.
    /// The inner `Err` is the place where no daemon came. A wait is reported on standard error unless `is_quiet`.
    pub fn await_daemon(
        patience: Duration,
        is_quiet: bool,
        mut find: impl FnMut() -> anyhow::Result<(DaemonPlace, PathBuf)>,
    ) -> anyhow::Result<Result<Present, DaemonPlace>> {
        let (start, mut is_reported) = (Instant::now(), false);
        loop {
            let (place, socket) = find()?;
            if let Some(present) = place.probe(&socket) {
                return Ok(Ok(present));
            }
            let waited = start.elapsed();
            let is_expected =
                daemon_expected(&socket) || socket_of_environment().is_some_and(|named| named == socket);
            if waited >= patience || !is_expected {
                return Ok(Err(place));
            }
            if !is_quiet && waited >= REPORT_AFTER && !std::mem::replace(&mut is_reported, true) {
                let (place, most) = (place.run_dir.display(), patience.as_secs_f32());
                say(&format!("no daemon at {place}: waiting for one, {most} s at most"));
            }
            std::thread::sleep(LOOK_EVERY.min(patience.saturating_sub(waited)));
        }
    }

    /// Returns None if no daemon is there or the daemon ends meanwhile. A daemon with virtual devices keeps their
    /// server's socket for as long as its own. If that socket is missing, it may be about to go or to come, so the
    /// daemon is asked.
    fn probe(&self, socket: &Path) -> Option<Present> {
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
            // The daemon rejects this user's request, or cannot answer now.
            _ if is_there() => present(has_server()),
            _ => None,
        }
    }

    /// Error message for a missing daemon, with the command that starts one.
    pub fn no_daemon_message(&self) -> String {
        format!("no daemon at {}: start one with `eagerd --virtual 4xV100-16GB`", self.run_dir.display())
    }

    /// Sends a request, and returns the answer unless it is an [`AdminReply::Error`]. If the daemon has too many
    /// requests of this user, retries for as long as programs look for a daemon.
    pub fn ask(&self, request: &AdminRequest) -> anyhow::Result<AdminReply> {
        self.ask_busy_for(None, ANSWER_TIMEOUT, request)
    }

    /// Sends a request like [`DaemonPlace::ask`], but retries without limit while the daemon is busy.
    pub fn ask_patiently(&self, request: &AdminRequest) -> anyhow::Result<AdminReply> {
        self.ask_busy_for(Some(Duration::MAX), ANSWER_TIMEOUT, request)
    }

    /// Sends a request like [`DaemonPlace::ask_patiently`], but gives up soon on a daemon that is stopped or stuck.
    pub fn ask_briefly(&self, request: &AdminRequest) -> anyhow::Result<AdminReply> {
        self.ask_busy_for(Some(Duration::MAX), BRIEF_TIMEOUT, request)
    }

    fn ask_busy_for(
        &self,
        longest: Option<Duration>,
        silence_max: Duration,
        request: &AdminRequest,
    ) -> anyhow::Result<AdminReply> {
        let (start, mut pause) = (Instant::now(), PAUSE_MIN);
        loop {
            let (error, is_busy) = match self.ask_once(silence_max, request)? {
                AskOutcome::Answer(reply) => return Ok(*reply),
                AskOutcome::Busy(error) => (error, true),
                AskOutcome::CutOff(error) => (error, false),
            };
            let patience = match longest.filter(|_| is_busy) {
                Some(longest) => longest,
                None => connect_max()?,
            };
            if start.elapsed() >= patience {
                return Err(error);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn ask_once(&self, silence_max: Duration, request: &AdminRequest) -> anyhow::Result<AskOutcome> {
        let mut stream = match connect_stream(&self.run_dir.join(ADMIN_SOCKET_NAME), silence_max) {
            Ok(stream) => stream,
            Err(errno) => return self.connect_error(errno),
        };
        let here = self.run_dir.display();
        let silent = || format!("the daemon at {here} does not answer");
        // A message that the daemon sent before it closed the connection can be read even if it did not read the
        // request.
        let written = stream.write_all(&to_line(request)?);
        let mut answer = Vec::new();
        let read = BufReader::new(stream).read_until(b'\n', &mut answer);
        if answer.ends_with(b"\n") {
            return match from_line(&answer)
                .context("the daemon's answer is not understood; use programs of one build")?
            {
                AdminReply::Error { message } => bail!("the daemon says: {message}"),
                AdminReply::Busy { message } => {
                    Ok(AskOutcome::Busy(anyhow::anyhow!("the daemon says: {message}")))
                }
                reply => Ok(AskOutcome::Answer(Box::new(reply))),
            };
        }
        match written.and(read.map(drop)) {
            // The daemon closed the connection without reading the request.
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                Ok(AskOutcome::CutOff(anyhow::Error::new(error).context(silent())))
            }
            Err(error) => Err(anyhow::Error::new(error).context(silent())),
            Ok(()) => {
                let error = anyhow::anyhow!("the daemon at {here} closed the connection without an answer");
                // The daemon may have carried out the request; only a request that changes nothing may be repeated.
                if is_read_only(request) { Ok(AskOutcome::CutOff(error)) } else { Err(error) }
            }
        }
    }

    fn connect_error(&self, errno: Errno) -> anyhow::Result<AskOutcome> {
        let path = self.run_dir.join(ADMIN_SOCKET_NAME);
        Err(match errno {
            Errno::ENOENT | Errno::ECONNREFUSED => anyhow::anyhow!(self.no_daemon_message()),
            Errno::EACCES => {
                anyhow::anyhow!("{} is for the daemon's own user and root only", path.display())
            }
            // The daemon's connection queue was full for the whole time limit.
            Errno::EAGAIN => anyhow::anyhow!("the daemon at {} does not answer", self.run_dir.display()),
            errno => anyhow::Error::new(errno).context(path.display().to_string()),
        })
    }
}

/// Outcome of one request.
enum AskOutcome {
    Answer(Box<AdminReply>),
    /// The daemon is busy; the request may be retried soon.
    Busy(anyhow::Error),
    /// The connection ended before an answer came, and retrying is harmless.
    CutOff(anyhow::Error),
}

/// True if the request changes nothing.
fn is_read_only(request: &AdminRequest) -> bool {
    use AdminRequest as Ask;
    match request {
        Ask::Ps | Ask::Info | Ask::Snapshot { .. } | Ask::Queue | Ask::History { .. } => true,
        Ask::After { .. } | Ask::Explain { .. } | Ask::ExplainDevice { .. } | Ask::Policy => true,
        Ask::SetPolicy { .. } | Ask::Cancel { .. } | Ask::Hold { .. } | Ask::Release { .. } => false,
        Ask::SetPriority { .. } | Ask::Drain { .. } | Ask::Undrain { .. } | Ask::Shutdown { .. } => false,
    }
}

/// Connects with time limits set first, since connecting also blocks while the daemon accepts no connection.
fn connect_stream(path: &Path, silence_max: Duration) -> nix::Result<UnixStream> {
    let socket = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    let limit = TimeVal::seconds(silence_max.as_secs() as i64);
    setsockopt(&socket, sockopt::SendTimeout, &limit)?;
    setsockopt(&socket, sockopt::ReceiveTimeout, &limit)?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(UnixStream::from(socket))
}
