//! Late reservation: addresses at once, the request at the first use, copies kept until then, memory by name.

use super::fakes::Habits;
use super::fakes::{Decision, FakeDaemon, first_slot};
use super::{Bench, SITE};
use crate::outcome::Outcome;
use crate::runtime::{Copy, CopyKind, CudaError, Order, Rows};
use eager_abi::TASK_NAMED;
use eager_client::task::Geometry;
use eager_proto::reply::{FLAG_HIGH_PRIORITY, FLAG_RELEASES};
use eager_proto::request::{BeginFlags, RequestBody};

const ALL: Habits = Habits {
    late_reservation: true,
    early_copies: true,
    live_requirement: true,
    fast_copies: false,
    grant_max: Some(2500),
};

/// A site of two buffers of 1000 bytes of which at most `live` are in use at once, on devices that map pieces of 16.
fn bench(habits: Habits, live: u64) -> Bench {
    let mut bench = Bench::with_habits(habits);
    bench.daemon.decide(Decision::Releasing);
    begin(&mut bench, live);
    bench
}

fn begin(bench: &mut Bench, live: u64) {
    bench.cuda.map_by(16);
    bench.add_site(SITE, "main", &[], TASK_NAMED);
    let requirement = crate::account::Requirement { bytes: 2000, live_bytes: live };
    bench.shim.task_begin(&mut bench.thread, SITE, requirement, Geometry::UNKNOWN);
}

fn begun(requirement: u64) -> RequestBody {
    RequestBody::TaskBegin {
        requirement,
        site: SITE,
        blocks: 0,
        threads_per_block: 0,
        flags: BeginFlags::WHOLE,
        function: "main".into(),
    }
}

/// Like [`bench`], but memory is short until [`serve`].
fn short_bench(habits: Habits, live: u64) -> Bench {
    let mut bench = Bench::with_habits(habits);
    bench.daemon.decide(Decision::Wait);
    begin(&mut bench, live);
    bench
}

/// Grants the waiting task.
fn serve(daemon: &FakeDaemon) {
    daemon.grant(first_slot(), FLAG_HIGH_PRIORITY | FLAG_RELEASES);
}

#[test]
fn the_first_copy_asks_and_goes_to_a_device_that_is_free() {
    let mut bench = bench(ALL, 2000);
    let (a, b) = (bench.malloc(1000), bench.malloc(1000));
    assert_eq!(bench.daemon.requests(), []);
    assert_eq!(bench.upload(a, 1000), Outcome::Handled(()));
    assert_eq!(bench.daemon.requests(), [begun(2000)]);
    let expected = ["reserve 1008", "reserve 1008", "device 0", "map 1008 on 0", "copy 1000 kind 1"];
    assert_eq!(bench.cuda.log(), expected, "nothing is kept");
    assert_eq!(bench.launch(&[a, b]), Outcome::Handled(()));
    assert_eq!(bench.daemon.requests(), []);
}

#[test]
fn while_memory_is_short_copies_wait_on_the_host_and_the_program_goes_on() {
    let mut bench = short_bench(ALL, 2000);
    let (a, b) = (bench.malloc(1000), bench.malloc(1000));
    assert_eq!(bench.upload(a, 1000), Outcome::Handled(()));
    assert_eq!(bench.upload(b, 500), Outcome::Handled(()));
    assert_eq!(bench.shim.device_synchronize(&mut bench.thread), Outcome::Handled(()));
    assert_eq!(bench.cuda.log(), ["reserve 1008", "reserve 1008", "keep 1000", "keep 500"]);
    assert_eq!(bench.daemon.requests(), [begun(2000)], "asked for once");
    bench.daemon.then(serve);
    assert_eq!(bench.launch(&[a, b]), Outcome::Handled(()));
    assert_eq!(bench.daemon.requests(), []);
    let expected = ["device 0", "map 1008 on 0", "copy 1000 kind 1", "map 1008 on 0", "copy 500 kind 1"];
    assert_eq!(bench.cuda.log()[..5], expected, "the copies are there before the kernel");
    bench.free(a);
    bench.free(b);
    bench.end(SITE);
    assert_eq!(bench.cuda.live_bytes(), 0);
    let ended = [RequestBody::TaskShrink { bytes: 1000 }, RequestBody::TaskShrink { bytes: 1000 }];
    assert_eq!(bench.daemon.requests(), [&ended[..], &[RequestBody::TaskEnd]].concat());
}

