//! Several contexts on one device: time slices, MPS, priorities, copy engines.

use eager_gpu_model::checks::bench::*;
use eager_gpu_model::*;

fn bench(mps: bool) -> Bench {
    Bench::new(card("V100-16GB").unwrap(), Options { mps, ..quiet() })
}

fn compute(seconds: f64, priority: i32) -> Kernel {
    let card = card("V100-16GB").unwrap();
    let flops64 = (card.flops64_per_s * Options::default().compute_efficiency * seconds) as u64;
    Kernel { flops64, priority, ..sweep(vec![], 1) }
}

fn seconds(at: Nanos) -> f64 {
    at.0 as f64 / 1e9
}

#[test]
fn without_mps_two_contexts_share_equally_and_lose_a_little() {
    let mut bench = bench(false);
    let (a, b) = (bench.context(), bench.context());
    let ops = [bench.submit(a, Op::Kernel(compute(1.0, 0))), bench.submit(b, Op::Kernel(compute(1.0, -5)))];
    let ends = ops.map(|op| seconds(bench.wait(op).at));
    assert!((2.0..2.15).contains(&ends[0]) && (ends[0] - ends[1]).abs() < 0.01, "{ends:?}");
}

#[test]
fn under_mps_priorities_rank_kernels_of_different_processes() {
    let mut bench = bench(true);
    let (a, b) = (bench.context(), bench.context());
    let low = bench.submit(a, Op::Kernel(compute(1.0, 0)));
    let high = bench.submit(b, Op::Kernel(compute(1.0, -1)));
    assert!((0.99..1.02).contains(&seconds(bench.wait(high).at)));
    assert!((1.99..2.02).contains(&seconds(bench.wait(low).at)));
}

#[test]
fn a_kernel_that_urgent_ones_leave_nothing_waits_for_them_and_then_ends() {
    let mut bench = bench(true);
    bench.now = Nanos(1_000_000);
    // 49 equal parts do not add up to exactly one, and the remainder must not become a rate.
    let streaming = Kernel { dram_bytes: 6_750_000_000, ..sweep(vec![], 1) };
    let urgent = Kernel { priority: -1, ..streaming.clone() };
    let urgent: Vec<OpId> = (0..49)
        .map(|_| {
            let context = bench.context();
            bench.submit(context, Op::Kernel(urgent.clone()))
        })
        .collect();
    let context = bench.context();
    let last = bench.submit(context, Op::Kernel(streaming));
    let first = urgent.into_iter().map(|op| seconds(bench.wait(op).at)).fold(0.0, f64::max);
    let last = seconds(bench.wait(last).at);
    assert!((0.48..0.50).contains(&first) && (0.50..0.52).contains(&last), "{first} {last}");
}

#[test]
fn shared_fairly_a_memory_bound_and_a_compute_bound_kernel_overlap() {
    let options = Options { mps: true, placement: Placement::Fair, ..quiet() };
    let mut bench = Bench::new(card("V100-16GB").unwrap(), options);
    let (a, b) = (bench.context(), bench.context());
    let streaming = Kernel { dram_bytes: 337_500_000_000, ..sweep(vec![], 1) };
    let half = Kernel { flops64: compute(0.25, 0).flops64, dram_bytes: 0, ..streaming.clone() };
    let long = bench.submit(a, Op::Kernel(streaming));
    let short = bench.submit(b, Op::Kernel(half));
    let (short, long) = (seconds(bench.wait(short).at), seconds(bench.wait(long).at));
    assert!(long < 0.66 && short < 0.51, "{long} {short}");
}

