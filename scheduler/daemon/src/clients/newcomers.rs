//! Connections without a hello yet.
//!
//! Trap: each costs two descriptors and may stay silent for ever, so each user's connections are limited, counted from
//! `accept` on; one more evicts that user's oldest silent one. A refusal is sent only after the hello was read: closing
//! a socket with an unread packet throws the answer away.

use crate::clients::places::Places;
use crate::clients::quota::Users;
use crate::dispatch::Dispatch;
use crate::process::fault;
use crate::process::users::is_own;
use crate::process::users::is_unmapped;
use eager_proto::hello::{Greeting, Hello, Opening, Refusal, Resume, Welcome};
use eager_shm::daemon::{ClientPages, PageDescriptors, Peer, accept, groups, peer, receive, send_welcome};
use eager_units::{ClientId, Nanos};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Time a connection has for its hello (specification S-713).
const HELLO_NS_MAX: Nanos = Nanos::from_secs(5);
/// Connections without a hello at once, if there are descriptors for so many; half of them for one user.
const NEWCOMERS_MAX: usize = 1024;
/// Connections accepted in one turn. The next turn follows at once, and clients with requests are served in between.
const ACCEPTS_MAX: usize = 16;

#[derive(Debug)]
struct Newcomer {
    socket: OwnedFd,
    peer: Peer,
    since: Nanos,
    /// The first packet, and its real length.
    said: Option<([u8; 2 * size_of::<Hello>()], usize)>,
    /// When the connection may be welcomed, if its user has used up the allowance.
    waits_until: Option<Nanos>,
}

impl Newcomer {
    fn is_silent(&self) -> bool {
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        self.said.is_none() && poll(&mut fds, PollTimeout::ZERO) == Ok(0)
    }
}

/// All such connections, in order of arrival.
#[derive(Debug)]
pub struct Newcomers {
    waiting: BTreeMap<u64, Newcomer>,
    places: Places,
    arrivals: u64,
    /// Descriptor that is given up for a moment to answer a connection for which there is no other.
    reserve: Option<OwnedFd>,
}

impl Newcomers {
    /// `descriptors`: how many the process may have; a small part of them is for newcomers.
    pub fn new(descriptors: u64) -> Newcomers {
        let limit = usize::try_from(descriptors / 16).unwrap_or(NEWCOMERS_MAX).clamp(2, NEWCOMERS_MAX);
        Newcomers { waiting: BTreeMap::new(), places: Places::new(limit), arrivals: 0, reserve: spare() }
    }

