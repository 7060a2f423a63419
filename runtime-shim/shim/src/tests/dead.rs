//! Buffers that the compiler proves dead: a use after all is reported once and harms nothing.

use super::fakes::Decision;
use super::*;
use crate::ledger::{Allocation, Origin};
use eager_proto::request::RequestBody;

/// An over-subscribed task of 2,000 bytes with a grant of 500, under a daemon that wants dead memory back.
fn eager() -> Bench {
    let mut bench = Bench::new();
    bench.daemon.decide(Decision::EagerReleasing(500));
    bench.begin(SITE, 2000);
    bench.daemon.requests();
    bench.cuda.log();
    bench
}

fn said_of_dead(bench: &Bench) -> usize {
    bench.reported.lock().iter().filter(|line| line.contains("shown to be dead")).count()
}

/// Frees the program's last buffer and ends its task; the daemon must hold nothing then.
fn ends_with_nothing_held(mut bench: Bench, buffer: u64) {
    bench.cuda.finish_kernels();
    bench.free(buffer);
    bench.end(SITE);
    assert_eq!(bench.daemon.violations(), Vec::<String>::new());
    assert_eq!(bench.daemon.held(), 0);
}

#[test]
fn a_dead_buffer_that_nobody_uses_is_freed_like_any_other() {
    let mut bench = Bench::new();
    bench.begin(SITE, 100);
    let (dead, other) = (bench.malloc(40), bench.malloc(60));
    bench.dead(dead);
    let _ = bench.launch(&[other]);
    bench.free(dead);
    bench.free(other);
    bench.end(SITE);
    assert_eq!(said_of_dead(&bench), 0);
}

#[test]
fn uses_of_a_dead_buffer_are_said_once_and_still_work() {
    let mut bench = Bench::new();
    bench.begin(SITE, 100);
    let buffer = bench.malloc(40);
    bench.dead(buffer);
    // A second call, and a pointer that is not a buffer, are ignored.
    bench.dead(buffer);
    bench.dead(0);
    bench.dead(buffer + 8);
    assert_eq!(bench.launch(&[buffer + 8]), crate::outcome::Outcome::Handled(()));
    let copy = Copy {
        dst: 16,
        src: buffer,
        bytes: 8,
        rows: Rows::ONE,
        kind: CopyKind::DEVICE_TO_HOST,
        order: Order::Blocking,
    };
    let _ = bench.shim.copy(&mut bench.thread, &copy);
    assert_eq!(said_of_dead(&bench), 1);
}

#[test]
fn an_address_that_is_allocated_again_is_a_new_buffer() {
    let mut bench = Bench::new();
    bench.begin(SITE, 100);
    let first = bench.malloc(40);
    bench.dead(first);
    bench.free(first);
    let mut state = bench.shim.state.lock();
    let owner = state.client.lazy();
    state.insert_memory(first, Allocation::new(40, owner, None, Origin::Plain));
    assert!(state.memory().dead_among(&[first]).is_empty());
}

#[test]
fn a_dead_managed_buffer_is_discarded_when_the_device_is_done_with_it() {
    let mut bench = eager();
    let (a, b) = (bench.malloc(1000), bench.malloc(1000));
    let _ = bench.launch(&[a]);
    bench.cuda.log();
    bench.dead(a);
    assert_eq!(bench.cuda.log(), Vec::<String>::new(), "its kernel runs");
    bench.cuda.finish_kernels();
    let _ = bench.download(b, 8);
    assert_eq!(bench.cuda.log()[0], "discard 1000");
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskShrink { bytes: 1000 }]);
    bench.free(a);
    assert_eq!(bench.daemon.requests(), [], "a free tells nothing twice");
    bench.free(b);
    bench.end(SITE);
    assert_eq!(bench.daemon.violations(), Vec::<String>::new());
    assert_eq!(bench.daemon.held(), 0);
    assert_eq!(bench.cuda.live_bytes(), 0);
}

#[test]
fn a_managed_buffer_keeps_its_contents_where_the_daemon_does_not_want_memory_back() {
    let mut bench = Bench::new();
    bench.daemon.decide(Decision::Eager(500));
    bench.begin(SITE, 1000);
    let a = bench.malloc(1000);
    bench.daemon.requests();
    bench.dead(a);
    assert!(!bench.cuda.log().contains(&"discard 1000".to_owned()));
    bench.free(a);
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskShrink { bytes: 1000 }]);
}

#[test]
fn a_use_of_a_discarded_buffer_is_counted_again_and_told_loudly() {
    let mut bench = eager();
    let a = bench.malloc(1000);
    bench.dead(a);
    bench.daemon.requests();
    assert_eq!(bench.launch(&[a + 8]), crate::outcome::Outcome::Handled(()));
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskExtend { bytes: 1000 }]);
    assert!(bench.reported.lock().iter().any(|line| line.contains("RESULTS OF THIS PROGRAM ARE WRONG")));
    ends_with_nothing_held(bench, a);
}

#[test]
fn a_discarded_buffer_whose_memory_is_refused_pages_uncounted() {
    let mut bench = eager();
    let a = bench.malloc(1000);
    bench.dead(a);
    bench.daemon.refuse_extensions(true);
    assert_eq!(bench.launch(&[a]), crate::outcome::Outcome::Handled(()));
    ends_with_nothing_held(bench, a);
}

#[test]
fn a_pointer_just_past_a_dead_buffer_does_not_bring_it_back() {
    let mut bench = eager();
    let (a, b) = (bench.malloc(1000), bench.malloc(1000));
    bench.dead(a);
    bench.daemon.requests();
    // The address at which the next buffer may begin.
    let _ = bench.launch(&[a + 1000, b]);
    assert_eq!(bench.daemon.requests(), []);
    assert_eq!(said_of_dead(&bench), 0);
}

#[test]
fn a_dead_buffer_that_is_freed_while_its_kernel_runs_leaves_no_event() {
    let mut bench = eager();
    let a = bench.malloc(1000);
    let _ = bench.launch(&[a]);
    bench.dead(a);
    assert_eq!(bench.cuda.event_count(), 1);
    bench.free(a);
    bench.end(SITE);
    assert_eq!((bench.cuda.event_count(), bench.daemon.held()), (0, 0));
}

#[test]
fn a_program_that_only_launches_gives_dead_memory_back() {
    let mut bench = eager();
    let (a, b) = (bench.malloc(1000), bench.malloc(1000));
    let _ = bench.launch(&[a]);
    bench.dead(a);
    bench.daemon.requests();
    bench.cuda.finish_kernels();
    for _ in 0..20 {
        let _ = bench.launch(&[b]);
    }
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskShrink { bytes: 1000 }]);
}
