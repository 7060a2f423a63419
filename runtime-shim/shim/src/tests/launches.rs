//! Streams, gate, counters: on which stream and when a kernel starts, and what the daemon is told.

use super::fakes::{Decision, first_slot};
use super::{Bench, SITE, STUB};
use crate::outcome::{Outcome, Why};
use crate::profile::Profile;
use crate::program::Kernel;
use crate::runtime::{CudaError, StreamFlags, StreamId};
use eager_abi::{ACCESS_CYCLIC, ACCESS_ONE_PASS, ACCESS_UNUSED, ARG_ACCESS_SHIFT, ARG_POINTER};
use eager_client::loss::OnLoss;
use eager_client::task::Geometry;
use eager_proto::reply::{
    CLASS_PROMOTED, FLAG_GATED, FLAG_HIGH_PRIORITY, FLAG_MANAGED, FLAG_WATCH, TaskCell, gate,
};
use eager_proto::request::RequestBody;
use eager_units::AccessClass;

fn eager_and_gated(bench: &mut Bench, allowed: u64) -> u64 {
    bench.daemon.decide(Decision::Eager(100));
    bench.shim.task_begin(&mut bench.thread, SITE, 4000, Geometry::UNKNOWN);
    let a = bench.malloc(4000);
    bench.daemon.change(first_slot(), |cell| {
        cell.flags = FLAG_MANAGED | FLAG_GATED;
        cell.gate = gate::pack(true, 1, allowed);
    });
    bench.daemon.requests();
    bench.cuda.log();
    a
}

#[test]
fn a_gate_holds_what_is_too_large_and_says_so_once() {
    let mut bench = Bench::new();
    let a = eager_and_gated(&mut bench, 2048);
    bench.daemon.then(|daemon| daemon.change(first_slot(), |cell| cell.gate = gate::pack(true, 2, 3072)));
    bench.daemon.then(|daemon| daemon.change(first_slot(), |cell| cell.gate = gate::pack(true, 3, 4096)));
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    let held = RequestBody::KernelHeld {
        footprint: 4000,
        static_size: 4000,
        access: AccessClass::Unknown,
        kernel: "_Z1kPfS_i".into(),
    };
    assert_eq!(bench.daemon.requests(), [held]);
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()), "an open gate costs no request");
    assert_eq!(bench.daemon.requests(), []);
}

#[test]
fn a_kernel_that_a_promotion_frees_from_the_gate_runs_under_the_new_terms() {
    let mut bench = Bench::new();
    let a = eager_and_gated(&mut bench, 0);
    let promote = |cell: &mut TaskCell| {
        (cell.class, cell.grant, cell.flags) = (CLASS_PROMOTED, 4000, FLAG_MANAGED | FLAG_HIGH_PRIORITY);
    };
    bench.daemon.then(move |daemon| daemon.change(first_slot(), promote));
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    let requests = bench.daemon.requests();
    assert!(matches!(requests[..], [RequestBody::KernelHeld { .. }, RequestBody::Promoted]), "{requests:?}");
    let log = bench.cuda.log();
    assert!(log.iter().any(|line| line.ends_with("Highest")), "the kernel's stream: {log:?}");
}

#[test]
fn a_measured_footprint_passes_where_the_static_size_does_not() {
    let profile = r#"{"version":1,"kernels":{"_Z1kPfS_i":
        {"static_bytes":8000,"footprint_bytes":2000,"launches":1,"access":"sparse"}}}"#;
    let mut bench = Bench::with(true, OnLoss::Open, Profile::parse(profile).expect("valid"));
    let a = eager_and_gated(&mut bench, 2048);
    assert_eq!(bench.launch(&[a, a + 4]), Outcome::Handled(()));
    assert_eq!(bench.daemon.requests(), []);
}

