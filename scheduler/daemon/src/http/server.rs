//! The HTTP thread: a few connections at once, each with a limit in bytes and in time, one answer each.
//!
//! Trap: no connection can be trusted to send or to read. A silent one must be cut off by the clock, and when all
//! places are taken the oldest goes.

use super::answer::{Access, Answer, SnapshotSource, answer};
use super::request::{HEAD_BYTES_MAX, Refusal, parse};
use crate::process::processor_time::processor_time;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

/// Connections at once; a further one closes the oldest.
const CONNECTIONS_MAX: usize = 16;
/// Longest life of a connection.
const LIFE: Duration = Duration::from_secs(10);
/// The thread sleeps so many times the processor time that a turn took: whatever comes in, it uses a quarter of one processor.
const REST: u32 = 3;
/// Pause when a connection could not be taken in, as without descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// A socket of either kind.
trait Stream: Read + Write + AsFd {}
impl<T: Read + Write + AsFd> Stream for T {}

/// A listening socket, which must not block.
#[derive(Debug)]
pub enum Door {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Door {
    fn accept(&self) -> std::io::Result<Box<dyn Stream>> {
        Ok(match self {
            Door::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Box::new(stream)
            }
            Door::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Box::new(stream)
            }
        })
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Door::Unix(listener) => listener.as_fd(),
            Door::Tcp(listener) => listener.as_fd(),
        }
    }
}

struct Connection {
    stream: Box<dyn Stream>,
    door: usize,
    until: Instant,
    request: Vec<u8>,
    /// Bytes still to be written, once there is an answer.
    answer: Option<VecDeque<u8>>,
}

/// Doors, connections, and the source of answers.
pub struct Server<K: SnapshotSource> {
    doors: Vec<(Door, Access)>,
    connections: VecDeque<Connection>,
    daemon: K,
}

impl<K: SnapshotSource> Server<K> {
    pub fn new(doors: Vec<(Door, Access)>, daemon: K) -> Server<K> {
        Server { doors, connections: VecDeque::new(), daemon }
    }

    /// Serves for ever.
    pub fn run(mut self) {
        loop {
            self.turn();
        }
    }

    fn turn(&mut self) {
        let ready = self.wait();
        let before = processor_time();
        self.serve(&ready);
        // Connections from a port have no user whom their cost could be charged to.
        std::thread::sleep(Duration::from_nanos(processor_time().0.saturating_sub(before.0)) * REST);
    }

    /// Goes on with each connection that is ready, and accepts at each door that is: `ready` as [`Server::wait`] returns it.
    fn serve(&mut self, ready: &[bool]) {
        let (doors, connections) = ready.split_at(self.doors.len());
        let now = Instant::now();
        let mut kept = VecDeque::new();
        for (mut open, &is_ready) in std::mem::take(&mut self.connections).into_iter().zip(connections) {
            let access = &self.doors[open.door].1;
            let goes_on = !is_ready || open.exchange(access, &mut self.daemon);
            if goes_on && open.until > now {
                kept.push_back(open);
            }
        }
        self.connections = kept;
        for (door, _) in doors.iter().enumerate().filter(|(_, is_ready)| **is_ready) {
            self.accept(door, now);
        }
    }

    /// Waits until something is ready. One flag for each door, then for each connection, in their order.
    fn wait(&self) -> Vec<bool> {
        let now = Instant::now();
        let earliest = self.connections.iter().map(|open| open.until).min();
        let timeout = earliest.map_or(PollTimeout::NONE, |until| {
            let ms = until.saturating_duration_since(now).as_millis() + 1;
            PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX)
        });
        let doors = self.doors.iter().map(|(door, _)| PollFd::new(door.as_fd(), PollFlags::POLLIN));
        let open = self.connections.iter().map(|open| {
            let wanted = if open.answer.is_some() { PollFlags::POLLOUT } else { PollFlags::POLLIN };
            PollFd::new(open.stream.as_fd(), wanted)
        });
        let mut set: Vec<PollFd<'_>> = doors.chain(open).collect();
        // Interrupted: nothing is ready, and the next turn polls again.
        let _ = poll(&mut set, timeout);
        set.iter().map(|fd| fd.any().unwrap_or(false)).collect()
    }

    fn accept(&mut self, door: usize, now: Instant) {
        match self.doors[door].0.accept() {
            Ok(stream) => {
                if self.connections.len() >= CONNECTIONS_MAX {
                    self.connections.pop_front();
                }
                let until = now + LIFE;
                self.connections.push_back(Connection {
                    stream,
                    door,
                    until,
                    request: Vec::new(),
                    answer: None,
                });
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            // The door stays ready; without a pause this would spin.
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

impl Connection {
    /// False when the connection is over.
    fn exchange(&mut self, access: &Access, daemon: &mut dyn SnapshotSource) -> bool {
        if self.answer.is_none() && !self.read(access, daemon) {
            return false;
        }
        self.write()
    }

    fn read(&mut self, access: &Access, daemon: &mut dyn SnapshotSource) -> bool {
        let mut buffer = [0; HEAD_BYTES_MAX];
        let room = HEAD_BYTES_MAX - self.request.len();
        match self.stream.read(&mut buffer[..room]) {
            Ok(0) => return false,
            Ok(bytes) => self.request.extend_from_slice(&buffer[..bytes]),
            Err(error) => return is_passing(&error),
        }
        let bytes = match parse(&self.request) {
            Ok(None) => return true,
            Ok(Some(request)) => answer(&request, access, daemon).bytes(request.is_head),
            Err(refusal @ Refusal(..)) => Answer::from(refusal).bytes(false),
        };
        self.answer = Some(bytes.into());
        true
    }

    fn write(&mut self) -> bool {
        let Some(answer) = &mut self.answer else { return true };
        while !answer.is_empty() {
            match self.stream.write(answer.as_slices().0) {
                Ok(0) => return false,
                Ok(written) => drop(answer.drain(..written)),
                Err(error) => return is_passing(&error),
            }
        }
        false
    }
}

fn is_passing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
