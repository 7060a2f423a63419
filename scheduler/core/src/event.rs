//! What can happen. The journal stores these; the simulator makes them; the daemon decodes requests into them.

use crate::limits::Limits;
use crate::policy::PolicyName;
use eager_units::{AccessClass, Barred, Bytes, Class, ClientId, DeviceId, Nanos, TaskId};
use serde::{Deserialize, Serialize};

/// Something happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    DeviceAdded {
        device: DeviceId,
        profile: DeviceProfile,
    },
    ClientConnected {
        client: ClientId,
        uid: u32,
        label: String,
        /// All memory of its tasks is known by name ([`eager_units::Habits::comes_by_name`]). Journals written before this
        /// could be said have none.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        informed: bool,
    },
    /// The process is gone (or its connection is invalid): everything it holds is free.
    ClientGone {
        client: ClientId,
    },
    /// A task asks for `requirement`.
    TaskBegin {
        task: TaskId,
        client: ClientId,
        request: TaskRequest,
    },
    /// A bound task wants more than it said.
    TaskExtend {
        task: TaskId,
        bytes: Bytes,
    },
    /// A bound task gave some back for good.
    TaskShrink {
        task: TaskId,
        bytes: Bytes,
    },
    /// Its last kernel was launched.
    AllLaunched {
        task: TaskId,
    },
    TaskEnd {
        task: TaskId,
    },
    /// An eager task's next kernel found its gate closed.
    KernelHeld {
        task: TaskId,
        kernel: KernelRequest,
    },
    /// A task's launch counters: work on the device, or none.
    Busy {
        task: TaskId,
    },
    Idle {
        task: TaskId,
    },
    /// A client's process is stopped (SIGSTOP), and no kernel of it is on a device any more: it starts none before it goes on.
    Frozen {
        client: ClientId,
    },
    /// It goes on.
    Thawed {
        client: ClientId,
    },
    /// A promoted task has moved its data and switched to high priority.
    Promoted {
        task: TaskId,
    },
    /// The deadline the core asked for.
    Tick,
    /// Tasks that held memory when an earlier scheduler stopped (its daemon was restarted, or its policy replaced). All
    /// at once: what seems free between two of them belongs to the next.
    Restored {
        tasks: Vec<Restored>,
        /// On which devices clients have their contexts, whether they hold a task there or not. Journals written before
        /// these were kept have none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        contexts: Vec<(ClientId, DeviceId)>,
    },
    /// What is in use on a device that cannot be evicted, as its driver says; wanted only where [`Scheduler::is_news`].
    ///
    /// [`Scheduler::is_news`]: crate::Scheduler::is_news
    Observed {
        device: DeviceId,
        /// Of processes that are no clients.
        foreign: Bytes,
        clients: Vec<ClientUse>,
    },
    /// The limits are others from now on.
    LimitsSet {
        limits: Limits,
    },
    /// Nothing new starts on the device from now on; what runs there goes on.
    Drained {
        device: DeviceId,
    },
    /// It takes tasks again.
    Undrained {
        device: DeviceId,
    },
    /// A waiting task does not start before it is released; by whom it is held.
    Held {
        task: TaskId,
        by: u32,
    },
    Released {
        task: TaskId,
    },
    /// A waiting task has another priority among those of its user.
    PrioritySet {
        task: TaskId,
        priority: i8,
    },
    /// A waiting task is not wanted any more; by whom.
    Cancelled {
        task: TaskId,
        by: u32,
    },
    /// Another policy decides from now on. What is bound stays, what waits is planned anew.
    PolicySet {
        policy: PolicyName,
    },
    /// The policy broke: `case` decides in its place, until it has agreed with `case` for long enough.
    Reverted {
        /// What was wrong with it.
        why: String,
    },
    /// The device's driver does not have it any more: what was there is gone, and so are the results.
    DeviceLost {
        device: DeviceId,
    },
    /// It is there again, with nothing of what was there before.
    DeviceFound {
        device: DeviceId,
    },
}

/// What a client uses of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientUse {
    pub client: ClientId,
    pub bytes: Bytes,
}

/// A task that has a device already. Its client is connected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    pub task: TaskId,
    pub client: ClientId,
    pub request: TaskRequest,
    pub device: DeviceId,
    pub class: Class,
    /// `G` and `M` as they were.
    pub grant: Bytes,
    pub requirement: Bytes,
    pub managed: bool,
    pub all_launched: bool,
    pub promotion_done: bool,
}

/// What a task says of itself. The default says nothing and needs nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskRequest {
    /// `M`: sum of the sizes of the task's device memory objects.
    pub requirement: Bytes,
    /// Launch geometry, 0 if unknown; CASE's placement counts warps with it.
    pub blocks: u64,
    pub threads_per_block: u32,
    /// Asked at its first launch; may extend.
    pub lazy: bool,
    /// Its memory is managed already, whatever class it gets.
    pub managed: bool,
    /// It cannot run over-subscribed: its grant is its requirement, or it waits. Journals written before there were such
    /// tasks have none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    /// Where it may not run. Journals written before this could be said have none.
    #[serde(default, skip_serializing_if = "Barred::is_empty")]
    pub barred: Barred,
    pub function: String,
    /// How long it will take, where that is known from earlier runs. Journals written before there were estimates have
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// The user who holds it back while it waits: it does not start before it is released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<u32>,
    /// Among the waiting tasks of its user those of higher priority go first (specification S-124). Journals written before
    /// there were priorities have none.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub priority: i8,
}

/// For serde.
fn is_usual(priority: &i8) -> bool {
    *priority == 0
}

/// What a task is expected to take if nothing disturbs it. Only for deciding who goes first and what is worth waiting
/// for: a wrong one costs time, never correctness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// Run time of the whole program from the request on.
    pub remaining: Nanos,
    /// From the task's binding until it has given its memory back.
    pub hold: Nanos,
}

/// A kernel that asks to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelRequest {
    pub name: String,
    /// Measured footprint, or the static size where none was measured.
    pub footprint: Bytes,
    pub static_size: Bytes,
    pub access: AccessClass,
}

/// What the core must know of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceProfile {
    pub name: String,
    /// What may be granted in sum.
    pub capacity: Bytes,
    pub sms: u32,
    pub warps_per_sm: u32,
    pub blocks_per_sm: u32,
    /// A page fault of one program stops the kernels of all: without MPS, contexts are time-sliced whole (specification S-318).
    /// Journals written before this was known have it false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub faults_stall: bool,
}
