//! Answers of the admin socket: the core's state as rows for people.

use crate::dispatch::Dispatch;
use crate::identity;
use eager_core::action::{Class, Gate};
use eager_core::scheduler::{DeviceView, Stage, TaskView};
use eager_core::units::Nanos;
use eager_proto::admin::{DaemonRow, DeviceRow, TaskRow};

/// All tasks, by id.
pub fn task_rows(dispatch: &Dispatch) -> Vec<TaskRow> {
    let now = dispatch.mind.decides_at();
    dispatch.mind.scheduler.tasks().map(|task| task_row(dispatch, &task, now)).collect()
}

fn task_row(dispatch: &Dispatch, task: &TaskView<'_>, now: Nanos) -> TaskRow {
    let row = TaskRow {
        task: task.task.0,
        client: task.client.0,
        pid: dispatch.clients.get(&task.client).map_or(0, |client| client.peer.pid),
        uid: task.uid,
        label: task.label.to_owned(),
        function: task.request.function.clone(),
        state: "waiting".into(),
        class: String::new(),
        device: None,
        requirement_bytes: task.requirement.0,
        grant_bytes: 0,
        used_bytes: None,
        waited_ms: millis(now.saturating_sub(task.asked_at)),
        running_ms: 0,
        gate: String::new(),
        held_kernel: String::new(),
        reason: String::new(),
    };
    match &task.stage {
        Stage::Waiting { reason } => TaskRow { reason: reason.to_string(), ..row },
        Stage::Bound { device, class, grant, bound_at, reason, gate, gate_reason, held, .. } => TaskRow {
            state: if identity::is_stopped(row.pid) { "stopped" } else { "running" }.into(),
            class: class_name(*class).into(),
            device: Some(device.0),
            grant_bytes: grant.0,
            used_bytes: dispatch.truth.on(*device).map(|used| used.of(task.client).0),
            waited_ms: millis(bound_at.saturating_sub(task.asked_at)),
            running_ms: millis(now.saturating_sub(*bound_at)),
            gate: gate_name(*gate).into(),
            held_kernel: held.map_or_else(String::new, |(kernel, _)| kernel.to_owned()),
            // A kernel that stands at its gate is what people ask about.
            reason: if held.is_some() { gate_reason.to_string() } else { reason.to_string() },
            ..row
        },
    }
}

fn millis(time: Nanos) -> u64 {
    time.0 / 1_000_000
}

fn gate_name(gate: Gate) -> &'static str {
    match gate {
        Gate::Ungated => "none",
        Gate::Go { .. } => "go",
        Gate::Hold => "hold",
    }
}

fn class_name(class: Class) -> &'static str {
    match class {
        Class::Normal => "normal",
        Class::Eager => "eager",
        Class::Promoted => "promoted",
    }
}

/// All devices, by index.
pub fn device_rows(dispatch: &Dispatch, kind: &str) -> Vec<DeviceRow> {
    dispatch.mind.scheduler.devices().map(|device| device_row(dispatch, &device, kind)).collect()
}

fn device_row(dispatch: &Dispatch, device: &DeviceView<'_>, kind: &str) -> DeviceRow {
    DeviceRow {
        device: device.device.0,
        name: device.profile.name.clone(),
        kind: kind.to_owned(),
        capacity_bytes: device.capacity.0,
        granted_bytes: device.granted.0,
        context_bytes: device.contexts.0,
        free_bytes: device.free.0,
        oversubscribed_bytes: device.oversubscribed.0,
        used_bytes: dispatch.truth.on(device.device).map(|used| used.in_all().0),
        foreign_bytes: device.foreign.0,
        unaccounted_bytes: device.unaccounted.0,
        normal_tasks: device.normal_tasks,
        eager_tasks: device.eager_tasks,
        drained_ms: dispatch.drained_for(device.device).map(millis),
    }
}

/// The daemon itself.
pub fn daemon_row(dispatch: &Dispatch, confinement: &str) -> DaemonRow {
    let tasks = dispatch.mind.scheduler.tasks();
    let (waiting, running): (Vec<_>, Vec<_>) =
        tasks.partition(|task| matches!(task.stage, Stage::Waiting { .. }));
    let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    DaemonRow {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        policy: dispatch.mind.scheduler.policy().to_string(),
        uptime_ms: dispatch.now().0 / 1_000_000,
        clients: count(dispatch.clients.len()),
        waiting: count(waiting.len()),
        running: count(running.len()),
        policy_state: dispatch
            .mind
            .reverted
            .as_ref()
            .map_or("as asked for".into(), |why| format!("reverted: {why}")),
        unattached: count(dispatch.clients.values().filter(|client| client.pages.is_none()).count()),
        confinement: confinement.to_owned(),
        survives_restart: dispatch.state.is_whole(),
        overruns: dispatch.truth.overruns,
        usage_problem: dispatch.truth.problem(dispatch.now()).unwrap_or_default(),
    }
}
