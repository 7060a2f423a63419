//! The shim's half: connects, sends requests, reads answers, sleeps until one changes.
//!
//! Trap: the daemon may die or be stopped at any moment, so nothing here waits without a bound: a sleeping thread looks
//! at the socket every [`LIVENESS_INTERVAL`]. [`ClientConnection::resume`] puts the pages and the socket of a new
//! daemon in the place of the old ones while other threads use them; those threads need no notice. After `fork` the
//! child must make its own connection; [`ClientConnection::send`] refuses to send on the parent's.

use crate::pages::{Cell, Mapping, PageError, Replies, Requests};
use crate::users::is_mapped_here;
use crate::{exchange, futex, packet};
use eager_proto::RING_SLOTS;
use eager_proto::hello::{
    FEATURE_RESUME, Greeting, Hello, Opening, Resume, Uuid, WELCOME_OK, WELCOME_RESOURCES, Welcome,
};
use eager_proto::newcomer::daemon_expected;
use eager_proto::reply::{TaskCell, has_reached};
use eager_proto::request::{Request, RequestBody, RequestRecord, Slot, encode};
use eager_proto::{ENV_TRUST_UID, PROTOCOL_MAJOR, PROTOCOL_MINOR, TASK_SLOTS, text};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::Uid;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest time until a sleeping thread notices that the daemon has died (specification S-703).
pub const LIVENESS_INTERVAL: Duration = Duration::from_millis(100);
/// Pause between two attempts to connect to a daemon that is being started (specification S-701).
const CONNECT_PAUSE: Duration = Duration::from_millis(100);
/// Attempts to read a cell that is being written; each waits up to a millisecond for the writer.
const SNAPSHOT_TRIES: u32 = 100;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("no daemon listens at {}", path.display())]
    NoDaemon { path: PathBuf },
    #[error("the daemon at {} did not answer in time", path.display())]
    TimedOut { path: PathBuf },
    #[error("the daemon refused: {reason}")]
    Refused { status: u32, reason: String },
    #[error(
        "the process at {} belongs to uid {uid}, which is neither root nor you; if it may be trusted, set \
         {ENV_TRUST_UID}={uid}",
        path.display()
    )]
    Untrusted { path: PathBuf, uid: u32 },
    #[error(
        "the daemon at {} speaks protocol {major}.{minor}, this program {PROTOCOL_MAJOR}.{PROTOCOL_MINOR}",
        path.display()
    )]
    Version { path: PathBuf, major: u16, minor: u16 },
    #[error("the daemon at {} ended before it answered", path.display())]
    Ended { path: PathBuf },
    #[error("the program that listens at {} is not an Eager daemon", path.display())]
    NotADaemon { path: PathBuf },
    #[error(transparent)]
    Page(#[from] PageError),
    #[error("{}: {errno}", path.display())]
    System { path: PathBuf, errno: Errno },
}

impl ConnectError {
    /// True if a retry may find a daemon: one is being started, has just ended, or lacks a resource.
    pub fn is_passing(&self) -> bool {
        match self {
            ConnectError::NoDaemon { .. } | ConnectError::TimedOut { .. } | ConnectError::Ended { .. } => {
                true
            }
            ConnectError::Refused { status, .. } => *status == WELCOME_RESOURCES,
            _ => false,
        }
    }
}

/// Why a request was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    #[error("the daemon has not taken the last {RING_SLOTS} requests yet")]
    RingFull,
    #[error("the daemon is gone")]
    DaemonGone,
    #[error("the connection belongs to the parent process")]
    Forked,
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    Changed,
    TimedOut,
    DaemonGone,
}

/// A connection to the daemon; shared freely between threads.
#[derive(Debug)]
pub struct ClientConnection {
    socket: OwnedFd,
    requests: Mapping<Requests>,
    replies: Mapping<Replies>,
    client: u64,
    grant_max: u64,
    process: u32,
    path: PathBuf,
    trusted: Option<u32>,
    hello: Hello,
    /// Features that the daemon granted: bits of [`eager_proto::hello::FEATURES`].
    features: u64,
    devices: Mutex<Vec<Uuid>>,
    /// Its lock also makes filling and publishing a record one step.
    outbox: Mutex<Outbox>,
    /// The authoritative counters: those in the page are lost with its daemon.
    counters: [OwnCounters; TASK_SLOTS],
    connected: Instant,
    /// When [`Self::looks_gone`] last looked, in milliseconds since `connected`.
    looked_ms: AtomicU64,
}

