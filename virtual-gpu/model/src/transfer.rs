//! Copies, prefetches and host accesses as a sequence of segments, each on one engine.
//!
//! Trap: residency changes when a segment *begins*, before its time has passed. So residency is right for the operation
//! that looks next, and two operations never fetch the same block.

use crate::card::Card;
use crate::options::Options;
use crate::residency::{BLOCK_BYTES, Buffer, Evicted, Memory, Place, Preferred};
use crate::{AllocId, AllocKind, Location, ModelError, Op, OpStats, Range};
use std::collections::VecDeque;

/// Blocks per segment: resolution of the simulation (specification S-630).
const SEGMENT_BLOCKS: u32 = 64;
/// Time to walk one 2 MiB block in a prefetch, ns (specification S-620: an estimate).
const PREFETCH_BLOCK_NS: f64 = 1_500.0;
/// Time of one dependent fault of the host, ns (specification S-621: 20–50 µs).
const HOST_FAULT_NS: f64 = 30_000.0;

/// Engine that a segment occupies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Copy engine and link, shared.
    ToDevice,
    ToHost,
    /// A host thread.
    Host,
    /// The device's own memory.
    Dram,
    /// No engine: time passes.
    Wait,
}

/// A part of a transfer at one speed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    pub engine: Engine,
    /// Bytes; for a delay, the bytes that full speed would move in that time.
    pub amount: f64,
    /// Most bytes per ns.
    pub cap: f64,
    /// Evictions go in the other direction meanwhile.
    pub evicts: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    ToDevice {
        pinned: bool,
    },
    ToHost {
        pinned: bool,
    },
    OnDevice {
        to: AllocId,
        shift: i64,
    },
    Fill,
    PrefetchDevice,
    PrefetchHost,
    HostAccess {
        /// The bytes are copied, which takes the host time.
        copies: bool,
    },
    /// An allocation or a new context: writes back its victims, then waits for the driver's time.
    MakeRoom,
}

/// A stretch of blocks with the same place, as far as the transfer covers them.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    /// Offset of the first byte in the allocation.
    start: u64,
    bytes: u64,
    /// The first block, and the one after the last.
    blocks: (u32, u32),
    place: Place,
    preferred: Preferred,
}

impl Chunk {
    fn is_on_device(&self) -> bool {
        matches!(self.place, Place::Device { .. })
    }
}

/// A transfer in progress.
#[derive(Debug, Clone)]
pub struct Transfer {
    kind: Kind,
    alloc: AllocId,
    at: u64,
    end: u64,
    ready: VecDeque<Segment>,
}

/// State that a transfer needs in order to proceed.
pub struct Scene<'a> {
    pub card: &'a Card,
    pub options: &'a Options,
    pub memory: &'a mut Memory,
    pub stats: &'a mut OpStats,
}

/// Checks that a range lies in a buffer.
///
/// # Errors
/// Unknown allocation, or range outside it.
pub fn check_range(memory: &Memory, alloc: AllocId, range: Range) -> Result<&Buffer, ModelError> {
    let buffer =
        memory.buffer(alloc).ok_or_else(|| ModelError::Unknown(format!("allocation {}", alloc.0)))?;
    match range.offset.checked_add(range.bytes) {
        Some(end) if end <= buffer.bytes => Ok(buffer),
        _ => Err(ModelError::OutOfRange),
    }
}

impl Transfer {
    /// Transfer that a new allocation or context waits for: its victims' write-back, then `delay_ns`. `None` if neither
    /// is needed.
    pub fn make_room(card: &Card, evicted: &Evicted, delay_ns: u64) -> Option<Transfer> {
        let mut ready = VecDeque::new();
        if evicted.blocks > 0 {
            let cap = card.link.copy_to_host_bytes_per_s / 1e9;
            let amount = eviction_ns(card, evicted) * cap;
            ready.push_back(Segment { engine: Engine::ToHost, amount, cap, evicts: false });
        }
        if delay_ns > 0 {
            ready.push_back(Segment {
                engine: Engine::Wait,
                amount: delay_ns as f64,
                cap: 1.0,
                evicts: false,
            });
        }
        (!ready.is_empty()).then_some(Transfer {
            kind: Kind::MakeRoom,
            alloc: AllocId(0),
            at: 0,
            end: 0,
            ready,
        })
    }

