//! Rows about the waiting tasks and the policy, for people and scripts.

use crate::admin::server::Caller;
use crate::admin::tables;
use crate::dispatch::Dispatch;
use crate::policy::recent::ms;
use eager_core::options::QueueOrder;
use eager_core::policy::GateRule;
use eager_core::scheduler::{Offer, Outlook, Standing};
use eager_core::{PolicyName, Scheduler};
use eager_proto::admin::{AdminReply, AfterRow, OutlookRow, PolicyRow, QueueRow};
use eager_proto::hello::LABEL_BYTES;
use eager_proto::text::{pack, unpack};
use eager_units::{Nanos, TaskId};

/// The waiting tasks, in the order in which they are tried.
pub fn queue_rows(dispatch: &Dispatch) -> Vec<QueueRow> {
    let now = dispatch.core.decision_time();
    dispatch.core.scheduler.queue().iter().map(|standing| queue_row(dispatch, standing, now)).collect()
}

fn queue_row(dispatch: &Dispatch, standing: &Standing<'_>, now: Nanos) -> QueueRow {
    let row = tables::task_row(dispatch, &standing.task, now);
    QueueRow {
        place: standing.place,
        task: row.task,
        pid: row.pid,
        uid: row.uid,
        label: row.label,
        function: row.function,
        requirement_bytes: row.requirement_bytes,
        class: standing.class.map_or_else(String::new, |class| class.to_string()),
        waited_ms: row.waited_ms,
        expected_ms: standing.expected.map(|at| ms(at.saturating_sub(now))),
        held_by: standing.task.request.held_by,
        priority: row.priority,
        reason: row.reason,
    }
}

/// Programs that wait for another program's task to end.
pub fn after_rows(dispatch: &Dispatch) -> Vec<AfterRow> {
    let now = dispatch.now();
    let row = |(pid, waiter): (i32, &crate::dispatch::after::Waiter)| {
        let named = dispatch.core.scheduler.task(TaskId(waiter.task)).map(|task| task.label.to_owned());
        AfterRow {
            pid,
            uid: waiter.uid,
            label: waiter.label.clone(),
            after: waiter.task,
            waited_ms: ms(now.saturating_sub(waiter.since)),
            reason: format!("waits: for task {} ({}) to end", waiter.task, named.unwrap_or_default()),
        }
    };
    dispatch.waiters.list(now).into_iter().map(row).collect()
}

impl Dispatch {
    /// Answers a program that waits for a task whether the task has ended.
    pub fn answer_after(&mut self, by: Caller, task: u64, label: &str) -> AdminReply {
        if task >= self.next_task() {
            let message = format!("there has been no task {task} yet: `eager ps` lists those that run");
            return AdminReply::Error { message };
        }
        let has_ended = self.owner(TaskId(task)).is_none();
        if has_ended {
            self.waiters.forget(by.pid);
        } else {
            let (now, label) = (self.now(), unpack(&pack::<LABEL_BYTES>(label)));
            self.waiters.ask(now, by.pid, by.uid, label, task);
        }
        AdminReply::After { has_ended }
    }
}

/// What each device offers a waiting task.
pub fn outlook_rows(scheduler: &Scheduler, task: TaskId) -> Vec<OutlookRow> {
    scheduler.outlooks(task).into_iter().map(outlook_row).collect()
}

fn outlook_row(outlook: Outlook) -> OutlookRow {
    let row = |offer: &str| OutlookRow {
        device: outlook.device.0,
        offer: offer.into(),
        class: String::new(),
        grant_bytes: 0,
        missing_bytes: 0,
        os_ratio: outlook.os_ratio_percent as f64 / 100.0,
        reason: String::new(),
    };
    match outlook.offer {
        Offer::Starts { class, grant } => {
            OutlookRow { class: class.to_string(), grant_bytes: grant.0, ..row("starts") }
        }
        Offer::Lacks { missing, reason, .. } => {
            OutlookRow { missing_bytes: missing.0, reason: reason.to_string(), ..row("lacks") }
        }
        Offer::Drained => row("drained"),
        Offer::Barred => row("barred"),
        Offer::Waits { reason } => OutlookRow { reason: reason.to_string(), ..row("waits") },
    }
}

/// The policy that decides now; `configured` is the one that flags and file name.
pub fn policy_row(dispatch: &Dispatch, configured: PolicyName) -> PolicyRow {
    let scheduler = &dispatch.core.scheduler;
    let traits = scheduler.traits();
    PolicyRow {
        policy: scheduler.policy().to_string(),
        about: scheduler.policy().def().about.into(),
        configured: configured.to_string(),
        reverted: dispatch.core.reverted.clone().unwrap_or_default(),
        queue: queue_name(traits.queue).into(),
        eager: traits.eager,
        by_program: traits.assignment.is_by_program(),
        gate: gate_rule_name(traits.gate).into(),
        known: PolicyName::names().into_iter().map(str::to_owned).collect(),
    }
}

fn queue_name(order: QueueOrder) -> &'static str {
    match order {
        QueueOrder::Fifo => "fifo",
        QueueOrder::Backfill => "backfill",
        QueueOrder::LargestFirst => "largest-first",
        QueueOrder::LongestRemaining => "longest-remaining",
    }
}

fn gate_rule_name(rule: GateRule) -> &'static str {
    match rule {
        GateRule::None => "none",
        GateRule::Barrier => "barrier",
        GateRule::PerKernel => "per-kernel",
        GateRule::WhileIdle => "while-idle",
        GateRule::Rounds(_) => "rounds",
    }
}
