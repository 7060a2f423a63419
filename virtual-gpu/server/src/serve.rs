//! The server's loop: waits for clients, the next modelled event, or a signal; hands everything to the [`Service`].
//!
//! Trap: a client that does not read must not stop the others, so writes never block; what a client has not taken is
//! kept up to a limit, above which the client is dropped.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use eager_vgpu_link::{ClientFrame, FRAME_BYTES_MAX, FrameBuffer, encode_frame};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{getsockopt, sockopt};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::unistd::Uid;

use crate::sleep::{LOOK, Watch};
use crate::{Answer, Endpoint, Peer, ProcessId, RealNanos, Service};

const OUTBOX_BYTES_MAX: usize = FRAME_BYTES_MAX;

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    inbox: FrameBuffer,
    outbox: Vec<u8>,
}

/// Why a client is dropped; its end is normal, anything else is said.
enum Gone {
    Closed,
    Fault(String),
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// The system refuses a descriptor or a wait; clients' faults end only their own connections.
pub fn serve(endpoint: &Endpoint, service: Service) -> io::Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.thread_block()?;
    let signal_fd = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC)?;
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
    let mut server =
        Server { started: Instant::now(), service, clients: BTreeMap::new(), watch: Watch::default() };
    loop {
        server.set_timer(&timer)?;
        let ready = wait(endpoint, &timer, &signal_fd, &server.clients)?;
        if ready.signal {
            return Ok(());
        }
        for process in ready.clients {
            server.exchange(process);
        }
        if ready.listener {
            server.accept(endpoint)?;
        }
        server.advance();
    }
}

#[derive(Debug, Default)]
struct Ready {
    listener: bool,
    signal: bool,
    clients: Vec<ProcessId>,
}

