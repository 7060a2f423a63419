//! Limits of what one user may take of the daemon: clients, requests per turn, requests per second, processor time.
//! Pure.
//!
//! Traps: a limit per connection protects no user, because a user can make any number of connections. So everything
//! here must be counted per uid (the scheme of dbus-broker), with the uid from the kernel. And a daemon that serves one
//! user without ever sleeping delays every other program on a machine with few processors: a client that got its answer
//! waits for a time slice. So a user's share is bounded in time, not only in requests.

use eager_units::Nanos;
use serde::Serialize;
use std::collections::BTreeMap;

/// Requests of one user in one turn (specification S-706). Small, so that no client waits long behind a flood; the next
/// turn follows at once.
pub const TURN_SHARE: u32 = 16;
/// Time of one user in one turn, however long decisions about the user's tasks take; the step that exceeds it is the
/// user's last in that turn (specification S-706).
pub const TURN_NS: Nanos = Nanos(200_000);
/// Requests of one user that may come at once: several full rings.
const BURST: u64 = 4096;
/// Sustained requests of one user per second. An honest program sends a handful per task.
const PER_SECOND: u64 = 20_000;
/// Time in which one request is earned back.
const NANOS_PER_REQUEST: u64 = 1_000_000_000 / PER_SECOND;
/// Requests that a welcomed connection counts as: its pages are made, and its connecting and leaving are noted
/// (specification S-713).
const WELCOME: u32 = 8;
/// Beyond this many accounts, those without clients are dropped once they have earned everything back.
const ACCOUNTS_MAX: usize = 256;
/// Requests that a user who has run out must earn back before being served again: a turn's share, so that the daemon
/// does not work for that user without a pause for longer than a turn.
const RESUME_AT: u64 = TURN_SHARE as u64;
/// Processor time that one user may take at once while other users are connected (specification S-706).
const TIME_BURST: Nanos = Nanos(2_000_000);
/// A user may take one part in this many of the time that passes, sustained.
pub const TIME_PART: u64 = 4;

/// Users that are served at all, by the kernel's credentials at the moment of connecting.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Users {
    /// Users that are served. If this and `allow_gids` are both none, every user is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_uids: Option<Vec<u32>>,
    /// Groups whose members are served, besides `allow_uids`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_gids: Option<Vec<u32>>,
    /// Users that are never served, even if allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny_uids: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny_gids: Vec<u32>,
}

impl Users {
    /// True if a user's groups must be known to decide.
    pub fn needs_groups(&self) -> bool {
        self.allow_gids.is_some() || !self.deny_gids.is_empty()
    }

    pub fn admits(&self, uid: u32, gids: &[u32]) -> bool {
        let lists = (&self.allow_uids, &self.allow_gids);
        let is_member = |groups: &[u32]| groups.iter().any(|group| gids.contains(group));
        let allowed = lists == (&None, &None)
            || lists.0.as_ref().is_some_and(|uids| uids.contains(&uid))
            || lists.1.as_deref().is_some_and(is_member);
        allowed && !self.deny_uids.contains(&uid) && !is_member(&self.deny_gids)
    }
}

/// What a user has used of the limits.
#[derive(Debug, Clone, Copy)]
struct Account {
    clients: usize,
    /// Requests left, as of `since`.
    tokens: u64,
    since: Nanos,
    this_turn: u32,
    /// Time that the requests of this turn took.
    took: Nanos,
    /// Processor time taken and not earned back, as of `paid_at`.
    owed: Nanos,
    paid_at: Nanos,
}

/// What a user may do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowance {
    /// At most this many requests.
    Requests(u32),
    /// Nothing more in this turn.
    NextTurn,
    /// Nothing before this time.
    NotBefore(Nanos),
}

/// Accounts of all connected users.
#[derive(Debug)]
pub struct Quotas {
    clients_per_user: usize,
    served: Users,
    users: BTreeMap<u32, Account>,
}

impl Quotas {
    pub fn new(clients_per_user: usize, served: Users) -> Quotas {
        Quotas { clients_per_user, served, users: BTreeMap::new() }
    }

    /// Sets other limits. Connected clients stay.
    pub fn set(&mut self, clients_per_user: usize, served: Users) {
        (self.clients_per_user, self.served) = (clients_per_user, served);
    }

    pub fn served(&self) -> &Users {
        &self.served
    }

    /// Counts one more client, or returns the limit.
    pub fn admit(&mut self, uid: u32, now: Nanos) -> Result<(), usize> {
        let limit = self.clients_per_user;
        let account = self.account(uid, now);
        if account.clients >= limit {
            return Err(limit);
        }
        account.clients += 1;
        Ok(())
    }

    /// Counts one client less. The user's account stays for a while; otherwise a user who connects anew each time would
    /// always have a full one.
    pub fn leave(&mut self, uid: u32) {
        let Some(account) = self.users.get_mut(&uid) else { return };
        account.clients = account.clients.saturating_sub(1);
    }

