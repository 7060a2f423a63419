//! Published points to which parameters were fitted.

use super::bench::{Bench, MIB, quiet, sweep, whole};
use super::runs::{GB, fault_in, pcie3, rtx_5090, second_pass, seconds, unprefetched};
use super::{Basis, Check, Published};
use crate::{Access, Op, Pattern};

const SC21: &str = "Allen & Ge, SC 2021, figures of the artifact (Titan V, PCIe 3)";
const SWEEPS: &str = "gpu_ext, UVM sweeps (RTX 5090, PCIe 5)";

const fn fit(
    name: &'static str,
    source: &'static str,
    run: &'static str,
    unit: &'static str,
    published: f64,
    model: fn() -> f64,
) -> Check {
    Check {
        name,
        basis: Basis::Fit,
        source,
        run,
        unit,
        published: Published::Value(published),
        model,
        known_miss: None,
    }
}

const SECOND: &str = "second of two passes";
const EVICTING: &str = "0.7 MiB faulted into full memory, evicting";

pub(super) const CHECKS: [Check; 10] = [
    fit("fault batch of 8 MB", SC21, "8 MiB faulted in", "ms", 1.1, || {
        fault_in(pcie3(16 << 30), quiet(), 8 * MIB) * 1e3
    }),
    fit("batch with 1 eviction", SC21, EVICTING, "ms", 0.35, || evicting_batch_ms(1)),
    fit("batch with 2 evictions", SC21, EVICTING, "ms", 0.52, || evicting_batch_ms(2)),
    fit("batch with 3 evictions", SC21, EVICTING, "ms", 0.70, || evicting_batch_ms(3)),
    fit("batch with 4 evictions", SC21, EVICTING, "ms", 0.90, || evicting_batch_ms(4)),
    fit("batch of 256 faults without prefetcher", SC21, "1 MiB faulted in", "ms", 0.75, || {
        fault_in(pcie3(16 << 30), unprefetched(), MIB) * 1e3
    }),
    fit("8.6 GB on demand without prefetcher", SC21, "8.6 GB faulted in", "s", 9.3, || {
        fault_in(pcie3(16 << 30), unprefetched(), 8_600_000_000)
    }),
    fit(
        "naive sweep of 3.17 GB",
        "pascal-um-benchmark (GTX 1080, PCIe 3); its rate is one of two behind the link's",
        "3.17 GB faulted in",
        "ms",
        386.6,
        || fault_in(pcie3(8 << 30), quiet(), 3_170_000_000) * 1e3,
    ),
    Check {
        known_miss: Some(
            "by 26 %: all blocks miss and all are written back; the rate was fitted to a part of them",
        ),
        ..fit("sequential sweep at 1.25x", SWEEPS, SECOND, "s", 1.931, || {
            second_pass(rtx_5090(32 << 30), 40 << 30, Pattern::Stream)
        })
    },
    Check {
        known_miss: Some(
            "first in, first out misses every block of a cyclic sweep, so time grows with the ratio; the published \
             time hardly does",
        ),
        ..fit("sequential sweep at 1.5x", SWEEPS, SECOND, "s", 1.973, || {
            second_pass(rtx_5090(32 << 30), 48 << 30, Pattern::Stream)
        })
    },
];

/// Milliseconds of a batch that fetches about 0.7 MiB, as in the measured ones, and evicts `evictions` blocks.
fn evicting_batch_ms(evictions: u64) -> f64 {
    let mut bench = Bench::new(pcie3(64 * MIB), quiet());
    let context = bench.context();
    let old = bench.on_host(context, 64 * MIB);
    bench.prefetch(context, old, 64 * MIB);
    let bytes = evictions * 2 * MIB;
    let fresh = bench.on_host(context, bytes);
    let access = Access { density: 0.3 / evictions as f64, ..whole(fresh, bytes, Pattern::Stream) };
    let (_, stats) = bench.run(context, Op::Kernel(sweep(vec![access], 1)));
    seconds(stats.paging) * 1e3
}

/// Gigabytes per second of a pass over 1 GiB, to inspect the fitted rate.
pub(super) fn demand_rate(options: crate::Options) -> f64 {
    let bytes = 1 << 30;
    bytes as f64 / fault_in(pcie3(16 << 30), options, bytes) / GB
}
