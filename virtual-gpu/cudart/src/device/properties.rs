//! `cudaDeviceProp` and attributes of a virtual device.
//!
//! Trap: the structure changed its size with every major CUDA version; 13.0's has 1008 bytes, which is checked below.
//! What the card does not say and no program of interest asks for stays 0.

use core::ffi::c_int;

use cudarc::runtime::sys::{cudaDeviceAttr, cudaDeviceProp};
use eager_vgpu_link::DeviceInfo;

use crate::kernel::{BLOCK_MAX, GRID_MAX, SHARED_BYTES_PER_BLOCK, THREADS_PER_BLOCK_MAX};

const _: () = assert!(size_of::<cudaDeviceProp>() == 1008);

const WARP_SIZE: c_int = 32;
/// Constant memory of every card (CUDA C++ programming guide, "Technical Specifications per Compute Capability").
const CONSTANT_BYTES: usize = 64 << 10;
/// One copy engine per direction, as in the model.
const COPY_ENGINES: c_int = 2;

/// Numbers that C keeps in an `int`; no card comes near its limit.
fn int(number: u32) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}

/// The number of the device, and nothing else: two servers' devices have the same.
pub fn uuid_of(device: &DeviceInfo) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid[0] = device.index as u8;
    uuid
}

/// Fills the structure for one device.
pub fn properties(device: &DeviceInfo) -> cudaDeviceProp {
    // SAFETY: the structure is made of integers and arrays of them, for which zero is a value.
    let mut properties: cudaDeviceProp = unsafe { std::mem::zeroed() };
    let name = format!("Eager virtual {}", device.name);
    for (to, from) in properties.name.iter_mut().zip(name.bytes().take(255)) {
        *to = from.cast_signed();
    }
    properties.uuid.bytes = uuid_of(device).map(u8::cast_signed);
    properties.totalGlobalMem = usize::try_from(device.capacity_bytes).unwrap_or(usize::MAX);
    properties.sharedMemPerBlock = SHARED_BYTES_PER_BLOCK as usize;
    properties.sharedMemPerBlockOptin = shared_opt_in_bytes_max(device) as usize;
    properties.sharedMemPerMultiprocessor = device.shared_bytes_per_sm as usize;
    properties.regsPerBlock = int(device.registers_per_sm);
    properties.regsPerMultiprocessor = int(device.registers_per_sm);
    properties.warpSize = WARP_SIZE;
    properties.maxThreadsPerBlock = int(THREADS_PER_BLOCK_MAX);
    properties.maxThreadsDim = BLOCK_MAX.map(int);
    properties.maxGridSize = GRID_MAX.map(int);
    properties.totalConstMem = CONSTANT_BYTES;
    properties.major = int(device.compute_capability.0);
    properties.minor = int(device.compute_capability.1);
    properties.multiProcessorCount = int(device.sms);
    properties.maxThreadsPerMultiProcessor = int(device.threads_per_sm);
    properties.maxBlocksPerMultiProcessor = int(device.blocks_per_sm);
    properties.canMapHostMemory = 1;
    properties.concurrentKernels = 1;
    properties.asyncEngineCount = COPY_ENGINES;
    properties.unifiedAddressing = 1;
    properties.streamPrioritiesSupported = 1;
    properties.managedMemory = 1;
    properties.concurrentManagedAccess = 1;
    properties.memoryPoolsSupported = 1;
    properties.cooperativeLaunch = 1;
    properties.hostRegisterSupported = 1;
    properties.memPitch = i32::MAX as usize;
    properties.textureAlignment = 512;
    properties.texturePitchAlignment = 32;
    properties.pciBusID = int(device.index + 1);
    properties
}

/// Shared memory of a block after opting in; the driver keeps 1 KiB from capability 8.0 on (CUDA C++ programming
/// guide, "Shared Memory").
pub fn shared_opt_in_bytes_max(device: &DeviceInfo) -> u32 {
    let kept_bytes = if device.compute_capability.0 >= 8 { 1 << 10 } else { 0 };
    device.shared_bytes_per_sm.saturating_sub(kept_bytes)
}

