//! The questions and the answers.

use super::rows::{AfterRow, DaemonRow, DeviceRow, OutlookRow, PolicyRow, ProgramRow, QueueRow, TaskRow};
use crate::snapshot::Snapshot;
use serde::{Deserialize, Serialize};

/// One question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "kebab-case", deny_unknown_fields)]
pub enum AdminRequest {
    /// Tasks, waiting and running.
    Ps,
    /// Devices and the daemon itself.
    Info,
    /// All of it at one moment, with at most so many tasks.
    Snapshot {
        tasks_max: u32,
    },
    /// Waiting tasks, in the order in which they are tried.
    Queue,
    /// Programs that have ended: the newest, at most so many, of one user or of all.
    History {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uid: Option<u32>,
        programs_max: u32,
    },
    /// Has a task ended? Asked again and again by a program that waits for that, and is listed as long as it asks.
    After {
        task: u64,
        label: String,
    },
    /// Why a task waits, or runs as it does.
    Explain {
        task: u64,
    },
    /// What a device has to do with each task.
    ExplainDevice {
        device: u32,
    },
    /// What decides now.
    Policy,
    /// Another policy decides from now on.
    SetPolicy {
        policy: String,
    },
    /// A waiting task is refused; the program of a running one gets the signal, such as `SIGTERM`.
    Cancel {
        task: u64,
        signal: String,
        /// So does the program of a waiting one.
        #[serde(default, skip_serializing_if = "is_false")]
        ends_waiting: bool,
    },
    /// A waiting task does not start before it is released.
    Hold {
        task: u64,
    },
    Release {
        task: u64,
    },
    /// A program's tasks get another priority among those of its user: the waiting task, and those that begin later.
    SetPriority {
        task: u64,
        priority: i8,
    },
    /// Nothing new starts on the device any more.
    Drain {
        device: u32,
    },
    /// It takes tasks again.
    Undrain {
        device: u32,
    },
    /// End after telling nobody anything; running programs keep their devices. Refused while tasks run or wait, but for one
    /// of these.
    Shutdown {
        #[serde(default, skip_serializing_if = "is_false")]
        force: bool,
        /// It ends when nothing runs or waits any more.
        #[serde(default, skip_serializing_if = "is_false")]
        when_idle: bool,
    },
}

/// So that a daemon which does not know the field understands who does not use it.
fn is_false(flag: &bool) -> bool {
    !flag
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum AdminReply {
    Ps {
        tasks: Vec<TaskRow>,
        /// Number of the next task: all below it have been there.
        #[serde(default)]
        next_task: u64,
        /// Programs that wait for a task of another to end, and have none themselves.
        #[serde(default)]
        after: Vec<AfterRow>,
    },
    Info {
        daemon: DaemonRow,
        devices: Vec<DeviceRow>,
    },
    Snapshot(Box<Snapshot>),
    Queue {
        tasks: Vec<QueueRow>,
        #[serde(default)]
        after: Vec<AfterRow>,
    },
    /// The oldest first.
    History {
        programs: Vec<ProgramRow>,
    },
    After {
        has_ended: bool,
    },
    Explained {
        sentences: Vec<String>,
        /// What each device means for a waiting task.
        #[serde(default)]
        devices: Vec<OutlookRow>,
    },
    Policy {
        policy: PolicyRow,
    },
    /// It was done; in one line what that means.
    Done {
        #[serde(default)]
        said: String,
    },
    /// It was not; in one line why, and what to do.
    Error {
        message: String,
    },
    /// The question was not looked at: its user has asked, or connected, too often just now. Worth asking again in a moment.
    Busy {
        message: String,
    },
}
