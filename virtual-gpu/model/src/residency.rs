//! Residency of the 2 MiB blocks of one device's memory: extents per allocation and one queue over all processes.
//!
//! Trap: the order of eviction is that of the last migration *in*, not of use; a hot block that never faults must be
//! evicted like a cold one (specification S-504), unless [`Eviction::Used`] is selected. Victims are always written
//! back, since there is no dirty tracking.

use crate::options::Eviction;
use crate::{AllocId, AllocKind, ContextId, ModelError};
use std::collections::BTreeMap;

/// Unit of residency and eviction: the VA block (specification S-501).
pub const BLOCK_BYTES: u64 = 2 << 20;

/// Location of the pages of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Never written: a first touch moves nothing.
    Nowhere,
    Host,
    /// On the host since its eviction, and not written there.
    Evicted,
    /// On the device since the migration (or use) with this number.
    Device {
        stamp: u64,
    },
}

impl Place {
    /// True if a migration to the device must move bytes over the link.
    pub fn has_host_content(self) -> bool {
        matches!(self, Place::Host | Place::Evicted)
    }
}

/// Preferred location of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preferred {
    Nowhere,
    Device,
    /// The device accesses it over the link and never migrates it (specification S-506).
    Host,
}

/// Equal neighbouring blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// First block after the run.
    pub end: u32,
    pub place: Place,
    pub preferred: Preferred,
    /// Has host memory: its content was on the host once, and it keeps the host memory after migration (specification
    /// S-508).
    pub backed: bool,
}

/// An allocation.
#[derive(Debug, Clone)]
pub struct Buffer {
    pub context: ContextId,
    pub kind: AllocKind,
    pub bytes: u64,
    /// Runs by first block, without gaps. Empty for plain device memory.
    runs: BTreeMap<u32, Run>,
    resident_blocks: u32,
    /// Some of it has at some time had the host as preferred location.
    pub was_remote: bool,
}

impl Buffer {
    pub fn blocks(&self) -> u32 {
        u32::try_from(self.bytes.div_ceil(BLOCK_BYTES)).expect("checked when it was allocated")
    }

    /// Bytes of the blocks `start..end`; the last block may be short.
    pub fn bytes_of(&self, start: u32, end: u32) -> u64 {
        (u64::from(end) * BLOCK_BYTES).min(self.bytes) - (u64::from(start) * BLOCK_BYTES).min(self.bytes)
    }

    /// The runs that overlap `start..end`, cut to it.
    pub fn runs(&self, start: u32, end: u32) -> impl Iterator<Item = (u32, u32, Run)> + '_ {
        let first = self.runs.range(..=start).next_back().map_or(start, |(&at, _)| at);
        self.runs
            .range(first..end)
            .map(move |(&at, &run)| (at.max(start), run.end.min(end), run))
            .filter(|(from, to, _)| from < to)
    }

    /// First block of `start..end` that a touch on the device would migrate.
    pub fn lacking(&self, start: u32, end: u32) -> Option<u32> {
        self.runs(start, end).find(|(_, _, run)| migrates(run)).map(|(from, _, _)| from)
    }

    pub fn all_resident(&self) -> bool {
        self.kind == AllocKind::Device || self.resident_blocks == self.blocks()
    }
}

/// Result of migrating blocks to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Admitted {
    /// Blocks that became resident, and their bytes by origin.
    pub blocks: u32,
    pub from_host_bytes: u64,
    /// Part of `from_host_bytes` that an eviction had moved to the host.
    pub evicted_before_bytes: u64,
    pub zeroed_bytes: u64,
    pub evicted: Evicted,
    /// Bytes that did not fit because nothing more could be evicted.
    pub refused_bytes: u64,
}

/// Blocks and bytes that an eviction wrote back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Evicted {
    pub blocks: u32,
    pub bytes: u64,
}

/// Memory of one device.
#[derive(Debug)]
pub struct Memory {
    capacity: u64,
    context_bytes: u64,
    device_bytes: u64,
    managed_bytes: u64,
    /// Host memory behind managed allocations in bytes: current and most so far.
    host_bytes: u64,
    host_bytes_max: u64,
    eviction: Eviction,
    buffers: BTreeMap<AllocId, Buffer>,
    /// Resident runs: (stamp, allocation, first block) to the end of the run.
    fifo: BTreeMap<(u64, AllocId, u32), u32>,
    stamp_next: u64,
    /// Rises whenever memory leaves the device.
    departures: u64,
}

