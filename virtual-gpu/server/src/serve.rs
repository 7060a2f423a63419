//! The server's loop: waits for clients, the next modelled event, or a signal; hands everything to the [`Service`].
//!
//! Traps: nothing that one client does may stop the others, so no read or write waits, a turn has an end, and each user has
//! a share of it ([`Crowd`]). And what panics while a client is served ends that client, not the server, as long as the
//! model's books are right.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use eager_vgpu_link::{FIRST_REQUEST, Refusal, Request, ServerFrame};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{getsockopt, sockopt};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::unistd::Uid;

use crate::client::{Client, Gone};
use crate::crowd::{BUFFERED_BYTES_MAX, CONNECTION_REQUESTS, Crowd, silent_until};
use crate::log::Log;
use crate::sleep::{LOOK, Watch};
use crate::{Answer, Endpoint, Peer, ProcessId, RealNanos, Service};

/// Connections accepted in a turn.
const TURN_ACCEPTS: usize = 256;
/// Pause of the listener when descriptors or memory have run out.
const LISTENER_PAUSE: Duration = Duration::from_millis(100);
/// A server that was started for a daemon waits so long for the next one, or for a program.
const LINGER: Duration = Duration::from_secs(10);

/// How long to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// SIGTERM or SIGINT.
    Told,
    /// The same, or neither a daemon nor a program is connected any more.
    Unused,
}

/// Serves until SIGTERM or SIGINT, or as `until` says.
///
/// # Errors
/// The system refuses a descriptor or a wait, or an internal error left the model's books wrong; clients' faults end only
/// their own connections.
pub fn serve(endpoint: &Endpoint, service: Service, until: Until) -> io::Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.thread_block()?;
    let signal_fd = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC)?;
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
    let mut server = Server::new(service, descriptors());
    loop {
        if until == Until::Unused && server.is_unused(Instant::now()) {
            return Ok(());
        }
        server.set_timer(&timer)?;
        let ready = server.wait(endpoint, &timer, &signal_fd, until)?;
        if ready.signal {
            return Ok(());
        }
        let first = server.crowd.begin_turn(ready.clients.len());
        let (later, earlier) = ready.clients.split_at(first);
        for &process in earlier.iter().chain(later) {
            server.exchange(process)?;
        }
        if ready.listener {
            server.accept(endpoint);
        }
        server.drop_silent();
        server.advance();
    }
}

/// Descriptors that the process may have, after asking for all that may be had.
fn descriptors() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 1024 };
    if setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft }
}

#[derive(Debug, Default)]
struct Ready {
    listener: bool,
    signal: bool,
    clients: Vec<ProcessId>,
}

#[derive(Debug)]
struct Server {
    started: Instant,
    service: Service,
    clients: BTreeMap<ProcessId, Client>,
    crowd: Crowd,
    watch: Watch,
    log: Log,
    listener_resumes_at: Option<Instant>,
    /// When a program or a daemon was last there.
    used_at: Instant,
}

impl Server {
    fn new(service: Service, descriptors: u64) -> Server {
        let now = Instant::now();
        Server {
            started: now,
            service,
            clients: BTreeMap::new(),
            crowd: Crowd::new(descriptors),
            watch: Watch::default(),
            log: Log::default(),
            listener_resumes_at: None,
            used_at: now,
        }
    }

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

