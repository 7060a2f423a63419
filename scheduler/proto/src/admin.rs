//! The admin socket: a Unix stream, one JSON object per line each way. Only the daemon's own uid and root may connect.

use serde::{Deserialize, Serialize};

/// One question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "kebab-case", deny_unknown_fields)]
pub enum AdminRequest {
    /// Tasks, waiting and running.
    Ps,
    /// Devices and the daemon itself.
    Info,
    /// End after telling nobody anything; running programs keep their devices.
    Shutdown,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum AdminReply {
    Ps { tasks: Vec<TaskRow> },
    Info { daemon: DaemonRow, devices: Vec<DeviceRow> },
    Done,
    Error { message: String },
}

/// One task as people see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRow {
    pub task: u64,
    pub client: u64,
    pub pid: i32,
    pub uid: u32,
    pub label: String,
    pub function: String,
    /// `waiting`, `running`, or `stopped`: it has a device, and its process is stopped by a signal or a debugger.
    pub state: String,
    /// `normal`, `eager`, `promoted` or empty.
    pub class: String,
    pub device: Option<u32>,
    pub requirement_bytes: u64,
    pub grant_bytes: u64,
    /// What the whole program holds of this device and cannot be evicted, as the device says; none where nobody looks.
    #[serde(default)]
    pub used_bytes: Option<u64>,
    pub waited_ms: u64,
    /// Why it waits, or why it was bound there.
    pub reason: String,
}

/// One device as people see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceRow {
    pub device: u32,
    pub name: String,
    /// `virtual` or `cuda`.
    pub kind: String,
    pub capacity_bytes: u64,
    pub granted_bytes: u64,
    /// What eager tasks demand above their grants.
    pub oversubscribed_bytes: u64,
    /// In use that cannot be evicted, as the device says; none where nobody looks.
    #[serde(default)]
    pub used_bytes: Option<u64>,
    /// Of that, by programs that are not scheduled; and all that was never granted to anybody. Neither is given away.
    #[serde(default)]
    pub foreign_bytes: u64,
    #[serde(default)]
    pub unaccounted_bytes: u64,
    pub normal_tasks: u32,
    pub eager_tasks: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DaemonRow {
    pub version: String,
    pub pid: u32,
    pub policy: String,
    pub uptime_ms: u64,
    pub clients: u32,
    pub waiting: u32,
    pub running: u32,
    /// `as asked for`, or `reverted:` and what was wrong with the policy that was asked for.
    #[serde(default)]
    pub policy_state: String,
    /// Programs of an earlier daemon that have not come back yet; what they hold is theirs.
    #[serde(default)]
    pub unattached: u32,
    /// What the daemon cannot do any more, by which means of the kernel.
    #[serde(default)]
    pub confinement: String,
    /// A daemon that is started after this one will know what is granted.
    #[serde(default)]
    pub survives_restart: bool,
    /// Programs that used more than they declared, since the daemon started.
    #[serde(default)]
    pub overruns: u64,
    /// What is wrong with the look at the devices' use; empty: nothing.
    #[serde(default)]
    pub usage_problem: String,
}
