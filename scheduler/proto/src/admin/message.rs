//! The questions and the answers.

use super::rows::{DaemonRow, DeviceRow, TaskRow};
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
    Snapshot { tasks_max: u32 },
    /// Nothing new starts on the device any more.
    Drain { device: u32 },
    /// It takes tasks again.
    Undrain { device: u32 },
    /// End after telling nobody anything; running programs keep their devices.
    Shutdown,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum AdminReply {
    Ps {
        tasks: Vec<TaskRow>,
    },
    Info {
        daemon: DaemonRow,
        devices: Vec<DeviceRow>,
    },
    Snapshot(Box<Snapshot>),
    /// It was done; in one line what that means.
    Done {
        #[serde(default)]
        said: String,
    },
    /// It was not; in one line why, and what to do.
    Error {
        message: String,
    },
}
