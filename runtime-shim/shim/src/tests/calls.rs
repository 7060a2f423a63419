//! Calls other than `cudaMalloc`, `cudaMemcpy` and `<<<…>>>`: counted, on the right device, in order, and unchanged
//! while a graph is recorded.

use super::fakes::{Decision, first_slot, lazy_slot};
use super::{Bench, HOST, SITE, STUB};
use crate::hooks::libraries::LibraryHandle;
use crate::hooks::unusual::Hint;
use crate::outcome::{Outcome, Why};
use crate::runtime::{
    Copy, CopyKind, CudaError, DeviceIndex, Fill, How, Launch, Order, Pitched, Rows, Setting, StreamFlags,
    StreamId,
};
use eager_proto::reply::{FLAG_GATED, FLAG_MANAGED, gate};
use eager_proto::request::RequestBody;

const AS_IT_IS: Outcome<()> = Outcome::PassThrough(Why::AsItIs);

fn normal(bytes: u64) -> Bench {
    let mut bench = Bench::new();
    bench.begin(SITE, bytes);
    bench.cuda.log();
    bench.daemon.requests();
    bench
}

fn eager(bytes: u64, grant: u64) -> Bench {
    let mut bench = Bench::new();
    bench.daemon.decide(Decision::Eager(grant));
    bench.begin(SITE, bytes);
    bench.cuda.log();
    bench.daemon.requests();
    bench
}

fn rectangle(dst: u64, src: u64, width: u64, rows: Rows, kind: CopyKind) -> Copy {
    Copy { dst, src, bytes: width, rows, kind, order: Order::Blocking }
}

#[test]
fn pitched_memory_counts_rows_of_512_and_is_managed_for_eager_tasks() {
    let mut bench = eager(512 * 10, 512);
    let made = bench.shim.malloc_pitch(&mut bench.thread, 300, 10);
    let Outcome::Handled(Pitched { start, pitch }) = made else { panic!("{made:?}") };
    assert_eq!((pitch, bench.daemon.requests()), (512, vec![]));
    assert_eq!(bench.cuda.log(), ["managed 5120 on 0", "prefer 0 for 5120"]);
    bench.free(start);
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskShrink { bytes: 5120 }]);
    let mut bench = normal(512 * 10);
    let made = bench.shim.malloc_pitch(&mut bench.thread, 300, 10);
    assert!(matches!(made, Outcome::Handled(Pitched { pitch: 512, .. })), "the device's own: {made:?}");
    assert_eq!(bench.cuda.log(), ["pitched 5120 on 0"]);
    let impossible = bench.shim.malloc_pitch(&mut bench.thread, u64::MAX, 2);
    assert_eq!(impossible, Outcome::PassThrough(Why::AsItIs), "the runtime has the error for it");
}

#[test]
fn stream_ordered_memory_is_plain_or_managed_as_the_task_is() {
    let mut bench = normal(100);
    let made = bench.shim.malloc_async(&mut bench.thread, 60, StreamId(5), None);
    let Outcome::Handled(a) = made else { panic!("{made:?}") };
    let from_pool = bench.shim.malloc_async(&mut bench.thread, 40, StreamId(5), Some(9));
    assert!(matches!(from_pool, Outcome::Handled(_)));
    assert_eq!(bench.shim.free_async(&mut bench.thread, a, StreamId(5)), Outcome::Handled(()));
    assert_eq!(
        bench.cuda.log(),
        ["malloc on stream 5 60 on 0", "malloc on stream 5 of pool 9 40 on 0", "free 60 on stream 5"]
    );
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskShrink { bytes: 60 }]);
    let mut bench = eager(100, 10);
    assert!(matches!(bench.shim.malloc_async(&mut bench.thread, 60, StreamId(5), None), Outcome::Handled(_)));
    assert_eq!(bench.cuda.log(), ["managed 60 on 0", "prefer 0 for 60"]);
}

