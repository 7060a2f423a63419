//! Race detection in strict mode: two threads use one word of memory, one of them writes, and nothing orders the two.
//!
//! Every access leaves a record at its word ([`record`]). Within a block, [`order`] decides whether an earlier access
//! is ordered with a later one; between blocks, releases and acquires do. A race is reported, and the kernel continues.
//! Trap: a time identifies a block only because all blocks of a launch run on one thread, one slice of a block after
//! another.

mod found;
mod order;
mod record;
mod report;
mod shadow;

use core::ffi::c_char;
use std::collections::BTreeMap;

use crate::strict::finding::SpaceKind;
use crate::strict::memory::Memory;
use found::{Accessed, Found};
pub(crate) use order::BlockOrder;
use record::{Kind, Record, Relation, Word};
pub use report::{Distance, Race, Races, Side};
use shadow::Pages;

const WORD_BYTES: u64 = 4;
/// Default limit, in bytes, of the records kept for global memory (specification S-690).
pub const MEMORY_BYTES_DEFAULT: u64 = 1 << 30;
/// Slices of blocks that are told apart; beyond that all records are dropped, as at the end of a launch.
const SLICES_MAX: usize = 1 << 22;

/// An access that strict mode has found valid.
pub(crate) struct Checked {
    pub thread: u32,
    pub address: u64,
    pub bytes: u64,
    pub place: *const c_char,
    pub reads: bool,
    pub writes: bool,
    pub is_volatile: bool,
}

impl Checked {
    fn is_atomic(&self) -> bool {
        self.reads && self.writes
    }
}

/// Records for the shared memory of a block, and the order of its threads.
#[derive(Debug, Default)]
pub(crate) struct BlockRaces {
    pub order: BlockOrder,
    shared: Vec<Word>,
    block: u32,
    block_dim: [u32; 3],
}

/// Race detector of a process: records kept between accesses, and the races found in a launch.
#[derive(Debug)]
pub struct Detector {
    /// Limit of the records for global memory in bytes; `None`: detection is off.
    memory_bytes_max: Option<u64>,
    /// The running kernel reports the events that order its threads, and detection is on.
    is_on: bool,
    time: u32,
    /// First time of the launch.
    start: u32,
    grid: [u32; 3],
    /// Start time and block of each slice, ascending.
    slices: Vec<(u32, u32)>,
    /// Times at which each block last released and acquired.
    handed: BTreeMap<u32, [u32; 2]>,
    pages: Pages,
    found: Found,
}

impl Default for Detector {
    fn default() -> Self {
        Detector::new(Some(MEMORY_BYTES_DEFAULT))
    }
}

impl Detector {
    /// Creates a detector with a limit in bytes for the records of global memory; `None` turns it off.
    pub fn new(memory_bytes_max: Option<u64>) -> Detector {
        Detector {
            memory_bytes_max,
            is_on: false,
            time: 0,
            start: 1,
            grid: [1; 3],
            slices: Vec::new(),
            handed: BTreeMap::new(),
            pages: Pages::default(),
            found: Found::default(),
        }
    }

    /// Returns and clears the races found since the last call.
    pub fn take(&mut self) -> Races {
        self.found.settle();
        self.found.take()
    }

    /// Begins a launch; `reports_order` if the kernel reports the events that order its threads.
    pub(crate) fn begin(&mut self, grid: [u32; 3], reports_order: bool) {
        self.is_on = reports_order && self.memory_bytes_max.is_some();
        self.grid = grid;
        self.slices.clear();
        self.handed.clear();
        self.start = self.tick();
        self.pages.trim(self.memory_bytes_max.unwrap_or(0) / 2);
    }

    /// Returns a new time. On overflow all earlier accesses count as ordered.
    fn tick(&mut self) -> u32 {
        if self.time == u32::MAX {
            self.forget();
            self.time = 0;
        }
        self.time += 1;
        self.time
    }

    /// Drops all records. Never inlined, as it needs much of the stack.
    #[cold]
    #[inline(never)]
    fn forget(&mut self) {
        self.pages.clear();
        // The running block continues.
        let last = self.slices.last().map(|slice| slice.1);
        self.slices.clear();
        self.slices.extend(last.map(|block| (1, block)));
        self.start = 1;
    }

    /// Called when the block of this linear index begins, or resumes.
    pub(crate) fn enter(&mut self, races: &mut BlockRaces, block: u64, block_dim: [u32; 3], goes_on: bool) {
        if !self.is_on {
            return;
        }
        self.found.settle();
        if self.slices.len() >= SLICES_MAX {
            self.forget();
            self.slices.clear();
            self.start = self.tick();
        }
        let now = self.tick();
        let block = u32::try_from(block).unwrap_or(u32::MAX);
        if self.slices.last().is_none_or(|last| last.1 != block) {
            self.slices.push((now, block));
        }
        if goes_on {
            return;
        }
        let threads = block_dim.iter().map(|&n| n as usize).product();
        races.order.begin(now, threads);
        (races.block, races.block_dim) = (block, block_dim);
    }

