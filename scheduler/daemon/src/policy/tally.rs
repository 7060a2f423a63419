//! Counts decisions for metrics: a few additions per step, and no memory that grows with the steps.
//!
//! Trap: decisions of an earlier daemon must not be counted again: restored tasks are not started, and a task that asks
//! again under another policy has not asked twice.

use eager_core::Scheduler;
use eager_core::action::{Action, Reason};
use eager_core::event::Event;
use eager_proto::snapshot::{Counts, Distribution};
use eager_units::{Class, Nanos, TaskId};
use std::collections::BTreeMap;

/// Bounds in seconds: from a grant at once to an hour's queue.
const WAIT_BOUNDS: [f64; 11] = [0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0];
/// Bounds in seconds: a step takes a microsecond, and must never take a millisecond.
const DECISION_BOUNDS: [f64; 9] = [1e-6, 2e-6, 5e-6, 1e-5, 2.5e-5, 1e-4, 1e-3, 1e-2, 1.0];

/// All reasons for which the core refuses, as [`name`] returns them.
const REFUSALS: [&str; 9] = [
    "cancelled",
    "device-lost",
    "extend-not-whole",
    "extend-too-large",
    "extends-beyond-user",
    "no-way-out",
    "too-large",
    "user-may-not",
    "user-waits",
];

/// Counts since the daemon started.
#[derive(Debug)]
pub struct Tally {
    counts: Counts,
}

impl Default for Tally {
    fn default() -> Tally {
        let classes = [Class::Normal, Class::Eager].map(|class| class.to_string());
        let waits = |class: &String| (class.clone(), Distribution::new(&WAIT_BOUNDS));
        let zeros = |names: &[&str]| names.iter().map(|&name| (name.to_owned(), 0)).collect();
        let counts = Counts {
            // A series that exists from the start shows its first increase.
            refused: zeros(&REFUSALS),
            started: classes.iter().map(|class| (class.clone(), 0)).collect(),
            clients_gone: zeros(&["idle", "holding", "cut-off"]),
            wait_seconds: classes.iter().map(waits).collect(),
            decision_seconds: Distribution::new(&DECISION_BOUNDS),
            ..Counts::default()
        };
        Tally { counts }
    }
}

impl Tally {
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Takes in one step: the scheduler after it, and how long it took.
    pub fn note(&mut self, scheduler: &Scheduler, event: &Event, actions: &[Action], took: Nanos) {
        self.counts.decision_seconds.observe(took.0 as f64 / 1e9);
        match event {
            Event::TaskEnd { .. } => self.counts.ended += 1,
            Event::KernelHeld { .. } => self.counts.held_kernels += 1,
            _ => {}
        }
        for action in actions {
            match action {
                Action::Bind { task, class, .. } => self.started(scheduler, *task, *class),
                Action::Regrant { class: Class::Promoted, reason, .. } if promotes(reason) => {
                    self.counts.promoted += 1;
                }
                Action::Refuse { reason, .. } => self.refused(reason),
                _ => {}
            }
        }
    }

    /// Counts a task that was refused, or would have been.
    pub fn refused(&mut self, reason: &Reason) {
        add(&mut self.counts.refused, &name(reason));
    }

    fn started(&mut self, scheduler: &Scheduler, task: TaskId, class: Class) {
        let class = class.to_string();
        if let Some(task) = scheduler.state().tasks.get(&task) {
            let waited = scheduler.now().saturating_sub(task.asked_at);
            let spread = self.counts.wait_seconds.entry(class.clone());
            spread.or_insert_with(|| Distribution::new(&WAIT_BOUNDS)).observe(waited.0 as f64 / 1e9);
        }
        add(&mut self.counts.started, &class);
    }

    /// Counts a program that is gone, with this many open tasks.
    pub fn client_gone(&mut self, was_cut_off: bool, tasks: usize) {
        let how = match (was_cut_off, tasks) {
            (true, _) => "cut-off",
            (false, 0) => "idle",
            (false, _) => "holding",
        };
        add(&mut self.counts.clients_gone, how);
        self.counts.ended += tasks as u64;
    }

    pub fn policy_fell_back(&mut self) {
        self.counts.policy_fallbacks += 1;
    }
}

/// True for the change of a grant that promotes the task; a promoted task's grant may change again later.
fn promotes(reason: &Reason) -> bool {
    matches!(reason, Reason::Promoted { .. } | Reason::PromotedByShrinking { .. })
}

/// The reason's name, as the journal has it.
fn name(reason: &Reason) -> String {
    let value = serde_json::to_value(reason).ok();
    let why = value.as_ref().and_then(|value| value.get("why")).and_then(serde_json::Value::as_str);
    why.unwrap_or("unknown").to_owned()
}

fn add(counts: &mut BTreeMap<String, u64>, key: &str) {
    debug_assert!(counts.contains_key(key), "`{key}` is not there at 0 from the start");
    match counts.get_mut(key) {
        Some(count) => *count += 1,
        None => {
            counts.insert(key.to_owned(), 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::recent::tests::TestRun;
    use eager_core::PolicyName;
    use eager_core::event::KernelRequest;
    use eager_units::{AccessClass, Bytes};

    #[test]
    fn what_was_decided_is_counted_once() {
        let mut run = TestRun::new(PolicyName::EagerB);
        run.begin(1, 8);
        run.begin(2, 6);
        run.begin(3, 11);
        let kernel = KernelRequest {
            name: "sum".into(),
            footprint: Bytes(1),
            static_size: Bytes(1),
            access: AccessClass::Cyclic,
        };
        run.step(Event::KernelHeld { task: TaskId(2), kernel });
        run.step(Event::TaskEnd { task: TaskId(1) });
        let counts = run.tally.counts();
        let of = |class: &str| (counts.started[class], counts.wait_seconds[class].count());
        assert_eq!((of("normal"), of("eager")), ((1, 1), (1, 1)));
        assert_eq!((counts.promoted, counts.ended, counts.held_kernels), (1, 1, 1));
        let refused: Vec<_> = counts.refused.iter().filter(|(_, count)| **count > 0).collect();
        assert_eq!(refused, [(&"too-large".to_owned(), &1)]);
        assert_eq!(counts.decision_seconds.count(), run.steps);
    }

    #[test]
    fn a_wait_is_as_long_as_it_was() {
        let mut run = TestRun::new(PolicyName::Case);
        run.begin(1, 8);
        run.begin(2, 6);
        run.step(Event::TaskEnd { task: TaskId(1) });
        let waits = &run.tally.counts().wait_seconds["normal"];
        // The second task's request comes one step before the first task's end, and a step is a second.
        assert_eq!((waits.count(), waits.sum), (2, 1.0));
    }

    #[test]
    fn how_programs_go_is_told_apart() {
        let mut tally = Tally::default();
        tally.client_gone(false, 0);
        tally.client_gone(false, 2);
        tally.client_gone(true, 1);
        let gone = &tally.counts().clients_gone;
        assert_eq!((gone["idle"], gone["holding"], gone["cut-off"]), (1, 1, 1));
        assert_eq!(tally.counts().ended, 3);
    }
}
