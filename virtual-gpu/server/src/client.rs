//! One connection: reads bytes up to a limit, returns messages one by one, keeps answers up to a limit.
//!
//! Trap: a client that does not read must not stop the others, so writes never block, and the server stops reading from
//! a client that does not take its answers.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use eager_vgpu_link::{ClientFrame, FrameBuffer, HELLO_BYTES_MAX, ServerFrame, encode_frame};

use crate::Peer;
use crate::poller::Interest;

/// Bytes read from one connection in a turn.
const TURN_BYTES: usize = 256 << 10;
/// Bytes of untaken answers above which a client's requests wait.
const OUTBOX_BYTES_WAIT: usize = 64 << 10;
/// Bytes of untaken answers above which a client is dropped. Stopping its requests is not enough: answers to operations
/// arrive when those end.
const OUTBOX_BYTES_MAX: usize = 4 << 20;

#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    pub peer: Peer,
    pub since: Instant,
    inbox: FrameBuffer,
    outbox: Vec<u8>,
    /// The bytes read so far may still contain whole messages.
    pub has_more: bool,
    /// Events that the poller waits for.
    pub interest: Interest,
    /// Part of [`Client::buffered_bytes`] that is charged to the client's user.
    pub counted_bytes: usize,
}

/// Why a client is dropped; `Closed` is a normal end, `Fault` is logged.
#[derive(Debug)]
pub enum Gone {
    Closed,
    Fault(String),
}

impl Client {
    pub fn new(stream: UnixStream, peer: Peer, since: Instant) -> Client {
        let inbox = FrameBuffer::with_limit(HELLO_BYTES_MAX);
        let interest = Interest { read: true, write: false };
        Client { stream, peer, since, inbox, outbox: Vec::new(), has_more: false, interest, counted_bytes: 0 }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// True if the client takes its answers, so that it may send more requests.
    pub fn may_ask(&self) -> bool {
        self.outbox.len() < OUTBOX_BYTES_WAIT
    }

    pub fn wants_to_write(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Bytes that the server keeps for this client: unparsed input and untaken answers.
    pub fn buffered_bytes(&self) -> usize {
        self.inbox.buffered_bytes() + self.outbox.len()
    }

    /// The client has said hello: its messages may be longer from now on.
    pub fn greeted(&mut self) {
        self.inbox.set_limit(eager_vgpu_link::FRAME_BYTES_MAX);
    }

    /// Reads the bytes that have arrived, at most a turn's worth. Reads nothing while whole messages are left.
    pub fn read(&mut self) -> Result<(), Gone> {
        if self.has_more {
            return Ok(());
        }
        let mut chunk = [0; 64 << 10];
        let mut left = TURN_BYTES;
        while left > 0 {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(Gone::Closed),
                Ok(bytes) => {
                    self.has_more = true;
                    self.inbox.push(&chunk[..bytes]);
                    left = left.saturating_sub(bytes);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                // A client killed with unread answers ends in a reset.
                Err(_) => return Err(Gone::Closed),
            }
        }
        Ok(())
    }

    /// Returns the next whole message of the bytes read so far.
    pub fn next_frame(&mut self) -> Result<Option<ClientFrame>, Gone> {
        let next = self.inbox.next_message().map_err(|e| Gone::Fault(e.to_string()))?;
        self.has_more = next.is_some();
        Ok(next)
    }

    pub fn answer(&mut self, frame: &ServerFrame) -> Result<(), Gone> {
        let bytes = encode_frame(frame).map_err(|e| Gone::Fault(e.to_string()))?;
        self.outbox.extend(bytes);
        self.flush()
    }

    /// Writes as much as the client takes without blocking.
    pub fn flush(&mut self) -> Result<(), Gone> {
        let mut written = 0;
        while written < self.outbox.len() {
            match self.stream.write(&self.outbox[written..]) {
                Ok(bytes) => written += bytes,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return Err(Gone::Closed),
            }
        }
        self.outbox.drain(..written);
        if self.outbox.is_empty() {
            self.outbox.shrink_to(OUTBOX_BYTES_WAIT);
        }
        if self.outbox.len() > OUTBOX_BYTES_MAX {
            return Err(Gone::Fault("the program does not read its answers".to_owned()));
        }
        Ok(())
    }
}