#[test]
fn a_kernel_that_was_not_measured_counts_by_what_its_code_shows() {
    let mut bench = Bench::new();
    let a = eager_and_gated(&mut bench, 2048);
    let unused = bench.malloc(100);
    let class = |class: u32| ARG_POINTER | class << ARG_ACCESS_SHIFT;
    let argument_flags = vec![class(ACCESS_ONE_PASS), class(ACCESS_UNUSED), 0];
    let kernel = Kernel { name: "_Z1kPfS_i".into(), argument_sizes: vec![8, 8, 4], argument_flags };
    bench.shim.program.write().add_kernel(STUB, kernel);
    bench.daemon.requests();
    bench.daemon.then(|daemon| daemon.change(first_slot(), |cell| cell.gate = gate::pack(true, 2, 4096)));
    assert_eq!(bench.launch(&[a, unused]), Outcome::Handled(()));
    let access = AccessClass::OnePass;
    let held =
        RequestBody::KernelHeld { footprint: 4000, static_size: 4000, access, kernel: "_Z1kPfS_i".into() };
    assert_eq!(bench.daemon.requests(), [held]);
}

#[test]
fn a_gate_opened_for_a_streaming_kernel_is_asked_again_for_a_cyclic_one() {
    let mut bench = Bench::new();
    let a = eager_and_gated(&mut bench, 2048);
    let show = |bench: &mut Bench, class: u32| {
        let argument_flags = vec![ARG_POINTER | class << ARG_ACCESS_SHIFT; 3];
        let kernel = Kernel { name: "_Z1kPfS_i".into(), argument_sizes: vec![8, 8, 4], argument_flags };
        bench.shim.program.write().add_kernel(STUB, kernel);
    };
    let classes = |bench: &Bench| -> Vec<AccessClass> {
        let held = |body| match body {
            RequestBody::KernelHeld { access, .. } => Some(access),
            _ => None,
        };
        bench.daemon.requests().into_iter().filter_map(held).collect()
    };
    let wider = gate::pack(true, 2, 4096);
    show(&mut bench, ACCESS_ONE_PASS);
    bench.daemon.then(move |daemon| daemon.change(first_slot(), |cell| cell.gate = wider));
    assert_eq!(bench.launch(&[a, a]), Outcome::Handled(()));
    assert_eq!(bench.launch(&[a, a]), Outcome::Handled(()));
    assert_eq!(classes(&bench), [AccessClass::OnePass], "the second one was let through");
    show(&mut bench, ACCESS_CYCLIC);
    assert_eq!(bench.launch(&[a, a]), Outcome::Handled(()));
    assert_eq!(bench.launch(&[a, a]), Outcome::Handled(()));
    assert_eq!(classes(&bench), [AccessClass::Cyclic], "once, until another class asks");
}

#[test]
fn an_ungated_task_never_looks_at_the_gate() {
    let mut bench = Bench::new();
    let a = eager_and_gated(&mut bench, 0);
    bench.daemon.change(first_slot(), |cell| {
        cell.flags = FLAG_HIGH_PRIORITY;
        cell.gate = gate::pack(false, 2, 0);
    });
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
}

#[test]
fn a_launch_after_which_nothing_changed_reads_no_cell_and_the_next_change_is_seen() {
    let mut bench = Bench::new();
    bench.shim.task_begin(&mut bench.thread, SITE, 10, Geometry::UNKNOWN);
    let a = bench.malloc(10);
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    bench.daemon.cell_reads();
    bench.daemon.requests();
    bench.cuda.log();
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    assert_eq!(bench.launch_on(StreamId(2), &[a]), Outcome::Handled(()), "cudaStreamPerThread");
    assert_eq!(bench.cuda.log(), ["launch on stream 257", "launch on stream 2"]);
    assert_eq!((bench.daemon.cell_reads(), bench.daemon.counters()), (0, (3, 0)));
    bench.daemon.change(first_slot(), |cell| {
        (cell.flags, cell.gate) = (FLAG_GATED, gate::pack(false, 1, 0));
    });
    bench.daemon.then(|daemon| daemon.change(first_slot(), |cell| cell.gate = gate::pack(true, 2, u64::MAX)));
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    assert!(matches!(bench.daemon.requests()[..], [RequestBody::KernelHeld { .. }]), "held at the gate");
}