    /// Unknown allocation or range outside it. Returns `Ok(None)` if the operation is a kernel.
    pub fn new(op: &Op, memory: &Memory) -> Result<Option<Transfer>, ModelError> {
        let (kind, alloc, range) = match *op {
            Op::Kernel(_) => return Ok(None),
            Op::CopyToDevice { alloc, range, pinned } => (Kind::ToDevice { pinned }, alloc, range),
            Op::CopyToHost { alloc, range, pinned } => (Kind::ToHost { pinned }, alloc, range),
            Op::CopyOnDevice { from, from_range, to, to_offset } => {
                check_range(memory, to, Range { offset: to_offset, bytes: from_range.bytes })?;
                // Before the subtraction: only an offset inside an allocation fits the signed type.
                check_range(memory, from, from_range)?;
                let shift = to_offset as i64 - from_range.offset as i64;
                (Kind::OnDevice { to, shift }, from, from_range)
            }
            Op::Fill { alloc, range } => (Kind::Fill, alloc, range),
            Op::Prefetch { alloc, range, to: Location::Device } => (Kind::PrefetchDevice, alloc, range),
            Op::Prefetch { alloc, range, to: Location::Host } => (Kind::PrefetchHost, alloc, range),
            Op::HostAccess { alloc, range } => (Kind::HostAccess { copies: true }, alloc, range),
            Op::HostFault { alloc, range } => (Kind::HostAccess { copies: false }, alloc, range),
        };
        check_range(memory, alloc, range)?;
        let end = range.offset + range.bytes;
        Ok(Some(Transfer { kind, alloc, at: range.offset, end, ready: VecDeque::new() }))
    }

    /// Returns the next segment, after its effect on memory; `None`: the transfer is over.
    pub fn next_segment(&mut self, scene: &mut Scene<'_>) -> Option<Segment> {
        loop {
            if let Some(segment) = self.ready.pop_front() {
                return Some(segment);
            }
            if self.at >= self.end {
                return None;
            }
            self.begin_chunk(scene);
        }
    }

    /// Starts the next stretch of equal blocks.
    fn begin_chunk(&mut self, scene: &mut Scene<'_>) {
        let Some(chunk) = self.take_chunk(scene.memory) else { return };
        let Chunk { bytes, blocks, .. } = chunk;
        let here = chunk.is_on_device();
        if here {
            scene.memory.touch(self.alloc, blocks.0, blocks.1);
        }
        match self.kind {
            Kind::MakeRoom => {}
            Kind::ToDevice { pinned } => self.copy_to_device(scene, chunk, pinned),
            Kind::ToHost { pinned } if here => {
                let cap = copy_rate(scene, scene.card.link.copy_to_host_bytes_per_s, pinned);
                self.push(scene.stats, Engine::ToHost, bytes as f64, cap);
            }
            Kind::ToHost { .. } => self.host_copy(scene, bytes),
            Kind::Fill => self.on_device(scene, self.alloc, blocks, bytes),
            Kind::OnDevice { to, shift } => {
                self.on_device(scene, self.alloc, blocks, bytes);
                let from = chunk.start.saturating_add_signed(shift);
                let span = ((from / BLOCK_BYTES) as u32, (from + bytes).div_ceil(BLOCK_BYTES) as u32);
                self.on_device(scene, to, span, bytes);
            }
            Kind::PrefetchDevice if here => self.walk(scene, blocks),
            Kind::PrefetchDevice => self.prefetch_to_device(scene, chunk),
            Kind::PrefetchHost if here => self.return_to_host(scene, blocks, 0.0),
            Kind::PrefetchHost => scene.memory.write_on_host(self.alloc, blocks.0, blocks.1),
            Kind::HostAccess { copies } => {
                if here && self.managed(scene) {
                    self.return_to_host(scene, blocks, HOST_FAULT_NS);
                }
                scene.memory.write_on_host(self.alloc, blocks.0, blocks.1);
                if copies {
                    self.host_copy(scene, bytes);
                }
            }
        }
    }

