//! A daemon's presence at a server: the server keeps running while this connection lasts.
//!
//! Trap: the server need not be the daemon's child, so waiting for a child would miss its end; only the end of this
//! connection shows it.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, sockopt};

use crate::{
    ClientFrame, FrameBuffer, LinkError, PROTOCOL_VERSION, Reply, Request, RequestId, ServerFrame, Serving,
    encode_frame,
};

/// Longest wait for the server's answer.
const ANSWER: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Attendance {
    stream: UnixStream,
    serving: Serving,
    pid: i32,
}

impl Attendance {
    /// # Errors
    /// [`LinkError::Connect`] when no server listens; another variant when the server is of another build or is not
    /// `eager-vgpud`.
    pub fn connect(path: &Path) -> Result<Attendance, LinkError> {
        let failed = |source| LinkError::Connect { path: path.to_owned(), source };
        let mut stream = UnixStream::connect(path).map_err(failed)?;
        let pid = getsockopt(&stream, sockopt::PeerCredentials).map_or(0, |peer| peer.pid());
        stream.set_read_timeout(Some(ANSWER)).map_err(failed)?;
        let hello = Request::Hello { version: PROTOCOL_VERSION, pid: std::process::id() };
        for (id, request) in (1..).map(RequestId).zip([hello, Request::Attend]) {
            send(&mut stream, id, request)?;
        }
        let mut inbox = FrameBuffer::default();
        let serving = loop {
            match receive(&mut stream, &mut inbox)?.reply? {
                Reply::Attended(serving) => break serving,
                Reply::Welcome { .. } => {}
                other => return Err(LinkError::Malformed { what: format!("{other:?} for a daemon") }),
            }
        };
        stream.set_nonblocking(true).map_err(failed)?;
        Ok(Attendance { stream, serving, pid })
    }

    /// Settings that the server was started with.
    pub fn serving(&self) -> &Serving {
        &self.serving
    }

    /// The server's process number.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub fn has_ended(&mut self) -> bool {
        match self.stream.read(&mut [0; 64]) {
            Ok(bytes) => bytes == 0,
            Err(e) => !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    /// Reports that this daemon ends for good. Returns true if the server has ended within `limit`, false if programs
    /// still use it.
    pub fn dismiss(&mut self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        if self.stream.set_nonblocking(false).is_err()
            || send(&mut self.stream, RequestId(3), Request::Dismiss).is_err()
        {
            return true;
        }
        let mut inbox = FrameBuffer::default();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stream.set_read_timeout(Some(left)).is_err() {
                return false;
            }
            match receive(&mut self.stream, &mut inbox) {
                Ok(_) => {}
                Err(_) => return Instant::now() < deadline,
            }
        }
    }
}

impl AsFd for Attendance {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn send(stream: &mut UnixStream, id: RequestId, request: Request) -> Result<(), LinkError> {
    let frame = encode_frame(&ClientFrame { id, request })?;
    stream.write_all(&frame).map_err(|e| LinkError::Lost(e.to_string()))
}

fn receive(stream: &mut UnixStream, inbox: &mut FrameBuffer) -> Result<ServerFrame, LinkError> {
    let mut chunk = [0; 4096];
    loop {
        if let Some(frame) = inbox.next_message()? {
            return Ok(frame);
        }
        match stream.read(&mut chunk) {
            Ok(0) => return Err(LinkError::Lost("connection closed".to_owned())),
            Ok(bytes) => inbox.push(&chunk[..bytes]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(LinkError::Lost(e.to_string())),
        }
    }
}
