//! Connections that have not said hello yet.
//!
//! Trap: each costs two descriptors and may stay silent for ever, so each user has so many of them, counted from `accept` on;
//! one more puts out his oldest that says nothing. A refusal is sent only after the hello was read: closing a socket with an
//! unread packet throws the answer away.

use crate::clients::places::Places;
use crate::clients::quota::Users;
use crate::dispatch::Dispatch;
use crate::process::fault;
use crate::process::users::is_anybody;
use crate::process::users::is_own;
use eager_proto::hello::{Greeting, Hello, Opening, Refusal, Resume, Welcome};
use eager_shm::daemon::{ClientPages, PageDescriptors, Peer, accept, groups, peer, receive, send_welcome};
use eager_units::{ClientId, Nanos};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Time a connection has for its hello (specification S-713).
const HELLO_NS_MAX: Nanos = Nanos::from_secs(5);
/// Connections without a hello at once, where there are descriptors for so many; of one user half.
const NEWCOMERS_MAX: usize = 1024;
/// Connections taken in one turn: the next comes at once, and whoever asks meanwhile is not kept waiting.
const ACCEPTS_MAX: usize = 16;

#[derive(Debug)]
struct Newcomer {
    socket: OwnedFd,
    peer: Peer,
    since: Nanos,
    /// What it said first, and how long that really was.
    said: Option<([u8; 2 * size_of::<Hello>()], usize)>,
    /// It is welcomed when its user has earned it.
    waits_until: Option<Nanos>,
}

impl Newcomer {
    fn is_silent(&self) -> bool {
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        self.said.is_none() && poll(&mut fds, PollTimeout::ZERO) == Ok(0)
    }
}

/// All of them, by order of arrival.
#[derive(Debug)]
pub struct Newcomers {
    waiting: BTreeMap<u64, Newcomer>,
    places: Places,
    arrivals: u64,
    /// Given up for a moment to answer a connection for which there is no descriptor.
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

    /// Whose connection it is.
    pub fn uid(&self, id: u64) -> Option<u32> {
        self.waiting.get(&id).map(|newcomer| newcomer.peer.uid)
    }

    /// It said hello and is not welcomed before then.
    pub fn put_off(&mut self, id: u64, until: Nanos) {
        if let Some(newcomer) = self.waiting.get_mut(&id) {
            newcomer.waits_until = Some(until);
        }
    }

    /// Who may be welcomed by now.
    pub fn put_off_until(&mut self, now: Nanos) -> Vec<u64> {
        let due =
            self.waiting.iter_mut().filter(|(_, newcomer)| newcomer.waits_until.is_some_and(|at| at <= now));
        due.map(|(id, newcomer)| {
            newcomer.waits_until = None;
            *id
        })
        .collect()
    }

    /// When somebody has been silent for too long, or may be welcomed.
    pub fn next_deadline(&self) -> Option<Nanos> {
        let put_off = self.waiting.values().filter_map(|newcomer| newcomer.waits_until).min();
        let mut silent = self.waiting.values().filter(|newcomer| newcomer.said.is_none());
        let oldest = silent.next().map(|oldest| Nanos(oldest.since.0.saturating_add(HELLO_NS_MAX.0)));
        put_off.into_iter().chain(oldest).min()
    }

