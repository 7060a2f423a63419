//! `cudaDeviceProp` as CUDA 12 lays it out, filled from that of CUDA 13.
//!
//! Trap: 13.0 dropped fields in the middle, so most offsets differ. Runs of fields that stay 0 are one array here.

use core::ffi::{c_char, c_int, c_uint};

use eager_vgpu_link::DeviceInfo;

use super::properties::properties;

/// `struct cudaDeviceProp` of CUDA 12.9.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_snake_case, reason = "fields are called as in CUDA's header")]
pub struct DeviceProp12 {
    name: [c_char; 256],
    uuid: [c_char; 16],
    luid: [c_char; 8],
    luidDeviceNodeMask: c_uint,
    pub totalGlobalMem: usize,
    sharedMemPerBlock: usize,
    regsPerBlock: c_int,
    warpSize: c_int,
    memPitch: usize,
    maxThreadsPerBlock: c_int,
    maxThreadsDim: [c_int; 3],
    maxGridSize: [c_int; 3],
    clockRate: c_int,
    totalConstMem: usize,
    major: c_int,
    minor: c_int,
    textureAlignment: usize,
    texturePitchAlignment: usize,
    deviceOverlap: c_int,
    multiProcessorCount: c_int,
    kernelExecTimeoutEnabled: c_int,
    integrated: c_int,
    canMapHostMemory: c_int,
    computeMode: c_int,
    /// Sizes of textures and surfaces.
    texture_sizes: [c_int; 40],
    surfaceAlignment: usize,
    concurrentKernels: c_int,
    ECCEnabled: c_int,
    pciBusID: c_int,
    pciDeviceID: c_int,
    pciDomainID: c_int,
    tccDriver: c_int,
    asyncEngineCount: c_int,
    unifiedAddressing: c_int,
    memoryClockRate: c_int,
    memoryBusWidth: c_int,
    l2CacheSize: c_int,
    persistingL2CacheMaxSize: c_int,
    maxThreadsPerMultiProcessor: c_int,
    streamPrioritiesSupported: c_int,
    l1_caches: [c_int; 2],
    sharedMemPerMultiprocessor: usize,
    regsPerMultiprocessor: c_int,
    managedMemory: c_int,
    /// Boards, host atomics, ratio of precisions.
    boards: [c_int; 4],
    pageableMemoryAccess: c_int,
    concurrentManagedAccess: c_int,
    computePreemptionSupported: c_int,
    canUseHostPointerForRegisteredMem: c_int,
    cooperativeLaunch: c_int,
    cooperativeMultiDeviceLaunch: c_int,
    sharedMemPerBlockOptin: usize,
    host_page_tables: [c_int; 2],
    maxBlocksPerMultiProcessor: c_int,
    accessPolicyMaxWindowSize: c_int,
    reservedSharedMemPerBlock: usize,
    hostRegisterSupported: c_int,
    sparse_arrays_to_semaphores: [c_int; 3],
    memoryPoolsSupported: c_int,
    /// Everything behind it.
    rest: [c_int; 71],
}

const _: () = assert!(size_of::<DeviceProp12>() == 1032);
const _: () = assert!(std::mem::offset_of!(DeviceProp12, multiProcessorCount) == 388);
const _: () = assert!(std::mem::offset_of!(DeviceProp12, managedMemory) == 652);
const _: () = assert!(std::mem::offset_of!(DeviceProp12, concurrentManagedAccess) == 676);

/// Fills the structure for one device.
pub fn properties12(device: &DeviceInfo) -> DeviceProp12 {
    let from = properties(device);
    // SAFETY: the structure is made of integers and arrays of them, for which zero is a value.
    let mut to: DeviceProp12 = unsafe { std::mem::zeroed() };
    to.name = from.name;
    to.uuid = from.uuid.bytes;
    to.totalGlobalMem = from.totalGlobalMem;
    to.sharedMemPerBlock = from.sharedMemPerBlock;
    to.regsPerBlock = from.regsPerBlock;
    to.warpSize = from.warpSize;
    to.memPitch = from.memPitch;
    to.maxThreadsPerBlock = from.maxThreadsPerBlock;
    to.maxThreadsDim = from.maxThreadsDim;
    to.maxGridSize = from.maxGridSize;
    to.totalConstMem = from.totalConstMem;
    to.major = from.major;
    to.minor = from.minor;
    to.textureAlignment = from.textureAlignment;
    to.texturePitchAlignment = from.texturePitchAlignment;
    // CUDA 12's older word for at least one copy engine.
    to.deviceOverlap = c_int::from(from.asyncEngineCount > 0);
    to.multiProcessorCount = from.multiProcessorCount;
    to.canMapHostMemory = from.canMapHostMemory;
    to.concurrentKernels = from.concurrentKernels;
    to.pciBusID = from.pciBusID;
    to.asyncEngineCount = from.asyncEngineCount;
    to.unifiedAddressing = from.unifiedAddressing;
    to.maxThreadsPerMultiProcessor = from.maxThreadsPerMultiProcessor;
    to.streamPrioritiesSupported = from.streamPrioritiesSupported;
    to.sharedMemPerMultiprocessor = from.sharedMemPerMultiprocessor;
    to.regsPerMultiprocessor = from.regsPerMultiprocessor;
    to.managedMemory = from.managedMemory;
    to.concurrentManagedAccess = from.concurrentManagedAccess;
    to.cooperativeLaunch = from.cooperativeLaunch;
    to.sharedMemPerBlockOptin = from.sharedMemPerBlockOptin;
    to.maxBlocksPerMultiProcessor = from.maxBlocksPerMultiProcessor;
    to.hostRegisterSupported = from.hostRegisterSupported;
    to.memoryPoolsSupported = from.memoryPoolsSupported;
    to
}
