//! Random runs, honest and hostile, under every policy: the invariants hold after each step, nothing is lost, and the
//! same events give the same bytes.
//!
//! Trap: the honest generator keeps its own books from the actions that it gets. It must never read the scheduler's
//! state to decide what to do next, or it could not notice that the two disagree.

mod generators;

use eager_core::action::{Action, Gate};
use eager_core::event::{Estimate, Event, KernelRequest, TaskRequest};
use eager_core::journal::{JournalHeader, JournalLine, ReplayError, check_continues, replay};
use eager_core::policy::faulty::{Fault, STRIKES_AT};
use eager_core::scheduler::Stage;
use eager_core::{Options, PolicyName, Scheduler, invariants};
use eager_units::{AccessClass, Bytes, Class, ClientId, DeviceId, Nanos, TaskId};
use generators::{GIB, any_access, any_estimate, any_event, any_options, any_policy, device};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::BTreeMap;

/// Runs events with times that mostly go forward; checks every step; returns the journal.
fn run(
    policy: PolicyName,
    options: &Options,
    events: Vec<(u64, Event)>,
) -> Result<Vec<JournalLine>, TestCaseError> {
    let mut scheduler = Scheduler::new(policy, options.clone());
    let mut lines = Vec::new();
    for (now, event) in events {
        let mut actions = Vec::new();
        scheduler.step(Nanos(now), event.clone(), &mut actions);
        if let Err(violation) = invariants::check(&scheduler) {
            return Err(TestCaseError::fail(format!("{policy}, after {event:?}: {violation}")));
        }
        if let Some(deadline) = scheduler.next_deadline() {
            prop_assert!(deadline > scheduler.now(), "asks to be woken at {deadline:?}, which is past");
        }
        lines.push(JournalLine { now: Nanos(now), event, actions });
    }
    Ok(lines)
}

/// A number from the environment, for searches.
fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")),
        Err(_) => default,
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: setting("PROPTEST_CASES", 400) as u32,
        // The same cases every time, unless a search for new ones asks for others.
        rng_seed: RngSeed::Fixed(setting("PROPTEST_RNG_SEED", 2026)),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn hostile_events_never_break_an_invariant(
        policy in any_policy(),
        options in any_options(),
        events in proptest::collection::vec((0u64..100, any_event()), 0..120),
    ) {
        let mut all = vec![(0, device(0, Bytes(16 * GIB))), (0, device(1, Bytes(12 * GIB)))];
        all.extend(events);
        run(policy, &options, all)?;
    }

    #[test]
    fn the_same_events_give_the_same_bytes_and_replay(
        policy in any_policy(),
        options in any_options(),
        events in proptest::collection::vec((0u64..100, any_event()), 0..60),
    ) {
        let mut all = vec![(0, device(0, Bytes(16 * GIB)))];
        all.extend(events);
        let first = run(policy, &options, all.clone())?;
        let text = serde_json::to_string(&first).expect("a journal is JSON");
        prop_assert_eq!(&text, &serde_json::to_string(&run(policy, &options, all)?).expect("a journal is JSON"));
        let read: Vec<JournalLine> = serde_json::from_str(&text).expect("what was written can be read");
        prop_assert_eq!(&read, &first);
        let header = JournalHeader::of(&Scheduler::new(policy, options));
        prop_assert!(replay(header, read).is_ok());
    }

    /// The run is cut as by rotations, besides the reloads, switches and reversions that are events in it.
    #[test]
    fn a_run_cut_at_random_places_replays_from_each_of_them(
        policy in any_policy(),
        options in any_options(),
        events in proptest::collection::vec((0u64..100, any_event(), prop::bool::weighted(0.2)), 0..80),
    ) {
        let mut scheduler = Scheduler::new(policy, options);
        let mut pieces = vec![(JournalHeader::of(&scheduler), Vec::new())];
        let first = (0, device(0, Bytes(16 * GIB)), false);
        for (now, event, cut) in std::iter::once(first).chain(events) {
            if cut {
                pieces.push((JournalHeader::of(&scheduler), Vec::new()));
            }
            let mut actions = Vec::new();
            scheduler.step(Nanos(now), event.clone(), &mut actions);
            pieces.last_mut().expect("one").1.push(JournalLine { now: Nanos(now), event, actions });
        }
        let mut before: Option<Scheduler> = None;
        for (header, lines) in pieces {
            let text = serde_json::to_string(&header).expect("a header is JSON");
            let read: JournalHeader = serde_json::from_str(&text).expect("what was written can be read");
            if let Some(before) = &before {
                prop_assert_eq!(check_continues(before, &read), Ok(()));
            }
            let ended = replay(read, lines);
            prop_assert!(ended.is_ok(), "{:?}", ended.err());
            before = ended.ok();
        }
    }

    /// The question that the watchdog asks: under a sound policy it finds no task (an invariant after every step
    /// above), and under one that starves it finds the task that `case` would have started, whatever happened before.
    #[test]
    fn a_policy_that_starves_owes_the_start_that_case_makes(
        options in any_options(),
        mut events in proptest::collection::vec((0u64..100, any_event()), 0..60),
    ) {
        events.retain(|(_, event)| !matches!(event, Event::PolicySet { .. } | Event::Reverted { .. }));
        let task = TaskId(99);
        let request = TaskRequest {
            requirement: Bytes(GIB),
            function: STRIKES_AT.into(),
            ..TaskRequest::default()
        };
        let mut all = vec![(0, device(0, Bytes(16 * GIB)))];
        all.extend(events);
        all.push((100, Event::ClientConnected { client: ClientId(99), uid: 2, label: "x".into(), informed: false, same_process: None , nice: 0}));
        all.push((100, Event::TaskBegin { task, client: ClientId(99), request }));
        let mut sound = Scheduler::new(PolicyName::Case, options);
        let mut faulty = Scheduler::new(PolicyName::Case, sound.options().clone());
        faulty.spoil(Fault::Starves);
        for (now, event) in all {
            prop_assert_eq!(faulty.owed().next(), None);
            sound.step(Nanos(now), event.clone(), &mut Vec::new());
            faulty.step(Nanos(now), event, &mut Vec::new());
        }
        let starts = matches!(sound.task(task).map(|view| view.stage), Some(Stage::Bound { .. }));
        prop_assert_eq!(faulty.owed().any(|(owed, _)| owed == task), starts);
    }

    #[test]
    fn every_honest_task_runs_to_its_end(
        policy in any_policy(),
        options in any_options(),
        seed in proptest::collection::vec((any::<u8>(), 0u64..18 * GIB, any_access(), any_estimate()), 1..40),
    ) {
        let mut honest = Honest::new(policy, options);
        for (choice, bytes, access, estimate) in seed {
            honest.act(choice, Bytes(bytes), access, estimate)?;
        }
        honest.finish()?;
    }
}

