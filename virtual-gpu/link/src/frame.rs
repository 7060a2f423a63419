//! Frames on the stream: four bytes of length (little endian), then the postcard encoding.
//!
//! A stream, not packets, because the touched ranges of a kernel may exceed what a packet can carry. Trap: the length
//! comes from the peer; [`FrameBuffer`] must reject lengths above its limit and allocate memory only for bytes that
//! have arrived.

use serde::{Serialize, de::DeserializeOwned};

use crate::LinkError;

/// Longest frame accepted: one million touched ranges fit.
pub const FRAME_BYTES_MAX: usize = 16 << 20;
/// Longest frame accepted from a client that has not said hello yet; a hello takes at most 26 bytes.
pub const HELLO_BYTES_MAX: usize = 64;
const PREFIX_BYTES: usize = 4;
/// Capacity that an empty buffer keeps.
const ROOM_KEPT_BYTES: usize = 64 << 10;

/// Encodes `message`, preceded by its length.
///
/// # Errors
/// [`LinkError::Malformed`] if the encoding would exceed [`FRAME_BYTES_MAX`].
pub fn encode_frame<T: Serialize>(message: &T) -> Result<Vec<u8>, LinkError> {
    let mut frame = postcard::to_extend(message, vec![0; PREFIX_BYTES])
        .map_err(|e| LinkError::Malformed { what: format!("message cannot be encoded: {e}") })?;
    let body_bytes = frame.len() - PREFIX_BYTES;
    if body_bytes > FRAME_BYTES_MAX {
        return Err(LinkError::Malformed { what: format!("message of {body_bytes} bytes is too long") });
    }
    let prefix = u32::try_from(body_bytes).expect("checked against FRAME_BYTES_MAX").to_le_bytes();
    frame[..PREFIX_BYTES].copy_from_slice(&prefix);
    Ok(frame)
}

/// Collects bytes as they arrive and returns whole messages.
#[derive(Debug)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
    /// Bytes at the front that were returned already; dropped when the buffer is next filled.
    consumed: usize,
    frame_bytes_max: usize,
}

impl Default for FrameBuffer {
    fn default() -> FrameBuffer {
        FrameBuffer::with_limit(FRAME_BYTES_MAX)
    }
}

impl FrameBuffer {
    /// Accepts frames of at most `frame_bytes_max` bytes.
    pub fn with_limit(frame_bytes_max: usize) -> FrameBuffer {
        FrameBuffer { bytes: Vec::new(), consumed: 0, frame_bytes_max }
    }

    /// Changes the limit to `frame_bytes_max` bytes from now on.
    pub fn set_limit(&mut self, frame_bytes_max: usize) {
        self.frame_bytes_max = frame_bytes_max;
    }

    pub fn push(&mut self, arrived: &[u8]) {
        self.bytes.drain(..self.consumed);
        self.consumed = 0;
        if self.bytes.is_empty() {
            self.bytes.shrink_to(ROOM_KEPT_BYTES);
        }
        self.bytes.extend_from_slice(arrived);
    }

    /// Number of bytes that arrived and were not returned yet.
    pub fn buffered_bytes(&self) -> usize {
        self.bytes.len() - self.consumed
    }

    /// Returns the next whole message, or `None` until more bytes arrive.
    ///
    /// # Errors
    /// [`LinkError::Malformed`] when the bytes are not a frame; the connection is then of no more use.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, LinkError> {
        let rest = &self.bytes[self.consumed..];
        let Some((prefix, body)) = rest.split_first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let body_bytes = u32::from_le_bytes(*prefix) as usize;
        if body_bytes > self.frame_bytes_max {
            return Err(LinkError::Malformed { what: format!("frame of {body_bytes} bytes") });
        }
        let Some(body) = body.get(..body_bytes) else { return Ok(None) };
        let message = decode(body)?;
        self.consumed += PREFIX_BYTES + body_bytes;
        Ok(Some(message))
    }
}

/// Decodes the message that fills `body`.
///
/// # Errors
/// [`LinkError::Malformed`] when `body` is not exactly one message.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, LinkError> {
    let (message, left) =
        postcard::take_from_bytes(body).map_err(|e| LinkError::Malformed { what: e.to_string() })?;
    if !left.is_empty() {
        return Err(LinkError::Malformed { what: format!("{} bytes after the message", left.len()) });
    }
    Ok(message)
}