    fn account(&mut self, uid: u32, now: Nanos) -> &mut Account {
        if self.users.len() >= ACCOUNTS_MAX && !self.users.contains_key(&uid) {
            self.users.retain(|_, account| {
                account.refill(now);
                account.pay(now);
                account.clients > 0 || account.tokens < BURST || account.owed > Nanos(0)
            });
        }
        let (this_turn, nothing) = (0, Nanos(0));
        let fresh = Account {
            clients: 0,
            tokens: BURST,
            since: now,
            this_turn,
            took: nothing,
            owed: nothing,
            paid_at: now,
        };
        self.users.entry(uid).or_insert(fresh)
    }

    /// Charges processor time to a user.
    pub fn charge(&mut self, uid: u32, time: Nanos, now: Nanos) {
        let account = self.account(uid, now);
        // First, since time that has passed must not pay for work that is charged only now.
        account.pay(now);
        account.owed = Nanos(account.owed.0.saturating_add(time.0));
    }

    /// Until when a user must rest after taking more processor time than permitted. None for a user who is alone: all
    /// of the daemon's time is free for that user.
    pub fn rests_until(&mut self, uid: u32, now: Nanos) -> Option<Nanos> {
        let account = self.users.get_mut(&uid)?;
        account.pay(now);
        let excess = account.owed.0.checked_sub(TIME_BURST.0).filter(|excess| *excess > 0)?;
        let is_alone = self.users.iter().all(|(other, account)| *other == uid || account.clients == 0);
        (!is_alone).then(|| Nanos(now.0.saturating_add(excess.saturating_mul(TIME_PART))))
    }

    /// Whether one more connection of this user may be welcomed now; counts it if so. One in a turn, and a limited rate
    /// per second.
    pub fn welcome(&mut self, uid: u32, now: Nanos) -> Allowance {
        let account = self.account(uid, now);
        account.refill(now);
        if account.tokens < u64::from(WELCOME) {
            let wait = RESUME_AT * NANOS_PER_REQUEST;
            return Allowance::NotBefore(Nanos(now.0.saturating_add(wait)));
        }
        if account.this_turn >= TURN_SHARE {
            return Allowance::NextTurn;
        }
        account.this_turn = account.this_turn.saturating_add(TURN_SHARE);
        account.tokens -= u64::from(WELCOME);
        Allowance::Requests(0)
    }

    pub fn begin_turn(&mut self) {
        self.users.values_mut().for_each(|account| (account.this_turn, account.took) = (0, Nanos(0)));
    }

    pub fn allowance(&mut self, uid: u32, now: Nanos) -> Allowance {
        let Some(account) = self.users.get_mut(&uid) else { return Allowance::Requests(TURN_SHARE) };
        account.refill(now);
        if account.tokens == 0 {
            let wait = RESUME_AT * NANOS_PER_REQUEST;
            return Allowance::NotBefore(Nanos(now.0.saturating_add(wait)));
        }
        match TURN_SHARE.saturating_sub(account.this_turn) {
            _ if account.took >= TURN_NS => Allowance::NextTurn,
            0 => Allowance::NextTurn,
            share => Allowance::Requests(share.min(u32::try_from(account.tokens).unwrap_or(u32::MAX))),
        }
    }

    pub fn spend(&mut self, uid: u32, requests: u32, took: Nanos) {
        if let Some(account) = self.users.get_mut(&uid) {
            account.this_turn = account.this_turn.saturating_add(requests);
            account.took = Nanos(account.took.0.saturating_add(took.0));
            account.tokens = account.tokens.saturating_sub(u64::from(requests));
        }
    }
}

impl Account {
    fn pay(&mut self, now: Nanos) {
        let earned = now.saturating_sub(self.paid_at).0 / TIME_PART;
        (self.owed, self.paid_at) = (self.owed.saturating_sub(Nanos(earned)), now);
    }

