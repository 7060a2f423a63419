//! Verbs that change something: `cancel`, `hold`, `release`, `policy set`, `drain`, `undrain`, `shutdown`. Each
//! prints one line with the result.
//!
//! Trap: only the daemon decides about permissions; a check here would be repeated there.

use super::look::{json, look};
use super::{Question, WhichDaemon};
use crate::daemon::DaemonPlace;
use crate::print;
use crate::values::WrongValue;
use clap::{Args, Subcommand};
use eager_proto::admin::{AdminReply, AdminRequest};
use nix::sys::signal::Signal;

#[derive(Debug, Args)]
pub struct DeviceFlags {
    /// Index of the device, as `eager info` shows it.
    #[arg(value_name = "GPU")]
    pub device: u32,
    #[command(flatten)]
    pub question: Question,
}

#[derive(Debug, Args)]
pub struct TaskFlags {
    /// Number of the task, as `eager ps` shows it.
    #[arg(value_name = "TASK")]
    pub task: u64,
    #[command(flatten)]
    pub question: Question,
}

#[derive(Debug, Args)]
pub struct PriorityFlags {
    #[command(flatten)]
    pub task: TaskFlags,
    /// From -100 to 100, the higher the earlier.
    #[arg(value_name = "N", allow_negative_numbers = true, value_parser = super::run::priority)]
    pub priority: i8,
}

#[derive(Debug, Args)]
pub struct CancelFlags {
    #[command(flatten)]
    pub task: TaskFlags,
    /// Signal for the task's program, such as TERM or SIGKILL, whether it runs or waits [default: TERM, if it runs].
    #[arg(long, value_name = "SIGNAL", value_parser = signal)]
    pub signal: Option<Signal>,
}

#[derive(Debug, Args)]
pub struct ShutdownFlags {
    #[command(flatten)]
    pub which: WhichDaemon,
    /// Stop even while tasks run or wait: programs that start later are not scheduled.
    #[arg(long)]
    pub force: bool,
    /// Stop as soon as no task runs or waits.
    #[arg(long, conflicts_with = "force")]
    pub when_idle: bool,
}

fn signal(name: &str) -> Result<Signal, WrongValue> {
    let upper = name.to_ascii_uppercase();
    let whole = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    whole.parse().map_err(|_| WrongValue::Signal(name.to_owned()))
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PolicyFlags {
    #[command(subcommand)]
    change: Option<PolicyChange>,
    #[command(flatten)]
    question: Question,
}

#[derive(Debug, Subcommand)]
enum PolicyChange {
    /// Let another policy decide from now on: what runs stays, what waits is planned anew. For root and the daemon's
    /// own user.
    Set {
        /// One of those that `eager policy` lists.
        policy: String,
        #[command(flatten)]
        question: Question,
    },
}

/// Shows the policy, or sets it.
pub fn policy(flags: PolicyFlags) -> anyhow::Result<()> {
    match flags.change {
        None => look(&flags.question, &AdminRequest::Policy),
        Some(PolicyChange::Set { policy, question }) => act(&question, &AdminRequest::SetPolicy { policy }),
    }
}

pub fn cancel(flags: &CancelFlags) -> anyhow::Result<()> {
    let signal = flags.signal.unwrap_or(Signal::SIGTERM).as_str().to_owned();
    let (task, ends_waiting) = (flags.task.task, flags.signal.is_some());
    act(&flags.task.question, &AdminRequest::Cancel { task, signal, ends_waiting })
}

pub fn priority(flags: &PriorityFlags) -> anyhow::Result<()> {
    let PriorityFlags { task, priority } = flags;
    act(&task.question, &AdminRequest::SetPriority { task: task.task, priority: *priority })
}

/// Sends a request that changes something, and prints the daemon's answer.
pub fn act(question: &Question, request: &AdminRequest) -> anyhow::Result<()> {
    let reply = DaemonPlace::find(question.which.run_dir.clone())?.ask(request)?;
    match &reply {
        AdminReply::Done { .. } if question.json => print(&json(&reply)?),
        AdminReply::Done { said } => print(&format!("{said}\n")),
        other => anyhow::bail!("the daemon answers {other:?}"),
    }
    Ok(())
}

/// Stops the daemon. Prints nothing if the daemon answers without a message.
pub fn shutdown(flags: &ShutdownFlags) -> anyhow::Result<()> {
    let ShutdownFlags { which, force, when_idle } = flags;
    let request = AdminRequest::Shutdown { force: *force, when_idle: *when_idle };
    match DaemonPlace::find(which.run_dir.clone())?.ask(&request)? {
        AdminReply::Done { said } if said.is_empty() => Ok(()),
        AdminReply::Done { said } => {
            print(&format!("{said}\n"));
            Ok(())
        }
        other => anyhow::bail!("the daemon answers {other:?}"),
    }
}