    fn wait(
        &mut self,
        endpoint: &Endpoint,
        timer: &TimerFd,
        signals: &SignalFd,
        until: Until,
    ) -> io::Result<Ready> {
        let now = Instant::now();
        self.listener_resumes_at = self.listener_resumes_at.filter(|at| *at > now);
        let listens = if self.listener_resumes_at.is_none() { PollFlags::POLLIN } else { PollFlags::empty() };
        let mut fds = vec![
            PollFd::new(endpoint.listener.as_fd(), listens),
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(timer.as_fd(), PollFlags::POLLIN),
        ];
        let fixed = fds.len();
        fds.extend(self.clients.values().map(|client| {
            let mut wanted = PollFlags::empty();
            wanted.set(PollFlags::POLLIN, client.may_ask());
            wanted.set(PollFlags::POLLOUT, client.wants_to_write());
            PollFd::new(client.fd(), wanted)
        }));
        match poll(&mut fds, self.timeout(now, until)) {
            Err(nix::errno::Errno::EINTR) => return Ok(Ready::default()),
            // No memory for the list: as with descriptors, others must go first.
            Err(nix::errno::Errno::ENOMEM) => {
                std::thread::sleep(LISTENER_PAUSE);
                return Ok(Ready::default());
            }
            other => other?,
        };
        let ready = |fd: &PollFd<'_>| fd.any().unwrap_or(true);
        let clients = self.clients.iter().zip(&fds[fixed..]);
        let is_ready = |client: &Client, fd| ready(fd) || (client.has_more && client.may_ask());
        let clients = clients.filter(|((_, client), fd)| is_ready(client, fd));
        Ok(Ready {
            listener: ready(&fds[0]),
            signal: ready(&fds[1]),
            clients: clients.map(|((&process, _), _)| process).collect(),
        })
    }

    /// How long nothing has to be done that no descriptor tells.
    fn timeout(&self, now: Instant, until: Until) -> PollTimeout {
        if self.clients.values().any(|client| client.has_more && client.may_ask()) {
            return PollTimeout::ZERO;
        }
        let silent = self.silent().map(|(_, client)| silent_until(client.since)).min();
        let unused = (until == Until::Unused && !self.is_used()).then(|| self.used_at + LINGER);
        let Some(at) = [silent, unused, self.listener_resumes_at].into_iter().flatten().min() else {
            return PollTimeout::NONE;
        };
        // Rounded up, or it would be too early and look again at once.
        let ms = at.saturating_duration_since(now).as_millis().saturating_add(1);
        PollTimeout::try_from(i32::try_from(ms).unwrap_or(i32::MAX)).unwrap_or(PollTimeout::MAX)
    }

    fn silent(&self) -> impl Iterator<Item = (ProcessId, &Client)> {
        let silent = |process: &ProcessId| !self.service.has_greeted(*process);
        self.clients
            .iter()
            .filter(move |(process, _)| silent(process))
            .map(|(process, client)| (*process, client))
    }

    /// A daemon is connected, or a program: somebody who said hello and is no daemon's process.
    fn is_used(&self) -> bool {
        let attends = |(process, _): &(&ProcessId, &Client)| self.service.attends(**process);
        let daemons: Vec<u32> =
            self.clients.iter().filter(attends).map(|(_, client)| client.peer.pid).collect();
        if !daemons.is_empty() && !self.service.is_dismissed() {
            return true;
        }
        let greeted = self.clients.iter().filter(|(process, _)| self.service.has_greeted(**process));
        greeted.into_iter().any(|(_, client)| !daemons.contains(&client.peer.pid))
    }

    fn is_unused(&mut self, now: Instant) -> bool {
        if self.is_used() {
            self.used_at = now;
            return false;
        }
        self.service.is_dismissed() || now.saturating_duration_since(self.used_at) >= LINGER
    }

    fn accept(&mut self, endpoint: &Endpoint) {
        for _ in 0..TURN_ACCEPTS {
            match endpoint.listener.accept() {
                Ok((stream, _)) => self.admit(stream),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                // The client gave up while it waited.
                Err(e) if e.kind() == ErrorKind::ConnectionAborted || e.kind() == ErrorKind::Interrupted => {}
                // Descriptors or memory are short. Whoever waits is still there after a pause.
                Err(e) => {
                    self.listener_resumes_at = Some(Instant::now() + LISTENER_PAUSE);
                    self.log.say(None, &format!("cannot accept more programs now: {e}"));
                    return;
                }
            }
        }
    }

