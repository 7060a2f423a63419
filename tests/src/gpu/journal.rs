//! Reads from a daemon's journal how the tasks of a run started. Pure.
//!
//! Trap: a program may begin several tasks and wait for each; its wait is their sum.

use eager_core::journal::JournalLine;
use eager_units::{Class, Nanos};
use serde::Serialize;
use std::collections::BTreeMap;

/// A task that got a device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Task {
    /// Seconds from its begin until it got the device.
    pub wait_s: f64,
    /// Class in which the task started.
    pub class: Class,
    /// For an eager task, seconds from its start until it had all the memory that it asked for, if it ever had.
    pub promoted_after_s: Option<f64>,
}

/// The tasks of each label, in the order in which they began.
pub type Tasks = BTreeMap<String, Vec<Task>>;

/// Counts the tasks that started with less than they asked for.
pub fn eager_starts(tasks: &Tasks) -> usize {
    tasks.values().flatten().filter(|task| task.class == Class::Eager).count()
}

/// Returns the tasks that got a device, by label.
pub fn tasks(lines: &[JournalLine]) -> Tasks {
    let mut tasks = Tasks::new();
    for program in eager_journal::programs::programs(lines) {
        let of_label = tasks.entry(program.label).or_default();
        for task in program.tasks {
            let Some(start) = &task.start else { continue };
            let promoted_after_s = task.promoted.map(|at| seconds(at.saturating_sub(start.at)));
            of_label.push(Task { wait_s: seconds(task.wait()), class: start.class, promoted_after_s });
        }
    }
    tasks.retain(|_, tasks| !tasks.is_empty());
    tasks
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_core::action::Action;
    use eager_core::event::{Event, TaskRequest};
    use eager_core::reason::Reason;
    use eager_units::{Bytes, ClientId, DeviceId, TaskId};

    fn line(seconds: u64, event: Event, action: Option<Action>) -> JournalLine {
        JournalLine { now: Nanos::from_secs(seconds), event, actions: action.into_iter().collect() }
    }

    fn connected(client: u64, label: &str) -> Event {
        Event::ClientConnected {
            client: ClientId(client),
            uid: 0,
            label: label.to_owned(),
            informed: false,
            same_process: None,
            nice: 0,
        }
    }

    fn begin(task: u64, client: u64) -> Event {
        let request = TaskRequest { requirement: Bytes(1), ..TaskRequest::default() };
        Event::TaskBegin { task: TaskId(task), client: ClientId(client), request }
    }

    fn end(task: u64) -> Event {
        Event::TaskEnd { task: TaskId(task) }
    }

    fn bind(task: u64, class: Class) -> Option<Action> {
        let (task, device, grant, reason) = (TaskId(task), DeviceId(0), Bytes(1), Reason::NoDevice);
        Some(Action::Bind { task, device, class, grant, managed: false, reason })
    }

    fn regrant(task: u64, class: Class) -> Option<Action> {
        Some(Action::Regrant { task: TaskId(task), grant: Bytes(2), class, reason: Reason::NoDevice })
    }

    #[test]
    fn each_task_has_its_wait_its_class_and_its_promotion() {
        let tasks = tasks(&[
            line(0, connected(1, "a"), None),
            line(0, connected(2, "b"), None),
            line(1, begin(1, 1), bind(1, Class::Normal)),
            line(2, begin(2, 2), None),
            line(3, begin(3, 2), bind(3, Class::Eager)),
            line(5, begin(4, 1), None),
            line(6, end(1), bind(2, Class::Eager)),
            line(7, end(3), regrant(2, Class::Eager)),
            line(8, begin(5, 2), regrant(2, Class::Promoted)),
            line(9, end(2), bind(4, Class::Normal)),
        ]);
        let of = |wait_s, class, promoted_after_s| Task { wait_s, class, promoted_after_s };
        let [a, b] = ["a", "b"].map(|label| tasks[label].clone());
        assert_eq!(a, [of(0.0, Class::Normal, None), of(4.0, Class::Normal, None)]);
        assert_eq!(b, [of(4.0, Class::Eager, Some(2.0)), of(0.0, Class::Eager, None)], "5 still waits");
        assert_eq!(eager_starts(&tasks), 2);
    }
}
