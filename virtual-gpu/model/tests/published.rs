//! The model against published measurements (UM model §4.5). "Fit" marks points the parameters were fitted to: they
//! show that the formulas are coded right, not that they are true. "Independent" marks the others.

mod common;
use common::*;
use eager_gpu_model::*;

fn v100() -> Card {
    card("V100-16GB").unwrap()
}

/// A card of the PCIe 5 generation with 32 GiB and the DRAM of an RTX 5090.
fn pcie5_32gib() -> Card {
    Card { memory_bytes: 32 * GIB, dram_bytes_per_s: 1.79e12, ..card("H200").unwrap() }
}

fn small(card: Card, bytes: u64) -> Card {
    Card { memory_bytes: bytes, ..card }
}

fn near(got: f64, wanted: f64, tolerance: f64) -> bool {
    (got / wanted - 1.0).abs() <= tolerance
}

/// Paging time of one pass over `bytes` on the host, in seconds.
fn fault_in(card: Card, options: Options, bytes: u64) -> f64 {
    let mut bench = Bench::new(card, options);
    let context = bench.context();
    let alloc = bench.on_host(context, bytes);
    let (_, stats) = bench.run(context, Op::Kernel(sweep(vec![whole(alloc, bytes, Pattern::Stream)], 1)));
    stats.paging.0 as f64 / 1e9
}

#[test]
fn fit_a_batch_of_8_mb_takes_1_1_ms() {
    let ms = fault_in(v100(), quiet(), 8 * MIB) * 1e3;
    assert!(near(ms, 1.1, 0.1), "{ms} ms");
}

#[test]
fn fit_each_eviction_in_a_batch_adds_0_18_ms() {
    for (evictions, measured_ms) in [(1, 0.35), (2, 0.52), (3, 0.70), (4, 0.90)] {
        let mut bench = Bench::new(small(v100(), 64 * MIB), quiet());
        let context = bench.context();
        let old = bench.on_host(context, 64 * MIB);
        bench.prefetch(context, old, 64 * MIB);
        let fresh = bench.on_host(context, evictions * 2 * MIB);
        // About 0.7 MiB in all is fetched, as in the measured batches.
        let access =
            Access { density: 0.3 / evictions as f64, ..whole(fresh, evictions * 2 * MIB, Pattern::Stream) };
        let (_, stats) = bench.run(context, Op::Kernel(sweep(vec![access], 1)));
        assert_eq!(stats.evicted_blocks, evictions);
        let ms = stats.paging.0 as f64 / 1e6;
        assert!(near(ms, measured_ms, 0.1), "{evictions} evictions: {ms} ms, measured {measured_ms}");
    }
}

#[test]
fn independent_a_naive_sweep_of_3_17_gb_on_pcie_3_takes_about_390_ms() {
    let seconds = fault_in(small(v100(), 8 * GIB), quiet(), 3_170_000_000);
    assert!(near(seconds, 0.387, 0.15), "{seconds} s");
}

#[test]
fn fit_without_prefetcher_demand_paging_reaches_0_9_gb_per_s() {
    let bytes = 1 << 30;
    let seconds = fault_in(v100(), Options { prefetcher: false, ..quiet() }, bytes);
    let rate = bytes as f64 / seconds / 1e9;
    assert!(near(rate, 0.92, 0.1), "{rate} GB/s");
}

#[test]
fn independent_the_prefetcher_is_worth_five_to_ten_times() {
    let on = fault_in(v100(), quiet(), GIB);
    let off = fault_in(v100(), Options { prefetcher: false, ..quiet() }, GIB);
    assert!((5.0..=10.0).contains(&(off / on)), "{}", off / on);
}

#[test]
fn fit_an_over_subscribed_sweep_on_pcie_5_takes_about_two_seconds() {
    for (ratio, measured_s) in [(1.25, 1.931), (1.5, 1.973)] {
        let mut bench = Bench::new(pcie5_32gib(), quiet());
        let context = bench.context();
        let bytes = (32.0 * ratio) as u64 * GIB;
        let alloc = bench.on_host(context, bytes);
        // Memory starts full of it, as after the measured program's own initialisation.
        bench.prefetch(context, alloc, 32 * GIB);
        let (_, stats) = bench.run(context, Op::Kernel(sweep(vec![whole(alloc, bytes, Pattern::Stream)], 1)));
        let seconds = stats.paging.0 as f64 / 1e9;
        assert!(seconds / measured_s > 0.2 && seconds / measured_s < 1.5, "{ratio}: {seconds} s");
    }
}

#[test]
fn independent_memory_that_fits_costs_at_most_three_percent() {
    let time = |kind| {
        let mut bench = Bench::new(v100(), quiet());
        let context = bench.context();
        let alloc = bench.model.alloc(bench.now, context, 8 * GIB, kind).unwrap();
        bench.prefetch(context, alloc, 8 * GIB);
        bench.run(context, Op::Kernel(sweep(vec![whole(alloc, 8 * GIB, Pattern::Stream)], 20))).0
    };
    let overhead = time(AllocKind::Managed) / time(AllocKind::Device) - 1.0;
    assert!((0.0..=0.03).contains(&overhead), "{overhead}");
}

