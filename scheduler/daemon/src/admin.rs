//! The admin socket: one JSON question per line, one JSON answer per line, and who asked.
//!
//! Traps: an administrator's terminal can be as slow or as broken as any client, so nothing here blocks and every buffer
//! has a limit. And everybody may connect to a daemon of root: strangers have limits of their own, within which they
//! cannot keep the owner out.

use crate::backlog::processor_time;
use eager_proto::admin::{AdminReply, AdminRequest, from_line, to_line};
use eager_units::Nanos;
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::Uid;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};

/// Connections of the daemon's own user and root at once; the oldest goes when one more comes (specification S-715).
const OWN_CONNECTIONS_MAX: usize = 16;
/// The same of each other user, and of all others together.
const USER_CONNECTIONS_MAX: usize = 4;
const OTHER_CONNECTIONS_MAX: usize = 48;
/// Taken in one turn; more wait for the next.
const ACCEPTED_MAX: usize = 16;
/// Questions that are answered to another user in one second.
const USER_QUESTIONS_MAX: u32 = 100;
/// Processor time that answers to another user may take at once: a table of thousands of waiting tasks takes longer.
const USER_TIME_BURST: Nanos = Nanos(10_000_000);
/// Of the time that passes, answers to another user take this part when questions go on: whoever waits for a grant meanwhile
/// waits for the whole answer.
const USER_TIME_PART: u64 = 200;
/// No question is longer.
const LINE_BYTES_MAX: usize = 4096;
/// Answers that were not read; more and the connection is closed.
const UNREAD_BYTES_MAX: usize = 16 << 20;

/// Who asks, by the kernel's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    pub uid: u32,
    pub pid: i32,
}

impl Caller {
    /// The daemon's own user, or root.
    pub fn is_owner(self) -> bool {
        self.uid == 0 || self.uid == Uid::effective().as_raw()
    }

    /// What another user is told.
    pub fn must_own(self, what: &str) -> Result<(), String> {
        if self.is_owner() { Ok(()) } else { Err(format!("only root and the daemon's own user may {what}")) }
    }
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    by: Caller,
    question: Vec<u8>,
    answer: Vec<u8>,
    /// It ends when its answer is written.
    is_over: bool,
}

/// Questions of users in one second, and the processor time that the answers took.
#[derive(Debug, Default)]
struct Rates {
    second: u64,
    questions: BTreeMap<u32, u32>,
    /// Of users whose answers took time: when it will have come back.
    paid_at: BTreeMap<u32, Nanos>,
}

impl Rates {
    /// # Errors
    /// Why the question is not answered now.
    fn admit(&mut self, by: Caller, now: Nanos) -> Result<(), String> {
        let second = now.0 / 1_000_000_000;
        if second != self.second {
            (self.second, self.questions) = (second, BTreeMap::new());
        }
        let questions = self.questions.entry(by.uid).or_default();
        *questions += 1;
        if by.is_owner() {
            return Ok(());
        }
        if *questions > USER_QUESTIONS_MAX {
            return Err(format!("more than {USER_QUESTIONS_MAX} questions of uid {} in a second", by.uid));
        }
        let burst = USER_TIME_BURST.0 * USER_TIME_PART;
        let paid_at = self.paid_at.get(&by.uid).copied().unwrap_or_default();
        let wait = Nanos(paid_at.saturating_sub(now).0.saturating_sub(burst));
        if wait > Nanos(0) {
            let why = "answers to one user may take 1/200 of the daemon's time";
            return Err(format!("{why}: ask again in {wait} (uid {})", by.uid));
        }
        Ok(())
    }

    /// An answer took so much processor time.
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
    arrivals: u64,
    rates: Rates,
}

impl AdminServer {
    /// The listener must not block.
    pub fn new(listener: UnixListener) -> AdminServer {
        AdminServer { listener, connections: BTreeMap::new(), arrivals: 0, rates: Rates::default() }
    }

    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// A connection's socket, and whether an answer waits to be written; `None`: it is over.
    pub fn socket(&self, id: u64) -> Option<(BorrowedFd<'_>, bool)> {
        self.connections.get(&id).map(|open| (open.stream.as_fd(), !open.answer.is_empty()))
    }

