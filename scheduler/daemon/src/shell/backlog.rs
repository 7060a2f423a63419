//! Clients whose requests wait for a later turn, by user: they used up their user's share of the last turn, came too
//! late for it, or their user rests.
//!
//! Trap: these clients are out of the poller, and rest is per user, so however many clients of one user have requests,
//! a turn in which none of them may be served costs one check of that user. Their pidfds stay in the poller, so a death
//! is still seen.

use crate::clients::quota::{Allowance, TURN_NS};
use crate::process::processor_time::processor_time;
use crate::process::users::is_own;
use crate::shell::Shell;
use crate::shell::poller::Source;
use eager_units::{ClientId, Nanos};

use std::collections::{BTreeMap, VecDeque};

#[derive(Debug, Default)]
pub(crate) struct Backlog {
    waiting: BTreeMap<u32, VecDeque<ClientId>>,
    /// Users who rest, and until when.
    resting: BTreeMap<u32, Nanos>,
}

impl Backlog {
    /// True if a waiting client may be served at once, because its user does not rest.
    pub fn is_due(&self) -> bool {
        self.waiting.keys().any(|uid| !self.resting.contains_key(uid))
    }

    /// Time at which the next user has rested.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.resting.values().copied().min()
    }

    /// Queues a client behind the other clients of its user.
    fn put(&mut self, uid: u32, id: ClientId) {
        self.waiting.entry(uid).or_default().push_back(id);
    }

    /// Puts clients that were not served back in front of clients that were queued meanwhile.
    fn put_back(&mut self, uid: u32, mut waiting: VecDeque<ClientId>) {
        if !waiting.is_empty() {
            waiting.extend(self.waiting.remove(&uid).unwrap_or_default());
            self.waiting.insert(uid, waiting);
        }
    }
}

impl Shell {
    /// What a user may have in this turn.
    pub(crate) fn allowance(&mut self, uid: u32) -> Allowance {
        let now = self.parts.dispatch.now();
        let quotas = &mut self.parts.dispatch.quotas;
        let rests_until = if is_own(uid) { None } else { quotas.rests_until(uid, now) };
        rests_until.map_or_else(|| quotas.allowance(uid, now), Allowance::NotBefore)
    }

    /// Takes requests of a client, as many as its user may have.
    pub(crate) fn serve(&mut self, id: ClientId) {
        let Some(uid) = self.parts.dispatch.clients.get(&id).map(|client| client.peer.uid) else { return };
        let requests = match self.allowance(uid) {
            Allowance::Requests(requests) => requests,
            Allowance::NextTurn => return self.postpone(id),
            Allowance::NotBefore(at) => {
                self.backlog.resting.insert(uid, at);
                return self.postpone(id);
            }
        };
        let dispatch = &mut self.parts.dispatch;
        let (now, begun) = (dispatch.now(), processor_time());
        let (served, taken) = dispatch.serve(id, requests, TURN_NS);
        let took = dispatch.now().saturating_sub(now);
        dispatch.quotas.spend(uid, taken, took);
        self.charge(uid, begun);
        self.served(id, served);
    }

    /// Takes a client out of the poller and queues it for a later turn, behind the other clients of its user.
    pub(crate) fn postpone(&mut self, id: ClientId) {
        let Some(client) = self.parts.dispatch.clients.get(&id) else { return };
        if let Some(socket) = &client.socket {
            self.poller.remove(socket);
        }
        self.backlog.put(client.peer.uid, id);
    }

    /// Serves the queued clients of each user, as far as the user's share goes.
    pub(crate) fn serve_backlog(&mut self) {
        let now = self.parts.dispatch.now();
        self.backlog.resting.retain(|_, until| *until > now);
        for (uid, mut waiting) in std::mem::take(&mut self.backlog.waiting) {
            while self.may_be_served(uid)
                && let Some(id) = waiting.pop_front()
            {
                let client = self.parts.dispatch.clients.get(&id);
                if let Some(socket) = client.and_then(|client| client.socket.as_ref()) {
                    // Fails for a client that came back through another connection, which is in the set already.
                    let _ = self.poller.add(Source::Client(id), socket);
                }
                self.serve(id);
            }
            self.backlog.put_back(uid, waiting);
        }
    }

    fn may_be_served(&mut self, uid: u32) -> bool {
        if self.backlog.resting.contains_key(&uid) {
            return false;
        }
        let allowance = self.allowance(uid);
        if let Allowance::NotBefore(at) = allowance {
            self.backlog.resting.insert(uid, at);
        }
        matches!(allowance, Allowance::Requests(_))
    }

    /// Charges the processor time since `begun` to a user.
    pub(crate) fn charge(&mut self, uid: u32, begun: Nanos) {
        let now = self.parts.dispatch.now();
        self.parts.dispatch.quotas.charge(uid, processor_time().saturating_sub(begun), now);
    }
}
