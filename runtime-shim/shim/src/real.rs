//! [`Runtime`] over the real CUDA runtime: NVIDIA's or the virtual GPU's stand-in, whichever the program has.
//!
//! Trap: a call of the shim's own that leaves an error behind changes what the program reads later; see `quietly`.

use crate::addresses::{HOST, MANAGED_GRANULARITY, Way, drop_managed};
use crate::driver;
use crate::library::{PointerAttributes, Table, missing_call, table};
use crate::pages::{self, Pages};
use crate::runtime::{
    Copy, CudaError, CudaResult, DeviceIndex, HostCopy, How, Launch, Order, Pitched, Priority, Rows, Runtime,
    Setting, Span, StreamFlags, StreamId,
};
use cudarc::runtime::sys::{
    cudaLaunchConfig_t, cudaMemLocation, cudaMemLocationType, cudaMemoryAdvise, cudaStream_t, dim3,
};
use eager_proto::hello::Uuid;
use std::ffi::{c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;

/// `cudaEventDisableTiming`: an event for ordering only.
const EVENT_DISABLE_TIMING: c_uint = 2;
/// `cudaMemAttachGlobal`.
const MANAGED_GLOBAL: u32 = 1;
/// More than any device or host can have, but within the range of a size: fails in every runtime.
const IMPOSSIBLE_BYTES: usize = 1 << 62;

/// Calls a function of the table and checks its code.
macro_rules! call {
    ($self:ident.$name:ident($($argument:expr),*)) => {
        // SAFETY: the arguments have the declared types; pointers are to locals that outlive the call, or addresses
        // that the program passed for this purpose, which the runtime checks or, as without the shim, trusts.
        CudaError::check(unsafe { ($self.table.$name)($($argument),*) })
    };
}

/// [`Runtime`] over the table.
#[derive(Debug)]
pub struct RealRuntime {
    table: &'static Table,
    /// How addresses get memory; determined at the first use.
    way: OnceLock<Option<Way>>,
}

impl RealRuntime {
    /// Loads the runtime's functions.
    pub fn open() -> RealRuntime {
        RealRuntime { table: table(), way: OnceLock::new() }
    }

    /// Makes a call of the shim's own whose failure must not appear in the program's `cudaGetLastError`; even a query
    /// that returns "not ready" leaves an error there. `None`: an error of the program's own is unread, so no call is
    /// made that could overwrite it.
    fn quietly<T>(&self, make: impl FnOnce() -> CudaResult<T>) -> Option<CudaResult<T>> {
        call!(self.cudaPeekAtLastError()).ok()?;
        let result = make();
        if result.is_err() {
            let _ = call!(self.cudaGetLastError());
        }
        Some(result)
    }

    /// Separates "no room" from other failures, and keeps it out of the program's `cudaGetLastError`.
    fn if_room(&self, made: CudaResult<()>) -> CudaResult<Option<()>> {
        match made {
            Err(CudaError::MEMORY_ALLOCATION) => {
                let _ = call!(self.cudaGetLastError());
                Ok(None)
            }
            made => made.map(Some),
        }
    }

    fn way(&self) -> Option<Way> {
        let choose = || self.quietly(|| Ok(Way::choose(self.device_count(), &self.table.memory)));
        *self.way.get_or_init(|| choose()?.ok()?)
    }

    /// Called only after [`Runtime::map_granularity`] found a way.
    fn known_way(&self) -> CudaResult<Way> {
        self.way().ok_or(CudaError::INITIALIZATION)
    }

    /// Runs work on a stream of its own, so that it waits for no kernel, and waits until it is done.
    fn aside(&self, work: impl FnOnce(cudaStream_t) -> CudaResult<()>) -> CudaResult<()> {
        let stream = self.stream_create(StreamFlags::NON_BLOCKING, Priority::Lowest)?;
        let done = self.quietly(|| {
            work(stream_handle(stream))?;
            call!(self.cudaStreamSynchronize(stream_handle(stream)))
        });
        let _ = self.stream_destroy(stream);
        done.unwrap_or(Err(CudaError::NOT_READY))
    }

    /// The runtime's attributes of an address; `None`: unknown.
    fn attributes(&self, pointer: u64) -> Option<PointerAttributes> {
        let ask = self.table.memory.pointer_attributes?;
        let mut attributes = PointerAttributes::default();
        // SAFETY: the function takes these arguments (see `MemoryHints`); it writes to a local that is as large as
        // the longest form of the structure and outlives the call.
        let asked = self.quietly(|| CudaError::check(unsafe { ask(&mut attributes, address(pointer)) }));
        (asked == Some(Ok(()))).then_some(attributes)
    }

    fn make_order(&self, earlier: StreamId, later: StreamId) -> CudaResult<()> {
        let mut event = ptr::null_mut();
        call!(self.cudaEventCreateWithFlags(&mut event, EVENT_DISABLE_TIMING))?;
        let ordered = call!(self.cudaEventRecord(event, stream_handle(earlier)))
            .and_then(|()| call!(self.cudaStreamWaitEvent(stream_handle(later), event, 0)));
        // Destroying an event that is waited for is allowed: CUDA keeps it until it is no longer needed.
        let _ = call!(self.cudaEventDestroy(event));
        ordered
    }
}

/// Result of a quiet query; false if the query was not made.
fn is_done(asked: Option<CudaResult<()>>) -> CudaResult<bool> {
    match asked {
        Some(Ok(())) => Ok(true),
        Some(Err(error)) if error != CudaError::NOT_READY => Err(error),
        Some(Err(_)) | None => Ok(false),
    }
}

fn stream_handle(stream: StreamId) -> cudaStream_t {
    ptr::with_exposed_provenance_mut(stream.0)
}

/// Device and managed addresses come from the runtime as numbers (through the program), so their provenance is
/// exposed.
fn address(value: u64) -> *mut c_void {
    ptr::with_exposed_provenance_mut(value as usize)
}

fn on_device(device: DeviceIndex) -> cudaMemLocation {
    cudaMemLocation { type_: cudaMemLocationType::cudaMemLocationTypeDevice, id: device.0 }
}

impl Runtime for RealRuntime {
    fn device_count(&self) -> CudaResult<i32> {
        let mut count = 0;
        call!(self.cudaGetDeviceCount(&mut count)).map(|()| count)
    }

    fn device_uuid(&self, device: DeviceIndex) -> Option<Uuid> {
        driver::device_uuid(device)
    }

    fn has_context(&self) -> bool {
        let devices = self.device_count().map(|count| 0..count);
        devices.map_or(true, |mut devices| {
            devices.any(|device| driver::has_context(DeviceIndex(device)).unwrap_or(true))
        })
    }

    fn set_device(&self, device: DeviceIndex) -> CudaResult<()> {
        call!(self.cudaSetDevice(device.0))
    }

    fn device_synchronize(&self) -> CudaResult<()> {
        call!(self.cudaDeviceSynchronize())
    }

    fn device_reset(&self) -> CudaResult<()> {
        call!(self.cudaDeviceReset())
    }

    fn malloc(&self, bytes: u64) -> CudaResult<Option<u64>> {
        let mut out = ptr::null_mut();
        let made = call!(self.cudaMalloc(&mut out, bytes as usize));
        self.if_room(made).map(|made| made.map(|()| out.expose_provenance() as u64))
    }

    fn malloc_managed(&self, bytes: u64, flags: u32) -> CudaResult<u64> {
        let mut out = ptr::null_mut();
        call!(self.cudaMallocManaged(&mut out, bytes as usize, flags))
            .map(|()| out.expose_provenance() as u64)
    }

    fn malloc_pitch(&self, width: u64, height: u64) -> CudaResult<Option<Pitched>> {
        let (mut out, mut pitch) = (ptr::null_mut(), 0);
        let made = call!(self.cudaMallocPitch(&mut out, &mut pitch, width as usize, height as usize));
        let made = self.if_room(made)?;
        Ok(made.map(|()| Pitched { start: out.expose_provenance() as u64, pitch: pitch as u64 }))
    }

    fn malloc_async(&self, bytes: u64, stream: StreamId, pool: Option<usize>) -> CudaResult<Option<u64>> {
        let (mut out, bytes, stream) = (ptr::null_mut(), bytes as usize, stream_handle(stream));
        let made = match pool {
            Some(pool) => {
                let pool = ptr::with_exposed_provenance_mut(pool);
                call!(self.cudaMallocFromPoolAsync(&mut out, bytes, pool, stream))
            }
            None => call!(self.cudaMallocAsync(&mut out, bytes, stream)),
        };
        self.if_room(made).map(|made| made.map(|()| out.expose_provenance() as u64))
    }

    fn free(&self, base: u64) -> CudaResult<()> {
        call!(self.cudaFree(address(base)))
    }

    fn map_granularity(&self, device: DeviceIndex) -> Option<u64> {
        match self.way()? {
            Way::Mapped(driver) => driver.granularity(device),
            Way::Managed => Some(MANAGED_GRANULARITY),
        }
    }

    fn reserve(&self, bytes: u64) -> CudaResult<Span> {
        match self.known_way()? {
            Way::Mapped(driver) => driver.reserve(bytes),
            Way::Managed => self
                .quietly(|| self.malloc_managed(bytes, MANAGED_GLOBAL))
                .unwrap_or(Err(CudaError::NOT_READY))
                .map(|start| Span { start, bytes }),
        }
    }

    fn unreserve(&self, reserved: Span, is_mapped: bool) -> CudaResult<()> {
        match self.known_way()? {
            Way::Mapped(driver) => {
                if is_mapped {
                    driver.unmap_memory(reserved)?;
                }
                driver.unreserve(reserved)
            }
            Way::Managed => self.free(reserved.start),
        }
    }

    fn map_memory(&self, reserved: Span, device: DeviceIndex) -> CudaResult<Option<()>> {
        let backed = match self.known_way()? {
            Way::Mapped(driver) => driver.map_memory(reserved, device),
            Way::Managed => self
                .prefer_device(reserved, device)
                .and_then(|()| self.prefetch(reserved, device, StreamId::LEGACY)),
        };
        match backed {
            Err(CudaError::MEMORY_ALLOCATION) => Ok(None),
            backed => backed.map(Some),
        }
    }

    fn unmap_memory(&self, reserved: Span) -> CudaResult<()> {
        match self.known_way()? {
            Way::Mapped(driver) => driver.unmap_memory(reserved),
            Way::Managed => self.discard(reserved),
        }
    }

    fn free_async(&self, base: u64, stream: StreamId) -> CudaResult<()> {
        call!(self.cudaFreeAsync(address(base), stream_handle(stream)))
    }

    fn prefer_device(&self, span: Span, device: DeviceIndex) -> CudaResult<()> {
        let Some(advise) = self.table.memory.advise else { return Ok(()) };
        let advice = cudaMemoryAdvise::cudaMemAdviseSetPreferredLocation;
        let (start, bytes) = (address(span.start), span.bytes as usize);
        // SAFETY: the function takes these arguments (see `MemoryHints`); the runtime checks the range.
        let advised =
            self.quietly(|| CudaError::check(unsafe { advise(start, bytes, advice, on_device(device)) }));
        advised.unwrap_or(Ok(()))
    }

    fn prefetch(&self, span: Span, device: DeviceIndex, stream: StreamId) -> CudaResult<()> {
        let Some(prefetch) = self.table.memory.prefetch else { return Ok(()) };
        let (start, bytes) = (address(span.start), span.bytes as usize);
        let (location, stream) = (on_device(device), stream_handle(stream));
        // SAFETY: the function takes these arguments (see `MemoryHints`); the runtime checks the range.
        self.quietly(|| CudaError::check(unsafe { prefetch(start, bytes, location, 0, stream) }))
            .unwrap_or(Ok(()))
    }

    fn malloc_host(&self, bytes: u64) -> Option<u64> {
        let allocate = self.table.memory.malloc_host?;
        let mut out = ptr::null_mut();
        // SAFETY: the function takes these arguments (see `MemoryHints`); it writes to a local that outlives the
        // call.
        self.quietly(|| CudaError::check(unsafe { allocate(&mut out, bytes as usize) }))?.ok()?;
        Some(out.expose_provenance() as u64)
    }

    fn free_host(&self, base: u64) {
        let Some(free) = self.table.memory.free_host else { return };
        // SAFETY: the function takes this argument (see `MemoryHints`), given what `malloc_host` returned and no copy
        // uses.
        let _ = self.quietly(|| CudaError::check(unsafe { free(address(base)) }));
    }

    fn map_host(&self, bytes: u64) -> CudaResult<u64> {
        // SAFETY: a new anonymous private mapping, at an address of the kernel's choice.
        let mapped = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(CudaError::MEMORY_ALLOCATION);
        }
        Ok(mapped.expose_provenance() as u64)
    }

    fn unmap_host(&self, memory: Span) {
        // SAFETY: a mapping of `map_host` with its size, which the program has just freed.
        unsafe { libc::munmap(address(memory.start), memory.bytes as usize) };
    }

    fn lock_host(&self, memory: Span) -> CudaResult<()> {
        const PORTABLE_AND_MAPPED: c_uint = 3;
        let register = self.table.memory.host_register.ok_or(CudaError::INITIALIZATION)?;
        // SAFETY: the function takes these arguments (see `MemoryHints`), given a whole mapping of `map_host`.
        CudaError::check(unsafe {
            register(address(memory.start), memory.bytes as usize, PORTABLE_AND_MAPPED)
        })
    }

    fn unlock_host(&self, start: u64) -> CudaResult<()> {
        let unregister = self.table.memory.host_unregister.ok_or(CudaError::INITIALIZATION)?;
        // SAFETY: the function takes this argument (see `MemoryHints`), given what `lock_host` registered.
        CudaError::check(unsafe { unregister(address(start)) })
    }

    fn is_pageable(&self, pointer: u64) -> bool {
        self.attributes(pointer).is_some_and(|of| of.kind == PointerAttributes::UNREGISTERED)
    }

    fn discard(&self, span: Span) -> CudaResult<()> {
        let (start, bytes) = (address(span.start), span.bytes as usize);
        self.aside(|stream| drop_managed(&self.table.memory, start, bytes, stream))
    }

    fn move_to_host(&self, span: Span) -> CudaResult<()> {
        let prefetch = self.table.memory.prefetch.ok_or(CudaError::INITIALIZATION)?;
        let (start, bytes) = (address(span.start), span.bytes as usize);
        // SAFETY: the function takes these arguments (see `MemoryHints`); the runtime checks the range.
        self.aside(|stream| CudaError::check(unsafe { prefetch(start, bytes, HOST, 0, stream) }))
    }

    fn move_to_device(&self, span: Span) -> CudaResult<()> {
        let prefetch = self.table.memory.prefetch.ok_or(CudaError::INITIALIZATION)?;
        let (start, bytes) = (address(span.start), span.bytes as usize);
        // Queried in this way because `cudaGetDevice` is not among the functions that programs carry.
        let device = self.attributes(span.start).ok_or(CudaError::INVALID_VALUE)?.device;
        let location = on_device(DeviceIndex(device));
        // SAFETY: the function takes these arguments (see `MemoryHints`); the runtime checks the range.
        self.aside(|stream| CudaError::check(unsafe { prefetch(start, bytes, location, 0, stream) }))
    }

    fn read_on_host(&self, span: Span) {
        for offset in (0..span.bytes).step_by(pages::page_bytes() as usize).chain(span.bytes.checked_sub(1)) {
            // SAFETY: managed memory of that size (the caller allocated it), which the host may read while no kernel
            // runs.
            unsafe { address(span.start + offset).cast::<u8>().read_volatile() };
        }
    }

    fn pages(&self, span: Span) -> Option<Pages> {
        Pages::of(span).ok()
    }

    fn copy(&self, copy: &Copy) -> CudaResult<()> {
        let (dst, src, width) = (address(copy.dst), address(copy.src), copy.bytes as usize);
        let Rows { count, dst_pitch, src_pitch } = copy.rows;
        let (height, dst_pitch, src_pitch) = (count as usize, dst_pitch as usize, src_pitch as usize);
        let stream = match copy.order {
            Order::Blocking => None,
            Order::BlockingPerThread => Some(StreamId::PER_THREAD),
            Order::On(stream) => Some(stream),
        };
        let kind = copy.kind.0;
        match (stream.map(stream_handle), copy.rows == Rows::ONE) {
            (None, true) => call!(self.cudaMemcpy(dst, src, width, kind)),
            (None, false) => call!(self.cudaMemcpy2D(dst, dst_pitch, src, src_pitch, width, height, kind)),
            (Some(stream), true) => call!(self.cudaMemcpyAsync(dst, src, width, kind, stream)),
            (Some(stream), false) => {
                call!(self.cudaMemcpy2DAsync(dst, dst_pitch, src, src_pitch, width, height, kind, stream))
            }
        }?;
        match copy.order {
            Order::BlockingPerThread => self.stream_synchronize(StreamId::PER_THREAD),
            Order::Blocking | Order::On(_) => Ok(()),
        }
    }

    fn copy_on_host(&self, dst: u64, src: u64, bytes: u64) {
        // SAFETY: one side is managed memory of that size (the ledger was checked) or a place of the pinned ring, the
        // other the program's host buffer, which the program vouched for in its `cudaMemcpy`. `ptr::copy`, since both
        // may lie in one allocation.
        unsafe { ptr::copy(address(src).cast::<u8>(), address(dst).cast::<u8>(), bytes as usize) }
    }

    fn keep_source(&self, copy: &Copy) -> Option<HostCopy> {
        let mut kept = HostCopy::with_room(copy.bytes.checked_mul(copy.rows.count)?)?;
        for row in 0..copy.rows.count {
            let start = address(copy.src + row * copy.rows.src_pitch).cast::<u8>();
            // SAFETY: the program's host buffer, of this size, which the program vouched for in its `cudaMemcpy` and
            // which may not be written while the call runs.
            kept.data().extend_from_slice(unsafe { std::slice::from_raw_parts(start, copy.bytes as usize) });
        }
        Some(kept)
    }

    fn fill_on_host(&self, dst: u64, value: u8, bytes: u64) {
        // SAFETY: managed memory of at least that size (the ledger was checked), which no device has touched.
        unsafe { ptr::write_bytes(address(dst).cast::<u8>(), value, bytes as usize) }
    }

    fn launch(&self, launch: &Launch) -> CudaResult<()> {
        let dim = |[x, y, z]: [u32; 3]| dim3 { x, y, z };
        let stub = ptr::with_exposed_provenance(launch.stub);
        let args = ptr::with_exposed_provenance_mut(launch.args);
        let (stream, shared) = (stream_handle(launch.stream), launch.shared_bytes);
        let (grid, block) = (dim(launch.grid), dim(launch.block));
        match launch.how {
            How::Plain => call!(self.cudaLaunchKernel(stub, grid, block, args, shared, stream)),
            How::Cooperative => {
                call!(self.cudaLaunchCooperativeKernel(stub, grid, block, args, shared, stream))
            }
            How::Config(config) => {
                let config: *const cudaLaunchConfig_t = ptr::with_exposed_provenance(config);
                // SAFETY: the program's configuration, passed to be read during its launch.
                let config = cudaLaunchConfig_t { stream, ..unsafe { *config } };
                call!(self.cudaLaunchKernelExC(&config, stub, args))
            }
            How::Handle(kernel) => {
                let kernel = ptr::with_exposed_provenance_mut(kernel);
                let Some(launch) = self.table.memory.launch_handle else {
                    return CudaError::check(missing_call("__cudaLaunchKernel"));
                };
                // SAFETY: the function takes these arguments (see `MemoryHints`), called as the program called it.
                CudaError::check(unsafe { launch(kernel, grid, block, args, shared, stream) })
            }
            How::Graph(graph) => {
                call!(self.cudaGraphLaunch(ptr::with_exposed_provenance_mut(graph), stream))
            }
        }
    }

    fn argument_words(&self, args: usize, sizes: &[u32]) -> Vec<u64> {
        let args: *const *const u8 = ptr::with_exposed_provenance(args);
        if args.is_null() {
            return Vec::new();
        }
        let mut words = Vec::with_capacity(sizes.len());
        for (index, &size) in sizes.iter().enumerate() {
            // SAFETY: `args` has one pointer per kernel argument, and the module's table has one size for each.
            let argument = unsafe { *args.add(index) };
            for offset in (0..(size as usize / 8) * 8).step_by(8).filter(|_| !argument.is_null()) {
                // SAFETY: the argument has `size` bytes, and offset + 8 does not go beyond them; a structure's words
                // need not be aligned.
                words.push(unsafe { argument.add(offset).cast::<u64>().read_unaligned() });
            }
        }
        words
    }

    fn stream_create(&self, flags: StreamFlags, priority: Priority) -> CudaResult<StreamId> {
        let (mut least, mut greatest) = (0, 0);
        if !matches!(priority, Priority::Exact(_)) {
            call!(self.cudaDeviceGetStreamPriorityRange(&mut least, &mut greatest))?;
        }
        // Specification S-210.
        let number = match priority {
            Priority::Lowest => least,
            Priority::Highest => greatest,
            Priority::Exact(number) => number,
        };
        let mut stream = ptr::null_mut();
        call!(self.cudaStreamCreateWithPriority(&mut stream, flags.0, number))
            .map(|()| StreamId(stream.expose_provenance()))
    }

    fn stream_destroy(&self, stream: StreamId) -> CudaResult<()> {
        call!(self.cudaStreamDestroy(stream_handle(stream)))
    }

    fn stream_synchronize(&self, stream: StreamId) -> CudaResult<()> {
        call!(self.cudaStreamSynchronize(stream_handle(stream)))
    }

    fn stream_query(&self, stream: StreamId) -> CudaResult<bool> {
        is_done(self.quietly(|| call!(self.cudaStreamQuery(stream_handle(stream)))))
    }

    fn stream_is_capturing(&self, stream: StreamId) -> bool {
        const NONE: c_uint = 0;
        let mut status = NONE;
        let asked = self.quietly(|| call!(self.cudaStreamIsCapturing(stream_handle(stream), &mut status)));
        asked.is_some_and(|asked| asked.is_ok()) && status != NONE
    }

    fn stream_wait_event(&self, stream: StreamId, event: usize, flags: u32) -> CudaResult<()> {
        let event = ptr::with_exposed_provenance_mut(event);
        call!(self.cudaStreamWaitEvent(stream_handle(stream), event, flags))
    }

    fn order_streams(&self, earlier: StreamId, later: StreamId) -> CudaResult<()> {
        // If an unread error of the program prevents the call, the order must still hold: on this error the caller
        // waits.
        self.quietly(|| self.make_order(earlier, later)).unwrap_or(Err(CudaError::INITIALIZATION))
    }

    fn record_event(&self, stream: StreamId) -> CudaResult<usize> {
        let mut event = ptr::null_mut();
        let recorded = self.quietly(|| {
            call!(self.cudaEventCreateWithFlags(&mut event, EVENT_DISABLE_TIMING))?;
            call!(self.cudaEventRecord(event, stream_handle(stream))).inspect_err(|_| {
                let _ = call!(self.cudaEventDestroy(event));
            })
        });
        recorded.unwrap_or(Err(CudaError::NOT_READY)).map(|()| event.expose_provenance())
    }

    fn event_query(&self, event: usize) -> CudaResult<bool> {
        is_done(self.quietly(|| call!(self.cudaEventQuery(ptr::with_exposed_provenance_mut(event)))))
    }

    fn event_destroy(&self, event: usize) {
        let _ = self.quietly(|| call!(self.cudaEventDestroy(ptr::with_exposed_provenance_mut(event))));
    }

    fn event_synchronize(&self, event: usize) -> CudaResult<()> {
        call!(self.cudaEventSynchronize(ptr::with_exposed_provenance_mut(event)))
    }

    fn apply(&self, setting: Setting) {
        let at = ptr::with_exposed_provenance;
        let _ = self.quietly(|| match setting {
            Setting::Function { stub, attribute, value } => {
                call!(self.cudaFuncSetAttribute(at(stub), attribute, value))
            }
            Setting::FunctionCache { stub, config } => call!(self.cudaFuncSetCacheConfig(at(stub), config)),
            Setting::Limit { limit, value } => call!(self.cudaDeviceSetLimit(limit, value)),
            Setting::Cache { config } => call!(self.cudaDeviceSetCacheConfig(config)),
        });
    }

    fn free_bytes(&self) -> CudaResult<u64> {
        let (mut free, mut total) = (0, 0);
        call!(self.cudaMemGetInfo(&mut free, &mut total)).map(|()| free as u64)
    }

    fn provoke_out_of_memory(&self) {
        let mut out = ptr::null_mut();
        let _ = call!(self.cudaMalloc(&mut out, IMPOSSIBLE_BYTES));
    }
}