#[test]
fn managed_memory_freed_in_stream_order_outlives_the_kernels_before_it() {
    let mut bench = eager(100, 100);
    let a = bench.malloc(100);
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    bench.cuda.log();
    assert_eq!(bench.shim.free_async(&mut bench.thread, a, StreamId::LEGACY), Outcome::Handled(()));
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskShrink { bytes: 100 }], "uncounted at once");
    assert_eq!(bench.cuda.log(), [""; 0], "the kernel runs on the task's own stream");
    bench.cuda.finish_kernels();
    assert_eq!(bench.shim.on_own_device(&mut bench.thread), AS_IT_IS);
    assert_eq!(bench.cuda.log(), ["free 100 on 0"], "at the next call");
    let early = Bench::new().shim.free_async(&mut bench.thread, 0xdead, StreamId(5));
    assert_eq!(early, Outcome::PassThrough(Why::NotOurs));
}

#[test]
fn an_array_is_plain_counted_and_refused_with_a_line_where_it_does_not_fit() {
    let mut bench = eager(100, 10);
    let made = bench.shim.malloc_array(&mut bench.thread, 60, || Ok(0xa));
    assert_eq!((made, bench.daemon.requirement(first_slot())), (Outcome::Handled(()), Some(100)));
    let full = bench.shim.malloc_array(&mut bench.thread, 70, || Err(CudaError::MEMORY_ALLOCATION));
    assert_eq!(full, Outcome::Fail(CudaError::MEMORY_ALLOCATION));
    assert_eq!(bench.daemon.requirement(first_slot()), Some(100), "asked for 30 more, and given back");
    assert_eq!(
        *bench.reported.lock(),
        ["an array of 70 B does not fit on its device and cannot be managed memory: out of memory"]
    );
    let failed = bench.shim.free_array(&mut bench.thread, 0xa, || Err(CudaError::INVALID_VALUE));
    assert_eq!(failed, Outcome::Fail(CudaError::INVALID_VALUE));
    assert_eq!(bench.shim.free_array(&mut bench.thread, 0xa, || Ok(())), Outcome::Handled(()));
    assert_eq!(bench.daemon.requirement(first_slot()), Some(40));
    let stranger = bench.shim.free_array(&mut bench.thread, 0xa, || Ok(()));
    assert_eq!(stranger, Outcome::PassThrough(Why::NotOurs));
}

#[test]
fn an_array_binds_the_lazy_task_first() {
    let mut bench = Bench::new();
    bench.malloc(10);
    assert_eq!(bench.shim.malloc_array(&mut bench.thread, 60, || Ok(0xa)), Outcome::Handled(()));
    assert_eq!(bench.daemon.requirement(lazy_slot()), Some(70));
}

#[test]
fn rows_are_filled_by_the_cpu_where_their_memory_has_no_device() {
    let mut bench = Bench::new();
    let a = bench.malloc(100);
    let rows = Rows { count: 3, dst_pitch: 40, src_pitch: 8 };
    let up = rectangle(a, HOST, 8, rows, CopyKind::HOST_TO_DEVICE);
    assert_eq!(bench.shim.copy(&mut bench.thread, &up), Outcome::Handled(()));
    let too_far = rectangle(a, HOST, 21, rows, CopyKind::HOST_TO_DEVICE);
    assert_eq!(bench.shim.copy(&mut bench.thread, &too_far), Outcome::PassThrough(Why::NotOurs));
    let fill = Fill { dst: a, value: 7, bytes: 8, rows: 2, pitch: 40 };
    assert_eq!(bench.shim.fill(&mut bench.thread, &fill), Outcome::Handled(()));
    let [row, set] = ["host copy 8", "host fill 8 with 7"];
    assert_eq!(bench.cuda.log(), ["device 0", "managed 100 on 0", row, row, row, set, set]);
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    assert!(bench.cuda.log().contains(&"prefetch 88 to 0 on stream 257".to_owned()), "with the gaps");
}