    fn admit(&mut self, stream: UnixStream) {
        let peer = peer(&stream);
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        let mut client = Client::new(stream, peer, Instant::now());
        if let Err(count) = self.crowd.enter(peer.uid, peer.is_owner) {
            let why = format!("{count} connections of uid {} are there", peer.uid);
            self.log.say(Some(peer.uid), &format!("pid {} is turned away: {why}", peer.pid));
            // Best effort: it is told by the end of the connection, too.
            let reply = Err(Refusal::TooMuch(why));
            let _ = client.answer(&ServerFrame { id: FIRST_REQUEST, reply });
            return;
        }
        self.clients.insert(self.service.connect_from(Some(peer)), client);
    }

    /// Reads what a client sent, handles it, writes what it can take. An error ends the server.
    fn exchange(&mut self, process: ProcessId) -> io::Result<()> {
        self.exchange_with(process, true)
    }

    /// `sweeps`: before memory is taken, what ended processes held is given back.
    fn exchange_with(&mut self, process: ProcessId, sweeps: bool) -> io::Result<()> {
        let Some(client) = self.clients.get_mut(&process) else { return Ok(()) };
        let uid = client.peer.uid;
        let mut gone = client.flush().err();
        // What came before its end is done: a program may say its last word and go.
        let ended = if client.may_ask() { client.read().err() } else { None };
        for _ in 0..CONNECTION_REQUESTS {
            let Some(client) = self.clients.get_mut(&process) else { return Ok(()) };
            if gone.is_some() || !client.may_ask() || !self.crowd.may_ask(uid) {
                break;
            }
            let frame = match client.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(fault) => {
                    gone = Some(fault);
                    break;
                }
            };
            self.crowd.ask(uid);
            if sweeps && takes_memory(&frame.request) {
                self.sweep(process)?;
            }
            let now = self.now();
            self.guarded(process, |service, answers| service.handle(now, process, frame, answers))?;
        }
        let Some(client) = self.clients.get_mut(&process) else { return Ok(()) };
        if self.service.has_greeted(process) {
            client.greeted();
        }
        // Its last words may be more than a turn's.
        let gone = gone.or(ended.filter(|_| !client.has_more)).or_else(|| self.hoards(uid));
        if let Some(gone) = gone {
            self.drop_client(process, gone);
        }
        Ok(())
    }

    /// Ends with those whose processes have ended, but for one. A driver has freed what a process held before anybody sees that
    /// it is gone; here its end is still in a socket when a daemon, which watches the process, gives the memory to another.
    fn sweep(&mut self, but: ProcessId) -> io::Result<()> {
        // An end is told without being asked for.
        let mut fds: Vec<_> =
            self.clients.values().map(|client| PollFd::new(client.fd(), PollFlags::empty())).collect();
        // Whoever is not seen now is seen in the next turn.
        let _ = poll(&mut fds, PollTimeout::ZERO);
        let clients = self.clients.keys().zip(&fds).filter(|(_, fd)| fd.any().unwrap_or(false));
        let ended: Vec<ProcessId> = clients.map(|(&process, _)| process).filter(|&one| one != but).collect();
        ended.into_iter().try_for_each(|process| self.exchange_with(process, false))
    }

    /// The user's connections make the server keep too much.
    fn hoards(&self, uid: u32) -> Option<Gone> {
        let own = self.clients.values().filter(|client| client.peer.uid == uid);
        let bytes: usize = own.map(Client::buffered_bytes).sum();
        let said = || format!("{bytes} bytes of messages that are not whole, or answers that are not read");
        (bytes > BUFFERED_BYTES_MAX).then(|| Gone::Fault(format!("uid {uid} has {}", said())))
    }

    /// Does something for a client. Should it panic, the client goes, and the rest goes on with books that are right.
    fn guarded(
        &mut self,
        process: ProcessId,
        work: impl FnOnce(&mut Service, &mut Vec<Answer>),
    ) -> io::Result<()> {
        let mut answers = Vec::new();
        if catch_unwind(AssertUnwindSafe(|| work(&mut self.service, &mut answers))).is_ok() {
            self.post(answers);
            return Ok(());
        }
        // The panic's own message is on standard error already.
        let dropped = catch_unwind(AssertUnwindSafe(|| {
            self.drop_client(process, Gone::Fault("internal error while it was served".to_owned()));
            self.service.check();
        }));
        dropped
            .map_err(|_| io::Error::other("an internal error, and what devices hold is not known any more"))
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
            if let Err(gone) = client.answer(&frame) {
                faults.insert(process, gone);
            }
        }
        for (process, gone) in faults {
            self.drop_client(process, gone);
        }
    }

    fn drop_silent(&mut self) {
        let now = Instant::now();
        let over = self.silent().filter(|(_, client)| silent_until(client.since) <= now);
        for process in over.map(|(process, _)| process).collect::<Vec<_>>() {
            self.drop_client(process, Gone::Fault("it said no hello".to_owned()));
        }
    }

    fn drop_client(&mut self, process: ProcessId, gone: Gone) {
        let Some(client) = self.clients.remove(&process) else { return };
        let Peer { pid, uid, .. } = client.peer;
        self.crowd.leave(uid);
        if let Gone::Fault(why) = gone {
            self.log.say(Some(uid), &format!("pid {pid} of uid {uid} dropped: {why}"));
        }
        self.service.disconnect(self.now(), process);
    }
}

