//! One process: paging, prefetching, copies and remote access, to which no parameter was fitted.

use super::bench::{Bench, MIB, quiet, sweep, whole};
use super::fits::demand_rate;
use super::runs::{
    FREE_5090, arithmetic, fault_in, pcie3, resident_sweeps, rtx_5090, second_pass, seconds, unprefetched,
};
use super::{Basis, Check, Published};
use crate::{Access, Advice, AllocKind, Op, Pattern, Range, card};

const SC21: &str = "Allen & Ge, SC 2021, figures of the artifact (Titan V, PCIe 3)";
const SWEEPS: &str = "gpu_ext, UVM sweeps (RTX 5090, PCIe 5)";

const BASE: Check = Check {
    name: "",
    basis: Basis::Independent,
    source: "",
    run: "",
    unit: "x",
    published: Published::Range(0.0, 0.0),
    model: || 0.0,
    known_miss: None,
};

pub(super) const CHECKS: [Check; 13] = [
    Check {
        name: "managed memory that fits, against cudaMalloc",
        source: "gpu_ext: within 3 %; nvshare: about 1 %, which is the model's parameter",
        run: "20 sweeps of 8 GiB",
        published: Published::Range(0.97, 1.03),
        model: || resident_sweeps(AllocKind::Managed) / resident_sweeps(AllocKind::Device),
        ..BASE
    },
    Check {
        name: "prefetcher on, against off",
        source: "Allen & Ge, SC 2021: 7.5 GB/s in a batch against 0.92 GB/s",
        run: "1 GiB faulted in",
        published: Published::Range(5.0, 10.0),
        model: || demand_rate(quiet()) / demand_rate(unprefetched()),
        ..BASE
    },
    Check {
        name: "smallest transfer without prefetcher",
        source: SC21,
        run: "256 KiB faulted in",
        unit: "ms",
        published: Published::Value(0.65),
        model: || fault_in(pcie3(16 << 30), unprefetched(), MIB / 4) * 1e3,
        known_miss: Some("what a program's first faults cost once is not modelled"),
        ..BASE
    },
    Check {
        name: "on-demand stream",
        source: "NVIDIA blog 2017 (P100, PCIe 3; recalled)",
        run: "1 GiB faulted in",
        unit: "GB/s",
        published: Published::Value(5.4),
        model: || demand_rate(quiet()),
        known_miss: Some(
            "links are per PCIe generation, and the fitted one is the Titan V's, of a later driver",
        ),
        ..BASE
    },
    Check {
        name: "prefetch, against demand, one pass that fits",
        source: "NVIDIA blog 2017: at least twice as fast (P100, PCIe 3; recalled)",
        run: "8 GiB, prefetched or faulted in",
        published: Published::Range(2.0, 3.0),
        model: demand_over_prefetch,
        known_miss: Some(
            "the fitted demand rate is 7.5 GB/s and the prefetch rate 11; the first faults of the P100 were slower",
        ),
        ..BASE
    },
    Check {
        name: "sgemm, n = 32768, 7 % above capacity: time lost",
        source: SC21,
        run: "three matrices, each swept once; arithmetic as slow as at n = 28672, which fits",
        unit: "s",
        published: Published::Value(1.59),
        model: sgemm_loss_s,
        known_miss: Some(
            "tiles of B are swept several times, how often is not published; one sweep of each matrix hardly misses anything",
        ),
        ..BASE
    },
    Check {
        name: "sequential sweep at 1.0x",
        source: SWEEPS,
        run: "second of two passes over 33.67 GB, 33.14 GB free",
        unit: "s",
        published: Published::Value(0.137),
        model: || second_pass(rtx_5090(FREE_5090), 33_669_316_608, Pattern::Stream),
        known_miss: Some(
            "first in, first out misses the whole sweep as soon as anything is missing; the published run fetched \
             about a tenth",
        ),
        ..BASE
    },
    Check {
        name: "random sweep at 1.25x",
        source: SWEEPS,
        run: "second of two passes, in scattered order",
        unit: "s",
        published: Published::Value(1.212),
        model: || second_pass(rtx_5090(32 << 30), 40 << 30, Pattern::Random),
        known_miss: Some(RANDOM),
        ..BASE
    },
    Check {
        name: "random sweep at 1.5x",
        source: SWEEPS,
        run: "second of two passes, in scattered order",
        unit: "s",
        published: Published::Value(1.674),
        model: || second_pass(rtx_5090(32 << 30), 48 << 30, Pattern::Random),
        known_miss: Some(RANDOM),
        ..BASE
    },
    Check {
        name: "2.05 million page-stride reads of memory kept on the host",
        source: SWEEPS,
        run: "32 bytes of each page of 8.4 GB",
        unit: "ms",
        published: Published::Value(34.5),
        model: remote_reads_ms,
        known_miss: Some("remote access costs bytes, and 17 ns a read are not modelled"),
        ..BASE
    },
    Check {
        name: "copy in while a copy out runs",
        source: "NVIDIA forum 352186 (A100, PCIe 4): 25 falls to 11 GB/s",
        run: "two pinned copies of 25 GB",
        unit: "GB/s",
        published: Published::Value(11.0),
        model: duplex_rate,
        known_miss: Some("the card's duplex factor stands between this report and others that see no loss"),
        ..BASE
    },
    Check {
        name: "exclusive quanta of 30 s, against one after the other",
        source: "nvshare: within tens of per cent",
        run: "two of 0.6 of memory in turns of 30 s",
        published: Published::Range(1.0, 1.4),
        model: quanta_over_sequential,
        ..BASE
    },
    Check {
        name: "time lost by evictions, 1 GiB into full memory, against memory that is free",
        source: "Allen & Ge, SC 2021: 0.18 ms for each 2 MiB",
        run: "1 GiB faulted in",
        unit: "ms per eviction",
        published: Published::Value(0.18),
        model: eviction_ms,
        ..BASE
    },
];

