//! The daemon's loop: gather what happened, let the core decide, carry it out. One thread, one `poll`.
//!
//! Trap: the order within a turn is fixed (deaths, clients, newcomers, the admin socket, deadlines; each by id), so that
//! the same arrivals give the same decisions. Nothing in a turn may block.

use crate::admin::AdminServer;
use crate::dispatch::{Dispatch, Served};
use crate::newcomers::Newcomers;
use crate::tables;
use crate::virtual_gpus::VirtualGpus;
use anyhow::{Context, bail};
use eager_core::event::Event;
use eager_core::units::{ClientId, Nanos};
use eager_proto::admin::{AdminReply, AdminRequest};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};

/// A program that closed its connection but lives (it exec'ed, or unloaded the shim) keeps what it has for so long.
const CLOSED_GRACE_NS: Nanos = Nanos::from_secs(5);
/// Pause of the listener when descriptors have run out.
const LISTENER_PAUSE_NS: Nanos = Nanos(100_000_000);

/// Everything the loop holds.
#[derive(Debug)]
pub struct Shell {
    pub dispatch: Dispatch,
    pub listener: OwnedFd,
    pub admin: AdminServer,
    pub signals: SignalFd,
    pub server: Option<VirtualGpus>,
    pub devices_kind: &'static str,
    pub clients_max: usize,
    newcomers: Newcomers,
    /// Clients that had more than one turn's share of requests.
    backlog: BTreeSet<ClientId>,
    listener_resumes_at: Option<Nanos>,
}

/// Where readiness came from. Their order is the order of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Signals,
    Death(ClientId),
    Client(ClientId),
    Newcomer(u64),
    Listener,
    Admin(u64),
    AdminListener,
}

#[derive(Debug, PartialEq, Eq)]
enum Flow {
    GoOn,
    Stop,
}

impl Shell {
    pub fn new(
        dispatch: Dispatch,
        listener: OwnedFd,
        admin: AdminServer,
        signals: SignalFd,
        server: Option<VirtualGpus>,
        devices_kind: &'static str,
        clients_max: usize,
    ) -> Shell {
        Shell {
            dispatch,
            listener,
            admin,
            signals,
            server,
            devices_kind,
            clients_max,
            newcomers: Newcomers::default(),
            backlog: BTreeSet::new(),
            listener_resumes_at: None,
        }
    }

    /// Until it is told to stop.
    pub fn run(&mut self) -> anyhow::Result<()> {
        while self.turn()? == Flow::GoOn {}
        Ok(())
    }

    fn turn(&mut self) -> anyhow::Result<Flow> {
        let mut ready = self.wait().context("poll")?;
        let unfinished = std::mem::take(&mut self.backlog);
        ready.extend(unfinished.into_iter().map(Source::Client));
        let mut flow = Flow::GoOn;
        for source in ready {
            match source {
                Source::Signals if self.read_signals()? == Flow::Stop => flow = Flow::Stop,
                Source::Signals => {}
                Source::Death(client) => self.dispatch.bury(client),
                Source::Client(client) => self.serve(client),
                Source::Newcomer(id) => self.newcomers.greet(id, self.clients_max, &mut self.dispatch),
                Source::Listener => self.accept(),
                Source::Admin(id) if self.serve_admin(id) == Flow::Stop => flow = Flow::Stop,
                Source::Admin(_) => {}
                Source::AdminListener => self.admin.accept_all(),
            }
        }
        self.keep_deadlines();
        Ok(flow)
    }

    /// Sleeps until something is ready or a deadline comes.
    fn wait(&self) -> nix::Result<BTreeSet<Source>> {
        let mut sources = vec![(Source::Signals, self.signals.as_fd(), PollFlags::POLLIN)];
        for (id, client) in &self.dispatch.clients {
            sources.push((Source::Death(*id), client.peer.pidfd.as_fd(), PollFlags::POLLIN));
            if let Some(socket) = &client.socket {
                sources.push((Source::Client(*id), socket.as_fd(), PollFlags::POLLIN));
            }
        }
        for (id, socket) in self.newcomers.sockets() {
            sources.push((Source::Newcomer(id), socket, PollFlags::POLLIN));
        }
        if self.listener_resumes_at.is_none() && !self.newcomers.is_full() {
            sources.push((Source::Listener, self.listener.as_fd(), PollFlags::POLLIN));
        }
        for (id, socket, has_answer) in self.admin.sockets() {
            let write = if has_answer { PollFlags::POLLOUT } else { PollFlags::empty() };
            sources.push((Source::Admin(id), socket, PollFlags::POLLIN | write));
        }
        sources.push((Source::AdminListener, self.admin.listener(), PollFlags::POLLIN));
        let mut fds: Vec<PollFd<'_>> =
            sources.iter().map(|(_, fd, interest)| PollFd::new(fd.as_fd(), *interest)).collect();
        match poll(&mut fds, self.timeout()) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
        let is_ready = |fd: &PollFd<'_>| fd.any().unwrap_or(true);
        Ok(sources.iter().zip(&fds).filter(|(_, fd)| is_ready(fd)).map(|((source, ..), _)| *source).collect())
    }

