//! Events that the core decides on. The journal stores them, the simulator generates them, the daemon decodes requests
//! into them.

use crate::limits::Limits;
use crate::policy::table::PolicyName;
use eager_units::{AccessClass, Barred, Bytes, Class, ClientId, DeviceId, Nanos, TaskId};
use serde::{Deserialize, Serialize};

/// An input of the scheduler.
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
        /// All memory of its tasks comes by name ([`eager_units::Habits::comes_by_name`]). False in journals of earlier
        /// versions.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        informed: bool,
        /// An earlier client, whose grants belong to the same process: the two are one program, with one context on a
        /// device. None in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        same_process: Option<ClientId>,
        /// The nice value of its process, as the kernel has it. 0 in journals of earlier versions.
        #[serde(default, skip_serializing_if = "is_default")]
        nice: i8,
    },
    /// The nice value of a client's process is another one.
    Reniced {
        client: ClientId,
        nice: i8,
    },
    /// The process is gone, or its connection is invalid: everything that it held is free.
    ClientGone {
        client: ClientId,
    },
    /// A task asks for a device and for [`TaskRequest::requirement`] bytes.
    TaskBegin {
        task: TaskId,
        client: ClientId,
        request: TaskRequest,
    },
    /// A bound task wants `bytes` more than it asked for.
    TaskExtend {
        task: TaskId,
        bytes: Bytes,
    },
    /// A bound task gave `bytes` back for good.
    TaskShrink {
        task: TaskId,
        bytes: Bytes,
    },
    /// The task has launched its last kernel.
    AllLaunched {
        task: TaskId,
    },
    TaskEnd {
        task: TaskId,
    },
    /// A task's next kernel found its gate closed.
    KernelHeld {
        task: TaskId,
        kernel: KernelRequest,
    },
    /// A watched task's launch counters show work on the device (`Busy`), or none (`Idle`).
    Busy {
        task: TaskId,
    },
    Idle {
        task: TaskId,
    },
    /// A client's process is stopped (SIGSTOP), and no kernel of it is on a device any more: it starts none before it
    /// continues.
    Frozen {
        client: ClientId,
    },
    /// The client's process continues.
    Thawed {
        client: ClientId,
    },
    /// A promoted task has seen that it is: its data is being moved in, and its later kernels have high priority.
    Promoted {
        task: TaskId,
    },
    /// A deadline that the core asked for ([`crate::Scheduler::next_deadline`]).
    Tick,
    /// Tasks that held memory when an earlier scheduler stopped (its daemon was restarted, or its policy replaced). All
    /// in one event: memory that seems free between two of them belongs to the next.
    Restored {
        tasks: Vec<Restored>,
        /// Devices on which clients have contexts, with or without a task there. Empty in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        contexts: Vec<(ClientId, DeviceId)>,
    },
    /// Memory in use on a device that cannot be evicted, as its driver reports it. Needed only where
    /// [`Scheduler::is_news`] is true.
    ///
    /// [`Scheduler::is_news`]: crate::Scheduler::is_news
    Observed {
        device: DeviceId,
        /// Bytes in use by processes that are not clients.
        foreign: Bytes,
        clients: Vec<ClientUse>,
    },
    /// Other limits apply from now on.
    LimitsSet {
        limits: Limits,
    },
    /// No new task starts on the device from now on; tasks that run there go on.
    Drained {
        device: DeviceId,
    },
    /// The device takes tasks again.
    Undrained {
        device: DeviceId,
    },
    /// A waiting task must not start before it is released; `by` is the uid of the user who holds it.
    Held {
        task: TaskId,
        by: u32,
    },
    Released {
        task: TaskId,
    },
    /// A waiting task has another priority among the tasks of its user.
    PrioritySet {
        task: TaskId,
        priority: i8,
    },
    /// A waiting task is cancelled by the user with the uid `by`.
    Cancelled {
        task: TaskId,
        by: u32,
    },
    /// Another policy decides from now on. Bound tasks keep their devices, waiting tasks are planned anew.
    PolicySet {
        policy: PolicyName,
    },
    /// The policy failed: `case` decides in its place, until the policy has agreed with `case` for long enough.
    Reverted {
        /// Description of the failure.
        why: String,
    },
    /// The device's driver does not have it any more: its memory contents and results are lost.
    DeviceLost {
        device: DeviceId,
    },
    /// The device is back, without anything that it held before.
    DeviceFound {
        device: DeviceId,
    },
}

/// Memory that a client uses on a device.
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
    /// `G` and `M` at that time.
    pub grant: Bytes,
    pub requirement: Bytes,
    pub managed: bool,
    pub all_launched: bool,
    pub promotion_done: bool,
}

/// Declaration of a task that asks for a device. The default declares nothing and needs nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskRequest {
    /// `M`: sum of the sizes of the task's device memory objects.
    pub requirement: Bytes,
    /// Launch geometry, 0 if unknown; CASE's placement counts warps with it.
    pub blocks: u64,
    pub threads_per_block: u32,
    /// The task asks at its first launch, and may extend.
    pub lazy: bool,
    /// Its memory is managed already, whatever class it gets.
    pub managed: bool,
    /// It cannot run over-subscribed: it waits until its whole requirement can be granted. False in journals of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    /// Devices that it may not run on. Empty in journals of earlier versions.
    #[serde(default, skip_serializing_if = "Barred::is_empty")]
    pub barred: Barred,
    pub function: String,
    /// Expected durations by earlier runs, where known. None in journals of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// Uid of the user who holds it: it does not start before it is released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<u32>,
    /// Among the waiting tasks of its user, those of higher priority go first (specification S-124). 0 in journals of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: i8,
}

/// True for a value that journals leave out, since reading puts it back.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Expected durations of a task if nothing disturbs it. Used only to order tasks and to decide whether waiting pays: a
/// wrong estimate costs time, never correctness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// Run time of the whole program, from the request on.
    pub remaining: Nanos,
    /// Time from the task's binding until it has given its memory back.
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

/// Properties of a device that the core needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceProfile {
    pub name: String,
    /// Bytes that may be granted in sum.
    pub capacity: Bytes,
    pub sms: u32,
    pub warps_per_sm: u32,
    pub blocks_per_sm: u32,
    /// A page fault of one program stops the kernels of all: without MPS, contexts are time-sliced whole (specification
    /// S-318). False in journals of earlier versions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub faults_stall: bool,
}
