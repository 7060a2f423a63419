//! `cudaDeviceProp` of a virtual device.
//!
//! The structure's size changes with every major CUDA version; 13.0's has 1008 bytes, which is checked below.

use core::ffi::c_int;

use cudarc::runtime::sys::cudaDeviceAttr::{self as Attr, *};
use cudarc::runtime::sys::cudaDeviceProp;
use eager_vgpu_link::DeviceInfo;

use super::attributes::attribute;
use crate::kernel::SHARED_BYTES_PER_BLOCK;

const _: () = assert!(size_of::<cudaDeviceProp>() == 1008);

/// Converts a number to C's `int`; no card comes near its limit.
pub fn int(number: u32) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}

/// A uuid made of the device's number alone: devices of two servers may have the same.
pub fn uuid_of(device: &DeviceInfo) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid[0] = device.index as u8;
    uuid
}

/// Assigns fields from the attributes with their names.
macro_rules! fill {
    ($all:ident, $of:ident: $($field:ident: $attribute:ident,)*) => {
        $($all.$field = $of($attribute);)*
    };
}

/// Fills the structure for one device: each field from its attribute.
pub fn properties(device: &DeviceInfo) -> cudaDeviceProp {
    let of = |attr: Attr| attribute(device, attr as u32).unwrap_or(0);
    // SAFETY: the structure consists of integers and arrays of them, for which zero is a value.
    let mut all: cudaDeviceProp = unsafe { std::mem::zeroed() };
    let name = format!("Eager virtual {}", device.name);
    for (to, from) in all.name.iter_mut().zip(name.bytes().take(255)) {
        *to = from.cast_signed();
    }
    all.uuid.bytes = uuid_of(device).map(u8::cast_signed);
    all.totalGlobalMem = usize::try_from(device.capacity_bytes).unwrap_or(usize::MAX);
    fill!(all, of:
        regsPerBlock: cudaDevAttrMaxRegistersPerBlock,
        warpSize: cudaDevAttrWarpSize,
        maxThreadsPerBlock: cudaDevAttrMaxThreadsPerBlock,
        major: cudaDevAttrComputeCapabilityMajor,
        minor: cudaDevAttrComputeCapabilityMinor,
        multiProcessorCount: cudaDevAttrMultiProcessorCount,
        integrated: cudaDevAttrIntegrated,
        canMapHostMemory: cudaDevAttrCanMapHostMemory,
        concurrentKernels: cudaDevAttrConcurrentKernels,
        ECCEnabled: cudaDevAttrEccEnabled,
        pciBusID: cudaDevAttrPciBusId,
        pciDeviceID: cudaDevAttrPciDeviceId,
        pciDomainID: cudaDevAttrPciDomainId,
        tccDriver: cudaDevAttrTccDriver,
        asyncEngineCount: cudaDevAttrAsyncEngineCount,
        unifiedAddressing: cudaDevAttrUnifiedAddressing,
        memoryBusWidth: cudaDevAttrGlobalMemoryBusWidth,
        l2CacheSize: cudaDevAttrL2CacheSize,
        persistingL2CacheMaxSize: cudaDevAttrMaxPersistingL2CacheSize,
        maxThreadsPerMultiProcessor: cudaDevAttrMaxThreadsPerMultiProcessor,
        streamPrioritiesSupported: cudaDevAttrStreamPrioritiesSupported,
        globalL1CacheSupported: cudaDevAttrGlobalL1CacheSupported,
        localL1CacheSupported: cudaDevAttrLocalL1CacheSupported,
        regsPerMultiprocessor: cudaDevAttrMaxRegistersPerMultiprocessor,
        managedMemory: cudaDevAttrManagedMemory,
        isMultiGpuBoard: cudaDevAttrIsMultiGpuBoard,
        multiGpuBoardGroupID: cudaDevAttrMultiGpuBoardGroupID,
        hostNativeAtomicSupported: cudaDevAttrHostNativeAtomicSupported,
        pageableMemoryAccess: cudaDevAttrPageableMemoryAccess,
        concurrentManagedAccess: cudaDevAttrConcurrentManagedAccess,
        computePreemptionSupported: cudaDevAttrComputePreemptionSupported,
        canUseHostPointerForRegisteredMem: cudaDevAttrCanUseHostPointerForRegisteredMem,
        cooperativeLaunch: cudaDevAttrCooperativeLaunch,
        pageableMemoryAccessUsesHostPageTables: cudaDevAttrPageableMemoryAccessUsesHostPageTables,
        directManagedMemAccessFromHost: cudaDevAttrDirectManagedMemAccessFromHost,
        maxBlocksPerMultiProcessor: cudaDevAttrMaxBlocksPerMultiprocessor,
        accessPolicyMaxWindowSize: cudaDevAttrMaxAccessPolicyWindowSize,
        hostRegisterSupported: cudaDevAttrHostRegisterSupported,
        sparseCudaArraySupported: cudaDevAttrSparseCudaArraySupported,
        hostRegisterReadOnlySupported: cudaDevAttrHostRegisterReadOnlySupported,
        timelineSemaphoreInteropSupported: cudaDevAttrTimelineSemaphoreInteropSupported,
        memoryPoolsSupported: cudaDevAttrMemoryPoolsSupported,
        gpuDirectRDMASupported: cudaDevAttrGPUDirectRDMASupported,
        gpuDirectRDMAWritesOrdering: cudaDevAttrGPUDirectRDMAWritesOrdering,
        deferredMappingCudaArraySupported: cudaDevAttrDeferredMappingCudaArraySupported,
        ipcEventSupported: cudaDevAttrIpcEventSupport,
        clusterLaunch: cudaDevAttrClusterLaunch,
        deviceNumaConfig: cudaDevAttrNumaConfig,
        deviceNumaId: cudaDevAttrNumaId,
        mpsEnabled: cudaDevAttrMpsEnabled,
        hostNumaId: cudaDevAttrHostNumaId,
        hostNumaMultinodeIpcSupported: cudaDevAttrHostNumaMultinodeIpcSupported,
    );
    fill_other_types(&mut all, &of);
    fill_array_sizes(&mut all, &of);
    all
}