/// Far more rounds than a list of programs can need.
const ROUNDS_MAX: u32 = 10_000;

/// Programs that behave: one task each, kernels only through an open gate, an end to everything.
struct Honest {
    scheduler: Scheduler,
    now: u64,
    next: u64,
    programs: BTreeMap<u64, Program>,
}

#[derive(Default)]
struct Program {
    bound: bool,
    device: Option<DeviceId>,
    requirement: u64,
    grant: u64,
    eager: bool,
    gate: Option<Gate>,
    held: bool,
    watched: bool,
    kernels_left: u32,
    access: AccessClass,
}

impl Honest {
    fn new(policy: PolicyName, options: Options) -> Honest {
        let mut honest =
            Honest { scheduler: Scheduler::new(policy, options), now: 0, next: 0, programs: BTreeMap::new() };
        for id in 0..2 {
            honest.step(device(id, Bytes(16 * GIB))).expect("a device");
        }
        honest
    }

    fn step(&mut self, event: Event) -> Result<(), TestCaseError> {
        self.now += 1;
        let mut actions = Vec::new();
        self.scheduler.step(Nanos(self.now), event.clone(), &mut actions);
        if let Err(violation) = invariants::check(&self.scheduler) {
            return Err(TestCaseError::fail(format!("after {event:?}: {violation}")));
        }
        let mut newly_watched = Vec::new();
        for action in actions {
            self.apply(action, &mut newly_watched)?;
        }
        for id in newly_watched {
            self.step(Event::Idle { task: TaskId(id) })?;
        }
        Ok(())
    }

