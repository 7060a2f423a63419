//! Drives the core: feeds it one event at a time, carries out its actions, and writes the journal.
//!
//! Trap: the order matters. The whole step is decided and written to the journal before any cell changes: a program
//! must never see a grant that the journal does not have.

pub mod after;
pub mod drains;
mod family;
pub mod records;
pub mod reniced;
pub mod restore;
pub mod steer;
pub mod stopped;
pub mod truth;

use crate::clients::identity;
use crate::clients::quota::Quotas;
use crate::clients::slots::{TaskSlot, TaskSlots};
use crate::dispatch::after::Waiters;
use crate::dispatch::truth::Truth;
use crate::persistence::ended_file::EndedFile;
use crate::persistence::state_file::{Kept, KeptClient, StateFile};
use crate::policy::guarded_core::{GuardedCore, JournalChange, Panicked};
use crate::process::date;
use crate::process::detach;
use crate::process::fault;
use crate::process::log::{LogLimit, RefusalLimit};
use crate::process::service_manager::ServiceManager;
use eager_core::action::Action;
use eager_core::event::{Event, TaskRequest};
use eager_proto::RING_SLOTS;
use eager_proto::hello::{self, Hello, Uuid};
use eager_proto::request::{Malformed, Request, RequestBody, Slot, decode};
use eager_shm::daemon::{ClientPages, CorruptRing, Peer, receive};
use eager_units::{ClientId, Nanos, TaskId};
use nix::errno::Errno;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

/// Requests without sense after which a client is not served any more (specification S-707).
const STRIKES_MAX: u32 = 100;
/// Doorbells taken from one client in one turn; more stay in the socket for the next.
const DOORBELLS_MAX: usize = 4 * RING_SLOTS;