fn takes_memory(request: &Request) -> bool {
    matches!(request, Request::OpenContext { .. } | Request::Allocate { .. })
}

/// A process's claim to be another would charge that one for what it uses.
fn peer(stream: &UnixStream) -> Peer {
    // Without the kernel's word it is nobody, and not the server's own user.
    let Ok(credentials) = getsockopt(stream, sockopt::PeerCredentials) else {
        return Peer { pid: 0, uid: u32::MAX, is_owner: false };
    };
    let is_owner = credentials.uid() == 0 || credentials.uid() == Uid::effective().as_raw();
    Peer { pid: u32::try_from(credentials.pid()).unwrap_or(0), uid: credentials.uid(), is_owner }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, Scale};
    use eager_gpu_model::{Options, parse_cards};
    use std::io::Read;

    #[test]
    fn a_panic_while_a_client_is_served_ends_that_client_only() {
        let cards = parse_cards("V100-16GB").unwrap();
        let scale = Scale { memory: 1, time: 0.0 };
        let mut server = Server::new(Service::new(cards, Options::default(), scale, Clock::Real), 1024);
        let (mut bad, theirs) = UnixStream::pair().unwrap();
        server.admit(theirs);
        let (_good, theirs) = UnixStream::pair().unwrap();
        server.admit(theirs);
        let process = *server.clients.keys().next().unwrap();
        server.guarded(process, |_, _| panic!("as a defect would")).unwrap();
        assert_eq!((server.clients.len(), bad.read(&mut [0]).unwrap()), (1, 0));
        let other = *server.clients.keys().next().unwrap();
        server.guarded(other, |service, answers| service.advance(RealNanos(1), answers)).unwrap();
    }

    #[test]
    fn it_is_used_while_a_program_or_a_daemon_is_there() {
        let cards = parse_cards("V100-16GB").unwrap();
        let scale = Scale { memory: 1, time: 0.0 };
        let mut server = Server::new(Service::new(cards, Options::default(), scale, Clock::Real), 1024);
        let start = Instant::now();
        assert!(!server.is_unused(start), "a daemon may still come");
        assert!(server.is_unused(start + LINGER));
        let (_silent, theirs) = UnixStream::pair().unwrap();
        server.admit(theirs);
        assert!(server.is_unused(start + LINGER), "who says nothing is no program");
    }
}
