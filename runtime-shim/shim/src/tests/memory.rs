//! The Unified Memory rewrite: what the CPU fills, what moves in, and when.

use super::fakes::{Decision, first_slot, lazy_slot};
use super::{Bench, HOST, SITE, STUB};
use crate::outcome::{Outcome, Why};
use crate::program::Kernel;
use crate::runtime::{Copy, CopyKind, Fill, Order, Rows, StreamId};
use eager_abi::{ACCESS_SPARSE, ARG_ACCESS_SHIFT, ARG_POINTER};
use eager_client::task::Geometry;
use eager_proto::reply::{CLASS_PROMOTED, FLAG_HIGH_PRIORITY, FLAG_MANAGED};
use eager_proto::request::RequestBody;

#[test]
fn a_lazy_task_fills_on_the_host_and_moves_in_at_its_first_launch() {
    let mut bench = Bench::new();
    bench.daemon.bind_on(1);
    let (a, b) = (bench.malloc(60), bench.malloc(40));
    assert_eq!(bench.upload(a, 60), Outcome::Handled(()));
    assert_eq!(bench.upload(b, 40), Outcome::Handled(()));
    assert_eq!(
        bench.cuda.log(),
        ["device 1", "managed 60 on 1", "managed 40 on 1", "host copy 60", "host copy 40"]
    );
    assert_eq!(bench.launch(&[b]), Outcome::Handled(()));
    assert_eq!(
        bench.cuda.log(),
        [
            "prefer 1 for 60",
            "prefer 1 for 40",
            "stream 257 Highest",
            "prefetch 40 to 1 on stream 257",
            "prefetch 60 to 1 on stream 257",
            "launch on stream 257",
        ],
        "the first kernel's argument moves in first"
    );
    assert_eq!(bench.download(b, 40), Outcome::Handled(()));
    assert_eq!(bench.cuda.log(), ["copy 40 kind 2"]);
}

#[test]
fn memory_without_a_device_is_read_and_set_by_the_cpu() {
    let mut bench = Bench::new();
    let a = bench.malloc(60);
    let fill = Fill { dst: a, value: 0x1ff, bytes: 60, rows: 1, pitch: 0 };
    assert_eq!(bench.shim.fill(&mut bench.thread, &fill), Outcome::Handled(()));
    assert_eq!(bench.download(a, 60), Outcome::Handled(()));
    assert_eq!(bench.cuda.log(), ["device 0", "managed 60 on 0", "host fill 60 with 255", "host copy 60"]);
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    assert_eq!(bench.shim.fill(&mut bench.thread, &fill), Outcome::PassThrough(Why::AsItIs));
}

#[test]
fn an_eager_task_moves_in_within_its_grant_and_the_rest_when_promoted() {
    let mut bench = Bench::new();
    bench.daemon.decide(Decision::Eager(50));
    bench.shim.task_begin(&mut bench.thread, SITE, 100, Geometry::UNKNOWN);
    let (a, b) = (bench.malloc(60), bench.malloc(40));
    assert_eq!(bench.upload(a, 60), Outcome::Handled(()));
    assert_eq!(bench.upload(b, 40), Outcome::Handled(()));
    assert_eq!(bench.launch(&[a, b]), Outcome::Handled(()));
    assert_eq!(
        bench.cuda.log(),
        [
            "device 0",
            "managed 60 on 0",
            "prefer 0 for 60",
            "managed 40 on 0",
            "prefer 0 for 40",
            "host copy 60",
            "stream 257 Lowest",
            "prefetch 50 to 0 on stream 257",
            "host copy 40",
            "launch on stream 257",
        ]
    );
    bench.daemon.requests();
    bench.daemon.change(super::fakes::first_slot(), |cell| {
        (cell.grant, cell.class, cell.flags) = (100, CLASS_PROMOTED, FLAG_MANAGED | FLAG_HIGH_PRIORITY);
    });
    assert_eq!(bench.launch(&[a, b]), Outcome::Handled(()));
    assert_eq!(
        bench.cuda.log(),
        [
            "stream 258 Lowest",
            "prefetch 10 to 0 on stream 258",
            "prefetch 40 to 0 on stream 258",
            "stream 259 Highest",
            "order 257 before 259",
            "launch on stream 259",
        ],
        "on a stream beside the running kernel; later kernels come after it, with high priority"
    );
    assert_eq!(bench.daemon.requests(), [RequestBody::Promoted]);
    assert_eq!(bench.launch(&[a, b]), Outcome::Handled(()));
    assert_eq!(bench.cuda.log(), ["launch on stream 259"]);
    assert_eq!(bench.daemon.requests(), []);
}

fn prefetches(bench: &Bench) -> Vec<String> {
    bench.cuda.log().into_iter().filter(|line| line.starts_with("prefetch")).collect()
}

