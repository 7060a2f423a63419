//! The daemon's loop: gathers events, lets the core decide, carries out the actions. One thread, one `epoll_wait`.
//!
//! Trap: the order within a turn is fixed (deaths, clients, newcomers, the admin socket, deadlines; each by id), so
//! that the same arrivals give the same decisions. Clients that used up their share come first in the next turn, in
//! their order. Nothing in a turn may block, nor take longer the more idle clients there are.

pub mod backlog;
pub mod doors;
pub mod poller;
pub mod reload;
pub mod timing;

use crate::admin::answers::{About, answer};
use crate::admin::server::AdminServer;
use crate::clients::newcomers::Newcomers;
use crate::clients::quota::Allowance;
use crate::devices::usage::Observer;
use crate::devices::virtual_gpus::VirtualGpus;
use crate::dispatch::{Client, Dispatch, Served};
use crate::policy::watchdog;
use crate::process::listeners;
use crate::process::processor_time::processor_time;
use crate::process::users::is_own;
use crate::settings::config::Settings;
use crate::shell::backlog::Backlog;
use crate::shell::doors::Door;
use crate::shell::poller::{Poller, Source};
use anyhow::Context;
use eager_core::event::Event;
use eager_proto::admin::{AdminReply, AdminRequest};
use eager_units::{ClientId, Nanos};
use eager_vgpu_link::DaemonLink;
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use nix::unistd::Uid;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;

/// A program that closed its connection but lives (it called `exec`, or unloaded the shim) keeps what it has for this
/// long (specification S-714).
const CLOSED_GRACE_NS: Nanos = Nanos::from_secs(5);
/// An observation this long after a connection closed shows what its process still has there: 1 s is two observations.
const UNSEEN_NS: Nanos = Nanos::from_secs(1);

/// Parts of the daemon that the loop is built from.
#[derive(Debug)]
pub struct Parts {
    pub dispatch: Dispatch,
    pub listener: OwnedFd,
    pub admin: AdminServer,
    pub signals: SignalFd,
    pub server: Option<VirtualGpus>,
    /// The virtual clock, where there is one.
    pub clock: Option<DaemonLink>,
    /// Observer of the devices, if there is one.
    pub observer: Option<Observer>,
    pub devices_kind: &'static str,
    pub clients_max: usize,
    /// Confinement of the daemon, in words.
    pub confinement: String,
    /// Descriptors the process may have.
    pub descriptors: u64,
    /// Time for which a task that fits may wait before its policy is replaced.
    pub starved_after: Nanos,
    /// The settings at the start, and their origin.
    pub settings: Settings,
    pub source: reload::Source,
}

/// Everything the loop holds.
#[derive(Debug)]
pub struct Shell {
    pub(crate) parts: Parts,
    pub(crate) poller: Poller,
    pub(crate) newcomers: Newcomers,
    pub(crate) backlog: Backlog,
    /// Newcomers that sent a hello and are greeted next, one of each user in a turn.
    greet_next: VecDeque<u64>,
    /// Clients that closed their connections and live, and until when they keep what they have.
    closing: BTreeMap<ClientId, Nanos>,
    pub(crate) programs_door: Door,
    pub(crate) admin_door: Door,
    starvation_check_at: Option<Nanos>,
    /// Set by an administrator: the daemon ends when there are no tasks.
    stops_when_idle: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Flow {
    GoOn,
    Stop,
}

impl Shell {
    pub fn new(parts: Parts) -> nix::Result<Shell> {
        let poller = Poller::new()?;
        poller.add(Source::Signals, &parts.signals)?;
        if let Some(clock) = &parts.clock {
            poller.add(Source::Clock, clock)?;
        }
        if let Some(server) = &parts.server {
            poller.add(Source::Server, server)?;
        }
        if let Some(observer) = &parts.observer {
            poller.add(Source::Uses, observer)?;
        }
        // Clients of an earlier daemon: until they come back only their deaths can be seen.
        for (id, client) in &parts.dispatch.clients {
            poller.add(Source::Death(*id), &client.peer.pidfd)?;
        }
        let newcomers = Newcomers::new(parts.descriptors);
        Ok(Shell {
            parts,
            poller,
            newcomers,
            backlog: Backlog::default(),
            greet_next: VecDeque::new(),
            closing: BTreeMap::new(),
            programs_door: Door::default(),
            admin_door: Door::default(),
            starvation_check_at: None,
            stops_when_idle: false,
        })
    }

