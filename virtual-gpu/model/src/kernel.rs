//! Demands of a kernel: its time alone, its shares of DRAM and SMs, and the order in which it touches memory.
//!
//! Times here are for one launch on an otherwise idle device with all data resident.

use crate::card::Card;
use crate::options::Options;
use crate::residency::{BLOCK_BYTES, Buffer, Memory, Place, Preferred};
use crate::{AllocId, Kernel, Pattern};

/// Registers are allocated to warps in units of 256 (specification S-606).
const REGISTER_UNIT: u32 = 256;
/// Unit in which a fault grows when its block is sparse (specification S-503).
const REGION_BYTES: u64 = 64 << 10;
const REGIONS_PER_BLOCK: f64 = (BLOCK_BYTES / REGION_BYTES) as f64;
/// Above this density the prefetcher fetches the whole block (the driver: 51 %; specification S-503).
const DENSE: f64 = 0.5;
/// Most steps of all launches of one operation: an operation that thrashes for thousands of launches is simulated more
/// coarsely (specification S-630).
const STEPS_MAX: u64 = 50_000;
/// Launches searched for the next fault; a kernel that gets beyond them searches again.
const LAUNCHES_AHEAD: u32 = 4;

/// One scattered access of a warp's lane group, in bytes.
const SCATTER_BYTES: f64 = 128.0;

/// Time and resources of one launch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    pub alone_ns: f64,
    /// Parts of the device's DRAM rate and of its SMs that the launch takes at full speed, 0–1.
    pub dram: f64,
    pub sm: f64,
    /// Part of the SMs' block slots that it fills, and whether all its blocks fit at once.
    pub slots: f64,
    pub one_wave: bool,
}

/// Blocks that one SM holds at once (specification S-606).
pub fn blocks_per_sm(card: &Card, kernel: &Kernel) -> u32 {
    let warps = kernel.threads_per_block.div_ceil(32).max(1);
    let by_threads = card.threads_per_sm / warps.saturating_mul(32);
    let by_shared = card.shared_bytes_per_sm.checked_div(kernel.shared_bytes_per_block).unwrap_or(u32::MAX);
    let registers_per_warp =
        (u64::from(kernel.registers_per_thread) * 32).next_multiple_of(u64::from(REGISTER_UNIT));
    let by_registers = u64::from(card.registers_per_sm).checked_div(registers_per_warp * u64::from(warps));
    let by_registers = by_registers.map_or(u32::MAX, |blocks| u32::try_from(blocks).unwrap_or(u32::MAX));
    card.blocks_per_sm.min(by_threads).min(by_shared).min(by_registers).max(1)
}

/// Time and shares of one launch (specification S-601).
pub fn work(card: &Card, options: &Options, kernel: &Kernel) -> Work {
    let slots = u64::from(card.sms) * u64::from(blocks_per_sm(card, kernel));
    let waves = kernel.blocks.div_ceil(slots).max(1);
    let used = (kernel.blocks as f64 / slots as f64).min(1.0);
    let dram_rate = card.dram_bytes_per_s * options.dram_efficiency / 1e9;
    let dram_ns = kernel.dram_bytes as f64 / dram_rate;
    let flops = |ops: u64, per_s: f64| ops as f64 / (per_s * options.compute_efficiency / 1e9);
    let compute_ns = flops(kernel.flops32, card.flops32_per_s) + flops(kernel.flops64, card.flops64_per_s);
    let alone_ns = (dram_ns / used)
        .max(compute_ns / used)
        .max(waves as f64 * options.wave.0 as f64)
        .max(options.launch_interval.0 as f64);
    Work {
        alone_ns,
        dram: (dram_ns / alone_ns).min(1.0),
        sm: (compute_ns / alone_ns).max(options.sm_floor * used).min(1.0),
        slots: used,
        one_wave: waves == 1,
    }
}

/// An access, in blocks.
#[derive(Debug, Clone)]
struct Walk {
    alloc: AllocId,
    /// Block spans, ascending and disjoint.
    spans: Vec<(u32, u32)>,
    blocks: u32,
    pattern: Pattern,
    density: f64,
}

/// The touched blocks of a kernel, in steps. A step is a part of every access, side by side: kernels walk their arrays
/// together.
#[derive(Debug, Clone)]
pub struct Sweep {
    walks: Vec<Walk>,
    launches: u32,
    step_blocks: u32,
}

/// Part of an allocation inside a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Piece {
    pub alloc: AllocId,
    pub start: u32,
    pub end: u32,
    pub density: f64,
    pub random: bool,
}

