//! Several threads of one program at once: what one does while a call of another is under way.
//!
//! Trap: the other thread stands at a lock, or is done, before the call goes on (`Bench::other`), so that each test is
//! one interleaving and not a race.

use super::fakes::{Decision, first_slot, lazy_slot};
use super::{Bench, SITE};
use crate::outcome::Outcome;
use crate::scheduler::Habits;
use eager_abi::TASK_NAMED;
use eager_proto::reply::FLAG_HIGH_PRIORITY;
use eager_proto::request::RequestBody;
use std::sync::mpsc::channel;

/// The kernel starts with these arguments.
fn launch(shim: &super::TestShim, thread: &mut crate::state::Thread) {
    let launch = crate::runtime::Launch {
        how: crate::runtime::How::Plain,
        stub: super::STUB,
        grid: [1, 1, 1],
        block: [1, 1, 1],
        args: 0xa,
        shared_bytes: 0,
        stream: crate::runtime::StreamId::LEGACY,
    };
    let _ = shim.launch(thread, &launch);
}

#[test]
fn what_is_freed_while_the_lazy_task_is_asked_for_is_given_back_when_it_is_bound() {
    let mut bench = Bench::new();
    let (a, b) = (bench.malloc(60), bench.malloc(40));
    bench.daemon.requests();
    bench.daemon.decide(Decision::Wait);
    let (freed, is_freed) = channel();
    bench.daemon.then(move |daemon| {
        is_freed.recv().expect("the free ends");
        daemon.grant(lazy_slot(), FLAG_HIGH_PRIORITY);
    });
    let (launched, is_launched) = channel();
    let other = bench.other(move |shim, thread| {
        launch(shim, thread);
        let _ = launched.send(());
    });
    bench.cuda.during("free 60", other);
    bench.cuda.set_arguments(&[b]);
    bench.free(a);
    freed.send(()).expect("the other thread waits for the daemon");
    is_launched.recv().expect("the other thread goes on");
    assert_eq!(bench.daemon.requirement(lazy_slot()), Some(40));
    bench.free(b);
    assert_eq!((bench.daemon.held(), bench.daemon.violations().len()), (0, 0));
}

#[test]
fn what_is_freed_while_the_lazy_task_is_refused_does_not_leave_it_refused() {
    let mut bench = Bench::new();
    let a = bench.malloc(60);
    bench.daemon.decide(Decision::Wait);
    let (freed, is_freed) = channel();
    bench.daemon.then(move |daemon| {
        is_freed.recv().expect("the free ends");
        daemon.refuse(lazy_slot());
    });
    let (launched, is_launched) = channel();
    let other = bench.other(move |shim, thread| {
        launch(shim, thread);
        let _ = launched.send(());
    });
    bench.cuda.during("free 60", other);
    bench.cuda.set_arguments(&[]);
    bench.free(a);
    freed.send(()).expect("the other thread waits for the daemon");
    is_launched.recv().expect("the other thread goes on");
    bench.malloc(10);
    assert_eq!(bench.launch(&[]), Outcome::Handled(()), "the next allocations are a new task");
    assert_eq!((bench.daemon.held(), bench.daemon.violations().len()), (10, 0));
}

#[test]
fn memory_that_goes_to_another_task_while_its_own_is_bound_is_counted_once() {
    let mut bench = Bench::new();
    let early = bench.malloc(50);
    bench.begin(SITE, 100);
    bench.cuda.set_arguments(&[]);
    let other = bench.other(launch);
    bench.daemon.before(RequestBody::TaskExtend { bytes: 50 }, other);
    assert_eq!(bench.launch(&[early]), Outcome::Handled(()));
    assert_eq!(bench.daemon.requirement(first_slot()), Some(150));
    assert_eq!(bench.daemon.requirement(lazy_slot()), None, "nothing of it is left");
    bench.free(early);
    bench.end(SITE);
    assert_eq!((bench.daemon.held(), bench.daemon.violations().len()), (0, 0));
}

#[test]
fn a_site_that_another_thread_ends_while_its_task_is_asked_for_leaves_no_task() {
    for deferred in [false, true] {
        let habits = Habits { late_reservation: deferred, grant_max: Some(1000), ..Habits::default() };
        let mut bench = Bench::with_habits(habits);
        bench.cuda.map_by(16);
        bench.add_site(SITE, "main", &[], TASK_NAMED);
        bench.daemon.decide(Decision::Wait);
        let other = bench.other(|shim, thread| shim.task_end(thread, SITE));
        bench.daemon.then(|daemon| {
            other();
            daemon.grant(first_slot(), FLAG_HIGH_PRIORITY);
        });
        bench.begin(SITE, 100);
        let _ = bench.launch(&[]);
        assert_eq!((bench.daemon.requirement(first_slot()), bench.daemon.violations().len()), (None, 0));
        bench.other_thread();
        bench.begin(SITE, 100);
        let _ = bench.launch(&[]);
        assert_eq!(bench.daemon.requirement(first_slot()), Some(100), "its slot is used again");
    }
}
