//! The client's end of a connection to a server behind a Unix socket.
//!
//! One thread reads replies and wakes the thread that waits for each, so that many streams of one process can have an
//! operation under way at once. Trap: the reader holds the stream as well; only shutting the socket down (on drop) ends
//! it.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};

use crate::{
    Backend, ClientFrame, FIRST_REQUEST, FrameBuffer, LinkError, PROTOCOL_VERSION, Refusal, Reply, Request,
    RequestId, ServerFrame, encode_frame,
};

/// A connection to a virtual GPU server. When it ends, the server frees everything that the process holds.
#[derive(Debug)]
pub struct Socket {
    writer: Mutex<UnixStream>,
    descriptors: [RawFd; 2],
    inbox: Arc<Inbox>,
}

#[derive(Debug, Default)]
struct Inbox {
    state: Mutex<InboxState>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct InboxState {
    next_id: u64,
    replies: BTreeMap<RequestId, Result<Reply, Refusal>>,
    /// Why no more replies will arrive.
    lost: Option<String>,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, InboxState> {
        // No code that holds the lock can leave the state half changed, so poison can be ignored.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for(&self, id: RequestId) -> Result<Reply, LinkError> {
        let mut state = self.lock();
        loop {
            if let Some(reply) = state.replies.remove(&id) {
                return Ok(reply?);
            }
            if let Some(why) = &state.lost {
                return Err(LinkError::Lost(why.clone()));
            }
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Socket {
    /// Connects to the server at `path` and agrees on the protocol.
    ///
    /// # Errors
    /// [`LinkError::Connect`] when no server listens, [`LinkError::Refused`] when the versions differ.
    pub fn connect(path: &Path) -> Result<Socket, LinkError> {
        let connect_error = |source| LinkError::Connect { path: path.to_owned(), source };
        let writer = UnixStream::connect(path).map_err(connect_error)?;
        let reader = writer.try_clone().map_err(connect_error)?;
        let descriptors = [writer.as_raw_fd(), reader.as_raw_fd()];
        let inbox = Arc::new(Inbox::default());
        let readers_inbox = Arc::clone(&inbox);
        std::thread::Builder::new()
            .name("vgpu-link".to_owned())
            .spawn(move || read_replies(reader, &readers_inbox))
            .map_err(LinkError::NoThread)?;
        let socket = Socket { writer: Mutex::new(writer), descriptors, inbox };
        let hello = Request::Hello { version: PROTOCOL_VERSION, pid: std::process::id() };
        match socket.call(hello) {
            // A server that turns a connection away sends the reason and closes it, maybe before the hello could be
            // written.
            Err(LinkError::Lost(_)) => socket.inbox.wait_for(FIRST_REQUEST)?,
            other => other?,
        };
        Ok(socket)
    }

    /// Descriptors that a forked child must close; otherwise the server takes the child for a user that is still alive.
    pub fn descriptors(&self) -> Vec<RawFd> {
        self.descriptors.into()
    }
}

impl Backend for Socket {
    fn send(&self, request: Request) -> Result<RequestId, LinkError> {
        let id = {
            let mut state = self.inbox.lock();
            state.next_id += 1;
            RequestId(state.next_id)
        };
        let frame = encode_frame(&ClientFrame { id, request })?;
        let written = send_all(&self.writer.lock().unwrap_or_else(PoisonError::into_inner), &frame);
        written.map_err(|e| LinkError::Lost(e.to_string()))?;
        Ok(id)
    }

    fn wait(&self, id: RequestId) -> Result<Reply, LinkError> {
        self.inbox.wait_for(id)
    }
}

/// Writes all of `rest`. A C program has not disabled SIGPIPE, so writing to a server that is gone must not raise it.
fn send_all(stream: &UnixStream, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        match send(stream.as_raw_fd(), rest, MsgFlags::MSG_NOSIGNAL) {
            Ok(sent) => rest = &rest[sent..],
            Err(Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

impl Drop for Socket {
    fn drop(&mut self) {
        let writer = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner);
        // An error means the server ended the connection first.
        let _ = writer.shutdown(Shutdown::Both);
    }
}

fn read_replies(mut stream: UnixStream, inbox: &Inbox) {
    let mut frames = FrameBuffer::default();
    let mut chunk = vec![0; 64 << 10];
    let why = loop {
        match stream.read(&mut chunk) {
            Ok(0) => break "connection closed".to_owned(),
            Ok(bytes) => frames.push(&chunk[..bytes]),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => break e.to_string(),
        }
        if let Err(e) = deliver(&mut frames, inbox) {
            break e.to_string();
        }
    };
    inbox.lock().lost = Some(why);
    inbox.arrived.notify_all();
}

fn deliver(frames: &mut FrameBuffer, inbox: &Inbox) -> Result<(), LinkError> {
    while let Some(frame) = frames.next_message::<ServerFrame>()? {
        inbox.lock().replies.insert(frame.id, frame.reply);
        inbox.arrived.notify_all();
    }
    Ok(())
}
