//! The world below the shim, a CUDA runtime and the host's memory, as one trait.
//!
//! The real implementation is [`crate::real::RealRuntime`]; tests use a recording one. Addresses are plain numbers
//! here, so that everything above this boundary is safe code; only the implementation turns them into pointers.

use crate::pages::Pages;
use eager_proto::hello::Uuid;
use std::num::NonZeroU32;

pub use eager_client::spans::Span;

/// A CUDA error code (`cudaError_t`), never success. A number and not an enum: a newer runtime may return codes that
/// this build does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CudaError(NonZeroU32);

pub type CudaResult<T> = Result<T, CudaError>;

impl CudaError {
    /// `cudaErrorInvalidValue`.
    pub const INVALID_VALUE: CudaError = CudaError::known(1);
    /// `cudaErrorMemoryAllocation`: the error of a refused task.
    pub const MEMORY_ALLOCATION: CudaError = CudaError::known(2);
    /// `cudaErrorInitializationError`: the error of a missing runtime or symbol.
    pub const INITIALIZATION: CudaError = CudaError::known(3);
    /// `cudaErrorInsufficientDriver`: there is no driver, or it is older than the runtime.
    pub const INSUFFICIENT_DRIVER: CudaError = CudaError::known(35);
    /// `cudaErrorDevicesUnavailable`: no daemon, and the policy is `closed`.
    pub const DEVICES_UNAVAILABLE: CudaError = CudaError::known(46);
    /// `cudaErrorNoDevice`.
    pub const NO_DEVICE: CudaError = CudaError::known(100);
    /// `cudaErrorInvalidDevice`.
    pub const INVALID_DEVICE: CudaError = CudaError::known(101);

    /// `cudaErrorNotReady`.
    pub const NOT_READY: CudaError = CudaError::known(600);

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct DeviceIndex(pub i32);

impl DeviceIndex {
    /// A device that the program does not have: CUDA rejects it.
    pub const NONE: DeviceIndex = DeviceIndex(i32::MAX);
}

/// A stream handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(pub usize);

impl StreamId {
    /// The legacy default stream.
    pub const LEGACY: StreamId = StreamId(0);
    /// `cudaStreamPerThread`: the calling thread's own default stream.
    pub const PER_THREAD: StreamId = StreamId(2);

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
    /// The priority that the program requested.
    Exact(i32),
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

/// How a copy or a memset is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// A call without `Async`: in the order of the legacy default stream.
    Blocking,
    /// A call without `Async` in a program with a default stream per thread: in the order of the thread's stream.
    BlockingPerThread,
    On(StreamId),
}

impl Order {
    pub fn blocks(self) -> bool {
        !matches!(self, Order::On(_))
    }
}

/// Rows of a rectangle: their number, and the bytes between rows on each side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    pub count: u64,
    pub dst_pitch: u64,
    pub src_pitch: u64,
}

impl Rows {
    /// A single row, no rectangle.
    pub const ONE: Rows = Rows { count: 1, dst_pitch: 0, src_pitch: 0 };

    /// Bytes from the start of the first to the end of the last of `count` rows of `width` bytes; `None`: no memory
    /// is that large.
    pub fn extent(count: u64, pitch: u64, width: u64) -> Option<u64> {
        let before_last = count.checked_sub(1).map_or(Some(0), |rows| rows.checked_mul(pitch))?;
        before_last.checked_add(if count == 0 { 0 } else { width })
    }
}

/// A copy between linear memory: `cudaMemcpy`, `cudaMemcpy2D` and their `Async` forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    pub dst: u64,
    pub src: u64,
    /// Bytes of each row.
    pub bytes: u64,
    pub rows: Rows,
    pub kind: CopyKind,
    pub order: Order,
}

impl Copy {
    /// The range that the copy writes, with the gaps between rows; `None`: no memory is that large.
    pub fn dst_span(&self) -> Option<Span> {
        let bytes = Rows::extent(self.rows.count, self.rows.dst_pitch, self.bytes)?;
        Some(Span { start: self.dst, bytes })
    }

    /// The range that the copy reads, with the gaps between rows; `None`: no memory is that large.
    pub fn src_span(&self) -> Option<Span> {
        let bytes = Rows::extent(self.rows.count, self.rows.src_pitch, self.bytes)?;
        Some(Span { start: self.src, bytes })
    }
}

/// Host memory of the shim with data that the program wanted copied.
#[derive(Debug)]
pub struct HostCopy(Vec<u8>);

impl HostCopy {
    /// An empty buffer with this capacity; `None`: the host has no room for it.
    pub fn with_room(bytes: u64) -> Option<HostCopy> {
        let mut data = Vec::new();
        data.try_reserve_exact(usize::try_from(bytes).ok()?).ok()?;
        Some(HostCopy(data))
    }