#[test]
fn without_mps_a_paging_kernel_stalls_its_neighbours_and_under_mps_only_by_its_blocks() {
    let time = |mps| {
        let mut bench = bench(mps);
        let (a, b) = (bench.context(), bench.context());
        let data = bench.on_host(a, 8 * GIB);
        let start = bench.now;
        // Half of the slots of a V100: 80 SMs with 8 blocks of 256 threads.
        let paging =
            Kernel { dram_bytes: 0, blocks: 320, ..sweep(vec![whole(data, 8 * GIB, Pattern::Stream)], 1) };
        bench.submit(a, Op::Kernel(paging));
        let op = bench.submit(b, Op::Kernel(Kernel { blocks: 320, ..compute(0.25, 0) }));
        seconds(bench.wait(op).at) - seconds(start)
    };
    let (stalled, free) = (time(false), time(true));
    // 8 GiB are fetched at 7.5 GB/s.
    assert!(stalled > 1.5, "{stalled}");
    assert!(free < 0.6, "{free}");
}

#[test]
fn pageable_copies_reach_half_the_link_each_and_two_of_them_fill_it() {
    let mut bench = bench(true);
    let context = bench.context();
    let alloc = bench.alloc(context, 12_000_000_000, AllocKind::Device);
    let copy = |bytes, pinned| Op::CopyToDevice { alloc, range: Range { offset: 0, bytes }, pinned };
    assert!((bench.run(context, copy(12_000_000_000, true)).0 - 1.0).abs() < 0.01);
    assert!((bench.run(context, copy(6_000_000_000, false)).0 - 1.0).abs() < 0.01);
    let start = bench.now;
    let ops = [
        bench.submit(context, copy(6_000_000_000, false)),
        bench.submit(context, copy(6_000_000_000, false)),
    ];
    for op in ops {
        assert!((seconds(bench.wait(op).at) - seconds(start) - 1.0).abs() < 0.01);
    }
}

#[test]
fn a_busy_way_back_slows_the_way_in_by_the_duplex_factor() {
    let mut bench = bench(true);
    let context = bench.context();
    let alloc = bench.alloc(context, 12_000_000_000, AllocKind::Device);
    let range = Range { offset: 0, bytes: 12_000_000_000 };
    bench.submit(context, Op::CopyToHost { alloc, range, pinned: true });
    let (alone, _) = bench.run(context, Op::CopyToDevice { alloc, range, pinned: true });
    assert!((1.15..1.25).contains(&alone), "{alone}");
}

#[test]
fn a_late_prefetch_runs_beside_the_kernel() {
    let mut bench = bench(true);
    let context = bench.context();
    let data = bench.on_host(context, 11_000_000_000);
    let start = bench.now;
    let kernel = bench.submit(context, Op::Kernel(compute(1.0, 0)));
    bench.prefetch(context, data, 11_000_000_000);
    bench.wait(kernel);
    assert!(seconds(bench.now) - seconds(start) < 1.05);
}

#[test]
fn under_mps_who_came_first_has_the_sms_until_its_launch_ends() {
    let mut bench = bench(true);
    let (a, b) = (bench.context(), bench.context());
    let first = bench.submit(a, Op::Kernel(compute(1.0, 0)));
    bench.now = Nanos(500_000_000);
    let second = bench.submit(b, Op::Kernel(compute(1.0, 0)));
    assert!((0.99..1.01).contains(&seconds(bench.wait(first).at)));
    assert!((1.99..2.01).contains(&seconds(bench.wait(second).at)));
}

#[test]
fn under_mps_rows_of_launches_alternate_launch_by_launch() {
    let mut bench = bench(true);
    let (a, b) = (bench.context(), bench.context());
    let row = |launch_s, launches| Kernel { launches, ..compute(launch_s, 0) };
    // 10 launches of 0.1 s each alternate with 10 of 0.3 s: the short row ends with the tenth turn.
    let short = bench.submit(a, Op::Kernel(row(0.1, 10)));
    let long = bench.submit(b, Op::Kernel(row(0.3, 10)));
    let ends = [short, long].map(|op| seconds(bench.wait(op).at));
    assert!((3.69..3.72).contains(&ends[0]) && (3.99..4.02).contains(&ends[1]), "{ends:?}");
}

