//! What a user of virtual GPUs needs from whoever serves them: send a request, and wait for its reply.

use crate::{LinkError, Reply, Request, RequestId};

/// Serves requests, in this process or behind a socket.
///
/// Safe to call from many threads; one that waits for an operation does not hold up the others.
pub trait Backend: Send + Sync + std::fmt::Debug {
    /// Sends `request`; requests reach the server in the order of these calls.
    ///
    /// # Errors
    /// The connection is of no more use.
    fn send(&self, request: Request) -> Result<RequestId, LinkError>;

    /// Waits for the reply to a request that was sent; for [`Request::Run`] that is the modelled end of the operation.
    ///
    /// # Errors
    /// [`LinkError::Refused`] when the server said no (the caller may go on), anything else when the connection is of
    /// no more use.
    fn wait(&self, id: RequestId) -> Result<Reply, LinkError>;

    /// Both.
    ///
    /// # Errors
    /// As [`Backend::wait`].
    fn call(&self, request: Request) -> Result<Reply, LinkError> {
        self.wait(self.send(request)?)
    }
}
