//! Requests and replies.

use super::rows::{AfterRow, DaemonRow, DeviceRow, OutlookRow, PolicyRow, ProgramRow, QueueRow, TaskRow};
use crate::snapshot::Snapshot;
use serde::{Deserialize, Serialize};

/// A request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "kebab-case", deny_unknown_fields)]
pub enum AdminRequest {
    /// Tasks, waiting and running.
    Ps,
    /// Devices and the daemon itself.
    Info,
    /// Everything at one moment, with at most `tasks_max` tasks.
    Snapshot {
        tasks_max: u32,
    },
    /// Waiting tasks, in the order in which they are tried.
    Queue,
    /// Programs that have ended: the newest, at most `programs_max`, of one user or of all.
    History {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uid: Option<u32>,
        programs_max: u32,
    },
    /// Whether a task has ended. A program that waits for that polls with it, and is listed for as long as it does.
    After {
        task: u64,
        label: String,
    },
    /// Why a task waits, or runs as it does.
    Explain {
        task: u64,
    },
    /// The prospects of each task on a device.
    ExplainDevice {
        device: u32,
    },
    /// The policy that decides now.
    Policy,
    /// Another policy decides from now on.
    SetPolicy {
        policy: String,
    },
    /// A waiting task is refused; the program of a running one gets the signal, such as `SIGTERM`.
    Cancel {
        task: u64,
        signal: String,
        /// The program of a waiting task gets the signal too.
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
    /// No new task starts on the device any more.
    Drain {
        device: u32,
    },
    /// The device takes tasks again.
    Undrain {
        device: u32,
    },
    /// Ends the daemon without notice to any client; running programs keep their devices. Refused while tasks run or
    /// wait, unless one of the flags is set.
    Shutdown {
        #[serde(default, skip_serializing_if = "is_false")]
        force: bool,
        /// The daemon ends when no task runs or waits any more.
        #[serde(default, skip_serializing_if = "is_false")]
        when_idle: bool,
    },
}

/// Leaves a false flag out, so that a daemon that does not know the field accepts requests without it.
fn is_false(flag: &bool) -> bool {
    !flag
}

/// A reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum AdminReply {
    Ps {
        tasks: Vec<TaskRow>,
        /// Number of the next task: all numbers below it have been used.
        #[serde(default)]
        next_task: u64,
        /// Programs that wait for a task of another to end, and have no task themselves.
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
        /// Prospects of a waiting task on each device.
        #[serde(default)]
        devices: Vec<OutlookRow>,
    },
    Policy {
        policy: PolicyRow,
    },
    /// The request was carried out; `said` is one line on what that means.
    Done {
        #[serde(default)]
        said: String,
    },
    /// The request was not carried out; one line on why, and what to do.
    Error {
        message: String,
    },
    /// The request was not looked at: its user has asked, or connected, too often just now. It is worth sending again
    /// in a moment.
    Busy {
        message: String,
    },
}