    /// Takes in connections of users whom `serves` admits; `enter` puts each where its readiness is seen, or says that it
    /// cannot.
    pub fn accept(
        &mut self,
        serves: &dyn Fn(u32, BorrowedFd<'_>) -> bool,
        enter: &mut dyn FnMut(u64, BorrowedFd<'_>) -> bool,
    ) {
        for _ in 0..ACCEPTED_MAX {
            let Ok((stream, _)) = self.listener.accept() else { return };
            let Ok(peer) = getsockopt(&stream, sockopt::PeerCredentials) else { continue };
            let by = Caller { uid: peer.uid(), pid: peer.pid() };
            let allowed = by.is_owner() || serves(by.uid, stream.as_fd());
            let mut ready = || stream.set_nonblocking(true).is_ok() && enter(self.arrivals, stream.as_fd());
            if !allowed || !ready() {
                continue;
            }
            self.make_room(by);
            let (question, answer) = (Vec::new(), Vec::new());
            self.connections
                .insert(self.arrivals, Connection { stream, by, question, answer, is_over: false });
            self.arrivals += 1;
        }
    }

    /// The oldest of those goes with whom a newcomer shares a limit that is reached.
    fn make_room(&mut self, by: Caller) {
        self.end_oldest(OTHER_CONNECTIONS_MAX, |other| !by.is_owner() && !other.is_owner());
        let own = if by.is_owner() { OWN_CONNECTIONS_MAX } else { USER_CONNECTIONS_MAX };
        self.end_oldest(own, |other| if by.is_owner() { other.is_owner() } else { other.uid == by.uid });
    }

    fn end_oldest(&mut self, at_most: usize, shares: impl Fn(Caller) -> bool) {
        let sharing = self.connections.iter().filter(|(_, open)| shares(open.by));
        let ids: Vec<u64> = sharing.map(|(id, _)| *id).collect();
        if ids.len() >= at_most {
            ids.first().map(|oldest| self.connections.remove(oldest));
        }
    }

    /// Reads questions of a connection, answers them, writes what it takes.
    pub fn serve(&mut self, id: u64, now: Nanos, answer: &mut dyn FnMut(Caller, AdminRequest) -> AdminReply) {
        let Some(open) = self.connections.get_mut(&id) else { return };
        let (by, rates) = (open.by, &mut self.rates);
        let begun = processor_time();
        let goes_on = open.exchange(&mut |line| match (rates.admit(by, now), from_line(line)) {
            (Err(message), _) => AdminReply::Error { message },
            (Ok(()), Ok(request)) => answer(by, request),
            (Ok(()), Err(error)) => AdminReply::Error { message: format!("not a question: {error}") },
        });
        rates.charge(by, processor_time().saturating_sub(begun), now);
        if !goes_on {
            self.connections.remove(&id);
        }
    }
}

impl Connection {
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
            // Others come with one question: a stream of them would take the daemon's turns.
            self.is_over = !self.by.is_owner();
        }
        let fits = self.question.len() <= LINE_BYTES_MAX && self.answer.len() <= UNREAD_BYTES_MAX;
        // After the end of the questions the answers are still written, as far as they go now.
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
        // As fast as it can for a minute.
        for ms in 0..60_000 {
            let now = Nanos(ms * 1_000_000);
            if rates.admit(STRANGER, now).is_ok() {
                rates.charge(STRANGER, answer, now);
                (asked, took) = (asked + 1, Nanos(took.0 + answer.0));
            }
            assert!(rates.admit(Caller { uid: 0, pid: 1 }, now).is_ok());
        }
        assert!((5..=7).contains(&asked), "{asked} answers took {took}");
        let refused = rates.admit(STRANGER, Nanos::from_secs(60)).expect_err("its time is used up");
        assert!(refused.contains("ask again in"), "{refused}");
        assert!(rates.admit(Caller { uid: 61_002, pid: 1 }, Nanos::from_secs(60)).is_ok());
        assert!(rates.admit(STRANGER, Nanos::from_secs(90)).is_ok());
        rates.charge(Caller { uid: 0, pid: 1 }, answer, Nanos::from_secs(1000));
        assert!(rates.paid_at.is_empty());
    }

    #[test]
    fn short_answers_come_as_often_as_they_are_asked_for() {
        let mut rates = Rates::default();
        for question in 0..50 {
            let now = Nanos(question * 20_000_000);
            assert!(rates.admit(STRANGER, now).is_ok(), "question {question}");
            rates.charge(STRANGER, Nanos(100_000), now);
        }
    }
}
