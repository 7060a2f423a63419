//! Messages and connection between a user of virtual GPUs (the stand-in runtime, the daemon) and the service behind
//! them.
//!
//! A user holds a [`Backend`] and does not know whether the service runs in its own process or behind a socket. Trap:
//! all sizes that cross this boundary are *program* bytes; only the server multiplies them by its memory scale.
#![forbid(unsafe_code)]

mod attendance;
mod backend;
mod clock;
mod daemon;
mod error;
mod frame;
mod message;
mod nesting;
mod query;
mod socket;

pub use attendance::Attendance;
pub use backend::Backend;
pub use clock::{Earliest, Joined, Settle, Settled, Sleeper, Stamp};
pub use daemon::DaemonLink;
pub use error::LinkError;
pub use frame::{FRAME_BYTES_MAX, FrameBuffer, HELLO_BYTES_MAX, decode, encode_frame};
pub use message::{
    Activity, ClientFrame, DeviceActivity, DeviceInfo, FIRST_REQUEST, PROTOCOL_VERSION, ProcessUse, Refusal,
    Reply, Request, RequestId, RunReport, ServedCard, ServedClock, ServerFrame, Serving,
};
pub use query::query_devices;
pub use socket::Socket;