#[test]
fn what_is_allocated_while_memory_is_short_is_an_address_as_what_was_allocated_before() {
    let mut bench = short_bench(ALL, 2000);
    let a = bench.malloc(1000);
    assert_eq!(bench.upload(a, 1000), Outcome::Handled(()));
    bench.daemon.then(serve);
    let b = bench.malloc(1000);
    assert_eq!(bench.upload(b, 500), Outcome::Handled(()));
    let expected = ["reserve 1008", "keep 1000", "reserve 1008", "keep 500"];
    assert_eq!(bench.cuda.log(), expected, "announced, so it waits for nothing");
    bench.malloc(10);
    let requests = [begun(2000), RequestBody::TaskExtend { bytes: 10 }];
    assert_eq!(bench.daemon.requests(), requests, "what was not announced waits for the device");
}

#[test]
fn a_copy_after_the_grant_comes_behind_those_that_waited() {
    let mut bench = short_bench(ALL, 2000);
    let a = bench.malloc(1000);
    let _ = bench.upload(a, 1000);
    serve(&bench.daemon);
    bench.cuda.log();
    let _ = bench.upload(a, 400);
    assert_eq!(bench.cuda.log(), ["device 0", "map 1008 on 0", "copy 1000 kind 1", "copy 400 kind 1"]);
}

#[test]
fn what_a_task_turns_out_not_to_need_while_it_waits_is_given_back_when_it_has_it() {
    let mut bench = short_bench(ALL, 2000);
    let (a, b) = (bench.malloc(1000), bench.malloc(1000));
    let _ = bench.upload(a, 1000);
    bench.free(b);
    bench.end(SITE);
    assert_eq!(bench.daemon.requests(), [begun(2000)]);
    serve(&bench.daemon);
    let _ = bench.download(a, 10);
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskShrink { bytes: 1000 }]);
    bench.free(a);
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskEnd]);
}

#[test]
fn a_task_that_ends_while_it_waits_is_taken_back() {
    let mut bench = short_bench(ALL, 2000);
    let a = bench.malloc(1000);
    let _ = bench.upload(a, 1000);
    bench.free(a);
    bench.end(SITE);
    assert_eq!(bench.daemon.requests(), [begun(2000), RequestBody::TaskEnd]);
    assert_eq!(bench.cuda.log(), ["reserve 1008", "keep 1000", "unreserve 1008"]);
}

#[test]
fn a_task_that_waits_and_needs_more_than_it_asked_for_waits_first() {
    let mut bench = short_bench(Habits { grant_max: Some(5000), ..ALL }, 2000);
    let a = bench.malloc(1000);
    let _ = bench.upload(a, 1000);
    bench.daemon.then(serve);
    bench.malloc(1500);
    let asked = bench.daemon.requests();
    assert_eq!(asked, [begun(2000), RequestBody::TaskExtend { bytes: 500 }]);
    // A site that begins inside a waiting task waits for it first, too.
    let mut bench = short_bench(Habits { grant_max: Some(5000), ..ALL }, 2000);
    bench.add_site(8, "helper", &[], TASK_NAMED);
    let a = bench.malloc(1000);
    let _ = bench.upload(a, 1000);
    bench.daemon.then(serve);
    bench.begin(8, 500);
    assert_eq!(bench.daemon.requests(), [begun(2000), RequestBody::TaskExtend { bytes: 500 }]);
}

#[test]
fn a_refused_task_fails_at_its_first_copy() {
    let mut bench = Bench::with_habits(ALL);
    bench.daemon.decide(Decision::Refuse);
    begin(&mut bench, 2000);
    let a = bench.malloc(1000);
    assert_eq!(bench.upload(a, 1000), Outcome::Fail(CudaError::MEMORY_ALLOCATION));
}

