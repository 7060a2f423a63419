//! Several threads of a program at once: one thread acts while a call of another is under way.
//!
//! Trap: the other thread must be done, or wait at a lock, before the call goes on (`Bench::other`), so that each
//! test is one interleaving and not a race.

use super::fakes::Habits;
use super::fakes::{Decision, first_slot, lazy_slot};
use super::{Bench, SITE};
use crate::outcome::{Outcome, Why};
use crate::runtime::{CudaError, Setting, StreamId};
use crate::state::Thread;
use eager_abi::TASK_NAMED;
use eager_client::task::Geometry;
use eager_proto::reply::{FLAG_HIGH_PRIORITY, FLAG_WATCH};
use eager_proto::request::RequestBody;
use std::sync::mpsc::channel;

/// Launches the kernel with the arguments that were set.
pub fn launch(shim: &super::TestShim, thread: &mut Thread) {
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

/// Two threads wait for one task. The first to see that it is bound prepares its device.
#[test]
fn a_thread_that_waited_goes_on_when_the_programs_settings_are_on_the_device() {
    let mut bench = Bench::new();
    let settings = [
        Setting::Limit { limit: 0, value: 1 },
        Setting::Function { stub: super::STUB, attribute: 8, value: 1 },
    ];
    for setting in settings {
        let _ = bench.shim.set(&mut bench.thread, setting);
    }
    let a = bench.malloc(60);
    bench.cuda.set_arguments(&[a]);
    bench.cuda.log();
    bench.daemon.decide(Decision::Wait);
    let (waits, other_waits) = channel();
    let (wake, is_woken) = channel();
    let (launched, has_launched) = channel();
    let other = bench.other(move |shim, thread| {
        launch(shim, thread);
        let _ = launched.send(());
    });
    bench.daemon.then(move |daemon| {
        std::thread::spawn(other);
        other_waits.recv().expect("it waits for the same task");
        daemon.grant(lazy_slot(), FLAG_HIGH_PRIORITY);
    });
    bench.daemon.then(move |_| {
        waits.send(()).expect("the first thread grants");
        is_woken.recv().expect("the first thread prepares the device");
    });
    let pause = std::time::Duration::from_millis(200);
    bench.cuda.during("apply", move || {
        wake.send(()).expect("the other waits");
        std::thread::sleep(pause);
    });
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    has_launched.recv().expect("the other goes on");
    let log = bench.cuda.log();
    let settings = log.iter().rposition(|line| line.starts_with("apply"));
    let launches = log.iter().position(|line| line.starts_with("launch"));
    assert!(settings.is_some() && settings < launches, "{log:?}");
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
        bench.daemon.then(|_| other());
        bench.begin(SITE, 100);
        let _ = bench.launch(&[]);
        assert_eq!((bench.daemon.requirement(first_slot()), bench.daemon.violations().len()), (None, 0));
        bench.other_thread();
        bench.begin(SITE, 100);
        let _ = bench.launch(&[]);
        assert_eq!(bench.daemon.requirement(first_slot()), Some(100), "its slot is used again");
    }
}

#[test]
fn a_buffer_that_is_freed_while_its_memory_is_asked_for_is_counted_once() {
    let habits =
        Habits { live_requirement: true, late_reservation: true, grant_max: Some(4000), ..Habits::default() };
    let mut bench = Bench::with_habits(habits);
    bench.cuda.map_by(16);
    bench.add_site(SITE, "main", &[], TASK_NAMED);
    let requirement = crate::account::Requirement { bytes: 2000, live_bytes: 1000 };
    bench.shim.task_begin(&mut bench.thread, SITE, requirement, Geometry::UNKNOWN);
    let (a, b, c) = (bench.malloc(1000), bench.malloc(500), bench.malloc(500));
    let _ = bench.launch(&[a]);
    bench.daemon.refuse_extensions(true);
    let (freed, is_freed) = channel();
    let other = bench.other(move |shim, thread| {
        let _ = freed.send(shim.free(thread, b));
    });
    bench.daemon.before(RequestBody::TaskExtend { bytes: 500 }, other);
    assert_eq!(bench.launch(&[b]), Outcome::Fail(CudaError::MEMORY_ALLOCATION));
    assert_eq!(is_freed.recv(), Ok(Outcome::Handled(())));
    bench.cuda.finish_kernels();
    bench.free(a);
    assert_eq!(bench.daemon.requirement(first_slot()), Some(500), "the third buffer may come");
    bench.daemon.requests();
    let _ = bench.launch(&[c]);
    assert_eq!(bench.daemon.requests(), []);
    bench.free(c);
    bench.end(SITE);
    assert_eq!((bench.daemon.held(), bench.daemon.violations().len()), (0, 0));
}

#[test]
fn a_task_that_another_thread_ends_is_not_extended_after_its_end() {
    let mut bench = Bench::new();
    bench.begin(SITE, 100);
    let (ended, is_ended) = channel();
    let other = bench.other(move |shim, thread| {
        shim.task_end(thread, SITE);
        let _ = ended.send(());
    });
    bench.daemon.before(RequestBody::TaskExtend { bytes: 50 }, other);
    bench.begin(SITE + 1, 50);
    is_ended.recv().expect("the other thread goes on");
    bench.end(SITE + 1);
    assert_eq!((bench.daemon.held(), bench.daemon.violations()), (0, Vec::new()));
}

/// A watched task with memory.
fn watched() -> (Bench, u64) {
    let mut bench = Bench::new();
    bench.begin(SITE, 100);
    let a = bench.malloc(100);
    bench.daemon.change(first_slot(), |cell| cell.flags |= FLAG_WATCH);
    bench.cuda.set_arguments(&[a]);
    (bench, a)
}

