//! The admin socket: one JSON request per line, one JSON answer per line, with the caller's identity.
//!
//! Traps: an administrator's terminal can be as slow or as broken as any client, so nothing here may block and every
//! buffer needs a limit. Every user may connect to a daemon of root: strangers have limits of their own, within which
//! they cannot keep the owner out.

use crate::admin::refusal::Refused;
use crate::clients::newcomers::is_shortage;
use crate::clients::places::Places;
use crate::process::processor_time::processor_time;
use eager_proto::admin::{AdminReply, AdminRequest, from_line, to_line};
use eager_units::Nanos;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::Uid;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};

/// Connections without a request at once: so many of the daemon's own user and root, and as many of all other users, if
/// there are descriptors for so many; half of them for one user (specification S-715).
const SILENT_MAX: usize = 512;
/// Time that another user's connection has for its request, and then for its answer (specification S-715).
const QUESTION_NS_MAX: Nanos = Nanos::from_secs(5);
const ANSWER_NS_MAX: Nanos = Nanos::from_secs(10);
/// Unread answers to the daemon's own user and root, to each other user, and to all other users; beyond it the oldest
/// goes.
const OWN_UNREAD_MAX: usize = 16;
const USER_UNREAD_MAX: usize = 4;
const OTHER_UNREAD_MAX: usize = 48;
/// Connections accepted in one turn; more wait for the next turn.
const ACCEPTED_MAX: usize = 16;
/// Requests of another user that are answered in one second.
pub(super) const USER_QUESTIONS_MAX: u32 = 100;
/// Processor time that answers to another user may take at once: a table of thousands of waiting tasks takes longer.
const USER_TIME_BURST: Nanos = Nanos(10_000_000);
/// Answers to another user who keeps asking take 1/200 of the time: a client that waits for a grant meanwhile waits for
/// the whole answer.
const USER_TIME_PART: u64 = 200;
/// Most bytes of a request.
const LINE_BYTES_MAX: usize = 4096;
/// Most unread bytes of answers; beyond it the connection is closed.
const UNREAD_BYTES_MAX: usize = 16 << 20;

/// The process that asks, according to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    pub uid: u32,
    pub pid: i32,
}

impl Caller {
    /// True for the daemon's own user and root.
    pub fn is_owner(self) -> bool {
        self.uid == 0 || self.uid == Uid::effective().as_raw()
    }

    /// Rejects any other user, with the message for that user.
    pub fn require_owner(self, act: &'static str) -> Result<(), Refused> {
        if self.is_owner() { Ok(()) } else { Err(Refused::OwnerOnly { act }) }
    }
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    by: Caller,
    question: Vec<u8>,
    answer: Vec<u8>,
    /// The connection ends when its answer is written.
    is_over: bool,
    /// The connection ends then in any case.
    until: Option<Nanos>,
}

/// Requests of users in one second, and the processor time that the answers took.
#[derive(Debug, Default)]
struct Rates {
    second: u64,
    questions: BTreeMap<u32, u32>,
    /// Users whose answers took time, and when that time is paid back.
    paid_at: BTreeMap<u32, Nanos>,
}

impl Rates {
    /// # Errors
    /// Why no request of the user is answered now.
    fn admit(&mut self, by: Caller, now: Nanos) -> Result<(), Refused> {
        let second = now.0 / 1_000_000_000;
        if second != self.second {
            (self.second, self.questions) = (second, BTreeMap::new());
        }
        let questions = self.questions.entry(by.uid).or_default();
        *questions += 1;
        if !by.is_owner() && *questions > USER_QUESTIONS_MAX {
            return Err(Refused::TooMany { uid: by.uid });
        }
        Ok(())
    }

    /// # Errors
    /// Why a request whose answer may be long is not answered now.
    fn admit_long(&self, by: Caller, now: Nanos) -> Result<(), Refused> {
        if by.is_owner() {
            return Ok(());
        }
        let burst = USER_TIME_BURST.0 * USER_TIME_PART;
        let paid_at = self.paid_at.get(&by.uid).copied().unwrap_or_default();
        let wait = Nanos(paid_at.saturating_sub(now).0.saturating_sub(burst));
        if wait > Nanos(0) { Err(Refused::TooLong { uid: by.uid, wait }) } else { Ok(()) }
    }