impl Memory {
    pub fn new(capacity: u64, eviction: Eviction) -> Memory {
        Memory {
            capacity,
            context_bytes: 0,
            device_bytes: 0,
            managed_bytes: 0,
            host_bytes: 0,
            host_bytes_max: 0,
            eviction,
            buffers: BTreeMap::new(),
            fifo: BTreeMap::new(),
            stamp_next: 0,
            departures: 0,
        }
    }

    pub fn info(&self) -> crate::MemoryInfo {
        crate::MemoryInfo {
            total: self.capacity,
            free: self.free(),
            device_bytes: self.device_bytes,
            managed_resident: self.managed_bytes,
            context_bytes: self.context_bytes,
            host_bytes: self.host_bytes,
        }
    }

    /// Bytes of a context's device allocations, which are never evicted.
    pub fn device_bytes_of(&self, context: ContextId) -> u64 {
        let own = self.buffers.values().filter(|b| b.context == context && b.kind == AllocKind::Device);
        own.map(|b| b.bytes).sum()
    }

    /// Bytes of a context's managed memory on the device, which may be evicted.
    pub fn managed_bytes_of(&self, context: ContextId) -> u64 {
        let own = self.buffers.iter().filter(|(_, b)| b.context == context && b.kind != AllocKind::Device);
        own.map(|(&alloc, _)| self.resident_bytes(alloc)).sum()
    }

    /// Most host memory so far behind managed allocations, in bytes.
    pub fn host_bytes_max(&self) -> u64 {
        self.host_bytes_max
    }

    fn free(&self) -> u64 {
        self.capacity - self.context_bytes - self.device_bytes - self.managed_bytes
    }

    /// A number that changes whenever a resident block leaves the device.
    pub fn departures(&self) -> u64 {
        self.departures
    }

    /// True if the order of eviction depends on use.
    pub fn follows_use(&self) -> bool {
        self.eviction == Eviction::Used
    }

    pub fn buffer(&self, alloc: AllocId) -> Option<&Buffer> {
        self.buffers.get(&alloc)
    }

    /// Makes room for memory that is never evicted, by evicting managed blocks (specification S-513).
    fn pin(&mut self, bytes: u64) -> Result<Evicted, ModelError> {
        let evictable = self.free() + self.managed_bytes;
        if bytes > evictable {
            return Err(ModelError::OutOfMemory { wanted: bytes, free: evictable });
        }
        Ok(self.make_room(bytes))
    }

    /// # Errors
    /// Out of memory.
    pub fn context_add(&mut self, bytes: u64) -> Result<Evicted, ModelError> {
        let evicted = self.pin(bytes)?;
        self.context_bytes += bytes;
        Ok(evicted)
    }

    /// Frees a context's memory with all its allocations.
    pub fn context_remove(&mut self, context: ContextId, bytes: u64) {
        let owned: Vec<_> =
            self.buffers.iter().filter(|(_, b)| b.context == context).map(|(&alloc, _)| alloc).collect();
        for alloc in owned {
            self.release(alloc);
        }
        self.context_bytes -= bytes;
    }

    /// # Errors
    /// Out of memory. For managed memory only if the size exceeds the address space.
    pub fn allocate(
        &mut self,
        alloc: AllocId,
        context: ContextId,
        bytes: u64,
        kind: AllocKind,
    ) -> Result<Evicted, ModelError> {
        let blocks = u32::try_from(bytes.div_ceil(BLOCK_BYTES))
            .map_err(|_| ModelError::OutOfMemory { wanted: bytes, free: self.free() })?;
        let mut runs = BTreeMap::new();
        let mut evicted = Evicted::default();
        if kind == AllocKind::Device {
            evicted = self.pin(bytes)?;
            self.device_bytes += bytes;
        } else if blocks > 0 {
            let (place, preferred) = (Place::Nowhere, Preferred::Nowhere);
            runs.insert(0, Run { end: blocks, place, preferred, backed: false });
        }
        self.buffers
            .insert(alloc, Buffer { context, kind, bytes, runs, resident_blocks: 0, was_remote: false });
        Ok(evicted)
    }

    /// Frees an allocation without write-back; false if it is unknown.
    pub fn release(&mut self, alloc: AllocId) -> bool {
        let Some(buffer) = self.buffers.remove(&alloc) else { return false };
        if buffer.kind == AllocKind::Device {
            self.device_bytes -= buffer.bytes;
        }
        for (start, end, run) in buffer.runs(0, buffer.blocks()) {
            if let Place::Device { stamp } = run.place {
                self.fifo.remove(&(stamp, alloc, start));
                self.managed_bytes -= buffer.bytes_of(start, end);
            }
            if run.backed {
                self.host_bytes -= buffer.bytes_of(start, end);
            }
        }
        true
    }