#[test]
fn slices_are_done_by_one_side_all_of_them() {
    let mut bench = Bench::new();
    let a = bench.malloc(100);
    bench.cuda.log();
    let slice = |dst| {
        rectangle(dst, HOST, 8, Rows { count: 2, dst_pitch: 8, src_pitch: 8 }, CopyKind::HOST_TO_DEVICE)
    };
    let slices = [slice(a), slice(a + 40)];
    assert_eq!(bench.shim.copy_slices(&mut bench.thread, &slices), Outcome::Handled(()));
    assert_eq!(bench.cuda.log(), ["host copy 8"; 4]);
    let strangers = [slice(HOST), slice(HOST + 40)];
    assert_eq!(
        bench.shim.copy_slices(&mut bench.thread, &strangers),
        Outcome::PassThrough(Why::NotOurs),
        "the program's one call does it"
    );
    assert_eq!(bench.cuda.log(), [""; 0]);
}

#[test]
fn a_large_fill_moves_in_behind_the_cpu_piece_by_piece() {
    let bytes = 70 << 20;
    let mut bench = eager(bytes, bytes - 1);
    let a = bench.malloc(bytes);
    bench.cuda.log();
    assert_eq!(bench.upload(a, bytes), Outcome::Handled(()));
    let log = bench.cuda.log();
    let copied: Vec<_> = log.iter().filter(|line| !line.starts_with("stream")).collect();
    let piece = 32 << 20;
    assert_eq!(copied[0], &format!("host copy {piece}"));
    assert_eq!(copied[1], &format!("prefetch {piece} to 0 on stream 257"));
    assert_eq!(copied.len(), 6, "{log:?}");
}

/// The CPU would first make the host's pages of managed memory, at a third of the rate (specification S-202).
#[test]
fn a_copy_that_the_grant_has_room_for_is_the_runtimes() {
    let mut bench = eager(100, 70);
    let (a, b) = (bench.malloc(60), bench.malloc(40));
    bench.cuda.log();
    for _ in 0..2 {
        assert_eq!(bench.upload(a, 60), Outcome::Handled(()));
        assert_eq!(bench.cuda.log(), ["copy 60 kind 1"], "the second replaces what is there");
    }
    assert_eq!(bench.upload(b, 20), Outcome::Handled(()));
    let log = bench.cuda.log();
    assert!(
        log.contains(&"host copy 20".into()) && log.contains(&"prefetch 10 to 0 on stream 257".into()),
        "{log:?}"
    );
}

#[test]
fn a_copy_between_the_programs_devices_is_one_between_addresses() {
    let mut bench = normal(100);
    let a = bench.malloc(100);
    bench.cuda.log();
    let copy = rectangle(a, a + 50, 50, Rows::ONE, CopyKind::DEVICE_TO_DEVICE);
    assert_eq!(bench.shim.copy_peer(&mut bench.thread, &[copy]), Outcome::Handled(()));
    assert_eq!(bench.cuda.log(), ["copy 50 kind 4"], "whatever the device numbers were");
    assert_eq!(bench.shim.peer_access(), Outcome::Handled(()));
}

