//! Sites inside other sites, sites that reuse their memory, and sites beside the lazy task: one task, one device, and
//! never a wait while memory is held.

use super::fakes::{Decision, first_slot, lazy_slot};
use super::{Bench, SITE};
use crate::outcome::Outcome;
use crate::runtime::{CudaError, StreamFlags};
use crate::state::Thread;
use eager_abi::TASK_REUSES;
use eager_proto::request::RequestBody;

const INNER: u64 = 8;

fn extend(bytes: u64) -> RequestBody {
    RequestBody::TaskExtend { bytes }
}

fn shrink(bytes: u64) -> RequestBody {
    RequestBody::TaskShrink { bytes }
}

/// A bench in which a task of 100 bytes has begun, and nothing is allocated.
fn inside_a_task(covered: &[u64], flags: u32) -> Bench {
    let mut bench = Bench::new();
    bench.add_site(SITE, "main", covered, flags);
    bench.add_site(INNER, "helper", &[], 0);
    bench.begin(SITE, 100);
    bench.daemon.requests();
    bench
}

#[test]
fn a_covered_site_takes_from_the_outer_promise_and_says_nothing() {
    let mut bench = inside_a_task(&[INNER], 0);
    bench.begin(INNER, 60);
    let a = bench.malloc(60);
    bench.shim.all_launched(&bench.thread, INNER);
    bench.end(INNER);
    assert_eq!(bench.daemon.requests(), []);
    assert_eq!(bench.daemon.requirement(first_slot()), Some(100));
    let b = bench.malloc(40);
    assert_eq!(bench.daemon.requests(), [], "the outer site is still the one that allocates");
    bench.free(a);
    bench.free(b);
    bench.end(SITE);
    assert_eq!(bench.daemon.requests(), [shrink(60), shrink(40), RequestBody::TaskEnd]);
}

#[test]
fn what_the_covering_site_covers_is_covered_in_it_too() {
    let mut bench = inside_a_task(&[INNER], 0);
    bench.add_site(INNER, "helper", &[INNER + 1], 0);
    bench.begin(INNER, 60);
    bench.begin(INNER + 1, 30);
    bench.malloc(30);
    bench.end(INNER + 1);
    bench.end(INNER);
    assert_eq!(bench.daemon.requests(), []);
}

#[test]
fn a_site_that_is_not_covered_extends_the_outer_task_and_shrinks_it_at_its_end() {
    let mut bench = inside_a_task(&[], 0);
    bench.daemon.bind_on(3);
    bench.begin(INNER, 60);
    assert_eq!(
        bench.daemon.requests(),
        [extend(60)],
        "no task of its own: it would wait while this one holds"
    );
    let a = bench.malloc(50);
    bench.end(INNER);
    assert_eq!(bench.daemon.requests(), [shrink(10)]);
    let b = bench.malloc(100);
    assert_eq!(bench.daemon.requests(), [], "the outer promise was not touched");
    assert_eq!(bench.launch(&[a, b]), Outcome::Handled(()));
    bench.free(a);
    bench.free(b);
    bench.end(SITE);
    assert_eq!((bench.daemon.held(), bench.daemon.violations().len()), (0, 0));
    assert!(!bench.cuda.log().contains(&"device 3".to_owned()), "the outer task's device");
}

#[test]
fn a_site_called_again_and_again_leaves_nothing_behind() {
    let mut bench = inside_a_task(&[], 0);
    for _ in 0..3 {
        bench.begin(INNER, 60);
        let a = bench.malloc(60);
        bench.free(a);
        bench.end(INNER);
        assert_eq!(bench.daemon.requests(), [extend(60), shrink(60)]);
    }
}

#[test]
fn recursion_extends_for_each_level() {
    let mut bench = inside_a_task(&[], 0);
    for depth in 1..=3 {
        bench.begin(SITE, 100);
        assert_eq!(bench.daemon.requirement(first_slot()), Some(100 + 100 * depth));
    }
    for depth in (0..=2).rev() {
        bench.end(SITE);
        assert_eq!(bench.daemon.requirement(first_slot()), Some(100 + 100 * depth));
    }
    bench.end(SITE);
    assert_eq!((bench.daemon.held(), bench.thread.sites.open.len()), (0, 0));
}