fn wait(
    endpoint: &Endpoint,
    timer: &TimerFd,
    signals: &SignalFd,
    clients: &BTreeMap<ProcessId, Client>,
) -> io::Result<Ready> {
    let reads = |fd| PollFd::new(fd, PollFlags::POLLIN);
    let fixed: [BorrowedFd<'_>; 3] = [endpoint.listener.as_fd(), signals.as_fd(), timer.as_fd()];
    let mut fds: Vec<PollFd<'_>> = fixed.into_iter().map(reads).collect();
    fds.extend(clients.values().map(|client| {
        let write = if client.outbox.is_empty() { PollFlags::empty() } else { PollFlags::POLLOUT };
        PollFd::new(client.stream.as_fd(), PollFlags::POLLIN | write)
    }));
    match poll(&mut fds, PollTimeout::NONE) {
        Err(nix::errno::Errno::EINTR) => return Ok(Ready::default()),
        other => other?,
    };
    let ready = |fd: &PollFd<'_>| fd.any().unwrap_or(true);
    let ready_clients = clients.keys().zip(&fds[fixed.len()..]);
    Ok(Ready {
        listener: ready(&fds[0]),
        signal: ready(&fds[1]),
        clients: ready_clients.filter(|(_, fd)| ready(fd)).map(|(&process, _)| process).collect(),
    })
}

#[derive(Debug)]
struct Server {
    started: Instant,
    service: Service,
    clients: BTreeMap<ProcessId, Client>,
    watch: Watch,
}

impl Server {
    fn now(&self) -> RealNanos {
        RealNanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn set_timer(&self, timer: &TimerFd) -> io::Result<()> {
        let look = self.watch.is_on().then(|| RealNanos(self.now().0.saturating_add(LOOK.as_nanos() as u64)));
        match self.service.deadline().or(look) {
            None => timer.unset()?,
            Some(deadline) => {
                // A wait of 0 would disarm the timer.
                let wait = Duration::from_nanos(deadline.0.saturating_sub(self.now().0).max(1));
                timer.set(Expiration::OneShot(TimeSpec::from(wait)), TimerSetTimeFlags::empty())?;
            }
        }
        Ok(())
    }

    fn accept(&mut self, endpoint: &Endpoint) -> io::Result<()> {
        loop {
            match endpoint.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(true)?;
                    let peer = peer(&stream);
                    let client = Client { stream, inbox: FrameBuffer::default(), outbox: Vec::new() };
                    self.clients.insert(self.service.connect_from(peer), client);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                // The client gave up while it waited, or descriptors are short for a moment: the others go on.
                Err(e) => {
                    eprintln!("eager-vgpud: a client could not be accepted: {e}");
                    return Ok(());
                }
            }
        }
    }

    /// Reads what a client sent, handles it, writes what it can take.
    fn exchange(&mut self, process: ProcessId) {
        let Some(client) = self.clients.get_mut(&process) else { return };
        let (frames, mut gone) = client.receive();
        let now = self.now();
        let mut answers = Vec::new();
        for frame in frames {
            self.service.handle(now, process, frame, &mut answers);
        }
        self.post(answers);
        if let Some(client) = self.clients.get_mut(&process)
            && gone.is_none()
        {
            gone = client.flush().err();
        }
        if let Some(gone) = gone {
            self.drop_client(process, gone);
        }
    }

    fn advance(&mut self) {
        let mut answers = Vec::new();
        self.service.advance(self.now(), &mut answers);
        self.watch.look(&mut self.service, &mut answers);
        self.post(answers);
    }

    fn post(&mut self, answers: Vec<Answer>) {
        let mut faults = BTreeMap::new();
        for Answer { process, frame } in answers {
            let Some(client) = self.clients.get_mut(&process) else { continue };
            let sent = match encode_frame(&frame) {
                Ok(bytes) => {
                    client.outbox.extend(bytes);
                    client.flush()
                }
                Err(e) => Err(Gone::Fault(e.to_string())),
            };
            if let Err(gone) = sent {
                faults.insert(process, gone);
            }
        }
        for (process, gone) in faults {
            self.drop_client(process, gone);
        }
    }

    fn drop_client(&mut self, process: ProcessId, gone: Gone) {
        if self.clients.remove(&process).is_none() {
            return;
        }
        if let Gone::Fault(why) = gone {
            eprintln!("eager-vgpud: client {} dropped: {why}", process.0);
        }
        self.service.disconnect(self.now(), process);
    }
}

/// A process's claim to be another would charge that one for what it uses.
fn peer(stream: &UnixStream) -> Option<Peer> {
    let credentials = getsockopt(stream, sockopt::PeerCredentials).ok()?;
    let is_owner = credentials.uid() == 0 || credentials.uid() == Uid::effective().as_raw();
    Some(Peer { pid: u32::try_from(credentials.pid()).unwrap_or(0), is_owner })
}

impl Client {
    /// All whole frames that have arrived, and whether the client is gone.
    fn receive(&mut self) -> (Vec<ClientFrame>, Option<Gone>) {
        let mut gone = None;
        let mut chunk = [0; 64 << 10];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => gone = Some(Gone::Closed),
                Ok(bytes) => {
                    self.inbox.push(&chunk[..bytes]);
                    continue;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                // A killed process with unread answers ends in a reset.
                Err(_) => gone = Some(Gone::Closed),
            }
            break;
        }
        let mut frames = Vec::new();
        loop {
            match self.inbox.next_message() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => return (frames, gone),
                Err(e) => return (frames, Some(Gone::Fault(e.to_string()))),
            }
        }
    }

    /// Writes what the client takes without waiting.
    fn flush(&mut self) -> Result<(), Gone> {
        while !self.outbox.is_empty() {
            match self.stream.write(&self.outbox) {
                Ok(bytes) => drop(self.outbox.drain(..bytes)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return Err(Gone::Closed),
            }
        }
        if self.outbox.len() > OUTBOX_BYTES_MAX {
            return Err(Gone::Fault("it does not read its answers".to_owned()));
        }
        Ok(())
    }
}
