//! Tasks, devices and the daemon as rows for people and scripts.
//!
//! Trap: these are the schema of `--json`. Only add fields, each with a default, and never rename one, so that programs
//! of one admin version understand each other.

use eager_units::Size;
use serde::{Deserialize, Serialize};

/// One task as people see it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
    /// Bytes of the whole program on this device: its context, its allocations and managed memory that is there, as the
    /// device reports; None where it is not watched.
    #[serde(default)]
    pub resident_bytes: Option<u64>,
    /// The part of it that cannot be evicted; the same as `resident_bytes` where the device does not tell managed
    /// memory apart.
    #[serde(default)]
    pub pinned_bytes: Option<u64>,
    /// `pinned_bytes` by its earlier name.
    #[serde(default)]
    pub used_bytes: Option<u64>,
    pub waited_ms: u64,
    /// Time since it got its device; 0 while it waits.
    #[serde(default)]
    pub running_ms: u64,
    /// State of its gate: `none` (it has no gate), `go`, `hold`, or empty while it waits.
    #[serde(default)]
    pub gate: String,
    /// Kernels with a larger footprint are held although the gate is open; None without such a limit.
    #[serde(default)]
    pub gate_max_bytes: Option<u64>,
    /// The kernel held at its closed gate, or empty.
    #[serde(default)]
    pub held_kernel: String,
    /// For how long that kernel has been held.
    #[serde(default)]
    pub held_ms: u64,
    /// Why it waits, or why it was bound there.
    pub reason: String,
    /// It has its device for longer than it may.
    #[serde(default)]
    pub overstays: bool,
    /// Priority among the tasks of its user; 0 is the default.
    #[serde(default)]
    pub priority: i8,
    /// Its share of its device's time; None where the policy does not share that.
    #[serde(default)]
    pub share: Option<ShareRow>,
}

/// A task's share of its device's time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ShareRow {
    /// Nice value of its process.
    pub nice: i8,
    /// What it is due now of the device's time, beside the other tasks that want it.
    pub due_percent: f64,
    /// Device time that it has had.
    pub had_ms: u64,
    /// How far it is behind its share, as device time; negative where it is ahead. None while it wants no device time.
    pub lag_ms: Option<f64>,
}

/// One waiting task as people see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueueRow {
    /// From 1; None: it waits beside the queue, held or kept back by a limit.
    pub place: Option<u32>,
    pub task: u64,
    pub pid: i32,
    pub uid: u32,
    pub label: String,
    pub function: String,
    pub requirement_bytes: u64,
    /// How it would run if it started now: `normal`, `eager`, or empty where that is not known.
    pub class: String,
    pub waited_ms: u64,
    /// Time until a device is expected to have room for all of it, by earlier runs of the tasks there; only for the
    /// first task.
    #[serde(default)]
    pub expected_ms: Option<u64>,
    /// Uid of the user who holds it.
    #[serde(default)]
    pub held_by: Option<u32>,
    /// Priority among the tasks of its user; 0 is the default.
    #[serde(default)]
    pub priority: i8,
    pub reason: String,
}

/// A program that has not started yet: `eager run --after` waits for a task of another to end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AfterRow {
    pub pid: i32,
    pub uid: u32,
    pub label: String,
    /// The task that it waits for.
    pub after: u64,
    pub waited_ms: u64,
    pub reason: String,
}

/// A program that has ended, from its connection to the end of its process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramRow {
    pub client: u64,
    pub pid: i32,
    pub uid: u32,
    pub label: String,
    /// Function in which its first task began.
    pub function: String,
    /// Number of tasks that it began.
    pub tasks: u64,
    /// Milliseconds since 1970: when it connected, and when it had ended.
    pub started_ms: u64,
    pub ended_ms: u64,
    /// How long it had a device, waited for one, and had a kernel at a closed gate; the last is part of the first.
    pub ran_ms: u64,
    pub waited_ms: u64,
    pub held_ms: u64,
    /// `normal`, `eager`, `promoted`, in the order in which they first came.
    pub classes: Vec<String>,
    pub devices: Vec<u32>,
    /// The most that its tasks wanted, and were granted, at once.
    pub requirement_bytes: u64,
    pub grant_bytes: u64,
    /// The most that its tasks had asked for at once as the program allocated it, so that it needs that much; 0 if all
    /// was asked for beforehand.
    #[serde(default)]
    pub grown_bytes: u64,
    /// The most that it had on devices at once; None where it was not watched.
    pub resident_bytes: Option<u64>,
    /// `ended`: its process has ended, and nothing was wrong that the daemon knows of; `refused`, `cancelled`, `limit`
    /// (it was made to end, at a limit), `lost` (its device), `cut-off` (it broke the protocol).
    pub end: String,
    /// Details of an end other than `ended`.
    pub reason: String,
}

/// Prospect of a waiting task on a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutlookRow {
    pub device: u32,
    /// `starts` (if it were its turn), `lacks` (memory), `drained`, `barred` (its program wants another device), or
    /// `waits` (for the reason).
    pub offer: String,
    /// With `starts`: how it would run, and with how much.
    #[serde(default)]
    pub class: String,
    #[serde(default)]
    pub grant_bytes: u64,
    /// With `lacks`: how much is missing.
    #[serde(default)]
    pub missing_bytes: u64,
    /// Demand of this task and of all on the device together, divided by the device's memory.
    pub os_ratio: f64,
    #[serde(default)]
    pub reason: String,
}