#[test]
fn a_refused_extension_leaves_the_allocations_to_ask_one_by_one() {
    let mut bench = inside_a_task(&[], 0);
    bench.daemon.refuse_extensions(true);
    bench.begin(INNER, 60);
    assert_eq!(bench.reported.lock().len(), 1);
    assert!(
        bench.reported.lock()[0].starts_with("the task in helper (60 B), inside another one, is refused")
    );
    let refused = bench.shim.malloc(&mut bench.thread, 60);
    assert_eq!(refused, Outcome::Fail(CudaError::MEMORY_ALLOCATION));
    bench.daemon.refuse_extensions(false);
    bench.malloc(20);
    assert_eq!(bench.daemon.requirement(first_slot()), Some(120), "what fits is allocated");
}

#[test]
fn a_site_inside_a_refused_one_is_refused_with_it() {
    let mut bench = Bench::new();
    bench.daemon.decide(Decision::Refuse);
    bench.begin(SITE, 100);
    bench.daemon.requests();
    bench.begin(INNER, 60);
    assert_eq!(bench.shim.malloc(&mut bench.thread, 60), Outcome::Fail(CudaError::MEMORY_ALLOCATION));
    bench.end(INNER);
    assert_eq!(bench.shim.malloc(&mut bench.thread, 20), Outcome::Fail(CudaError::MEMORY_ALLOCATION));
    assert_eq!(bench.daemon.requests(), []);
    bench.end(SITE);
    assert_eq!((bench.daemon.held(), bench.reported.lock().len()), (0, 1));
    assert_eq!((bench.thread.sites.open.len(), bench.daemon.violations().len()), (0, 0));
}

#[test]
fn the_end_of_a_refused_site_is_not_another_threads() {
    let mut bench = Bench::new();
    let mut other = Thread::default();
    bench.shim.task_begin(&mut other, SITE, 40, eager_client::task::Geometry::UNKNOWN);
    bench.daemon.decide(Decision::Refuse);
    bench.begin(SITE, 100);
    bench.daemon.requests();
    bench.shim.all_launched(&bench.thread, SITE);
    bench.end(SITE);
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskEnd], "its own");
    assert_eq!(bench.daemon.held(), 40);
}

#[test]
fn a_task_that_reuses_keeps_what_it_frees_until_its_end() {
    let mut bench = inside_a_task(&[], TASK_REUSES);
    for _ in 0..3 {
        let a = bench.malloc(100);
        bench.free(a);
    }
    assert_eq!(bench.daemon.requests(), [], "always the 100 bytes of the begin");
    bench.end(SITE);
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskEnd]);
}

#[test]
fn a_buffer_that_outlives_a_site_that_reuses_is_given_back_when_it_is_freed() {
    let mut bench = inside_a_task(&[], TASK_REUSES);
    let a = bench.malloc(70);
    bench.end(SITE);
    assert_eq!(bench.daemon.requests(), [shrink(30)]);
    bench.free(a);
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskEnd]);
}

#[test]
fn all_is_launched_when_every_overlapping_site_says_so() {
    let mut bench = inside_a_task(&[], 0);
    bench.add_site(INNER, "main", &[], 0);
    bench.begin(INNER, 60);
    bench.daemon.requests();
    bench.shim.all_launched(&bench.thread, SITE);
    bench.end(SITE);
    assert_eq!(bench.daemon.requests(), [shrink(100)], "the other site of the same function goes on");
    let a = bench.malloc(60);
    bench.shim.all_launched(&bench.thread, INNER);
    bench.shim.all_launched(&bench.thread, INNER);
    bench.free(a);
    bench.end(INNER);
    assert_eq!(bench.daemon.requests(), [RequestBody::AllLaunched, shrink(60), RequestBody::TaskEnd]);
}