#[test]
fn a_task_that_never_uses_a_device_never_asks() {
    let mut bench = bench(ALL, 2000);
    let a = bench.malloc(1000);
    bench.free(a);
    bench.end(SITE);
    assert_eq!(bench.daemon.requests(), []);
    assert_eq!(bench.cuda.log(), ["reserve 1008", "unreserve 1008"]);
}

#[test]
fn every_other_use_asks_first() {
    let read = |bench: &mut Bench, a| bench.download(a, 10);
    let set = |bench: &mut Bench, a| {
        let fill = crate::runtime::Fill { dst: a, value: 1, bytes: 10, rows: 1, pitch: 0 };
        let outcome = bench.shim.fill(&mut bench.thread, &fill);
        assert_eq!(outcome, Outcome::PassThrough(crate::outcome::Why::AsItIs));
        Outcome::Handled(())
    };
    let within = |bench: &mut Bench, a| {
        let kind = CopyKind::DEVICE_TO_DEVICE;
        let copy = Copy { dst: a, src: a + 500, bytes: 10, rows: Rows::ONE, kind, order: Order::Blocking };
        assert!(!matches!(bench.shim.copy(&mut bench.thread, &copy), Outcome::Fail(_)));
        Outcome::Handled(())
    };
    type DeviceUse<'a> = &'a dyn Fn(&mut Bench, u64) -> Outcome<()>;
    let uses: [DeviceUse<'_>; 3] = [&read, &set, &within];
    for device_use in uses {
        let mut bench = short_bench(ALL, 2000);
        let a = bench.malloc(1000);
        let _ = bench.upload(a, 1000);
        bench.cuda.log();
        bench.daemon.then(serve);
        assert_eq!(device_use(&mut bench, a), Outcome::Handled(()));
        assert_eq!(bench.daemon.requests(), [begun(2000)]);
        assert_eq!(bench.cuda.log()[..3], ["device 0", "map 1008 on 0", "copy 1000 kind 1"]);
    }
}

#[test]
fn a_copy_beyond_the_hosts_budget_waits_and_copies_stay_in_order() {
    let mut bench = short_bench(ALL, 2000);
    bench.own().config.staging_bytes = 1500;
    let a = bench.malloc(1000);
    let _ = bench.upload(a, 900);
    bench.daemon.then(serve);
    let _ = bench.upload(a + 50, 601);
    assert_eq!(
        bench.cuda.log(),
        ["reserve 1008", "keep 900", "device 0", "map 1008 on 0", "copy 900 kind 1", "copy 601 kind 1"]
    );
    assert_eq!(bench.daemon.requests(), [begun(2000)]);
}

#[test]
fn a_task_asks_for_what_is_in_use_at_once_and_holds_no_more() {
    let mut bench = bench(ALL, 1000);
    let (a, b) = (bench.malloc(1000), bench.malloc(1000));
    let _ = bench.launch(&[a]);
    assert_eq!(bench.daemon.requests(), [begun(1000)]);
    assert_eq!(bench.cuda.live_bytes(), 1008);
    bench.cuda.finish_kernels();
    bench.dead(a);
    assert_eq!(bench.cuda.live_bytes(), 0);
    assert_eq!(bench.daemon.requests(), [], "the next buffer needs it");
    let _ = bench.launch(&[b]);
    assert_eq!(bench.cuda.live_bytes(), 1008);
    bench.cuda.finish_kernels();
    bench.dead(b);
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskShrink { bytes: 1000 }]);
    bench.free(a);
    bench.free(b);
    bench.end(SITE);
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskEnd]);
}

#[test]
fn more_in_use_at_once_than_was_said_is_asked_for() {
    let mut bench = bench(ALL, 1000);
    let (a, b) = (bench.malloc(1000), bench.malloc(1000));
    let _ = bench.launch(&[a]);
    let _ = bench.launch(&[a, b]);
    assert_eq!(bench.daemon.requests(), [begun(1000), RequestBody::TaskExtend { bytes: 1000 }]);
    assert_eq!(bench.cuda.live_bytes(), 2016);
}

