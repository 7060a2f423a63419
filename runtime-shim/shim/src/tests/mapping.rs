//! Memory that is mapped to the shim's addresses, under a daemon that wants it back before it is freed.

use super::fakes::Decision;
use super::{Bench, SITE};
use crate::outcome::{Outcome, Why};
use crate::runtime::StreamId;
use eager_proto::request::RequestBody;

/// A bench whose task is bound by a daemon that wants memory back, on devices that map it in pieces of 16 bytes.
fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.cuda.map_by(16);
    bench.daemon.decide(Decision::Releasing);
    bench.begin(SITE, 10_000);
    bench.cuda.log();
    bench
}

#[test]
fn a_static_tasks_memory_is_mapped_where_little_is_wasted() {
    let mut bench = bench();
    let (large, small) = (bench.malloc(1000), bench.malloc(100));
    assert_eq!(bench.cuda.log(), ["reserve 1008", "map 1008 on 0", "malloc 100 on 0"]);
    bench.free(small);
    bench.free(large);
    assert_eq!(bench.cuda.log(), ["free 100 on 0", "unmap 1008", "unreserve 1008"]);
    assert_eq!(bench.cuda.live_bytes(), 0);
}

#[test]
fn nothing_is_mapped_unless_the_daemon_wants_memory_back_and_the_device_can() {
    let mut bench = Bench::new();
    bench.cuda.map_by(16);
    bench.begin(SITE, 2000);
    let plain = bench.malloc(1000);
    bench.free(plain);
    bench.end(SITE);
    assert_eq!(bench.cuda.log(), ["device 0", "malloc 1000 on 0", "free 1000 on 0"]);
    let mut bench = Bench::new();
    bench.daemon.decide(Decision::Releasing);
    bench.begin(SITE, 2000);
    bench.malloc(1000);
    assert_eq!(bench.cuda.log(), ["device 0", "malloc 1000 on 0"]);
}

#[test]
fn a_device_without_room_gives_managed_memory_and_its_addresses_go_back() {
    let mut bench = bench();
    bench.cuda.fill_up();
    bench.malloc(1000);
    assert_eq!(
        bench.cuda.log(),
        ["reserve 1008", "unreserve 1008", "managed 1000 on 0", "prefer 0 for 1000"],
        "as for an allocation that is not mapped"
    );
}

#[test]
fn a_free_waits_for_kernels_and_one_in_a_streams_order_for_the_stream() {
    let mut bench = bench();
    let (a, b) = (bench.malloc(1000), bench.malloc(1000));
    let stream = StreamId(0x77);
    assert_eq!(bench.launch_on(stream, &[a, b]), Outcome::Handled(()));
    bench.cuda.log();
    bench.free(a);
    assert_eq!(bench.cuda.log(), ["device sync", "unmap 1008", "unreserve 1008"]);
    assert_eq!(bench.launch_on(stream, &[b]), Outcome::Handled(()));
    bench.cuda.log();
    assert_eq!(bench.shim.free_async(&mut bench.thread, b, stream), Outcome::Handled(()));
    assert_eq!(bench.cuda.log(), Vec::<String>::new(), "the kernel still runs");
    bench.cuda.finish_kernels();
    bench.end(SITE);
    assert_eq!(bench.cuda.log(), ["unmap 1008", "unreserve 1008"]);
}

#[test]
fn a_dead_buffers_memory_goes_back_at_once_and_its_addresses_at_the_free() {
    let mut bench = bench();
    let (a, b) = (bench.malloc(1000), bench.malloc(1000));
    bench.daemon.requests();
    bench.cuda.log();
    bench.dead(a);
    assert_eq!(bench.cuda.log(), ["unmap 1008"]);
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskShrink { bytes: 1000 }]);
    bench.free(a);
    bench.dead(b);
    bench.free(b);
    assert_eq!(bench.cuda.log(), ["unreserve 1008", "unmap 1008", "unreserve 1008"]);
    assert_eq!(
        bench.daemon.requests(),
        [RequestBody::TaskShrink { bytes: 1000 }],
        "a free tells nothing twice"
    );
    bench.end(SITE);
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskEnd]);
}

#[test]
fn a_dead_buffers_memory_stays_while_a_kernel_runs() {
    let mut bench = bench();
    let (a, b) = (bench.malloc(1000), bench.malloc(100));
    let _ = bench.launch(&[a]);
    bench.cuda.log();
    bench.dead(a);
    assert_eq!(bench.cuda.log(), Vec::<String>::new());
    bench.cuda.finish_kernels();
    let _ = bench.upload(b, 100);
    assert_eq!(bench.cuda.log(), ["unmap 1008", "copy 100 kind 1"]);
}

#[test]
fn a_use_after_all_gets_memory_again_and_is_told_loudly() {
    let mut bench = bench();
    let a = bench.malloc(1000);
    bench.dead(a);
    bench.cuda.log();
    bench.daemon.requests();
    let _ = bench.launch(&[a + 8]);
    assert!(bench.cuda.log().starts_with(&["map 1008 on 0".to_owned()]));
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskExtend { bytes: 1000 }]);
    assert!(bench.reported.lock().iter().any(|line| line.contains("RESULTS OF THIS PROGRAM ARE WRONG")));
    bench.cuda.finish_kernels();
    bench.free(a);
    assert_eq!(bench.cuda.live_bytes(), 0);
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskShrink { bytes: 1000 }]);
}

#[test]
fn what_was_mapped_is_freed_without_the_daemon_too() {
    let mut bench = bench();
    let (a, b) = (bench.malloc(1000), bench.malloc(100));
    bench.daemon.die();
    assert_eq!(bench.launch(&[a]), Outcome::PassThrough(Why::NoDaemon));
    bench.cuda.log();
    assert_eq!(bench.shim.free(&mut bench.thread, a), Outcome::Handled(()));
    assert_eq!(bench.cuda.log(), ["device sync", "unmap 1008", "unreserve 1008"]);
    assert_eq!(bench.shim.free(&mut bench.thread, b), Outcome::PassThrough(Why::NoDaemon));
}

#[test]
fn a_reset_of_the_device_gives_back_what_was_mapped() {
    let mut bench = bench();
    bench.malloc(1000);
    bench.cuda.log();
    assert_eq!(bench.shim.device_reset(&mut bench.thread), Outcome::Handled(()));
    assert_eq!(bench.cuda.log(), ["device sync", "unmap 1008", "unreserve 1008", "device reset"]);
    assert_eq!(bench.cuda.live_bytes(), 0);
}
