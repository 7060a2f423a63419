//! The service with time as a parameter: when each request is answered, and when resources are returned.

use eager_gpu_model::{
    Access, AllocId, AllocKind, Kernel, Location, Nanos, Op, Options, Pattern, Range, parse_cards,
};
use eager_vgpu_link::{
    ClientFrame, DeviceActivity, PROTOCOL_VERSION, Refusal, Reply, Request, RequestId, RunReport,
};
use eager_vgpud::{Answer, Clock, ProcessId, RealNanos, Scale, Service};

const DEVICE: u32 = 0;

struct Bench {
    service: Service,
    next_id: u64,
}

impl Bench {
    fn new(scale: Scale) -> Bench {
        Bench::with(Options { context_create: Nanos(0), ..Options::default() }, scale)
    }

    fn with(options: Options, scale: Scale) -> Bench {
        Bench {
            service: Service::new(parse_cards("V100-16GB").unwrap(), options, scale, Clock::Real),
            next_id: 0,
        }
    }

    fn ask(&mut self, at: RealNanos, process: ProcessId, request: Request) -> Vec<Answer> {
        self.next_id += 1;
        let mut answers = Vec::new();
        self.service.handle(at, process, ClientFrame { id: RequestId(self.next_id), request }, &mut answers);
        answers
    }

    /// Sends a request and returns its one immediate answer.
    fn now(&mut self, process: ProcessId, request: Request) -> Result<Reply, Refusal> {
        let [answer] = &self.ask(RealNanos(0), process, request)[..] else {
            panic!("one request, one answer")
        };
        assert_eq!((answer.process, answer.frame.id), (process, RequestId(self.next_id)));
        answer.frame.reply.clone()
    }

    fn greeted(&mut self) -> ProcessId {
        let process = self.service.connect();
        self.now(process, Request::Hello { version: PROTOCOL_VERSION, pid: 1 }).unwrap();
        self.now(process, Request::OpenContext { device: DEVICE }).unwrap();
        process
    }

    fn allocated(&mut self, process: ProcessId, bytes: u64) -> AllocId {
        match self.now(process, Request::Allocate { device: DEVICE, bytes, kind: AllocKind::Device }) {
            Ok(Reply::Allocated(alloc)) => alloc,
            other => panic!("{other:?}"),
        }
    }