impl Sweep {
    pub fn new(kernel: &Kernel, memory: &Memory, step_blocks: u32) -> Sweep {
        let walks = kernel
            .accesses
            .iter()
            .filter(|access| memory.buffer(access.alloc).is_some_and(|b| b.kind == crate::AllocKind::Managed))
            .map(|access| {
                let mut spans: Vec<(u32, u32)> = Vec::new();
                for range in &access.ranges {
                    let start = (range.offset / BLOCK_BYTES) as u32;
                    let end = (range.offset + range.bytes).div_ceil(BLOCK_BYTES) as u32;
                    match spans.last_mut() {
                        Some(last) if last.1 >= start => last.1 = last.1.max(end),
                        _ => spans.push((start, end)),
                    }
                }
                let blocks = spans.iter().map(|(start, end)| end - start).sum();
                let (alloc, pattern, density) = (access.alloc, access.pattern, access.density);
                Walk { alloc, spans, blocks, pattern, density }
            })
            .collect::<Vec<Walk>>();
        let launches = kernel.launches.max(1);
        let of_launch: u64 = walks.iter().map(|walk| u64::from(walk.blocks)).sum();
        let touched = of_launch.saturating_mul(u64::from(launches));
        let step_blocks = u64::from(step_blocks.max(1)).max(touched / STEPS_MAX);
        let step_blocks = u32::try_from(step_blocks).unwrap_or(u32::MAX);
        Sweep { walks, launches, step_blocks }
    }

    /// Number of steps of a launch.
    pub fn steps(&self, launch: u32) -> u32 {
        let windows = self.walks.iter().map(|walk| self.window(walk, launch));
        let blocks: u64 = windows.map(|(a, b)| u64::from(b - a)).sum();
        u32::try_from(blocks.div_ceil(u64::from(self.step_blocks))).unwrap_or(u32::MAX).max(1)
    }

    /// Blocks of the walk (counted along its spans) that this launch touches. A diagonal grows over the first half of
    /// the launches and shrinks over the second.
    fn window(&self, walk: &Walk, launch: u32) -> (u32, u32) {
        if walk.pattern != Pattern::Diagonal || self.launches == 1 {
            return (0, walk.blocks);
        }
        let done = f64::from(launch + 1) / f64::from(self.launches);
        let at = |part: f64| (f64::from(walk.blocks) * part.clamp(0.0, 1.0)) as u32;
        let start = at(2.0 * done - 1.0).min(walk.blocks.saturating_sub(1));
        (start, at(2.0 * done).max(start + 1).min(walk.blocks))
    }

    /// Visits the pieces that step `step` of `launch` touches.
    pub fn pieces(&self, launch: u32, step: u32, mut visit: impl FnMut(Piece)) {
        let steps = u64::from(self.steps(launch));
        for walk in &self.walks {
            let (from, to) = self.part(walk, (launch, step), steps);
            for (start, end) in spans(walk, from, to) {
                let random = walk.pattern == Pattern::Random;
                visit(Piece { alloc: walk.alloc, start, end, density: walk.density, random });
            }
        }
    }

    /// Part of a walk that a step touches, in blocks along it.
    fn part(&self, walk: &Walk, (launch, step): (u32, u32), steps: u64) -> (u32, u32) {
        let random = walk.pattern == Pattern::Random;
        let step = if random { scatter(u64::from(step), u64::from(launch), steps) } else { u64::from(step) };
        let (start, end) = self.window(walk, launch);
        let span = u64::from(end - start);
        (start + (span * step / steps) as u32, start + (span * (step + 1) / steps) as u32)
    }

    /// First step of `launch` at or after `from` that would fault. Walks in order are searched by missing blocks, not
    /// step by step: a sweep has thousands of steps and few gaps.
    fn miss_in(&self, memory: &Memory, launch: u32, from: u32) -> Option<u32> {
        let steps = self.steps(launch);
        let mut first = steps;
        for walk in &self.walks {
            let Some(buffer) = memory.buffer(walk.alloc).filter(|buffer| !buffer.all_resident()) else {
                continue;
            };
            let found = if walk.pattern == Pattern::Random {
                (from..first).find(|&step| self.lacks(walk, buffer, (launch, step), steps))
            } else {
                self.missing_step(walk, buffer, (launch, from), steps)
            };
            first = found.map_or(first, |step| step.min(first));
        }
        (first < steps).then_some(first)
    }

    /// True if a step meets a missing block along one walk.
    fn lacks(&self, walk: &Walk, buffer: &Buffer, at: (u32, u32), steps: u32) -> bool {
        let (from, to) = self.part(walk, at, u64::from(steps));
        spans(walk, from, to).any(|(start, end)| buffer.lacking(start, end).is_some())
    }

