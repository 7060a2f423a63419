//! Programs with a daemon, without one, and with a daemon that is lost.

use super::fakes::{Decision, lazy_slot};
use super::{Bench, SITE};
use crate::outcome::{Outcome, Why};
use crate::profile::Profile;
use crate::runtime::{CudaError, Fill, StreamFlags, StreamId};
use eager_client::loss::OnLoss;
use eager_client::task::Geometry;
use std::time::Duration;

/// Calls every hook once; returns its name, whether it takes memory or starts work, and its outcome.
fn every_hook(bench: &mut Bench) -> Vec<(&'static str, bool, Outcome<()>)> {
    let upload = bench.upload(0x10, 8);
    let launch = bench.launch(&[]);
    let Bench { shim, thread, .. } = bench;
    let fill = Fill { dst: 1, value: 0, bytes: 1, rows: 1, pitch: 0 };
    vec![
        ("copy", true, upload),
        ("launch", true, launch),
        ("malloc", true, shim.malloc(thread, 1).map(drop)),
        ("malloc_managed", true, shim.malloc_managed(thread, 1, 1).map(drop)),
        ("fill", true, shim.fill(thread, &fill)),
        ("stream_create", true, shim.stream_create(thread, StreamFlags::BLOCKING, None).map(drop)),
        ("on_a_device", true, shim.on_a_device(thread)),
        ("free", false, shim.free(thread, 0x10)),
        ("on_own_device", false, shim.on_own_device(thread)),
        ("stream_destroy", false, shim.stream_destroy(thread, StreamId(3))),
        ("stream_synchronize", false, shim.stream_synchronize(thread, StreamId(3))),
        ("event_synchronize", false, shim.event_synchronize(thread, 3)),
        ("device_synchronize", false, shim.device_synchronize(thread)),
        ("device_reset", false, shim.device_reset(thread)),
        ("set_device", false, shim.set_device(thread, 1)),
        ("get_device", false, shim.get_device(thread).map(drop)),
    ]
}

#[test]
fn a_reset_ends_what_the_program_made_on_the_device_that_it_has_set() {
    let mut bench = Bench::new();
    let first = bench.malloc(100);
    let created = bench.shim.stream_create(&mut bench.thread, StreamFlags::BLOCKING, None);
    let Outcome::Handled(of_first) = created else { panic!("{created:?}") };
    let _ = bench.shim.set_device(&mut bench.thread, 1);
    let second = bench.malloc(100);
    let _ = bench.shim.set_device(&mut bench.thread, 0);
    bench.cuda.log();
    assert_eq!(bench.shim.device_reset(&mut bench.thread), Outcome::Handled(()));
    let log = bench.cuda.log();
    assert!(!log.contains(&"device reset".to_owned()), "{log:?}");
    assert!(!bench.shim.state.lock().streams.contains_key(&of_first));
    let again = bench.shim.free(&mut bench.thread, first);
    assert_eq!(again, Outcome::PassThrough(Why::NotOurs), "the reset has freed it");
    let _ = bench.shim.set_device(&mut bench.thread, 1);
    assert_eq!(
        bench.shim.free(&mut bench.thread, second),
        Outcome::Handled(()),
        "the other device's is there"
    );
}

#[test]
fn without_a_daemon_every_call_passes_through() {
    let mut bench = Bench::with(false, OnLoss::Open, Profile::default());
    bench.shim.task_begin(&mut bench.thread, SITE, 10, Geometry::UNKNOWN);
    for (name, _, outcome) in every_hook(&mut bench) {
        assert_eq!(outcome, Outcome::PassThrough(Why::NoDaemon), "{name}");
    }
    bench.shim.all_launched(&bench.thread, SITE);
    bench.shim.task_end(&mut bench.thread, SITE);
    assert_eq!(bench.cuda.log(), [""; 0]);
}

#[test]
fn closed_fails_what_takes_memory_or_starts_work_and_nothing_else() {
    let mut bench = Bench::with(false, OnLoss::Closed, Profile::default());
    for (name, takes, outcome) in every_hook(&mut bench) {
        let expected = if takes {
            Outcome::Fail(CudaError::DEVICES_UNAVAILABLE)
        } else {
            Outcome::PassThrough(Why::NoDaemon)
        };
        assert_eq!(outcome, expected, "{name}");
    }
}

#[test]
fn the_programs_choice_of_device_is_remembered_and_the_daemons_is_used() {
    let mut bench = Bench::new();
    bench.daemon.bind_on(3);
    assert_eq!(bench.shim.get_device(&mut bench.thread), Outcome::Handled(0));
    assert_eq!(bench.shim.set_device(&mut bench.thread, 2), Outcome::Handled(()));
    for wrong in [-1, 4] {
        assert_eq!(bench.shim.set_device(&mut bench.thread, wrong), Outcome::Fail(CudaError::INVALID_DEVICE));
    }
    bench.shim.task_begin(&mut bench.thread, SITE, 10, Geometry::UNKNOWN);
    bench.malloc(10);
    assert_eq!(bench.cuda.log(), ["device 3", "malloc 10 on 3"]);
    assert_eq!(bench.shim.get_device(&mut bench.thread), Outcome::Handled(2));
    bench.daemon.die();
    assert_eq!(bench.shim.malloc(&mut bench.thread, 1), Outcome::PassThrough(Why::NoDaemon));
    assert_eq!(bench.shim.set_device(&mut bench.thread, 1), Outcome::Handled(()), "the device stays");
}