#[test]
fn every_way_to_launch_goes_to_the_tasks_stream_and_through_the_gate() {
    let mut bench = eager(4000, 100);
    let a = bench.malloc(4000);
    bench.cuda.set_arguments(&[a]);
    let launch = |how, stub| Launch {
        how,
        stub,
        grid: [1; 3],
        block: [1; 3],
        args: 0xa,
        shared_bytes: 0,
        stream: StreamId::LEGACY,
    };
    bench.cuda.log();
    let hows = [How::Cooperative, How::Config(0xc), How::Handle(0xd), How::Graph(0xe)];
    for how in hows {
        let stub = if matches!(how, How::Graph(_)) { 0 } else { STUB };
        assert_eq!(bench.shim.launch(&mut bench.thread, &launch(how, stub)), Outcome::Handled(()));
    }
    let launches: Vec<String> =
        bench.cuda.log().into_iter().filter(|line| line.starts_with("launch")).collect();
    assert_eq!(launches.len(), hows.len());
    for (line, how) in launches.iter().zip(hows) {
        assert_eq!(line, &format!("launch {how:?} on stream 257"));
    }
    bench.daemon.change(first_slot(), |cell| {
        (cell.flags, cell.gate) = (FLAG_MANAGED | FLAG_GATED, gate::pack(false, 1, 0));
    });
    bench.daemon.then(|daemon| daemon.change(first_slot(), |cell| cell.gate = gate::pack(true, 2, u64::MAX)));
    bench.daemon.requests();
    assert_eq!(bench.shim.launch(&mut bench.thread, &launch(How::Graph(0xe), 0)), Outcome::Handled(()));
    let held = RequestBody::KernelHeld {
        footprint: 4000,
        static_size: 4000,
        access: eager_units::AccessClass::Unknown,
        kernel: "unknown".into(),
    };
    assert_eq!(bench.daemon.requests(), [held], "a graph may touch all that its task has");
}

#[test]
fn a_kernel_is_known_by_its_handle() {
    let bench = Bench::new();
    bench.shim.kernel_has_handle(STUB, 0xd);
    assert_eq!((bench.shim.stub_of(0xd), bench.shim.stub_of(STUB)), (STUB, STUB));
}

#[test]
fn what_a_graph_records_is_left_alone() {
    let mut bench = Bench::new();
    let a = bench.malloc(100);
    let stream = StreamId(5);
    let begun = bench.shim.begin_capture(&mut bench.thread, stream, || Ok(()));
    assert_eq!(begun, Outcome::Handled(()));
    assert_eq!(bench.daemon.requirement(lazy_slot()), Some(100), "bound before");
    bench.daemon.change(lazy_slot(), |cell| {
        (cell.flags, cell.gate) = (FLAG_MANAGED | FLAG_GATED, gate::pack(false, 1, 0));
    });
    bench.cuda.log();
    bench.daemon.requests();
    let captured = Outcome::PassThrough(Why::Captured);
    assert_eq!(bench.launch_on(stream, &[a]), captured, "no wait, no count");
    bench.cuda.join_capture(StreamId(6));
    assert_eq!(bench.launch_on(StreamId(6), &[a]), captured, "a stream that joined");
    let copy =
        Copy { order: Order::On(stream), ..rectangle(a, HOST, 10, Rows::ONE, CopyKind::HOST_TO_DEVICE) };
    assert_eq!(bench.shim.copy(&mut bench.thread, &copy), captured);
    assert_eq!(bench.shim.free_async(&mut bench.thread, a, stream), captured, "needed again");
    let node = bench.shim.malloc_async(&mut bench.thread, 30, stream, None);
    assert!(matches!(node, Outcome::Handled(_)));
    assert_eq!(bench.cuda.log(), ["malloc on stream 5 30 on 0"], "not managed: a node of the graph");
    assert_eq!(bench.daemon.requests(), [RequestBody::TaskExtend { bytes: 30 }], "and counted");
    assert_eq!(bench.daemon.counters(), (0, 0));
    assert_eq!(bench.shim.end_capture(stream, || Ok(())), Outcome::Handled(()));
    bench.daemon.then(|daemon| daemon.change(lazy_slot(), |cell| cell.gate = gate::pack(true, 2, u64::MAX)));
    assert_eq!(bench.launch_on(stream, &[a]), Outcome::Handled(()), "held at the gate again");
    assert!(matches!(bench.daemon.requests()[..], [RequestBody::KernelHeld { .. }]));
}

