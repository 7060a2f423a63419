//! Attributes of a virtual device, as `cudaDeviceGetAttribute` and [`super::properties`] report them.
//!
//! Every number that the header of CUDA 13.0 or of 12.9 names has a value, all others have none. Sizes of textures and
//! surfaces are those of arrays (CUDA C++ programming guide, "Technical Specifications per Compute Capability", the
//! same for all cards here). Trap: abilities that the *card* has and this runtime lacks, such as memory pools of other
//! processes, must be denied: programs query them in order to use them. Values that the card's file does not know are
//! 0.

use core::ffi::c_int;

use cudarc::runtime::sys::cudaDeviceAttr::{self as Attr, *};
use eager_vgpu_link::DeviceInfo;

use super::properties::{int, reserved_shared_bytes, shared_opt_in_bytes_max};
use crate::kernel::{BLOCK_MAX, GRID_MAX, SHARED_BYTES_PER_BLOCK, THREADS_PER_BLOCK_MAX};

const WARP_SIZE: c_int = 32;
/// Constant memory of every card (CUDA C++ programming guide, "Technical Specifications per Compute Capability").
const CONSTANT_BYTES: c_int = 64 << 10;
/// One copy engine per direction, as in the model.
const COPY_ENGINES: c_int = 2;
/// Limits of textures in linear memory: 65,000 rows, and this pitch.
const LINEAR_HEIGHT: c_int = 65_000;
const LINEAR_PITCH: c_int = 2_097_120;
/// Value on a system without NUMA nodes.
const NO_NODE: c_int = -1;

/// Value of an attribute by its number; `None` if there is no such attribute.
pub fn attribute(device: &DeviceInfo, number: u32) -> Option<c_int> {
    let by = |values: &[(Attr, c_int)]| {
        values.iter().find(|(attribute, _)| *attribute as u32 == number).map(|&(_, value)| value)
    };
    by(&launches(device))
        .or_else(|| by(&memory(device)))
        .or_else(|| by(&machine(device)))
        .or_else(|| by(TEXTURES))
        .or_else(|| by(SURFACES))
        .or_else(|| ABSENT.iter().any(|attribute| *attribute as u32 == number).then_some(0))
}

/// Limits of launches, and the hardware that runs them.
fn launches(device: &DeviceInfo) -> [(Attr, c_int); 25] {
    let (major, minor) = device.compute_capability;
    [
        (cudaDevAttrMaxThreadsPerBlock, int(THREADS_PER_BLOCK_MAX)),
        (cudaDevAttrMaxBlockDimX, int(BLOCK_MAX[0])),
        (cudaDevAttrMaxBlockDimY, int(BLOCK_MAX[1])),
        (cudaDevAttrMaxBlockDimZ, int(BLOCK_MAX[2])),
        (cudaDevAttrMaxGridDimX, int(GRID_MAX[0])),
        (cudaDevAttrMaxGridDimY, int(GRID_MAX[1])),
        (cudaDevAttrMaxGridDimZ, int(GRID_MAX[2])),
        (cudaDevAttrWarpSize, WARP_SIZE),
        (cudaDevAttrMaxRegistersPerBlock, int(device.registers_per_sm)),
        (cudaDevAttrMaxRegistersPerMultiprocessor, int(device.registers_per_sm)),
        (cudaDevAttrMultiProcessorCount, int(device.sms)),
        (cudaDevAttrMaxThreadsPerMultiProcessor, int(device.threads_per_sm)),
        (cudaDevAttrMaxBlocksPerMultiprocessor, int(device.blocks_per_sm)),
        (cudaDevAttrComputeCapabilityMajor, int(major)),
        (cudaDevAttrComputeCapabilityMinor, int(minor)),
        (cudaDevAttrClockRate, int(device.details.clock_khz)),
        (cudaDevAttrSingleToDoublePrecisionPerfRatio, int(device.single_to_double)),
        (cudaDevAttrConcurrentKernels, 1),
        (cudaDevAttrAsyncEngineCount, COPY_ENGINES),
        // Older name for at least one copy engine.
        (cudaDevAttrGpuOverlap, 1),
        (cudaDevAttrStreamPrioritiesSupported, 1),
        (cudaDevAttrCooperativeLaunch, 1),
        (cudaDevAttrClusterLaunch, c_int::from(major >= 9)),
        (cudaDevAttrComputePreemptionSupported, c_int::from(major >= 6)),
        (cudaDevAttrMemSyncDomainCount, 1),
    ]
}

