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
    // 49 equal parts do not add up to exactly one, and what is left is no rate to run at.
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
fn under_mps_a_memory_bound_and_a_compute_bound_kernel_overlap() {
    let mut bench = bench(true);
    let (a, b) = (bench.context(), bench.context());
    let streaming = Kernel { dram_bytes: 337_500_000_000, ..sweep(vec![], 1) };
    let half = Kernel { flops64: compute(0.25, 0).flops64, dram_bytes: 0, ..streaming.clone() };
    let long = bench.submit(a, Op::Kernel(streaming));
    let short = bench.submit(b, Op::Kernel(half));
    let (short, long) = (seconds(bench.wait(short).at), seconds(bench.wait(long).at));
    assert!(long < 0.66 && short < 0.51, "{long} {short}");
}

#[test]
fn without_mps_a_paging_kernel_stalls_its_neighbours_and_under_mps_it_does_not() {
    let time = |mps| {
        let mut bench = bench(mps);
        let (a, b) = (bench.context(), bench.context());
        let data = bench.on_host(a, 8 * GIB);
        let start = bench.now;
        let paging = Kernel { dram_bytes: 0, ..sweep(vec![whole(data, 8 * GIB, Pattern::Stream)], 1) };
        bench.submit(a, Op::Kernel(paging));
        let op = bench.submit(b, Op::Kernel(compute(0.5, 0)));
        seconds(bench.wait(op).at) - seconds(start)
    };
    let (stalled, free) = (time(false), time(true));
    // 8 GiB come in at 7.5 GB/s.
    assert!(stalled > 1.5, "{stalled}");
    assert!(free < 0.6, "{free}");
}

#[test]
fn pageable_copies_reach_half_the_link_each_and_two_of_them_fill_it() {
    let mut bench = bench(true);
    let context = bench.context();
    let alloc = bench.model.alloc(bench.now, context, 12_000_000_000, AllocKind::Device).unwrap();
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
    let alloc = bench.model.alloc(bench.now, context, 12_000_000_000, AllocKind::Device).unwrap();
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