/// One attribute by its number, or `None` if the virtual device does not have it.
pub fn attribute(device: &DeviceInfo, number: u32) -> Option<c_int> {
    use cudaDeviceAttr as Attr;
    let all = properties(device);
    let values = [
        (Attr::cudaDevAttrMaxThreadsPerBlock, all.maxThreadsPerBlock),
        (Attr::cudaDevAttrMaxBlockDimX, all.maxThreadsDim[0]),
        (Attr::cudaDevAttrMaxBlockDimY, all.maxThreadsDim[1]),
        (Attr::cudaDevAttrMaxBlockDimZ, all.maxThreadsDim[2]),
        (Attr::cudaDevAttrMaxGridDimX, all.maxGridSize[0]),
        (Attr::cudaDevAttrMaxGridDimY, all.maxGridSize[1]),
        (Attr::cudaDevAttrMaxGridDimZ, all.maxGridSize[2]),
        (Attr::cudaDevAttrMaxSharedMemoryPerBlock, int(SHARED_BYTES_PER_BLOCK)),
        (Attr::cudaDevAttrMaxSharedMemoryPerBlockOptin, int(shared_opt_in_bytes_max(device))),
        (Attr::cudaDevAttrMaxSharedMemoryPerMultiprocessor, int(device.shared_bytes_per_sm)),
        (Attr::cudaDevAttrTotalConstantMemory, int(CONSTANT_BYTES as u32)),
        (Attr::cudaDevAttrWarpSize, all.warpSize),
        (Attr::cudaDevAttrMaxRegistersPerBlock, all.regsPerBlock),
        (Attr::cudaDevAttrMaxRegistersPerMultiprocessor, all.regsPerMultiprocessor),
        (Attr::cudaDevAttrMultiProcessorCount, all.multiProcessorCount),
        (Attr::cudaDevAttrMaxThreadsPerMultiProcessor, all.maxThreadsPerMultiProcessor),
        (Attr::cudaDevAttrMaxBlocksPerMultiprocessor, all.maxBlocksPerMultiProcessor),
        (Attr::cudaDevAttrComputeCapabilityMajor, all.major),
        (Attr::cudaDevAttrComputeCapabilityMinor, all.minor),
        (Attr::cudaDevAttrIntegrated, 0),
        (Attr::cudaDevAttrCanMapHostMemory, 1),
        (Attr::cudaDevAttrConcurrentKernels, 1),
        (Attr::cudaDevAttrAsyncEngineCount, COPY_ENGINES),
        (Attr::cudaDevAttrUnifiedAddressing, 1),
        (Attr::cudaDevAttrStreamPrioritiesSupported, 1),
        (Attr::cudaDevAttrManagedMemory, 1),
        (Attr::cudaDevAttrConcurrentManagedAccess, 1),
        (Attr::cudaDevAttrPageableMemoryAccess, 0),
        (Attr::cudaDevAttrPageableMemoryAccessUsesHostPageTables, 0),
        (Attr::cudaDevAttrDirectManagedMemAccessFromHost, 0),
        (Attr::cudaDevAttrCooperativeLaunch, 1),
        (Attr::cudaDevAttrMemoryPoolsSupported, 1),
        (Attr::cudaDevAttrHostRegisterSupported, 1),
        (Attr::cudaDevAttrCanUseHostPointerForRegisteredMem, 1),
        (Attr::cudaDevAttrMaxPitch, c_int::MAX),
        (Attr::cudaDevAttrTextureAlignment, 512),
        (Attr::cudaDevAttrTexturePitchAlignment, 32),
        (Attr::cudaDevAttrPciBusId, all.pciBusID),
        (Attr::cudaDevAttrPciDeviceId, 0),
        (Attr::cudaDevAttrPciDomainId, 0),
        (Attr::cudaDevAttrComputeMode, 0),
        (Attr::cudaDevAttrEccEnabled, 0),
    ];
    values.iter().find(|(attribute, _)| *attribute as u32 == number).map(|&(_, value)| value)
}