/// Requests that were sent and may have to be sent again.
#[derive(Debug, Default)]
struct Outbox {
    last_sequence: u32,
    /// Requests that no cell showed as answered at the last look, the oldest first.
    unanswered: Vec<RequestRecord>,
}

#[derive(Debug, Default)]
struct OwnCounters {
    launched: AtomicU64,
    retired: AtomicU64,
}

impl ClientConnection {
    /// Connects to the daemon whose client socket is at `path`. `timeout` bounds each of the three steps (connect,
    /// hello, answer).
    ///
    /// Only a daemon of root or of the caller's own uid is trusted, since the contents of its pages are used as they
    /// are.
    pub fn connect(path: &Path, hello: &Hello, timeout: Duration) -> Result<ClientConnection, ConnectError> {
        ClientConnection::connect_trusting(path, hello, timeout, None)
    }

    /// Calls `connect` until it succeeds, fails for good, or `patience` is over, since a daemon may be starting.
    /// `waits` gets each passing error and the time waited so far.
    pub fn connect_within<T>(
        patience: Duration,
        mut waits: impl FnMut(Duration, &ConnectError),
        mut connect: impl FnMut() -> Result<T, ConnectError>,
    ) -> Result<T, ConnectError> {
        let start = Instant::now();
        loop {
            match connect() {
                Err(error) if error.is_passing() && start.elapsed() < patience => {
                    waits(start.elapsed(), &error);
                    std::thread::sleep(CONNECT_PAUSE.min(patience.saturating_sub(start.elapsed())));
                }
                result => return result,
            }
        }
    }

    /// Connects like [`Self::connect`], but also trusts a daemon of the uid `trusted`. In a container that does not map
    /// the daemon's user, the kernel shows the overflow uid for it, as for every user that is not mapped: then the user
    /// who put the socket there must be trusted.
    pub fn connect_trusting(
        path: &Path,
        hello: &Hello,
        timeout: Duration,
        trusted: Option<u32>,
    ) -> Result<ClientConnection, ConnectError> {
        let opening = Opening { hello: *hello, resume: None };
        let Handshake { socket, greeting, requests, replies } = handshake(path, &opening, timeout, trusted)?;
        let Greeting { welcome, devices } = greeting;
        let (request_page, reply_page) = open(&requests, &replies)?;
        Ok(ClientConnection {
            socket,
            requests: request_page,
            replies: reply_page,
            client: welcome.client,
            grant_max: u64::from(welcome.grant_max_mib) << 20,
            process: std::process::id(),
            path: path.into(),
            trusted,
            hello: *hello,
            features: welcome.features,
            devices: Mutex::new(devices),
            outbox: Mutex::default(),
            counters: Default::default(),
            connected: Instant::now(),
            looked_ms: AtomicU64::default(),
        })
    }