const RANDOM: &str = "a random order misses only what does not fit, about a third; the model's fixed order of steps, shifted \
                      at each launch, misses nearly all under first in, first out";

fn demand_over_prefetch() -> f64 {
    let bytes = 8 << 30;
    let time = |ahead: bool| {
        let mut bench = Bench::new(pcie3(16 << 30), quiet());
        let context = bench.context();
        let alloc = bench.on_host(context, bytes);
        let start = bench.now;
        if ahead {
            bench.prefetch(context, alloc, bytes);
        }
        bench.run(context, Op::Kernel(sweep(vec![whole(alloc, bytes, Pattern::Stream)], 1)));
        seconds(bench.now) - seconds(start)
    };
    time(false) / time(true)
}

/// Seconds that SGEMM at n = 28672 takes beyond the time at its rate, 8,600 GFLOPS.
fn sgemm_loss_s() -> f64 {
    let card = pcie3(12 << 30);
    let operations = |n: u64| 2.0 * (n as f64).powi(3);
    let matrix = |n: u64| 4 * n * n;
    let rate = 8.6e12;
    let run = |n: u64, arithmetic_s: f64| {
        let mut bench = Bench::new(card.clone(), quiet());
        let context = bench.context();
        let buffers: Vec<_> = (0..3).map(|_| bench.on_host(context, matrix(n))).collect();
        let accesses = buffers.into_iter().map(|alloc| whole(alloc, matrix(n), Pattern::Stream)).collect();
        bench.run(context, Op::Kernel(arithmetic(&card, accesses, 1, arithmetic_s))).0
    };
    let fits = operations(28_672) / rate;
    let computing = fits - (run(28_672, fits) - fits);
    let scaled = computing * operations(32_768) / operations(28_672);
    run(32_768, scaled) - operations(32_768) / rate
}

fn remote_reads_ms() -> f64 {
    let bytes = 2_050_000 * 4096;
    let mut bench = Bench::new(rtx_5090(32 << 30), quiet());
    let context = bench.context();
    let alloc = bench.on_host(context, bytes);
    let range = Range { offset: 0, bytes };
    bench.model.advise(bench.now, alloc, range, Advice::PreferredHost).expect("the range lies in the buffer");
    let access = Access { density: 32.0 / 4096.0, ..whole(alloc, bytes, Pattern::Stream) };
    let card = bench.model.card(0).clone();
    bench.run(context, Op::Kernel(arithmetic(&card, vec![access], 1, 0.0))).0 * 1e3
}

fn duplex_rate() -> f64 {
    let bytes = 25_000_000_000;
    let mut bench = Bench::new(card("A100-80GB").expect("a built-in card"), quiet());
    let context = bench.context();
    let out = bench.alloc(context, bytes, AllocKind::Device);
    let into = bench.alloc(context, bytes, AllocKind::Device);
    let range = Range { offset: 0, bytes };
    bench.submit(context, Op::CopyToHost { alloc: out, range, pinned: true });
    let (time, _) = bench.run(context, Op::CopyToDevice { alloc: into, range, pinned: true });
    bytes as f64 / time / 1e9
}

fn quanta_over_sequential() -> f64 {
    let card = rtx_5090(32 << 30);
    let bytes = (card.memory_bytes as f64 * 0.6) as u64;
    let mut bench = Bench::new(card.clone(), quiet());
    let jobs: Vec<_> = (0..2)
        .map(|_| {
            let context = bench.context();
            (context, bench.on_host(context, bytes))
        })
        .collect();
    let start = bench.now;
    let mut alone = 0.0;
    for _ in 0..3 {
        for &(context, alloc) in &jobs {
            let kernel = arithmetic(&card, vec![whole(alloc, bytes, Pattern::Stream)], 300, 0.1);
            let (_, stats) = bench.run(context, Op::Kernel(kernel));
            alone += seconds(stats.work);
        }
    }
    (seconds(bench.now) - seconds(start)) / alone
}

fn eviction_ms() -> f64 {
    let bytes = 1 << 30;
    let mut bench = Bench::new(pcie3(4 << 30), quiet());
    let context = bench.context();
    let old = bench.on_host(context, 4 << 30);
    bench.prefetch(context, old, 4 << 30);
    let fresh = bench.on_host(context, bytes);
    let (_, stats) = bench.run(context, Op::Kernel(sweep(vec![whole(fresh, bytes, Pattern::Stream)], 1)));
    let free = fault_in(pcie3(4 << 30), quiet(), bytes);
    (seconds(stats.paging) - free) * 1e3 / stats.evicted_blocks as f64
}
