//! Interface between a user of virtual GPUs and the service: send a request, wait for its reply.

use crate::{LinkError, Reply, Request, RequestId};

/// Serves requests, in this process or behind a socket.
///
/// Safe to call from many threads; a thread that waits for an operation does not block the others.
pub trait Backend: Send + Sync + std::fmt::Debug {
    /// Sends `request`; requests reach the server in the order of these calls.
    ///
    /// # Errors
    /// The connection is of no more use.
    fn send(&self, request: Request) -> Result<RequestId, LinkError>;

    /// Waits for the reply to a request that was sent; for [`Request::Run`] that is the modelled end of the operation.
    ///
    /// # Errors
    /// [`LinkError::Refused`] when the server refuses the request (later requests still work), anything else when the
    /// connection is of no more use.
    fn wait(&self, id: RequestId) -> Result<Reply, LinkError>;

    /// Sends `request` and waits for its reply.
    ///
    /// # Errors
    /// Those of [`Backend::wait`].
    fn call(&self, request: Request) -> Result<Reply, LinkError> {
        self.wait(self.send(request)?)
    }
}
