//! Kernel launches and questions about kernels.
//!
//! Trap: a launch returns before the kernel has run; only what is wrong with the call itself is answered here.

use core::ffi::{c_int, c_void};

use cudarc::runtime::sys::{cudaFuncAttributes, dim3};

use super::{open, put, stream_key};
use crate::device::shared_opt_in_bytes_max;
use crate::kernel::{
    CapturedArgs, Launch, SHARED_BYTES_PER_BLOCK, Shape, THREADS_PER_BLOCK_MAX, kernel, opt_in_shared,
    shared_opt_in_bytes,
};
use crate::memory::{Allocation, Kind};
use crate::runtime::{Runtime, invalid_stream};
use crate::status::{Code, guard, say};

/// # Safety
/// `args` holds a pointer to a value for each parameter of the kernel behind `stub`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLaunchKernel(
    stub: *const c_void,
    grid: dim3,
    block: dim3,
    args: *mut *mut c_void,
    dynamic_shared_bytes: usize,
    stream: *mut c_void,
) -> Code {
    let shape = Shape {
        grid: [grid.x, grid.y, grid.z],
        block: [block.x, block.y, block.z],
        dynamic_shared_bytes: dynamic_shared_bytes as u64,
    };
    // SAFETY: the caller says so.
    guard("cudaLaunchKernel", 0, || unsafe { launch(stub, shape, args.cast_const().cast(), stream) })
}

/// nvcc's newer host code asks for a handle once and launches by it; the handle is the stub.
///
/// # Safety
/// `handle` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaGetKernel(handle: *mut *const c_void, stub: *const c_void) -> Code {
    // SAFETY: the caller says so.
    guard("__cudaGetKernel", 0, || unsafe { put(handle, stub) })
}

/// # Safety
/// As for [`cudaLaunchKernel`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaLaunchKernel(
    handle: *const c_void,
    grid: dim3,
    block: dim3,
    args: *mut *mut c_void,
    dynamic_shared_bytes: usize,
    stream: *mut c_void,
) -> Code {
    // SAFETY: the caller says so.
    unsafe { cudaLaunchKernel(handle, grid, block, args, dynamic_shared_bytes, stream) }
}

/// # Safety
/// As for [`cudaLaunchKernel`].
unsafe fn launch(
    stub: *const c_void,
    shape: Shape,
    args: *const *const c_void,
    stream: *mut c_void,
) -> Result<(), Code> {
    let (runtime, device) = open()?;
    let kernel = kernel(stub)?;
    let shared_bytes_max = SHARED_BYTES_PER_BLOCK.max(shared_opt_in_bytes(stub));
    shape.check(kernel.entry.static_shared_bytes, shared_bytes_max)?;
    let stream = stream_key(stream, device);
    let (stream_device, priority) = runtime.streams.lock().describe(stream).map_err(invalid_stream)?;
    if stream_device != device {
        return Err(Code::cudaErrorInvalidResourceHandle);
    }
    let params = if kernel.entry.param_count == 0 {
        &[][..]
    } else {
        // SAFETY: pointer and count belong together in an entry of this ABI version.
        unsafe { std::slice::from_raw_parts(kernel.entry.params, kernel.entry.param_count as usize) }
    };
    // SAFETY: the caller vouches for `args`.
    let args = unsafe { CapturedArgs::capture(params, args) };
    let launch = Launch { kernel, shape, args, device, priority };
    runtime.enqueue(stream, Vec::new(), move || run(runtime, &launch))?;
    Ok(())
}

/// Runs the kernel on the CPU, then in the model; returns the modelled nanoseconds.
fn run(runtime: &Runtime, launch: &Launch) -> Result<u64, Code> {
    let op = {
        let mut compute = runtime.compute.lock();
        let allocations: Vec<Allocation> = {
            let memory = runtime.memory.lock();
            memory.table.iter().filter(|allocation| allocation.kind != Kind::Pinned).copied().collect()
        };
        let mut profile = runtime.profile.as_ref().map(|profile| profile.lock());
        compute.run(launch, &allocations, profile.as_deref_mut()).map_err(|failure| {
            say(format_args!("kernel {}: {failure}", launch.kernel.name));
            Code::cudaErrorLaunchFailure
        })?
    };
    runtime.run_op(launch.device, op)
}

