//! Around the core: one event in, its actions carried out, and a line for the journal.
//!
//! Trap: the order matters. The whole step is decided and written to the journal first, then the cells change: a
//! program must never see a grant that the journal does not know.

use crate::journal::Journal;
use crate::log::LogLimit;
use crate::slots::TaskSlots;
use eager_core::Scheduler;
use eager_core::action::Action;
use eager_core::event::Event;
use eager_core::journal::JournalLine;
use eager_core::units::{ClientId, Nanos, TaskId};
use eager_proto::RING_SLOTS;
use eager_proto::request::{Slot, decode};
use eager_shm::daemon::{ClientPages, Peer, receive};
use nix::errno::Errno;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

/// Senseless requests after which a client is not served any more.
const STRIKES_MAX: u32 = 100;
/// Doorbells taken from one client in one turn; more stay in the socket for the next.
const DOORBELLS_MAX: usize = 4 * RING_SLOTS;

/// A program that was welcomed.
#[derive(Debug)]
pub struct Client {
    pub label: String,
    pub peer: Peer,
    /// None once the program closed it and still lives.
    pub socket: Option<OwnedFd>,
    /// When a program that closed its connection is given up.
    pub gone_at: Option<Nanos>,
    pages: ClientPages,
    slots: TaskSlots,
    strikes: u32,
}

/// What serving a client came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Served {
    AllDone,
    /// It had more than one turn's share.
    MoreLeft,
    /// It closed the connection.
    Closed,
    /// It broke the protocol and was cut off.
    CutOff,
}

/// The core, the clients, and the record of what was decided.
#[derive(Debug)]
pub struct Dispatch {
    pub scheduler: Scheduler,
    pub clients: BTreeMap<ClientId, Client>,
    owners: BTreeMap<TaskId, (ClientId, Slot)>,
    journal: Journal,
    log: LogLimit,
    started: Instant,
    next_client: u64,
    next_task: u64,
}

impl Dispatch {
    pub fn new(scheduler: Scheduler, journal: Journal, started: Instant) -> Dispatch {
        Dispatch {
            scheduler,
            clients: BTreeMap::new(),
            owners: BTreeMap::new(),
            journal,
            log: LogLimit::default(),
            started,
            next_client: 1,
            next_task: 1,
        }
    }

    /// Monotonic time since the daemon started.
    pub fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Says something to the administrator, unless too much was said already.
    pub fn say(&mut self, line: String) {
        let now = self.now();
        for line in self.log.admit(now, line) {
            // Nobody is left to be told that standard error is closed.
            let _ = writeln!(std::io::stderr(), "eagerd: {line}");
        }
    }

    /// The id that the next client gets.
    pub fn next_client(&self) -> ClientId {
        ClientId(self.next_client)
    }

    /// Adds a client under [`Self::next_client`].
    pub fn welcome(&mut self, label: String, peer: Peer, socket: OwnedFd, pages: ClientPages) {
        let id = self.next_client();
        self.next_client += 1;
        let event = Event::ClientConnected { client: id, uid: peer.uid, label: label.clone() };
        let socket = Some(socket);
        let slots = TaskSlots::default();
        self.clients.insert(id, Client { label, peer, socket, gone_at: None, pages, slots, strikes: 0 });
        self.happen(event, None);
    }

    /// The client is gone: everything it held is free.
    pub fn bury(&mut self, id: ClientId) {
        let Some(client) = self.clients.remove(&id) else { return };
        for task in client.slots.tasks() {
            self.owners.remove(&task);
        }
        self.happen(Event::ClientGone { client: id }, None);
    }

    fn cut_off(&mut self, id: ClientId, why: &str) -> Served {
        if let Some(client) = self.clients.get(&id) {
            let Client { label, peer, .. } = client;
            self.say(format!("{id} ({label}, pid {}) {why}: it is not served any more", peer.pid));
        }
        self.bury(id);
        Served::CutOff
    }

    /// Takes in what a client rang for.
    pub fn serve(&mut self, id: ClientId) -> Served {
        let closed = match self.clients.get(&id).map(drain_doorbells) {
            None => return Served::AllDone,
            Some(Err(bytes)) => {
                return self.cut_off(id, &format!("sent a packet of {bytes} bytes, not a doorbell"));
            }
            Some(Ok(closed)) => closed,
        };
        for _ in 0..RING_SLOTS {
            match self.take_request(id) {
                Ok(true) => {}
                Ok(false) => return if closed { Served::Closed } else { Served::AllDone },
                Err(why) => return self.cut_off(id, &why),
            }
        }
        Served::MoreLeft
    }

