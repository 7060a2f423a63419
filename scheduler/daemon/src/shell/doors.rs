//! Accepts connections at the two sockets that are open to all users, the client socket and the admin socket, and
//! charges the connecting users.
//!
//! Trap: connections of a flooding user are in the same kernel queue as those of every other user. So a connection
//! costs its user from the moment it is accepted, the queues are short, and a socket rests no longer than its flood
//! costs.

use crate::clients::newcomers::is_served;
use crate::clients::quota::TIME_PART;
use crate::process::processor_time::processor_time;
use crate::process::users::is_own;
use crate::shell::Shell;
use crate::shell::poller::Source;
use eager_units::Nanos;
use std::os::fd::{AsFd, BorrowedFd};

/// Pause of a socket when descriptors have run out.
const PAUSE_NS: Nanos = Nanos(100_000_000);

/// State of a listening socket.
#[derive(Debug, Default)]
pub struct Door {
    /// Time before which the socket is not polled.
    pub resumes_at: Option<Nanos>,
    /// True while the socket is in the poller.
    listens: bool,
}

impl Door {
    fn is_to_change(&self) -> bool {
        self.listens == self.resumes_at.is_some()
    }
}

impl Shell {
    /// Adds both sockets to the poller, and removes those that rest.
    pub(crate) fn update_doors(&mut self) {
        let (parts, poller) = (&self.parts, &self.poller);
        let both = [
            (&mut self.programs_door, parts.listener.as_fd(), Source::Listener),
            (&mut self.admin_door, parts.admin.listener(), Source::AdminListener),
        ];
        for (door, listener, source) in both {
            if door.is_to_change() && door.listens {
                poller.remove(listener);
                door.listens = false;
            } else if door.is_to_change() {
                door.listens = poller.add(source, listener).is_ok();
            }
        }
    }

    pub(crate) fn end_rests(&mut self, now: Nanos) {
        for door in [&mut self.programs_door, &mut self.admin_door] {
            door.resumes_at = door.resumes_at.filter(|at| *at > now);
        }
    }

    pub(crate) fn accept(&mut self) {
        let (now, begun) = (self.parts.dispatch.now(), processor_time());
        let poller = &self.poller;
        let mut enter = |id, socket: BorrowedFd<'_>| poller.add(Source::Newcomer(id), socket);
        let mut users = Vec::new();
        let accepted = self.newcomers.accept_all(self.parts.listener.as_fd(), now, &mut enter, &mut users);
        self.programs_door.resumes_at = self.charge_newcomers(&users, begun);
        if let Err(errno) = accepted {
            self.programs_door.resumes_at = Some(Nanos(now.0.saturating_add(PAUSE_NS.0)));
            self.parts.dispatch.log(format!("cannot accept more programs now: {errno}"));
        }
    }

    pub(crate) fn accept_admin(&mut self) {
        let (now, begun) = (self.parts.dispatch.now(), processor_time());
        let poller = &self.poller;
        let quotas = &self.parts.dispatch.quotas;
        let mut enter = |id, socket: BorrowedFd<'_>| poller.add(Source::Admin(id), socket).is_ok();
        let serves = |uid, socket: BorrowedFd<'_>| is_served(quotas.served(), uid, socket);
        let mut users = Vec::new();
        let accepted = self.parts.admin.accept(now, &serves, &mut enter, &mut users);
        self.admin_door.resumes_at = self.charge_newcomers(&users, begun);
        if let Err(errno) = accepted {
            self.admin_door.resumes_at = Some(Nanos(now.0.saturating_add(PAUSE_NS.0)));
            self.parts.dispatch.log(format!("cannot accept more admin requests now: {errno}"));
        }
    }

    /// Charges accepted connections to their users, and returns until when the socket rests. Connections of a user who
    /// has used up the allowance are somewhere in the socket's backlog and cannot be told from others, so the socket
    /// rests until this work is its permitted share of the time, and no longer, because other users wait there too. New
    /// connections fill the backlog meanwhile; after that a client that connects again and again sleeps in the kernel.
    fn charge_newcomers(&mut self, users: &[u32], begun: Nanos) -> Option<Nanos> {
        let took = processor_time().saturating_sub(begun);
        let each = Nanos(took.0 / (users.len() as u64).max(1));
        let now = self.parts.dispatch.now();
        let quotas = &mut self.parts.dispatch.quotas;
        let mut rests = false;
        for &uid in users {
            quotas.charge(uid, each, now);
            rests |= !is_own(uid) && quotas.rests_until(uid, now).is_some();
        }
        rests.then(|| Nanos(now.0.saturating_add(took.0.saturating_mul(TIME_PART))))
    }
}