    /// Work of the device so far, and the modelled time.
    fn activity(&mut self, at: RealNanos, process: ProcessId) -> (DeviceActivity, Nanos) {
        match &self.ask(at, process, Request::Activity)[..] {
            [Answer { frame, .. }] => match &frame.reply {
                Ok(Reply::Activity(told)) => (told.devices[DEVICE as usize], told.now),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    /// Program bytes that the device has paged.
    fn paged(&mut self, at: RealNanos, process: ProcessId) -> u64 {
        self.activity(at, process).0.paged_bytes
    }

    fn free_bytes(&mut self, process: ProcessId) -> u64 {
        match self.now(process, Request::MemoryInfo { device: DEVICE }) {
            Ok(Reply::MemoryInfo(info)) => info.free,
            other => panic!("{other:?}"),
        }
    }
}

fn copy(alloc: AllocId, bytes: u64) -> Request {
    let range = Range { offset: 0, bytes };
    Request::Run { device: DEVICE, op: Op::CopyToDevice { alloc, range, pinned: true } }
}

fn report(answers: &[Answer]) -> RunReport {
    match answers {
        [Answer { frame, .. }] => match frame.reply {
            Ok(Reply::Ran(report)) => report,
            ref other => panic!("{other:?}"),
        },
        other => panic!("one answer, not {other:?}"),
    }
}

#[test]
fn the_reply_to_a_run_comes_at_its_scaled_end_and_never_before() {
    for time in [0.25, 1.0, 8.0] {
        let mut bench = Bench::new(Scale { memory: 1, time });
        let process = bench.greeted();
        let alloc = bench.allocated(process, 1 << 30);
        assert_eq!(bench.ask(RealNanos(0), process, copy(alloc, 1 << 30)), []);
        let mut answers = Vec::new();
        let mut at = RealNanos(0);
        while answers.is_empty() {
            let deadline = bench.service.deadline().expect("a copy is under way");
            assert!(deadline > at, "time goes on");
            bench.service.advance(RealNanos(deadline.0.div_ceil(2).max(at.0)), &mut answers);
            at = deadline;
            bench.service.advance(at, &mut answers);
        }
        let report = report(&answers);
        // 1 GiB over PCIe 3 at 12 GB/s takes 89 ms.
        assert!((80_000_000..100_000_000).contains(&report.duration_ns), "{report:?}");
        let expected_ns = report.duration_ns as f64 * time;
        assert!((at.0 as f64 - expected_ns).abs() <= 0.01 * expected_ns, "{at:?} for {expected_ns}");
        assert_eq!(bench.service.deadline(), None);
    }
}

#[test]
fn under_time_scale_zero_everybody_is_answered_at_once() {
    let mut bench = Bench::new(Scale { memory: 1, time: 0.0 });
    let process = bench.greeted();
    let alloc = bench.allocated(process, 1 << 30);
    let report = report(&bench.ask(RealNanos(0), process, copy(alloc, 1 << 30)));
    assert!((80_000_000..100_000_000).contains(&report.duration_ns), "{report:?}");
    assert_eq!(bench.service.deadline(), None);
}

/// Long kernels take the clock of a server that never waits to the end of its range within a second.
#[test]
fn after_six_hundred_years_of_kernels_others_pages_still_move_and_take_their_time() {
    let mut bench = Bench::new(Scale { memory: 1, time: 0.0 });
    let (long, other) = (bench.greeted(), bench.greeted());
    let pages = Request::Allocate { device: DEVICE, bytes: 1 << 30, kind: AllocKind::Managed };
    let Ok(Reply::Allocated(alloc)) = bench.now(other, pages) else { panic!("memory for managed pages") };
    let range = Range { offset: 0, bytes: 1 << 30 };
    let kernel = |flops64: u64, accesses: Vec<Access>| {
        let kernel = Kernel {
            priority: 0,
            launches: 1,
            blocks: 1 << 20,
            threads_per_block: 256,
            shared_bytes_per_block: 0,
            registers_per_thread: 0,
            dram_bytes: 0,
            flops32: 0,
            flops64,
            accesses,
        };
        Request::Run { device: DEVICE, op: Op::Kernel(kernel) }
    };
    let access = Access { alloc, ranges: vec![range], pattern: Pattern::Stream, density: 1.0, write: true };
    let took = |bench: &mut Bench| {
        let back = Request::Run { device: DEVICE, op: Op::HostAccess { alloc, range } };
        report(&bench.ask(RealNanos(0), other, back));
        report(&bench.ask(RealNanos(0), other, kernel(1, vec![access.clone()]))).duration_ns
    };
    took(&mut bench);
    let before = took(&mut bench);
    let month = kernel(u64::MAX / 3, Vec::new());
    let passed: u128 = (0..12_000)
        .map(|_| u128::from(report(&bench.ask(RealNanos(0), long, month.clone())).duration_ns))
        .sum();
    assert!(passed > u128::from(u64::MAX), "{passed} ns are less than a clock has");
    assert_eq!(took(&mut bench), before);
}

#[test]
fn a_small_program_under_a_memory_scale_stands_for_the_full_one() {
    let run = |memory: u64| {
        let mut bench = Bench::new(Scale { memory, time: 0.0 });
        let process = bench.greeted();
        let alloc = bench.allocated(process, (1 << 30) / memory);
        report(&bench.ask(RealNanos(0), process, copy(alloc, (1 << 30) / memory)))
    };
    assert_eq!(run(1), run(1024));
}

#[test]
fn a_process_that_goes_away_leaves_nothing_and_is_not_answered() {
    let mut bench = Bench::new(Scale { memory: 1, time: 1.0 });
    let stays = bench.greeted();
    let free_at_first = bench.free_bytes(stays);
    let goes = bench.greeted();
    let alloc = bench.allocated(goes, 8 << 30);
    assert_eq!(bench.ask(RealNanos(0), goes, copy(alloc, 8 << 30)), []);
    assert!(bench.free_bytes(stays) < free_at_first - (8 << 30));
    bench.service.disconnect(RealNanos(1), goes);
    assert_eq!(bench.free_bytes(stays), free_at_first);
    let mut answers = Vec::new();
    bench.service.advance(RealNanos(u64::MAX / 2), &mut answers);
    assert_eq!(answers, []);
}

#[test]
fn closing_a_context_answers_who_still_waits_in_it() {
    let mut bench = Bench::new(Scale { memory: 1, time: 1.0 });
    let process = bench.greeted();
    let alloc = bench.allocated(process, 1 << 30);
    bench.ask(RealNanos(0), process, copy(alloc, 1 << 30));
    let waiting = RequestId(bench.next_id);
    let answers = bench.ask(RealNanos(1), process, Request::CloseContext { device: DEVICE });
    let refused = answers.iter().find(|answer| answer.frame.id == waiting).expect("the waiter is answered");
    assert_eq!(refused.frame.reply, Err(Refusal::NoContext { device: DEVICE }));
    assert_eq!(answers.len(), 2);
}

#[test]
fn strangers_are_refused_with_the_reason() {
    let mut bench = Bench::new(Scale { memory: 1, time: 1.0 });
    let process = bench.service.connect();
    assert_eq!(bench.now(process, Request::Devices), Err(Refusal::NoHello));
    let other = Request::Hello { version: PROTOCOL_VERSION + 1, pid: 1 };
    let refusal = Refusal::Version { client: PROTOCOL_VERSION + 1, server: PROTOCOL_VERSION };
    assert_eq!(bench.now(process, other), Err(refusal));
    let process = bench.greeted();
    assert_eq!(
        bench.now(process, Request::OpenContext { device: 7 }),
        Err(Refusal::NoDevice { device: 7, count: 1 })
    );
}

#[test]
fn a_context_is_there_when_its_time_has_passed() {
    let mut bench = Bench::with(Options::default(), Scale { memory: 1, time: 1.0 });
    let process = bench.service.connect();
    bench.now(process, Request::Hello { version: PROTOCOL_VERSION, pid: 1 }).unwrap();
    assert_eq!(bench.ask(RealNanos(0), process, Request::OpenContext { device: DEVICE }), []);
    let mut answers = Vec::new();
    bench.service.advance(RealNanos(299_000_000), &mut answers);
    assert_eq!(answers, []);
    bench.service.advance(RealNanos(301_000_000), &mut answers);
    assert!(matches!(&answers[..], [answer] if answer.frame.reply == Ok(Reply::Done)), "{answers:?}");
}

#[test]
fn an_allocation_that_pushes_managed_memory_out_is_answered_when_it_is_written_back() {
    let mut bench = Bench::new(Scale { memory: 1, time: 1.0 });
    let process = bench.greeted();
    let bytes = 15 << 30;
    let managed = Request::Allocate { device: DEVICE, bytes, kind: AllocKind::Managed };
    let Ok(Reply::Allocated(alloc)) = bench.now(process, managed) else { panic!("managed memory is there") };
    let range = Range { offset: 0, bytes };
    let op = Op::Prefetch { alloc, range, to: Location::Device };
    bench.ask(RealNanos(0), process, Request::Run { device: DEVICE, op });
    let full = RealNanos(10_000_000_000);
    bench.service.advance(full, &mut Vec::new());
    assert_eq!(bench.paged(full, process), 0, "what is fetched for the first time is no paging");
    let plain = Request::Allocate { device: DEVICE, bytes: 8 << 30, kind: AllocKind::Device };
    assert_eq!(bench.ask(full, process, plain), [], "7.4 GiB have to go first");
    let mut answers = Vec::new();
    bench.service.advance(RealNanos(20_000_000_000), &mut answers);
    assert!(matches!(&answers[..], [answer] if matches!(answer.frame.reply, Ok(Reply::Allocated(_)))));
    let paged = bench.paged(RealNanos(20_000_000_000), process);
    assert!(((7 << 30)..(8 << 30)).contains(&paged), "{paged} bytes had to go");
}

#[test]
fn the_time_with_a_kernel_on_the_device_is_counted_and_that_of_copies_is_not() {
    let mut bench = Bench::new(Scale { memory: 1, time: 1.0 });
    let process = bench.greeted();
    let alloc = bench.allocated(process, 1 << 30);
    bench.ask(RealNanos(0), process, copy(alloc, 1 << 30));
    let copied = RealNanos(1_000_000_000);
    bench.service.advance(copied, &mut Vec::new());
    let (told, now) = bench.activity(copied, process);
    assert_eq!((told.kernels, now), (Nanos(0), Nanos(1_000_000_000)));

    // About 2 s of arithmetic on a V100, 14 TFLOP/s.
    let kernel = Kernel {
        priority: 0,
        launches: 1,
        blocks: 80 * 32,
        threads_per_block: 64,
        shared_bytes_per_block: 0,
        registers_per_thread: 0,
        dram_bytes: 0,
        flops32: 28_000_000_000_000,
        flops64: 0,
        accesses: Vec::new(),
    };
    bench.ask(copied, process, Request::Run { device: DEVICE, op: Op::Kernel(kernel) });
    let (told, _) = bench.activity(RealNanos(1_500_000_000), process);
    assert_eq!(told.kernels, Nanos(500_000_000), "it is there now");
    let mut answers = Vec::new();
    bench.service.advance(RealNanos(10_000_000_000), &mut answers);
    let (told, _) = bench.activity(RealNanos(10_000_000_000), process);
    assert_eq!(told.kernels.0, report(&answers).duration_ns, "as long as it was there");
}