    /// Charges the processor time of an answer to its user.
    fn charge(&mut self, by: Caller, took: Nanos, now: Nanos) {
        self.paid_at.retain(|_, at| *at > now);
        if !by.is_owner() {
            let paid_at = self.paid_at.entry(by.uid).or_insert(now);
            *paid_at = Nanos(paid_at.0.saturating_add(took.0.saturating_mul(USER_TIME_PART)));
        }
    }
}

#[derive(Debug)]
pub struct AdminServer {
    listener: UnixListener,
    connections: BTreeMap<u64, Connection>,
    /// Places of the daemon's own user and root, which no other user can take, and places of the other users.
    own: Places,
    others: Places,
    arrivals: u64,
    rates: Rates,
}

impl AdminServer {
    /// The listener must not block. `descriptors`: how many the process may have; a small part of them is for
    /// connections here.
    pub fn new(listener: UnixListener, descriptors: u64) -> AdminServer {
        let limit = usize::try_from(descriptors / 16).unwrap_or(SILENT_MAX).clamp(8, SILENT_MAX);
        let (own, others) = (Places::new(limit), Places::new(limit));
        AdminServer {
            listener,
            connections: BTreeMap::new(),
            own,
            others,
            arrivals: 0,
            rates: Rates::default(),
        }
    }

    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// A connection's socket, and whether an answer waits to be written; `None` if the connection is over.
    pub fn socket(&self, id: u64) -> Option<(BorrowedFd<'_>, bool)> {
        self.connections.get(&id).map(|open| (open.stream.as_fd(), !open.answer.is_empty()))
    }

    /// Accepts connections of users whom `serves` admits. `enter` adds each to the poller, or returns that it cannot;
    /// `users` gets each uid. `Err` if the process or the system has no descriptor left.
    pub fn accept(
        &mut self,
        now: Nanos,
        serves: &dyn Fn(u32, BorrowedFd<'_>) -> bool,
        enter: &mut dyn FnMut(u64, BorrowedFd<'_>) -> bool,
        users: &mut Vec<u32>,
    ) -> Result<(), Errno> {
        for _ in 0..ACCEPTED_MAX {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => {
                    let errno = Errno::from_raw(error.raw_os_error().unwrap_or_default());
                    return if is_shortage(errno) { Err(errno) } else { Ok(()) };
                }
            };
            let Ok(peer) = getsockopt(&stream, sockopt::PeerCredentials) else { continue };
            let by = Caller { uid: peer.uid(), pid: peer.pid() };
            users.push(by.uid);
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if !by.is_owner() && !serves(by.uid, stream.as_fd()) {
                write_reply(
                    &stream,
                    &AdminReply::Error { message: format!("uid {} is not served here", by.uid) },
                );
            } else if !self.make_room_for(by) {
                write_reply(&stream, &too_many_connections(by.uid));
            } else if enter(self.arrivals, stream.as_fd()) {
                let until = (!by.is_owner()).then(|| Nanos(now.0.saturating_add(QUESTION_NS_MAX.0)));
                let (question, answer) = (Vec::new(), Vec::new());
                self.places(by).take(by.uid);
                let open = Connection { stream, by, question, answer, is_over: false, until };
                self.connections.insert(self.arrivals, open);
                self.arrivals += 1;
            }
        }
        Ok(())
    }

    fn places(&mut self, by: Caller) -> &mut Places {
        if by.is_owner() { &mut self.own } else { &mut self.others }
    }

    /// Evicts the oldest silent connection of the user who has to make room. False if none of that user's connections
    /// is silent.
    fn make_room_for(&mut self, by: Caller) -> bool {
        let Some(from) = self.places(by).wanted_from(by.uid) else { return true };
        let mut theirs = self.connections.iter().filter(|(_, open)| open.by.uid == from);
        let silent = theirs.find(|(_, open)| open.is_silent()).map(|(id, _)| *id);
        if let Some(open) = silent.and_then(|id| self.remove(id)) {
            write_reply(&open.stream, &too_many_connections(from));
        }
        silent.is_some()
    }

    fn remove(&mut self, id: u64) -> Option<Connection> {
        let open = self.connections.remove(&id)?;
        if !open.is_over {
            self.places(open.by).give_back(open.by.uid);
        }
        Some(open)
    }

    /// When the next connection runs out of time.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.connections.values().filter_map(|open| open.until).min()
    }