/// The policy that decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicyRow {
    pub policy: String,
    /// Where the policy starts a task.
    #[serde(default)]
    pub about: String,
    /// The policy that flags and file name; not `policy` if another one was set since, or took its place.
    pub configured: String,
    /// Empty, or what was wrong with the policy that was replaced.
    pub reverted: String,
    /// Order in which waiting tasks are tried.
    pub queue: String,
    /// The policy starts tasks that do not fit.
    pub eager: bool,
    /// The policy gives a device to a program, from its start to its end.
    #[serde(default)]
    pub by_program: bool,
    /// When kernels of such tasks may start: `none` (always), `barrier`, `per-kernel`, `turns`.
    pub gate: String,
    /// All policies.
    pub known: Vec<String>,
}

/// One device as people see it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceRow {
    pub device: u32,
    pub name: String,
    /// `virtual` or `cuda`.
    pub kind: String,
    pub capacity_bytes: u64,
    pub granted_bytes: u64,
    /// Bytes set aside for programs' contexts, and bytes that could be granted now.
    #[serde(default)]
    pub context_bytes: u64,
    #[serde(default)]
    pub free_bytes: u64,
    /// Bytes that eager tasks demand above their grants.
    pub oversubscribed_bytes: u64,
    /// Bytes on the device: contexts, allocations, managed memory that is there, and the driver's own, as the device
    /// reports; None where it is not watched.
    #[serde(default)]
    pub resident_bytes: Option<u64>,
    /// The part of it that cannot be evicted, as far as the device tells whose it is.
    #[serde(default)]
    pub pinned_bytes: Option<u64>,
    /// `pinned_bytes` by its earlier name.
    #[serde(default)]
    pub used_bytes: Option<u64>,
    /// The part of what is pinned that programs use which are not scheduled; and all that was never granted. Neither is
    /// given away.
    #[serde(default)]
    pub foreign_bytes: u64,
    #[serde(default)]
    pub unaccounted_bytes: u64,
    /// Managed memory moved because it did not fit, in both directions, in all; None where the device does not report
    /// it.
    #[serde(default)]
    pub paged_bytes: Option<u64>,
    /// Share of the time with a kernel on the device, stalled ones included, as last reported; None where the device
    /// does not report it.
    #[serde(default)]
    pub utilization_percent: Option<u32>,
    /// None where the device does not report it; virtual ones do not.
    #[serde(default)]
    pub temperature_celsius: Option<u32>,
    #[serde(default)]
    pub power_watts: Option<u32>,
    pub normal_tasks: u32,
    pub eager_tasks: u32,
    /// For how long no new task has been allowed to start there; None: the device takes tasks.
    #[serde(default)]
    pub drained_ms: Option<u64>,
    /// Its driver does not have it any more.
    #[serde(default)]
    pub lost: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DaemonRow {
    pub version: String,
    /// The commit that it was built from; empty where that is not known.
    #[serde(default)]
    pub commit: String,
    pub pid: u32,
    pub policy: String,
    pub uptime_ms: u64,
    pub clients: u32,
    pub waiting: u32,
    pub running: u32,
    /// `as asked for`, or `reverted:` and what was wrong with the policy that was asked for.
    #[serde(default)]
    pub policy_state: String,
    /// Programs of an earlier daemon that have not come back yet; their grants are kept for them.
    #[serde(default)]
    pub unattached: u32,
    /// Means of the kernel by which the daemon is confined.
    #[serde(default)]
    pub confinement: String,
    /// The next daemon will know what is granted.
    #[serde(default)]
    pub survives_restart: bool,
    /// Programs that used more than they declared, since the daemon started.
    #[serde(default)]
    pub overruns: u64,
    /// How often a task had its device for longer than it may, since the daemon started.
    #[serde(default)]
    pub overstays: u64,
    /// Why the use of the devices cannot be observed; empty if it can be.
    #[serde(default)]
    pub usage_problem: String,
    /// Why the state file, the journal, the history of runs and the list of ended programs cannot be written; empty if
    /// they can, or are not asked for.
    #[serde(default)]
    pub state_problem: String,
    #[serde(default)]
    pub journal_problem: String,
    #[serde(default)]
    pub history_problem: String,
    #[serde(default)]
    pub ended_problem: String,
}

impl DeviceRow {
    /// True if its memory is large enough, in use or not.
    pub fn can_hold(&self, memory: Size) -> bool {
        !self.lost && self.capacity_bytes >= memory.0
    }
}

impl DaemonRow {
    /// Release and commit, such as `0.2.0 (2183783342f3)`.
    pub fn build(&self) -> String {
        if self.commit.is_empty() {
            self.version.clone()
        } else {
            format!("{} ({})", self.version, self.commit)
        }
    }

    /// Parts of a serving daemon that do not work as configured, each with a sentence.
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        let unwritten = |what: &str, why: &str, so: &str| {
            (!why.is_empty()).then(|| format!("the {what} cannot be written ({why}): {so}"))
        };
        let is_reverted = self.policy_state.starts_with("reverted");
        let usage = Some(self.usage_problem.clone()).filter(|why| !why.is_empty());
        let state = unwritten("state file", &self.state_problem, "a restart would lose what is granted");
        let journal = unwritten("journal", &self.journal_problem, "what is decided is not recorded");
        let history = unwritten("history of runs", &self.history_problem, "a restart would not know it");
        let ended =
            unwritten("list of ended programs", &self.ended_problem, "a restart would lose the latest");
        let all = [
            ("policy", is_reverted.then(|| format!("policy {}", self.policy_state))),
            ("state", state),
            ("journal", journal),
            ("history", history),
            ("ended", ended),
            ("usage", usage),
        ];
        all.into_iter().filter_map(|(what, words)| Some((what, words?))).collect()
    }
}