/// Fills the fields that are not a single `int`.
fn fill_other_types(all: &mut cudaDeviceProp, of: &dyn Fn(Attr) -> c_int) {
    let bytes = |attr| usize::try_from(of(attr)).unwrap_or(0);
    let flags = |attr| of(attr).cast_unsigned();
    fill!(all, bytes:
        sharedMemPerBlock: cudaDevAttrMaxSharedMemoryPerBlock,
        memPitch: cudaDevAttrMaxPitch,
        totalConstMem: cudaDevAttrTotalConstantMemory,
        textureAlignment: cudaDevAttrTextureAlignment,
        texturePitchAlignment: cudaDevAttrTexturePitchAlignment,
        surfaceAlignment: cudaDevAttrSurfaceAlignment,
        sharedMemPerMultiprocessor: cudaDevAttrMaxSharedMemoryPerMultiprocessor,
        sharedMemPerBlockOptin: cudaDevAttrMaxSharedMemoryPerBlockOptin,
        reservedSharedMemPerBlock: cudaDevAttrReservedSharedMemoryPerBlock,
    );
    fill!(all, flags:
        gpuDirectRDMAFlushWritesOptions: cudaDevAttrGPUDirectRDMAFlushWritesOptions,
        memoryPoolSupportedHandleTypes: cudaDevAttrMemoryPoolSupportedHandleTypes,
        gpuPciDeviceID: cudaDevAttrGpuPciDeviceId,
        gpuPciSubsystemID: cudaDevAttrGpuPciSubsystemId,
    );
    all.maxThreadsDim = [cudaDevAttrMaxBlockDimX, cudaDevAttrMaxBlockDimY, cudaDevAttrMaxBlockDimZ].map(of);
    all.maxGridSize = [cudaDevAttrMaxGridDimX, cudaDevAttrMaxGridDimY, cudaDevAttrMaxGridDimZ].map(of);
}

