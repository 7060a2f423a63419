//! The epoll sets that the server's loop waits on. Every connection is registered once, so that a turn costs as much as
//! there are ready connections, not open ones.
//!
//! Trap: epoll drops a descriptor by itself only when its last copy is closed, so a registered descriptor must never be
//! duplicated.

use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::ProcessId;

/// Events taken in one turn; the kernel keeps the rest and reports them first in the next.
const EVENTS_MAX: usize = 1024;
/// Tokens of processes start after those of the other sources.
const PROCESS_FIRST: u64 = 3;

/// A source of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Listener,
    Signals,
    Timer,
    Process(ProcessId),
}

impl Source {
    fn token(self) -> u64 {
        match self {
            Source::Listener => 0,
            Source::Signals => 1,
            Source::Timer => 2,
            Source::Process(ProcessId(id)) => PROCESS_FIRST.saturating_add(id),
        }
    }

    fn from_token(token: u64) -> Source {
        match token {
            0 => Source::Listener,
            1 => Source::Signals,
            2 => Source::Timer,
            id => Source::Process(ProcessId(id - PROCESS_FIRST)),
        }
    }
}

/// Events to wait for on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interest {
    pub read: bool,
    pub write: bool,
}

impl Interest {
    fn flags(self) -> EpollFlags {
        let mut flags = EpollFlags::empty();
        flags.set(EpollFlags::EPOLLIN, self.read);
        flags.set(EpollFlags::EPOLLOUT, self.write);
        flags
    }
}

#[derive(Debug)]
pub struct Poller {
    turns: Epoll,
    /// The connections once more; reports only that one has ended.
    ends: Epoll,
}

impl Poller {
    pub fn new() -> nix::Result<Poller> {
        let set = || Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC);
        Ok(Poller { turns: set()?, ends: set()? })
    }

    /// Registers a descriptor that is not registered yet.
    pub fn add(&self, source: Source, fd: impl AsFd, interest: Interest) -> nix::Result<()> {
        self.turns.add(&fd, EpollEvent::new(interest.flags(), source.token()))?;
        if matches!(source, Source::Process(_)) {
            self.ends.add(&fd, EpollEvent::new(EpollFlags::empty(), source.token()))?;
        }
        Ok(())
    }

    pub fn change(&self, source: Source, fd: impl AsFd, interest: Interest) {
        // Fails only for a descriptor that is not registered, which then needs no change.
        let _ = self.turns.modify(fd, &mut EpollEvent::new(interest.flags(), source.token()));
    }

    /// Sleeps until something is ready, at most for `timeout`.
    pub fn wait(&self, timeout: EpollTimeout) -> nix::Result<Vec<Source>> {
        take(&self.turns, timeout)
    }

    /// Processes whose connections have ended and that were not dropped yet.
    pub fn ended(&self) -> Vec<ProcessId> {
        // A connection missed now is found in the next turn.
        let ended = take(&self.ends, EpollTimeout::ZERO).unwrap_or_default();
        let process = |source| if let Source::Process(process) = source { Some(process) } else { None };
        ended.into_iter().filter_map(process).collect()
    }
}

fn take(set: &Epoll, timeout: EpollTimeout) -> nix::Result<Vec<Source>> {
    let mut events = [EpollEvent::empty(); EVENTS_MAX];
    let count = match set.wait(&mut events, timeout) {
        Ok(count) => count,
        Err(Errno::EINTR) => 0,
        Err(errno) => return Err(errno),
    };
    let mut ready: Vec<Source> =
        events.iter().take(count).map(|event| Source::from_token(event.data())).collect();
    ready.sort();
    Ok(ready)
}
