//! Where the daemon is, and questions to it.
//!
//! Trap: a socket file may be there without a daemon. Only a connection says that one listens.

use crate::say;
use anyhow::{Context, bail};
use eager_proto::ENV_SOCKET;
use eager_proto::admin::{AdminReply, AdminRequest, from_line, to_line};
use eager_proto::newcomer::{CONNECT_MAX, ENV_CONNECT_MAX, is_inhabited, parse_connect_max};
use eager_proto::place::{ADMIN_SOCKET_NAME, CLIENT_SOCKET_NAME, VGPU_SOCKET_NAME, run_dirs_to_look_in};
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, setsockopt, socket, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A daemon that does not answer for so long is stuck.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A daemon that is alive takes a connection at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two looks whether one is there.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Between two questions to a daemon that is busy: at first, and after some of them (specification S-715).
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
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

/// The client socket that programs take when they are told nothing else.
pub fn socket_of_environment() -> Option<PathBuf> {
    std::env::var_os(ENV_SOCKET).filter(|socket| !socket.is_empty()).map(PathBuf::from)
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
    /// The named run directory, or that of the socket in the environment, or the first of the usual ones that has a daemon's
    /// socket, or had one, or the first.
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
        let inhabited = has_socket.or_else(|| usual.iter().find(|dir| is_inhabited(&socket(dir))));
        let run_dir = inhabited.or(usual.first()).cloned();
        Ok(DaemonPlace { run_dir: run_dir.context("no run directory; give --run-dir DIR")? })
    }

    /// Of the daemon whose client socket this is: all its sockets lie in one folder.
    pub fn of_socket(socket: &Path) -> DaemonPlace {
        let folder = socket.parent().filter(|folder| !folder.as_os_str().is_empty());
        DaemonPlace { run_dir: folder.unwrap_or(Path::new(".")).into() }
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
            let is_expected =
                is_inhabited(&socket) || socket_of_environment().is_some_and(|named| named == socket);
            if waited >= patience || !is_expected {
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

    /// An answer that is no [`AdminReply::Error`]. A daemon that has too many questions of this user is asked again for as
    /// long as programs look for one.
    pub fn ask(&self, request: &AdminRequest) -> anyhow::Result<AdminReply> {
        self.ask_busy_for(None, request)
    }

    /// The same for as long as it takes, while the daemon says that it is busy.
    pub fn ask_patiently(&self, request: &AdminRequest) -> anyhow::Result<AdminReply> {
        self.ask_busy_for(Some(Duration::MAX), request)
    }

    fn ask_busy_for(&self, longest: Option<Duration>, request: &AdminRequest) -> anyhow::Result<AdminReply> {
        let (start, mut pause) = (Instant::now(), PAUSE_MIN);
        loop {
            let (error, is_busy) = match self.ask_once(request)? {
                Asked::Answer(reply) => return Ok(*reply),
                Asked::Busy(error) => (error, true),
                Asked::CutOff(error) => (error, false),
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

    fn ask_once(&self, request: &AdminRequest) -> anyhow::Result<Asked> {
        let mut stream = match connect_stream(&self.run_dir.join(ADMIN_SOCKET_NAME)) {
            Ok(stream) => stream,
            Err(errno) => return self.not_connected(errno),
        };
        let here = self.run_dir.display();
        let silent = || format!("the daemon at {here} does not answer");
        // What it says before it closes the connection is there to be read although it took no question.
        let written = stream.write_all(&to_line(request)?);
        let mut answer = Vec::new();
        let read = BufReader::new(stream).read_until(b'\n', &mut answer);
        if answer.ends_with(b"\n") {
            return match from_line(&answer)
                .context("the daemon's answer is not understood; use programs of one build")?
            {
                AdminReply::Error { message } => bail!("the daemon says: {message}"),
                AdminReply::Busy { message } => {
                    Ok(Asked::Busy(anyhow::anyhow!("the daemon says: {message}")))
                }
                reply => Ok(Asked::Answer(Box::new(reply))),
            };
        }
        match written.and(read.map(drop)) {
            // It closed the connection with the question unread.
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                Ok(Asked::CutOff(anyhow::Error::new(error).context(silent())))
            }
            Err(error) => Err(anyhow::Error::new(error).context(silent())),
            Ok(()) => {
                let error = anyhow::anyhow!("the daemon at {here} closed the connection without an answer");
                // What it has done may be done once only.
                if is_a_look(request) { Ok(Asked::CutOff(error)) } else { Err(error) }
            }
        }
    }

    fn not_connected(&self, errno: Errno) -> anyhow::Result<Asked> {
        let path = self.run_dir.join(ADMIN_SOCKET_NAME);
        Err(match errno {
            Errno::ENOENT | Errno::ECONNREFUSED => anyhow::anyhow!(self.nobody_there()),
            Errno::EACCES => {
                anyhow::anyhow!("{} is for the daemon's own user and root only", path.display())
            }
            // Its queue was full for all that time.
            Errno::EAGAIN => anyhow::anyhow!("the daemon at {} does not answer", self.run_dir.display()),
            errno => anyhow::Error::new(errno).context(path.display().to_string()),
        })
    }
}

/// What became of a question.
enum Asked {
    Answer(Box<AdminReply>),
    /// It is worth asking again in a moment.
    Busy(anyhow::Error),
    /// The connection ended before there was an answer; asking again does no harm.
    CutOff(anyhow::Error),
}

/// Does the question change nothing?
fn is_a_look(request: &AdminRequest) -> bool {
    use AdminRequest as Ask;
    match request {
        Ask::Ps | Ask::Info | Ask::Snapshot { .. } | Ask::Queue | Ask::History { .. } => true,
        Ask::After { .. } | Ask::Explain { .. } | Ask::ExplainDevice { .. } | Ask::Policy => true,
        Ask::SetPolicy { .. } | Ask::Cancel { .. } | Ask::Hold { .. } | Ask::Release { .. } => false,
        Ask::SetPriority { .. } | Ask::Drain { .. } | Ask::Undrain { .. } | Ask::Shutdown { .. } => false,
    }
}

/// With limits from the start: also a connection waits where the daemon takes none in.
fn connect_stream(path: &Path) -> nix::Result<UnixStream> {
    let socket = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    let limit = TimeVal::seconds(ANSWER_TIMEOUT.as_secs() as i64);
    setsockopt(&socket, sockopt::SendTimeout, &limit)?;
    setsockopt(&socket, sockopt::ReceiveTimeout, &limit)?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(UnixStream::from(socket))
}
