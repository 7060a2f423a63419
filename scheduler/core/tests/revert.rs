//! A policy that failed is replaced by `case`, asked beside it, and reinstated once it agrees.

use eager_core::action::Action;
use eager_core::event::{DeviceProfile, Event, TaskRequest};
use eager_core::journal::{JournalHeader, JournalLine, replay};
use eager_core::policy::faulty::{Fault, STRIKES_AT};
use eager_core::{Options, PolicyName, Scheduler, invariants};
use eager_units::{Bytes, ClientId, DeviceId, Nanos, TaskId};

const GIB: u64 = 1 << 30;

/// A scheduler with one device and one client, and the events that it got.
struct Run {
    scheduler: Scheduler,
    header: JournalHeader,
    lines: Vec<JournalLine>,
    next: u64,
}

impl Run {
    fn new(policy: PolicyName, fault: Option<Fault>) -> Run {
        let mut scheduler = Scheduler::new(policy, Options::default());
        if let Some(fault) = fault {
            scheduler.spoil(fault);
        }
        let header = JournalHeader::of(&scheduler);
        let mut run = Run { scheduler, header, lines: Vec::new(), next: 0 };
        let profile = DeviceProfile {
            name: "test".into(),
            capacity: Bytes(16 * GIB),
            sms: 80,
            warps_per_sm: 64,
            blocks_per_sm: 32,
            faults_stall: false,
        };
        run.step(Event::DeviceAdded { device: DeviceId(0), profile });
        run.step(Event::ClientConnected {
            client: ClientId(0),
            uid: 1,
            label: "x".into(),
            informed: false,
            same_process: None,
            nice: 0,
        });
        run
    }

    fn step(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        let now = Nanos(self.lines.len() as u64);
        self.scheduler.step(now, event.clone(), &mut actions);
        self.lines.push(JournalLine { now, event, actions: actions.clone() });
        actions
    }

    fn revert(&mut self) {
        self.step(Event::Reverted { why: "was tried".into() });
        assert_eq!(self.scheduler.policy(), PolicyName::Case);
    }

    /// Begins, starts and ends a task; returns whether that reinstated the replaced policy.
    fn task(&mut self, function: &str) -> bool {
        let task = TaskId(self.next);
        self.next += 1;
        let request =
            TaskRequest { requirement: Bytes(GIB), function: function.into(), ..TaskRequest::default() };
        let actions = self.step(Event::TaskBegin { task, client: ClientId(0), request });
        assert!(actions.iter().any(|action| matches!(action, Action::Bind { .. })), "{actions:?}");
        self.step(Event::TaskEnd { task });
        actions.iter().any(|action| matches!(action, Action::Reinstated { .. }))
    }

    /// Runs ordinary tasks until the policy is reinstated; returns how many.
    fn tasks_till_back(&mut self) -> Option<usize> {
        (1..100).find(|_| self.task("main"))
    }
}

#[test]
fn every_policy_comes_back_after_it_agreed_for_long_enough_and_the_journal_replays() {
    for policy in PolicyName::ALL {
        let mut run = Run::new(policy, None);
        run.revert();
        assert_eq!(run.scheduler.replaced(), Some(policy));
        assert_eq!(run.tasks_till_back(), Some(8), "{policy}");
        assert_eq!((run.scheduler.policy(), run.scheduler.replaced()), (policy, None));
        invariants::check(&run.scheduler).expect("sound");
        run.revert();
        assert_eq!(run.tasks_till_back(), Some(16), "{policy}: twice as many after the second reversion");
        assert!(run.scheduler.anomalies().is_empty(), "{:?}", run.scheduler.anomalies());
        replay(run.header, run.lines).expect("it replays");
    }
}

#[test]
fn a_policy_that_would_still_starve_somebody_does_not_come_back() {
    for fault in [Fault::Starves, Fault::Nonsense] {
        let mut run = Run::new(PolicyName::EagerOpt, Some(fault));
        run.revert();
        for _ in 0..20 {
            assert!((0..7).all(|_| !run.task("main")) && !run.task(STRIKES_AT), "{fault:?}");
        }
        assert_eq!(run.tasks_till_back(), Some(8), "{fault:?}: what it broke on is gone");
    }
}

#[test]
fn a_policy_that_panics_when_it_is_asked_is_not_asked_again() {
    let mut run = Run::new(PolicyName::EagerOpt, Some(Fault::Panics));
    run.revert();
    assert!(!run.task(STRIKES_AT));
    assert_eq!((run.tasks_till_back(), run.scheduler.policy()), (None, PolicyName::Case));
}

#[test]
fn a_policy_that_somebody_sets_ends_the_reversion() {
    let mut run = Run::new(PolicyName::EagerOpt, None);
    run.revert();
    run.step(Event::PolicySet { policy: PolicyName::Case });
    assert_eq!((run.tasks_till_back(), run.scheduler.policy()), (None, PolicyName::Case));
}
