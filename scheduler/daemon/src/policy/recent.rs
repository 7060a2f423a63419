//! Lives of the tasks of the last minutes, for the page's timeline. The whole record is the journal's.
//!
//! Trap: everything here needs a limit, also the number of spans of one task: untrusted programs make tasks.

use eager_core::Scheduler;
use eager_core::action::{Action, Reason};
use eager_core::event::Event;
use eager_proto::snapshot::{Life, Span};
use eager_units::{Class, ClientId, DeviceId, Nanos, TaskId};
use std::collections::{BTreeMap, VecDeque};

/// Tasks that ended longer ago are forgotten.
const KEPT_MS: u64 = 10 * 60 * 1000;
/// Ended tasks that are remembered, open tasks that are followed, and spans of one task's life.
const ENDED_MAX: usize = 512;
const OPEN_MAX: usize = 4096;
const SPANS_MAX: usize = 32;

#[derive(Debug, Default)]
pub struct Recent {
    open: BTreeMap<TaskId, (ClientId, Life)>,
    ended: VecDeque<Life>,
}

impl Recent {
    /// At most `most` lives, newest last; the oldest ended ones are left out.
    pub fn lives(&self, now: Nanos, most: usize) -> Vec<Life> {
        let fresh = |life: &&Life| life.ended_ms.is_some_and(|at| at.saturating_add(KEPT_MS) >= ms(now));
        let open = self.open.values().take(most).map(|(_, life)| life.clone());
        let mut lives: Vec<Life> = open.collect();
        lives.extend(self.ended.iter().rev().filter(fresh).take(most - lives.len()).cloned());
        lives.sort_by_key(|life| life.task);
        lives
    }

    /// Takes in one step, and the scheduler after it.
    pub fn note(&mut self, now: Nanos, scheduler: &Scheduler, event: &Event, actions: &[Action]) {
        match event {
            Event::TaskBegin { task, client, request } if is_answered(scheduler, *task, actions) => {
                let (function, requirement) = (request.function.clone(), request.requirement.0);
                self.begin(now, scheduler, *task, *client, (function, requirement));
            }
            Event::Restored { tasks, .. } => {
                for task in tasks {
                    let request = (task.request.function.clone(), task.requirement.0);
                    self.begin(now, scheduler, task.task, task.client, request);
                    self.add_span(now, task.task, task.class, Some(task.device));
                }
            }
            _ => {}
        }
        for action in actions {
            match action {
                Action::Bind { task, device, class, .. } => self.add_span(now, *task, *class, Some(*device)),
                Action::Regrant { task, class, .. } => self.add_span(now, *task, *class, None),
                Action::Refuse { task, reason } => self.refused(now, *task, reason),
                _ => {}
            }
        }
        match event {
            Event::TaskEnd { task } => self.end(now, *task),
            Event::ClientGone { client } => {
                let theirs = self.open.iter().filter(|(_, (owner, _))| owner == client);
                for task in theirs.map(|(task, _)| *task).collect::<Vec<_>>() {
                    self.end(now, task);
                }
            }
            _ => {}
        }
    }

    fn begin(
        &mut self,
        now: Nanos,
        scheduler: &Scheduler,
        task: TaskId,
        client: ClientId,
        request: (String, u64),
    ) {
        // A waiting task begins again when a policy is replaced; it is the same task.
        if self.open.contains_key(&task) || self.open.len() >= OPEN_MAX {
            return;
        }
        let label = scheduler.state().clients.get(&client).map_or(String::new(), |owner| owner.label.clone());
        let (function, requirement_bytes) = request;
        let life = Life {
            task: task.0,
            label,
            function,
            requirement_bytes,
            spans: vec![Span { from_ms: ms(now), state: "waiting".into(), device: None }],
            ..Life::default()
        };
        self.open.insert(task, (client, life));
    }

    /// Adds a span. `device`: none where the task stays.
    fn add_span(&mut self, now: Nanos, task: TaskId, class: Class, device: Option<DeviceId>) {
        let Some((_, life)) = self.open.get_mut(&task) else { return };
        let (from_ms, spans) = (ms(now), life.spans.len());
        let Some(last) = life.spans.last_mut() else { return };
        let span =
            Span { from_ms, state: class.to_string(), device: device.map_or(last.device, |id| Some(id.0)) };
        if (&last.state, last.device) == (&span.state, span.device) {
            return;
        }
        // A span of no length is overwritten.
        if last.from_ms == from_ms || spans >= SPANS_MAX {
            *last = Span { from_ms: last.from_ms, ..span };
        } else {
            life.spans.push(span);
        }
    }

    /// Ends a refused task. A task that has a device keeps it: only an extension was refused.
    fn refused(&mut self, now: Nanos, task: TaskId, reason: &Reason) {
        let Some((_, life)) = self.open.get_mut(&task) else { return };
        if life.spans.last().is_some_and(|span| span.device.is_none()) {
            life.refused = reason.to_string();
            self.end(now, task);
        }
    }

    fn end(&mut self, now: Nanos, task: TaskId) {
        let Some((_, life)) = self.open.remove(&task) else { return };
        self.ended.push_back(Life { ended_ms: Some(ms(now)), ..life });
        if self.ended.len() > ENDED_MAX {
            self.ended.pop_front();
        }
    }
}