    /// Migrates the missing blocks of `start..end` to the device, evicting the oldest blocks of any process.
    pub fn admit(&mut self, alloc: AllocId, start: u32, end: u32) -> Admitted {
        let mut done = Admitted::default();
        let Some(buffer) = self.buffers.get(&alloc) else { return done };
        let missing: Vec<_> = buffer
            .runs(start, end)
            .filter(|(_, _, run)| migrates(run))
            .map(|(from, to, run)| (from, to, run.place, buffer.bytes_of(from, to)))
            .collect();
        let wanted: u64 = missing.iter().map(|m| m.3).sum();
        done.evicted = self.make_room(wanted);
        let stamp = self.stamp_next;
        self.stamp_next += 1;
        for (from, to, place, bytes) in missing {
            // Only when pinned memory leaves less room than one step: a run migrates as a whole or not at all.
            if bytes > self.free() {
                done.refused_bytes += bytes;
                continue;
            }
            done.blocks += to - from;
            match place {
                Place::Host => done.from_host_bytes += bytes,
                Place::Evicted => {
                    done.from_host_bytes += bytes;
                    done.evicted_before_bytes += bytes;
                }
                _ => done.zeroed_bytes += bytes,
            }
            self.set(alloc, from, to, |run| run.place = Place::Device { stamp });
        }
        done
    }

    /// Records that a kernel or copy on the device used `start..end`: under [`Eviction::Used`] it becomes the youngest.
    pub fn touch(&mut self, alloc: AllocId, start: u32, end: u32) {
        if !self.follows_use() {
            return;
        }
        let stamp = self.stamp_next;
        self.stamp_next += 1;
        self.set(alloc, start, end, |run| {
            if let Place::Device { stamp: last } = &mut run.place {
                *last = stamp;
            }
        });
    }

    /// Moves `start..end` to the host; returns the part that was resident. `keep` false: discards the content.
    pub fn demote(&mut self, alloc: AllocId, start: u32, end: u32, keep: bool) -> Evicted {
        let Some(buffer) = self.buffers.get(&alloc) else { return Evicted::default() };
        let mut left = Evicted::default();
        for (from, to, run) in buffer.runs(start, end) {
            if matches!(run.place, Place::Device { .. }) {
                left.blocks += to - from;
                left.bytes += buffer.bytes_of(from, to);
            }
        }
        let place = if keep { Place::Host } else { Place::Nowhere };
        self.set(alloc, start, end, |run| run.place = place);
        left
    }

    /// Records that the host writes `start..end`: memory that is not on the device is on the host now.
    pub fn write_on_host(&mut self, alloc: AllocId, start: u32, end: u32) {
        self.set(alloc, start, end, |run| {
            if matches!(run.place, Place::Nowhere | Place::Evicted) {
                run.place = Place::Host;
            }
        });
    }

    pub fn resident_bytes(&self, alloc: AllocId) -> u64 {
        let Some(buffer) = self.buffers.get(&alloc) else { return 0 };
        if buffer.kind == AllocKind::Device {
            return buffer.bytes;
        }
        let here = |run: &Run| matches!(run.place, Place::Device { .. });
        buffer
            .runs(0, buffer.blocks())
            .filter(|(_, _, run)| here(run))
            .map(|(a, b, _)| buffer.bytes_of(a, b))
            .sum()
    }

    /// Bytes of `start..end` that would have to be moved from the host.
    pub fn host_bytes(&self, alloc: AllocId, start: u32, end: u32) -> u64 {
        let Some(buffer) = self.buffers.get(&alloc) else { return 0 };
        let on_host =
            buffer.runs(start, end).filter(|(_, _, run)| run.place.has_host_content() && migrates(run));
        on_host.map(|(from, to, _)| buffer.bytes_of(from, to)).sum()
    }

    pub fn prefer(&mut self, alloc: AllocId, start: u32, end: u32, preferred: Preferred) {
        if let Some(buffer) = self.buffers.get_mut(&alloc) {
            buffer.was_remote |= preferred == Preferred::Host;
        }
        self.set(alloc, start, end, |run| run.preferred = preferred);
    }

    /// Evicts from the head of the FIFO until `wanted` bytes are free or nothing is left to evict.
    fn make_room(&mut self, wanted: u64) -> Evicted {
        let mut evicted = Evicted::default();
        while self.free() < wanted {
            let Some((&(_, alloc, start), &end)) = self.fifo.first_key_value() else { break };
            let short = wanted - self.free();
            let blocks = u32::try_from(short.div_ceil(BLOCK_BYTES)).unwrap_or(u32::MAX).min(end - start);
            let bytes = self.buffers[&alloc].bytes_of(start, start + blocks);
            self.set(alloc, start, start + blocks, |run| run.place = Place::Evicted);
            evicted.blocks += blocks;
            evicted.bytes += bytes;
        }
        evicted
    }