    fn apply(&mut self, action: Action, newly_watched: &mut Vec<u64>) -> Result<(), TestCaseError> {
        match action {
            Action::Bind { task, device, class, grant, managed, .. } => {
                let missing = self.programs.values().any(|it| it.eager && it.device == Some(device));
                // Memory that an eager task leaves is granted to others (specification S-327).
                let parts = self.scheduler.traits().sharing.eager_leaves;
                let capacity = self.scheduler.state().devices[&device].capacity;
                let left = parts.map_or(Bytes::ZERO, |parts| Bytes(capacity.0 / parts));
                prop_assert!(!missing || grant <= left, "the queue was served before the eager task");
                let program = self.program(task)?;
                prop_assert!(!program.bound, "bound twice");
                program.bound = true;
                program.device = Some(device);
                program.grant = grant.0;
                program.eager = class == Class::Eager;
                prop_assert_eq!(program.eager, grant.0 < program.requirement);
                prop_assert!(managed || !program.eager, "over-subscribed without managed memory");
            }
            Action::Refuse { task, .. } => {
                prop_assert!(!self.program(task)?.bound);
                self.programs.remove(&task.0);
            }
            Action::Wait { task, .. } => prop_assert!(!self.program(task)?.bound),
            Action::Regrant { task, grant, class, .. } => {
                let program = self.program(task)?;
                prop_assert!(grant.0 > program.grant && grant.0 <= program.requirement);
                program.grant = grant.0;
                program.eager = class == Class::Eager;
                prop_assert_eq!(program.eager, grant.0 < program.requirement);
            }
            Action::SetGate { task, gate, .. } => {
                let program = self.program(task)?;
                prop_assert_ne!(program.gate, Some(gate), "said again without a change");
                program.gate = Some(gate);
                program.held &= gate == Gate::Hold;
            }
            Action::Overrun { .. }
            | Action::Overstay { .. }
            | Action::Stranded { .. }
            | Action::Reinstated { .. } => {}
            Action::Watch { task, on } => {
                let program = self.program(task)?;
                prop_assert_ne!(program.watched, on);
                program.watched = on;
                if on {
                    newly_watched.push(task.0);
                }
            }
        }
        Ok(())
    }

    fn program(&mut self, task: TaskId) -> Result<&mut Program, TestCaseError> {
        self.programs
            .get_mut(&task.0)
            .ok_or_else(|| TestCaseError::fail(format!("an action for dead {task}")))
    }

    fn act(
        &mut self,
        choice: u8,
        bytes: Bytes,
        access: AccessClass,
        estimate: Option<Estimate>,
    ) -> Result<(), TestCaseError> {
        if choice < 140 {
            return self.start(bytes, access, estimate);
        }
        let bound: Vec<u64> = self.programs.iter().filter(|(_, it)| it.bound).map(|(id, _)| *id).collect();
        let Some(&id) = bound.get(usize::from(choice) % bound.len().max(1)) else { return Ok(()) };
        if choice < 230 { self.advance(id) } else { self.kill(id) }
    }

    fn start(
        &mut self,
        bytes: Bytes,
        access: AccessClass,
        estimate: Option<Estimate>,
    ) -> Result<(), TestCaseError> {
        let id = self.next;
        self.next += 1;
        // Some programs want a device and no memory: their first call makes a context.
        let bytes = if id % 4 == 3 { Bytes::ZERO } else { bytes };
        let program = Program { requirement: bytes.0, kernels_left: 2, access, ..Program::default() };
        self.programs.insert(id, program);
        self.step(Event::ClientConnected {
            client: ClientId(id),
            uid: id as u32 % 3,
            label: String::new(),
            informed: false,
            same_process: None,
            nice: 0,
        })?;
        let request = TaskRequest {
            requirement: bytes,
            blocks: id,
            threads_per_block: 256,
            estimate,
            ..TaskRequest::default()
        };
        self.step(Event::TaskBegin { task: TaskId(id), client: ClientId(id), request })
    }

    /// Runs one kernel, or ends the program after the last.
    fn advance(&mut self, id: u64) -> Result<(), TestCaseError> {
        let task = TaskId(id);
        let program = self.program(task)?;
        if program.held {
            return Ok(());
        }
        let admitted = match program.gate {
            None | Some(Gate::Ungated) | Some(Gate::Go { allowed: None }) => true,
            Some(Gate::Go { allowed: Some(allowed) }) => program.requirement <= allowed.0,
            Some(Gate::Hold) => false,
        };
        if program.kernels_left > 0 && !admitted {
            program.held = true;
            let footprint = Bytes(program.requirement);
            let access = program.access;
            let kernel = KernelRequest { name: "k".into(), footprint, static_size: footprint, access };
            self.step(Event::KernelHeld { task, kernel })?;
            // The gate was open already when the message came: no action follows, and the program finds out by looking.
            let stage = self.scheduler.task(task).map(|view| view.stage);
            if let Some(Stage::Bound { gate, .. }) = stage {
                let program = self.program(task)?;
                prop_assert_eq!(program.gate.unwrap_or(Gate::Ungated), gate, "told one gate, keeps another");
                program.held = gate == Gate::Hold;
            }
            return Ok(());
        }
        if program.kernels_left > 0 {
            program.kernels_left -= 1;
            let (watched, last) = (program.watched, program.kernels_left == 0);
            if watched {
                self.step(Event::Busy { task })?;
                self.step(Event::Idle { task })?;
            }
            return if last { self.step(Event::AllLaunched { task }) } else { Ok(()) };
        }
        self.programs.remove(&id);
        self.step(Event::TaskEnd { task })?;
        self.step(Event::ClientGone { client: ClientId(id) })
    }

