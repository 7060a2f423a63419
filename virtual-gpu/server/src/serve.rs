//! The server's loop: waits for clients, the next modelled event, or a signal, and passes all to the [`Service`].
//!
//! Traps: a client must not be able to stop the others, so reads and writes never block, turns are bounded, and each
//! user has a share of a turn ([`Admission`]). A panic while a client is served must end that client, not the server, as
//! long as the model's books are right.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use eager_vgpu_link::{FIRST_REQUEST, Refusal, Request, ServerFrame};
use nix::sys::epoll::EpollTimeout;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{getsockopt, sockopt};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::unistd::Uid;

use crate::admission::{Admission, BUFFERED_BYTES_MAX, CONNECTION_REQUESTS, HELLO_WAIT_MAX, hello_deadline};
use crate::client::{Client, Gone};
use crate::log::Log;
use crate::poller::{Interest, Poller, Source};
use crate::sleep::{LOOK, SleepWatch};
use crate::{Answer, Endpoint, Peer, ProcessId, RealNanos, Service};

/// Connections accepted in a turn.
const TURN_ACCEPTS: usize = 256;
/// Pause of the listener when descriptors or memory have run out.
const LISTENER_PAUSE: Duration = Duration::from_millis(100);
/// How long a server that was started for a daemon waits for the next daemon or a program.
const LINGER: Duration = Duration::from_secs(10);

/// How long to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// SIGTERM or SIGINT.
    Signalled,
    /// SIGTERM or SIGINT, or until neither a daemon nor a program is connected.
    Unused,
}

/// Serves until SIGTERM or SIGINT, or until `until` is reached.
///
/// # Errors
/// The system refuses a descriptor or a wait, or an internal error left the model's books wrong. Faults of clients end
/// only their own connections.
pub fn serve(endpoint: &Endpoint, service: Service, until: Until) -> io::Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.thread_block()?;
    let signal_fd = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC)?;
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
    let mut server = Server::new(service, descriptors())?;
    let reads = Interest { read: true, write: false };
    server.poller.add(Source::Listener, &endpoint.listener, reads)?;
    server.poller.add(Source::Signals, &signal_fd, reads)?;
    server.poller.add(Source::Timer, &timer, reads)?;
    loop {
        if until == Until::Unused && server.is_unused(Instant::now()) {
            return Ok(());
        }
        server.set_timer(&timer)?;
        let ready = server.wait(endpoint, until)?;
        if ready.signal {
            return Ok(());
        }
        let first = server.admission.begin_turn(ready.clients.len());
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

/// Raises the limit of descriptors as far as possible and returns it.
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
    poller: Poller,
    clients: BTreeMap<ProcessId, Client>,
    /// Connections that have not said hello, with the time of `connect`; process ids rise with time.
    silent: BTreeMap<ProcessId, Instant>,
    /// Number of connections that have said hello, by pid.
    greeted: BTreeMap<u32, usize>,
    /// Connections of daemons, with their pids.
    daemons: BTreeMap<ProcessId, u32>,
    /// Connections with whole messages left to handle, which may send requests.
    pending: BTreeSet<ProcessId>,
    admission: Admission,
    watch: SleepWatch,
    log: Log,
    listener_resumes_at: Option<Instant>,
    /// Latest time at which a program or a daemon was connected.
    used_at: Instant,
}

impl Server {
    fn new(service: Service, descriptors: u64) -> io::Result<Server> {
        let now = Instant::now();
        Ok(Server {
            started: now,
            service,
            poller: Poller::new()?,
            clients: BTreeMap::new(),
            silent: BTreeMap::new(),
            greeted: BTreeMap::new(),
            daemons: BTreeMap::new(),
            pending: BTreeSet::new(),
            admission: Admission::new(descriptors),
            watch: SleepWatch::default(),
            log: Log::default(),
            listener_resumes_at: None,
            used_at: now,
        })
    }