    pub fn socket(&self, id: u64) -> Option<BorrowedFd<'_>> {
        self.waiting.get(&id).map(|newcomer| newcomer.socket.as_fd())
    }

    /// The user of a connection.
    pub fn uid(&self, id: u64) -> Option<u32> {
        self.waiting.get(&id).map(|newcomer| newcomer.peer.uid)
    }

    /// Puts off the welcome of a connection that has sent its hello.
    pub fn put_off(&mut self, id: u64, until: Nanos) {
        if let Some(newcomer) = self.waiting.get_mut(&id) {
            newcomer.waits_until = Some(until);
        }
    }

    /// Takes the connections that were put off until now or earlier.
    pub fn put_off_until(&mut self, now: Nanos) -> Vec<u64> {
        let due =
            self.waiting.iter_mut().filter(|(_, newcomer)| newcomer.waits_until.is_some_and(|at| at <= now));
        due.map(|(id, newcomer)| {
            newcomer.waits_until = None;
            *id
        })
        .collect()
    }

    /// When the next connection has been silent for too long, or may be welcomed.
    pub fn next_deadline(&self) -> Option<Nanos> {
        let put_off = self.waiting.values().filter_map(|newcomer| newcomer.waits_until).min();
        let mut silent = self.waiting.values().filter(|newcomer| newcomer.said.is_none());
        let oldest = silent.next().map(|oldest| Nanos(oldest.since.0.saturating_add(HELLO_NS_MAX.0)));
        put_off.into_iter().chain(oldest).min()
    }

    /// Accepts waiting connections, and passes each id to `enter` and each uid to `users`. `Err` if the process or the
    /// system has no descriptor left: then one of the connections was refused with that reason.
    pub fn accept_all(
        &mut self,
        listener: BorrowedFd<'_>,
        now: Nanos,
        enter: &mut dyn FnMut(u64, BorrowedFd<'_>) -> nix::Result<()>,
        users: &mut Vec<u32>,
    ) -> Result<(), Errno> {
        for _ in 0..ACCEPTS_MAX {
            let socket = match accept(listener) {
                Ok(socket) => socket,
                Err(errno) if is_shortage(errno) => return Err(self.turn_away(listener, errno)),
                // None waits, or the connection that waited is gone again.
                Err(_) => return Ok(()),
            };
            fault::point("accepted");
            let peer = peer(socket.as_fd());
            users.extend(peer.as_ref().ok().map(|peer| peer.uid));
            match peer {
                // The user has one connection too many, and none of the older ones is silent: all wait to be welcomed.
                Ok(peer) if !self.make_room_for(peer.uid) => refuse_at_once(&socket, Refusal::Resources),
                Ok(peer) => {
                    enter(self.arrivals, socket.as_fd())?;
                    let newcomer = Newcomer { socket, peer, since: now, said: None, waits_until: None };
                    self.places.take(newcomer.peer.uid);
                    self.waiting.insert(self.arrivals, newcomer);
                    self.arrivals += 1;
                }
                Err(errno) if is_shortage(errno) => return Err(errno),
                // The client ended before its credentials could be read.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Evicts the oldest silent connection of the user who has to make room. True if there is a place now.
    fn make_room_for(&mut self, uid: u32) -> bool {
        let Some(from) = self.places.wanted_from(uid) else { return true };
        let mut theirs = self.waiting.iter().filter(|(_, newcomer)| newcomer.peer.uid == from);
        let silent = theirs.find(|(_, newcomer)| newcomer.is_silent()).map(|(id, _)| *id);
        silent.and_then(|id| self.remove(id)).is_some()
    }

    fn remove(&mut self, id: u64) -> Option<Newcomer> {
        let newcomer = self.waiting.remove(&id)?;
        self.places.give_back(newcomer.peer.uid);
        Some(newcomer)
    }

    /// Reads a connection's first packet. False if the connection has closed, as after a mere test for a daemon; it is
    /// dropped.
    pub fn listen_to(&mut self, id: u64) -> bool {
        let Some(newcomer) = self.waiting.get_mut(&id) else { return false };
        if newcomer.said.is_some() {
            return true;
        }
        let mut packet = [0; 2 * size_of::<Hello>()];
        match receive(newcomer.socket.as_fd(), &mut packet) {
            Ok(0) | Err(_) => {
                self.remove(id);
                false
            }
            Ok(bytes) => {
                newcomer.said = Some((packet, bytes));
                true
            }
        }
    }

    /// Answers one connection with the reserve descriptor, so that its program does not wait for its deadline.
    fn turn_away(&mut self, listener: BorrowedFd<'_>, errno: Errno) -> Errno {
        self.reserve = None;
        if let Ok(socket) = accept(listener) {
            refuse_at_once(&socket, Refusal::Resources);
        }
        self.reserve = spare();
        errno
    }

    /// Drops connections that did not send a hello in time.
    pub fn expire(&mut self, now: Nanos) {
        let is_late = |newcomer: &Newcomer| now.saturating_sub(newcomer.since) >= HELLO_NS_MAX;
        let late = self.waiting.iter().filter(|(_, newcomer)| newcomer.said.is_none() && is_late(newcomer));
        let late: Vec<u64> = late.map(|(id, _)| *id).collect();
        late.into_iter().for_each(|id| drop(self.remove(id)));
    }

    /// Welcomes or refuses a connection that has sent its first packet. Returns the client to serve now.
    pub fn greet(&mut self, id: u64, clients_max: usize, dispatch: &mut Dispatch) -> Option<ClientId> {
        let Newcomer { socket, peer, said, .. } = self.remove(id)?;
        let (packet, bytes) = said?;
        fault::point("greeted");
        let opening = packet.get(..bytes).ok_or(Refusal::Length { bytes }).and_then(Opening::decode);
        let greeted = opening.and_then(|opening| match opening.resume {
            Some(resume) => take_back(opening.hello, resume, &peer, &socket, dispatch).map(|back| {
                back.map_or(Greeted::Gone, |(client, pages)| Greeted::Again(opening.hello, client, pages))
            }),
            None => make_pages(clients_max, &peer, &socket, dispatch)
                .map(|pages| Greeted::New(opening.hello, pages)),
        });
        match greeted {
            Ok(Greeted::New(hello, (pages, descriptors))) => {
                // Noted before the client learns its number: the next daemon knows every client that has a number.
                let client = dispatch.welcome(&hello, peer, socket, pages);
                fault::point("entered");
                let (wanted, grant_max) = dispatch.client_habits(&hello);
                let welcome = Welcome::accepted(client.0).granting(hello.features);
                let welcome = welcome.with_habits(&hello, wanted, grant_max);
                let greeting = Greeting::new(welcome, &hello, &dispatch.device_uuids);
                let socket = dispatch.clients.get(&client)?.socket.as_ref()?;
                if send_welcome(socket.as_fd(), &greeting, Some(&descriptors)).is_err() {
                    dispatch.remove_client(client);
                    return None;
                }
                fault::point("welcomed");
                Some(client)
            }
            Ok(Greeted::Gone) => None,
            Ok(Greeted::Again(hello, client, pages)) => {
                dispatch.resumed(client, &hello, socket, pages);
                Some(client)
            }
            Err(refusal) => {
                refuse(&socket, &peer, refusal, dispatch);
                None
            }
        }
    }
}

/// Result of a hello.
enum Greeted {
    New(Hello, (ClientPages, PageDescriptors)),
    /// A client that was here before.
    Again(Hello, ClientId, ClientPages),
    /// A client that was here before, and is gone again.
    Gone,
}

/// Makes the pages of one more client of this user, or returns why there is no room.
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
    // Each user may have three times as much as is left: a single user gets three quarters, and however many users take
    // all they can, there is room for another.
    let has = dispatch.clients.values().filter(|client| client.peer.uid == peer.uid).count();
    if !is_own(peer.uid) && has > 0 && has >= 3 * (clients_max - dispatch.clients.len()) {
        return Err(Refusal::UserQuota { uid: peer.uid, limit: has });
    }
    let made = ClientPages::create().map_err(|error| {
        dispatch.log(format!("cannot create shared memory for pid {}: {error}", peer.pid));
        Refusal::Resources
    })?;
    let (uid, now) = (peer.uid, dispatch.now());
    dispatch.quotas.admit(uid, now).map_err(|limit| Refusal::UserQuota { uid, limit })?;
    Ok(made)
}

/// True if the user is served at all. An unmapped uid is not, nor is a client with unknown groups where groups matter.
pub fn is_served(served: &Users, uid: u32, socket: BorrowedFd<'_>) -> bool {
    if is_unmapped(uid) {
        return false;
    }
    if !served.needs_groups() {
        return served.admits(uid, &[]);
    }
    groups(socket).is_ok_and(|gids| served.admits(uid, &gids))
}

/// Welcomes a client of an earlier daemon, or a client that lost its connection, with cells that show its current
/// state.
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

pub fn is_shortage(errno: Errno) -> bool {
    matches!(errno, Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::ENOBUFS)
}

/// Opens a descriptor that can be given up.
fn spare() -> Option<OwnedFd> {
    std::fs::File::open("/dev/null").ok().map(OwnedFd::from)
}

/// Reads a hello that has arrived, since an unread packet would throw the answer away, but does not wait for one.
fn refuse_at_once(socket: &OwnedFd, refusal: Refusal) {
    let _ = receive(socket.as_fd(), &mut [0; 2 * size_of::<Hello>()]);
    let _ = send_welcome(socket.as_fd(), &Welcome::refused(&refusal).into(), None);
}

fn refuse(socket: &OwnedFd, peer: &Peer, refusal: Refusal, dispatch: &mut Dispatch) {
    dispatch.log_of_user(Some(peer.uid), format!("refused pid {}: {refusal}", peer.pid));
    // The client may be gone already.
    let _ = send_welcome(socket.as_fd(), &Welcome::refused(&refusal).into(), None);
}
