//! The daemon's connection to a server with a virtual clock. Never blocks, so it fits into the daemon's event loop.
//!
//! Trap: the clock stops when a [`Settle`] is sent and goes on only after [`DaemonLink::settled`], so a [`Settle`] left
//! unanswered stops every process on the clock.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::{
    ClientFrame, FrameBuffer, LinkError, PROTOCOL_VERSION, Reply, Request, RequestId, ServerFrame, Settle,
    Settled, encode_frame,
};

/// The daemon's end of the connection.
#[derive(Debug)]
pub struct DaemonLink {
    stream: UnixStream,
    inbox: FrameBuffer,
    next_id: u64,
}

impl DaemonLink {
    /// Connects and announces the daemon; from then on the clock waits for it.
    ///
    /// # Errors
    /// [`LinkError::Connect`] when no server listens.
    pub fn connect(path: &Path) -> Result<DaemonLink, LinkError> {
        let failed = |source| LinkError::Connect { path: path.to_owned(), source };
        let stream = UnixStream::connect(path).map_err(failed)?;
        let mut link = DaemonLink { stream, inbox: FrameBuffer::default(), next_id: 1 };
        link.send(Request::Hello { version: PROTOCOL_VERSION, pid: std::process::id() })?;
        link.settled(Settled::default())?;
        link.stream.set_nonblocking(true).map_err(failed)?;
        Ok(link)
    }

    /// The server's pending question, if any.
    ///
    /// # Errors
    /// The server is gone, refused, or sent a message that does not belong here.
    pub fn asked(&mut self) -> Result<Option<Settle>, LinkError> {
        let mut chunk = [0; 16 << 10];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(LinkError::Lost("connection closed".to_owned())),
                Ok(bytes) => self.inbox.push(&chunk[..bytes]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(LinkError::Lost(e.to_string())),
            }
        }
        while let Some(frame) = self.inbox.next_message::<ServerFrame>()? {
            match frame.reply? {
                Reply::Settle(settle) => return Ok(Some(settle)),
                Reply::Welcome { .. } => {}
                other => return Err(LinkError::Malformed { what: format!("{other:?} for the daemon") }),
            }
        }
        Ok(None)
    }

    /// Reports that the work of the last [`Settle`] is done.
    ///
    /// # Errors
    /// The server is gone.
    pub fn settled(&mut self, settled: Settled) -> Result<(), LinkError> {
        self.send(Request::Settled(settled))
    }

    fn send(&mut self, request: Request) -> Result<(), LinkError> {
        let frame = encode_frame(&ClientFrame { id: RequestId(self.next_id), request })?;
        self.next_id += 1;
        // A few bytes to a server that keeps reading: the socket has room.
        self.stream.write_all(&frame).map_err(|e| LinkError::Lost(e.to_string()))
    }
}

impl AsFd for DaemonLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