/// Two processes that each sweep 0.6 of memory again and again: (both at once, one after the other, one process with
/// 1.2 of memory), in seconds. `flops` make the kernels as slow as real ones: on the published card 2.5 to 12 s.
fn two_cyclic(options: Options) -> ([f64; 2], f64, f64) {
    let card = pcie5_32gib();
    let bytes = (card.memory_bytes as f64 * 0.6) as u64;
    let kernel = |alloc, bytes| {
        let mut kernel = sweep(vec![whole(alloc, bytes, Pattern::Stream)], 25);
        // Arithmetic of about 100 ms a launch per 0.6 of memory.
        let seconds = 0.1 * bytes as f64 / (0.6 * card.memory_bytes as f64);
        kernel.flops32 = (card.flops32_per_s * options.compute_efficiency * seconds) as u64;
        kernel
    };
    let mut bench = Bench::new(card.clone(), options.clone());
    let mut ops = Vec::new();
    let mut jobs = Vec::new();
    for _ in 0..2 {
        let context = bench.context();
        let alloc = bench.on_host(context, bytes);
        jobs.push((context, alloc));
    }
    let start = bench.now;
    for (context, alloc) in jobs {
        ops.push(bench.submit(context, Op::Kernel(kernel(alloc, bytes))));
    }
    let ends: Vec<f64> = ops.iter().map(|&op| (bench.wait(op).at.0 - start.0) as f64 / 1e9).collect();

    let mut bench = Bench::new(card.clone(), options.clone());
    let mut sequential = 0.0;
    for _ in 0..2 {
        let context = bench.context();
        let alloc = bench.on_host(context, bytes);
        sequential += bench.run(context, Op::Kernel(kernel(alloc, bytes))).0;
    }
    let mut bench = Bench::new(card.clone(), options.clone());
    let context = bench.context();
    let alloc = bench.on_host(context, 2 * bytes);
    let single = bench.run(context, Op::Kernel(kernel(alloc, 2 * bytes))).0;
    ([ends[0], ends[1]], sequential, single)
}

#[test]
fn independent_two_cyclic_processes_of_0_6_thrash_like_one_of_1_2() {
    let ([a, b], sequential, single) = two_cyclic(quiet());
    let worse = a.max(b) / sequential;
    assert!((5.0..=12.0).contains(&worse), "{worse} times worse than sequential ({a} {b} {sequential})");
    assert!(near(a, b, 0.02), "both equally slowed: {a} {b}");
    assert!(near(a.max(b), single, 0.15), "like one of double size: {a} {single}");
}

#[test]
fn independent_the_length_of_the_slice_hardly_matters_to_thrashing() {
    let at = |slice_ns| two_cyclic(Options { slice: Nanos(slice_ns), ..quiet() }).0[1];
    let (short, long) = (at(200_000), at(1_000_000_000));
    assert!(near(short, long, 0.05), "{short} {long}");
}

#[test]
fn independent_long_quanta_bring_back_sequential_speed() {
    // What an exclusive scheduler does: each process launches only in its own quantum.
    let card = pcie5_32gib();
    let bytes = (card.memory_bytes as f64 * 0.6) as u64;
    let mut bench = Bench::new(card, quiet());
    let mut jobs = Vec::new();
    for _ in 0..2 {
        let context = bench.context();
        jobs.push((context, bench.on_host(context, bytes)));
    }
    let start = bench.now;
    let mut alone = 0.0;
    for _ in 0..3 {
        for &(context, alloc) in &jobs {
            let kernel = sweep(vec![whole(alloc, bytes, Pattern::Stream)], 500);
            let (_, stats) = bench.run(context, Op::Kernel(kernel));
            alone += stats.work.0 as f64 / 1e9;
        }
    }
    let total = (bench.now.0 - start.0) as f64 / 1e9;
    assert!(total / alone < 1.4, "{total} s for {alone} s of work");
}

#[test]
fn independent_prefetch_ahead_beats_demand_paging_of_one_pass_when_memory_is_full() {
    let time = |ahead: bool| {
        let mut bench = Bench::new(v100(), quiet());
        let context = bench.context();
        let old = bench.on_host(context, 16 * GIB);
        bench.prefetch(context, old, 16 * GIB);
        let alloc = bench.on_host(context, 8 * GIB);
        let start = bench.now;
        if ahead {
            bench.prefetch(context, alloc, 8 * GIB);
        }
        bench.run(context, Op::Kernel(sweep(vec![whole(alloc, 8 * GIB, Pattern::Stream)], 1)));
        (bench.now.0 - start.0) as f64 / 1e9
    };
    let (demand, ahead) = (time(false), time(true));
    assert!(demand / ahead >= 2.0, "{demand} s by faults, {ahead} s by prefetch");
}
