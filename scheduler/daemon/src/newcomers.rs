//! Connections that have not said hello yet.
//!
//! Trap: each costs two descriptors and may stay silent for ever, so there is a limit on their number and on their
//! time. A refusal is sent only after the hello was read: closing a socket with an unread packet throws the answer away.

use crate::dispatch::Dispatch;
use crate::fault;
use crate::quota::Users;
use eager_core::units::{ClientId, Nanos};
use eager_proto::hello::{Greeting, Hello, Opening, Refusal, Resume, Welcome};
use eager_shm::daemon::{ClientPages, PageDescriptors, Peer, accept, groups, peer, receive, send_welcome};
use nix::errno::Errno;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Time a connection has for its hello (specification S-713).
const HELLO_NS_MAX: Nanos = Nanos::from_secs(5);
/// Connections without a hello at once; more wait in the listener's queue.
const NEWCOMERS_MAX: usize = 64;
/// When there are as many as there may be, one that has been silent for so long makes room for the next. A hello comes within
/// microseconds of the connection, also from a busy machine within milliseconds.
const PATIENCE_NS: Nanos = Nanos(100_000_000);

#[derive(Debug)]
struct Newcomer {
    socket: OwnedFd,
    peer: Peer,
    since: Nanos,
}

/// All of them, by order of arrival.
#[derive(Debug)]
pub struct Newcomers {
    waiting: BTreeMap<u64, Newcomer>,
    arrivals: u64,
    /// Connections without a hello at once.
    limit: usize,
    /// Given up for a moment to answer a connection for which there is no descriptor.
    reserve: Option<OwnedFd>,
}

impl Newcomers {
    /// `descriptors`: how many the process may have; a small part of them is for newcomers.
    pub fn new(descriptors: u64) -> Newcomers {
        let limit = usize::try_from(descriptors / 16).unwrap_or(NEWCOMERS_MAX).clamp(1, NEWCOMERS_MAX);
        Newcomers { waiting: BTreeMap::new(), arrivals: 0, limit, reserve: spare() }
    }

    /// There is no room for one more, and nobody has been silent for long enough to make some.
    pub fn is_full(&self, now: Nanos) -> bool {
        self.waiting.len() >= self.limit && self.makes_room_at().is_none_or(|at| at > now)
    }

    /// When the oldest has been silent for too long while others wait.
    fn makes_room_at(&self) -> Option<Nanos> {
        let (_, oldest) = self.waiting.first_key_value()?;
        Some(Nanos(oldest.since.0.saturating_add(PATIENCE_NS.0)))
    }

