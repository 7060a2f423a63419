//! The daemon's half: makes and seals a client's pages, takes its requests, writes its answers, notices its death.
//!
//! Trap: the client may do anything to the request page at any time. So `tail` is kept here and only copied to the
//! reply page, `head` is read once per pop and bounded, and nothing here ever waits for the client.

use crate::pages::{Mapping, PageError, Replies, Requests};
use crate::{exchange, futex, packet};
use eager_proto::hello::Greeting;
use eager_proto::reply::TaskCell;
use eager_proto::request::{RequestRecord, Slot};
use eager_proto::{RING_SLOTS, text};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{SockFlag, accept4, getsockopt, sockopt};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, memfd_create};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};

/// The client's ring counter has a value that no honest client can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the ring's head is {ahead} records ahead of its tail (the ring has {RING_SLOTS})")]
pub struct CorruptRing {
    pub ahead: u32,
}

/// Why pages could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("shared memory: {0}")]
    System(#[from] rustix::io::Errno),
    #[error(transparent)]
    Page(#[from] PageError),
}

/// The descriptors that go to the client; the daemon keeps none of them.
#[derive(Debug)]
pub struct PageDescriptors {
    pub requests: OwnedFd,
    pub replies: OwnedFd,
}

/// One client's pages.
#[derive(Debug)]
pub struct ClientPages {
    requests: Mapping<Requests>,
    replies: Mapping<Replies>,
    /// Records taken so far; the client sees a copy.
    tail: u32,
}

impl ClientPages {
    /// Makes both pages: memory allocated at once (no SIGBUS later), size sealed, and the reply page closed to every
    /// later writer once the daemon has mapped it.
    pub fn create() -> Result<(ClientPages, PageDescriptors), CreateError> {
        ClientPages::create_from(None)
    }

    /// Makes pages for a client that has seen cells with sequences up to `floor`, so that it takes the new cells for
    /// newer.
    pub fn create_above(floor: u32) -> Result<(ClientPages, PageDescriptors), CreateError> {
        ClientPages::create_from(Some(floor))
    }

    fn create_from(floor: Option<u32>) -> Result<(ClientPages, PageDescriptors), CreateError> {
        let fixed = SealFlags::SHRINK | SealFlags::GROW;
        let request_file = memory_file("eager-requests", size_of::<Requests>())?;
        let reply_file = memory_file("eager-replies", size_of::<Replies>())?;
        let requests = Mapping::<Requests>::new(request_file.as_fd(), true)?;
        let replies = Mapping::<Replies>::new(reply_file.as_fd(), true)?;
        if let Some(floor) = floor {
            replies.cells.iter().for_each(|cell| cell.start_above(floor));
        }
        requests.publish_header();
        replies.publish_header();
        fcntl_add_seals(&request_file, fixed | SealFlags::SEAL)?;
        fcntl_add_seals(&reply_file, fixed | SealFlags::FUTURE_WRITE | SealFlags::SEAL)?;
        let pages = ClientPages { requests, replies, tail: 0 };
        Ok((pages, PageDescriptors { requests: request_file, replies: reply_file }))
    }

    /// Takes the next record, copied once; check it with [`eager_proto::request::decode`].
    pub fn pop(&mut self) -> Result<Option<RequestRecord>, CorruptRing> {
        let (head, tail) = (&self.requests.header.cursor, &self.replies.header.cursor);
        let requests = &self.requests;
        exchange::pop(head, &mut self.tail, tail, RING_SLOTS as u32, |place| requests.copy(place))
            .map_err(|ahead| CorruptRing { ahead })
    }

    /// Replaces a slot's answer, with its reason in words, and wakes the threads that sleep on it (`value.sequence` is
    /// ignored).
    pub fn publish_cell(&self, slot: Slot, value: &TaskCell, reason: &str) {
        self.write_cell(slot, value, reason);
        self.wake(slot);
    }

    /// Replaces a slot's answer without waking any thread: readers see it at once, sleeping threads after
    /// [`ClientPages::wake`].
    pub fn write_cell(&self, slot: Slot, value: &TaskCell, reason: &str) {
        let cell = &self.replies.cells[slot.index()];
        cell.write(value, &self.replies.texts[slot.index()], text::pack(reason));
    }

    /// Wakes the threads that sleep on a slot's answer: once for all that was written since the last time.
    pub fn wake(&self, slot: Slot) {
        futex::wake_all(&self.replies.cells[slot.index()].sequence);
    }

    /// Sequence of a slot's answer, as the client sees it once it is written.
    pub fn sequence(&self, slot: Slot) -> u32 {
        // Relaxed: only the daemon writes it.
        self.replies.cells[slot.index()].sequence.load(Ordering::Relaxed)
    }

    /// Launches and ended launches that the client claims for a slot: a hint only.
    ///
    /// If this is called after a cell with `FLAG_WATCH` was published, no launch is missed: either these counters hold
    /// it, or the client sees the flag when it counts it.
    pub fn counters(&self, slot: Slot) -> (u64, u64) {
        // Store of the flag before load of the counters: pairs with the SeqCst accesses of
        // `ClientConnection::add_launched` and `flags`.
        fence(Ordering::SeqCst);
        let counters = &self.requests.counters[slot.index()];
        (counters.launched.load(Ordering::Relaxed), counters.retired.load(Ordering::Relaxed))
    }
}

/// A memfd of `bytes` bytes with its memory allocated.
fn memory_file(name: &str, bytes: usize) -> rustix::io::Result<OwnedFd> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    fallocate(&file, FallocateFlags::empty(), 0, bytes as u64)?;
    Ok(file)
}