    /// Runs until the daemon is to stop.
    pub fn run(&mut self) -> anyhow::Result<()> {
        let end = loop {
            match self.turn() {
                Ok(Flow::GoOn) => {}
                Ok(Flow::Stop) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let dispatch = &mut self.parts.dispatch;
        if let Some(server) = &mut self.parts.server
            && dispatch.clients.values().any(|client| client.socket.is_some() || client.is_held_by_process)
        {
            server.keep_for_programs();
        }
        dispatch.manager.stopping();
        let written = dispatch.core.run_history.write_at_end(dispatch.now());
        dispatch.log_history_write(written);
        dispatch.write_ended(true);
        end
    }

    fn turn(&mut self) -> anyhow::Result<Flow> {
        self.update_doors();
        let ready = self.poller.wait(self.timeout_ms()).context("epoll")?;
        self.parts.dispatch.quotas.begin_turn();
        if ready.contains(&Source::Server) {
            self.restart_ended_server()?;
        }
        if ready.contains(&Source::Clock) {
            self.answer_clock()?;
        }
        let mut flow = Flow::GoOn;
        for &source in ready.iter().filter(|source| matches!(source, Source::Signals | Source::Death(_))) {
            match source {
                Source::Death(client) => self.parts.dispatch.remove_client(client),
                _ if self.read_signals()? == Flow::Stop => flow = Flow::Stop,
                _ => {}
            }
        }
        self.serve_backlog();
        for id in std::mem::take(&mut self.greet_next) {
            self.greet(id)?;
        }
        for source in ready {
            match source {
                Source::Client(client) => self.serve(client),
                Source::Newcomer(id) => self.greet(id)?,
                Source::Uses => self.observe(),
                Source::Listener => self.accept(),
                Source::Admin(id) if self.serve_admin(id) == Flow::Stop => flow = Flow::Stop,
                Source::AdminListener => self.accept_admin(),
                Source::Admin(_) | Source::Signals | Source::Clock => {}
                Source::Death(_) | Source::Server => {}
            }
        }
        self.handle_deadlines();
        Ok(if self.stops_when_idle && !self.parts.dispatch.has_tasks() { Flow::Stop } else { flow })
    }

    fn timeout_ms(&self) -> Option<u64> {
        if self.backlog.is_due() || !self.greet_next.is_empty() {
            return Some(0);
        }
        let dispatch = &self.parts.dispatch;
        let closed = self.closing.values().copied().min();
        // A virtual clock sends a message by itself when the core has something to do.
        let core = dispatch.core.scheduler.next_deadline().filter(|_| !dispatch.core.has_virtual_time());
        let own = [
            self.backlog.next_deadline(),
            self.newcomers.next_deadline(),
            self.programs_door.resumes_at,
            self.admin_door.resumes_at,
            self.parts.admin.next_deadline(),
            self.starvation_check_at,
            dispatch.core.run_history.next_write(),
            dispatch.next_ended_write(),
            dispatch.state.next_try(),
        ];
        let deadline = [core, closed].into_iter().chain(own).flatten().min()?;
        Some(deadline.saturating_sub(dispatch.now()).0.div_ceil(1_000_000))
    }

    fn read_signals(&mut self) -> anyhow::Result<Flow> {
        while let Some(signal) = self.parts.signals.read_signal().context("reading signals")? {
            let is = |known: Signal| signal.ssi_signo == known as u32;
            if is(Signal::SIGTERM) || is(Signal::SIGINT) {
                return Ok(Flow::Stop);
            }
            if is(Signal::SIGHUP) {
                self.reload();
            }
        }
        Ok(Flow::GoOn)
    }

    /// Starts a new virtual GPU server in place of one that has ended.
    fn restart_ended_server(&mut self) -> anyhow::Result<()> {
        let Some(server) = &mut self.parts.server else { return Ok(()) };
        if !server.has_ended() {
            return Ok(());
        }
        self.poller.remove(&*server);
        let said = server.restart()?;
        if Uid::effective().is_root() {
            listeners::open_to_all(server.socket())?;
        }
        self.poller.add(Source::Server, &*server).context("epoll")?;
        self.parts.dispatch.log(said);
        Ok(())
    }

    /// Acts on the result of serving a client.
    pub(crate) fn served(&mut self, id: ClientId, served: Served) {
        let dispatch = &mut self.parts.dispatch;
        match served {
            Served::AllDone | Served::CutOff => {}
            Served::MoreLeft => self.postpone(id),
            Served::Closed => {
                let gone_at = Nanos(dispatch.now().0.saturating_add(CLOSED_GRACE_NS.0));
                let Some(client) = dispatch.clients.get_mut(&id) else { return };
                client.socket = None;
                // Without tasks there is nothing to hold.
                if !client.is_held_by_process || client.slots.tasks().next().is_none() {
                    client.gone_at = Some(gone_at);
                    let pid = client.peer.pid;
                    self.closing.insert(id, gone_at);
                    // A newer connection may have been greeted before this one was seen to be closed.
                    let is_of_process = |other: &Client| other.peer.pid == pid && other.socket.is_some();
                    if dispatch.clients.values().any(is_of_process) {
                        self.forget_earlier_of(pid);
                    }
                }
            }
        }
    }

    fn observe(&mut self) {
        if let Some(report) = self.parts.observer.as_ref().and_then(Observer::take) {
            self.parts.dispatch.observe(report);
            self.forget_unseen();
        }
    }

    /// Removes the closed connections of a process that has connected anew. Only the last one with tasks stays, for the
    /// program that was there before an `exec`: each would be charged a context, of which a process has one.
    fn forget_earlier_of(&mut self, pid: i32) {
        let dispatch = &self.parts.dispatch;
        let is_earlier = |id: &ClientId| dispatch.clients.get(id).is_none_or(|found| found.peer.pid == pid);
        let mut earlier: Vec<ClientId> = self.closing.keys().copied().filter(is_earlier).collect();
        let has_tasks = |id: &ClientId| {
            dispatch.clients.get(id).is_some_and(|found| found.slots.tasks().next().is_some())
        };
        if let Some(last) = earlier.iter().rposition(has_tasks) {
            earlier.remove(last);
        }
        self.forget(&earlier);
    }

    /// Removes clients that closed their connection, have no tasks, and have nothing on a device any more.
    fn forget_unseen(&mut self) {
        let dispatch = &self.parts.dispatch;
        let now = dispatch.now();
        if dispatch.truth.problem(now).is_some() {
            return;
        }
        let is_unseen = |(id, until): &(&ClientId, &Nanos)| {
            let looked_since = until.saturating_sub(now).0 + UNSEEN_NS.0 <= CLOSED_GRACE_NS.0;
            let has_tasks =
                dispatch.clients.get(id).is_some_and(|found| found.slots.tasks().next().is_some());
            looked_since && !has_tasks && !dispatch.truth.uses_anything(**id)
        };
        let unseen: Vec<ClientId> = self.closing.iter().filter(is_unseen).map(|(id, _)| *id).collect();
        self.forget(&unseen);
    }

    fn forget(&mut self, closed: &[ClientId]) {
        for id in closed {
            self.closing.remove(id);
            // A client that came back meanwhile stays.
            if self.parts.dispatch.clients.get(id).is_some_and(|client| client.gone_at.is_some()) {
                self.parts.dispatch.remove_client(*id);
            }
        }
    }

    fn greet(&mut self, id: u64) -> anyhow::Result<()> {
        let Some(uid) = self.newcomers.uid(id) else { return Ok(()) };
        let begun = processor_time();
        let greeted = self.greet_of(uid, id);
        self.charge(uid, begun);
        greeted
    }

    fn greet_of(&mut self, uid: u32, id: u64) -> anyhow::Result<()> {
        let clients_max = self.parts.clients_max;
        if let Some(socket) = self.newcomers.socket(id) {
            self.poller.remove(socket);
        }
        if !self.newcomers.listen_to(id) {
            return Ok(());
        }
        let now = self.parts.dispatch.now();
        let quotas = &mut self.parts.dispatch.quotas;
        let allowed = if is_own(uid) {
            Allowance::Requests(0)
        } else {
            quotas.rests_until(uid, now).map_or_else(|| quotas.welcome(uid, now), Allowance::NotBefore)
        };
        match allowed {
            Allowance::Requests(_) => {}
            Allowance::NextTurn => {
                self.greet_next.push_back(id);
                return Ok(());
            }
            Allowance::NotBefore(at) => {
                self.newcomers.put_off(id, at);
                return Ok(());
            }
        }
        let Some(client) = self.newcomers.greet(id, clients_max, &mut self.parts.dispatch) else {
            return Ok(());
        };
        if let Some(pid) = self.parts.dispatch.clients.get(&client).map(|client| client.peer.pid) {
            self.forget_earlier_of(pid);
        }
        let Some(found) = self.parts.dispatch.clients.get(&client) else { return Ok(()) };
        // For a client that came back this fails: its pidfd is in the set already.
        let _ = self.poller.add(Source::Death(client), &found.peer.pidfd);
        if let Some(socket) = &found.socket {
            self.poller.add(Source::Client(client), socket).context("epoll")?;
        }
        Ok(())
    }

    fn serve_admin(&mut self, id: u64) -> Flow {
        let mut flow = Flow::GoOn;
        let Some(uid) = self.parts.admin.uid(id) else { return flow };
        let begun = processor_time();
        let Parts { dispatch, admin, devices_kind, confinement, settings, .. } = &mut self.parts;
        let about = About { devices_kind, confinement, configured: settings.policy };
        let (now, stops_when_idle) = (dispatch.now(), &mut self.stops_when_idle);
        admin.serve(id, now, &mut |by, request| {
            let shutdown = match request {
                AdminRequest::Shutdown { when_idle, .. } => Some(when_idle),
                _ => None,
            };
            let reply = answer(dispatch, about, by, request);
            match shutdown.filter(|_| matches!(reply, AdminReply::Done { .. })) {
                Some(true) => *stops_when_idle = true,
                Some(false) => flow = Flow::Stop,
                None => {}
            }
            reply
        });
        if let Some((socket, has_answer)) = self.parts.admin.socket(id) {
            self.poller.want_write(Source::Admin(id), socket, has_answer);
        }
        self.charge(uid, begun);
        flow
    }

    fn handle_deadlines(&mut self) {
        let now = self.parts.dispatch.now();
        self.newcomers.expire(now);
        self.greet_next.extend(self.newcomers.put_off_until(now));
        self.parts.admin.expire(now);
        self.end_rests(now);
        let over: Vec<ClientId> =
            self.closing.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id).collect();
        self.forget(&over);
        self.tick();
        let dispatch = &mut self.parts.dispatch;
        let written = dispatch.core.run_history.write_if_due(now);
        dispatch.log_history_write(written);
        dispatch.write_ended(false);
        dispatch.state.retry_if_due(now);
        self.look_for_starvation(now);
    }

    /// Steps the core if its deadline has passed.
    pub(crate) fn tick(&mut self) {
        let dispatch = &mut self.parts.dispatch;
        let now = dispatch.core.decision_time();
        if dispatch.core.scheduler.next_deadline().is_some_and(|deadline| deadline <= now) {
            dispatch.step(Event::Tick, None);
        }
    }

    /// Checks for starved tasks now and then, while the configured policy decides and there are tasks. Never on a
    /// virtual clock, where an hour may pass in a moment.
    fn look_for_starvation(&mut self, now: Nanos) {
        let dispatch = &mut self.parts.dispatch;
        if dispatch.core.reverted.is_some() || dispatch.core.has_virtual_time() || !dispatch.has_tasks() {
            self.starvation_check_at = None;
            return;
        }
        let limit = self.parts.starved_after;
        if self.starvation_check_at.is_some_and(|at| at > now) {
            return;
        }
        if self.starvation_check_at.is_some()
            && let Some(why) = watchdog::starved(&dispatch.core.scheduler, now, limit)
        {
            dispatch.revert(why);
        }
        self.starvation_check_at = Some(Nanos(now.0.saturating_add((limit.0 / 4).max(1_000_000))));
    }
}