    /// Takes the next stretch of equal blocks from the rest of the transfer. `None`: the allocation was freed meanwhile,
    /// so nothing is left to move.
    fn take_chunk(&mut self, memory: &Memory) -> Option<Chunk> {
        let first = (self.at / BLOCK_BYTES) as u32;
        let Some(buffer) = memory.buffer(self.alloc) else {
            self.at = self.end;
            return None;
        };
        let (last, place, preferred) = match buffer.kind {
            AllocKind::Device => (u32::MAX, Place::Device { stamp: 0 }, Preferred::Nowhere),
            AllocKind::Managed => {
                let run = buffer.runs(first, first.saturating_add(SEGMENT_BLOCKS)).next();
                run.map_or((u32::MAX, Place::Nowhere, Preferred::Nowhere), |r| {
                    (r.1, r.2.place, r.2.preferred)
                })
            }
        };
        let end = self.end.min(u64::from(last) * BLOCK_BYTES);
        let start = std::mem::replace(&mut self.at, end);
        let blocks = (first, end.div_ceil(BLOCK_BYTES) as u32);
        Some(Chunk { start, bytes: end - start, blocks, place, preferred })
    }

    fn copy_to_device(&mut self, scene: &mut Scene<'_>, chunk: Chunk, pinned: bool) {
        let Chunk { bytes, blocks, .. } = chunk;
        if !chunk.is_on_device() && chunk.preferred == Preferred::Host {
            return self.host_write(scene, blocks, bytes);
        }
        let cap = copy_rate(scene, scene.card.link.copy_to_device_bytes_per_s, pinned);
        let refused = self.make_resident(scene, self.alloc, blocks, cap, bytes as f64, 0.0);
        if refused > 0 {
            self.host_write(scene, blocks, refused);
        }
    }

    fn prefetch_to_device(&mut self, scene: &mut Scene<'_>, chunk: Chunk) {
        let Chunk { bytes, blocks, .. } = chunk;
        let cap = scene.card.link.prefetch_bytes_per_s / 1e9;
        let moved = if chunk.place.has_host_content() { bytes as f64 } else { 0.0 };
        let walk = f64::from(blocks.1 - blocks.0) * PREFETCH_BLOCK_NS;
        self.make_resident(scene, self.alloc, blocks, cap, moved, walk);
    }

    /// Moves resident blocks back to the host, with `fault_ns` of faults for each.
    fn return_to_host(&mut self, scene: &mut Scene<'_>, blocks: (u32, u32), fault_ns: f64) {
        let left = scene.memory.demote(self.alloc, blocks.0, blocks.1, true);
        scene.stats.moved.returned_bytes += left.bytes;
        let cap = scene.card.link.copy_to_host_bytes_per_s / 1e9;
        let faults = f64::from(left.blocks) * fault_ns * cap;
        self.push(scene.stats, Engine::ToHost, left.bytes as f64 + faults, cap);
    }

    fn managed(&self, scene: &Scene<'_>) -> bool {
        scene.memory.buffer(self.alloc).is_some_and(|b| b.kind == AllocKind::Managed)
    }

    fn push(&mut self, stats: &mut OpStats, engine: Engine, amount: f64, cap: f64) {
        stats.work.0 += (amount / cap) as u64;
        self.ready.push_back(Segment { engine, amount, cap, evicts: false });
    }

    fn host_copy(&mut self, scene: &mut Scene<'_>, bytes: u64) {
        self.push(scene.stats, Engine::Host, bytes as f64, scene.options.host_copy_bytes_per_s / 1e9);
    }

    fn host_write(&mut self, scene: &mut Scene<'_>, blocks: (u32, u32), bytes: u64) {
        scene.memory.write_on_host(self.alloc, blocks.0, blocks.1);
        self.host_copy(scene, bytes);
    }

