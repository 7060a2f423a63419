//! Programs extracted from journals.
//!
//! Journals here come from a real scheduler and are never written by hand, so that tests cover only journals that can
//! occur.

use eager_core::event::{DeviceProfile, Event, TaskRequest};
use eager_core::{Options, PolicyName, Scheduler};
use eager_journal::Journal;
use eager_journal::programs::{Program, Task, programs};
use eager_units::{Bytes, Class, ClientId, DeviceId, Nanos, TaskId};
use std::collections::BTreeMap;

const GIB: u64 = 1 << 30;

/// Journal as the daemon writes it, with one step per second from ten seconds on; returns its programs by label.
fn programs_of(policy: PolicyName, events: Vec<Event>) -> BTreeMap<String, Program> {
    let scheduler = Scheduler::new(policy, Options::default());
    let seconds = (10..).map(Nanos::from_secs);
    let journal = Journal::recorded(scheduler, seconds.zip(events));
    programs(&journal.lines).into_iter().map(|program| (program.label.clone(), program)).collect()
}

fn device() -> Event {
    let profile = DeviceProfile {
        name: "test".into(),
        capacity: Bytes(10 * GIB),
        sms: 1,
        warps_per_sm: 64,
        blocks_per_sm: 32,
        faults_stall: false,
    };
    Event::DeviceAdded { device: DeviceId(0), profile }
}

fn client(id: u64, label: &str) -> Event {
    Event::ClientConnected {
        client: ClientId(id),
        uid: 0,
        label: label.into(),
        informed: false,
        same_process: None,
        nice: 0,
    }
}

fn begin(id: u64, gib: u64) -> Event {
    Event::TaskBegin { task: TaskId(id), client: ClientId(id), request: request(gib) }
}

fn request(gib: u64) -> TaskRequest {
    TaskRequest { requirement: Bytes(gib * GIB), function: "main".into(), ..TaskRequest::default() }
}

#[test]
fn an_eager_start_and_its_promotion_are_found_with_their_times() {
    let end = Event::TaskEnd { task: TaskId(1) };
    let gone = Event::ClientGone { client: ClientId(1) };
    let jobs = programs_of(
        PolicyName::EagerOpt,
        vec![device(), client(1, "a"), client(2, "b"), begin(1, 8), begin(2, 6), end, gone],
    );
    assert_eq!(jobs["a"].classes(), [Class::Normal]);
    assert_eq!((jobs["a"].connected, jobs["a"].gone), (Nanos::from_secs(11), Some(Nanos::from_secs(16))));
    assert_eq!(jobs["b"].classes(), [Class::Eager, Class::Promoted]);
    let eager = &jobs["b"].tasks[0];
    let start = eager.start.as_ref().expect("a start");
    assert_eq!((eager.requirement, start.grant), (Bytes(6 * GIB), Bytes(2 * GIB)));
    assert_eq!((start.at, eager.promoted), (Nanos::from_secs(14), Some(Nanos::from_secs(15))));
    assert!(start.reason.contains("starts eagerly"), "{}", start.reason);
}

#[test]
fn each_task_has_its_wait() {
    let ends = [1, 2].map(|id| Event::TaskEnd { task: TaskId(id) });
    let [first, second] = ends;
    let more = Event::TaskBegin { task: TaskId(3), client: ClientId(2), request: request(1) };
    let events =
        vec![device(), client(1, "a"), client(2, "b"), begin(1, 10), begin(2, 9), first, second, more];
    let waits: Vec<Nanos> = programs_of(PolicyName::Case, events)["b"].tasks.iter().map(Task::wait).collect();
    assert_eq!(waits, [Nanos::from_secs(1), Nanos(0)]);
}

#[test]
fn needing_less_is_no_promotion() {
    let frees = Event::TaskShrink { task: TaskId(2), bytes: Bytes(5 * GIB) };
    let jobs = programs_of(
        PolicyName::EagerOpt,
        vec![device(), client(1, "a"), client(2, "b"), begin(1, 8), begin(2, 6), frees],
    );
    assert_eq!((jobs["b"].classes(), jobs["b"].tasks[0].promoted), (vec![Class::Eager], None));
}

#[test]
fn a_refusal_keeps_its_sentence() {
    let jobs = programs_of(PolicyName::EagerOpt, vec![device(), client(1, "a"), begin(1, 64)]);
    let refused = jobs["a"].tasks[0].refused.as_deref();
    assert!(refused.is_some_and(|why| why.contains("larger than every device")), "{refused:?}");
}