/// Linux's own limit: no process can have more groups.
const GROUPS_MAX: usize = 65_536;

/// A connected process, as the kernel identifies it.
#[derive(Debug)]
pub struct Peer {
    pub pid: i32,
    pub uid: u32,
    /// Readable once the process has ended, even as a zombie; never refers to another process with the same number.
    pub pidfd: OwnedFd,
}

/// Accepts one waiting connection, not blocking and closed on exec; `EAGAIN` when there is none.
pub fn accept(listener: BorrowedFd<'_>) -> nix::Result<OwnedFd> {
    let raw = accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK)?;
    // SAFETY: the kernel has just opened this descriptor for this process, and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Identifies the process that connected. `SO_PEERPIDFD` (Linux 6.5) names it without a race; on an older kernel the
/// pidfd is opened by number, and is wrong if the process dies within the microseconds between and its number is used
/// again.
pub fn peer(socket: BorrowedFd<'_>) -> nix::Result<Peer> {
    let credentials = getsockopt(&socket, sockopt::PeerCredentials)?;
    let pidfd = match getsockopt(&socket, sockopt::PeerPidfd) {
        Ok(pidfd) => pidfd,
        Err(Errno::ENOPROTOOPT) => open_pidfd(credentials.pid())?,
        Err(other) => return Err(other),
    };
    Ok(Peer { pid: credentials.pid(), uid: credentials.uid(), pidfd })
}

/// Groups of the process that connected, its primary group first, as the kernel knew them when it connected.
pub fn groups(socket: BorrowedFd<'_>) -> nix::Result<Vec<u32>> {
    let own = getsockopt(&socket, sockopt::PeerCredentials)?.gid();
    let mut gids = vec![0u32; GROUPS_MAX];
    let mut bytes = libc::socklen_t::try_from(size_of_val(gids.as_slice())).map_err(|_| Errno::EOVERFLOW)?;
    // SAFETY: neither nix nor rustix has this option. The kernel writes at most `bytes` bytes to a buffer of that
    // length, in which any bytes are valid numbers, and leaves in `bytes` how many it wrote.
    let done = unsafe {
        let (buffer, length) = (gids.as_mut_ptr().cast(), &raw mut bytes);
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERGROUPS, buffer, length)
    };
    Errno::result(done)?;
    gids.truncate(bytes as usize / size_of::<u32>());
    gids.insert(0, own);
    Ok(gids)
}

/// Opens a pidfd of the process that has this number now.
pub fn open_pidfd(pid: i32) -> nix::Result<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid).ok_or(Errno::ESRCH)?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
        .map_err(|error| Errno::from_raw(error.raw_os_error()))
}

/// Receives one packet without blocking, dropping descriptors that came with it. Returns its real length, which may be
/// more than fitted; 0 at the end of the connection.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> nix::Result<usize> {
    packet::receive(socket, buffer)
}

/// Sends the answer to a hello, with the pages when it was accepted. Never blocks.
///
/// Read the hello first even if it is refused: closing a socket with an unread packet discards the answer.
pub fn send_welcome(
    socket: BorrowedFd<'_>,
    greeting: &Greeting,
    descriptors: Option<&PageDescriptors>,
) -> nix::Result<()> {
    let bytes = greeting.encode();
    match descriptors {
        None => packet::send(socket, &bytes, &[]),
        Some(pages) => {
            let both = [pages.requests.as_raw_fd(), pages.replies.as_raw_fd()];
            packet::send(socket, &bytes, &both)
        }
    }
}