    fn walk(&mut self, scene: &mut Scene<'_>, blocks: (u32, u32)) {
        let cap = scene.card.link.prefetch_bytes_per_s / 1e9;
        let amount = f64::from(blocks.1 - blocks.0) * PREFETCH_BLOCK_NS * cap;
        self.push(scene.stats, Engine::ToDevice, amount, cap);
    }

    /// Makes blocks resident and moves `moved` bytes to them; evictions go in the other direction at the same time
    /// (specification S-620). Returns the bytes that found no room.
    fn make_resident(
        &mut self,
        scene: &mut Scene<'_>,
        alloc: AllocId,
        blocks: (u32, u32),
        cap: f64,
        moved: f64,
        delay_ns: f64,
    ) -> u64 {
        let admitted = scene.memory.admit(alloc, blocks.0, blocks.1);
        let whole = admitted.from_host_bytes + admitted.zeroed_bytes + admitted.refused_bytes;
        let part = if whole == 0 { 1.0 } else { 1.0 - admitted.refused_bytes as f64 / whole as f64 };
        let amount = moved * part + delay_ns * cap;
        let out_ns = eviction_ns(scene.card, &admitted.evicted);
        let duplex = scene.options.duplex.unwrap_or(scene.card.link.duplex_factor);
        let evicts = admitted.evicted.blocks > 0;
        // While victims leave, the engine slows the transfer in; here it only must not end before them.
        let reached = cap.min(duplex * scene.card.link.copy_to_device_bytes_per_s / 1e9);
        let paced = amount.max(out_ns * reached);
        let stats = &mut scene.stats.moved;
        stats.evicted_bytes += admitted.evicted.bytes;
        match self.kind {
            Kind::PrefetchDevice => {
                stats.prefetched_bytes += admitted.from_host_bytes - admitted.evicted_before_bytes;
                stats.refetched_bytes += admitted.evicted_before_bytes;
            }
            Kind::OnDevice { .. } => stats.faulted_bytes += admitted.from_host_bytes,
            // Bytes that a copy or a fill overwrites are not fetched.
            _ => {}
        }
        scene.stats.evicted_blocks += u64::from(admitted.evicted.blocks);
        scene.stats.work.0 += (amount / cap) as u64;
        scene.stats.paging.0 += ((paced - amount) / cap) as u64;
        self.ready.push_back(Segment { engine: Engine::ToDevice, amount: paced, cap, evicts });
        admitted.refused_bytes
    }

    /// A pass of the device's memory over a range, after its missing blocks are moved in.
    fn on_device(&mut self, scene: &mut Scene<'_>, alloc: AllocId, blocks: (u32, u32), bytes: u64) {
        let missing = scene.memory.buffer(alloc).is_some_and(|b| !b.all_resident());
        if missing {
            let cap = scene.card.link.prefetch_bytes_per_s / 1e9;
            let fetched = scene.memory.host_bytes(alloc, blocks.0, blocks.1) as f64;
            // A fill overwrites the content, so nothing is fetched.
            let moved = if matches!(self.kind, Kind::Fill) { 0.0 } else { fetched };
            self.make_resident(scene, alloc, blocks, cap, moved, 0.0);
        }
        let rate = scene.card.dram_bytes_per_s * scene.options.dram_efficiency / 1e9;
        self.push(scene.stats, Engine::Dram, bytes as f64, rate);
    }
}

fn copy_rate(scene: &Scene<'_>, pinned_bytes_per_s: f64, pinned: bool) -> f64 {
    let factor = if pinned { 1.0 } else { scene.options.pageable_factor };
    pinned_bytes_per_s * factor / 1e9
}

/// Time to write victims back (specification S-610).
pub fn eviction_ns(card: &Card, evicted: &Evicted) -> f64 {
    f64::from(evicted.blocks) * card.link.eviction_ns
        + evicted.bytes as f64 / (card.link.copy_to_host_bytes_per_s / 1e9)
}
