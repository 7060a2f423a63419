//! What a user of virtual GPUs needs from whoever serves them: one blocking call.

use crate::{LinkError, Reply, Request};

/// Serves requests, in this process or behind a socket.
///
/// Safe to call from many threads; a call that waits for an operation does not hold up the others.
pub trait Backend: Send + Sync + std::fmt::Debug {
    /// Sends `request` and waits for its reply; for [`Request::Run`] that is the modelled end of the operation.
    ///
    /// # Errors
    /// [`LinkError::Refused`] when the server said no (the caller may go on), anything else when the connection is of
    /// no more use.
    fn call(&self, request: Request) -> Result<Reply, LinkError>;
}