    pub fn socket(&self, id: u64) -> Option<BorrowedFd<'_>> {
        self.waiting.get(&id).map(|newcomer| newcomer.socket.as_fd())
    }

    /// When somebody has been silent for too long, or the listener may be looked at again.
    pub fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        let (_, oldest) = self.waiting.first_key_value()?;
        let patience = if self.is_full(now) { PATIENCE_NS } else { HELLO_NS_MAX };
        Some(Nanos(oldest.since.0.saturating_add(patience.0)))
    }

    /// Takes in waiting connections and gives their ids. `Err` when the process or the system has no descriptor left: then
    /// one of them was told so.
    pub fn accept_all(
        &mut self,
        listener: BorrowedFd<'_>,
        now: Nanos,
        enter: &mut dyn FnMut(u64, BorrowedFd<'_>) -> nix::Result<()>,
    ) -> Result<(), Errno> {
        while !self.is_full(now) {
            let socket = match accept(listener) {
                Ok(socket) => socket,
                Err(errno) if is_shortage(errno) => return Err(self.turn_away(listener, errno)),
                // None waits, or the one that waited is gone again.
                Err(_) => return Ok(()),
            };
            fault::point("accepted");
            match peer(socket.as_fd()) {
                Ok(peer) => {
                    enter(self.arrivals, socket.as_fd())?;
                    if self.waiting.len() >= self.limit {
                        self.waiting.pop_first();
                    }
                    self.waiting.insert(self.arrivals, Newcomer { socket, peer, since: now });
                    self.arrivals += 1;
                }
                Err(errno) if is_shortage(errno) => return Err(errno),
                // It ended before it could be named.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Answers one connection with the descriptor kept for that, so that its program does not wait for its deadline.
    fn turn_away(&mut self, listener: BorrowedFd<'_>, errno: Errno) -> Errno {
        self.reserve = None;
        if let Ok(socket) = accept(listener) {
            // A hello that is there is taken, for an unread one throws the answer away; one that is not is not waited for.
            let _ = receive(socket.as_fd(), &mut [0; 2 * size_of::<Hello>()]);
            let _ = send_welcome(socket.as_fd(), &Welcome::refused(&Refusal::Resources).into(), None);
        }
        self.reserve = spare();
        errno
    }

    /// Drops who did not say hello in time.
    pub fn expire(&mut self, now: Nanos) {
        self.waiting.retain(|_, newcomer| now.saturating_sub(newcomer.since) < HELLO_NS_MAX);
    }

    /// Reads a newcomer's first packet and welcomes or refuses it. Gives the client that is to be served now.
    pub fn greet(&mut self, id: u64, clients_max: usize, dispatch: &mut Dispatch) -> Option<ClientId> {
        let Newcomer { socket, peer, .. } = self.waiting.remove(&id)?;
        let mut packet = [0; 2 * size_of::<Hello>()];
        let bytes = match receive(socket.as_fd(), &mut packet) {
            // Only looked whether a daemon is here.
            Ok(0) | Err(_) => return None,
            Ok(bytes) => bytes,
        };
        fault::point("greeted");
        let opening = packet.get(..bytes).ok_or(Refusal::Length { bytes }).and_then(Opening::decode);
        let greeted = opening.and_then(|opening| match opening.resume {
            Some(resume) => take_back(opening.hello, resume, &peer, &socket, dispatch).map(Greeted::Again),
            None => make_pages(clients_max, &peer, &socket, dispatch)
                .map(|pages| Greeted::New(opening.hello, pages)),
        });
        match greeted {
            Ok(Greeted::New(hello, (pages, descriptors))) => {
                // Noted before it is told: whoever knows its number is known to the next daemon.
                let client = dispatch.welcome(hello.label(), peer, socket, pages);
                fault::point("entered");
                let (wanted, grant_max) = dispatch.client_habits();
                let welcome = Welcome::accepted(client.0).granting(hello.features);
                let welcome = welcome.to_do(&hello, wanted, grant_max);
                let greeting = Greeting::new(welcome, &hello, &dispatch.device_uuids);
                let socket = dispatch.clients.get(&client)?.socket.as_ref()?;
                if send_welcome(socket.as_fd(), &greeting, Some(&descriptors)).is_err() {
                    dispatch.bury(client);
                    return None;
                }
                fault::point("welcomed");
                Some(client)
            }
            Ok(Greeted::Again(None)) => None,
            Ok(Greeted::Again(Some((client, pages)))) => {
                dispatch.resumed(client, socket, pages);
                Some(client)
            }
            Err(refusal) => {
                refuse(&socket, &peer, refusal, dispatch);
                None
            }
        }
    }
}

/// Who came.
enum Greeted {
    New(Hello, (ClientPages, PageDescriptors)),
    /// One that was here before; `None`: and is gone again.
    Again(Option<(ClientId, ClientPages)>),
}

/// Room for one more client of this user.
fn make_pages(
    clients_max: usize,
    peer: &Peer,
    socket: &OwnedFd,
    dispatch: &mut Dispatch,
) -> Result<(ClientPages, PageDescriptors), Refusal> {
    if !is_served(dispatch.quotas.served(), peer.uid, socket.as_fd()) {
        return Err(Refusal::Denied { uid: peer.uid });
    }
    if dispatch.clients.len() >= clients_max {
        return Err(Refusal::Quota { limit: clients_max });
    }
    let made = ClientPages::create().map_err(|error| {
        dispatch.say(format!("no pages for pid {}: {error}", peer.pid));
        Refusal::Resources
    })?;
    let (uid, now) = (peer.uid, dispatch.now());
    dispatch.quotas.admit(uid, now).map_err(|limit| Refusal::UserQuota { uid, limit })?;
    Ok(made)
}

/// Is whoever connected served at all? Whose groups are not known is not, where they matter.
pub fn is_served(served: &Users, uid: u32, socket: BorrowedFd<'_>) -> bool {
    if !served.looks_at_groups() {
        return served.admits(uid, &[]);
    }
    groups(socket).is_ok_and(|gids| served.admits(uid, &gids))
}

/// Welcomes a client of an earlier daemon, or one that lost its connection, with its cells as they stand.
fn take_back(
    hello: Hello,
    resume: Resume,
    peer: &Peer,
    socket: &OwnedFd,
    dispatch: &mut Dispatch,
) -> Result<Option<(ClientId, ClientPages)>, Refusal> {
    let client = dispatch.find_resuming(&resume, peer)?;
    let (pages, descriptors) =
        ClientPages::create_above(resume.sequence_floor).map_err(|_| Refusal::Resources)?;
    let pages = dispatch.prepare_pages(client, pages);
    fault::point("prepared");
    let welcome = Welcome::accepted(client.0).granting(hello.features);
    let greeting = Greeting::new(welcome, &hello, &dispatch.device_uuids);
    let sent = send_welcome(socket.as_fd(), &greeting, Some(&descriptors)).is_ok();
    Ok(pages.filter(|_| sent).map(|pages| (client, pages)))
}

fn is_shortage(errno: Errno) -> bool {
    matches!(errno, Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::ENOBUFS)
}

/// A descriptor that can be given up.
fn spare() -> Option<OwnedFd> {
    std::fs::File::open("/dev/null").ok().map(OwnedFd::from)
}

fn refuse(socket: &OwnedFd, peer: &Peer, refusal: Refusal, dispatch: &mut Dispatch) {
    dispatch.say_of(Some(peer.uid), format!("refused pid {}: {refusal}", peer.pid));
    // It may be gone already.
    let _ = send_welcome(socket.as_fd(), &Welcome::refused(&refusal).into(), None);
}
