//! The process that serves the virtual GPUs: attaches to the one that an earlier daemon left, or starts one.
//!
//! Trap: the server outlives this daemon, as GPUs do, and ends by itself when neither a daemon nor a program is
//! connected. So its end must be seen at its connection: a server that was found is not this daemon's child.

use crate::process::exit::Unservable;
use crate::settings::config::Clock;
use anyhow::{Context, bail};
use eager_gpu_model::parse_cards;
use eager_proto::place::companion_folders;
use eager_vgpu_link::{Attendance, LinkError, ServedCard, ServedClock, Serving};
use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Name of the server's executable.
const SERVER: &str = "eager-vgpud";
/// A server that ends within this time of its start counts as one that cannot serve.
const SHORT_LIFE: Duration = Duration::from_secs(2);
const SHORT_LIVES_MAX: u32 = 5;
/// Time within which a server without programs ends, once it is told that no daemon comes back.
const END: Duration = Duration::from_millis(500);

/// The virtual GPUs that the server serves.
#[derive(Debug, Clone)]
pub struct VirtualSource {
    pub cards: String,
    pub time_scale: f64,
    pub memory_scale: u64,
    pub clock: Clock,
    pub host_factor: f64,
    pub mps: bool,
}

impl VirtualSource {
    /// These virtual GPUs in the form in which a server reports them.
    fn serving(&self) -> anyhow::Result<Serving> {
        let cards = parse_cards(&self.cards)?;
        let card = |card: eager_gpu_model::Card| ServedCard {
            name: card.name,
            memory_bytes: card.memory_bytes,
            sms: card.sms,
        };
        let clock = match self.clock {
            Clock::Real => ServedClock::Real { time_scale: self.time_scale },
            Clock::Virtual => ServedClock::Virtual { host_factor: self.host_factor },
        };
        Ok(Serving {
            cards: cards.into_iter().map(card).collect(),
            memory_scale: self.memory_scale,
            clock,
            mps: self.mps,
        })
    }
}

/// The running server. On drop it is told that this daemon does not come back, unless programs may be about to connect
/// to it.
#[derive(Debug)]
pub struct VirtualGpus {
    attendance: Attendance,
    /// None: an earlier daemon started it.
    child: Option<Child>,
    source: VirtualSource,
    socket: PathBuf,
    started: Instant,
    short_lives: u32,
    /// True: the server is not told that this daemon ends.
    stays: bool,
}

impl VirtualGpus {
    /// Attaches to the server of an earlier daemon at `socket` if it serves the same devices; otherwise starts a new
    /// one.
    pub fn open(source: VirtualSource, socket: &Path) -> anyhow::Result<VirtualGpus> {
        if let Some(attendance) = attach(socket)? {
            if attendance.serving() == &source.serving()? {
                let (child, started) = (None, Instant::now());
                return Ok(VirtualGpus {
                    attendance,
                    child,
                    source,
                    socket: socket.into(),
                    started,
                    short_lives: 0,
                    stays: false,
                });
            }
            end_server(attendance, socket)?;
        }
        let (child, attendance) = start(&source, socket)?;
        let (child, socket, started) = (Some(child), socket.into(), Instant::now());
        Ok(VirtualGpus { attendance, child, source, socket, started, short_lives: 0, stays: false })
    }

    /// True if an earlier daemon started the server.
    pub fn was_running(&self) -> bool {
        self.child.is_none()
    }

    /// Where the server listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Lets the server outlive this daemon for programs that run or start now. A welcomed program may not have
    /// connected to the server yet, and the server would end before it does. The server ends by itself when it is
    /// unused for a while.
    pub fn keep_for_programs(&mut self) {
        self.stays = true;
    }

    pub fn has_ended(&mut self) -> bool {
        self.attendance.has_ended()
    }

    /// Starts a new server in place of one that has ended; returns a line for the log.
    pub fn restart(&mut self) -> anyhow::Result<String> {
        let status = self.child.as_mut().and_then(|child| child.wait().ok());
        let how = status.map_or(String::new(), |status| format!(" ({status})"));
        let said = format!("the virtual GPU server ended by itself{how}");
        self.short_lives = if self.started.elapsed() < SHORT_LIFE { self.short_lives + 1 } else { 0 };
        if self.source.clock == Clock::Virtual {
            bail!("{said}: the time of its clock is lost");
        }
        if self.short_lives > SHORT_LIVES_MAX {
            bail!("{said}, {} times in a row: there are no devices any more", self.short_lives);
        }
        let (child, attendance) = start(&self.source, &self.socket).context(said.clone())?;
        (self.child, self.attendance, self.started) = (Some(child), attendance, Instant::now());
        Ok(format!(
            "{said}: a new one was started; programs that used it get CUDA errors until they are restarted"
        ))
    }
}