/// Memory sizes and permitted kinds of access.
fn memory(device: &DeviceInfo) -> [(Attr, c_int); 19] {
    let details = &device.details;
    [
        (cudaDevAttrMaxSharedMemoryPerBlock, int(SHARED_BYTES_PER_BLOCK)),
        (cudaDevAttrMaxSharedMemoryPerBlockOptin, int(shared_opt_in_bytes_max(device))),
        (cudaDevAttrMaxSharedMemoryPerMultiprocessor, int(device.shared_bytes_per_sm)),
        (cudaDevAttrReservedSharedMemoryPerBlock, int(reserved_shared_bytes(device))),
        (cudaDevAttrTotalConstantMemory, CONSTANT_BYTES),
        (cudaDevAttrMaxPitch, c_int::MAX),
        (cudaDevAttrMemoryClockRate, int(details.memory_clock_khz)),
        (cudaDevAttrGlobalMemoryBusWidth, int(details.memory_bus_bits)),
        (cudaDevAttrL2CacheSize, int(details.l2_bytes)),
        (cudaDevAttrGlobalL1CacheSupported, 1),
        (cudaDevAttrLocalL1CacheSupported, 1),
        (cudaDevAttrCanMapHostMemory, 1),
        (cudaDevAttrUnifiedAddressing, 1),
        (cudaDevAttrManagedMemory, 1),
        (cudaDevAttrConcurrentManagedAccess, 1),
        (cudaDevAttrMemoryPoolsSupported, 1),
        (cudaDevAttrHostRegisterSupported, 1),
        (cudaDevAttrCanUseHostPointerForRegisteredMem, 1),
        (cudaDevAttrNumaId, NO_NODE),
    ]
}

/// Position of the device in the machine.
fn machine(device: &DeviceInfo) -> [(Attr, c_int); 3] {
    [
        (cudaDevAttrPciBusId, int(device.index + 1)),
        // One GPU per board, so a group of its own.
        (cudaDevAttrMultiGpuBoardGroupID, int(device.index)),
        (cudaDevAttrHostNumaId, NO_NODE),
    ]
}

const TEXTURES: &[(Attr, c_int)] = &[
    (cudaDevAttrTextureAlignment, 512),
    (cudaDevAttrTexturePitchAlignment, 32),
    (cudaDevAttrMaxTexture1DWidth, 131_072),
    (cudaDevAttrMaxTexture1DMipmappedWidth, 32_768),
    (cudaDevAttrMaxTexture1DLinearWidth, 1 << 28),
    (cudaDevAttrMaxTexture1DLayeredWidth, 32_768),
    (cudaDevAttrMaxTexture1DLayeredLayers, 2048),
    (cudaDevAttrMaxTexture2DWidth, 131_072),
    (cudaDevAttrMaxTexture2DHeight, 65_536),
    (cudaDevAttrMaxTexture2DMipmappedWidth, 32_768),
    (cudaDevAttrMaxTexture2DMipmappedHeight, 32_768),
    (cudaDevAttrMaxTexture2DLinearWidth, 131_072),
    (cudaDevAttrMaxTexture2DLinearHeight, LINEAR_HEIGHT),
    (cudaDevAttrMaxTexture2DLinearPitch, LINEAR_PITCH),
    (cudaDevAttrMaxTexture2DGatherWidth, 32_768),
    (cudaDevAttrMaxTexture2DGatherHeight, 32_768),
    (cudaDevAttrMaxTexture2DLayeredWidth, 32_768),
    (cudaDevAttrMaxTexture2DLayeredHeight, 32_768),
    (cudaDevAttrMaxTexture2DLayeredLayers, 2048),
    (cudaDevAttrMaxTexture3DWidth, 16_384),
    (cudaDevAttrMaxTexture3DHeight, 16_384),
    (cudaDevAttrMaxTexture3DDepth, 16_384),
    (cudaDevAttrMaxTexture3DWidthAlt, 8192),
    (cudaDevAttrMaxTexture3DHeightAlt, 8192),
    (cudaDevAttrMaxTexture3DDepthAlt, 32_768),
    (cudaDevAttrMaxTextureCubemapWidth, 32_768),
    (cudaDevAttrMaxTextureCubemapLayeredWidth, 32_768),
    (cudaDevAttrMaxTextureCubemapLayeredLayers, 2046),
];