    fn now(&self) -> RealNanos {
        RealNanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn set_timer(&self, timer: &TimerFd) -> io::Result<()> {
        let look = self.watch.is_on().then(|| RealNanos(self.now().0.saturating_add(LOOK.as_nanos() as u64)));
        match self.service.deadline().or(look) {
            None => timer.unset()?,
            Some(deadline) => {
                // A delay of 0 would disarm the timer.
                let wait = Duration::from_nanos(deadline.0.saturating_sub(self.now().0).max(1));
                timer.set(Expiration::OneShot(TimeSpec::from(wait)), TimerSetTimeFlags::empty())?;
            }
        }
        Ok(())
    }

    fn wait(&mut self, endpoint: &Endpoint, until: Until) -> io::Result<Ready> {
        let now = Instant::now();
        if self.listener_resumes_at.is_some_and(|at| at <= now) {
            self.listener_resumes_at = None;
            self.listen(endpoint, true);
        }
        let sources = self.poller.wait(self.timeout(now, until))?;
        let mut clients = self.pending.clone();
        clients.extend(sources.iter().filter_map(|source| match source {
            Source::Process(process) => Some(*process),
            _ => None,
        }));
        Ok(Ready {
            listener: sources.contains(&Source::Listener),
            signal: sources.contains(&Source::Signals),
            clients: clients.into_iter().collect(),
        })
    }

    fn listen(&self, endpoint: &Endpoint, read: bool) {
        self.poller.change(Source::Listener, &endpoint.listener, Interest { read, write: false });
    }

    /// Time until the next deadline that no descriptor reports.
    fn timeout(&self, now: Instant, until: Until) -> EpollTimeout {
        if !self.pending.is_empty() {
            return EpollTimeout::ZERO;
        }
        let silent = self.silent.values().next().map(|since| hello_deadline(*since));
        let unused = (until == Until::Unused && !self.is_used()).then(|| self.used_at + LINGER);
        let Some(at) = [silent, unused, self.listener_resumes_at].into_iter().flatten().min() else {
            return EpollTimeout::NONE;
        };
        // Rounded up; otherwise the wait would end too early and be repeated at once.
        let ms = at.saturating_duration_since(now).as_millis().saturating_add(1);
        EpollTimeout::try_from(i32::try_from(ms).unwrap_or(i32::MAX)).unwrap_or(EpollTimeout::MAX)
    }

    /// True if a daemon or a program is connected. A program is a connection that has said hello and is not of a
    /// daemon's process.
    fn is_used(&self) -> bool {
        if !self.daemons.is_empty() && !self.service.is_dismissed() {
            return true;
        }
        self.greeted.keys().any(|pid| self.daemons.values().all(|daemon| daemon != pid))
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
                // The client closed its connection before it was accepted.
                Err(e) if e.kind() == ErrorKind::ConnectionAborted || e.kind() == ErrorKind::Interrupted => {}
                // Descriptors or memory are short. Waiting clients are still there after a pause.
                Err(e) => {
                    self.listener_resumes_at = Some(Instant::now() + LISTENER_PAUSE);
                    self.listen(endpoint, false);
                    self.log.write(None, &format!("cannot accept more programs now: {e}"));
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
        if let Err(count) = self.admission.enter(peer.uid, peer.is_owner) {
            let why = format!("uid {} already has {count} connections", peer.uid);
            self.log.write(Some(peer.uid), &format!("pid {} refused: {why}", peer.pid));
            // Best effort: the end of the connection shows the client that it was refused.
            let reply = Err(Refusal::TooMuch(why));
            let _ = client.answer(&ServerFrame { id: FIRST_REQUEST, reply });
            return;
        }
        let since = client.since;
        let process = self.service.connect_from(Some(peer));
        if let Err(errno) = self.poller.add(Source::Process(process), client.fd(), client.interest) {
            self.service.disconnect(self.now(), process);
            self.admission.leave(peer.uid);
            self.log.write(
                Some(peer.uid),
                &format!("pid {} refused: cannot watch its connection: {errno}", peer.pid),
            );
            return;
        }
        self.silent.insert(process, since);
        self.clients.insert(process, client);
    }

    /// Updates interest, pending set and byte count of a connection; call it after any work on the connection.
    fn update_connection(&mut self, process: ProcessId) {
        let Some(client) = self.clients.get_mut(&process) else { return };
        let wanted = Interest { read: client.may_ask(), write: client.wants_to_write() };
        if wanted != client.interest {
            client.interest = wanted;
            self.poller.change(Source::Process(process), client.fd(), wanted);
        }
        if client.has_more && client.may_ask() {
            self.pending.insert(process);
        } else {
            self.pending.remove(&process);
        }
        let (before, after) = (client.counted_bytes, client.buffered_bytes());
        client.counted_bytes = after;
        self.admission.keep(client.peer.uid, before, after);
    }

    /// Reads a client's requests, handles them, writes as much as the client takes. An error ends the server.
    fn exchange(&mut self, process: ProcessId) -> io::Result<()> {
        self.exchange_with(process, true)
    }

    /// `sweeps`: frees what ended processes held before this client takes memory.
    fn exchange_with(&mut self, process: ProcessId, sweeps: bool) -> io::Result<()> {
        let Some(client) = self.clients.get_mut(&process) else { return Ok(()) };
        let uid = client.peer.uid;
        let mut gone = client.flush().err();
        // Requests sent before the end are handled: a program may send its last request and exit.
        let ended = if client.may_ask() { client.read().err() } else { None };
        for _ in 0..CONNECTION_REQUESTS {
            let Some(client) = self.clients.get_mut(&process) else { return Ok(()) };
            if gone.is_some() || !client.may_ask() || !self.admission.may_ask(uid) {
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
            self.admission.ask(uid);
            if sweeps && takes_memory(&frame.request) {
                self.sweep(process)?;
            }
            let now = self.now();
            self.guarded(process, |service, answers| service.handle(now, process, frame, answers))?;
            self.admission.spend(uid, Duration::from_nanos(self.now().0.saturating_sub(now.0)));
        }
        let Some(client) = self.clients.get_mut(&process) else { return Ok(()) };
        let pid = client.peer.pid;
        // The client's last requests may exceed one turn.
        let gone = gone.or(ended.filter(|_| !client.has_more));
        if self.service.has_greeted(process) && self.silent.remove(&process).is_some() {
            client.greeted();
            *self.greeted.entry(pid).or_default() += 1;
        }
        if self.service.attends(process) {
            self.daemons.insert(process, pid);
        }
        self.update_connection(process);
        let gone = gone.or_else(|| self.over_buffer_limit(uid));
        if let Some(gone) = gone {
            self.drop_client(process, gone);
        }
        Ok(())
    }

    /// Drops the clients whose processes have ended, except `but`. A real driver has freed a process's memory before
    /// its end is visible. Here the end may still be queued in a socket when a daemon, which watches the process,
    /// grants the memory anew.
    fn sweep(&mut self, but: ProcessId) -> io::Result<()> {
        let ended = self.poller.ended().into_iter().filter(|&one| one != but);
        ended.collect::<Vec<_>>().into_iter().try_for_each(|process| self.exchange_with(process, false))
    }

    /// The fault of a user whose connections make the server keep too many bytes.
    fn over_buffer_limit(&self, uid: u32) -> Option<Gone> {
        let bytes = self.admission.kept(uid);
        let why = || {
            format!(
                "uid {uid} has {bytes} bytes of incomplete messages and unread answers; {BUFFERED_BYTES_MAX} are allowed"
            )
        };
        (bytes > BUFFERED_BYTES_MAX).then(|| Gone::Fault(why()))
    }

    /// Runs `work` for a client. A panic drops that client; the server goes on if the model's books are right.
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
        // The panic hook has printed the message on standard error already.
        let dropped = catch_unwind(AssertUnwindSafe(|| {
            self.drop_client(process, Gone::Fault("internal error while serving it".to_owned()));
            self.service.check();
        }));
        dropped.map_err(|_| {
            io::Error::other("internal error: the records of the devices' memory and work are inconsistent")
        })
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
            self.update_connection(process);
        }
        for (process, gone) in faults {
            self.drop_client(process, gone);
        }
    }

    fn drop_silent(&mut self) {
        let now = Instant::now();
        let over = self.silent.iter().take_while(|(_, since)| hello_deadline(**since) <= now);
        for process in over.map(|(process, _)| *process).collect::<Vec<_>>() {
            let why = format!("no hello within {} s of connecting", HELLO_WAIT_MAX.as_secs());
            self.drop_client(process, Gone::Fault(why));
        }
    }

    fn drop_client(&mut self, process: ProcessId, gone: Gone) {
        let Some(client) = self.clients.remove(&process) else { return };
        let Peer { pid, uid, .. } = client.peer;
        self.admission.keep(uid, client.counted_bytes, 0);
        self.admission.leave(uid);
        self.pending.remove(&process);
        self.daemons.remove(&process);
        if self.silent.remove(&process).is_none()
            && let Some(count) = self.greeted.get_mut(&pid)
        {
            *count -= 1;
            self.greeted.retain(|_, count| *count > 0);
        }
        if let Gone::Fault(why) = gone {
            self.log.write(Some(uid), &format!("connection of pid {pid} (uid {uid}) closed: {why}"));
        }
        self.service.disconnect(self.now(), process);
    }
}

fn takes_memory(request: &Request) -> bool {
    matches!(request, Request::OpenContext { .. } | Request::Allocate { .. })
}

/// Credentials of the peer as the kernel reports them: a process must not be able to charge its use to another.
fn peer(stream: &UnixStream) -> Peer {
    // Without credentials the peer is an unknown user, and not the server's own.
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
        let mut server =
            Server::new(Service::new(cards, Options::default(), scale, Clock::Real), 1024).unwrap();
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
        let mut server =
            Server::new(Service::new(cards, Options::default(), scale, Clock::Real), 1024).unwrap();
        let start = Instant::now();
        assert!(!server.is_unused(start), "a daemon may still come");
        assert!(server.is_unused(start + LINGER));
        let (_silent, theirs) = UnixStream::pair().unwrap();
        server.admit(theirs);
        assert!(server.is_unused(start + LINGER), "who says nothing is no program");
    }
}