    pub fn data(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    pub fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    pub fn address(&self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }
}

/// `cudaMemset`, `cudaMemset2D` and their `Async` forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    pub dst: u64,
    pub value: i32,
    /// Bytes of each row.
    pub bytes: u64,
    pub rows: u64,
    pub pitch: u64,
}

impl Fill {
    /// The range that the fill writes, with the gaps between rows; `None`: no memory is that large.
    pub fn span(&self) -> Option<Span> {
        let bytes = Rows::extent(self.rows, self.pitch, self.bytes)?;
        Some(Span { start: self.dst, bytes })
    }
}

/// The call that launches a kernel. Handles and addresses are the program's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// `cudaLaunchKernel`.
    Plain,
    /// `cudaLaunchCooperativeKernel`.
    Cooperative,
    /// `cudaLaunchKernelExC` with the configuration at this address.
    Config(usize),
    /// `__cudaLaunchKernel` (nvcc's host code) of this `cudaKernel_t`.
    Handle(usize),
    /// `cudaGraphLaunch` of this `cudaGraphExec_t`.
    Graph(usize),
}

/// A launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    pub how: How,
    /// Address of the host stub, which identifies the kernel. 0 for a graph.
    pub stub: usize,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// `void **args`.
    pub args: usize,
    pub shared_bytes: usize,
    pub stream: StreamId,
}

/// A rectangle of device memory as the runtime laid it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pitched {
    pub start: u64,
    pub pitch: u64,
}

/// Device state that the program set before it had a device, and that every device of its tasks must get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// `cudaFuncSetAttribute`.
    Function { stub: usize, attribute: u32, value: i32 },
    /// `cudaFuncSetCacheConfig`.
    FunctionCache { stub: usize, config: u32 },
    /// `cudaDeviceSetLimit`.
    Limit { limit: u32, value: usize },
    /// `cudaDeviceSetCacheConfig`.
    Cache { config: u32 },
}

/// Everything the shim needs from below. Each method has the effect of the CUDA call of that name, on the calling
/// thread's device.
pub trait Runtime {
    fn device_count(&self) -> CudaResult<i32>;
    /// `None`: the driver does not return it.
    fn device_uuid(&self, _device: DeviceIndex) -> Option<Uuid> {
        None
    }
    /// True if the program, or a library that it uses, has made a context on any device, or where the driver does not
    /// tell.
    fn has_context(&self) -> bool;
    fn set_device(&self, device: DeviceIndex) -> CudaResult<()>;
    fn device_synchronize(&self) -> CudaResult<()>;
    fn device_reset(&self) -> CudaResult<()>;

    /// `cudaMalloc`; `Ok(None)`: the device has no room, and `cudaGetLastError` does not report that.
    fn malloc(&self, bytes: u64) -> CudaResult<Option<u64>>;
    fn malloc_managed(&self, bytes: u64, flags: u32) -> CudaResult<u64>;
    /// `cudaMallocPitch`; `Ok(None)` as for [`Runtime::malloc`].
    fn malloc_pitch(&self, width: u64, height: u64) -> CudaResult<Option<Pitched>>;
    /// `cudaMallocAsync`, or from this pool (`cudaMallocFromPoolAsync`); `Ok(None)` as for [`Runtime::malloc`].
    fn malloc_async(&self, bytes: u64, stream: StreamId, pool: Option<usize>) -> CudaResult<Option<u64>>;
    fn free(&self, address: u64) -> CudaResult<()>;
    /// Bytes that mappings to reserved addresses must be a multiple of on this device; `None`: it maps nothing.
    fn map_granularity(&self, device: DeviceIndex) -> Option<u64>;
    /// Reserves addresses for `bytes` (such a multiple) that take no device memory yet (`cuMemAddressReserve`, or
    /// managed memory).
    fn reserve(&self, bytes: u64) -> CudaResult<Span>;
    /// Frees reserved addresses, with the memory behind them if `is_mapped`; nothing uses them any more.
    fn unreserve(&self, reserved: Span, is_mapped: bool) -> CudaResult<()>;
    /// Puts memory of the device behind reserved addresses (`cuMemCreate`, `cuMemMap`; or moves managed memory
    /// there); `Ok(None)` as for [`Runtime::malloc`].
    fn map_memory(&self, reserved: Span, device: DeviceIndex) -> CudaResult<Option<()>>;
    /// Frees the memory behind reserved addresses with its contents (`cuMemUnmap`, or
    /// `cudaMemDiscardAndPrefetchBatchAsync`). Waits for nothing: no kernel may use it any more.
    fn unmap_memory(&self, reserved: Span) -> CudaResult<()>;
    fn free_async(&self, address: u64, stream: StreamId) -> CudaResult<()>;
    /// `cudaMemAdvise(SetPreferredLocation)`.
    fn prefer_device(&self, span: Span, device: DeviceIndex) -> CudaResult<()>;
    fn prefetch(&self, span: Span, device: DeviceIndex, stream: StreamId) -> CudaResult<()>;

