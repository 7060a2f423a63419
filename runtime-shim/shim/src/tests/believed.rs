//! Buffers that are believed dead: on the host until a call names them, then back on the device, and always counted
//! right.

use super::Bench;
use super::fakes::{Decision, lazy_slot};
use crate::beliefs::{Beliefs, Learnt, Sites};
use eager_proto::request::RequestBody;

/// A lazy task of two buffers; each is believed dead after its first use.
fn bench() -> (Bench, u64, u64) {
    let mut bench = Bench::new();
    let sure = Learnt { uses: 1, runs: 2 };
    bench.shim.state.lock().beliefs = Some(Beliefs::of_runs(Sites::from([(0, sure), (1, sure)])));
    let (a, b) = (bench.malloc(1000), bench.malloc(100));
    bench.daemon.decide(Decision::Releasing);
    (bench, a, b)
}

#[test]
fn what_is_believed_dead_goes_to_the_host_when_the_device_is_done_with_it() {
    let (mut bench, a, b) = bench();
    let _ = bench.launch(&[a]);
    assert!(!bench.cuda.log().contains(&"to the host 1000".to_owned()), "its kernel runs");
    bench.cuda.finish_kernels();
    bench.daemon.requests();
    let _ = bench.download(b, 8);
    assert!(bench.cuda.log().contains(&"to the host 1000".to_owned()));
    assert_eq!(
        bench.daemon.requests(),
        [RequestBody::TaskShrink { bytes: 1000 }, RequestBody::TaskShrink { bytes: 100 }]
    );
    assert_eq!(bench.daemon.requirement(lazy_slot()), Some(0), "the task stays while it has buffers");
    bench.free(a);
    assert_eq!(bench.daemon.requests(), []);
    bench.free(b);
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskEnd]);
    assert_eq!(bench.daemon.violations(), Vec::<String>::new());
}

#[test]
fn a_use_after_all_brings_it_back_and_asks_for_its_memory() {
    let (mut bench, a, b) = bench();
    let _ = bench.launch(&[a]);
    bench.cuda.finish_kernels();
    let _ = bench.download(b, 8);
    bench.daemon.requests();
    bench.cuda.log();
    let _ = bench.launch(&[a + 8]);
    assert!(bench.cuda.log().starts_with(&["prefetch 1000 to 0 on stream 0".to_owned()]));
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskExtend { bytes: 1000 }]);
    assert!(bench.reported.lock().is_empty(), "a wrong belief is nobody's fault");
    bench.cuda.finish_kernels();
    bench.free(a);
    bench.free(b);
    assert_eq!(bench.daemon.violations(), Vec::<String>::new());
    assert_eq!(bench.daemon.held(), 0);
}

#[test]
fn one_whose_memory_is_refused_stays_on_the_host_and_is_used_all_the_same() {
    let (mut bench, a, b) = bench();
    let _ = bench.launch(&[a]);
    bench.cuda.finish_kernels();
    let _ = bench.download(b, 8);
    bench.daemon.refuse_extensions(true);
    assert_eq!(bench.launch(&[a]), crate::outcome::Outcome::Handled(()));
    assert_eq!(bench.daemon.requirement(lazy_slot()), Some(0));
    bench.daemon.refuse_extensions(false);
    assert_eq!(bench.launch(&[a]), crate::outcome::Outcome::Handled(()));
    assert_eq!(bench.daemon.requirement(lazy_slot()), Some(1000));
    bench.free(a);
    bench.free(b);
    assert_eq!(bench.daemon.violations(), Vec::<String>::new());
    assert_eq!(bench.daemon.held(), 0);
}

#[test]
fn nothing_goes_where_the_policy_does_not_want_memory_back() {
    let (mut bench, a, _) = bench();
    bench.daemon.requests();
    let mut other = Bench::new();
    other.shim.state.lock().beliefs = bench.shim.state.lock().beliefs.take();
    let buffer = other.malloc(1000);
    let _ = other.launch(&[buffer]);
    other.cuda.finish_kernels();
    let _ = other.download(buffer, 8);
    assert!(!other.cuda.log().iter().any(|line| line.starts_with("to the host")));
    let _ = bench.launch(&[a]);
    bench.cuda.finish_kernels();
    let _ = bench.download(a, 8);
    assert!(!bench.cuda.log().iter().any(|line| line.starts_with("to the host")), "nothing is believed");
}

#[test]
fn one_that_another_thread_uses_while_others_are_moved_stays() {
    let (mut bench, a, b) = bench();
    let _ = bench.launch(&[a, b]);
    bench.cuda.finish_kernels();
    bench.cuda.log();
    bench.cuda.set_arguments(&[b]);
    // The other thread's kernel uses the second buffer while the first moves.
    let other = bench.other(super::threads::launch);
    bench.cuda.during("to the host 1000", other);
    let _ = bench.shim.stream_synchronize(&mut bench.thread, crate::runtime::StreamId::LEGACY);
    let log = bench.cuda.log();
    assert!(log.contains(&"to the host 1000".to_owned()), "{log:?}");
    assert!(!log.contains(&"to the host 100".to_owned()), "its kernel runs: {log:?}");
    bench.free(a);
    bench.free(b);
    assert_eq!((bench.daemon.held(), bench.daemon.violations().len()), (0, 0));
    assert_eq!(bench.cuda.event_count(), 0);
}
