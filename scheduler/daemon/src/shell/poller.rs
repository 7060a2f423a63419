//! The event sources of the loop: an epoll set to which each client is added once, not once per turn.
//!
//! Trap: a descriptor leaves the set by itself only when its last copy is closed, so a descriptor in the set must never
//! be duplicated. The set is level-triggered: a socket that is not read stays ready, and must be removed while it is
//! not wanted.

use eager_units::ClientId;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::os::fd::AsFd;

/// Events taken in one turn. The kernel keeps the rest, and reports those first next time.
const EVENTS_MAX: usize = 1024;
/// Bits of a token that hold the id.
const ID_BITS: u32 = 60;

/// Source of readiness. The order of the variants is the order of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Signals,
    /// The end of the virtual GPU server.
    Server,
    /// A virtual clock, before every source whose events have a time.
    Clock,
    Death(ClientId),
    /// A new observation of the devices.
    Uses,
    Client(ClientId),
    Newcomer(u64),
    Listener,
    Admin(u64),
    AdminListener,
}

impl Source {
    fn token(self) -> u64 {
        let (kind, id) = match self {
            Source::Signals => (0, 0),
            Source::Death(ClientId(id)) => (1, id),
            Source::Client(ClientId(id)) => (2, id),
            Source::Newcomer(id) => (3, id),
            Source::Listener => (4, 0),
            Source::Admin(id) => (5, id),
            Source::AdminListener => (6, 0),
            Source::Clock => (7, 0),
            Source::Uses => (8, 0),
            Source::Server => (9, 0),
        };
        kind << ID_BITS | id
    }

    fn from_token(token: u64) -> Option<Source> {
        let id = token & ((1 << ID_BITS) - 1);
        Some(match token >> ID_BITS {
            0 => Source::Signals,
            1 => Source::Death(ClientId(id)),
            2 => Source::Client(ClientId(id)),
            3 => Source::Newcomer(id),
            4 => Source::Listener,
            5 => Source::Admin(id),
            6 => Source::AdminListener,
            7 => Source::Clock,
            8 => Source::Uses,
            9 => Source::Server,
            _ => return None,
        })
    }
}

/// The epoll set.
#[derive(Debug)]
pub struct Poller {
    epoll: Epoll,
}

impl Poller {
    pub fn new() -> nix::Result<Poller> {
        Ok(Poller { epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)? })
    }

    /// Adds a descriptor, which must not be in the set already.
    pub fn add(&self, source: Source, fd: impl AsFd) -> nix::Result<()> {
        self.epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, source.token()))
    }

    /// Polls for room to write as well, or no longer.
    pub fn want_write(&self, source: Source, fd: impl AsFd, write: bool) {
        let mut interest = EpollFlags::EPOLLIN;
        interest.set(EpollFlags::EPOLLOUT, write);
        // Fails only for a descriptor that is not in the set, which then needs no change.
        let _ = self.epoll.modify(fd, &mut EpollEvent::new(interest, source.token()));
    }

    /// Removes a descriptor that stays open.
    pub fn remove(&self, fd: impl AsFd) {
        // Fails only for a descriptor that is not in the set.
        let _ = self.epoll.delete(fd);
    }

    /// Sleeps until a source is ready, at most `timeout_ms` (`None`: for ever). Returns the ready sources in the order
    /// of work.
    pub fn wait(&self, timeout_ms: Option<u64>) -> nix::Result<Vec<Source>> {
        let timeout = match timeout_ms {
            None => EpollTimeout::NONE,
            // Waking up before a longer timeout is fine: the loop checks its deadlines again.
            Some(ms) => {
                EpollTimeout::try_from(i32::try_from(ms).unwrap_or(i32::MAX)).unwrap_or(EpollTimeout::MAX)
            }
        };
        let mut events = [EpollEvent::empty(); EVENTS_MAX];
        let count = match self.epoll.wait(&mut events, timeout) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(errno) => return Err(errno),
        };
        let mut ready: Vec<Source> =
            events.iter().take(count).filter_map(|event| Source::from_token(event.data())).collect();
        ready.sort();
        Ok(ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_as_its_source() {
        for source in [
            Source::Signals,
            Source::Death(ClientId(1)),
            Source::Client(ClientId((1 << 60) - 1)),
            Source::Newcomer(7),
            Source::Listener,
            Source::Admin(9),
            Source::AdminListener,
            Source::Clock,
            Source::Server,
        ] {
            assert_eq!(Source::from_token(source.token()), Some(source));
        }
        assert_eq!(Source::from_token(u64::MAX), None);
    }
}
