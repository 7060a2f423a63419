//! What the shim asks of the world below it: a CUDA runtime and the host's memory, behind one trait.
//!
//! The real one is [`crate::real::RealRuntime`]; tests use a recording one. Trap: addresses are plain numbers here, so
//! that everything above this boundary is safe code; only the implementation turns them into pointers.

use std::num::NonZeroU32;

/// A CUDA error code (`cudaError_t`), never success. A number and not an enum: a newer runtime may return codes that
/// this build does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CudaError(NonZeroU32);

pub type CudaResult<T> = Result<T, CudaError>;

impl CudaError {
    /// `cudaErrorInvalidValue`.
    pub const INVALID_VALUE: CudaError = CudaError::known(1);
    /// `cudaErrorMemoryAllocation`: what a refused task gets.
    pub const MEMORY_ALLOCATION: CudaError = CudaError::known(2);
    /// `cudaErrorInitializationError`: what a missing runtime or symbol gives.
    pub const INITIALIZATION: CudaError = CudaError::known(3);
    /// `cudaErrorDevicesUnavailable`: no daemon, and the policy is `closed`.
    pub const DEVICES_UNAVAILABLE: CudaError = CudaError::known(46);
    /// `cudaErrorInvalidDevice`.
    pub const INVALID_DEVICE: CudaError = CudaError::known(101);

    const fn known(code: u32) -> CudaError {
        match NonZeroU32::new(code) {
            Some(code) => CudaError(code),
            None => panic!("success is not an error"),
        }
    }

    /// `Err` unless the code is `cudaSuccess`.
    pub fn check(code: u32) -> CudaResult<()> {
        NonZeroU32::new(code).map_or(Ok(()), |code| Err(CudaError(code)))
    }

    pub fn code(self) -> u32 {
        self.0.get()
    }
}

/// Index of a device, as `cudaSetDevice` takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceIndex(pub i32);

/// A stream handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(pub usize);

impl StreamId {
    /// The legacy default stream.
    pub const LEGACY: StreamId = StreamId(0);

    /// 0 and `cudaStreamLegacy` (1); `cudaStreamPerThread` (2) is a stream of its own.
    pub fn is_legacy(self) -> bool {
        self.0 <= 1
    }
}

/// Creation flags of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamFlags(pub u32);

impl StreamFlags {
    /// Waits for the legacy default stream and is waited for by it.
    pub const BLOCKING: StreamFlags = StreamFlags(0);
    pub const NON_BLOCKING: StreamFlags = StreamFlags(1);

    pub fn is_blocking(self) -> bool {
        self.0 & Self::NON_BLOCKING.0 == 0
    }
}

/// Priority of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    Lowest,
    Highest,
    /// As the program asked.
    Exact(i32),
}

/// A range of device or managed addresses, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub start: u64,
    pub bytes: u64,
}

impl Span {
    /// Does `self` hold the whole of `other`? False when `other` wraps round.
    pub fn holds(self, other: Span) -> bool {
        let end = |span: Span| span.start.checked_add(span.bytes);
        matches!((end(self), end(other)), (Some(own), Some(its)) if self.start <= other.start && its <= own)
    }
}

/// `cudaMemcpyKind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyKind(pub u32);

impl CopyKind {
    pub const HOST_TO_HOST: CopyKind = CopyKind(0);
    pub const HOST_TO_DEVICE: CopyKind = CopyKind(1);
    pub const DEVICE_TO_HOST: CopyKind = CopyKind(2);
    pub const DEVICE_TO_DEVICE: CopyKind = CopyKind(3);
    pub const DEFAULT: CopyKind = CopyKind(4);
}

/// How a copy or a memset was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The call without `Async`.
    Blocking,
    On(StreamId),
}

/// `cudaMemcpy` or `cudaMemcpyAsync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    pub dst: u64,
    pub src: u64,
    pub bytes: u64,
    pub kind: CopyKind,
    pub order: Order,
}

/// `cudaMemset` or `cudaMemsetAsync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    pub dst: u64,
    pub value: i32,
    pub bytes: u64,
    pub order: Order,
}

/// How large a task's launches are, as far as its begin knows; 0 = unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    pub blocks: u64,
    pub threads_per_block: u32,
}

impl Geometry {
    pub const UNKNOWN: Geometry = Geometry { blocks: 0, threads_per_block: 0 };
}

/// `cudaLaunchKernel`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Address of the host stub.
    pub stub: usize,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// `void **args`.
    pub args: usize,
    pub shared_bytes: usize,
    pub stream: StreamId,
}

/// Everything the shim needs from below. Each call is what its CUDA namesake is, on the calling thread's device.
pub trait Runtime {
    fn device_count(&self) -> CudaResult<i32>;
    fn set_device(&self, device: DeviceIndex) -> CudaResult<()>;
    fn device_synchronize(&self) -> CudaResult<()>;
    fn device_reset(&self) -> CudaResult<()>;

    /// `cudaMalloc`; `Ok(None)`: the device has no room, and `cudaGetLastError` does not tell of it.
    fn malloc(&self, bytes: u64) -> CudaResult<Option<u64>>;
    fn malloc_managed(&self, bytes: u64, flags: u32) -> CudaResult<u64>;
    fn free(&self, address: u64) -> CudaResult<()>;
    /// `cudaMemAdvise(SetPreferredLocation)`.
    fn prefer_device(&self, span: Span, device: DeviceIndex) -> CudaResult<()>;
    fn prefetch(&self, span: Span, device: DeviceIndex, stream: StreamId) -> CudaResult<()>;

    fn copy(&self, copy: &Copy) -> CudaResult<()>;
    /// Copies between host and managed memory with the CPU.
    fn copy_on_host(&self, dst: u64, src: u64, bytes: u64);
    /// Fills managed memory with the CPU.
    fn fill_on_host(&self, dst: u64, value: u8, bytes: u64);

    fn launch(&self, launch: &Launch) -> CudaResult<()>;
    /// The 8-byte words of a launch's arguments, `sizes` in bytes: where device addresses may be.
    fn argument_words(&self, args: usize, sizes: &[u32]) -> Vec<u64>;

    fn stream_create(&self, flags: StreamFlags, priority: Priority) -> CudaResult<StreamId>;
    fn stream_destroy(&self, stream: StreamId) -> CudaResult<()>;
    fn stream_synchronize(&self, stream: StreamId) -> CudaResult<()>;
    /// Has everything in the stream ended?
    fn stream_query(&self, stream: StreamId) -> CudaResult<bool>;
    /// What comes later on `later` waits for what `earlier` holds now; the host does not wait.
    fn order_streams(&self, earlier: StreamId, later: StreamId) -> CudaResult<()>;
    /// `event`: the handle's value.
    fn event_synchronize(&self, event: usize) -> CudaResult<()>;

    /// Makes the runtime's own last error (`cudaGetLastError`) an out-of-memory error, for programs that look there
    /// and not at the call's result.
    fn provoke_out_of_memory(&self);
}