/// True if the request became a task or was refused. A request without sense does neither.
fn is_answered(scheduler: &Scheduler, task: TaskId, actions: &[Action]) -> bool {
    let refused =
        |action: &Action| matches!(action, Action::Refuse { task: refused, .. } if *refused == task);
    scheduler.state().tasks.contains_key(&task) || actions.iter().any(refused)
}

/// A time in milliseconds, as in rows.
pub fn ms(time: Nanos) -> u64 {
    time.0 / 1_000_000
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::persistence::ended::Ended;
    use crate::policy::tally::Tally;
    use eager_core::event::{DeviceProfile, TaskRequest};
    use eager_core::{Options, PolicyName};
    use eager_units::Bytes;

    /// A scheduler with one device of 10 GiB, stepped once per second.
    #[derive(Debug)]
    pub struct TestRun {
        scheduler: Scheduler,
        pub recent: Recent,
        pub tally: Tally,
        pub ended: Ended,
        pub steps: u64,
    }

    impl TestRun {
        pub fn new(policy: PolicyName) -> TestRun {
            let scheduler = Scheduler::new(policy, Options::default());
            let (recent, tally, ended) = (Recent::default(), Tally::default(), Ended::default());
            let mut run = TestRun { scheduler, recent, tally, ended, steps: 0 };
            let profile = DeviceProfile {
                name: "test".into(),
                capacity: Bytes(10 << 30),
                sms: 1,
                warps_per_sm: 64,
                blocks_per_sm: 32,
                faults_stall: false,
            };
            run.step(Event::DeviceAdded { device: DeviceId(0), profile });
            for client in 1..=3 {
                let label = format!("program {client}");
                run.ended.enter(ClientId(client), 0, 0, &label, run.now(), 0);
                run.step(Event::ClientConnected {
                    client: ClientId(client),
                    uid: 0,
                    label,
                    informed: false,
                    same_process: None,
                    nice: 0,
                });
            }
            run
        }

        fn now(&self) -> Nanos {
            Nanos::from_secs(self.steps)
        }

        pub fn step(&mut self, event: Event) {
            self.steps += 1;
            let (now, mut actions) = (self.now(), Vec::new());
            self.scheduler.step(now, event.clone(), &mut actions);
            self.tally.note(&self.scheduler, &event, &actions, Nanos(1500));
            self.recent.note(now, &self.scheduler, &event, &actions);
            self.ended.note(now, &self.scheduler, &event, &actions);
        }

        /// Ends a program's process.
        pub fn gone(&mut self, client: u64) {
            self.ended.leave(ClientId(client), Nanos::from_secs(self.steps + 1), 0);
            self.step(Event::ClientGone { client: ClientId(client) });
        }

        /// Begins a task; the three clients take turns.
        pub fn begin(&mut self, id: u64, gib: u64) {
            let request = TaskRequest {
                requirement: Bytes(gib << 30),
                function: "main".into(),
                ..TaskRequest::default()
            };
            self.step(Event::TaskBegin { task: TaskId(id), client: ClientId((id - 1) % 3 + 1), request });
        }

        /// Each task, its spans with their first seconds, and its end.
        fn lines(&self) -> Vec<String> {
            let line = |life: Life| {
                let spans = life.spans.iter().map(|span| {
                    let device = span.device.map_or(String::new(), |device| format!("@{device}"));
                    format!("{}{device} from {}", span.state, span.from_ms / 1000)
                });
                let end = life.ended_ms.map_or("open".into(), |at| format!("until {}", at / 1000));
                let parts: Vec<String> = spans.chain([end]).collect();
                format!("{} {}: {}", life.task, life.label, parts.join(", "))
            };
            self.recent.lives(self.now(), 100).into_iter().map(line).collect()
        }
    }

    #[test]
    fn a_task_is_followed_from_its_request_to_its_end() {
        let mut run = TestRun::new(PolicyName::EagerB);
        run.begin(1, 8);
        run.begin(2, 6);
        run.begin(3, 5);
        run.step(Event::TaskEnd { task: TaskId(1) });
        run.step(Event::ClientGone { client: ClientId(2) });
        assert_eq!(
            run.lines(),
            [
                "1 program 1: normal@0 from 5, until 8",
                "2 program 2: eager@0 from 6, promoted@0 from 8, until 9",
                "3 program 3: waiting from 7, eager@0 from 8, promoted@0 from 9, open",
            ]
        );
    }

    #[test]
    fn a_refused_task_has_its_reason_and_an_old_one_is_forgotten() {
        let mut run = TestRun::new(PolicyName::Case);
        run.begin(1, 64);
        let lives = run.recent.lives(run.now(), 100);
        assert!(lives[0].refused.starts_with("refused: 64 GiB wanted"), "{:?}", lives[0]);
        run.steps += KEPT_MS / 1000 + 1;
        assert_eq!(run.lines(), Vec::<String>::new());
    }

    #[test]
    fn no_number_of_tasks_makes_it_grow_for_ever() {
        let mut run = TestRun::new(PolicyName::Case);
        for id in 1..=(ENDED_MAX as u64 + 10) {
            run.begin(id, 1);
            run.step(Event::TaskEnd { task: TaskId(id) });
        }
        assert_eq!(run.recent.ended.len(), ENDED_MAX);
        assert_eq!(run.recent.lives(run.now(), 7).len(), 7, "no more than were asked for");
    }
}