const SURFACES: &[(Attr, c_int)] = &[
    (cudaDevAttrSurfaceAlignment, 512),
    (cudaDevAttrMaxSurface1DWidth, 32_768),
    (cudaDevAttrMaxSurface1DLayeredWidth, 32_768),
    (cudaDevAttrMaxSurface1DLayeredLayers, 2048),
    (cudaDevAttrMaxSurface2DWidth, 131_072),
    (cudaDevAttrMaxSurface2DHeight, 65_536),
    (cudaDevAttrMaxSurface2DLayeredWidth, 32_768),
    (cudaDevAttrMaxSurface2DLayeredHeight, 32_768),
    (cudaDevAttrMaxSurface2DLayeredLayers, 2048),
    (cudaDevAttrMaxSurface3DWidth, 16_384),
    (cudaDevAttrMaxSurface3DHeight, 16_384),
    (cudaDevAttrMaxSurface3DDepth, 16_384),
    (cudaDevAttrMaxSurfaceCubemapWidth, 32_768),
    (cudaDevAttrMaxSurfaceCubemapLayeredWidth, 32_768),
    (cudaDevAttrMaxSurfaceCubemapLayeredLayers, 2046),
];

/// Properties and abilities that a virtual device lacks, and numbers that the headers only reserve.
const ABSENT: &[Attr] = &[
    cudaDevAttrKernelExecTimeout,
    cudaDevAttrIntegrated,
    cudaDevAttrComputeMode,
    cudaDevAttrEccEnabled,
    cudaDevAttrPciDeviceId,
    cudaDevAttrTccDriver,
    cudaDevAttrPciDomainId,
    cudaDevAttrIsMultiGpuBoard,
    cudaDevAttrHostNativeAtomicSupported,
    cudaDevAttrPageableMemoryAccess,
    cudaDevAttrReserved92,
    cudaDevAttrReserved93,
    cudaDevAttrReserved94,
    cudaDevAttrReserved96,
    cudaDevAttrCanFlushRemoteWrites,
    cudaDevAttrPageableMemoryAccessUsesHostPageTables,
    cudaDevAttrDirectManagedMemAccessFromHost,
    cudaDevAttrMaxPersistingL2CacheSize,
    cudaDevAttrMaxAccessPolicyWindowSize,
    cudaDevAttrSparseCudaArraySupported,
    cudaDevAttrHostRegisterReadOnlySupported,
    cudaDevAttrTimelineSemaphoreInteropSupported,
    cudaDevAttrGPUDirectRDMASupported,
    cudaDevAttrGPUDirectRDMAFlushWritesOptions,
    cudaDevAttrGPUDirectRDMAWritesOrdering,
    cudaDevAttrMemoryPoolSupportedHandleTypes,
    cudaDevAttrDeferredMappingCudaArraySupported,
    cudaDevAttrReserved122,
    cudaDevAttrReserved123,
    cudaDevAttrReserved124,
    cudaDevAttrIpcEventSupport,
    cudaDevAttrReserved127,
    cudaDevAttrReserved128,
    cudaDevAttrReserved129,
    cudaDevAttrNumaConfig,
    cudaDevAttrReserved132,
    cudaDevAttrMpsEnabled,
    cudaDevAttrD3D12CigSupported,
    cudaDevAttrVulkanCigSupported,
    cudaDevAttrGpuPciDeviceId,
    cudaDevAttrGpuPciSubsystemId,
    cudaDevAttrReserved141,
    cudaDevAttrHostNumaMemoryPoolsSupported,
    cudaDevAttrHostNumaMultinodeIpcSupported,
    cudaDevAttrHostMemoryPoolsSupported,
    cudaDevAttrReserved145,
    cudaDevAttrOnlyPartialHostNativeAtomicSupported,
];