#[test]
fn a_launch_takes_memory_over_and_finds_its_task_however_settled_the_others_are() {
    let mut bench = Bench::new();
    bench.shim.task_begin(&mut bench.thread, SITE, 10, Geometry::UNKNOWN);
    let a = bench.malloc(10);
    bench.other_thread();
    bench.shim.task_begin(&mut bench.thread, SITE + 1, 10, Geometry::UNKNOWN);
    let b = bench.malloc(10);
    assert_eq!(bench.launch(&[b]), Outcome::Handled(()));
    bench.cuda.log();
    bench.other_thread();
    for argument in [a, b, a] {
        assert_eq!(
            bench.launch(&[argument]),
            Outcome::Handled(()),
            "from a thread without a task of its own"
        );
    }
    let launches: Vec<String> =
        bench.cuda.log().into_iter().filter(|line| line.starts_with("launch")).collect();
    assert_eq!(launches, ["launch on stream 258", "launch on stream 257", "launch on stream 258"]);
}

#[test]
fn default_stream_kernels_stay_on_the_legacy_stream_beside_blocking_streams_of_the_program() {
    let mut bench = Bench::new();
    bench.shim.task_begin(&mut bench.thread, SITE, 10, Geometry::UNKNOWN);
    let a = bench.malloc(10);
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    bench.cuda.log();
    let own = bench.shim.stream_create(&mut bench.thread, StreamFlags::BLOCKING, None);
    assert_eq!(own, Outcome::Handled(StreamId(258)));
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    assert_eq!(bench.launch_on(StreamId(258), &[a]), Outcome::Handled(()));
    assert_eq!(
        bench.cuda.log(),
        ["sync stream 257", "stream 258 Highest", "launch on stream 0", "launch on stream 258"]
    );
    assert_eq!(
        bench.shim.stream_destroy(&mut bench.thread, StreamId(258)),
        Outcome::PassThrough(Why::AsItIs)
    );
    assert_eq!(
        bench.shim.stream_destroy(&mut bench.thread, StreamId(99)),
        Outcome::PassThrough(Why::NotOurs)
    );
}

#[test]
fn default_stream_kernels_of_two_tasks_keep_the_programs_order() {
    let mut bench = Bench::new();
    bench.shim.task_begin(&mut bench.thread, SITE, 10, Geometry::UNKNOWN);
    let a = bench.malloc(10);
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    bench.other_thread();
    bench.shim.task_begin(&mut bench.thread, SITE + 1, 10, Geometry::UNKNOWN);
    let b = bench.malloc(10);
    bench.cuda.log();
    assert_eq!(bench.launch(&[b]), Outcome::Handled(()));
    assert_eq!(bench.cuda.log(), ["stream 258 Highest", "order 257 before 258", "launch on stream 258"]);
}

#[test]
fn a_stream_of_another_device_keeps_its_order_by_waiting() {
    let mut bench = Bench::new();
    let stream = bench.shim.stream_create(&mut bench.thread, StreamFlags::NON_BLOCKING, None);
    assert_eq!(stream, Outcome::Handled(StreamId(257)));
    bench.other_thread();
    bench.daemon.bind_on(3);
    bench.shim.task_begin(&mut bench.thread, SITE, 10, Geometry::UNKNOWN);
    let a = bench.malloc(10);
    bench.cuda.log();
    assert_eq!(bench.launch_on(StreamId(257), &[a]), Outcome::Handled(()));
    assert_eq!(
        bench.cuda.log(),
        ["stream 258 Highest", "sync stream 257", "launch on stream 258", "sync stream 258"]
    );
}

#[test]
fn synchronising_the_default_stream_waits_for_the_tasks_stream_too() {
    let mut bench = Bench::new();
    assert_eq!(
        bench.shim.stream_synchronize(&mut bench.thread, StreamId::LEGACY),
        Outcome::Handled(()),
        "there is nothing to wait for, and no context is made for that"
    );
    bench.shim.task_begin(&mut bench.thread, SITE, 10, Geometry::UNKNOWN);
    let a = bench.malloc(10);
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    bench.cuda.log();
    assert_eq!(bench.daemon.counters(), (1, 0));
    assert_eq!(bench.shim.stream_synchronize(&mut bench.thread, StreamId::LEGACY), Outcome::Handled(()));
    assert_eq!(bench.cuda.log(), ["sync stream 257", "sync stream 0"]);
    assert_eq!(bench.daemon.counters(), (1, 1));
}

