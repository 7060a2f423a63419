//! The interface between shim and daemon: the pages they share, the records in them, the first packets, the admin
//! socket.
//!
//! Life of a client (`SOCK_SEQPACKET` on `client.sock`):
//! 1. the shim connects and sends one [`hello::Opening`] packet: a [`hello::Hello`], followed by a [`hello::Resume`] if
//!    it was connected to an earlier daemon at this place;
//! 2. the daemon answers with one [`hello::Welcome`] packet with two sealed memfds: the **request page** (client
//!    writes) and the **reply page** (client can only read: `F_SEAL_FUTURE_WRITE`);
//! 3. requests: the client fills a [`request::RequestRecord`] in the ring, publishes `head`, and sends a one-byte
//!    packet as doorbell; the daemon copies the record once, validates the copy, acts;
//! 4. answers: the daemon updates the task's [`reply::TaskCell`] (a seqlock whose sequence word is also the futex);
//! 5. the client is dead when its pidfd becomes readable; the end of the socket alone proves nothing.
//!
//! Trap: shared memory carries hints and requests only. The ledger is in the daemon; use nothing that the client writes
//! before it was copied and checked, and let the daemon wait for nothing in client memory.
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
/// Clients of another major version are refused. (Later minors add features, negotiated by bits.)
pub const PROTOCOL_MAJOR: u16 = 1;
/// Minor 1 added [`hello::Resume`].
pub const PROTOCOL_MINOR: u16 = 1;

/// Task slots of one client: the limit of tasks it may have open at once (specification S-708).
pub const TASK_SLOTS: usize = 16;
/// Records in a request ring; a power of two.
pub const RING_SLOTS: usize = 64;

/// Environment variable: priority of the program's tasks among those of its user, -100 to 100; `eager run --priority`
/// sets it.
pub const ENV_PRIORITY: &str = "EAGER_PRIORITY";
/// Environment variable: bytes of device memory that each process of the program will need in all, asked for at its
/// first use of a device; `eager run --preload --mem` sets it.
pub const ENV_TASK_BYTES: &str = "EAGER_TASK_BYTES";
/// Environment variable: `1`: a program that gives [`ENV_TASK_BYTES`] must not start over-subscribed; `eager run --whole`
/// sets it.
pub const ENV_TASK_WHOLE: &str = "EAGER_TASK_WHOLE";
/// Environment variable that names the client socket; `eager run` sets it.
pub const ENV_SOCKET: &str = "EAGER_SOCKET";
/// Behaviour of a program that loses its daemon: `open` (default: run as plain CUDA) | `closed` (CUDA calls fail) |
/// `wait:SECONDS`.
pub const ENV_ON_DAEMON_LOSS: &str = "EAGER_ON_DAEMON_LOSS";
/// Name of the program in tables and the journal; default: the executable's name.
pub const ENV_LABEL: &str = "EAGER_LABEL";
/// Uid of a user whose daemon is trusted, besides root and the program's own user: for containers that do not map the
/// daemon's user.
pub const ENV_TRUST_UID: &str = "EAGER_TRUST_UID";
/// JSON file of measured kernel footprints (see runtime-shim/README.md).
pub const ENV_PROFILE: &str = "EAGER_PROFILE";
/// `1`: the shim forwards everything and never connects.
pub const ENV_DISABLE: &str = "EAGER_DISABLE";
/// `1`: the program reports on standard error why it waits; `eager run` sets it.
pub const ENV_SAY_WAITS: &str = "EAGER_SAY_WAITS";

/// Socket of the virtual GPU server; read by the stand-in runtime, set by `eager run`.
pub const ENV_VGPU_SOCKET: &str = "EAGER_VGPU_SOCKET";
