//! Public types of the model: operations that can be submitted, and their results.

use serde::{Deserialize, Serialize};

pub use eager_units::Nanos;

/// A process's context on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContextId(pub u64);

/// An allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AllocId(pub u64);

/// A submitted operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OpId(pub u64);

/// Kind of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AllocKind {
    /// `cudaMalloc`: resident from the start, never evicted; may evict managed memory, fails when there is no room.
    Device,
    /// `cudaMallocManaged`: takes device memory only while resident.
    Managed,
}

/// Location of managed bytes, current or wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Location {
    Host,
    /// The device of the submitting context.
    Device,
}

/// A byte range inside an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    pub offset: u64,
    pub bytes: u64,
}

/// Order in which a kernel visits a buffer (specification S-610, S-611).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    Stream,
    Window,
    Diagonal,
    Random,
}

/// A buffer (or part of one) that a kernel touches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Access {
    pub alloc: AllocId,
    /// Touched ranges, ascending and disjoint.
    pub ranges: Vec<Range>,
    pub pattern: Pattern,
    /// Share of each touched 2 MiB block that is used, 0–1.
    pub density: f64,
    pub write: bool,
}

/// A kernel launch (or `launches` equal ones back to back).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// CUDA convention: lower is more urgent; 0 is the default.
    pub priority: i32,
    pub launches: u32,
    pub blocks: u64,
    pub threads_per_block: u32,
    pub shared_bytes_per_block: u32,
    /// 0 if unknown.
    pub registers_per_thread: u32,
    /// DRAM traffic of one launch.
    pub dram_bytes: u64,
    pub flops32: u64,
    pub flops64: u64,
    pub accesses: Vec<Access>,
}

/// An operation that a context submits to its device. The caller keeps the order within a stream: an operation starts
/// when it is submitted and the engine it needs is free.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Op {
    Kernel(Kernel),
    CopyToDevice {
        alloc: AllocId,
        range: Range,
        pinned: bool,
    },
    CopyToHost {
        alloc: AllocId,
        range: Range,
        pinned: bool,
    },
    CopyOnDevice {
        from: AllocId,
        from_range: Range,
        to: AllocId,
        to_offset: u64,
    },
    Fill {
        alloc: AllocId,
        range: Range,
    },
    Prefetch {
        alloc: AllocId,
        range: Range,
        to: Location,
    },
    /// The host reads or writes managed memory: resident pages fault back.
    HostAccess {
        alloc: AllocId,
        range: Range,
    },
    /// The host reads or writes managed memory with its own loads and stores. Only the pages' return takes modelled
    /// time.
    HostFault {
        alloc: AllocId,
        range: Range,
    },
}

/// A new context or allocation, and the operation at whose end it may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made<T> {
    pub id: T,
    /// Completes like any other operation; `None`: ready at once.
    pub ready: Option<OpId>,
}

/// The end of an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    pub op: OpId,
    pub context: ContextId,
    pub at: Nanos,
    pub stats: OpStats,
}

/// Bytes of managed memory that changed sides, by cause. Plain copies into and out of device memory are not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Moved {
    /// To the device by prefetch, for the first time since the host wrote them.
    pub prefetched_bytes: u64,
    /// To the device by prefetch, after an eviction had moved them to the host.
    pub refetched_bytes: u64,
    /// To the device because a kernel, fill or copy there touched them: demand faults, first or repeated.
    pub faulted_bytes: u64,
    /// To the host to make room.
    pub evicted_bytes: u64,
    /// To the host because the host touched or prefetched them.
    pub returned_bytes: u64,
}

impl Moved {
    /// Cost of over-subscription in bytes, both directions: faults, evictions, and prefetches of evicted memory.
    pub fn paged_bytes(&self) -> u64 {
        self.faulted_bytes.saturating_add(self.refetched_bytes).saturating_add(self.evicted_bytes)
    }
}

impl std::ops::AddAssign for Moved {
    fn add_assign(&mut self, more: Moved) {
        self.prefetched_bytes = self.prefetched_bytes.saturating_add(more.prefetched_bytes);
        self.refetched_bytes = self.refetched_bytes.saturating_add(more.refetched_bytes);
        self.faulted_bytes = self.faulted_bytes.saturating_add(more.faulted_bytes);
        self.evicted_bytes = self.evicted_bytes.saturating_add(more.evicted_bytes);
        self.returned_bytes = self.returned_bytes.saturating_add(more.returned_bytes);
    }
}

/// Effect of an operation on memory, and how long it held its engine.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct OpStats {
    /// Managed memory that it moved, including evictions that it caused in any process's memory.
    pub moved: Moved,
    pub faulted_blocks: u64,
    pub evicted_blocks: u64,
    /// Time that it would have taken alone, without paging.
    pub work: Nanos,
    /// Time lost to paging.
    pub paging: Nanos,
}

/// Memory of a device as `cudaMemGetInfo` and the ledger's observer see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryInfo {
    pub total: u64,
    /// Bytes not taken by contexts, device allocations or resident managed blocks.
    pub free: u64,
    pub device_bytes: u64,
    pub managed_resident: u64,
    pub context_bytes: u64,
    /// Host memory behind managed allocations: written by the host or filled by an eviction, whether or not the bytes
    /// are on the device now.
    #[serde(default)]
    pub host_bytes: u64,
}

/// Why the model refused a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum ModelError {
    #[error("out of device memory: {wanted} bytes wanted, {free} free and evictable")]
    OutOfMemory { wanted: u64, free: u64 },
    #[error("no such {0}")]
    Unknown(String),
    #[error("range outside the allocation")]
    OutOfRange,
}