/// A kernel makes the pages of memory that was never written by faults, at a tenth of a prefetch's rate (S-225).
#[test]
fn a_lazy_task_has_the_pages_of_its_results_before_its_first_kernel() {
    let mut bench = Bench::new();
    let (a, b) = (bench.malloc(60), bench.malloc(40));
    assert_eq!(bench.upload(a, 60), Outcome::Handled(()));
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    assert_eq!(
        prefetches(&bench),
        ["prefetch 60 to 0 on stream 257", "prefetch 40 to 0 on stream 257"],
        "the data first; it has room for all"
    );
    assert_eq!(bench.launch(&[a, b]), Outcome::Handled(()));
    assert_eq!(prefetches(&bench), [""; 0]);
}

#[test]
fn an_eager_task_has_the_pages_of_what_a_kernel_uses_within_its_grant() {
    let mut bench = Bench::new();
    bench.daemon.decide(Decision::Eager(70));
    bench.shim.task_begin(&mut bench.thread, SITE, 120, Geometry::UNKNOWN);
    let (a, b, c) = (bench.malloc(30), bench.malloc(50), bench.malloc(40));
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    assert_eq!(prefetches(&bench), ["prefetch 30 to 0 on stream 257"], "not what this kernel does not use");
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    assert_eq!(prefetches(&bench), [""; 0]);
    assert_eq!(bench.launch(&[b]), Outcome::Handled(()));
    assert_eq!(prefetches(&bench), ["prefetch 40 to 0 on stream 257"], "what the grant has room for");
    assert_eq!(bench.launch(&[c]), Outcome::Handled(()));
    assert_eq!(prefetches(&bench), [""; 0], "the grant is used up");
    bench.daemon.change(first_slot(), |cell| {
        (cell.grant, cell.class, cell.flags) = (120, CLASS_PROMOTED, FLAG_MANAGED | FLAG_HIGH_PRIORITY);
    });
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    let rest = ["prefetch 10 to 0 on stream 258", "prefetch 40 to 0 on stream 258"];
    assert_eq!(prefetches(&bench), rest, "with its full grant it has room for all");
}

#[test]
fn buffers_that_a_kernel_touches_sparsely_get_their_pages_by_faults() {
    let mut bench = Bench::new();
    let sparse = ARG_POINTER | ACCESS_SPARSE << ARG_ACCESS_SHIFT;
    let kernel = Kernel { name: "k".into(), argument_sizes: vec![8], argument_flags: vec![sparse] };
    bench.shim.program.write().add_kernel(STUB, kernel);
    bench.daemon.decide(Decision::Eager(100));
    bench.shim.task_begin(&mut bench.thread, SITE, 120, Geometry::UNKNOWN);
    let a = bench.malloc(120);
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    assert_eq!(prefetches(&bench), [""; 0]);
}

#[test]
fn a_host_write_waits_for_kernels_that_may_still_read() {
    let mut bench = Bench::new();
    bench.daemon.decide(Decision::Eager(50));
    bench.shim.task_begin(&mut bench.thread, SITE, 100, Geometry::UNKNOWN);
    let a = bench.malloc(100);
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    bench.cuda.log();
    assert_eq!(bench.upload(a + 60, 10), Outcome::Handled(()));
    assert_eq!(bench.cuda.log(), ["device sync", "host copy 10"]);
    assert_eq!(bench.upload(a + 60, 10), Outcome::Handled(()));
    assert_eq!(bench.cuda.log(), ["host copy 10"], "nothing runs any more");
}

#[test]
fn a_grant_is_kept_where_the_device_has_no_room() {
    let mut bench = Bench::new();
    bench.shim.task_begin(&mut bench.thread, SITE, 100, Geometry::UNKNOWN);
    bench.cuda.fill_up();
    bench.cuda.log();
    let a = bench.malloc(60);
    bench.malloc(40);
    assert_eq!(
        bench.cuda.log(),
        ["managed 60 on 0", "prefer 0 for 60", "managed 40 on 0", "prefer 0 for 40"],
        "in managed memory"
    );
    assert_eq!(
        *bench.reported.lock(),
        ["device 0 has no room for 60 B that the daemon granted: using managed memory"],
        "reported once"
    );
    assert_eq!(bench.upload(a, 60), Outcome::Handled(()));
    assert!(
        bench.cuda.log().contains(&"host copy 60".into()),
        "filled and moved in like other managed memory"
    );
}

