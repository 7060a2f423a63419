//! Queries and attributes of kernels.
//!
//! Registers and local memory are unknown for CPU code; they stay 0 and limit nothing. Trap: a kernel's version must be
//! that of its code, not of the device: CUB uses it to select among the kernels that the program was compiled for.

use core::ffi::{c_char, c_int, c_void};

use cudarc::runtime::sys::cudaFuncAttributes;
use eager_vgpu_link::DeviceInfo;

use super::device::known_device;
use super::open;
use crate::device::shared_opt_in_bytes_max;
use crate::ffi::Out;
use crate::kernel::{
    CpuKernel, SHARED_BYTES_PER_BLOCK, allow_non_portable_clusters, allows_non_portable_clusters, cluster,
    kernel, opt_in_shared, shared_opt_in_bytes,
};
use crate::runtime::Runtime;
use crate::status::Code;

/// Blocks of a kernel that fit on one multiprocessor, limited by threads, blocks and shared memory.
pub fn active_blocks_per_sm(
    device: &DeviceInfo,
    kernel: &CpuKernel,
    threads_per_block: u32,
    dynamic_shared_bytes: u64,
) -> u32 {
    let shared_bytes = dynamic_shared_bytes.saturating_add(u64::from(kernel.entry.static_shared_bytes));
    let by_shared = u64::from(device.shared_bytes_per_sm).checked_div(shared_bytes).unwrap_or(u64::MAX);
    let too_large = threads_per_block == 0 || threads_per_block > kernel.threads_max();
    let by_threads = if too_large { 0 } else { device.threads_per_sm / threads_per_block };
    by_threads.min(device.blocks_per_sm).min(u32::try_from(by_shared).unwrap_or(u32::MAX))
}

fn occupancy(
    count: Out<c_int>,
    stub: *const c_void,
    threads_per_block: c_int,
    dynamic_shared_bytes: usize,
) -> Result<(), Code> {
    let (runtime, device) = open()?;
    let kernel = kernel(stub)?;
    let threads = positive(threads_per_block)?;
    let device = runtime.device(device)?;
    count.put(active_blocks_per_sm(device, &kernel, threads, dynamic_shared_bytes as u64).cast_signed())
}

fn positive(number: c_int) -> Result<u32, Code> {
    u32::try_from(number).ok().filter(|&number| number > 0).ok_or(Code::cudaErrorInvalidValue)
}

/// Sets `cudaFuncAttributeMaxDynamicSharedMemorySize` and the attribute that allows clusters of sixteen blocks; the
/// carve-out and the order of clusters are hints without effect.
fn set_attribute(
    runtime: &Runtime,
    stub: *const c_void,
    attribute: u32,
    value: c_int,
    device: u32,
) -> Result<(), Code> {
    const MAX_DYNAMIC_SHARED_MEMORY_SIZE: u32 = 8;
    const PREFERRED_SHARED_MEMORY_CARVEOUT: u32 = 9;
    const NON_PORTABLE_CLUSTER_SIZE_ALLOWED: u32 = 14;
    const CLUSTER_SCHEDULING_POLICY_PREFERENCE: u32 = 15;
    let static_bytes = kernel(stub)?.entry.static_shared_bytes;
    match attribute {
        MAX_DYNAMIC_SHARED_MEMORY_SIZE => {
            let wanted = u32::try_from(value).ok().and_then(|bytes| bytes.checked_add(static_bytes));
            let allowed_bytes = shared_opt_in_bytes_max(runtime.device(device)?);
            let bytes = wanted.filter(|&bytes| bytes <= allowed_bytes).ok_or(Code::cudaErrorInvalidValue)?;
            opt_in_shared(stub, bytes);
            Ok(())
        }
        NON_PORTABLE_CLUSTER_SIZE_ALLOWED if matches!(value, 0 | 1) => {
            allow_non_portable_clusters(stub, value == 1);
            Ok(())
        }
        CLUSTER_SCHEDULING_POLICY_PREFERENCE if (0..=2).contains(&value) => Ok(()),
        PREFERRED_SHARED_MEMORY_CARVEOUT if (-1..=100).contains(&value) => Ok(()),
        _ => Err(Code::cudaErrorInvalidValue),
    }
}