#[test]
fn a_pointer_just_outside_a_buffer_names_it_too() {
    let mut bench = bench(ALL, 1000);
    let (a, _) = (bench.malloc(1000), bench.malloc(1000));
    let _ = bench.launch(&[a - 4]);
    assert_eq!(bench.cuda.live_bytes(), 1008);
}

#[test]
fn a_launch_waits_for_its_tasks_own_dying_memory_before_it_asks_for_more() {
    let mut bench = bench(ALL, 1000);
    let (a, b) = (bench.malloc(1000), bench.malloc(1000));
    let _ = bench.launch(&[a]);
    bench.dead(a);
    bench.daemon.requests();
    // The device is full: bytes that the task has not reserved are refused.
    bench.daemon.refuse_extensions(true);
    bench.cuda.log();
    assert_eq!(bench.launch(&[b]), Outcome::Handled(()));
    assert_eq!(bench.daemon.requests(), []);
    let log = bench.cuda.log();
    assert_eq!(log[..3], ["event sync", "unmap 1008", "map 1008 on 0"]);
    assert_eq!((bench.cuda.live_bytes(), bench.cuda.event_count()), (1008, 0));
}

#[test]
fn a_word_that_names_one_buffer_does_not_name_those_beside_it() {
    let mut bench = Bench::with_habits(ALL);
    bench.cuda.lay_side_by_side();
    bench.daemon.decide(Decision::Releasing);
    begin(&mut bench, 496);
    let (before, a, behind) = (bench.malloc(496), bench.malloc(496), bench.malloc(496));
    assert_eq!((a - before, behind - a), (496, 496));
    bench.daemon.refuse_extensions(true);
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    assert_eq!(bench.cuda.live_bytes(), 496);
    bench.cuda.finish_kernels();
    bench.dead(a);
    assert_eq!(bench.launch(&[behind]), Outcome::Handled(()));
    assert_eq!(bench.cuda.live_bytes(), 496, "the dead one stays so");
    assert!(bench.reported.lock().is_empty());
}

#[test]
fn a_pointer_before_a_buffer_brings_it_also_where_addresses_touch() {
    let mut bench = Bench::with_habits(ALL);
    bench.cuda.lay_side_by_side();
    bench.daemon.decide(Decision::Releasing);
    begin(&mut bench, 992);
    let (before, a) = (bench.malloc(496), bench.malloc(496));
    assert_eq!(a - before, 496);
    bench.daemon.refuse_extensions(true);
    assert_eq!(bench.launch(&[a - 4]), Outcome::Handled(()));
    assert_eq!(bench.cuda.live_bytes(), 992, "it is reserved");
}

#[test]
fn a_near_miss_does_not_wait_for_the_task_of_another_thread() {
    let mut bench = bench(ALL, 1000);
    let others = bench.malloc(1000);
    bench.other_thread();
    bench.add_site(8, "other", &[], 0);
    bench.begin(8, 100);
    let own = bench.malloc(100);
    bench.daemon.requests();
    // If the other task were requested, it would wait, and the script has no grant for it.
    bench.daemon.decide(Decision::Wait);
    assert_eq!(bench.launch(&[own, others - 8]), Outcome::Handled(()));
    assert_eq!(bench.daemon.requests(), []);
}

#[test]
fn managed_variables_count_where_it_is_asked_what_could_ever_fit() {
    let mut bench = Bench::with_habits(ALL);
    bench.cuda.map_by(16);
    bench.shim.program.write().add_managed_variable(600);
    bench.add_site(SITE, "main", &[], TASK_NAMED);
    bench.begin(SITE, 2000);
    let asked = bench.daemon.requests();
    assert!(
        matches!(&asked[..], [RequestBody::TaskBegin { requirement: 2600, flags: BeginFlags::NONE, .. }]),
        "{asked:?}"
    );
}