#[test]
fn lists_of_devices_are_remembered_and_no_context_is_made_on_a_device_that_nobody_chose() {
    let mut bench = Bench::new();
    let Bench { shim, thread, .. } = &mut bench;
    assert_eq!(shim.set_valid_devices(thread, &[3, 1]), Outcome::Handled(()));
    assert_eq!(shim.set_valid_devices(thread, &[]), Outcome::Handled(()));
    let wrong = Outcome::Fail(CudaError::INVALID_DEVICE);
    assert_eq!(shim.set_valid_devices(thread, &[0, 4]), wrong);
    assert_eq!(shim.get_device(thread), Outcome::Handled(3), "a wrong list changes nothing");
    assert_eq!((shim.init_device(2), shim.init_device(-1)), (Outcome::Handled(()), wrong));
    assert!(bench.cuda.log().is_empty());
}

#[test]
fn events_and_constants_bind_the_lazy_task_first() {
    let mut bench = Bench::new();
    bench.daemon.bind_on(2);
    bench.malloc(10);
    assert_eq!(bench.shim.on_a_device(&mut bench.thread), Outcome::PassThrough(Why::AsItIs));
    assert_eq!(bench.daemon.requirement(lazy_slot()), Some(10));
    assert!(bench.cuda.log().contains(&"device 2".to_owned()));
    assert_eq!(bench.shim.on_a_device(&mut bench.thread), Outcome::PassThrough(Why::AsItIs));
}

#[test]
fn a_task_waits_until_it_is_bound() {
    let mut bench = Bench::new();
    bench.daemon.decide(Decision::Wait);
    bench.daemon.then(|_| {});
    bench.daemon.then(|daemon| {
        daemon.change(super::fakes::first_slot(), |cell| {
            (cell.state, cell.class, cell.grant, cell.answered) =
                (eager_proto::reply::STATE_BOUND, eager_proto::reply::CLASS_NORMAL, 10, 1);
        });
    });
    bench.shim.task_begin(&mut bench.thread, SITE, 10, Geometry::UNKNOWN);
    bench.malloc(10);
    assert_eq!(bench.daemon.violations(), [""; 0]);
}

#[test]
fn a_daemon_that_dies_while_a_task_waits_leaves_plain_cuda() {
    let mut bench = Bench::new();
    bench.daemon.decide(Decision::Wait);
    bench.daemon.then(|daemon| daemon.die());
    bench.shim.task_begin(&mut bench.thread, SITE, 10, Geometry::UNKNOWN);
    assert_eq!(bench.shim.malloc(&mut bench.thread, 10), Outcome::PassThrough(Why::NoDaemon));
    let reported = bench.reported.lock().clone();
    assert_eq!(reported.len(), 1);
    assert!(reported[0].contains("lost the daemon at /run/test.sock"), "{reported:?}");
}

#[test]
fn a_daemon_that_dies_at_the_gate_follows_the_policy() {
    for (on_loss, expected) in [
        (OnLoss::Open, Outcome::PassThrough(Why::NoDaemon)),
        (OnLoss::Closed, Outcome::Fail(CudaError::DEVICES_UNAVAILABLE)),
    ] {
        let mut bench = Bench::with(true, on_loss, Profile::default());
        bench.daemon.decide(Decision::Eager(1));
        bench.shim.task_begin(&mut bench.thread, SITE, 10, Geometry::UNKNOWN);
        let a = bench.malloc(10);
        bench.daemon.change(super::fakes::first_slot(), |cell| {
            cell.flags |= eager_proto::reply::FLAG_GATED;
            cell.gate = eager_proto::reply::gate::pack(false, 1, 0);
        });
        bench.daemon.then(|daemon| daemon.die());
        assert_eq!(bench.launch(&[a]), expected);
        assert_eq!(bench.shim.free(&mut bench.thread, a), Outcome::PassThrough(Why::NoDaemon));
    }
}

#[test]
fn a_stopped_daemon_is_lost_after_the_limit() {
    let mut bench = Bench::with(true, OnLoss::Wait(Duration::from_secs(2)), Profile::default());
    bench.daemon.stop();
    bench.shim.task_begin(&mut bench.thread, SITE, 10, Geometry::UNKNOWN);
    assert_eq!(bench.shim.malloc(&mut bench.thread, 10), Outcome::PassThrough(Why::NoDaemon));
}

#[test]
fn the_daemons_devices_are_found_by_their_uuids() {
    let mut bench = Bench::new();
    bench.daemon.serve(&[3, 1]);
    bench.daemon.bind_on(1);
    bench.begin(SITE, 10);
    assert_eq!(bench.cuda.log(), ["device 1"]);
    bench.end(SITE);
    bench.daemon.bind_on(0);
    bench.begin(SITE, 10);
    assert_eq!(bench.cuda.log(), ["device 3"]);
}

#[test]
fn a_device_that_the_program_does_not_see_is_said() {
    let mut bench = Bench::new();
    bench.daemon.serve(&[0, 9]);
    bench.daemon.bind_on(1);
    bench.begin(SITE, 10);
    let reported = bench.reported.lock().clone();
    assert!(reported.len() == 1 && reported[0].contains("CUDA_VISIBLE_DEVICES"), "{reported:?}");
}

#[test]
fn a_wait_for_the_device_before_anything_makes_no_context() {
    let mut bench = Bench::new();
    assert_eq!(bench.shim.device_synchronize(&mut bench.thread), Outcome::Handled(()));
    assert_eq!(bench.cuda.log(), [""; 0]);
    // Work that a library of the program started by itself is waited for.
    bench.cuda.make_context();
    let passes = Outcome::PassThrough(Why::NotOurs);
    assert_eq!(bench.shim.device_synchronize(&mut bench.thread), passes);
}