    /// First step from `step` on in which a walk in order meets a missing block.
    fn missing_step(
        &self,
        walk: &Walk,
        buffer: &Buffer,
        (launch, step): (u32, u32),
        steps: u32,
    ) -> Option<u32> {
        let (start, end) = self.window(walk, launch);
        let (from, _) = self.part(walk, (launch, step), u64::from(steps));
        let missing = spans_from(walk, from, end)
            .find_map(|(passed, first, last)| Some(passed + buffer.lacking(first, last)? - first))?;
        // The first step whose part ends after the missing block: parts are whole blocks, rounded down.
        let (behind, span) = (u64::from(missing - start) + 1, u64::from(end - start));
        Some((behind * u64::from(steps)).div_ceil(span) as u32 - 1)
    }

    /// Next step at which the kernel, about to begin `step` of `launch`, faults or must search again; `None`: it faults
    /// no more unless memory is evicted.
    pub fn next_miss(&self, memory: &Memory, launch: u32, step: u32) -> Option<(u32, u32)> {
        if self.walks.iter().all(|walk| memory.buffer(walk.alloc).is_none_or(|b| b.all_resident())) {
            return None;
        }
        if let Some(step) = self.miss_in(memory, launch, step) {
            return Some((launch, step));
        }
        // Launches that touch the same blocks miss alike. Where they differ, the search stops after a few launches, and
        // the kernel searches again when it gets there.
        let differ =
            self.walks.iter().any(|walk| matches!(walk.pattern, Pattern::Diagonal | Pattern::Random));
        let ahead = if differ { LAUNCHES_AHEAD } else { 1 };
        let last = self.launches.min(launch.saturating_add(ahead + 1));
        let found =
            (launch + 1..last).find_map(|launch| self.miss_in(memory, launch, 0).map(|step| (launch, step)));
        found.or((differ && last < self.launches).then_some((last, 0)))
    }

    /// True if this step would fault now.
    pub fn misses(&self, memory: &Memory, (launch, step): (u32, u32)) -> bool {
        let steps = self.steps(launch);
        self.walks.iter().any(|walk| {
            let buffer = memory.buffer(walk.alloc).filter(|buffer| !buffer.all_resident());
            buffer.is_some_and(|buffer| self.lacks(walk, buffer, (launch, step), steps))
        })
    }

    /// Bytes that one launch reads and writes over the link because their preferred location is the host.
    pub fn remote_bytes(&self, memory: &Memory) -> f64 {
        let mut bytes = 0.0;
        for walk in &self.walks {
            let Some(buffer) = memory.buffer(walk.alloc).filter(|buffer| buffer.was_remote) else { continue };
            for &(start, end) in &walk.spans {
                for (from, to, run) in buffer.runs(start, end) {
                    let here = matches!(run.place, Place::Device { .. });
                    if run.preferred == Preferred::Host && !here {
                        bytes += walk.density * buffer.bytes_of(from, to) as f64;
                    }
                }
            }
        }
        bytes
    }

    pub fn touches_managed(&self) -> bool {
        !self.walks.is_empty()
    }
}

/// The block spans in `from..to` of a walk.
fn spans(walk: &Walk, from: u32, to: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
    spans_from(walk, from, to).map(|(_, start, end)| (start, end))
}

/// The block spans in `from..to` of a walk, each preceded by the position along the walk at which it begins.
fn spans_from(walk: &Walk, from: u32, to: u32) -> impl Iterator<Item = (u32, u32, u32)> + '_ {
    let mut passed = 0;
    walk.spans.iter().filter_map(move |&(a, b)| {
        let (lo, hi) = (from.max(passed), to.min(passed + (b - a)));
        let found = (lo < hi).then(|| (lo, a + lo - passed, a + hi - passed));
        passed += b - a;
        found
    })
}

/// A fixed order that jumps about: multiples of the golden section, made coprime, shifted at each launch.
fn scatter(step: u64, launch: u64, steps: u64) -> u64 {
    let mut stride = (steps * 618 / 1000).max(1);
    while gcd(stride, steps) != 1 {
        stride += 1;
    }
    (step * stride + launch * (steps / 3 + 1)) % steps
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// 64 KiB regions of a block that a walk of this density touches (specification S-503, S-611). Scattered accesses hit
/// regions at random.
pub fn regions_per_block(density: f64, random: bool) -> f64 {
    if density > DENSE {
        return REGIONS_PER_BLOCK;
    }
    if random {
        let accesses = density * BLOCK_BYTES as f64 / SCATTER_BYTES;
        return (REGIONS_PER_BLOCK * (1.0 - (-accesses / REGIONS_PER_BLOCK).exp())).max(1.0);
    }
    (density * REGIONS_PER_BLOCK).ceil().max(1.0)
}

/// Part of a faulting block that is moved, 0–1.
pub fn moved_part(density: f64, random: bool) -> f64 {
    regions_per_block(density, random) / REGIONS_PER_BLOCK
}