#[test]
fn a_capture_that_did_not_begin_changes_nothing() {
    let mut bench = normal(10);
    let a = bench.malloc(10);
    let stream = StreamId(5);
    let failed = bench.shim.begin_capture(&mut bench.thread, stream, || Err(CudaError::INVALID_VALUE));
    assert_eq!(failed, Outcome::Fail(CudaError::INVALID_VALUE));
    assert_eq!(bench.launch_on(stream, &[a]), Outcome::Handled(()));
}

#[test]
fn memory_of_a_graphs_node_is_counted_until_it_is_freed() {
    let mut bench = normal(10);
    assert_eq!(bench.shim.graph_malloc(&mut bench.thread, 30, || Ok(0xf000)), Outcome::Handled(()));
    assert_eq!(bench.daemon.requirement(first_slot()), Some(30));
    let failed = bench.shim.graph_malloc(&mut bench.thread, 30, || Err(CudaError::INVALID_VALUE));
    assert_eq!(failed, Outcome::Fail(CudaError::INVALID_VALUE));
    assert_eq!((bench.daemon.requirement(first_slot()), bench.daemon.violations().len()), (Some(30), 0));
}

#[test]
fn settings_follow_the_program_to_every_device_of_its_tasks() {
    let mut bench = Bench::new();
    let setting = |value| Setting::Function { stub: STUB, attribute: 8, value };
    assert_eq!(bench.shim.set(&mut bench.thread, setting(1)), AS_IT_IS, "made on the device that was given");
    assert_eq!(bench.shim.set(&mut bench.thread, setting(2)), AS_IT_IS);
    assert_eq!(bench.cuda.log(), ["device 0"]);
    bench.daemon.bind_on(3);
    bench.begin(SITE, 10);
    let apply = |value, device| format!("apply {:?} on {device}", setting(value));
    assert_eq!(bench.cuda.log(), ["device 3".to_owned(), apply(2, 3)], "the last value");
    assert_eq!(bench.shim.set(&mut bench.thread, setting(4)), AS_IT_IS);
    assert_eq!(bench.cuda.log(), [apply(4, 3)]);
}

#[test]
fn the_default_stream_is_idle_when_the_tasks_stream_is_and_waits_with_it() {
    let mut bench = normal(10);
    let a = bench.malloc(10);
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    let legacy = StreamId::LEGACY;
    assert_eq!(bench.shim.stream_query(&mut bench.thread, legacy), Outcome::Fail(CudaError::NOT_READY));
    assert_eq!(bench.shim.stream_query(&mut bench.thread, StreamId(5)), AS_IT_IS);
    bench.cuda.finish_kernels();
    assert_eq!(bench.shim.stream_query(&mut bench.thread, legacy), AS_IT_IS);
    bench.cuda.log();
    assert_eq!(bench.shim.stream_wait_event(&mut bench.thread, legacy, 9, 0), AS_IT_IS);
    assert_eq!(
        bench.cuda.log(),
        ["stream 257 waits for event 9"],
        "and the legacy stream by the call itself"
    );
}

#[test]
fn numbers_of_devices_become_the_tasks() {
    let mut bench = Bench::new();
    bench.daemon.bind_on(3);
    let made = bench.shim.malloc_managed(&mut bench.thread, 100, 1);
    let Outcome::Handled(a) = made else { panic!("{made:?}") };
    assert_eq!(bench.shim.placement_hint(&mut bench.thread, a, 100), Hint::Drop, "no device yet");
    let mut device = 0;
    assert_eq!(bench.shim.translate_device(&mut bench.thread, &mut device), AS_IT_IS);
    assert_eq!(device, 3);
    assert_eq!(bench.shim.placement_hint(&mut bench.thread, a, 100), Hint::On(DeviceIndex(3)));
    assert_eq!(bench.shim.placement_hint(&mut bench.thread, HOST, 100), Hint::AsItIs);
    let mut bench = eager(100, 50);
    let a = bench.malloc(100);
    assert_eq!(bench.shim.placement_hint(&mut bench.thread, a, 100), Hint::Drop, "beyond the grant");
    assert_eq!(bench.shim.placement_hint(&mut bench.thread, a, 50), Hint::On(DeviceIndex(0)));
}

