//! Answers of the admin socket: the core's state as rows for people.

use crate::admin::waiting;
use crate::clients::identity;
use crate::dispatch::Dispatch;
use crate::policy::recent::ms;
use eager_core::action::Gate;
use eager_core::model::TaskState;
use eager_core::scheduler::{DeviceView, Share, Stage, TaskView};
use eager_proto::admin::{DaemonRow, DeviceRow, ShareRow, TaskRow};
use eager_proto::snapshot::Snapshot;
use eager_units::Nanos;

/// The whole state at one moment. At most `tasks_max` tasks, since working out why a task waits takes a while.
pub fn snapshot(dispatch: &Dispatch, kind: &str, confinement: &str, tasks_max: u32) -> Snapshot {
    let (now, most) = (dispatch.core.decision_time(), tasks_max as usize);
    Snapshot {
        now_ms: ms(now),
        daemon: daemon_row(dispatch, confinement),
        devices: device_rows(dispatch, kind),
        tasks: first_tasks(dispatch, most),
        after: waiting::after_rows(dispatch).into_iter().take(most).collect(),
        counts: dispatch.core.tally.counts().clone(),
        minutes: dispatch.truth.minutes.rows(dispatch.now()),
        lives: dispatch.core.recent.lives(now, most),
    }
}

/// All tasks, by id.
pub fn task_rows(dispatch: &Dispatch) -> Vec<TaskRow> {
    first_tasks(dispatch, usize::MAX)
}

fn first_tasks(dispatch: &Dispatch, most: usize) -> Vec<TaskRow> {
    let now = dispatch.core.decision_time();
    dispatch.core.scheduler.tasks().take(most).map(|task| task_row(dispatch, &task, now)).collect()
}

/// The row of one task.
pub fn task_row(dispatch: &Dispatch, task: &TaskView<'_>, now: Nanos) -> TaskRow {
    let row = TaskRow {
        task: task.task.0,
        client: task.client.0,
        pid: dispatch.clients.get(&task.client).map_or(0, |client| client.peer.pid),
        uid: task.uid,
        label: task.label.to_owned(),
        function: task.request.function.clone(),
        state: "waiting".into(),
        requirement_bytes: task.requirement.0,
        waited_ms: ms(now.saturating_sub(task.asked_at)),
        priority: task.request.priority,
        ..TaskRow::default()
    };
    match &task.stage {
        Stage::Waiting { reason } => TaskRow { reason: reason.to_string(), ..row },
        Stage::Bound {
            device, class, grant, bound_at, reason, gate, gate_reason, held, overstays, ..
        } => TaskRow {
            overstays: *overstays,
            share: dispatch.core.scheduler.share(task.task).map(share_row),
            state: if identity::is_stopped(row.pid) { "stopped" } else { "running" }.into(),
            class: class.to_string(),
            device: Some(device.0),
            grant_bytes: grant.0,
            resident_bytes: dispatch.truth.on(*device).map(|used| used.resident_of(task.client).0),
            used_bytes: dispatch.truth.on(*device).map(|used| used.of(task.client).0),
            pinned_bytes: dispatch.truth.on(*device).map(|used| used.of(task.client).0),
            waited_ms: ms(bound_at.saturating_sub(task.asked_at)),
            running_ms: ms(now.saturating_sub(*bound_at)),
            gate: gate_name(*gate).into(),
            gate_max_bytes: if let Gate::Go { allowed } = gate { allowed.map(|most| most.0) } else { None },
            held_kernel: held.map_or_else(String::new, |(kernel, _)| kernel.to_owned()),
            held_ms: held.map_or(0, |(_, since)| ms(now.saturating_sub(since))),
            // A kernel that is held at its gate is what people ask about.
            reason: if held.is_some() { gate_reason.to_string() } else { reason.to_string() },
            ..row
        },
    }
}

fn share_row(share: Share) -> ShareRow {
    ShareRow {
        nice: share.nice,
        due_percent: share.due_percent(),
        had_ms: ms(share.service),
        lag_ms: share.lag.map(|lag| lag as f64 / 1e6),
    }
}

fn gate_name(gate: Gate) -> &'static str {
    match gate {
        Gate::Ungated => "none",
        Gate::Go { .. } => "go",
        Gate::Hold => "hold",
    }
}

/// All devices, by index.
pub fn device_rows(dispatch: &Dispatch, kind: &str) -> Vec<DeviceRow> {
    dispatch.core.scheduler.devices().map(|device| device_row(dispatch, &device, kind)).collect()
}

fn device_row(dispatch: &Dispatch, device: &DeviceView<'_>, kind: &str) -> DeviceRow {
    let used = dispatch.truth.on(device.device);
    let (temperature_celsius, power_watts) = dispatch.truth.temperature_and_power(device.device);
    DeviceRow {
        device: device.device.0,
        name: device.profile.name.clone(),
        kind: kind.to_owned(),
        capacity_bytes: device.capacity.0,
        granted_bytes: device.granted.0,
        context_bytes: device.contexts.0,
        free_bytes: device.free.0,
        oversubscribed_bytes: device.oversubscribed.0,
        resident_bytes: used.map(|used| used.resident.0),
        used_bytes: used.map(|used| used.pinned().0),
        pinned_bytes: used.map(|used| used.pinned().0),
        foreign_bytes: used.map_or(0, |used| used.foreign.0),
        unaccounted_bytes: device.unaccounted.0,
        paged_bytes: dispatch.truth.paged(device.device).map(|bytes| bytes.0),
        utilization_percent: dispatch.truth.utilization(device.device),
        temperature_celsius,
        power_watts,
        normal_tasks: device.normal_tasks,
        eager_tasks: device.eager_tasks,
        lost: device.lost,
        drained_ms: dispatch.drained_for(device.device).map(ms),
    }
}

/// The row of the daemon itself.
pub fn daemon_row(dispatch: &Dispatch, confinement: &str) -> DaemonRow {
    // Counted here: the views would work out why each task waits.
    let tasks = &dispatch.core.scheduler.state().tasks;
    let waiting = tasks.values().filter(|task| matches!(task.state, TaskState::Waiting { .. })).count();
    let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    DaemonRow {
        version: eager_version::VERSION.into(),
        commit: eager_version::COMMIT.into(),
        pid: std::process::id(),
        policy: dispatch.core.scheduler.policy().to_string(),
        uptime_ms: dispatch.now().0 / 1_000_000,
        clients: count(dispatch.clients.len()),
        waiting: count(waiting),
        running: count(tasks.len() - waiting),
        policy_state: dispatch
            .core
            .reverted
            .as_ref()
            .map_or("as asked for".into(), |why| format!("reverted: {why}")),
        unattached: count(dispatch.clients.values().filter(|client| client.pages.is_none()).count()),
        confinement: confinement.to_owned(),
        survives_restart: dispatch.state.is_whole(),
        overruns: dispatch.truth.overruns,
        overstays: dispatch.truth.overstays,
        usage_problem: dispatch.truth.problem(dispatch.now()).unwrap_or_default(),
        state_problem: dispatch.state.problem().unwrap_or_default().to_owned(),
        journal_problem: dispatch.core.journal_problem.clone().unwrap_or_default(),
        history_problem: dispatch.core.run_history.problem().unwrap_or_default().to_owned(),
        ended_problem: dispatch.ended_problem().unwrap_or_default().to_owned(),
    }
}