    /// Ends connections that have run out of time.
    pub fn expire(&mut self, now: Nanos) {
        let late = self.connections.iter().filter(|(_, open)| open.until.is_some_and(|until| until <= now));
        let late: Vec<u64> = late.map(|(id, _)| *id).collect();
        late.into_iter().for_each(|id| drop(self.remove(id)));
    }

    /// The user of a connection.
    pub fn uid(&self, id: u64) -> Option<u32> {
        self.connections.get(&id).map(|open| open.by.uid)
    }

    /// Reads a connection's requests, answers them, and writes as much as the socket takes.
    pub fn serve(&mut self, id: u64, now: Nanos, answer: &mut dyn FnMut(Caller, AdminRequest) -> AdminReply) {
        let Some(open) = self.connections.get_mut(&id) else { return };
        let (by, was_over, rates) = (open.by, open.is_over, &mut self.rates);
        let (begun, mut is_answered) = (processor_time(), false);
        let goes_on = open.exchange(&mut |line| {
            if let Err(refused) = rates.admit(by, now) {
                return AdminReply::Busy { message: refused.to_string() };
            }
            let request = match from_line(line) {
                Ok(request) => request,
                Err(error) => return AdminReply::Error { message: format!("not a valid request: {error}") },
            };
            if is_long(&request)
                && let Err(refused) = rates.admit_long(by, now)
            {
                return AdminReply::Busy { message: refused.to_string() };
            }
            is_answered = true;
            answer(by, request)
        });
        let is_over = open.is_over;
        if is_over && !was_over {
            open.until = Some(Nanos(now.0.saturating_add(ANSWER_NS_MAX.0)));
            self.places(by).give_back(by.uid);
        }
        // A refusal is not charged: otherwise a user would wait the longer, the more often that user asks.
        if is_answered {
            self.rates.charge(by, processor_time().saturating_sub(begun), now);
        }
        if goes_on { self.bound_unread(by) } else { drop(self.remove(id)) }
    }

    /// Closes the oldest connection with an unread answer, if the connections that share a limit with `by` exceed it.
    fn bound_unread(&mut self, by: Caller) {
        if by.is_owner() {
            return self.end_oldest_unread(OWN_UNREAD_MAX, |other| other.is_owner());
        }
        self.end_oldest_unread(USER_UNREAD_MAX, |other| other.uid == by.uid);
        self.end_oldest_unread(OTHER_UNREAD_MAX, |other| !other.is_owner());
    }

    fn end_oldest_unread(&mut self, at_most: usize, shares: impl Fn(Caller) -> bool) {
        let unread = |open: &Connection| !open.answer.is_empty() && shares(open.by);
        let ids: Vec<u64> =
            self.connections.iter().filter(|(_, open)| unread(open)).map(|(id, _)| *id).collect();
        if ids.len() > at_most {
            ids.first().map(|oldest| self.remove(*oldest));
        }
    }
}

/// True if the answer grows with the tasks of all users. Whoever has looked at such a list must still be able to act, so
/// the time that lists took does not delay other requests.
fn is_long(request: &AdminRequest) -> bool {
    use AdminRequest::{Explain, ExplainDevice, History, Ps, Queue, Snapshot};
    matches!(request, Ps | Queue | Snapshot { .. } | History { .. } | Explain { .. } | ExplainDevice { .. })
}

/// Answer to a user who has all permitted connections already.
fn too_many_connections(uid: u32) -> AdminReply {
    AdminReply::Busy { message: format!("uid {uid} has too many connections without a request") }
}

/// Writes a reply as far as the socket takes it, on a connection that is about to be closed.
fn write_reply(mut stream: &UnixStream, reply: &AdminReply) {
    let _ = to_line(reply).map(|line| stream.write(&line));
}

