//! Verbs that only show something: `queue`, `info`, `explain`, `policy show`.
//!
//! Trap: with `--json` a script gets the daemon's answer unchanged. Anything computed for people must not appear in
//! JSON.

use super::Question;
use crate::daemon::DaemonPlace;
use crate::{people, print, tables};
use clap::Args;
use eager_journal::names;
use eager_proto::admin::{AdminReply, AdminRequest};
use std::str::FromStr;

#[derive(Debug, Args)]
pub struct ExplainFlags {
    /// A task, such as `12`, a device, such as `gpu 1`, or a program, such as `pid 4242`.
    #[arg(value_name = "TASK|gpu GPU|pid PID", required = true, num_args = 1..=2)]
    subject: Vec<String>,
    #[command(flatten)]
    question: Question,
}

/// Subject of an explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Task(u64),
    Device(u32),
    Program(i32),
}

impl FromStr for Subject {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Subject> {
        let words = text.to_ascii_lowercase();
        let device = words.strip_prefix("gpu").map(|index| index.trim().parse().map(Subject::Device));
        let program = words.strip_prefix("pid").map(|pid| pid.trim().parse().map(Subject::Program));
        let task = || words.strip_prefix("task").unwrap_or(&words).trim().parse().map(Subject::Task);
        device.or(program).unwrap_or_else(task).map_err(|_| {
            anyhow::anyhow!("`{text}` is neither a task, such as `12`, nor a device, such as `gpu 1`, nor a program, such as `pid 4242`")
        })
    }
}

/// Sends a request, and prints the answer.
pub fn look(question: &Question, request: &AdminRequest) -> anyhow::Result<()> {
    let reply = DaemonPlace::find(question.which.run_dir.clone())?.ask(request)?;
    // In JSON, mangled names stay: scripts use them as keys, as profiles and journals do.
    print(&if question.json { json(&reply)? } else { names::in_text(&shown(&reply)?) });
    Ok(())
}

pub fn explain(flags: &ExplainFlags) -> anyhow::Result<()> {
    let request = match flags.subject.join(" ").parse()? {
        Subject::Task(task) => AdminRequest::Explain { task },
        Subject::Device(device) => AdminRequest::ExplainDevice { device },
        Subject::Program(pid) => AdminRequest::Explain { task: task_of(&flags.question, pid)? },
    };
    look(&flags.question, &request)
}

/// Returns the task of a program that is most worth explaining: a waiting task, else the first.
fn task_of(question: &Question, pid: i32) -> anyhow::Result<u64> {
    let reply = DaemonPlace::find(question.which.run_dir.clone())?.ask(&AdminRequest::Ps)?;
    let AdminReply::Ps { tasks, .. } = reply else { anyhow::bail!("the daemon answers {reply:?}") };
    let its: Vec<_> = tasks.iter().filter(|row| row.pid == pid).collect();
    let waiting = its.iter().find(|row| row.state == "waiting");
    let row = waiting.or(its.first());
    row.map(|row| row.task)
        .ok_or_else(|| anyhow::anyhow!("pid {pid} has no task: `eager ps` lists those that have"))
}

/// Formats the answer as JSON.
pub fn json(reply: &AdminReply) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(reply)? + "\n")
}

fn shown(reply: &AdminReply) -> anyhow::Result<String> {
    Ok(match reply {
        AdminReply::Info { daemon, devices } => tables::devices(daemon, devices),
        AdminReply::Queue { tasks, after } => tables::queue(tasks, after, people::name),
        AdminReply::Policy { policy } => tables::policy(policy),
        AdminReply::Explained { sentences, .. } => sentences.join("\n") + "\n",
        AdminReply::Ps { .. }
        | AdminReply::History { .. }
        | AdminReply::After { .. }
        | AdminReply::Done { .. }
        | AdminReply::Error { .. }
        | AdminReply::Busy { .. }
        | AdminReply::Snapshot(_) => {
            anyhow::bail!("the daemon answers {reply:?}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_and_devices_are_told_apart() {
        for (text, subject) in [
            ("12", Subject::Task(12)),
            ("task 12", Subject::Task(12)),
            ("gpu 1", Subject::Device(1)),
            ("GPU1", Subject::Device(1)),
            ("pid 4242", Subject::Program(4242)),
        ] {
            assert_eq!(text.parse::<Subject>().expect(text), subject);
        }
        for text in ["", "gpu", "gpu x", "-1", "task", "1 2"] {
            let error = text.parse::<Subject>().expect_err(text).to_string();
            assert!(error.starts_with(&format!("`{text}` is neither a task")), "{error}");
        }
    }
}