    /// Changes every run in `start..end`, keeping FIFO and sums consistent and neighbours merged.
    fn set(&mut self, alloc: AllocId, start: u32, end: u32, change: impl Fn(&mut Run)) {
        let Some(buffer) = self.buffers.get_mut(&alloc) else { return };
        let cut: Vec<_> = {
            let first = buffer.runs.range(..=start).next_back().map_or(start, |(&at, _)| at);
            buffer
                .runs
                .range(first..end)
                .filter(|(_, r)| r.end > start)
                .map(|(&at, &run)| (at, run))
                .collect()
        };
        for (at, run) in cut {
            buffer.runs.remove(&at);
            if let Place::Device { stamp } = run.place {
                self.fifo.remove(&(stamp, alloc, at));
            }
            for (from, to) in
                [(at, start.max(at)), (start.max(at), end.min(run.end)), (end.min(run.end), run.end)]
            {
                if from >= to {
                    continue;
                }
                let mut piece = Run { end: to, ..run };
                if from >= start && to <= end {
                    change(&mut piece);
                    piece.backed |= piece.place.has_host_content();
                    let bytes = buffer.bytes_of(from, to);
                    if piece.backed && !run.backed {
                        self.host_bytes += bytes;
                        self.host_bytes_max = self.host_bytes_max.max(self.host_bytes);
                    }
                    match (run.place, piece.place) {
                        (Place::Device { .. }, Place::Device { .. }) => {}
                        (Place::Device { .. }, _) => {
                            buffer.resident_blocks -= to - from;
                            self.managed_bytes -= bytes;
                            self.departures += 1;
                        }
                        (_, Place::Device { .. }) => {
                            buffer.resident_blocks += to - from;
                            self.managed_bytes += bytes;
                        }
                        _ => {}
                    }
                }
                insert_merged(buffer, &mut self.fifo, alloc, from, piece);
            }
        }
        merge_after(buffer, &mut self.fifo, alloc, end);
    }

    /// Recomputes every sum from the extents.
    ///
    /// # Panics
    /// When a sum is wrong.
    pub fn check(&self) {
        let (mut device, mut managed, mut queued, mut host) = (0, 0, 0, 0);
        for (alloc, buffer) in &self.buffers {
            let mut next = 0;
            let mut resident = 0;
            for (start, end, run) in buffer.runs(0, buffer.blocks()) {
                assert_eq!(start, next, "{alloc:?} has a gap");
                next = end;
                host += if run.backed { buffer.bytes_of(start, end) } else { 0 };
                if let Place::Device { stamp } = run.place {
                    resident += end - start;
                    managed += buffer.bytes_of(start, end);
                    queued += 1;
                    assert_eq!(self.fifo.get(&(stamp, *alloc, start)), Some(&end), "{alloc:?} {start}");
                }
            }
            match buffer.kind {
                AllocKind::Device => device += buffer.bytes,
                AllocKind::Managed => assert_eq!(next, buffer.blocks(), "{alloc:?} ends early"),
            }
            assert_eq!(resident, buffer.resident_blocks, "{alloc:?}");
        }
        assert_eq!((device, managed, queued), (self.device_bytes, self.managed_bytes, self.fifo.len()));
        assert_eq!(host, self.host_bytes);
        assert!(self.context_bytes + device + managed <= self.capacity, "above capacity");
    }
}

/// True if a touch on the device would migrate the run.
pub fn migrates(run: &Run) -> bool {
    !matches!(run.place, Place::Device { .. }) && run.preferred != Preferred::Host
}

type Fifo = BTreeMap<(u64, AllocId, u32), u32>;

fn insert_merged(buffer: &mut Buffer, fifo: &mut Fifo, alloc: AllocId, start: u32, run: Run) {
    let mut start = start;
    if let Some((&at, before)) = buffer.runs.range(..start).next_back()
        && before.end == start
        && (before.place, before.preferred, before.backed) == (run.place, run.preferred, run.backed)
    {
        start = at;
    }
    buffer.runs.insert(start, run);
    if let Place::Device { stamp } = run.place {
        fifo.insert((stamp, alloc, start), run.end);
    }
}

fn merge_after(buffer: &mut Buffer, fifo: &mut Fifo, alloc: AllocId, at: u32) {
    if let Some(&run) = buffer.runs.get(&at) {
        buffer.runs.remove(&at);
        if let Place::Device { stamp } = run.place {
            fifo.remove(&(stamp, alloc, at));
        }
        insert_merged(buffer, fifo, alloc, at, run);
    }
}