    /// Memory was allocated by the kernel: records of earlier uses are dropped.
    pub(crate) fn allocated(&mut self, start: u64, bytes: u64) {
        if self.is_on {
            self.pages.forget(start / WORD_BYTES..=(start + bytes) / WORD_BYTES);
        }
    }

    /// Orders these blocks: accesses before now come before later accesses of the others. For synchronisation that uses
    /// no memory, such as the barrier of a cluster.
    pub fn order_blocks(&mut self, blocks: &[u32]) {
        let now = self.tick();
        self.handed.extend(blocks.iter().map(|&block| (block, [now; 2])));
        // Accesses from now on get a later time.
        self.tick();
    }

    /// A thread continues after a barrier of its whole block.
    pub(crate) fn passes_barrier(&mut self, races: &mut BlockRaces, thread: u32) {
        if self.is_on {
            self.found.settle();
            let now = self.tick();
            races.order.passes_barrier(thread, now);
        }
    }

    /// Warps of a block (a bit for each), or all of them, have met at a barrier.
    pub(crate) fn warps_met(&mut self, races: &mut BlockRaces, warps: u32, all: bool) {
        if self.is_on {
            let now = self.tick();
            if all { races.order.all_met(now) } else { races.order.warps_met(warps, now) }
        }
    }

    /// Lanes of a warp have met.
    pub(crate) fn lanes_met(&mut self, races: &mut BlockRaces, warp: u32, members: u32, alive: u32) {
        if self.is_on {
            let now = self.tick();
            races.order.lanes_met(warp, members, alive, now);
        }
    }

    /// A thread executes a fence.
    pub(crate) fn fence(&mut self, races: &mut BlockRaces, thread: u32) {
        if self.is_on {
            self.found.settle();
            self.releases(races, thread);
            races.order.set_fenced(thread, true);
        }
    }

    fn releases(&mut self, races: &mut BlockRaces, thread: u32) {
        let now = self.tick();
        races.order.releases(thread, now);
        self.handed.entry(races.block).or_default()[0] = now;
    }

    /// Checks an access that is about to happen. `shared` is the block's shared memory; memory outside of `own` may be
    /// used by other threads.
    pub(crate) fn look(
        &mut self,
        races: &mut BlockRaces,
        access: &Checked,
        shared: &core::ops::Range<u64>,
        own: &[&core::ops::Range<u64>],
        memory: &Memory,
    ) {
        if !self.is_on {
            return;
        }
        self.found.settle();
        let in_shared = shared.contains(&access.address);
        let is_own = || own.iter().any(|range| range.contains(&access.address));
        if access.bytes > 0 && (in_shared || !is_own()) {
            let kind = self.kind_of(races, access);
            let record = self.record(access, kind);
            let clash = if in_shared {
                races.access_shared(access, record, access.address - shared.start)
            } else {
                self.access_global(races, access, record)
            };
            if let Some(clash) = clash {
                let space = if in_shared {
                    Some((SpaceKind::Shared, shared.start))
                } else {
                    memory.holding(access.address)
                };
                self.report(races, access, record, clash, space);
            }
        }
        // An atomic access releases all accesses up to and including itself, so it is recorded first.
        if access.is_atomic() {
            self.releases(races, access.thread);
        }
        if access.is_atomic() || access.is_volatile && access.reads {
            let now = self.tick();
            races.order.acquires(access.thread, now);
        }
    }

    fn kind_of(&self, races: &mut BlockRaces, access: &Checked) -> Kind {
        let is_flag = access.is_volatile && access.writes && races.order.is_fenced(access.thread);
        if access.writes && !access.is_volatile && !access.is_atomic() {
            races.order.set_fenced(access.thread, false);
        }
        match () {
            () if access.is_atomic() || is_flag => Kind::Atomic,
            () if access.is_volatile => Kind::Volatile,
            () => Kind::Plain,
        }
    }

    fn record(&mut self, access: &Checked, kind: Kind) -> Record {
        Record::new(self.time, self.found.place(access.place), access.thread, 15, kind)
    }

