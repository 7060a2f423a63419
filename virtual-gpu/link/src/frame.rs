//! Frames on the stream: four bytes of length (little endian), then the postcard encoding.
//!
//! A stream and not packets, because the touched ranges of a kernel may exceed what one packet can carry. Trap: the
//! length comes from the other side; [`FrameBuffer`] refuses what is above [`FRAME_BYTES_MAX`] before it allocates.

use serde::{Serialize, de::DeserializeOwned};

use crate::LinkError;

/// Longest frame accepted: one million touched ranges fit several times.
pub const FRAME_BYTES_MAX: usize = 64 << 20;
const PREFIX_BYTES: usize = 4;

/// Encodes `message` with its length before it.
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

/// Collects bytes as they arrive and gives out whole messages.
#[derive(Debug, Default)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
    /// Bytes at the front that were given out already; dropped when the buffer is next filled.
    consumed: usize,
}

impl FrameBuffer {
    pub fn push(&mut self, arrived: &[u8]) {
        self.bytes.drain(..self.consumed);
        self.consumed = 0;
        self.bytes.extend_from_slice(arrived);
    }

    /// The next whole message, or `None` until more bytes arrive.
    ///
    /// # Errors
    /// [`LinkError::Malformed`] when the bytes are no frame; the connection is then of no more use.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, LinkError> {
        let rest = &self.bytes[self.consumed..];
        let Some((prefix, body)) = rest.split_first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let body_bytes = u32::from_le_bytes(*prefix) as usize;
        if body_bytes > FRAME_BYTES_MAX {
            return Err(LinkError::Malformed { what: format!("frame of {body_bytes} bytes") });
        }
        let Some(body) = body.get(..body_bytes) else { return Ok(None) };
        let (message, left) =
            postcard::take_from_bytes(body).map_err(|e| LinkError::Malformed { what: e.to_string() })?;
        if !left.is_empty() {
            return Err(LinkError::Malformed { what: format!("{} bytes after the message", left.len()) });
        }
        self.consumed += PREFIX_BYTES + body_bytes;
        Ok(Some(message))
    }
}