#[test]
fn a_task_whose_slice_is_over_tells_soon_that_its_kernels_have_ended() {
    let mut bench = Bench::new();
    bench.shim.task_begin(&mut bench.thread, SITE, 10, Geometry::UNKNOWN);
    let a = bench.malloc(10);
    bench.daemon.change(first_slot(), |cell| {
        cell.flags |= FLAG_WATCH | FLAG_GATED;
        cell.gate = gate::pack(true, 1, u64::MAX);
    });
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    bench.daemon.change(first_slot(), |cell| cell.gate = gate::pack(false, 2, 0));
    bench.daemon.requests();
    bench.daemon.sleeps();
    let cuda = bench.cuda.clone();
    bench.daemon.then(|_| ());
    bench.daemon.then(move |_| cuda.finish_kernels());
    bench.daemon.then(|daemon| daemon.change(first_slot(), |cell| cell.gate = gate::pack(true, 3, u64::MAX)));
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    let told = bench.daemon.requests();
    assert!(
        matches!(told[..], [RequestBody::KernelHeld { .. }, RequestBody::Idle, RequestBody::Busy]),
        "{told:?}"
    );
    let sleeps = bench.daemon.sleeps();
    let [short, .., long] = sleeps[..] else { panic!("{sleeps:?}") };
    assert!(short * 100 < long, "it looks often only while its kernels run: {sleeps:?}");
}

#[test]
fn a_watched_task_tells_when_it_becomes_busy_and_idle() {
    let mut bench = Bench::new();
    bench.shim.task_begin(&mut bench.thread, SITE, 10, Geometry::UNKNOWN);
    let a = bench.malloc(10);
    bench.daemon.requests();
    bench.daemon.change(first_slot(), |cell| cell.flags |= FLAG_WATCH);
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    assert_eq!(bench.daemon.requests(), [RequestBody::Busy]);
    bench.cuda.finish_kernels();
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    assert_eq!(bench.daemon.requests(), [], "no gap for neighbours between two kernels");
    bench.cuda.finish_kernels();
    assert_eq!(bench.shim.event_synchronize(&mut bench.thread, 1), Outcome::Handled(()));
    assert_eq!(bench.daemon.requests(), [RequestBody::Idle], "seen at the next hook");
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    assert_eq!(bench.download(a, 10), Outcome::Handled(()));
    assert_eq!(bench.daemon.requests(), [RequestBody::Busy, RequestBody::Idle], "a blocking copy waits");
    bench.daemon.change(first_slot(), |cell| cell.flags &= !FLAG_WATCH);
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()));
    assert_eq!(bench.shim.device_synchronize(&mut bench.thread), Outcome::Handled(()));
    assert_eq!(bench.daemon.requests(), [], "nobody watches");
}

#[test]
fn a_refused_lazy_task_fails_its_launch_with_out_of_memory() {
    let mut bench = Bench::new();
    let a = bench.malloc(10);
    bench.daemon.decide(Decision::Refuse);
    let refused = Outcome::Fail(CudaError::MEMORY_ALLOCATION);
    assert_eq!(bench.launch(&[a]), refused);
    assert_eq!(bench.launch(&[a]), refused, "without asking again");
    assert_eq!(bench.reported.lock().len(), 1);
    assert_eq!(bench.shim.free(&mut bench.thread, a), Outcome::Handled(()));
    let a = bench.malloc(5);
    assert_eq!(bench.launch(&[a]), Outcome::Handled(()), "a new task is a new question");
}

#[test]
fn a_kernel_without_memory_has_a_task_too() {
    let mut bench = Bench::new();
    assert_eq!(bench.launch(&[]), Outcome::Handled(()));
    assert!(matches!(bench.daemon.requests()[..], [RequestBody::TaskBegin { requirement: 0, .. }]));
}
