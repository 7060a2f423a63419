//! The messages: requests of a client, replies of the server.
//!
//! Every request gets exactly one reply with its id, except a bare stamp and [`Request::AwaitDaemon`], which get none.
//! Replies may arrive in any order, because the reply to [`Request::Run`] is sent when the operation ends. The first
//! request of a connection is [`Request::Hello`]. Trap: the encoding (postcard) carries no names, so a change of any
//! type here, or of the model's types used here, must raise [`PROTOCOL_VERSION`]; `Hello` must stay the first variant,
//! so that a client of another version is recognised.

use eager_gpu_model::{Advice, AllocId, AllocKind, Details, MemoryInfo, Nanos, Op, OpStats, Range};
use serde::{Deserialize, Serialize};

use crate::clock::{Joined, Settle, Settled, Stamp};
use crate::nesting;

/// Version of the messages; raised with every change of a message.
pub const PROTOCOL_VERSION: u32 = 8;

/// Id of every client's first request. A server that turns a connection away before reading from it answers under this
/// id.
pub const FIRST_REQUEST: RequestId = RequestId(1);

/// Pairs a reply with its request; chosen by the client, unique among its open requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestId(pub u64);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientFrame {
    pub id: RequestId,
    pub request: Request,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerFrame {
    pub id: RequestId,
    pub reply: Result<Reply, Refusal>,
}

/// A client's request. Bytes and offsets are program bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Request {
    Hello {
        version: u32,
        pid: u32,
    },
    Devices,
    /// Creates the process's context on the device; no effect if the context exists.
    OpenContext {
        device: u32,
    },
    /// Destroys the process's context on the device with everything in it; no effect if there is none.
    CloseContext {
        device: u32,
    },
    Allocate {
        device: u32,
        bytes: u64,
        kind: AllocKind,
    },
    Free {
        alloc: AllocId,
    },
    Advise {
        alloc: AllocId,
        range: Range,
        advice: Advice,
    },
    MemoryInfo {
        device: u32,
    },
    /// Runs an operation; the reply is sent at its modelled end. Every allocation in it must belong to the process and
    /// to that device.
    Run {
        device: u32,
        op: Op,
    },
    /// Takes part in the clock from now on, if the server keeps a virtual one: time waits for this process. `seat`: the
    /// place that the process's starter reserved for it.
    Join {
        seat: Option<u64>,
    },
    /// Performs `request` at the stamp's time, in the order of all processes' times; the reply is [`Reply::Stamped`].
    /// Without a request only the stamp counts, and there is no reply.
    Stamped {
        stamp: Stamp,
        #[serde(deserialize_with = "nesting::request")]
        request: Option<Box<Request>>,
    },
    /// Only on a stamp: answered when the clock is at the stamp's time and no other agent can still act before it.
    /// Messages that the process then sends to the daemon have a defined place in time.
    Turn,
    /// Only on a stamp, no reply: the agent sleeps until the daemon changes the answer in `slot` from the one with
    /// sequence `seen`.
    AwaitDaemon {
        slot: u32,
        seen: u32,
    },
    /// Only on a stamp: the agent that slept is awake.
    Awake,
    /// Only on a stamp: the process ends now.
    Leave,
    /// Reserves places on the clock for processes that will be started; the clock waits for them at once.
    Reserve {
        seats: u32,
    },
    /// Names the process that was started for a seat, so that its sleep is noticed.
    Seated {
        seat: u64,
        pid: u32,
    },
    /// Withdraws a seat that no process will take; no effect if it was taken.
    GiveUp {
        seat: u64,
    },
    /// The daemon has processed all events up to now; answered by [`Reply::Settle`] when there are more. The first such
    /// request makes this connection the daemon's.
    Settled(Settled),
    /// Lists how much of which device each process uses. Only for the server's own user and root.
    Uses,
    /// Reports the work of each device so far. Only for the server's own user and root.
    Activity,
    /// Marks the connection as that of a daemon that schedules these devices: the server stays while it lasts. Only for
    /// the server's own user and root.
    Attend,
    /// The daemon ends for good: the server need not wait for another.
    Dismiss,
}