/// How a client broke the protocol, after which it is not served any more.
#[derive(Debug, thiserror::Error)]
enum Breach {
    #[error("sent a packet of {bytes} bytes, not a doorbell")]
    Packet { bytes: usize },
    #[error("broke its ring: {0}")]
    Ring(#[from] CorruptRing),
    #[error("sent a malformed request: {0}")]
    Request(#[from] Malformed),
    #[error("sent {STRIKES_MAX} invalid requests")]
    Strikes,
}

/// A program that was welcomed.
#[derive(Debug)]
pub struct Client {
    pub label: String,
    pub peer: Peer,
    /// None after the program closed it (while its process lives), and before the program has come back to a new
    /// daemon.
    pub socket: Option<OwnedFd>,
    /// True if its tasks stay until the process ends, also when it has closed the connection.
    pub is_held_by_process: bool,
    /// When a program that closed its connection is given up.
    pub gone_at: Option<Nanos>,
    /// None before the program has come back to a new daemon.
    pub pages: Option<ClientPages>,
    pub slots: TaskSlots,
    /// Priority of the tasks that it begins.
    pub priority: i8,
    strikes: u32,
}

/// Result of serving a client.
#[derive(Debug, PartialEq, Eq)]
pub enum Served {
    AllDone,
    /// The client has more requests than it may have served now.
    MoreLeft,
    /// The client closed the connection.
    Closed,
    /// The client broke the protocol and was cut off.
    CutOff,
}

/// The core, the clients, and the record of decisions.
#[derive(Debug)]
pub struct Dispatch {
    pub core: GuardedCore,
    pub clients: BTreeMap<ClientId, Client>,
    pub quotas: Quotas,
    pub state: StateFile,
    ended_file: EndedFile,
    pub truth: Truth,
    pub manager: ServiceManager,
    pub waiters: Waiters,
    /// Uuids by device number; empty where programs see the devices under the same numbers.
    pub device_uuids: Vec<Uuid>,
    owners: BTreeMap<TaskId, (ClientId, Slot)>,
    log_limit: LogLimit,
    refusals: RefusalLimit,
    /// The client being served, and its slots that were answered: a client that sends many requests is woken once for
    /// all.
    served: Option<(ClientId, BTreeSet<Slot>)>,
    next_client: u64,
    next_task: u64,
}

impl Dispatch {
    pub fn new(
        core: GuardedCore,
        quotas: Quotas,
        state: StateFile,
        manager: ServiceManager,
        ended_file: EndedFile,
    ) -> Dispatch {
        let Kept { next_client, next_task, .. } = *state.kept();
        Dispatch {
            core,
            clients: BTreeMap::new(),
            quotas,
            ended_file,
            truth: Truth::default(),
            manager,
            waiters: Waiters::default(),
            device_uuids: Vec::new(),
            owners: BTreeMap::new(),
            log_limit: LogLimit::default(),
            refusals: RefusalLimit::default(),
            served: None,
            next_client,
            next_task,
            state,
        }
    }

    /// Monotonic time since the daemon started.
    pub fn now(&self) -> Nanos {
        self.core.now()
    }

    /// The client that owns a task, and the task's slot.
    pub fn owner(&self, task: TaskId) -> Option<(ClientId, Slot)> {
        self.owners.get(&task).copied()
    }

    /// Number of the task that begins next.
    pub fn next_task(&self) -> u64 {
        self.next_task
    }

    /// True while any task waits for a device or has one.
    pub fn has_tasks(&self) -> bool {
        !self.owners.is_empty()
    }

    /// True if the answer in a client's slot has a sequence other than `seen`, or if there is no such client.
    pub fn answer_changed(&self, pid: u32, slot: u32, seen: u32) -> bool {
        let client = self.clients.values().find(|client| u32::try_from(client.peer.pid) == Ok(pid));
        let pages = client.and_then(|client| client.pages.as_ref());
        let Some((pages, slot)) = pages.zip(Slot::new(slot as usize)) else { return true };
        pages.sequence(slot) != seen
    }

    /// Logs a line about the daemon itself, within the log's limit.
    pub fn log(&mut self, line: String) {
        self.log_of_user(None, line);
    }

    /// Logs a line about a program of user `uid`, within that user's share of the log.
    pub fn log_of_user(&mut self, uid: Option<u32>, line: String) {
        let now = self.now();
        for line in self.log_limit.admit(now, uid, line) {
            // If standard error is closed, the line has no reader.
            let _ = writeln!(std::io::stderr(), "eagerd: {line}");
            detach::limit_log_size();
        }
    }

    /// Adds a newly connected client.
    pub fn welcome(&mut self, hello: &Hello, peer: Peer, socket: OwnedFd, pages: ClientPages) -> ClientId {
        let id = ClientId(self.next_client);
        self.next_client += 1;
        let (pid, uid, started) = (peer.pid, peer.uid, identity::started(peer.pid));
        let (label, informed) = (hello.label(), hello.comes_by_name());
        let priority = hello.priority();
        let held_by_process = hello.is_held_by_process();
        let slots = BTreeMap::new();
        let kept = KeptClient { pid, started, uid, label, informed, priority, held_by_process, slots };
        self.manager.keep_client(id, &peer.pidfd);
        self.enter(id, kept, peer, Some(socket), Some(pages));
        id
    }

    /// Habits that the policy wants of a client, as bits of [`hello::FEATURES`], and the largest grant in bytes that a
    /// task can ever get: 0 if there is no device yet.
    pub fn client_habits(&self, hello: &Hello) -> (u64, u64) {
        let habits = self.core.scheduler.habits_of_newcomer(hello.comes_by_name());
        let flag = |on: bool, bit: u64| if on { bit } else { 0 };
        let wanted = flag(habits.late_reservation, hello::FEATURE_LATE_RESERVATION)
            | flag(habits.early_copies, hello::FEATURE_EARLY_COPIES)
            | flag(habits.live_requirement, hello::FEATURE_LIVE_REQUIREMENT)
            | flag(habits.fast_copies, hello::FEATURE_FAST_COPIES);
        let context = self.core.scheduler.options().context_bytes;
        let devices = self.core.scheduler.state().devices.values();
        let largest =
            devices.map(|device| device.task_max.min(device.capacity).saturating_sub(context).0).max();
        (wanted, largest.unwrap_or(0))
    }

    /// Adds a client with its kept state, new or from an earlier daemon.
    pub fn enter(
        &mut self,
        id: ClientId,
        kept: KeptClient,
        peer: Peer,
        socket: Option<OwnedFd>,
        pages: Option<ClientPages>,
    ) {
        let (uid, label, informed) = (kept.uid, kept.label.clone(), kept.informed);
        let same_process = self.state.kept().earlier_of_process(id, &kept);
        let slots = TaskSlots::default();
        let nice = identity::nice(peer.pid);
        let client = Client {
            label: label.clone(),
            peer,
            socket,
            is_held_by_process: kept.held_by_process,
            gone_at: None,
            pages,
            slots,
            priority: kept.priority,
            strikes: 0,
        };
        let (decided, wall) = (self.core.decision_time(), date::now_ms());
        self.core.ended.enter(id, client.peer.pid, uid, &label, decided, wall);
        self.clients.insert(id, client);
        self.state.client(id.0, kept);
        let event = Event::ClientConnected { client: id, uid, label, informed, same_process, nice };
        self.step(event, None);
    }

    /// Puts a slot of an earlier daemon back.
    pub fn restore_slot(&mut self, id: ClientId, slot: Slot, restored: TaskSlot) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        if let Some(task) = restored.task {
            self.owners.insert(task, (id, slot));
        }
        *client.slots.get_mut(slot) = restored;
    }

    /// Removes a client that is gone, which frees everything it held.
    pub fn remove_client(&mut self, id: ClientId) {
        self.forget(id, false);
    }

    fn forget(&mut self, id: ClientId, is_cut_off: bool) {
        let Some(client) = self.clients.remove(&id) else { return };
        let mut tasks = 0;
        for task in client.slots.tasks() {
            self.owners.remove(&task);
            tasks += 1;
        }
        self.core.tally.client_gone(is_cut_off, tasks);
        if is_cut_off {
            self.core.ended.set_end(id, "cut-off", "it broke the protocol between programs and the daemon");
        }
        self.core.ended.leave(id, self.core.decision_time(), date::now_ms());
        self.quotas.leave(client.peer.uid);
        self.state.gone(id.0);
        self.manager.forget_client(id);
        fault::point("client-removed");
        self.step(Event::ClientGone { client: id }, None);
    }

    fn cut_off(&mut self, id: ClientId, why: &Breach) -> Served {
        if let Some(client) = self.clients.get(&id) {
            let Client { label, peer, .. } = client;
            let line = format!("{id} ({label}, pid {}) {why}: it is not served any more", peer.pid);
            self.log_of_user(Some(peer.uid), line);
        }
        self.forget(id, true);
        Served::CutOff
    }

    /// Takes requests from a client's ring, at most `requests` and, after the first, for at most `time`. Returns how
    /// many it took.
    pub fn serve(&mut self, id: ClientId, requests: u32, time: Nanos) -> (Served, u32) {
        let mut taken = 0;
        self.served = Some((id, BTreeSet::new()));
        let served = self.serve_counted(id, requests, time, &mut taken);
        if let Some((id, slots)) = self.served.take()
            && let Some(pages) = self.clients.get(&id).and_then(|client| client.pages.as_ref())
        {
            slots.into_iter().for_each(|slot| pages.wake(slot));
        }
        (served, taken)
    }

    fn serve_counted(&mut self, id: ClientId, requests: u32, time: Nanos, taken: &mut u32) -> Served {
        let closed = match self.clients.get(&id).map(drain_doorbells) {
            None => return Served::AllDone,
            Some(Err(breach)) => return self.cut_off(id, &breach),
            Some(Ok(closed)) => closed,
        };
        let begun = self.now();
        // The first request is always taken, so that a client whose steps are slow is served too.
        while *taken < requests && (*taken == 0 || self.now().saturating_sub(begun) < time) {
            match self.take_request(id) {
                Ok(true) => *taken += 1,
                Ok(false) => return if closed { Served::Closed } else { Served::AllDone },
                Err(why) => return self.cut_off(id, &why),
            }
        }
        Served::MoreLeft
    }

    /// Takes one request from the client's ring; false if there is none.
    fn take_request(&mut self, id: ClientId) -> Result<bool, Breach> {
        let Some(client) = self.clients.get_mut(&id) else { return Ok(false) };
        let Some(pages) = &mut client.pages else { return Ok(false) };
        let Some(record) = pages.pop()? else { return Ok(false) };
        fault::point("taken");
        let request = decode(&record)?;
        let fresh = TaskId(self.next_task);
        match client.slots.get_mut(request.slot).accept(id, &request, fresh, client.priority) {
            Ok(Some(Event::TaskBegin { request: wanted, .. }))
                if self.refuses_without_a_step(id, &wanted, request.slot) =>
            {
                self.answer_only(id, &request);
            }
            Ok(Some(event)) => {
                if let Event::TaskBegin { .. } = event {
                    self.next_task += 1;
                    self.owners.insert(fresh, (id, request.slot));
                }
                if let Event::TaskEnd { task } = event {
                    self.owners.remove(&task);
                }
                self.step(event, Some((id, &request)));
            }
            Ok(None) => self.answer_only(id, &request),
            Err(_) => {
                let strikes = self.clients.get_mut(&id).map_or(0, |client| {
                    client.strikes += 1;
                    client.strikes
                });
                if strikes > STRIKES_MAX {
                    return Err(Breach::Strikes);
                }
                self.answer_only(id, &request);
            }
        }
        Ok(true)
    }

    /// Refuses a request of a user who is refused again and again, if the core would refuse it too. The client gets the
    /// answer, at the cost of no step of the core and no line of the journal.
    fn refuses_without_a_step(&mut self, id: ClientId, wanted: &TaskRequest, slot: Slot) -> bool {
        let now = self.now();
        let Some(client) = self.clients.get_mut(&id) else { return false };
        let uid = client.peer.uid;
        // On a virtual clock no decision may depend on how fast this machine is.
        if self.core.has_virtual_time() || !self.refusals.is_flood(now, uid) {
            return false;
        }
        let Some(reason) = self.core.scheduler.refuses(id, wanted) else { return false };
        self.core.tally.refused(&reason);
        client.slots.get_mut(slot).refuse(reason);
        self.refusals.leave_out(uid);
        true
    }

    fn note_refusals(&mut self, actions: &[Action]) {
        let now = self.now();
        let refused = actions.iter().filter(|action| matches!(action, Action::Refuse { .. }));
        for task in refused.filter_map(Action::task) {
            let Some(uid) = self.owner(task).and_then(|(id, _)| Some(self.clients.get(&id)?.peer.uid)) else {
                continue;
            };
            if let Some(left_out) = self.refusals.note(now, uid) {
                let line =
                    format!("{left_out} more requests of uid {uid} were refused, and are not in the journal");
                self.log_of_user(Some(uid), line);
            }
        }
    }

    /// Answers a request that changes nothing.
    fn answer_only(&mut self, id: ClientId, request: &Request) {
        self.note(id, request.slot, is_awaited(&request.body));
        self.flush();
        self.publish(id, request.slot);
    }

    /// Steps the core with one event and carries out its actions. `asked` is the request that the event came from.
    pub fn step(&mut self, event: Event, asked: Option<(ClientId, &Request)>) {
        let mut events = VecDeque::from([event]);
        let mut asked = asked;
        while let Some(mut event) = events.pop_front() {
            let actions = match self.decide(&mut event) {
                Ok(actions) => actions,
                Err(Panicked) if self.core.reverted.is_none() => {
                    self.rebuild("panicked".into());
                    if must_be_repeated(&event) {
                        events.push_front(event);
                    }
                    continue;
                }
                // There is no policy left to fall back to: the event is dropped, and everything else goes on.
                Err(Panicked) => {
                    self.log("the fallback policy panicked: one event is dropped".into());
                    continue;
                }
            };
            self.act_on_limits(&actions);
            self.note_refusals(&actions);
            let awaited = asked.take().map(|(id, request)| ((id, request.slot), is_awaited(&request.body)));
            let mut changed: BTreeSet<(ClientId, Slot)> = awaited.iter().map(|(slot, _)| *slot).collect();
            changed.extend(actions.iter().filter_map(|action| self.carry_out(action)));
            for &(client, slot) in &changed {
                self.note(client, slot, awaited == Some(((client, slot), true)));
            }
            fault::point("decided");
            self.flush();
            fault::point("noted");
            for (client, slot) in changed {
                self.publish(client, slot);
            }
            fault::point("published");
            self.handle_reinstatement(&actions);
            events.extend(actions.iter().filter_map(|action| self.answer_watch(action)));
        }
        if let Some(why) = self.core.complaint.take() {
            self.revert(why);
        }
    }

    /// Handles a reinstated policy. Runs after the step's cells are published, because it changes what programs see of
    /// their tasks.
    fn handle_reinstatement(&mut self, actions: &[Action]) {
        for action in actions {
            if let Action::Reinstated { policy, reason } = action {
                self.reinstated(*policy, reason);
            }
        }
    }

    /// Runs one step of the core, and writes its line in the journal.
    fn decide(&mut self, event: &mut Event) -> Result<Vec<Action>, Panicked> {
        let (actions, journal) = self.core.step(event);
        match journal {
            None => {}
            Some(JournalChange::Failed(why)) => self.journal_failed(&why),
            Some(JournalChange::Resumed) => self.log("the journal is written again, with a gap".into()),
        }
        actions
    }

    pub fn journal_failed(&mut self, why: &str) {
        self.log(format!("the journal cannot be written ({why}): scheduling goes on without it"));
    }

    fn act_on_limits(&mut self, actions: &[Action]) {
        for action in actions {
            match action {
                Action::Overrun { client, measure, reason } => self.handle_overrun(*client, *measure, reason),
                Action::Stranded { client, reason, .. } => {
                    self.log_of_client(*client, reason, "its CUDA calls fail, and its memory there is lost");
                }
                Action::Overstay { client, ending, reason, .. } => {
                    self.handle_overstay(*client, *ending, reason)
                }
                _ => {}
            }
        }
    }

    /// Notes a slot's state for the next daemon. `awaited`: the program waits for the answer to its request.
    pub fn note(&mut self, id: ClientId, slot: Slot, awaited: bool) {
        let Some(client) = self.clients.get(&id) else { return };
        let Some(state) = client.slots.get(slot) else { return };
        let view = state.task.and_then(|task| self.core.scheduler.task(task));
        let known = self.core.scheduler.state().clients.get(&id);
        let contexts = known.map(|client| client.contexts.iter().copied().collect()).unwrap_or_default();
        let kept = state.kept(view.as_ref(), contexts);
        self.state.slot(id.0, slot, kept, awaited);
    }

    pub fn flush(&mut self) {
        let written = self.state.flush(self.core.now());
        self.log_state_write(written);
    }

    /// Writes the whole state file before any new program is served.
    pub fn begin_state(&mut self) {
        let written = self.state.begin(self.core.now());
        self.log_state_write(written);
    }

    fn log_state_write(&mut self, written: std::io::Result<()>) {
        if let Err(error) = written {
            self.log(format!(
                "the state file cannot be written ({error}): scheduling goes on, but a restart would lose what is granted"
            ));
        }
    }

    /// Notes an action in its task's slot. Returns the slot, whose cell is now out of date.
    fn carry_out(&mut self, action: &Action) -> Option<(ClientId, Slot)> {
        let task = action.task()?;
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

    /// Writes the current state of a slot into its cell, and wakes the threads that wait on it.
    fn publish(&mut self, id: ClientId, slot: Slot) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let state = client.slots.get_mut(slot);
        let view = state.task.and_then(|task| self.core.scheduler.task(task));
        let (cell, reason) = state.answer(view.as_ref(), self.core.scheduler.traits());
        let Some(pages) = &client.pages else { return };
        match &mut self.served {
            Some((served, slots)) if *served == id => {
                pages.write_cell(slot, &cell, &reason);
                slots.insert(slot);
            }
            _ => pages.publish_cell(slot, &cell, &reason),
        }
    }

    /// Publishes every slot that a client ever used; the cells of its other slots are as new.
    pub fn publish_all(&mut self, id: ClientId) {
        let Some(client) = self.clients.get(&id) else { return };
        let used: Vec<Slot> = client.slots.used().map(|(slot, _)| slot).collect();
        used.into_iter().for_each(|slot| self.publish(id, slot));
    }

    /// Event for a task that is watched from now on: the daemon reads its current state once; the program sends later
    /// changes by itself.
    fn answer_watch(&self, action: &Action) -> Option<Event> {
        let &Action::Watch { task, on: true } = action else { return None };
        let (client, slot) = *self.owners.get(&task)?;
        let (launched, retired) = self.clients.get(&client)?.pages.as_ref()?.counters(slot);
        Some(if launched == retired { Event::Idle { task } } else { Event::Busy { task } })
    }
}

/// True if the program waits until it sees this request answered. The other requests are hints, which may be sent
/// twice.
fn is_awaited(body: &RequestBody) -> bool {
    use RequestBody::{Busy, Idle, KernelHeld, Promoted};
    !matches!(body, Busy | Idle | KernelHeld { .. } | Promoted)
}

/// True if an event that made the scheduler panic must be repeated to the scheduler that replaces it. Begins, ends,
/// connections and deaths need not be: they are in the daemon's notes already.
fn must_be_repeated(event: &Event) -> bool {
    matches!(
        event,
        Event::TaskExtend { .. }
            | Event::TaskShrink { .. }
            | Event::AllLaunched { .. }
            | Event::KernelHeld { .. }
            | Event::Promoted { .. }
    )
}

/// Empties a client's socket. `Ok(true)`: the client closed it.
fn drain_doorbells(client: &Client) -> Result<bool, Breach> {
    let Some(socket) = &client.socket else { return Ok(false) };
    let mut packet = [0; 8];
    for _ in 0..DOORBELLS_MAX {
        match receive(socket.as_fd(), &mut packet) {
            Ok(1) => {}
            Ok(0) => return Ok(true),
            Ok(bytes) => return Err(Breach::Packet { bytes }),
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(false),
            // Reset by the peer: its process is gone or about to go; the pidfd tells which.
            Err(_) => return Ok(true),
        }
    }
    Ok(false)
}