    /// Takes one request from the client's ring; false when there is none.
    fn take_request(&mut self, id: ClientId) -> Result<bool, String> {
        let Some(client) = self.clients.get_mut(&id) else { return Ok(false) };
        let Some(record) = client.pages.pop().map_err(|hostile| format!("broke its ring: {hostile}"))? else {
            return Ok(false);
        };
        let request =
            decode(&record).map_err(|malformed| format!("sent a malformed request: {malformed}"))?;
        let fresh = TaskId(self.next_task);
        match client.slots.get_mut(request.slot).accept(id, &request, fresh) {
            Ok(Some(event)) => {
                if let Event::TaskBegin { .. } = event {
                    self.next_task += 1;
                    self.owners.insert(fresh, (id, request.slot));
                }
                if let Event::TaskEnd { task } = event {
                    self.owners.remove(&task);
                }
                self.happen(event, Some((id, request.slot)));
            }
            Ok(None) => self.publish(id, request.slot),
            Err(_) => {
                client.strikes += 1;
                if client.strikes > STRIKES_MAX {
                    return Err(format!("sent {STRIKES_MAX} requests that make no sense"));
                }
                self.publish(id, request.slot);
            }
        }
        Ok(true)
    }

    /// One event, and what the core makes of it. `asked` is the slot whose request it was.
    pub fn happen(&mut self, event: Event, asked: Option<(ClientId, Slot)>) {
        let mut events = VecDeque::from([event]);
        let mut asked = asked;
        while let Some(event) = events.pop_front() {
            let actions = self.decide(event);
            let mut changed: BTreeSet<(ClientId, Slot)> = asked.take().into_iter().collect();
            changed.extend(actions.iter().filter_map(|action| self.carry_out(action)));
            for (client, slot) in changed {
                self.publish(client, slot);
            }
            events.extend(actions.iter().filter_map(|action| self.answer_watch(action)));
        }
    }

    /// One step of the core, and its line in the journal.
    fn decide(&mut self, event: Event) -> Vec<Action> {
        let now = self.now();
        let mut actions = Vec::new();
        if !self.journal.is_on() {
            self.scheduler.step(now, event, &mut actions);
            return actions;
        }
        self.scheduler.step(now, event.clone(), &mut actions);
        let line = JournalLine { now, event, actions };
        if let Err(error) = self.journal.record(&line) {
            self.say(format!("the journal cannot be written ({error}): scheduling goes on without it"));
        }
        line.actions
    }

    /// Notes an action in its task's slot; gives the slot, whose cell is now out of date.
    fn carry_out(&mut self, action: &Action) -> Option<(ClientId, Slot)> {
        let task = match action {
            Action::Bind { task, .. }
            | Action::Refuse { task, .. }
            | Action::Wait { task, .. }
            | Action::Regrant { task, .. }
            | Action::SetGate { task, .. }
            | Action::Watch { task, .. } => *task,
        };
        let owner @ (client, slot) = *self.owners.get(&task)?;
        let state = self.clients.get_mut(&client)?.slots.get_mut(slot);
        match action {
            Action::Bind { .. } => state.bound(),
            Action::Refuse { reason, .. } => state.refuse(reason.clone()),
            _ => {}
        }
        if state.task != Some(task) {
            self.owners.remove(&task);
        }
        Some(owner)
    }

    /// Writes a slot's cell as things stand, and wakes whoever waits for it.
    fn publish(&mut self, id: ClientId, slot: Slot) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let state = client.slots.get_mut(slot);
        let view = state.task.and_then(|task| self.scheduler.task(task));
        let (cell, reason) = state.answer(view.as_ref(), self.scheduler.traits());
        client.pages.publish_cell(slot, &cell, &reason);
    }

    /// A task that is watched from now on tells its changes by itself; how it stands at this moment the daemon reads.
    fn answer_watch(&self, action: &Action) -> Option<Event> {
        let &Action::Watch { task, on: true } = action else { return None };
        let (client, slot) = *self.owners.get(&task)?;
        let (launched, retired) = self.clients.get(&client)?.pages.counters(slot);
        Some(if launched == retired { Event::Idle { task } } else { Event::Busy { task } })
    }
}

/// Empties a client's socket. `Ok(true)`: the client closed it; `Err`: a packet of so many bytes, which is no doorbell.
fn drain_doorbells(client: &Client) -> Result<bool, usize> {
    let Some(socket) = &client.socket else { return Ok(false) };
    let mut packet = [0; 8];
    for _ in 0..DOORBELLS_MAX {
        match receive(socket.as_fd(), &mut packet) {
            Ok(1) => {}
            Ok(0) => return Ok(true),
            Ok(bytes) => return Err(bytes),
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(false),
            // Reset by the peer: it is gone or going; its pidfd says which.
            Err(_) => return Ok(true),
        }
    }
    Ok(false)
}