    fn kill(&mut self, id: u64) -> Result<(), TestCaseError> {
        let granted = |honest: &Honest| honest.programs.values().map(|program| program.grant).sum::<u64>();
        self.programs.remove(&id);
        self.step(Event::ClientGone { client: ClientId(id) })?;
        let ledger: Bytes = self.scheduler.devices().map(|device| device.granted).sum();
        prop_assert_eq!(Bytes(granted(self)), ledger, "a dead program's grant stays");
        Ok(())
    }

    /// Lets all programs go on until they have ended; a round without any progress is a deadlock.
    fn finish(&mut self) -> Result<(), TestCaseError> {
        let mut rounds = 0;
        while !self.programs.is_empty() {
            rounds += 1;
            prop_assert!(rounds < ROUNDS_MAX, "tasks come and go and none of them ends");
            let before = self.progress();
            let bound: Vec<u64> =
                self.programs.iter().filter(|(_, it)| it.bound).map(|(id, _)| *id).collect();
            for id in bound {
                self.advance(id)?;
            }
            if self.progress() == before
                && let Some(deadline) = self.scheduler.next_deadline()
            {
                self.now = self.now.max(deadline.0);
                self.step(Event::Tick)?;
            }
            if self.progress() == before {
                let stuck: Vec<String> =
                    self.scheduler.tasks().map(|task| format!("{}: {:?}", task.task, task.stage)).collect();
                return Err(TestCaseError::fail(format!("nobody can move:\n{}", stuck.join("\n"))));
            }
        }
        prop_assert_eq!(self.scheduler.tasks().count(), 0);
        prop_assert!(self.scheduler.devices().all(|device| device.granted == Bytes::ZERO));
        prop_assert!(self.scheduler.devices().all(|device| device.contexts == Bytes::ZERO));
        prop_assert!(self.scheduler.anomalies().is_empty(), "{:?}", self.scheduler.anomalies());
        Ok(())
    }

    /// State that changes with everything that a program does or gets.
    fn progress(&self) -> Vec<(u64, bool, bool, Option<Gate>, u32)> {
        self.programs.iter().map(|(id, it)| (*id, it.bound, it.held, it.gate, it.kernels_left)).collect()
    }
}

#[test]
fn a_changed_journal_does_not_replay() {
    let mut scheduler = Scheduler::new(PolicyName::Case, Options::default());
    let mut actions = Vec::new();
    let event = device(0, Bytes(16 * GIB));
    scheduler.step(Nanos(1), event.clone(), &mut actions);
    assert!(actions.is_empty());
    let forged = Action::Watch { task: TaskId(1), on: true };
    let line = JournalLine { now: Nanos(1), event, actions: vec![forged] };
    let header = JournalHeader::of(&scheduler);
    let error = replay(header.clone(), [line]).expect_err("a forged action");
    assert!(matches!(error, ReplayError::Diverged { step: 1, .. }), "{error}");
    let newer = JournalHeader { journal: 3, ..header };
    assert_eq!(replay(newer, []).expect_err("a newer journal"), ReplayError::Version { found: 3 });
}

#[test]
fn an_unknown_policy_is_named_with_the_known_ones() {
    let error = "fastest".parse::<PolicyName>().expect_err("no such policy");
    let names: Vec<&str> = PolicyName::ALL.iter().map(|policy| policy.as_str()).collect();
    assert_eq!(error.to_string(), format!("unknown policy `fastest`: known are {}", names.join(", ")));
    // Journals and records of earlier releases have these names.
    for name in [
        "case",
        "case-fifo",
        "case-alg2",
        "sa",
        "cg",
        "schedgpu",
        "quanta",
        "eager",
        "eager-p",
        "eager-b",
        "eager-pb",
        "eager-opt",
        "eager-live",
        "eager-fair",
        "infinite",
    ] {
        assert!(names.contains(&name), "{name}");
    }
    let apart: std::collections::BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(apart.len(), names.len(), "two policies have one name: {names:?}");
    for policy in PolicyName::ALL {
        assert_eq!(policy.to_string().parse(), Ok(policy));
        assert_eq!(serde_json::to_string(&policy).expect("JSON"), format!("\"{policy}\""));
    }
}