#[test]
fn a_small_kernel_leaves_the_rest_of_the_sms_to_the_next() {
    let mut bench = bench(true);
    let (a, b) = (bench.context(), bench.context());
    // Half of the slots of a V100: 80 SMs with 8 blocks of 256 threads.
    let half = |seconds| Kernel { blocks: 320, ..compute(seconds / 2.0, 0) };
    let ops = [bench.submit(a, Op::Kernel(half(1.0))), bench.submit(b, Op::Kernel(half(1.0)))];
    let ends = ops.map(|op| seconds(bench.wait(op).at));
    assert!(ends.iter().all(|end| (0.99..1.01).contains(end)), "{ends:?}");
}

/// Seconds that a computation takes when submitted beside another context's faults on 8 GiB.
fn beside_paging(options: Options, compute_s: f64) -> f64 {
    let mut bench = Bench::new(card("V100-16GB").unwrap(), options);
    let (a, b) = (bench.context(), bench.context());
    let data = bench.on_host(a, 8 * GIB);
    let start = seconds(bench.now);
    let paging = Kernel { dram_bytes: 0, ..sweep(vec![whole(data, 8 * GIB, Pattern::Stream)], 1) };
    bench.submit(a, Op::Kernel(paging));
    let op = bench.submit(b, Op::Kernel(compute(compute_s, 0)));
    seconds(bench.wait(op).at) - start
}

#[test]
fn a_kernel_that_waits_for_faults_keeps_the_sms_from_others() {
    let time = |placement| beside_paging(Options { mps: true, placement, ..quiet() }, 0.5);
    let (leftover, fair) = (time(Placement::Leftover), time(Placement::Fair));
    assert!(leftover > 1.5 && fair < 0.6, "{leftover} {fair}");
}

#[test]
fn a_stall_can_be_told_to_leak() {
    let time = |stall_leak| beside_paging(Options { stall_leak, ..quiet() }, 0.1);
    let (stalled, leaking) = (time(0.0), time(0.5));
    assert!(stalled > 1.0 && (0.15..0.3).contains(&leaking), "{stalled} {leaking}");
}

#[test]
fn a_launch_costs_its_latency_once_and_its_interval_each_time() {
    let mut bench = bench(true);
    let context = bench.context();
    let empty = Kernel { blocks: 1, ..sweep(vec![], 1000) };
    let least = Options { wave: Nanos(0), ..quiet() };
    let mut quick = Bench::new(card("V100-16GB").unwrap(), least);
    let other = quick.context();
    // 5 us to start; then 3 us per wave of blocks, or 2 us between launches where waves cost nothing.
    assert!((bench.run(context, Op::Kernel(empty.clone())).0 - 3.005e-3).abs() < 1e-6);
    assert!((quick.run(other, Op::Kernel(empty)).0 - 2.005e-3).abs() < 1e-6);
}

#[test]
fn host_copies_share_the_hosts_memory_over_all_devices() {
    let time = |all| {
        let options = Options { host_memory_bytes_per_s: all, ..quiet() };
        let mut model = Model::new(vec![card("V100-16GB").unwrap(); 2], options);
        let fill = |model: &mut Model, device| {
            let context = model.context_create(Nanos(0), device).unwrap().id;
            let alloc = model.alloc(Nanos(0), context, 8_000_000_000, AllocKind::Managed).unwrap().id;
            let range = Range { offset: 0, bytes: 8_000_000_000 };
            model.submit(Nanos(0), context, Op::HostAccess { alloc, range }).unwrap();
        };
        fill(&mut model, 0);
        fill(&mut model, 1);
        let mut done = Vec::new();
        while let Some(at) = model.next_event() {
            model.advance(at, &mut done);
        }
        assert_eq!(done.len(), 2);
        seconds(done[1].at)
    };
    assert!((time(None) - 1.0).abs() < 1e-3);
    assert!((time(Some(8e9)) - 2.0).abs() < 1e-3);
    assert!((time(Some(100e9)) - 1.0).abs() < 1e-3);
}
