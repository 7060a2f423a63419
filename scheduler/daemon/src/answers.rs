//! What is answered on the admin socket, and who may ask for what.
//!
//! Trap: whoever is connected may look; only what changes something is refused, and always by the uid of the connection,
//! never by anything in the question.

use crate::admin::Caller;
use crate::dispatch::Dispatch;
use crate::tables;
use eager_core::units::DeviceId;
use eager_proto::admin::{AdminReply, AdminRequest};

/// What the answers need besides the core and its clients.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    pub devices_kind: &'a str,
    pub confinement: &'a str,
}

/// Answers one question. The daemon ends after [`AdminRequest::Shutdown`] was answered by [`AdminReply::Done`].
pub fn answer(dispatch: &mut Dispatch, about: About<'_>, by: Caller, request: AdminRequest) -> AdminReply {
    done_or_error(match request {
        AdminRequest::Ps => return AdminReply::Ps { tasks: tables::task_rows(dispatch) },
        AdminRequest::Info => {
            return AdminReply::Info {
                daemon: tables::daemon_row(dispatch, about.confinement),
                devices: tables::device_rows(dispatch, about.devices_kind),
            };
        }
        AdminRequest::Snapshot { tasks_max } => {
            let About { devices_kind, confinement } = about;
            let snapshot = tables::snapshot(dispatch, devices_kind, confinement, tasks_max);
            return AdminReply::Snapshot(Box::new(snapshot));
        }
        AdminRequest::Drain { device } => {
            by.must_own("drain devices").and_then(|()| drain(dispatch, device, true))
        }
        AdminRequest::Undrain { device } => {
            by.must_own("undrain devices").and_then(|()| drain(dispatch, device, false))
        }
        AdminRequest::Shutdown => by.must_own("stop the daemon").map(|()| String::new()),
    })
}

fn done_or_error(done: Result<String, String>) -> AdminReply {
    match done {
        Ok(said) => AdminReply::Done { said },
        Err(message) => AdminReply::Error { message },
    }
}

fn drain(dispatch: &mut Dispatch, device: u32, drained: bool) -> Result<String, String> {
    let is_new = dispatch.drain(DeviceId(device), drained).map_err(|error| error.to_string())?;
    let already = if is_new { "" } else { " already" };
    Ok(if drained {
        format!("GPU {device} is drained{already}: nothing new starts there, and what runs there goes on")
    } else {
        format!("GPU {device} takes tasks{}", if is_new { " again" } else { already })
    })
}
