//! Programs whose user declared their size: one task for all they do.

use super::fakes::Decision;
use super::{Bench, HOST, SITE};
use crate::outcome::{Outcome, Why};
use crate::runtime::CudaError;
use eager_client::task::Declared;
use eager_proto::request::{BeginFlags, RequestBody};

/// A bench whose program declares this size.
fn bench(bytes: u64, whole: bool) -> Bench {
    let mut bench = Bench::new();
    bench.own().state.get_mut().client.declared = Some(Declared { bytes, whole });
    bench
}

fn begins(requirement: u64, whole: bool) -> RequestBody {
    RequestBody::TaskBegin {
        requirement,
        site: 0,
        blocks: 0,
        threads_per_block: 0,
        flags: BeginFlags { whole, ..BeginFlags::NONE },
        function: String::new(),
    }
}

#[test]
fn the_first_allocation_asks_for_all_and_later_ones_only_for_what_exceeds_it() {
    let mut bench = bench(100, false);
    let first = bench.malloc(30);
    assert_eq!(bench.daemon.requests(), [begins(100, false)]);
    assert_eq!(bench.cuda.log().last().map(String::as_str), Some("malloc 30 on 0"), "it is bound");
    bench.other_thread();
    let second = bench.malloc(70);
    assert_eq!(bench.launch(&[first, second]), Outcome::Handled(()));
    assert_eq!(bench.daemon.requests(), []);
    let third = bench.malloc(7);
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskExtend { bytes: 7 }]);
    for buffer in [first, second, third] {
        bench.free(buffer);
    }
    assert_eq!(bench.daemon.held(), 107, "it keeps its memory until it ends");
    bench.malloc(107);
    assert_eq!((bench.daemon.requests(), bench.daemon.violations()), (vec![], vec![]));
}

#[test]
fn whatever_first_needs_a_device_asks() {
    type Use = fn(&mut Bench);
    let uses: [(&str, Use); 4] = [
        ("a launch", |bench| assert_eq!(bench.launch(&[]), Outcome::Handled(()))),
        ("a context", |bench| {
            let outcome = bench.shim.on_some_device(&mut bench.thread);
            assert_eq!(outcome, Outcome::PassThrough(Why::AsItIs));
        }),
        ("a query", |bench| {
            let outcome = bench.shim.on_own_device(&mut bench.thread);
            assert_eq!(outcome, Outcome::PassThrough(Why::AsItIs));
        }),
        ("a copy", |bench| {
            let _ = bench.upload(HOST, 10);
        }),
    ];
    for (what, first_use) in uses {
        let mut bench = bench(100, true);
        bench.daemon.bind_on(2);
        first_use(&mut bench);
        assert_eq!(bench.daemon.requests(), [begins(100, true)], "{what}");
        bench.other_thread();
        first_use(&mut bench);
        assert_eq!((bench.daemon.requests(), bench.daemon.violations()), (vec![], vec![]), "{what}");
    }
}

#[test]
fn sites_are_a_part_of_it() {
    let mut bench = bench(100, false);
    bench.begin(SITE, 60);
    let buffer = bench.malloc(60);
    assert_eq!(bench.launch(&[buffer]), Outcome::Handled(()));
    bench.free(buffer);
    bench.end(SITE);
    assert_eq!(bench.daemon.requests(), [begins(100, false)]);
    assert_eq!((bench.daemon.held(), bench.daemon.violations()), (100, vec![]));
}

#[test]
fn a_refusal_is_said_once_and_final() {
    let mut bench = bench(100, false);
    bench.daemon.decide(Decision::Refuse);
    for _ in 0..2 {
        let refused = bench.shim.malloc(&mut bench.thread, 10);
        assert_eq!(refused, Outcome::Fail(CudaError::MEMORY_ALLOCATION));
    }
    assert_eq!(bench.launch(&[]), Outcome::Fail(CudaError::MEMORY_ALLOCATION));
    let said = bench.reported.lock().clone();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("the task in the whole program (100 B) is refused: "), "{said:?}");
    assert_eq!(bench.daemon.requests(), [begins(100, false)]);
}

#[test]
fn a_reset_gives_all_back_and_the_next_use_asks_anew() {
    let mut bench = bench(100, false);
    bench.malloc(10);
    assert_eq!(bench.shim.device_reset(&mut bench.thread), Outcome::Handled(()));
    bench.malloc(10);
    assert_eq!(bench.daemon.requests(), [begins(100, false), RequestBody::TaskEnd, begins(100, false)]);
    assert_eq!((bench.daemon.held(), bench.daemon.violations()), (100, vec![]));
}

#[test]
fn free_memory_is_what_is_left_of_the_size() {
    let mut bench = bench(100, false);
    assert_eq!(bench.shim.free_for_program(1000), 1000, "it has asked for nothing yet");
    let buffer = bench.malloc(30);
    assert_eq!(bench.shim.free_for_program(1000), 70);
    assert_eq!(bench.shim.free_for_program(50), 50, "the device has less");
    bench.free(buffer);
    assert_eq!(bench.shim.free_for_program(1000), 100);
    bench.malloc(120);
    assert_eq!(bench.shim.free_for_program(1000), 0);
}

#[test]
fn over_subscribed_memory_is_managed_and_not_all_of_it_need_be_free() {
    let mut bench = bench(100, false);
    bench.daemon.decide(Decision::Eager(60));
    bench.malloc(30);
    let log = bench.cuda.log();
    assert!(log.contains(&"managed 30 on 0".to_owned()), "{log:?}");
    assert_eq!(bench.shim.free_for_program(5), 70);
}