/// Readable when the server has ended.
impl AsFd for VirtualGpus {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.attendance.as_fd()
    }
}

impl Drop for VirtualGpus {
    fn drop(&mut self) {
        // A server with programs on it goes on without a daemon.
        if !self.stays
            && self.attendance.dismiss(END)
            && let Some(child) = &mut self.child
        {
            let _ = child.wait();
        }
    }
}

/// Makes sure that no server listens at `socket`, before a daemon of other devices starts: programs would connect to
/// it.
pub fn ensure_no_server(socket: &Path) -> anyhow::Result<()> {
    attach(socket)?.map_or(Ok(()), |attendance| end_server(attendance, socket))
}

/// Connects to the server at `socket`, if there is one.
fn attach(socket: &Path) -> anyhow::Result<Option<Attendance>> {
    let deadline = Instant::now() + Duration::from_secs(11);
    loop {
        match Attendance::connect(socket) {
            Ok(attendance) => return Ok(Some(attendance)),
            Err(LinkError::Connect { .. }) => return Ok(None),
            // A server of another build, or one that is about to end: it ends with its last program.
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(200)),
            Err(error) => bail!(Unservable(format!(
                "{}: the virtual GPU server of an earlier daemon still serves programs and cannot be used ({error}): wait for the programs to end",
                socket.display()
            ))),
        }
    }
}

/// Ends a server that serves something else. `Err` if programs use it.
fn end_server(mut attendance: Attendance, socket: &Path) -> anyhow::Result<()> {
    let (pid, serving) = (attendance.pid(), attendance.serving().cards.clone());
    if attendance.dismiss(END) {
        // The server's socket closes a moment after its connections.
        let deadline = Instant::now() + END;
        while UnixStream::connect(socket).is_ok() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        return Ok(());
    }
    let cards: Vec<&str> = serving.iter().map(|card| card.name.as_str()).collect();
    bail!(Unservable(format!(
        "{}: programs of an earlier daemon use its virtual GPUs ({}, pid {pid}), which differ from the requested ones: wait \
         for the programs to end, or request the same virtual GPUs",
        socket.display(),
        cards.join(", ")
    )))
}

/// Starts the server, and waits until its first line reports that it listens at `socket`.
fn start(source: &VirtualSource, socket: &Path) -> anyhow::Result<(Child, Attendance)> {
    let own = std::env::current_exe().context("cannot find my own executable")?;
    let server = server_of(&own);
    let mut child = Command::new(&server)
        .args(["--cards", &source.cards])
        .args(["--time-scale", &source.time_scale.to_string()])
        .args(["--memory-scale", &source.memory_scale.to_string()])
        .args(["--host-factor", &source.host_factor.to_string()])
        .args(["--clock", if source.clock == Clock::Virtual { "virtual" } else { "real" }])
        .arg(if source.mps { "--mps" } else { "--no-mps" })
        .args(["--until-unused", "--socket"])
        .arg(socket)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start the virtual GPU server {}", server.display()))?;
    let mut ready = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut ready).context("reading from the virtual GPU server")?;
    }
    if ready.is_empty() {
        let status = child.wait().context("waiting for the virtual GPU server")?;
        bail!("the virtual GPU server did not start ({status}); its own message is above");
    }
    match Attendance::connect(socket) {
        Ok(attendance) => Ok((child, attendance)),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(error).context("the virtual GPU server does not answer")
        }
    }
}

/// Path of the server that belongs to this daemon: the first that exists, or else the first candidate.
fn server_of(daemon: &Path) -> PathBuf {
    let folders = companion_folders(daemon.parent().unwrap_or(Path::new("/")));
    let servers = folders.map(|folder| folder.join(SERVER));
    servers.iter().find(|server| server.is_file()).unwrap_or(&servers[0]).clone()
}
