//! What the core may ask for. Every action, and every wait, carries a [`Reason`] a person can read.

use crate::limits::Measure;
use crate::policy::PolicyName;
pub use crate::reason::Reason;
use eager_units::{Bytes, Class, ClientId, DeviceId, TaskId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a task's launches are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "gate", rename_all = "kebab-case")]
pub enum Gate {
    /// Never looks.
    Ungated,
    /// Kernels with at most this footprint may start (`None`: any).
    Go {
        allowed: Option<Bytes>,
    },
    Hold,
}

/// Do this.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Action {
    /// Start the task on a device. `managed`: allocate through Unified Memory.
    Bind { task: TaskId, device: DeviceId, class: Class, grant: Bytes, managed: bool, reason: Reason },
    /// A waiting task: it can never run here and is forgotten. A bound task: its last `TaskExtend` is refused, and it
    /// keeps the device and the grant it had.
    Refuse { task: TaskId, reason: Reason },
    /// Nothing now. Said again when the *kind* of the reason changes; its numbers of this moment are in the task's view.
    Wait { task: TaskId, reason: Reason },
    /// The grant changed to `grant` in all; `class` says whether that promoted it. It also answers `TaskExtend`: with
    /// [`Class::Eager`] the task is over-subscribed from now on, and what it allocates next must be managed memory.
    Regrant { task: TaskId, grant: Bytes, class: Class, reason: Reason },
    /// The gate of a bound task changed.
    SetGate { task: TaskId, gate: Gate, reason: Reason },
    /// Somebody must know when this task's kernels run (or nobody any more). Whoever switches it on says at once, by
    /// `Busy` or `Idle`, how the counters stand now: until then the core takes the task for busy.
    Watch { task: TaskId, on: bool },
    /// A client uses more than it declared. Under [`Measure::Kill`] its process is to be ended; all else is done here.
    Overrun { client: ClientId, measure: Measure, reason: Reason },
    /// A bound task's device is lost. Its calls fail by themselves; it keeps its place until it ends.
    Stranded { task: TaskId, client: ClientId, reason: Reason },
    /// The policy that was reverted decides again.
    Reinstated { policy: PolicyName, reason: Reason },
    /// A task has its device for longer than it may. `ending`: what is to be sent to its process.
    Overstay { task: TaskId, client: ClientId, ending: Option<Ending>, reason: Reason },
}

/// How a process is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// It is asked to, and may put its results away first.
    Terminate,
    Kill,
}

impl Action {
    /// The task that it is about, if it is about one.
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
