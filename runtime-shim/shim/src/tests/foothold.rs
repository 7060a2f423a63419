//! Programs without a task make contexts only on the device that the daemon gives.

use super::fakes::{Decision, lazy_slot};
use super::{Bench, SITE};
use crate::outcome::{Outcome, Why};
use crate::runtime::{CudaError, Setting, StreamId};
use eager_client::task::Geometry;
use eager_proto::reply::{CLASS_NORMAL, STATE_BOUND};
use eager_proto::request::RequestBody;

const AS_IT_IS: Outcome<()> = Outcome::PassThrough(Why::AsItIs);

/// Requests sent to the daemon before the first call that makes a context.
pub(super) const ASKED: [RequestBody; 2] = [RequestBody::lazy_begin(0), RequestBody::TaskEnd];

#[test]
fn the_first_allocation_goes_where_the_daemon_says_and_no_later_one_asks() {
    let mut bench = Bench::new();
    bench.daemon.bind_on(2);
    bench.malloc(10);
    assert_eq!(bench.daemon.requests(), ASKED);
    assert_eq!(bench.cuda.log(), ["device 2", "managed 10 on 2"]);
    assert_eq!(bench.daemon.held(), 0, "it holds nothing yet");
    bench.malloc(20);
    let set = bench.shim.set(&mut bench.thread, Setting::Limit { limit: 0, value: 1 });
    assert_eq!((set, bench.daemon.requests()), (AS_IT_IS, Vec::new()));
    bench.other_thread();
    bench.cuda.log();
    assert_eq!(bench.shim.on_some_device(&mut bench.thread), AS_IT_IS);
    assert_eq!(bench.cuda.log(), ["device 2"], "a new thread is on device 0 until it is told otherwise");
    assert_eq!(bench.daemon.violations(), [""; 0]);
}

#[test]
fn calls_that_have_nothing_to_do_yet_ask_for_nothing() {
    let mut bench = Bench::new();
    let Bench { shim, thread, .. } = &mut bench;
    assert_eq!(shim.free(thread, 0), Outcome::Handled(()));
    assert_eq!(shim.device_synchronize(thread), Outcome::Handled(()));
    assert_eq!(shim.stream_synchronize(thread, StreamId::PER_THREAD), Outcome::Handled(()));
    assert!(matches!(shim.malloc_host(thread, 100, 0), Outcome::Handled(_)));
    assert_eq!((bench.daemon.requests(), bench.daemon.violations().len()), (Vec::new(), 0));
    assert_eq!(bench.cuda.log(), ["map 100 of the host"]);
}

#[test]
fn a_program_waits_for_its_context() {
    let mut bench = Bench::new();
    bench.daemon.bind_on(1);
    bench.daemon.decide(Decision::Wait);
    bench.daemon.then(|_| {});
    bench.daemon.then(|daemon| {
        daemon.change(lazy_slot(), |cell| {
            (cell.state, cell.class, cell.device, cell.answered) = (STATE_BOUND, CLASS_NORMAL, 3, 1);
        });
    });
    bench.malloc(10);
    assert_eq!(bench.cuda.log(), ["device 3", "managed 10 on 3"]);
    let a = bench.malloc(10);
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    assert_eq!(bench.daemon.requirement(lazy_slot()), Some(20));
    assert_eq!(bench.daemon.violations(), [""; 0]);
}

#[test]
fn a_program_that_may_have_no_context_makes_none_of_its_own() {
    let mut bench = Bench::new();
    bench.daemon.decide(Decision::Refuse);
    let refused = bench.shim.malloc(&mut bench.thread, 10);
    assert_eq!(refused, Outcome::Fail(CudaError::MEMORY_ALLOCATION));
    let asks = bench.shim.on_some_device(&mut bench.thread);
    assert_eq!(asks, Outcome::Fail(CudaError::MEMORY_ALLOCATION));
    assert!(!bench.cuda.log().iter().any(|line| line.starts_with("managed") || line.starts_with("device")));
    assert_eq!(bench.daemon.held(), 0);
}

#[test]
fn the_device_of_a_task_that_ended_is_still_the_programs() {
    let mut bench = Bench::new();
    bench.daemon.bind_on(3);
    bench.shim.task_begin(&mut bench.thread, SITE, 10, Geometry::UNKNOWN);
    bench.shim.task_end(&mut bench.thread, SITE);
    bench.daemon.requests();
    bench.cuda.log();
    bench.malloc(10);
    assert_eq!((bench.daemon.requests(), bench.cuda.log()), (Vec::new(), vec!["managed 10 on 3".to_owned()]));
}

#[test]
fn without_a_daemon_nobody_is_asked() {
    let mut bench = Bench::new();
    bench.daemon.die();
    assert_eq!(bench.shim.malloc(&mut bench.thread, 10), Outcome::PassThrough(Why::NoDaemon));
    assert_eq!(bench.shim.on_some_device(&mut bench.thread), Outcome::PassThrough(Why::NoDaemon));
    assert!(bench.cuda.log().is_empty());
}