/// Fills the largest sizes of textures and surfaces.
fn fill_array_sizes(all: &mut cudaDeviceProp, of: &dyn Fn(Attr) -> c_int) {
    all.maxTexture1D = of(cudaDevAttrMaxTexture1DWidth);
    all.maxTexture1DMipmap = of(cudaDevAttrMaxTexture1DMipmappedWidth);
    all.maxTexture2D = [cudaDevAttrMaxTexture2DWidth, cudaDevAttrMaxTexture2DHeight].map(of);
    all.maxTexture2DMipmap =
        [cudaDevAttrMaxTexture2DMipmappedWidth, cudaDevAttrMaxTexture2DMipmappedHeight].map(of);
    all.maxTexture2DLinear = [
        cudaDevAttrMaxTexture2DLinearWidth,
        cudaDevAttrMaxTexture2DLinearHeight,
        cudaDevAttrMaxTexture2DLinearPitch,
    ]
    .map(of);
    all.maxTexture2DGather =
        [cudaDevAttrMaxTexture2DGatherWidth, cudaDevAttrMaxTexture2DGatherHeight].map(of);
    all.maxTexture3D =
        [cudaDevAttrMaxTexture3DWidth, cudaDevAttrMaxTexture3DHeight, cudaDevAttrMaxTexture3DDepth].map(of);
    all.maxTexture3DAlt =
        [cudaDevAttrMaxTexture3DWidthAlt, cudaDevAttrMaxTexture3DHeightAlt, cudaDevAttrMaxTexture3DDepthAlt]
            .map(of);
    all.maxTextureCubemap = of(cudaDevAttrMaxTextureCubemapWidth);
    all.maxTexture1DLayered =
        [cudaDevAttrMaxTexture1DLayeredWidth, cudaDevAttrMaxTexture1DLayeredLayers].map(of);
    all.maxTexture2DLayered = [
        cudaDevAttrMaxTexture2DLayeredWidth,
        cudaDevAttrMaxTexture2DLayeredHeight,
        cudaDevAttrMaxTexture2DLayeredLayers,
    ]
    .map(of);
    all.maxTextureCubemapLayered =
        [cudaDevAttrMaxTextureCubemapLayeredWidth, cudaDevAttrMaxTextureCubemapLayeredLayers].map(of);
    all.maxSurface1D = of(cudaDevAttrMaxSurface1DWidth);
    all.maxSurface2D = [cudaDevAttrMaxSurface2DWidth, cudaDevAttrMaxSurface2DHeight].map(of);
    all.maxSurface3D =
        [cudaDevAttrMaxSurface3DWidth, cudaDevAttrMaxSurface3DHeight, cudaDevAttrMaxSurface3DDepth].map(of);
    all.maxSurface1DLayered =
        [cudaDevAttrMaxSurface1DLayeredWidth, cudaDevAttrMaxSurface1DLayeredLayers].map(of);
    all.maxSurface2DLayered = [
        cudaDevAttrMaxSurface2DLayeredWidth,
        cudaDevAttrMaxSurface2DLayeredHeight,
        cudaDevAttrMaxSurface2DLayeredLayers,
    ]
    .map(of);
    all.maxSurfaceCubemap = of(cudaDevAttrMaxSurfaceCubemapWidth);
    all.maxSurfaceCubemapLayered =
        [cudaDevAttrMaxSurfaceCubemapLayeredWidth, cudaDevAttrMaxSurfaceCubemapLayeredLayers].map(of);
}

/// Shared memory of a block after opting in, which is possible from capability 7.0 on (CUDA C++ programming guide,
/// "Shared Memory").
pub fn shared_opt_in_bytes_max(device: &DeviceInfo) -> u32 {
    if device.compute_capability.0 < 7 {
        return SHARED_BYTES_PER_BLOCK;
    }
    device.shared_bytes_per_sm.saturating_sub(reserved_shared_bytes(device))
}

/// Shared memory of a block that the driver reserves from capability 8.0 on (CUDA C++ programming guide, "Shared
/// Memory").
pub fn reserved_shared_bytes(device: &DeviceInfo) -> u32 {
    if device.compute_capability.0 >= 8 { 1 << 10 } else { 0 }
}
