//! Answers requests on the admin socket, and checks that the caller may make them.
//!
//! Trap: any connected user may look; only a request that changes something is refused, and always by the uid of the
//! connection, never by anything in the request.

use crate::admin::refusal::Refused;
use crate::admin::server::Caller;
use crate::admin::tables;
use crate::admin::waiting;
use crate::dispatch::Dispatch;
use eager_core::PolicyName;
use eager_proto::admin::{AdminReply, AdminRequest, TaskRow};
use eager_units::{DeviceId, TaskId};
use std::str::FromStr;

/// Most tasks that one line names.
const NAMED_MAX: usize = 3;

/// What an answer needs besides the core and its clients.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    pub devices_kind: &'a str,
    pub confinement: &'a str,
    /// The policy that the flags and the settings file name.
    pub configured: PolicyName,
}

/// Answers one request. The daemon ends after it answers [`AdminRequest::Shutdown`] with [`AdminReply::Done`], either
/// at once or when it has no tasks any more.
pub fn answer(dispatch: &mut Dispatch, about: About<'_>, by: Caller, request: AdminRequest) -> AdminReply {
    if let AdminRequest::After { task, label } = request {
        return dispatch.answer_after(by, task, &label);
    }
    match look(dispatch, about, &request) {
        Some(Ok(reply)) => reply,
        Some(Err(refused)) => AdminReply::Error { message: refused.to_string() },
        None => match act(dispatch, by, request) {
            Ok(said) => AdminReply::Done { said },
            Err(refused) => AdminReply::Error { message: refused.to_string() },
        },
    }
}

/// Answers a request that changes nothing; `None` if this request changes something.
fn look(
    dispatch: &Dispatch,
    about: About<'_>,
    request: &AdminRequest,
) -> Option<Result<AdminReply, Refused>> {
    Some(Ok(match *request {
        AdminRequest::Ps => {
            let (tasks, after) = (tables::task_rows(dispatch), waiting::after_rows(dispatch));
            AdminReply::Ps { tasks, next_task: dispatch.next_task(), after }
        }
        AdminRequest::Info => AdminReply::Info {
            daemon: tables::daemon_row(dispatch, about.confinement),
            devices: tables::device_rows(dispatch, about.devices_kind),
        },
        AdminRequest::Snapshot { tasks_max } => {
            let About { devices_kind, confinement, .. } = about;
            let snapshot = tables::snapshot(dispatch, devices_kind, confinement, tasks_max);
            AdminReply::Snapshot(Box::new(snapshot))
        }
        AdminRequest::Queue => {
            AdminReply::Queue { tasks: waiting::queue_rows(dispatch), after: waiting::after_rows(dispatch) }
        }
        AdminRequest::History { uid, programs_max } => {
            AdminReply::History { programs: dispatch.core.ended.newest(uid, programs_max as usize) }
        }
        AdminRequest::Policy => {
            AdminReply::Policy { policy: waiting::policy_row(dispatch, about.configured) }
        }
        AdminRequest::Explain { task } => return Some(explain_task(dispatch, TaskId(task))),
        AdminRequest::ExplainDevice { device } => return Some(explain_device(dispatch, DeviceId(device))),
        _ => return None,
    }))
}

fn explain_task(dispatch: &Dispatch, task: TaskId) -> Result<AdminReply, Refused> {
    let scheduler = &dispatch.core.scheduler;
    let sentences = scheduler.explain_task(task, dispatch.core.decision_time());
    let mut sentences = sentences.ok_or(Refused::NoTask(task))?;
    sentences.extend(dispatch.explain_stopped(task));
    Ok(AdminReply::Explained { sentences, devices: waiting::outlook_rows(scheduler, task) })
}

fn explain_device(dispatch: &Dispatch, device: DeviceId) -> Result<AdminReply, Refused> {
    let sentences = dispatch.core.scheduler.explain_device(device, dispatch.core.decision_time());
    let sentences = sentences.ok_or(Refused::NoDevice(device))?;
    Ok(AdminReply::Explained { sentences, devices: Vec::new() })
}

/// Does what the request asks for, if the caller may; returns one line either way.
fn act(dispatch: &mut Dispatch, by: Caller, request: AdminRequest) -> Result<String, Refused> {
    match request {
        AdminRequest::Cancel { task, signal, ends_waiting } => {
            dispatch.cancel(by, TaskId(task), &signal, ends_waiting)
        }
        AdminRequest::Hold { task } => dispatch.hold(by, TaskId(task)),
        AdminRequest::Release { task } => dispatch.release(by, TaskId(task)),
        AdminRequest::SetPriority { task, priority } => dispatch.set_priority(by, TaskId(task), priority),
        AdminRequest::SetPolicy { policy } => {
            by.require_owner("set the policy")?;
            dispatch.set_policy(PolicyName::from_str(&policy)?)
        }
        AdminRequest::Drain { device } => {
            by.require_owner("drain devices")?;
            drain(dispatch, device, true)
        }
        AdminRequest::Undrain { device } => {
            by.require_owner("undrain devices")?;
            drain(dispatch, device, false)
        }
        AdminRequest::Shutdown { force, when_idle } => {
            by.require_owner("stop the daemon")?;
            shut_down(dispatch, force, when_idle)
        }
        AdminRequest::Ps
        | AdminRequest::Info
        | AdminRequest::Snapshot { .. }
        | AdminRequest::Queue
        | AdminRequest::History { .. }
        | AdminRequest::After { .. }
        | AdminRequest::Policy
        | AdminRequest::Explain { .. }
        | AdminRequest::ExplainDevice { .. } => Err(Refused::ChangesNothing),
    }
}

/// Refuses a shutdown while there are tasks, unless it is forced or waits until idle, and names the tasks: they go on
/// without a scheduler, and tasks that start later run beside them unscheduled.
fn shut_down(dispatch: &Dispatch, force: bool, when_idle: bool) -> Result<String, Refused> {
    if force || !dispatch.has_tasks() {
        return Ok(String::new());
    }
    let rows = tables::task_rows(dispatch);
    let waiting = rows.iter().filter(|row| row.state == "waiting").count();
    let name = |row: &TaskRow| format!("task {} ({}, pid {})", row.task, row.label, row.pid);
    let names: Vec<String> = rows.iter().take(NAMED_MAX).map(name).collect();
    let more = if rows.len() > NAMED_MAX { ", …" } else { "" };
    let running = rows.len() - waiting;
    let tasks = format!("running tasks: {running}, waiting: {waiting}: {}{more}", names.join(", "));
    if when_idle {
        Ok(format!("the daemon ends when no task runs or waits any more; {tasks}"))
    } else {
        Err(Refused::HasTasks { tasks })
    }
}

fn drain(dispatch: &mut Dispatch, device: u32, drained: bool) -> Result<String, Refused> {
    let is_new = dispatch.drain(DeviceId(device), drained)?;
    let already = if is_new { "" } else { " already" };
    Ok(if drained {
        format!("GPU {device} is drained{already}: no new task starts there, and running tasks go on")
    } else {
        format!("GPU {device} takes tasks{}", if is_new { " again" } else { already })
    })
}
