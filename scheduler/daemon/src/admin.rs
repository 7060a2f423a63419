//! The admin socket: one JSON question per line, one JSON answer per line.
//!
//! Trap: an administrator's terminal can be as slow or as broken as any client, so nothing here blocks and every buffer
//! has a limit.

use eager_proto::admin::{AdminReply, AdminRequest};
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::Uid;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};

/// Connections at once; the oldest goes when one more comes.
const CONNECTIONS_MAX: usize = 16;
/// No question is longer.
const LINE_BYTES_MAX: usize = 4096;
/// Answers that were not read; more and the connection is closed.
const UNREAD_BYTES_MAX: usize = 16 << 20;

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    question: Vec<u8>,
    answer: Vec<u8>,
}

#[derive(Debug)]
pub struct AdminServer {
    listener: UnixListener,
    connections: BTreeMap<u64, Connection>,
    arrivals: u64,
}

impl AdminServer {
    /// The listener must not block.
    pub fn new(listener: UnixListener) -> AdminServer {
        AdminServer { listener, connections: BTreeMap::new(), arrivals: 0 }
    }

    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// A connection's socket, and whether an answer waits to be written; `None`: it is over.
    pub fn socket(&self, id: u64) -> Option<(BorrowedFd<'_>, bool)> {
        self.connections.get(&id).map(|open| (open.stream.as_fd(), !open.answer.is_empty()))
    }

    /// Takes in connections; `enter` puts each where its readiness is seen, or says that it cannot.
    pub fn accept_all(&mut self, enter: &mut dyn FnMut(u64, BorrowedFd<'_>) -> bool) {
        while let Ok((stream, _)) = self.listener.accept() {
            // The file's mode keeps others out; this also holds where the mode was changed.
            let uid = getsockopt(&stream, sockopt::PeerCredentials).map(|peer| peer.uid());
            let allowed = uid.is_ok_and(|uid| uid == 0 || uid == Uid::effective().as_raw());
            let mut ready = || stream.set_nonblocking(true).is_ok() && enter(self.arrivals, stream.as_fd());
            if !allowed || !ready() {
                continue;
            }
            if self.connections.len() >= CONNECTIONS_MAX {
                self.connections.pop_first();
            }
            let (question, answer) = (Vec::new(), Vec::new());
            self.connections.insert(self.arrivals, Connection { stream, question, answer });
            self.arrivals += 1;
        }
    }

    /// Reads questions of a connection, answers them, writes what it takes.
    pub fn serve(&mut self, id: u64, answer: &mut dyn FnMut(AdminRequest) -> AdminReply) {
        let Some(open) = self.connections.get_mut(&id) else { return };
        if !open.exchange(answer) {
            self.connections.remove(&id);
        }
    }
}

impl Connection {
    /// False when the connection is over.
    fn exchange(&mut self, answer: &mut dyn FnMut(AdminRequest) -> AdminReply) -> bool {
        let open = self.read();
        while let Some(end) = self.question.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.question.drain(..=end).collect();
            let reply = match serde_json::from_slice(&line) {
                Ok(request) => answer(request),
                Err(error) => AdminReply::Error { message: format!("not a question: {error}") },
            };
            // A reply is plain data; writing it to memory cannot fail.
            if serde_json::to_writer(&mut self.answer, &reply).is_err() {
                return false;
            }
            self.answer.push(b'\n');
        }
        let fits = self.question.len() <= LINE_BYTES_MAX && self.answer.len() <= UNREAD_BYTES_MAX;
        // After the end of the questions the answers are still written, as far as they go now.
        self.write() && open && fits
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
