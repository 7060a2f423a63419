//! `cudaDeviceProp` as CUDA 12 lays it out, filled from that of CUDA 13.
//!
//! 13.0 dropped fields in the middle, so most offsets differ.

use core::ffi::{c_char, c_int, c_uint};

use cudarc::runtime::sys::cudaDeviceAttr::*;
use eager_vgpu_link::DeviceInfo;

use super::attributes::attribute;
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
    maxTexture1D: c_int,
    maxTexture1DMipmap: c_int,
    maxTexture1DLinear: c_int,
    maxTexture2D: [c_int; 2],
    maxTexture2DMipmap: [c_int; 2],
    maxTexture2DLinear: [c_int; 3],
    maxTexture2DGather: [c_int; 2],
    maxTexture3D: [c_int; 3],
    maxTexture3DAlt: [c_int; 3],
    maxTextureCubemap: c_int,
    maxTexture1DLayered: [c_int; 2],
    maxTexture2DLayered: [c_int; 3],
    maxTextureCubemapLayered: [c_int; 2],
    maxSurface1D: c_int,
    maxSurface2D: [c_int; 2],
    maxSurface3D: [c_int; 3],
    maxSurface1DLayered: [c_int; 2],
    maxSurface2DLayered: [c_int; 3],
    maxSurfaceCubemap: c_int,
    maxSurfaceCubemapLayered: [c_int; 2],
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
    globalL1CacheSupported: c_int,
    localL1CacheSupported: c_int,
    sharedMemPerMultiprocessor: usize,
    regsPerMultiprocessor: c_int,
    managedMemory: c_int,
    isMultiGpuBoard: c_int,
    multiGpuBoardGroupID: c_int,
    hostNativeAtomicSupported: c_int,
    singleToDoublePrecisionPerfRatio: c_int,
    pageableMemoryAccess: c_int,
    concurrentManagedAccess: c_int,
    computePreemptionSupported: c_int,
    canUseHostPointerForRegisteredMem: c_int,
    cooperativeLaunch: c_int,
    cooperativeMultiDeviceLaunch: c_int,
    sharedMemPerBlockOptin: usize,
    pageableMemoryAccessUsesHostPageTables: c_int,
    directManagedMemAccessFromHost: c_int,
    maxBlocksPerMultiProcessor: c_int,
    accessPolicyMaxWindowSize: c_int,
    reservedSharedMemPerBlock: usize,
    hostRegisterSupported: c_int,
    sparseCudaArraySupported: c_int,
    hostRegisterReadOnlySupported: c_int,
    timelineSemaphoreInteropSupported: c_int,
    memoryPoolsSupported: c_int,
    gpuDirectRDMASupported: c_int,
    gpuDirectRDMAFlushWritesOptions: c_uint,
    gpuDirectRDMAWritesOrdering: c_int,
    memoryPoolSupportedHandleTypes: c_uint,
    deferredMappingCudaArraySupported: c_int,
    ipcEventSupported: c_int,
    clusterLaunch: c_int,
    unifiedFunctionPointers: c_int,
    reserved: [c_int; 63],
}

const _: () = assert!(size_of::<DeviceProp12>() == 1032);
const _: () = assert!(std::mem::offset_of!(DeviceProp12, multiProcessorCount) == 388);
const _: () = assert!(std::mem::offset_of!(DeviceProp12, managedMemory) == 652);
const _: () = assert!(std::mem::offset_of!(DeviceProp12, concurrentManagedAccess) == 676);

/// Copies the fields that both major versions have.
macro_rules! take {
    ($to:ident, $from:ident: $($field:ident)*) => {
        $($to.$field = $from.$field;)*
    };
}

/// Fills the structure for one device.
pub fn properties12(device: &DeviceInfo) -> DeviceProp12 {
    let from = properties(device);
    // SAFETY: the structure consists of integers and arrays of them, for which zero is a value.
    let mut to: DeviceProp12 = unsafe { std::mem::zeroed() };
    to.uuid = from.uuid.bytes;
    take!(to, from:
        name luid luidDeviceNodeMask totalGlobalMem sharedMemPerBlock regsPerBlock warpSize memPitch
        maxThreadsPerBlock maxThreadsDim maxGridSize totalConstMem major minor textureAlignment
        texturePitchAlignment multiProcessorCount integrated canMapHostMemory maxTexture1D maxTexture1DMipmap
        maxTexture2D maxTexture2DMipmap maxTexture2DLinear maxTexture2DGather maxTexture3D maxTexture3DAlt
        maxTextureCubemap maxTexture1DLayered maxTexture2DLayered maxTextureCubemapLayered maxSurface1D
        maxSurface2D maxSurface3D maxSurface1DLayered maxSurface2DLayered maxSurfaceCubemap
        maxSurfaceCubemapLayered surfaceAlignment concurrentKernels ECCEnabled pciBusID pciDeviceID
        pciDomainID tccDriver asyncEngineCount unifiedAddressing memoryBusWidth l2CacheSize
        persistingL2CacheMaxSize maxThreadsPerMultiProcessor streamPrioritiesSupported globalL1CacheSupported
        localL1CacheSupported sharedMemPerMultiprocessor regsPerMultiprocessor managedMemory isMultiGpuBoard
        multiGpuBoardGroupID hostNativeAtomicSupported pageableMemoryAccess concurrentManagedAccess
        computePreemptionSupported canUseHostPointerForRegisteredMem cooperativeLaunch sharedMemPerBlockOptin
        pageableMemoryAccessUsesHostPageTables directManagedMemAccessFromHost maxBlocksPerMultiProcessor
        accessPolicyMaxWindowSize reservedSharedMemPerBlock hostRegisterSupported sparseCudaArraySupported
        hostRegisterReadOnlySupported timelineSemaphoreInteropSupported memoryPoolsSupported
        gpuDirectRDMASupported gpuDirectRDMAFlushWritesOptions gpuDirectRDMAWritesOrdering
        memoryPoolSupportedHandleTypes deferredMappingCudaArraySupported ipcEventSupported clusterLaunch
        unifiedFunctionPointers
    );
    let of = |attr: cudarc::runtime::sys::cudaDeviceAttr| attribute(device, attr as u32).unwrap_or(0);
    to.clockRate = of(cudaDevAttrClockRate);
    to.deviceOverlap = of(cudaDevAttrGpuOverlap);
    to.kernelExecTimeoutEnabled = of(cudaDevAttrKernelExecTimeout);
    to.computeMode = of(cudaDevAttrComputeMode);
    to.maxTexture1DLinear = of(cudaDevAttrMaxTexture1DLinearWidth);
    to.memoryClockRate = of(cudaDevAttrMemoryClockRate);
    to.singleToDoublePrecisionPerfRatio = of(cudaDevAttrSingleToDoublePrecisionPerfRatio);
    to
}
