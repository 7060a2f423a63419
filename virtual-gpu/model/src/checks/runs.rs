//! Runs shared by several checks.

use super::bench::{Bench, quiet, sweep, whole};
use crate::{Access, AllocKind, Card, ContextId, Kernel, Nanos, Op, OpId, Options, Pattern, Range, card};

pub(super) const GB: f64 = 1e9;
/// Free device memory at the start of the two-tenant runs (gpu_ext, sweep of 2026-09-08), in bytes.
pub(super) const FREE_5090: u64 = 33_140_637_696;

/// Cards of the published runs. They differ from the built-in ones only in memory and rates, which are data-sheet
/// values; their links are those of the same PCIe generation.
pub(super) fn pcie3(memory_bytes: u64) -> Card {
    Card { memory_bytes, ..card("V100-16GB").expect("a built-in card") }
}

pub(super) fn rtx_5090(memory_bytes: u64) -> Card {
    let base = card("H200").expect("a built-in card");
    Card { memory_bytes, dram_bytes_per_s: 1.79e12, flops32_per_s: 104.8e12, sms: 170, ..base }
}

pub(super) fn unprefetched() -> Options {
    Options { prefetcher: false, ..quiet() }
}

/// An arithmetic kernel that takes `seconds` per launch alone and fills the device once: no time is lost in further
/// waves.
pub(super) fn arithmetic(card: &Card, accesses: Vec<Access>, launches: u32, seconds: f64) -> Kernel {
    let flops32 = (card.flops32_per_s * Options::default().compute_efficiency * seconds) as u64;
    let blocks = u64::from(card.sms) * u64::from(card.threads_per_sm / 256);
    Kernel { dram_bytes: 0, flops32, blocks, ..sweep(accesses, launches) }
}

/// Seconds lost to paging in one pass over `bytes` of memory on the host.
pub(super) fn fault_in(card: Card, options: Options, bytes: u64) -> f64 {
    let mut bench = Bench::new(card, options);
    let context = bench.context();
    let alloc = bench.on_host(context, bytes);
    let (_, stats) = bench.run(context, Op::Kernel(sweep(vec![whole(alloc, bytes, Pattern::Stream)], 1)));
    seconds(stats.paging)
}

/// Seconds lost to paging in a second pass over `bytes`.
pub(super) fn second_pass(card: Card, bytes: u64, pattern: Pattern) -> f64 {
    let mut bench = Bench::new(card, quiet());
    let context = bench.context();
    let alloc = bench.on_host(context, bytes);
    let mut pass = || bench.run(context, Op::Kernel(sweep(vec![whole(alloc, bytes, pattern)], 1))).1;
    pass();
    seconds(pass().paging)
}

pub(super) fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

/// A tenant's work: `launches` kernels, each of `launch_s` alone, that walk the buffer in `parts` equal parts, one part
/// per launch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tenant {
    pub bytes: u64,
    pub launches: u32,
    pub launch_s: f64,
    pub parts: u32,
}

impl Tenant {
    fn kernel(&self, card: &Card, alloc: crate::AllocId, part: u32, launches: u32) -> Kernel {
        let span = self.bytes / u64::from(self.parts);
        let range = Range { offset: u64::from(part) * span, bytes: span };
        let access = Access { ranges: vec![range], ..whole(alloc, self.bytes, Pattern::Stream) };
        arithmetic(card, vec![access], launches, self.launch_s)
    }

    /// Operations in program order.
    fn program(&self, card: &Card, alloc: crate::AllocId) -> Vec<Kernel> {
        if self.parts == 1 {
            return vec![self.kernel(card, alloc, 0, self.launches)];
        }
        (0..self.launches).map(|launch| self.kernel(card, alloc, launch % self.parts, 1)).collect()
    }
}

/// Runs tenants at once, each in its own context, after one such run of each as a warm-up. Returns the seconds that
/// each tenant's kernels take.
pub(super) fn tenants(card: &Card, options: Options, tenants: &[Tenant]) -> Vec<f64> {
    let mut bench = Bench::new(card.clone(), options);
    let mut rows: Vec<Row> = tenants
        .iter()
        .map(|tenant| {
            let context = bench.context();
            let alloc = bench.on_host(context, tenant.bytes);
            let mut kernels = tenant.program(card, alloc);
            let timed = kernels.len();
            kernels.extend(kernels.clone());
            kernels.reverse();
            Row { context, kernels, timed, op: None, began: Nanos(0), ended: None }
        })
        .collect();
    while rows.iter().any(|row| row.ended.is_none()) {
        for row in rows.iter_mut().filter(|row| row.op.is_none() && row.ended.is_none()) {
            row.next(&mut bench);
        }
        let Some(at) = bench.model.next_event() else { break };
        bench.model.advance(at, &mut bench.done);
        bench.now = bench.now.max(at);
        for done in std::mem::take(&mut bench.done) {
            if let Some(row) = rows.iter_mut().find(|row| row.op == Some(done.op)) {
                row.op = None;
            }
        }
    }
    rows.iter().map(|row| seconds(row.ended.unwrap_or_default()) - seconds(row.began)).collect()
}

/// A running tenant; `kernels` is in reverse order.
struct Row {
    context: ContextId,
    kernels: Vec<Kernel>,
    timed: usize,
    op: Option<OpId>,
    began: Nanos,
    ended: Option<Nanos>,
}

impl Row {
    fn next(&mut self, bench: &mut Bench) {
        if self.kernels.len() == self.timed {
            self.began = bench.now;
        }
        match self.kernels.pop() {
            Some(kernel) => self.op = Some(bench.submit(self.context, Op::Kernel(kernel))),
            None => self.ended = Some(bench.now),
        }
    }
}

/// Seconds of `launches` sweeps over memory of this kind that fits.
pub(super) fn resident_sweeps(kind: AllocKind) -> f64 {
    let bytes = 8 << 30;
    let mut bench = Bench::new(pcie3(16 << 30), quiet());
    let context = bench.context();
    let alloc = bench.alloc(context, bytes, kind);
    bench.prefetch(context, alloc, bytes);
    bench.run(context, Op::Kernel(sweep(vec![whole(alloc, bytes, Pattern::Stream)], 20))).0
}