/// Registers and local memory are not known for CPU code and stay 0.
///
/// # Safety
/// `attributes` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaFuncGetAttributes(
    attributes: *mut cudaFuncAttributes,
    stub: *const c_void,
) -> Code {
    guard("cudaFuncGetAttributes", 0, || {
        let (runtime, device) = open()?;
        let kernel = kernel(stub)?;
        let capability = runtime.device(device)?.compute_capability;
        let version = c_int::try_from(capability.0 * 10 + capability.1).unwrap_or(0);
        // SAFETY: the structure is made of integers, for which zero is a value.
        let mut filled: cudaFuncAttributes = unsafe { std::mem::zeroed() };
        filled.sharedSizeBytes = kernel.entry.static_shared_bytes as usize;
        filled.maxThreadsPerBlock = THREADS_PER_BLOCK_MAX.cast_signed();
        filled.ptxVersion = version;
        filled.binaryVersion = version;
        let shared_bytes_max = SHARED_BYTES_PER_BLOCK.max(shared_opt_in_bytes(stub));
        filled.maxDynamicSharedSizeBytes =
            (shared_bytes_max - kernel.entry.static_shared_bytes).cast_signed();
        // SAFETY: the caller says so.
        unsafe { put(attributes, filled) }
    })
}

/// `cudaFuncAttributeMaxDynamicSharedMemorySize` is obeyed; the carve-out is a hint and has no effect.
#[unsafe(no_mangle)]
pub extern "C" fn cudaFuncSetAttribute(stub: *const c_void, attribute: u32, value: c_int) -> Code {
    const MAX_DYNAMIC_SHARED_MEMORY_SIZE: u32 = 8;
    const PREFERRED_SHARED_MEMORY_CARVEOUT: u32 = 9;
    guard("cudaFuncSetAttribute", 0, || {
        let (runtime, device) = open()?;
        let static_bytes = kernel(stub)?.entry.static_shared_bytes;
        match attribute {
            MAX_DYNAMIC_SHARED_MEMORY_SIZE => {
                let wanted = u32::try_from(value).ok().and_then(|bytes| bytes.checked_add(static_bytes));
                let allowed_bytes = shared_opt_in_bytes_max(runtime.device(device)?);
                let bytes =
                    wanted.filter(|&bytes| bytes <= allowed_bytes).ok_or(Code::cudaErrorInvalidValue)?;
                opt_in_shared(stub, bytes);
                Ok(())
            }
            PREFERRED_SHARED_MEMORY_CARVEOUT => Ok(()),
            _ => Err(Code::cudaErrorInvalidValue),
        }
    })
}

/// A hint without effect here.
#[unsafe(no_mangle)]
pub extern "C" fn cudaFuncSetCacheConfig(stub: *const c_void, _config: u32) -> Code {
    guard("cudaFuncSetCacheConfig", 0, || kernel(stub).map(drop))
}

/// Blocks of a kernel that fit on one multiprocessor, limited by threads, blocks and shared memory; registers are not
/// known for CPU code.
///
/// # Safety
/// `count` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    count: *mut c_int,
    stub: *const c_void,
    threads_per_block: c_int,
    dynamic_shared_bytes: usize,
) -> Code {
    guard("cudaOccupancyMaxActiveBlocksPerMultiprocessor", 0, || {
        let (runtime, device) = open()?;
        let static_bytes = kernel(stub)?.entry.static_shared_bytes as usize;
        let threads = u32::try_from(threads_per_block).ok().filter(|&threads| threads > 0);
        let threads = threads.ok_or(Code::cudaErrorInvalidValue)?;
        let device = runtime.device(device)?;
        let shared_bytes = static_bytes.saturating_add(dynamic_shared_bytes);
        let by_shared = (device.shared_bytes_per_sm as usize).checked_div(shared_bytes).unwrap_or(usize::MAX);
        let by_threads = if threads > THREADS_PER_BLOCK_MAX { 0 } else { device.threads_per_sm / threads };
        let blocks = by_threads.min(device.blocks_per_sm).min(u32::try_from(by_shared).unwrap_or(u32::MAX));
        // SAFETY: the caller says so.
        unsafe { put(count, blocks.cast_signed()) }
    })
}