#[test]
fn a_stream_of_the_thread_is_waited_for_by_its_blocking_copies() {
    let mut bench = normal(100);
    let a = bench.malloc(100);
    assert_eq!(bench.launch_on(StreamId::PER_THREAD, &[a]), Outcome::Handled(()));
    let stream = bench.shim.stream_create(&mut bench.thread, StreamFlags::NON_BLOCKING, None);
    let Outcome::Handled(other) = stream else { panic!("{stream:?}") };
    assert_eq!(bench.launch_on(other, &[a]), Outcome::Handled(()));
    let copy = Copy {
        order: Order::BlockingPerThread,
        ..rectangle(HOST, a, 10, Rows::ONE, CopyKind::DEVICE_TO_HOST)
    };
    assert_eq!(bench.shim.copy(&mut bench.thread, &copy), Outcome::Handled(()));
    assert_eq!(bench.daemon.counters(), (2, 1), "the other stream's kernel may still run");
}

const HANDLE: LibraryHandle = LibraryHandle { library: 1, handle: 0xb1a5 };

#[test]
fn what_a_librarys_handle_takes_is_learnt_and_counted_until_it_is_destroyed() {
    let mut bench = Bench::new();
    let a = bench.malloc(10);
    let cuda = std::sync::Arc::clone(&bench.cuda);
    let create = || {
        cuda.set_hidden(500);
        (0, HANDLE)
    };
    assert_eq!(bench.shim.library_create(&mut bench.thread, 3, create), Outcome::Handled(0));
    assert_eq!(bench.daemon.requirement(lazy_slot()), Some(510), "bound first, then extended");
    bench.free(a);
    assert_eq!(bench.daemon.requirement(lazy_slot()), Some(500), "the handle keeps the task");
    assert_eq!(bench.shim.library_destroy(HANDLE, || 7), Outcome::Handled(7), "not destroyed");
    assert_eq!(bench.shim.library_destroy(HANDLE, || 0), Outcome::Handled(0));
    assert_eq!(bench.daemon.requirement(lazy_slot()), Some(0));
    assert_eq!(bench.daemon.violations(), [""; 0]);
}

#[test]
fn a_difference_that_no_library_makes_is_not_believed() {
    let mut bench = normal(10);
    bench.cuda.set_hidden(100);
    for hidden in [50, 100 << 30] {
        let cuda = std::sync::Arc::clone(&bench.cuda);
        let create = || {
            cuda.set_hidden(hidden);
            (0, HANDLE)
        };
        assert_eq!(bench.shim.library_create(&mut bench.thread, 3, create), Outcome::Handled(0));
    }
    assert_eq!(bench.daemon.requests(), [], "another program's memory");
    bench.daemon.refuse_extensions(true);
    let cuda = std::sync::Arc::clone(&bench.cuda);
    let create = || {
        cuda.set_hidden((100 << 30) + 9);
        (0, HANDLE)
    };
    assert_eq!(bench.shim.library_create(&mut bench.thread, 3, create), Outcome::Handled(0));
    assert_eq!(
        *bench.reported.lock(),
        ["9 B that a library took for a handle are not counted: too much is wanted"]
    );
    assert_eq!(bench.daemon.requirement(first_slot()), Some(10));
}

#[test]
fn a_library_of_a_refused_task_is_told_in_its_own_words() {
    let mut bench = Bench::new();
    bench.malloc(10);
    bench.daemon.decide(Decision::Refuse);
    let create = || panic!("nothing is made");
    assert_eq!(bench.shim.library_create(&mut bench.thread, 3, create), Outcome::Handled(3));
}
