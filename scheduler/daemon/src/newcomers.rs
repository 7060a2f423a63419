//! Connections that have not said hello yet.
//!
//! Trap: each costs two descriptors and may stay silent for ever, so there is a limit on their number and on their
//! time. A refusal is sent only after the hello was read: closing a socket with an unread packet throws the answer away.

use crate::dispatch::Dispatch;
use eager_core::units::Nanos;
use eager_proto::hello::{Hello, Refusal, Welcome};
use eager_shm::daemon::{ClientPages, Peer, accept, peer, receive, send_welcome};
use nix::errno::Errno;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Time a connection has for its hello.
const HELLO_NS_MAX: Nanos = Nanos::from_secs(5);
/// Connections without a hello at once; more wait in the listener's queue.
const NEWCOMERS_MAX: usize = 64;

#[derive(Debug)]
struct Newcomer {
    socket: OwnedFd,
    peer: Peer,
    deadline: Nanos,
}

/// All of them, by order of arrival.
#[derive(Debug, Default)]
pub struct Newcomers {
    waiting: BTreeMap<u64, Newcomer>,
    arrivals: u64,
}

impl Newcomers {
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= NEWCOMERS_MAX
    }

    pub fn sockets(&self) -> impl Iterator<Item = (u64, BorrowedFd<'_>)> {
        self.waiting.iter().map(|(id, newcomer)| (*id, newcomer.socket.as_fd()))
    }

    pub fn next_deadline(&self) -> Option<Nanos> {
        self.waiting.values().map(|newcomer| newcomer.deadline).min()
    }

    /// Takes in waiting connections. `Err` when the process or the system has no descriptor left.
    pub fn accept_all(&mut self, listener: BorrowedFd<'_>, now: Nanos) -> Result<(), Errno> {
        while !self.is_full() {
            let socket = match accept(listener) {
                Ok(socket) => socket,
                Err(errno @ (Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::ENOBUFS)) => {
                    return Err(errno);
                }
                // None waits, or the one that waited is gone again.
                Err(_) => return Ok(()),
            };
            match peer(socket.as_fd()) {
                Ok(peer) => {
                    let deadline = Nanos(now.0.saturating_add(HELLO_NS_MAX.0));
                    self.waiting.insert(self.arrivals, Newcomer { socket, peer, deadline });
                    self.arrivals += 1;
                }
                Err(errno @ (Errno::EMFILE | Errno::ENFILE)) => return Err(errno),
                // It ended before it could be named.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Drops who did not say hello in time.
    pub fn expire(&mut self, now: Nanos) {
        self.waiting.retain(|_, newcomer| newcomer.deadline > now);
    }

    /// Reads a newcomer's first packet and welcomes or refuses it.
    pub fn greet(&mut self, id: u64, clients_max: usize, dispatch: &mut Dispatch) {
        let Some(Newcomer { socket, peer, .. }) = self.waiting.remove(&id) else { return };
        let mut packet = [0; 2 * size_of::<Hello>()];
        let bytes = match receive(socket.as_fd(), &mut packet) {
            // Only looked whether a daemon is here.
            Ok(0) | Err(_) => return,
            Ok(bytes) => bytes,
        };
        let hello = match packet.get(..bytes).ok_or(Refusal::Length { bytes }).and_then(Hello::decode) {
            Ok(hello) => hello,
            Err(refusal) => return refuse(&socket, &peer, refusal, dispatch),
        };
        if dispatch.clients.len() >= clients_max {
            return refuse(&socket, &peer, Refusal::Quota { limit: clients_max }, dispatch);
        }
        let (pages, descriptors) = match ClientPages::create() {
            Ok(made) => made,
            Err(error) => {
                dispatch.say(format!("no pages for pid {}: {error}", peer.pid));
                return refuse(&socket, &peer, Refusal::Resources, dispatch);
            }
        };
        let welcome = Welcome::accepted(dispatch.next_client().0);
        // A client that is gone already needs no welcome.
        if send_welcome(socket.as_fd(), &welcome, Some(&descriptors)).is_ok() {
            dispatch.welcome(hello.label(), peer, socket, pages);
        }
    }
}

fn refuse(socket: &OwnedFd, peer: &Peer, refusal: Refusal, dispatch: &mut Dispatch) {
    dispatch.say(format!("refused pid {}: {refusal}", peer.pid));
    // It may be gone already.
    let _ = send_welcome(socket.as_fd(), &Welcome::refused(&refusal), None);
}