api!(
    fn cudaFuncGetAttributes(attributes: Out<cudaFuncAttributes>, stub: *const c_void) -> Result<(), Code> {
        let (runtime, device) = open()?;
        let kernel = kernel(stub)?;
        let capability = runtime.device(device)?.compute_capability;
        let version = match kernel.architecture {
            0 => capability.0 * 10 + capability.1,
            known => known,
        };
        let version = c_int::try_from(version).unwrap_or(0);
        // SAFETY: the structure consists of integers, for which zero is a value.
        let mut filled: cudaFuncAttributes = unsafe { std::mem::zeroed() };
        filled.sharedSizeBytes = kernel.entry.static_shared_bytes as usize;
        filled.maxThreadsPerBlock = kernel.threads_max().cast_signed();
        if let Some([x, y, z]) = cluster::unpacked(kernel.entry.cluster) {
            filled.clusterDimMustBeSet = 1;
            filled.requiredClusterWidth = x.cast_signed();
            filled.requiredClusterHeight = y.cast_signed();
            filled.requiredClusterDepth = z.cast_signed();
        }
        filled.nonPortableClusterSizeAllowed = c_int::from(allows_non_portable_clusters(stub));
        filled.ptxVersion = version;
        filled.binaryVersion = version;
        filled.preferredShmemCarveout = -1;
        let shared_bytes_max = SHARED_BYTES_PER_BLOCK.max(shared_opt_in_bytes(stub));
        filled.maxDynamicSharedSizeBytes =
            (shared_bytes_max - kernel.entry.static_shared_bytes).cast_signed();
        attributes.put(filled)
    }

    /// Sets an attribute for all devices, which share them here.
    fn cudaFuncSetAttribute(stub: *const c_void, attribute: u32, value: c_int) -> Result<(), Code> {
        let (runtime, device) = open()?;
        set_attribute(runtime, stub, attribute, value, device)
    }

    /// Sets an attribute like [`cudaFuncSetAttribute`], within the limits of the named device.
    fn cudaKernelSetAttributeForDevice(
        kernel: *const c_void,
        attribute: u32,
        value: c_int,
        device: c_int,
    ) -> Result<(), Code> {
        let (runtime, _) = open()?;
        set_attribute(runtime, kernel, attribute, value, known_device(runtime, device)?)
    }

    /// A hint without effect here.
    fn cudaFuncSetCacheConfig(stub: *const c_void, config: u32) -> Result<(), Code> {
        const PREFER_EQUAL: u32 = 3;
        kernel(stub)?;
        if config <= PREFER_EQUAL { Ok(()) } else { Err(Code::cudaErrorInvalidValue) }
    }

    /// A hint without effect on every card since Maxwell.
    fn cudaFuncSetSharedMemConfig(stub: *const c_void, _config: u32) -> Result<(), Code> {
        kernel(stub).map(drop)
    }

    fn cudaFuncGetName(name: Out<*const c_char>, stub: *const c_void) -> Result<(), Code> {
        name.put(kernel(stub)?.entry.name)
    }

    /// Returns offset and size of one parameter; parameters are laid out as in a GPU's constant bank.
    fn cudaFuncGetParamInfo(
        stub: *const c_void,
        index: usize,
        offset: Out<usize>,
        bytes: Out<usize>,
    ) -> Result<(), Code> {
        let mut end = 0_usize;
        for (position, param) in kernel(stub)?.params().iter().enumerate() {
            let start = end.next_multiple_of((param.align as usize).max(1));
            if position == index {
                bytes.put_if_wanted(param.size as usize);
                return offset.put(start);
            }
            end = start + param.size as usize;
        }
        Err(Code::cudaErrorInvalidValue)
    }

    /// Returns the stub itself, which is the handle everywhere here.
    fn cudaGetFuncBySymbol(function: Out<*const c_void>, stub: *const c_void) -> Result<(), Code> {
        kernel(stub).and_then(|_| function.put(stub))
    }

    /// Returns the stub itself, which is the handle everywhere here.
    fn cudaGetKernel(handle: Out<*const c_void>, stub: *const c_void) -> Result<(), Code> {
        kernel(stub).and_then(|_| handle.put(stub))
    }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        count: Out<c_int>,
        stub: *const c_void,
        threads_per_block: c_int,
        dynamic_shared_bytes: usize,
    ) -> Result<(), Code> {
        occupancy(count, stub, threads_per_block, dynamic_shared_bytes)
    }

    /// Ignores the only flag, which concerns a cache.
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        count: Out<c_int>,
        stub: *const c_void,
        threads_per_block: c_int,
        dynamic_shared_bytes: usize,
        flags: u32,
    ) -> Result<(), Code> {
        const DISABLE_CACHING_OVERRIDE: u32 = 1;
        if flags & !DISABLE_CACHING_OVERRIDE != 0 {
            return Err(Code::cudaErrorInvalidValue);
        }
        occupancy(count, stub, threads_per_block, dynamic_shared_bytes)
    }

    /// Returns the shared memory of a multiprocessor left for each of `blocks` blocks besides the static part.
    fn cudaOccupancyAvailableDynamicSMemPerBlock(
        bytes: Out<usize>,
        stub: *const c_void,
        blocks: c_int,
        threads_per_block: c_int,
    ) -> Result<(), Code> {
        let (runtime, device) = open()?;
        let kernel = kernel(stub)?;
        let (blocks, threads) = (positive(blocks)?, positive(threads_per_block)?);
        let device = runtime.device(device)?;
        if blocks > active_blocks_per_sm(device, &kernel, threads, 0) {
            return Err(Code::cudaErrorInvalidValue);
        }
        let per_block = (device.shared_bytes_per_sm / blocks).min(shared_opt_in_bytes_max(device));
        bytes.put((per_block - kernel.entry.static_shared_bytes.min(per_block)) as usize)
    }
);