    /// Takes in waiting connections and gives their ids to `enter`, and to `users` whose each was. `Err` when the process or the
    /// system has no descriptor left: then one of them was told so.
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
                // None waits, or the one that waited is gone again.
                Err(_) => return Ok(()),
            };
            fault::point("accepted");
            let peer = peer(socket.as_fd());
            users.extend(peer.as_ref().ok().map(|peer| peer.uid));
            match peer {
                // One too many, and no older one of its user's is silent: they all wait to be welcomed.
                Ok(peer) if !self.makes_room_for(peer.uid) => refuse_at_once(&socket, Refusal::Resources),
                Ok(peer) => {
                    enter(self.arrivals, socket.as_fd())?;
                    let newcomer = Newcomer { socket, peer, since: now, said: None, waits_until: None };
                    self.places.take(newcomer.peer.uid);
                    self.waiting.insert(self.arrivals, newcomer);
                    self.arrivals += 1;
                }
                Err(errno) if is_shortage(errno) => return Err(errno),
                // It ended before it could be named.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Puts out the oldest silent one of whoever has to make room, if any has to.
    fn makes_room_for(&mut self, uid: u32) -> bool {
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

    /// Takes its first packet; whoever only looked whether a daemon is here is dropped. False: it has gone.
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

    /// Answers one connection with the descriptor kept for that, so that its program does not wait for its deadline.
    fn turn_away(&mut self, listener: BorrowedFd<'_>, errno: Errno) -> Errno {
        self.reserve = None;
        if let Ok(socket) = accept(listener) {
            refuse_at_once(&socket, Refusal::Resources);
        }
        self.reserve = spare();
        errno
    }

    /// Drops who did not say hello in time.
    pub fn expire(&mut self, now: Nanos) {
        let is_late = |newcomer: &Newcomer| now.saturating_sub(newcomer.since) >= HELLO_NS_MAX;
        let late = self.waiting.iter().filter(|(_, newcomer)| newcomer.said.is_none() && is_late(newcomer));
        let late: Vec<u64> = late.map(|(id, _)| *id).collect();
        late.into_iter().for_each(|id| drop(self.remove(id)));
    }

    /// Welcomes or refuses a newcomer that said something. Gives the client that is to be served now.
    pub fn greet(&mut self, id: u64, clients_max: usize, dispatch: &mut Dispatch) -> Option<ClientId> {
        let Newcomer { socket, peer, said, .. } = self.remove(id)?;
        let (packet, bytes) = said?;
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
                let client = dispatch.welcome(&hello, peer, socket, pages);
                fault::point("entered");
                let (wanted, grant_max) = dispatch.client_habits(&hello);
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
    // Of what is left each user may have three times as much: one gets three quarters, and however many take all they can,
    // there is room for somebody else.
    let has = dispatch.clients.values().filter(|client| client.peer.uid == peer.uid).count();
    if !is_own(peer.uid) && has > 0 && has >= 3 * (clients_max - dispatch.clients.len()) {
        return Err(Refusal::UserQuota { uid: peer.uid, limit: has });
    }
    let made = ClientPages::create().map_err(|error| {
        dispatch.say(format!("no pages for pid {}: {error}", peer.pid));
        Refusal::Resources
    })?;
    let (uid, now) = (peer.uid, dispatch.now());
    dispatch.quotas.admit(uid, now).map_err(|limit| Refusal::UserQuota { uid, limit })?;
    Ok(made)
}

/// Is whoever connected served at all? Whose groups are not known is not, where they matter, nor is who may be anybody.
pub fn is_served(served: &Users, uid: u32, socket: BorrowedFd<'_>) -> bool {
    if is_anybody(uid) {
        return false;
    }
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

pub fn is_shortage(errno: Errno) -> bool {
    matches!(errno, Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::ENOBUFS)
}

/// A descriptor that can be given up.
fn spare() -> Option<OwnedFd> {
    std::fs::File::open("/dev/null").ok().map(OwnedFd::from)
}

/// A hello that is there is taken, for an unread one throws the answer away; one that is not is not waited for.
fn refuse_at_once(socket: &OwnedFd, refusal: Refusal) {
    let _ = receive(socket.as_fd(), &mut [0; 2 * size_of::<Hello>()]);
    let _ = send_welcome(socket.as_fd(), &Welcome::refused(&refusal).into(), None);
}

fn refuse(socket: &OwnedFd, peer: &Peer, refusal: Refusal, dispatch: &mut Dispatch) {
    dispatch.say_of(Some(peer.uid), format!("refused pid {}: {refusal}", peer.pid));
    // It may be gone already.
    let _ = send_welcome(socket.as_fd(), &Welcome::refused(&refusal).into(), None);
}