#[test]
fn what_the_daemon_hears_last_of_busy_and_idle_is_what_holds() {
    let (mut bench, a) = watched();
    let _ = bench.launch(&[a]);
    bench.daemon.requests();
    let (launched, is_launched) = channel();
    let other = bench.other(move |shim, thread| {
        launch(shim, thread);
        let _ = launched.send(());
    });
    bench.daemon.before(RequestBody::Idle, other);
    let _ = bench.shim.device_synchronize(&mut bench.thread);
    is_launched.recv().expect("it launches");
    assert_eq!(bench.daemon.requests().last(), Some(&RequestBody::Busy), "its kernel runs");
}

#[test]
fn a_threads_wait_for_its_own_default_stream_says_nothing_of_anothers() {
    let (mut bench, a) = watched();
    let _ = bench.launch_on(StreamId::PER_THREAD, &[a]);
    bench.other_thread();
    let _ = bench.launch_on(StreamId::PER_THREAD, &[a]);
    let _ = bench.shim.stream_synchronize(&mut bench.thread, StreamId::PER_THREAD);
    let (launched, retired) = bench.daemon.counters();
    assert_eq!((launched, retired), (2, 1));
    assert_eq!(bench.daemon.requests().last(), Some(&RequestBody::Busy), "the other's kernel runs");
    let _ = bench.shim.device_synchronize(&mut bench.thread);
    assert_eq!(bench.daemon.counters(), (2, 2));
    assert_eq!(bench.daemon.requests(), [RequestBody::Idle]);
}

#[test]
fn while_a_capture_begins_no_other_thread_asks_the_device() {
    let mut bench = Bench::new();
    bench.daemon.decide(Decision::EagerReleasing(500));
    bench.begin(SITE, 2000);
    let a = bench.malloc(1000);
    let _ = bench.launch(&[a]);
    bench.cuda.finish_kernels();
    bench.cuda.log();
    let stream = StreamId(0x77);
    let other = bench.other(move |shim, thread| shim.buffer_dead(thread, a));
    let begun = bench.shim.begin_capture(&mut bench.thread, stream, || {
        other();
        Ok(())
    });
    assert_eq!(begun, Outcome::Handled(()));
    assert_eq!(bench.cuda.log(), Vec::<String>::new());
    let _ = bench.shim.end_capture(stream, || Ok(()));
    // A capture that did not begin leaves no stream marked as recording.
    let failed = bench.shim.begin_capture(&mut bench.thread, stream, || Err(CudaError::INVALID_VALUE));
    assert_eq!(failed, Outcome::Fail(CudaError::INVALID_VALUE));
    let _ = bench.shim.device_synchronize(&mut bench.thread);
    assert!(bench.cuda.log().contains(&"discard 1000".to_owned()));
}

/// A module that registers waits for readers of the program's tables, and holds new readers up. A thread that waits
/// for it must not hold the state, or deadlocks with a reader that wants the state.
#[test]
fn a_thread_that_waits_for_a_module_to_register_holds_no_other_up() {
    type Hook = fn(&super::TestShim, &mut Thread);
    let hooks: [(&str, Hook); 2] = [
        ("the end of a task", |shim, thread| shim.task_end(thread, SITE)),
        ("a launch beside another thread's task", launch),
    ];
    for (name, hook) in hooks {
        let mut bench = Bench::new();
        let early = bench.malloc(10);
        bench.begin(SITE, 100);
        bench.cuda.set_arguments(&[early]);
        let registering = bench.shim.program.write();
        bench.other(hook)();
        let is_free = bench.shim.state.try_lock_for(std::time::Duration::from_secs(5)).is_some();
        drop(registering);
        assert!(is_free, "{name}");
    }
}

#[test]
fn a_thread_that_finds_the_daemon_gone_goes_on_when_all_that_waited_is_there() {
    let habits =
        Habits { early_copies: true, late_reservation: true, grant_max: Some(4000), ..Habits::default() };
    let mut bench = Bench::with_habits(habits);
    bench.cuda.map_by(16);
    bench.add_site(SITE, "main", &[], TASK_NAMED);
    bench.daemon.decide(Decision::Wait);
    bench.begin(SITE, 1000);
    let a = bench.malloc(1000);
    let _ = bench.upload(a, 1000);
    bench.cuda.log();
    bench.daemon.die();
    let (gone_on, has_gone_on) = channel();
    let cuda = std::sync::Arc::clone(&bench.cuda);
    let other = bench.other(move |shim, thread| {
        launch(shim, thread);
        cuda.mark("the other goes on");
        let _ = gone_on.send(());
    });
    bench.cuda.during("map 1008", other);
    let _ = bench.launch(&[a]);
    has_gone_on.recv().expect("it goes on");
    assert_eq!(bench.cuda.log(), ["map 1008 on 0", "copy 1000 kind 1", "the other goes on"]);
}

#[test]
fn a_program_that_loses_its_daemon_before_all_else_runs_on_the_device_that_it_set() {
    let mut bench = Bench::new();
    assert_eq!(bench.shim.set_device(&mut bench.thread, 2), Outcome::Handled(()));
    bench.daemon.die();
    assert_eq!(bench.shim.malloc(&mut bench.thread, 10), Outcome::PassThrough(Why::NoDaemon));
    bench.shim.enter_program_device(&mut bench.thread);
    bench.shim.enter_program_device(&mut bench.thread);
    assert_eq!(bench.cuda.log(), ["device 2"]);
}