    fn access_global(
        &mut self,
        races: &BlockRaces,
        access: &Checked,
        record: Record,
    ) -> Option<record::Clash> {
        let Detector { pages, slices, handed, start, .. } = self;
        let slice = slices.last().map_or(0, |slice| slice.0);
        let met = if handed.is_empty() { 0 } else { handed.get(&races.block).map_or(0, |times| times[1]) };
        let acquired = races.order.acquired.max(met);
        let relate = |earlier: Record| {
            let time = earlier.time();
            if time < *start {
                return Relation::Ordered;
            }
            // Nearly always: what was before a block that began with this slice was another block's, and nothing is
            // handed over.
            let is_other = time < slice && slice == races.order.start;
            if is_other && (handed.is_empty() || acquired <= time) {
                return Relation::OtherBlock;
            }
            let block = if time >= slice { races.block } else { block_at(slices, time) };
            if block == u32::MAX {
                return Relation::Ordered;
            }
            if block == races.block {
                return races.order.relation(earlier, access.thread);
            }
            let released = handed.get(&block).map_or(0, |times| times[0]);
            if released > time && acquired > time { Relation::Ordered } else { Relation::OtherBlock }
        };
        let limit = self.memory_bytes_max.unwrap_or(0);
        let mut found = None;
        for (word, bytes) in words(access.address, access.bytes) {
            let Some(place) = pages.word(word, limit) else {
                self.found.unwatched(WORD_BYTES);
                continue;
            };
            let record = record.of_bytes(bytes);
            found = place.access(record, access.writes, &relate).or(found);
        }
        found
    }

    #[cold]
    #[inline(never)]
    fn report(
        &mut self,
        races: &BlockRaces,
        access: &Checked,
        record: Record,
        clash: record::Clash,
        space: Option<(SpaceKind, u64)>,
    ) {
        let block = match clash.relation {
            Relation::OtherBlock => block_at(&self.slices, clash.earlier.time()),
            _ => races.block,
        };
        let (memory, start) = space.unwrap_or((SpaceKind::Device, access.address));
        let side = |block: u32, record: Record, writes: bool, place: String| Side {
            block: place_in(block, self.grid),
            thread: place_in(record.thread(), races.block_dim),
            way: way(record.kind(), writes),
            place,
        };
        let [before, now] = [clash.earlier, record].map(|record| self.found.text(record.place()));
        let race = Race {
            earlier: side(block, clash.earlier, clash.earlier_writes, before),
            later: side(races.block, record, access.writes, now),
            distance: Distance::of(clash.relation),
            memory,
            start,
            offset: access.address - start,
            bits: access.bytes * 8,
            more: 0,
        };
        let lines = [clash.earlier.place(), record.place()];
        let may_be_equal = clash.earlier_writes && access.writes && !access.is_atomic();
        let stored = may_be_equal.then_some(Accessed { address: access.address, bytes: access.bytes });
        self.found.add(race, lines, stored);
    }
}

impl BlockRaces {
    /// Creates the state for a block with `shared_bytes` of shared memory.
    pub fn new(shared_bytes: u32) -> BlockRaces {
        let words = u64::from(shared_bytes).div_ceil(WORD_BYTES) as usize;
        BlockRaces { shared: vec![Word::default(); words], ..BlockRaces::default() }
    }

    fn access_shared(&mut self, access: &Checked, record: Record, offset: u64) -> Option<record::Clash> {
        let BlockRaces { order, shared, .. } = self;
        let relate = |earlier: Record| order.relation(earlier, access.thread);
        let mut found = None;
        for (word, bytes) in words(offset, access.bytes) {
            let Some(place) = shared.get_mut(word as usize) else { break };
            let record = record.of_bytes(bytes);
            found = place.access(record, access.writes, &relate).or(found);
        }
        found
    }
}

fn way(kind: Kind, writes: bool) -> &'static str {
    match (kind, writes) {
        (_, false) => "read",
        (Kind::Atomic, true) => "updated",
        _ => "wrote",
    }
}

fn block_at(slices: &[(u32, u32)], time: u32) -> u32 {
    let behind = slices.partition_point(|slice| slice.0 <= time);
    slices[..behind].last().map_or(u32::MAX, |slice| slice.1)
}

/// The words that an access touches, each with a mask of its bytes.
fn words(address: u64, bytes: u64) -> impl Iterator<Item = (u64, u8)> {
    let end = address.saturating_add(bytes);
    let (first, last) = (address / WORD_BYTES, end.saturating_sub(1) / WORD_BYTES);
    let all = 15_u8;
    let from = all << (address % WORD_BYTES);
    let until = all >> (WORD_BYTES - 1 - end.saturating_sub(1) % WORD_BYTES);
    (first..=last).map(move |word| {
        let (is_first, is_last) = (word == first, word == last);
        (word, (if is_first { from } else { all }) & (if is_last { until } else { all }) & all)
    })
}

fn place_in(index: u32, size: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = size.map(|n| n.max(1));
    [index % x, index / x % y, index / x / y]
}

#[cfg(test)]
mod tests;