/// The server's reply to a request that it has carried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// To `Hello`.
    Welcome {
        version: u32,
    },
    Devices(Vec<DeviceInfo>),
    Done,
    Allocated(AllocId),
    MemoryInfo(MemoryInfo),
    /// To `Run`.
    Ran(RunReport),
    /// To `Join`; `None` if the server keeps no virtual clock.
    Joined(Option<Joined>),
    /// To a stamped request: the time at which it was done.
    Stamped {
        now: Nanos,
        #[serde(deserialize_with = "nesting::reply")]
        reply: Box<Result<Reply, Refusal>>,
    },
    /// To `Reserve`: the first seat; the others have the numbers after it.
    Seats {
        first: u64,
    },
    /// To `Settled`.
    Settle(Settle),
    /// To `Uses`.
    Uses(Vec<ProcessUse>),
    Activity(Activity),
    /// To `Attend`.
    Attended(Serving),
}

/// Settings that a server was started with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Serving {
    pub cards: Vec<ServedCard>,
    /// Modelled bytes per program byte.
    pub memory_scale: u64,
    pub clock: ServedClock,
    pub mps: bool,
}

/// Properties that distinguish cards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedCard {
    pub name: String,
    pub memory_bytes: u64,
    pub sms: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum ServedClock {
    /// Real seconds per modelled second.
    Real { time_scale: f64 },
    /// Modelled seconds per second of a program's processor time.
    Virtual { host_factor: f64 },
}

/// Work of the devices since the server started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Modelled time since the server started.
    pub now: Nanos,
    pub devices: Vec<DeviceActivity>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceActivity {
    /// Managed memory moved because it did not fit, both directions, in program bytes.
    pub paged_bytes: u64,
    /// Modelled time with at least one kernel on the device.
    pub kernels: Nanos,
}

/// Memory of one device that one process holds, in program bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessUse {
    pub device: u32,
    /// Process id; as the kernel reports it where the server is behind a socket.
    pub pid: u32,
    /// Memory that is never evicted for other processes: context and device allocations.
    pub pinned: u64,
    /// Managed memory that is on the device now.
    pub managed: u64,
}

/// Cost of an operation, in modelled (full-size) time and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct RunReport {
    /// From submission to end, including the wait for engines.
    pub duration_ns: u64,
    pub stats: OpStats,
}

/// Why the server did not carry out a request. The connection stays usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Refusal {
    #[error(
        "protocol version {client} differs from the server's {server}: this program and the server are of different \
         releases; restart this program, and eagerd if it is older than the libraries"
    )]
    Version { client: u32, server: u32 },
    #[error("the first message must be a hello")]
    NoHello,
    #[error("no device {device}: the server has {count}")]
    NoDevice { device: u32, count: u32 },
    #[error("the process has no context on device {device}")]
    NoContext { device: u32 },
    #[error("out of device memory: {wanted_bytes} bytes wanted, {free_bytes} free or evictable")]
    OutOfMemory { wanted_bytes: u64, free_bytes: u64 },
    #[error("allocation {0} does not belong to this process")]
    NotOwned(u64),
    #[error("only the server's own user and root may send this request")]
    NotAllowed,
    #[error("invalid request: {0}")]
    Invalid(String),
    #[error("too much for one user: {0}")]
    TooMuch(String),
}

/// One virtual device as programs see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceInfo {
    pub index: u32,
    /// Name of the card, e.g. `V100-16GB`.
    pub name: String,
    /// Program bytes: the card's memory divided by the memory scale.
    pub capacity_bytes: u64,
    /// Program bytes not taken by contexts, device allocations or resident managed memory.
    pub free_bytes: u64,
    pub sms: u32,
    pub threads_per_sm: u32,
    pub blocks_per_sm: u32,
    /// A page fault of one process stops the kernels of all processes: they take turns, as without NVIDIA's MPS.
    pub faults_stall: bool,
    pub shared_bytes_per_sm: u32,
    pub registers_per_sm: u32,
    pub compute_capability: (u32, u32),
    /// Peak rates in single over double precision, rounded.
    pub single_to_double: u32,
    pub details: Details,
    /// Modelled bytes per program byte.
    pub memory_scale: u64,
    /// Real nanoseconds waited per modelled nanosecond; 0: no waiting.
    pub time_scale: f64,
}
