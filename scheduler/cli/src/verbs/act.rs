//! Verbs that change something: `drain`, `undrain`, `shutdown`. Each prints one line that says what was done.
//!
//! Trap: the daemon alone decides who may; nothing is checked here that it would have to check again.

use super::look::json;
use super::{Question, WhichDaemon};
use crate::daemon::DaemonPlace;
use crate::print;
use clap::Args;
use eager_proto::admin::{AdminReply, AdminRequest};

#[derive(Debug, Args)]
pub struct DeviceFlags {
    /// Index of the device, as `eager info` shows it.
    #[arg(value_name = "GPU")]
    pub device: u32,
    #[command(flatten)]
    pub question: Question,
}

/// Has it done.
pub fn act(question: &Question, request: &AdminRequest) -> anyhow::Result<()> {
    let reply = DaemonPlace::find(question.which.run_dir.clone())?.ask(request)?;
    match &reply {
        AdminReply::Done { .. } if question.json => print(&json(&reply)?),
        AdminReply::Done { said } => print(&format!("{said}\n")),
        other => anyhow::bail!("the daemon answers {other:?}"),
    }
    Ok(())
}

/// Silent: the daemon is gone.
pub fn shutdown(which: &WhichDaemon) -> anyhow::Result<()> {
    match DaemonPlace::find(which.run_dir.clone())?.ask(&AdminRequest::Shutdown)? {
        AdminReply::Done { .. } => Ok(()),
        other => anyhow::bail!("the daemon answers {other:?}"),
    }
}