    /// Continues with a new daemon in the old one's place: its pages and socket replace the old ones, requests without
    /// an answer are sent again, once, and grants stay. Does nothing while the daemon lives.
    ///
    /// `Err`: not now ([`ConnectError::NoDaemon`]), or never ([`ConnectError::Refused`]). Other threads that wait for a
    /// cell find the new one within [`LIVENESS_INTERVAL`].
    pub fn resume(&self, timeout: Duration) -> Result<(), ConnectError> {
        let stranger = || ConnectError::NotADaemon { path: self.path.clone() };
        if std::process::id() != self.process || self.features & FEATURE_RESUME == 0 {
            return Err(stranger());
        }
        let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.daemon_gone() {
            return Ok(());
        }
        let sequence_floor = Slot::all().map(|slot| self.sequence(slot)).max().unwrap_or_default();
        let resume = Resume { client: self.client, sequence_floor, reserved: 0 };
        let opening = Opening { hello: self.hello, resume: Some(resume) };
        let fresh = handshake(&self.path, &opening, timeout, self.trusted)?;
        if fresh.greeting.welcome.client != self.client {
            return Err(stranger());
        }
        // Both pages are checked before either of them is replaced.
        drop(open(&fresh.requests, &fresh.replies)?);
        self.replies.replace(fresh.replies.as_fd(), false)?;
        self.requests.replace(fresh.requests.as_fd(), true)?;
        for (own, shared) in self.counters.iter().zip(&self.requests.counters) {
            shared.launched.fetch_max(own.launched.load(Ordering::SeqCst), Ordering::SeqCst);
            shared.retired.fetch_max(own.retired.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        packet::take_place(&self.socket, fresh.socket).map_err(|errno| connect_error(&self.path, errno))?;
        // The new daemon may serve further devices.
        *self.devices.lock().unwrap_or_else(PoisonError::into_inner) = fresh.greeting.devices;
        self.send_again(&mut outbox);
        Ok(())
    }

    /// Fills the new ring with the requests that the new daemon has not answered.
    fn send_again(&self, outbox: &mut Outbox) {
        outbox.unanswered.retain(|record| !self.has_answered(record));
        let mut head = self.requests.header.cursor.load(Ordering::Relaxed);
        for record in &outbox.unanswered {
            self.requests.fill(head, record);
            head = head.wrapping_add(1);
        }
        // Release: pairs with the acquire load of `head` in `exchange::pop`.
        self.requests.header.cursor.store(head, Ordering::Release);
        // If the socket is full or closed, the next request or the next look at the socket notices.
        let _ = packet::send(self.socket.as_fd(), &[1], &[]);
    }

    fn has_answered(&self, record: &RequestRecord) -> bool {
        let cell = self.replies.cells.get(usize::from(record.slot));
        cell.is_none_or(|cell| has_reached(cell.answered(), record.sequence))
    }

    /// Keeps the connection open over `exec`, and with it all grants: the program that replaces this one has them until
    /// it ends.
    pub fn keep_over_exec(&self) -> Result<(), Errno> {
        fcntl(&self.socket, FcntlArg::F_SETFD(FdFlag::empty())).map(drop)
    }

    /// The daemon's id of this client, as in `eager ps` and the journal.
    pub fn client(&self) -> u64 {
        self.client
    }

    /// Features that the client offered and the daemon wants: bits of [`eager_proto::hello::FEATURES`].
    pub fn features(&self) -> u64 {
        self.features
    }

    /// Uuids of the daemon's devices by their numbers; empty where the program sees the devices under the same numbers.
    pub fn devices(&self) -> Vec<Uuid> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The most that a task can ever be granted, in bytes; `None` if the daemon does not tell.
    pub fn grant_max(&self) -> Option<u64> {
        (self.grant_max > 0).then_some(self.grant_max)
    }

    /// Publishes a request and rings the daemon. Returns its sequence, which the slot's cell shows in `answered` once
    /// the daemon has answered. Never blocks on the daemon.
    pub fn send(&self, body: RequestBody, slot: Slot) -> Result<u32, SendError> {
        self.send_record(encode(&Request { sequence: 0, slot, body }))
    }

    /// Publishes a record with the next sequence in place of its own. The record may be malformed: tests send such
    /// records to a daemon.
    pub fn send_record(&self, record: RequestRecord) -> Result<u32, SendError> {
        if std::process::id() != self.process {
            return Err(SendError::Forked);
        }
        let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        let sequence = outbox.last_sequence.wrapping_add(1);
        let record = RequestRecord { sequence, ..record };
        let (head, tail) = (&self.requests.header.cursor, &self.replies.header.cursor);
        if !exchange::push(head, tail, RING_SLOTS as u32, |place| self.requests.fill(place, &record)) {
            return if self.daemon_gone() { Err(SendError::DaemonGone) } else { Err(SendError::RingFull) };
        }
        outbox.unanswered.retain(|record| !self.has_answered(record));
        if outbox.unanswered.len() >= RING_SLOTS {
            // More than a daemon leaves unanswered, and more than a new ring has room for: the oldest is dropped.
            outbox.unanswered.remove(0);
        }
        outbox.last_sequence = sequence;
        outbox.unanswered.push(record);
        match packet::send(self.socket.as_fd(), &[1], &[]) {
            // A full socket holds enough doorbells already.
            Ok(()) | Err(Errno::EAGAIN | Errno::EINTR) => Ok(sequence),
            Err(_) => {
                // The caller gets an error and may send the request again, so it must not be sent again from here.
                outbox.unanswered.pop();
                Err(SendError::DaemonGone)
            }
        }
    }

    /// The slot's current answer. `None` when the daemon stopped in the middle of writing it: treat the daemon as gone.
    pub fn cell(&self, slot: Slot) -> Option<TaskCell> {
        let cell = &self.replies.cells[slot.index()];
        self.snapshot(cell, || cell.read())
    }

    /// Why the slot is in its state, in words that are safe to print; empty for a free slot. `None` as for
    /// [`Self::cell`].
    pub fn reason(&self, slot: Slot) -> Option<String> {
        let cell = &self.replies.cells[slot.index()];
        let packed = self.snapshot(cell, || cell.read_text(&self.replies.texts[slot.index()]))?;
        Some(text::unpack(&packed))
    }

    /// Reads until no write interferes; `None` after [`SNAPSHOT_TRIES`] attempts.
    fn snapshot<T>(&self, cell: &Cell, read: impl Fn() -> Result<T, u32>) -> Option<T> {
        for _ in 0..SNAPSHOT_TRIES {
            match read() {
                Ok(value) => return Some(value),
                Err(sequence) if sequence & 1 == 1 => {
                    // The writer wakes sleepers when it is done; an error only makes this try shorter.
                    let _ = futex::sleep_while(&cell.sequence, sequence, Duration::from_millis(1));
                }
                Err(_) => {}
            }
        }
        None
    }

    /// Sleeps until the slot's cell is no longer the one with `seen_sequence` ([`TaskCell::sequence`]), the deadline
    /// passes, or the daemon is gone (noticed within [`LIVENESS_INTERVAL`]).
    pub fn wait_cell(&self, slot: Slot, seen_sequence: u32, deadline: Instant) -> Wait {
        let word = &self.replies.cells[slot.index()].sequence;
        loop {
            // Acquire: pairs with the release store of `sequence` in `exchange::write`.
            let sequence = word.load(Ordering::Acquire);
            if sequence != seen_sequence && sequence & 1 == 0 {
                return Wait::Changed;
            }
            if self.daemon_gone() {
                return Wait::DaemonGone;
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
            else {
                return Wait::TimedOut;
            };
            let slice = left.min(LIVENESS_INTERVAL);
            if futex::sleep_while(word, sequence, slice).is_err() {
                // No futex here (a sandbox): look again a little later.
                std::thread::sleep(slice.min(Duration::from_millis(1)));
            }
        }
    }

    /// Sequence of the slot's cell, odd while it is being written: one load, no system call. While it equals the
    /// sequence of a cell that was read before, that cell still holds.
    pub fn sequence(&self, slot: Slot) -> u32 {
        // Acquire: pairs with the release store of `sequence` in `exchange::write`.
        self.replies.cells[slot.index()].sequence.load(Ordering::Acquire)
    }

    /// The slot's gate word, for [`eager_proto::reply::gate::admits`]: one load, no system call.
    pub fn gate(&self, slot: Slot) -> u64 {
        self.replies.cells[slot.index()].gate()
    }

    /// The slot's flags alone (`FLAG_WATCH` …): one load, no system call. Only [`Self::cell`] reads them consistently
    /// with the rest of the cell.
    pub fn flags(&self, slot: Slot) -> u32 {
        self.replies.cells[slot.index()].flags()
    }

    /// Counts launches of the slot's task; returns their number so far. Look at [`Self::flags`] afterwards: a watched
    /// task then reports.
    pub fn add_launched(&self, slot: Slot, launches: u64) -> u64 {
        let (own, shared) = (&self.counters[slot.index()], &self.requests.counters[slot.index()]);
        count(&own.launched, &shared.launched, launches)
    }

    /// Counts launches known to have ended; returns their number so far. Look at [`Self::flags`] afterwards.
    pub fn add_retired(&self, slot: Slot, launches: u64) -> u64 {
        let (own, shared) = (&self.counters[slot.index()], &self.requests.counters[slot.index()]);
        count(&own.retired, &shared.retired, launches)
    }

    /// Launches of the slot's task so far.
    pub fn launched(&self, slot: Slot) -> u64 {
        self.counters[slot.index()].launched.load(Ordering::Relaxed)
    }

    /// Launches known to have ended so far.
    pub fn retired(&self, slot: Slot) -> u64 {
        self.counters[slot.index()].retired.load(Ordering::Relaxed)
    }

    /// True if the daemon has taken every request so far. If this stays false, the daemon is stopped or stuck, although
    /// its socket is open.
    pub fn all_taken(&self) -> bool {
        let head = self.requests.header.cursor.load(Ordering::Relaxed);
        head == self.replies.header.cursor.load(Ordering::Relaxed)
    }

    /// True if nothing is left where the daemon was, not even the state that the next daemon needs.
    pub fn place_is_empty(&self) -> bool {
        !daemon_expected(&self.path)
    }

    /// True if the daemon is found to be gone; looks once in [`LIVENESS_INTERVAL`], for callers that ask very often.
    pub fn looks_gone(&self) -> bool {
        let now = u64::try_from(self.connected.elapsed().as_millis()).unwrap_or(u64::MAX);
        // Relaxed: nothing is read by the time; two threads that look at once do no harm.
        let looked = self.looked_ms.load(Ordering::Relaxed);
        if u128::from(now.saturating_sub(looked)) < LIVENESS_INTERVAL.as_millis() {
            return false;
        }
        self.looked_ms.store(now, Ordering::Relaxed);
        self.daemon_gone()
    }

    /// True if the daemon has closed the connection or died. One `poll` without waiting.
    pub fn daemon_gone(&self) -> bool {
        let mut socket = [PollFd::new(self.socket.as_fd(), PollFlags::empty())];
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        poll(&mut socket, PollTimeout::ZERO).is_ok()
            && socket[0].revents().is_some_and(|seen| seen.intersects(gone))
    }
}

fn count(own: &AtomicU64, shared: &AtomicU64, launches: u64) -> u64 {
    let now = own.fetch_add(launches, Ordering::SeqCst).wrapping_add(launches);
    // The larger value wins: threads may get here in another order, and the page may be a new one. SeqCst, as is the
    // load in `Cell::flags`: the counter is stored before the flags are loaded. Pairs with the fence in
    // `ClientPages::counters`.
    shared.fetch_max(now, Ordering::SeqCst);
    now
}

/// An accepted connection, before its pages are mapped.
struct Handshake {
    socket: OwnedFd,
    greeting: Greeting,
    requests: OwnedFd,
    replies: OwnedFd,
}

/// Connects, sends the hello, and receives the answer. `timeout` bounds each step.
fn handshake(
    path: &Path,
    opening: &Opening,
    timeout: Duration,
    trusted: Option<u32>,
) -> Result<Handshake, ConnectError> {
    let failed = |errno| connect_error(path, errno);
    let socket = packet::connect_seqpacket(path, timeout).map_err(failed)?;
    let uid = getsockopt(&socket, sockopt::PeerCredentials).map_err(failed)?.uid();
    if uid != 0 && !is_own(uid) && Some(uid) != trusted {
        return Err(ConnectError::Untrusted { path: path.into(), uid });
    }
    packet::send(socket.as_fd(), &opening.encode(), &[]).map_err(failed)?;
    let mut answer = [0; Greeting::BYTES_MAX];
    let (bytes, descriptors) =
        packet::receive_with_descriptors(socket.as_fd(), &mut answer).map_err(failed)?;
    if bytes == 0 {
        return Err(ConnectError::Ended { path: path.into() });
    }
    let greeting = read_greeting(path, answer.get(..bytes).unwrap_or_default())?;
    let [requests, replies]: [OwnedFd; 2] =
        descriptors.try_into().map_err(|_| ConnectError::NotADaemon { path: path.into() })?;
    Ok(Handshake { socket, greeting, requests, replies })
}

/// True if this is the caller's own user. Where a user namespace does not map it, every user outside has the same
/// number as the caller, and the number proves nothing.
fn is_own(uid: u32) -> bool {
    uid == Uid::effective().as_raw() && is_mapped_here(uid)
}

fn connect_error(path: &Path, errno: Errno) -> ConnectError {
    let path = path.to_path_buf();
    match errno {
        Errno::ENOENT | Errno::ECONNREFUSED | Errno::ENOTDIR => ConnectError::NoDaemon { path },
        Errno::EAGAIN | Errno::ETIMEDOUT => ConnectError::TimedOut { path },
        Errno::ECONNRESET | Errno::EPIPE => ConnectError::Ended { path },
        Errno::EMSGSIZE | Errno::EPROTOTYPE => ConnectError::NotADaemon { path },
        errno => ConnectError::System { path, errno },
    }
}

fn read_greeting(path: &Path, packet: &[u8]) -> Result<Greeting, ConnectError> {
    let greeting = Greeting::decode(packet).ok_or_else(|| ConnectError::NotADaemon { path: path.into() })?;
    let welcome = greeting.welcome;
    if welcome.status != WELCOME_OK {
        return Err(ConnectError::Refused { status: welcome.status, reason: welcome.reason() });
    }
    if welcome.major != PROTOCOL_MAJOR {
        let Welcome { major, minor, .. } = welcome;
        return Err(ConnectError::Version { path: path.into(), major, minor });
    }
    Ok(greeting)
}

/// Maps and checks the two pages: requests writable, replies read-only.
fn open(requests: &OwnedFd, replies: &OwnedFd) -> Result<(Mapping<Requests>, Mapping<Replies>), PageError> {
    let requests = Mapping::<Requests>::new(requests.as_fd(), true)?;
    requests.check_header()?;
    let replies = Mapping::<Replies>::new(replies.as_fd(), false)?;
    replies.check_header()?;
    Ok((requests, replies))
}