#[test]
fn managed_memory_is_freed_after_the_kernels_of_its_tasks_device() {
    let mut bench = Bench::new();
    bench.daemon.bind_on(1);
    let (a, b) = (bench.malloc(60), bench.malloc(40));
    assert_eq!(bench.launch(&[a, b]), Outcome::Handled(()));
    bench.cuda.log();
    assert_eq!(bench.shim.free(&mut bench.thread, a), Outcome::Handled(()));
    assert_eq!(
        bench.cuda.log(),
        ["device sync", "free 60 on 1"],
        "it was allocated while device 0 was current"
    );
    assert_eq!(bench.daemon.counters(), (1, 1));
    assert_eq!(bench.shim.free(&mut bench.thread, b), Outcome::Handled(()));
    assert_eq!(bench.cuda.log(), ["free 40 on 1", "destroy stream 257"], "nothing runs any more");
}

#[test]
fn copies_of_plain_memory_go_as_they_are() {
    let mut bench = Bench::new();
    bench.shim.task_begin(&mut bench.thread, SITE, 100, Geometry::UNKNOWN);
    let a = bench.malloc(100);
    bench.cuda.log();
    assert_eq!(bench.upload(a, 100), Outcome::Handled(()));
    assert_eq!(bench.cuda.log(), ["copy 100 kind 1"]);
    let kinds = [CopyKind::DEVICE_TO_DEVICE, CopyKind::DEFAULT];
    for kind in kinds {
        let copy = Copy { dst: a, src: a + 50, bytes: 50, rows: Rows::ONE, kind, order: Order::Blocking };
        assert_eq!(bench.shim.copy(&mut bench.thread, &copy), Outcome::PassThrough(Why::AsItIs));
    }
    let strange = Copy {
        dst: HOST,
        src: HOST + 8,
        bytes: 8,
        rows: Rows::ONE,
        kind: CopyKind::HOST_TO_HOST,
        order: Order::Blocking,
    };
    assert_eq!(bench.shim.copy(&mut bench.thread, &strange), Outcome::PassThrough(Why::NotOurs));
}

#[test]
fn the_cpu_never_touches_what_it_does_not_know() {
    let mut bench = Bench::new();
    let a = bench.malloc(100);
    bench.cuda.log();
    let copy = |dst, src, bytes, kind| Copy {
        dst,
        src,
        bytes,
        rows: Rows::ONE,
        kind,
        order: Order::On(StreamId(5)),
    };
    let to_device = CopyKind::HOST_TO_DEVICE;
    let refused = [
        copy(a, HOST, 101, to_device),
        copy(a, 0, 10, to_device),
        copy(a, a + 50, 10, to_device),
        copy(a, HOST, 10, CopyKind::DEFAULT),
        copy(a, HOST, 10, CopyKind(77)),
    ];
    for copy in refused {
        assert_eq!(bench.shim.copy(&mut bench.thread, &copy), Outcome::PassThrough(Why::NotOurs), "{copy:?}");
    }
    assert_eq!(bench.cuda.log(), [""; 0]);
}

#[test]
fn managed_memory_of_the_program_is_counted_and_otherwise_left_alone() {
    let mut bench = Bench::new();
    let made = bench.shim.malloc_managed(&mut bench.thread, 30, 1);
    let Outcome::Handled(a) = made else { panic!("{made:?}") };
    let copy = Copy {
        dst: a,
        src: HOST,
        bytes: 30,
        rows: Rows::ONE,
        kind: CopyKind::HOST_TO_DEVICE,
        order: Order::Blocking,
    };
    assert_eq!(bench.shim.copy(&mut bench.thread, &copy), Outcome::PassThrough(Why::NotOurs));
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    assert_eq!(bench.daemon.requirement(lazy_slot()), Some(30));
    assert!(!bench.cuda.log().iter().any(|line| line.starts_with("prefer")), "its hints are the program's");
}

#[test]
fn frees_of_nothing_and_of_strangers_are_harmless() {
    let mut bench = Bench::new();
    assert_eq!(bench.shim.free(&mut bench.thread, 0), Outcome::Handled(()));
    assert_eq!(bench.shim.free(&mut bench.thread, 0xdead), Outcome::PassThrough(Why::NotOurs));
    let a = bench.malloc(10);
    assert_eq!(bench.shim.free(&mut bench.thread, a + 1), Outcome::PassThrough(Why::NotOurs));
    assert_eq!(bench.shim.malloc(&mut bench.thread, 0), Outcome::PassThrough(Why::AsItIs));
}

#[test]
fn an_allocation_that_makes_its_task_over_subscribed_is_managed() {
    for decision in [Decision::Normal, Decision::Releasing] {
        let mut bench = Bench::new();
        bench.cuda.map_by(16);
        bench.daemon.decide(decision);
        bench.begin(SITE, 1000);
        bench.malloc(1000);
        bench.daemon.oversubscribe_extensions();
        bench.cuda.log();
        bench.malloc(500);
        assert_eq!(bench.cuda.log(), ["managed 500 on 0", "prefer 0 for 500"], "it is beyond the grant");
        assert_eq!(bench.daemon.requirement(first_slot()), Some(1500));
    }
}
