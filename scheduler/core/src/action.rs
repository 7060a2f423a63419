//! What the core may ask for. Every action, and every wait, carries a [`Reason`] a person can read.

use crate::units::{Bytes, DeviceId, TaskId};
use serde::{Deserialize, Serialize};

/// How a bound task runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// `G = M`.
    Normal,
    /// `G < M`.
    Eager,
    /// Was eager; now `G = M`.
    Promoted,
}

/// What a task's launches are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "gate", rename_all = "kebab-case")]
pub enum Gate {
    /// Never looks.
    Ungated,
    /// Kernels with at most this footprint may start (`None`: any).
    Go { allowed: Option<Bytes> },
    Hold,
}

/// Do this.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Action {
    /// Start the task on a device. `managed`: allocate through Unified Memory.
    Bind { task: TaskId, device: DeviceId, class: Class, grant: Bytes, managed: bool, reason: Reason },
    /// It can never run here.
    Refuse { task: TaskId, reason: Reason },
    /// Nothing now; said again whenever the reason changes.
    Wait { task: TaskId, reason: Reason },
    /// The grant changed to `grant` in all; `class` says whether that promoted it.
    Regrant { task: TaskId, grant: Bytes, class: Class, reason: Reason },
    /// The gate of a bound task changed.
    SetGate { task: TaskId, gate: Gate, reason: Reason },
    /// Somebody must know when this task's kernels run (or nobody any more).
    Watch { task: TaskId, on: bool },
}

/// Why. `Display` is the sentence for people; the number of the variant is what goes on the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum Reason {
    #[error("{device:?} has {free} bytes free for {wanted}", device = device.0, free = free.0, wanted = wanted.0)]
    Fits { device: DeviceId, wanted: Bytes, free: Bytes },
    #[error("no device has {wanted} bytes free; the most is {most}", wanted = wanted.0, most = most.0)]
    NoRoom { wanted: Bytes, most: Bytes },
}