impl Connection {
    /// True if nothing has arrived that was not read.
    fn is_silent(&self) -> bool {
        let mut fds = [PollFd::new(self.stream.as_fd(), PollFlags::POLLIN)];
        self.answer.is_empty() && poll(&mut fds, PollTimeout::ZERO) == Ok(0)
    }

    /// False when the connection is over.
    fn exchange(&mut self, answer: &mut dyn FnMut(&[u8]) -> AdminReply) -> bool {
        let open = self.read();
        while !self.is_over
            && let Some(end) = self.question.iter().position(|&byte| byte == b'\n')
        {
            let line: Vec<u8> = self.question.drain(..=end).collect();
            // A reply is plain data; writing it to memory cannot fail.
            let Ok(reply) = to_line(&answer(&line)) else { return false };
            self.answer.extend(reply);
            // Other users' connections end after one request: a stream of them would take the daemon's turns.
            self.is_over = !self.by.is_owner();
        }
        let fits = self.question.len() <= LINE_BYTES_MAX && self.answer.len() <= UNREAD_BYTES_MAX;
        // After the client's end of input the answers are still written, as far as they go now.
        self.write() && open && fits && !(self.is_over && self.answer.is_empty())
    }

    fn read(&mut self) -> bool {
        let mut buffer = [0; LINE_BYTES_MAX];
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(bytes) => {
                self.question.extend_from_slice(&buffer[..bytes]);
                true
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    fn write(&mut self) -> bool {
        while !self.answer.is_empty() {
            match self.stream.write(&self.answer) {
                Ok(written) => drop(self.answer.drain(..written)),
                Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRANGER: Caller = Caller { uid: 61_001, pid: 1 };

    #[test]
    fn long_answers_to_a_user_are_a_small_part_of_the_time_and_cost_no_other_user_his() {
        let mut rates = Rates::default();
        let (mut asked, mut took, answer) = (0u64, Nanos(0), Nanos(60_000_000));
        // As fast as possible, for a minute.
        for ms in 0..60_000 {
            let now = Nanos(ms * 1_000_000);
            if rates.admit_long(STRANGER, now).is_ok() {
                rates.charge(STRANGER, answer, now);
                (asked, took) = (asked + 1, Nanos(took.0 + answer.0));
            }
            assert!(rates.admit_long(Caller { uid: 0, pid: 1 }, now).is_ok());
        }
        assert!((5..=7).contains(&asked), "{asked} answers took {took}");
        let refused = rates.admit_long(STRANGER, Nanos::from_secs(60)).expect_err("its time is used up");
        let refused = refused.to_string();
        assert!(
            refused.starts_with("answers to one user may take 1/200 of the daemon's time: ask"),
            "{refused}"
        );
        assert!(rates.admit_long(Caller { uid: 61_002, pid: 1 }, Nanos::from_secs(60)).is_ok());
        assert!(rates.admit_long(STRANGER, Nanos::from_secs(90)).is_ok());
        rates.charge(Caller { uid: 0, pid: 1 }, answer, Nanos::from_secs(1000));
        assert!(rates.paid_at.is_empty());
    }

    /// A user who has looked at a long list may cancel a task of their own at once.
    #[test]
    fn requests_with_short_answers_do_not_wait_for_the_time_that_lists_took() {
        let cancel = AdminRequest::Cancel { task: 1, signal: "SIGTERM".into(), ends_waiting: false };
        let short = [cancel, AdminRequest::Info, AdminRequest::Hold { task: 1 }, AdminRequest::Policy];
        assert!(short.iter().all(|request| !is_long(request)));
        assert!(is_long(&AdminRequest::Ps) && is_long(&AdminRequest::Snapshot { tasks_max: 1 }));
    }

    #[test]
    fn short_answers_come_as_often_as_they_are_asked_for() {
        let mut rates = Rates::default();
        for question in 0..50 {
            let now = Nanos(question * 20_000_000);
            assert!(rates.admit(STRANGER, now).is_ok(), "question {question}");
            assert!(rates.admit_long(STRANGER, now).is_ok(), "question {question}");
            rates.charge(STRANGER, Nanos(100_000), now);
        }
    }
}