    fn timeout(&self) -> PollTimeout {
        if !self.backlog.is_empty() {
            return PollTimeout::ZERO;
        }
        let closed = self.dispatch.clients.values().filter_map(|client| client.gone_at).min();
        let core = self.dispatch.scheduler.next_deadline();
        let deadlines = [core, closed, self.newcomers.next_deadline(), self.listener_resumes_at];
        let Some(deadline) = deadlines.into_iter().flatten().min() else { return PollTimeout::NONE };
        let left_ms = deadline.saturating_sub(self.dispatch.now()).0.div_ceil(1_000_000);
        // Longer than the longest is fine: the loop looks again.
        PollTimeout::try_from(i32::try_from(left_ms).unwrap_or(i32::MAX)).unwrap_or(PollTimeout::MAX)
    }

    fn read_signals(&mut self) -> anyhow::Result<Flow> {
        while let Some(signal) = self.signals.read_signal().context("reading signals")? {
            let is = |known: Signal| signal.ssi_signo == known as u32;
            if !is(Signal::SIGCHLD) && !is(Signal::SIGXFSZ) {
                return Ok(Flow::Stop);
            }
            if let Some(status) = self.server.as_mut().and_then(VirtualGpus::ended) {
                bail!("the virtual GPU server ended by itself ({status}): there are no devices any more");
            }
        }
        Ok(Flow::GoOn)
    }

    fn serve(&mut self, id: ClientId) {
        match self.dispatch.serve(id) {
            Served::AllDone | Served::CutOff => {}
            Served::MoreLeft => drop(self.backlog.insert(id)),
            Served::Closed => {
                let gone_at = Nanos(self.dispatch.now().0.saturating_add(CLOSED_GRACE_NS.0));
                if let Some(client) = self.dispatch.clients.get_mut(&id) {
                    client.socket = None;
                    client.gone_at = Some(gone_at);
                }
            }
        }
    }

    fn accept(&mut self) {
        let now = self.dispatch.now();
        if let Err(errno) = self.newcomers.accept_all(self.listener.as_fd(), now) {
            self.listener_resumes_at = Some(Nanos(now.0.saturating_add(LISTENER_PAUSE_NS.0)));
            self.dispatch.say(format!("cannot accept more programs now: {errno}"));
        }
    }

    fn serve_admin(&mut self, id: u64) -> Flow {
        let mut flow = Flow::GoOn;
        let (dispatch, kind) = (&self.dispatch, self.devices_kind);
        self.admin.serve(id, &mut |request| match request {
            AdminRequest::Ps => AdminReply::Ps { tasks: tables::task_rows(dispatch) },
            AdminRequest::Info => AdminReply::Info {
                daemon: tables::daemon_row(dispatch),
                devices: tables::device_rows(dispatch, kind),
            },
            AdminRequest::Shutdown => {
                flow = Flow::Stop;
                AdminReply::Done
            }
        });
        flow
    }

    fn keep_deadlines(&mut self) {
        let now = self.dispatch.now();
        self.newcomers.expire(now);
        self.listener_resumes_at = self.listener_resumes_at.filter(|at| *at > now);
        let over: Vec<ClientId> = self
            .dispatch
            .clients
            .iter()
            .filter(|(_, client)| client.gone_at.is_some_and(|at| at <= now))
            .map(|(id, _)| *id)
            .collect();
        for client in over {
            self.dispatch.bury(client);
        }
        if self.dispatch.scheduler.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.dispatch.happen(Event::Tick, None);
        }
    }
}