    /// Page-locked host memory; `None`: the host has none left, which `cudaGetLastError` does not report.
    fn malloc_host(&self, bytes: u64) -> Option<u64>;
    /// Pageable, zeroed host memory, in pages of its own; returns its first address.
    fn map_host(&self, bytes: u64) -> CudaResult<u64>;
    /// Frees memory that [`Runtime::map_host`] made. Nothing may use it any more.
    fn unmap_host(&self, memory: Span);
    /// `cudaHostRegister`, for every device.
    fn lock_host(&self, memory: Span) -> CudaResult<()>;
    /// `cudaHostUnregister`.
    fn unlock_host(&self, start: u64) -> CudaResult<()>;
    /// Frees memory that [`Runtime::malloc_host`] made; nothing uses it any more.
    fn free_host(&self, address: u64);
    /// True if this is host memory that the device cannot access by itself; false also if the runtime does not know.
    fn is_pageable(&self, address: u64) -> bool;

    /// Removes managed memory that is not read again from the devices with its contents
    /// (`cudaMemDiscardAndPrefetchBatchAsync`; before CUDA 13 the contents move to the host), and returns when that
    /// is done.
    fn discard(&self, span: Span) -> CudaResult<()>;
    /// Moves managed memory off the devices, and returns when that is done.
    fn move_to_host(&self, span: Span) -> CudaResult<()>;
    /// Moves managed memory onto the device that was the thread's when it was allocated, and returns when that is
    /// done.
    fn move_to_device(&self, span: Span) -> CudaResult<()>;
    /// Reads managed memory that was moved to the host, so that all its pages are mapped for the CPU.
    fn read_on_host(&self, span: Span);
    /// The pages that are mapped for the CPU; `None`: the system does not tell.
    fn pages(&self, span: Span) -> Option<Pages>;

    fn copy(&self, copy: &Copy) -> CudaResult<()>;
    /// Copies between memory that the host can access, by the CPU.
    fn copy_on_host(&self, dst: u64, src: u64, bytes: u64);
    /// Copies the source of a copy into host memory, row by row without gaps; `None`: the host has no room.
    fn keep_source(&self, copy: &Copy) -> Option<HostCopy>;
    /// Fills managed memory by the CPU.
    fn fill_on_host(&self, dst: u64, value: u8, bytes: u64);

    fn launch(&self, launch: &Launch) -> CudaResult<()>;
    /// The 8-byte words of a launch's arguments (`sizes` in bytes), which may hold device addresses.
    fn argument_words(&self, args: usize, sizes: &[u32]) -> Vec<u64>;

    fn stream_create(&self, flags: StreamFlags, priority: Priority) -> CudaResult<StreamId>;
    fn stream_destroy(&self, stream: StreamId) -> CudaResult<()>;
    fn stream_synchronize(&self, stream: StreamId) -> CudaResult<()>;
    /// True if all work in the stream has ended.
    fn stream_query(&self, stream: StreamId) -> CudaResult<bool>;
    /// True if the stream records a graph instead of running work.
    fn stream_is_capturing(&self, stream: StreamId) -> bool;
    /// `cudaStreamWaitEvent`.
    fn stream_wait_event(&self, stream: StreamId, event: usize, flags: u32) -> CudaResult<()>;
    /// Makes later work on `later` wait for the work now on `earlier`; the host does not wait.
    fn order_streams(&self, earlier: StreamId, later: StreamId) -> CudaResult<()>;
    /// Records an event after the work now on the stream, without timing.
    fn record_event(&self, stream: StreamId) -> CudaResult<usize>;
    /// True if the event has completed.
    fn event_query(&self, event: usize) -> CudaResult<bool>;
    fn event_destroy(&self, event: usize);
    /// `event`: the handle's value.
    fn event_synchronize(&self, event: usize) -> CudaResult<()>;

    /// Repeats a call that set something, on this device. Failures are ignored: the program saw them at its own call.
    fn apply(&self, setting: Setting);
    /// Free bytes of the device (`cudaMemGetInfo`).
    fn free_bytes(&self) -> CudaResult<u64>;

    /// Makes the runtime's last error (`cudaGetLastError`) an out-of-memory error, for programs that read it instead
    /// of the call's result.
    fn provoke_out_of_memory(&self);
}
