//! Actions that the core asks its caller to carry out. Every decision carries a [`Reason`] that a person can read.

use crate::limits::Measure;
use crate::policy::table::PolicyName;
pub use crate::reason::Reason;
use eager_units::{Bytes, Class, ClientId, DeviceId, TaskId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// State of a task's gate: which of its kernels may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "gate", rename_all = "kebab-case")]
pub enum Gate {
    /// The task never looks at its gate.
    Ungated,
    /// Kernels with at most this footprint may start (`None`: any).
    Go {
        allowed: Option<Bytes>,
    },
    Hold,
}

impl Gate {
    /// The largest footprint, in bytes, of a kernel that may start; `None`: no kernel.
    pub fn allowed(self) -> Option<u64> {
        match self {
            Gate::Ungated | Gate::Go { allowed: None } => Some(u64::MAX),
            Gate::Go { allowed: Some(Bytes(allowed)) } => Some(allowed),
            Gate::Hold => None,
        }
    }
}

/// Something that the caller of the core must do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Action {
    /// Start the task on a device. `managed`: allocate through Unified Memory.
    Bind { task: TaskId, device: DeviceId, class: Class, grant: Bytes, managed: bool, reason: Reason },
    /// A waiting task is refused and forgotten. For a bound task, its last `TaskExtend` is refused, and it keeps the
    /// device and the grant that it had.
    Refuse { task: TaskId, reason: Reason },
    /// The task waits. Repeated only when the *kind* of the reason changes; the current numbers are in the task's view.
    Wait { task: TaskId, reason: Reason },
    /// The grant changed to `grant` in all; `class` tells whether that promoted the task. It also answers `TaskExtend`:
    /// with [`Class::Eager`] the task is over-subscribed from now on, and what it allocates next must be managed
    /// memory.
    Regrant { task: TaskId, grant: Bytes, class: Class, reason: Reason },
    /// The gate of a bound task changed.
    SetGate { task: TaskId, gate: Gate, reason: Reason },
    /// Busy and idle changes of this task must be reported (`on`), or need not be any more. When reports are switched
    /// on, the current state is reported at once by `Busy` or `Idle`: until then the core takes the task for busy.
    Watch { task: TaskId, on: bool },
    /// A client uses more than it declared. Under [`Measure::Kill`] the caller ends its process; the core does
    /// everything else.
    Overrun { client: ClientId, measure: Measure, reason: Reason },
    /// A bound task's device is lost. Its CUDA calls fail by themselves; it keeps its grant until it ends.
    Stranded { task: TaskId, client: ClientId, reason: Reason },
    /// The policy that `case` had replaced decides again.
    Reinstated { policy: PolicyName, reason: Reason },
    /// A task has its device for longer than it may. `ending`: the signal to send to its process, if any.
    Overstay { task: TaskId, client: ClientId, ending: Option<Ending>, reason: Reason },
}

/// How a process is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// The process is asked to end, and may save its results first.
    Terminate,
    Kill,
}

impl Action {
    /// The task that the action is about, if it is about one.
    pub fn task(&self) -> Option<TaskId> {
        match self {
            Action::Bind { task, .. }
            | Action::Refuse { task, .. }
            | Action::Wait { task, .. }
            | Action::Regrant { task, .. }
            | Action::SetGate { task, .. }
            | Action::Watch { task, .. }
            | Action::Stranded { task, .. }
            | Action::Overstay { task, .. } => Some(*task),
            Action::Overrun { .. } | Action::Reinstated { .. } => None,
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gate::Ungated => f.write_str("no gate"),
            Gate::Go { allowed: None } => f.write_str("go"),
            Gate::Go { allowed: Some(allowed) } => write!(f, "go up to {allowed}"),
            Gate::Hold => f.write_str("hold"),
        }
    }
}

/// One line for people, with the reason.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Bind { task, device, class, grant, managed, reason } => {
                let memory = if *managed { "managed" } else { "plain" };
                write!(f, "{task} bound to {device}, {class}, {grant} granted, {memory} memory ({reason})")
            }
            Action::Refuse { task, reason } | Action::Wait { task, reason } => write!(f, "{task} {reason}"),
            Action::Regrant { task, grant, class, reason } => {
                write!(f, "{task} now {class}, {grant} granted ({reason})")
            }
            Action::SetGate { task, gate, reason } => write!(f, "{task} gate: {gate} ({reason})"),
            Action::Watch { task, on: true } => write!(f, "{task} is watched"),
            Action::Watch { task, on: false } => write!(f, "{task} is watched no longer"),
            Action::Overrun { measure, reason, .. } => write!(f, "{measure}: {reason}"),
            Action::Stranded { task, reason, .. } => write!(f, "{task} is stranded: {reason}"),
            Action::Reinstated { policy, reason } => write!(f, "{policy} {reason}"),
            Action::Overstay { ending, reason, .. } => match ending {
                None => write!(f, "{reason}"),
                Some(Ending::Terminate) => write!(f, "terminate: {reason}"),
                Some(Ending::Kill) => write!(f, "kill: {reason}"),
            },
        }
    }
}