    fn refill(&mut self, now: Nanos) {
        let earned = now.saturating_sub(self.since).0 / NANOS_PER_REQUEST;
        // A fraction of a request stays to be counted next time.
        self.since = Nanos(self.since.0.saturating_add(earned.saturating_mul(NANOS_PER_REQUEST)));
        self.tokens = self.tokens.saturating_add(earned).min(BURST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_so_many_clients_however_they_come_and_go() {
        let mut quotas = Quotas::new(2, Users::default());
        for _ in 0..10 {
            assert_eq!((quotas.admit(7, Nanos(0)), quotas.admit(7, Nanos(0))), (Ok(()), Ok(())));
            assert_eq!(quotas.admit(7, Nanos(0)), Err(2));
            assert_eq!(quotas.admit(8, Nanos(0)), Ok(()));
            [7, 7, 8].into_iter().for_each(|uid| quotas.leave(uid));
        }
        assert!(quotas.users.values().all(|account| account.clients == 0));
    }

    #[test]
    fn whose_decisions_take_long_has_fewer_of_them_in_a_turn() {
        let mut quotas = Quotas::new(10, Users::default());
        quotas.admit(7, Nanos(0)).expect("room");
        quotas.spend(7, 1, TURN_NS);
        assert_eq!(quotas.allowance(7, Nanos(0)), Allowance::NextTurn);
        quotas.begin_turn();
        assert_eq!(quotas.allowance(7, Nanos(0)), Allowance::Requests(TURN_SHARE));
    }

    #[test]
    fn whose_requests_take_the_daemons_time_rests_where_others_are_and_no_longer_than_it_takes() {
        let mut quotas = Quotas::new(10, Users::default());
        quotas.admit(7, Nanos(0)).expect("room");
        let long = Nanos::from_secs(1);
        quotas.charge(7, Nanos(TIME_BURST.0 + 1000), long);
        assert_eq!(quotas.rests_until(7, long), None, "alone");
        quotas.admit(8, long).expect("room");
        assert_eq!(quotas.rests_until(7, long), Some(Nanos(long.0 + 1000 * TIME_PART)));
        assert_eq!(quotas.rests_until(8, long), None);
        assert_eq!(quotas.rests_until(7, Nanos(long.0 + 1000 * TIME_PART)), None);
        quotas.leave(8);
        assert_eq!(quotas.rests_until(7, long), None, "alone again");
    }

    #[test]
    fn who_connects_again_and_again_is_welcomed_at_a_rate_and_no_account_stays_for_ever() {
        let mut quotas = Quotas::new(10, Users::default());
        let mut welcomed = 0;
        for ns in (0..2_000_000_000u64).step_by(100_000) {
            quotas.begin_turn();
            let mut this_turn = 0;
            while let Allowance::Requests(_) = quotas.welcome(7, Nanos(ns)) {
                quotas.admit(7, Nanos(ns)).expect("room");
                quotas.leave(7);
                this_turn += 1;
            }
            assert!(this_turn <= 1);
            welcomed += this_turn;
        }
        let most = (BURST + 2 * PER_SECOND) / u64::from(WELCOME);
        assert!((most - 10..=most).contains(&welcomed), "{welcomed} of {most}");
        (1000..3000).for_each(|uid| {
            quotas.welcome(uid, Nanos(u64::MAX));
        });
        assert!(quotas.users.len() > ACCOUNTS_MAX, "all of them were here just now");
        quotas.users.values_mut().for_each(|account| account.tokens = BURST);
        quotas.welcome(9, Nanos(u64::MAX));
        assert!(quotas.users.len() < 3, "{} accounts", quotas.users.len());
    }

    #[test]
    fn who_is_denied_is_not_served_even_if_allowed() {
        let users = |allow: Option<&[u32]>, deny: &[u32]| Users {
            allow_uids: allow.map(<[u32]>::to_vec),
            deny_uids: deny.to_vec(),
            ..Users::default()
        };
        let admits = |users: Users, uid| users.admits(uid, &[]);
        assert!(admits(users(None, &[]), 1000) && !admits(users(None, &[1000]), 1000));
        assert!(admits(users(Some(&[1000]), &[]), 1000) && !admits(users(Some(&[1000]), &[]), 0));
        assert!(!admits(users(Some(&[1000]), &[1000]), 1000));
    }

    #[test]
    fn a_member_of_a_denied_group_is_not_served_and_one_of_an_allowed_group_is() {
        let users = Users {
            allow_uids: Some(vec![1000]),
            allow_gids: Some(vec![7, 8]),
            deny_gids: vec![9],
            ..Users::default()
        };
        assert!(users.admits(1000, &[]) && users.admits(2000, &[5, 8]));
        assert!(!users.admits(2000, &[5]) && !users.admits(1000, &[9]) && !users.admits(2000, &[8, 9]));
        let denying = Users { deny_gids: vec![9], ..Users::default() };
        assert!(denying.admits(2000, &[8]) && !denying.admits(2000, &[9]));
    }

    #[test]
    fn a_flood_gets_its_share_of_a_turn_and_then_its_rate() {
        let mut quotas = Quotas::new(10, Users::default());
        quotas.admit(7, Nanos(0)).expect("room");
        let mut taken = 0;
        let wait = loop {
            match quotas.allowance(7, Nanos(0)) {
                Allowance::Requests(some) => {
                    assert!(some <= TURN_SHARE);
                    quotas.spend(7, some, Nanos(0));
                    taken += u64::from(some);
                }
                Allowance::NextTurn => quotas.begin_turn(),
                Allowance::NotBefore(at) => break at,
            }
        };
        assert_eq!(taken, BURST);
        quotas.begin_turn();
        assert_eq!(quotas.allowance(7, wait), Allowance::Requests(TURN_SHARE));
        // In a second a user gets what is earned back in a second, however the requests are sent.
        let mut later = 0;
        for ns in (wait.0..wait.0 + 1_000_000_000).step_by(100_000) {
            quotas.begin_turn();
            while let Allowance::Requests(some) = quotas.allowance(7, Nanos(ns)) {
                quotas.spend(7, some, Nanos(0));
                quotas.begin_turn();
                later += u64::from(some);
            }
        }
        assert!((PER_SECOND - 100..=PER_SECOND + RESUME_AT).contains(&later), "{later} requests in a second");
    }
}