#[test]
fn what_could_never_fit_fails_where_it_is_allocated() {
    let mut bench = Bench::with_habits(Habits { grant_max: Some(1500), ..ALL });
    bench.cuda.map_by(16);
    bench.add_site(SITE, "main", &[], TASK_NAMED);
    bench.begin(SITE, 1000);
    bench.malloc(1000);
    bench.daemon.refuse_extensions(true);
    assert_eq!(bench.shim.malloc(&mut bench.thread, 1000), Outcome::Fail(CudaError::MEMORY_ALLOCATION));
    assert_eq!(bench.daemon.requests(), [begun(1000), RequestBody::TaskExtend { bytes: 1000 }]);
    // An announced requirement is requested when the task begins.
    bench.end(SITE);
    bench.other_thread();
    bench.daemon.requests();
    bench.begin(SITE, 1501);
    let flags = BeginFlags::NONE;
    let asked = bench.daemon.requests();
    assert!(
        matches!(&asked[..], [.., RequestBody::TaskBegin { requirement: 1501, flags: f, .. }] if *f == flags)
    );
}

#[test]
fn a_program_whose_daemon_dies_goes_on_with_what_it_copied() {
    let mut bench = short_bench(ALL, 2000);
    let a = bench.malloc(1000);
    let _ = bench.upload(a, 1000);
    bench.cuda.log();
    bench.daemon.die();
    assert_eq!(bench.launch(&[a]), Outcome::PassThrough(crate::outcome::Why::NoDaemon));
    assert_eq!(bench.cuda.log(), ["map 1008 on 0", "copy 1000 kind 1"]);
    assert_eq!(bench.shim.free(&mut bench.thread, a), Outcome::Handled(()));
    assert_eq!(bench.cuda.live_bytes(), 0);
}

#[test]
fn a_buffer_that_dies_unused_takes_its_copies_along() {
    let mut bench = short_bench(ALL, 2000);
    let (a, b) = (bench.malloc(1000), bench.malloc(1000));
    let _ = bench.upload(a, 1000);
    bench.dead(a);
    bench.cuda.log();
    serve(&bench.daemon);
    let _ = bench.launch(&[b]);
    assert_eq!(bench.daemon.requests(), [begun(2000), RequestBody::TaskShrink { bytes: 1000 }]);
    assert_eq!(bench.cuda.log()[..2], ["device 0", "map 1008 on 0"]);
    assert_eq!(bench.cuda.live_bytes(), 1008);
}

#[test]
fn a_site_that_does_not_name_its_memory_asks_at_its_begin() {
    let mut bench = Bench::with_habits(ALL);
    bench.cuda.map_by(16);
    bench.add_site(SITE, "main", &[], 0);
    bench.begin(SITE, 2000);
    assert_eq!(bench.daemon.requests().len(), 1);
}

#[test]
fn an_inner_site_is_asked_for_together_with_its_deferred_task() {
    let mut bench = bench(ALL, 2000);
    bench.add_site(8, "helper", &[], TASK_NAMED);
    let a = bench.malloc(1000);
    bench.begin(8, 500);
    let b = bench.malloc(500);
    assert_eq!(bench.daemon.requests(), []);
    let _ = bench.launch(&[a, b]);
    assert_eq!(bench.daemon.requests(), [begun(2500)]);
    bench.end(8);
    assert_eq!(bench.daemon.requests(), [], "it keeps the task's memory while its buffer lives");
    bench.free(b);
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskShrink { bytes: 500 }]);
}

#[test]
fn a_deferred_task_is_asked_for_before_the_lazy_task_that_its_thread_has_used() {
    let mut bench = Bench::with_habits(ALL);
    let early = bench.malloc(60);
    bench.daemon.requests();
    begin(&mut bench, 2000);
    assert_eq!(bench.daemon.requests(), []);
    bench.other_thread();
    assert_eq!(bench.launch(&[early]), Outcome::Handled(()));
    // Otherwise the site's thread would wait for its device while memory that it has used is bound.
    let asked = bench.daemon.requests();
    let is_lazy =
        |request: &RequestBody| matches!(request, RequestBody::TaskBegin { requirement: 60, site: 0, .. });
    assert!(asked.len() == 2 && asked[0] == begun(2000) && is_lazy(&asked[1]), "{asked:?}");
}
