//! Serves virtual GPUs: owns the model, knows which process holds which memory, converts real time to modelled time and
//! back.
//!
//! [`Service`] decides, with time as a parameter; [`Embedded`] and [`serve`] perform the I/O, in one process or for
//! many over a socket. Trap: requests and replies count program bytes; only [`Scale`] may convert them to modelled
//! bytes.
#![forbid(unsafe_code)]

mod admission;
mod client;
mod embedded;
mod endpoint;
#[doc(hidden)]
pub mod fuzz;
mod holdings;
mod log;
mod poller;
mod scale;
mod serve;
mod service;
mod sleep;
mod timekeeper;
mod validation;

pub use embedded::{Embedded, EmbeddedConfig};
pub use endpoint::{Endpoint, EndpointError};
pub use scale::{Clock, RealNanos, Scale};
pub use serve::{Until, serve};
pub use service::{Answer, Peer, ProcessId, Service};
pub use timekeeper::{Holder, HolderId};