#[test]
fn a_site_that_was_left_without_an_end_ends_with_its_caller() {
    let mut bench = inside_a_task(&[], 0);
    bench.begin(INNER, 60);
    bench.end(SITE);
    assert_eq!((bench.daemon.held(), bench.thread.sites.open.len()), (0, 0));
    bench.end(INNER);
    assert_eq!(bench.daemon.violations(), [""; 0]);
}

#[test]
fn another_threads_site_is_a_task_of_its_own() {
    let bench = inside_a_task(&[INNER], 0);
    let mut other = Thread::default();
    bench.shim.task_begin(&mut other, INNER, 60, eager_client::task::Geometry::UNKNOWN);
    assert_eq!(bench.daemon.held(), 160);
    bench.shim.task_end(&mut other, INNER);
    assert_eq!(bench.daemon.held(), 100);
}

#[test]
fn a_site_beside_an_unbound_lazy_task_is_a_task_of_its_own() {
    let mut bench = Bench::new();
    let early = bench.malloc(50);
    bench.begin(SITE, 100);
    assert_eq!((bench.daemon.requirement(first_slot()), bench.daemon.held()), (Some(100), 100));
    let own = bench.malloc(100);
    assert_eq!(bench.launch(&[early]), Outcome::Handled(()));
    assert_eq!(bench.daemon.held(), 150, "memory that nobody had asked for is asked for once, by its user");
    bench.free(early);
    bench.free(own);
    bench.end(SITE);
    assert_eq!((bench.daemon.held(), bench.daemon.violations().len()), (0, 0));
}

#[test]
fn a_site_beside_a_bound_lazy_task_with_memory_extends_it() {
    let mut bench = Bench::new();
    let early = bench.malloc(50);
    assert_eq!(bench.launch(&[early]), Outcome::Handled(()));
    bench.daemon.requests();
    bench.begin(SITE, 100);
    let own = bench.malloc(100);
    assert_eq!(bench.launch(&[early, own]), Outcome::Handled(()));
    bench.free(early);
    bench.shim.all_launched(&bench.thread, SITE);
    bench.free(own);
    bench.end(SITE);
    let end = RequestBody::TaskEnd;
    assert_eq!(bench.daemon.requests(), [extend(100), shrink(50), shrink(100), end], "one task, one device");
    bench.begin(SITE, 100);
    assert_eq!(bench.daemon.requirement(first_slot()), Some(100), "nothing lazy is left: a task again");
}

#[test]
fn a_site_whose_thread_made_streams_may_wait_and_runs_on_their_device() {
    let mut bench = Bench::new();
    let stream = bench.shim.stream_create(&mut bench.thread, StreamFlags::NON_BLOCKING, None);
    assert!(matches!(stream, Outcome::Handled(_)));
    bench.begin(SITE, 100);
    assert_eq!(bench.daemon.requirement(first_slot()), Some(100), "a task of its own, on the same device");
    bench.end(SITE);
    bench.daemon.bind_on(3);
    bench.daemon.requests();
    bench.begin(SITE, 100);
    let asked = bench.daemon.requests();
    assert!(matches!(
        asked[..],
        [RequestBody::TaskBegin { .. }, RequestBody::TaskEnd, RequestBody::TaskExtend { .. }]
    ));
    assert_eq!(bench.daemon.requirement(lazy_slot()), Some(100), "bound elsewhere: with the streams instead");
    let mut other = std::mem::take(&mut bench.thread);
    bench.begin(INNER, 10);
    assert_eq!(bench.daemon.requirement(first_slot()), Some(10), "a thread that has not used them is free");
    bench.end(INNER);
    std::mem::swap(&mut bench.thread, &mut other);
    bench.end(SITE);
    assert_eq!(bench.daemon.requirement(lazy_slot()), Some(0));
    assert_eq!(bench.daemon.violations(), [""; 0]);
}
