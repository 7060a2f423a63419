//! What shim and daemon agree on: the pages they share, the records in them, the first packets, the admin socket.
//!
//! Life of a client (`SOCK_SEQPACKET` on `client.sock`):
//! 1. the shim connects and sends one [`hello::Opening`] packet: a [`hello::Hello`], and when it was connected to an
//!    earlier daemon of this place, a [`hello::Resume`] behind it;
//! 2. the daemon answers one [`hello::Welcome`] packet with two sealed memfds: the **request page** (client writes) and
//!    the **reply page** (client can only read: `F_SEAL_FUTURE_WRITE`);
//! 3. requests: the client fills a [`request::RequestRecord`] in the ring, publishes `head`, and sends a one-byte
//!    packet as doorbell; the daemon copies the record once, validates the copy, acts;
//! 4. answers: the daemon updates the task's [`reply::TaskCell`] (a seqlock whose sequence word is also the futex);
//! 5. death is the pidfd, never the socket alone.
//!
//! Trap: shared memory carries hints and requests, never truth. The ledger is in the daemon; nothing the client writes
//! is believed before it was copied and checked, and nothing the daemon waits for is in client memory.
#![forbid(unsafe_code)]

pub mod admin;
pub mod hello;
pub mod mps;
pub mod newcomer;
pub mod place;
pub mod reply;
pub mod request;
pub mod snapshot;
pub mod text;

pub use place::{ADMIN_SOCKET_NAME, CLIENT_SOCKET_NAME, LOCK_FILE_NAME, VGPU_SOCKET_NAME};

/// `"EAGR"`, first word of every packet and page.
pub const MAGIC: u32 = u32::from_le_bytes(*b"EAGR");
/// Differs: refused. (Later minors add features, negotiated by bits.)
pub const PROTOCOL_MAJOR: u16 = 1;
/// 1: [`hello::Resume`].
pub const PROTOCOL_MINOR: u16 = 1;

/// Task slots of one client: the limit of tasks it may have open at once (specification S-708).
pub const TASK_SLOTS: usize = 16;
/// Records in a request ring; a power of two.
pub const RING_SLOTS: usize = 64;

/// Priority of the program's tasks among those of its user, -100 to 100; `eager run --priority` sets it.
pub const ENV_PRIORITY: &str = "EAGER_PRIORITY";
/// Environment variable that names the client socket; `eager run` sets it.
pub const ENV_SOCKET: &str = "EAGER_SOCKET";
/// `open` (default: run as plain CUDA) | `closed` (CUDA calls fail) | `wait:SECONDS`.
pub const ENV_ON_DAEMON_LOSS: &str = "EAGER_ON_DAEMON_LOSS";
/// Name of the program in tables and the journal; default: the executable's name.
pub const ENV_LABEL: &str = "EAGER_LABEL";
/// A user besides root and the program's own whose daemon is trusted: for containers that do not map the daemon's user.
pub const ENV_TRUST_UID: &str = "EAGER_TRUST_UID";
/// JSON file of measured kernel footprints (see runtime-shim/README.md).
pub const ENV_PROFILE: &str = "EAGER_PROFILE";
/// `1`: the shim forwards everything and never connects.
pub const ENV_DISABLE: &str = "EAGER_DISABLE";
/// `1`: a program says on standard error why it waits; `eager run` sets it.
pub const ENV_SAY_WAITS: &str = "EAGER_SAY_WAITS";

/// Socket of the virtual GPU server; read by the stand-in runtime, set by `eager run`.
pub const ENV_VGPU_SOCKET: &str = "EAGER_VGPU_SOCKET";
