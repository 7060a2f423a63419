//! Why a request on the admin socket is refused, as the caller reads it.

use crate::admin::server::USER_QUESTIONS_MAX;
use crate::dispatch::drains::NoSuchDevice;
use eager_core::PolicyName;
use eager_core::policy::{NotForDevices, UnknownPolicy};
use eager_units::{DeviceId, Nanos, TaskId};

/// A refused request; nothing was changed by it.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("only root and the daemon's own user may {act}")]
    OwnerOnly { act: &'static str },
    #[error("uid {uid} sent more than {USER_QUESTIONS_MAX} requests in a second")]
    TooMany { uid: u32 },
    #[error("answers to one user may take 1/200 of the daemon's time: ask again in {wait} (uid {uid})")]
    TooLong { uid: u32, wait: Nanos },
    #[error("there is no {0}: `eager ps` lists all tasks")]
    NoTask(TaskId),
    #[error("there is no {0}: `eager info` lists all GPUs")]
    NoDevice(DeviceId),
    #[error(transparent)]
    NotDrained(#[from] NoSuchDevice),
    #[error("{task} belongs to uid {uid}: only that user, root and the daemon's own user may {act} it")]
    NotItsUser { task: TaskId, uid: u32, act: &'static str },
    #[error("{0} runs already: only a waiting task can be held")]
    Runs(TaskId),
    #[error("{0} is not held")]
    NotHeld(TaskId),
    #[error("{task} is held by uid {uid}: only that user, root and the daemon's own user may release it")]
    HeldByAnother { task: TaskId, uid: u32 },
    #[error("{0} has no process any more")]
    NoProcess(TaskId),
    #[error("`{0}` is not a signal; use one such as SIGTERM")]
    NoSignal(String),
    #[error("pid {pid} of {task} does not run as uid {uid} any more")]
    ChangedUser { pid: i32, task: TaskId, uid: u32 },
    #[error("pid {pid}: {source}")]
    NotSignalled { pid: i32, source: std::io::Error },
    #[error(transparent)]
    UnknownPolicy(#[from] UnknownPolicy),
    #[error(transparent)]
    NotForDevices(#[from] NotForDevices),
    #[error("{before} stays: some running tasks could not keep their devices under {policy}")]
    PolicyStays { before: PolicyName, policy: PolicyName },
    /// The tasks that are there, in words.
    #[error(
        "{tasks}. `eager shutdown --when-idle` ends the daemon when they have ended, `--force` ends it now: they keep \
         their devices, and programs that start later are not scheduled"
    )]
    HasTasks { tasks: String },
    #[error("this request changes nothing")]
    ChangesNothing,
}
