//! Verbs that only look: `ps`, `info`.
//!
//! Trap: with `--json` a script gets the daemon's answer as it came; what is worked out for people is in no JSON.

use super::Question;
use crate::daemon::DaemonPlace;
use crate::{print, tables};
use eager_proto::admin::{AdminReply, AdminRequest};

/// Asks, and prints the answer.
pub fn look(question: &Question, request: &AdminRequest) -> anyhow::Result<()> {
    let reply = DaemonPlace::find(question.which.run_dir.clone())?.ask(request)?;
    print(&if question.json { json(&reply)? } else { shown(&reply)? });
    Ok(())
}

/// The answer for scripts.
pub fn json(reply: &AdminReply) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(reply)? + "\n")
}

fn shown(reply: &AdminReply) -> anyhow::Result<String> {
    Ok(match reply {
        AdminReply::Ps { tasks } => tables::tasks(tasks),
        AdminReply::Info { daemon, devices } => tables::devices(daemon, devices),
        AdminReply::Done { .. } | AdminReply::Error { .. } | AdminReply::Snapshot(_) => {
            anyhow::bail!("the daemon answers {reply:?}")
        }
    })
}
