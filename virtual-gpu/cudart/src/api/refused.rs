//! Functions of NVIDIA's runtime that virtual GPUs do not have: each returns `cudaErrorNotSupported` and prints why,
//! once.
//!
//! Trap: the functions must exist. Without them the dynamic loader ends a program that only names one; with the code it
//! can do without them. They take no arguments here, which the C ABI allows to a function that reads none and returns
//! a number, so they need no header: those for OpenGL, EGL and VDPAU include files that a machine without a display
//! lacks.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::log::log_line;
use crate::status::Code;

/// Refuses a call; reports it unless `reported` says that this was done.
fn refuse(call: &str, reason: &str, reported: &AtomicBool) -> Result<(), Code> {
    // Relaxed: only the flag itself is shared.
    if !reported.swap(true, Ordering::Relaxed) {
        log_line(format_args!("{call}: {reason}"));
    }
    Err(Code::cudaErrorNotSupported)
}

/// Declares the exports of refused functions, and `REFUSED`: their names by reason.
macro_rules! refused {
    ($($reason:literal: [$($name:ident $(($suffix:ident))?),* $(,)?])*) => {
        /// Names of the refused functions, without their per-thread variants, by reason.
        pub const REFUSED: &[super::Refused] =
            &[$(super::Refused { reason: $reason, names: &[$(stringify!($name)),*] },)*];

        api! {$($(
            $(#[per_thread($suffix)])?
            fn $name() -> Result<(), crate::status::Code> {
                static REPORTED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
                super::refuse(stringify!($name), $reason, &REPORTED)
            }
        )*)*}
    };
}

/// Functions refused for one reason.
#[derive(Debug, Clone, Copy)]
pub struct Refused {
    pub reason: &'static str,
    pub names: &'static [&'static str],
}

/// Every refused function, by reason; a reason may come twice.
pub fn refused() -> impl Iterator<Item = &'static Refused> {
    #[cfg(cuda_12)]
    let own = only_12::REFUSED;
    #[cfg(not(cuda_12))]
    let own = only_13::REFUSED;
    both::REFUSED.iter().chain(own)
}

pub mod both {
    refused! {
        "virtual GPUs have no OpenGL": [
            cudaGLGetDevices,
            cudaGLMapBufferObject,
            cudaGLMapBufferObjectAsync,
            cudaGLRegisterBufferObject,
            cudaGLSetBufferObjectMapFlags,
            cudaGLSetGLDevice,
            cudaGLUnmapBufferObject,
            cudaGLUnmapBufferObjectAsync,
            cudaGLUnregisterBufferObject,
            cudaGraphicsGLRegisterBuffer,
            cudaGraphicsGLRegisterImage,
        ]
        "virtual GPUs have no EGL": [
            cudaEGLStreamConsumerAcquireFrame,
            cudaEGLStreamConsumerConnect,
            cudaEGLStreamConsumerConnectWithFlags,
            cudaEGLStreamConsumerDisconnect,
            cudaEGLStreamConsumerReleaseFrame,
            cudaEGLStreamProducerConnect,
            cudaEGLStreamProducerDisconnect,
            cudaEGLStreamProducerPresentFrame,
            cudaEGLStreamProducerReturnFrame,
            cudaEventCreateFromEGLSync,
            cudaGraphicsEGLRegisterImage,
            cudaGraphicsResourceGetMappedEglFrame,
        ]
        "virtual GPUs have no VDPAU": [
            cudaGraphicsVDPAURegisterOutputSurface,
            cudaGraphicsVDPAURegisterVideoSurface,
            cudaVDPAUGetDevice,
            cudaVDPAUSetVDPAUDevice,
        ]
        "virtual GPUs share nothing with graphics": [
            cudaGraphicsMapResources,
            cudaGraphicsResourceGetMappedMipmappedArray,
            cudaGraphicsResourceGetMappedPointer,
            cudaGraphicsResourceSetMapFlags,
            cudaGraphicsSubResourceGetMappedArray,
            cudaGraphicsUnmapResources,
            cudaGraphicsUnregisterResource,
        ]
        "virtual GPUs share no memory and no semaphores with other libraries": [
            cudaDestroyExternalMemory,
            cudaDestroyExternalSemaphore,
            cudaDeviceGetNvSciSyncAttributes,
            cudaExternalMemoryGetMappedBuffer,
            cudaExternalMemoryGetMappedMipmappedArray,
            cudaGraphAddExternalSemaphoresSignalNode,
            cudaGraphAddExternalSemaphoresWaitNode,
            cudaGraphExecExternalSemaphoresSignalNodeSetParams,
            cudaGraphExecExternalSemaphoresWaitNodeSetParams,
            cudaGraphExternalSemaphoresSignalNodeGetParams,
            cudaGraphExternalSemaphoresSignalNodeSetParams,
            cudaGraphExternalSemaphoresWaitNodeGetParams,
            cudaGraphExternalSemaphoresWaitNodeSetParams,
            cudaImportExternalMemory,
            cudaImportExternalSemaphore,
            cudaSignalExternalSemaphoresAsync(ptsz),
            cudaWaitExternalSemaphoresAsync(ptsz),
        ]
        "virtual GPUs share no memory and no events between processes": [
            cudaIpcCloseMemHandle,
            cudaIpcGetEventHandle,
            cudaIpcGetMemHandle,
            cudaIpcOpenEventHandle,
            cudaIpcOpenMemHandle,
            cudaMemPoolExportPointer,
            cudaMemPoolExportToShareableHandle,
            cudaMemPoolImportFromShareableHandle,
            cudaMemPoolImportPointer,
        ]
        "virtual GPUs load no GPU code: kernels are CPU code in the program, which eagercc puts there": [
            __cudaRegisterUnifiedTable,
            cudaLibraryEnumerateKernels,
            cudaLibraryGetGlobal,
            cudaLibraryGetKernel,
            cudaLibraryGetKernelCount,
            cudaLibraryGetManaged,
            cudaLibraryGetUnifiedFunction,
            cudaLibraryLoadData,
            cudaLibraryLoadFromFile,
            cudaLibraryUnload,
        ]
        "kernels on virtual GPUs use no variable of the host": [
            __cudaRegisterHostVar,
        ]
        "the table is private to NVIDIA's libraries": [
            cudaGetExportTable,
        ]
        "virtual GPUs have no network cards beside them (GPUDirect)": [
            cudaDeviceFlushGPUDirectRDMAWrites,
        ]
        "virtual GPUs send no notifications": [
            cudaDeviceRegisterAsyncNotification,
            cudaDeviceUnregisterAsyncNotification,
        ]
        "virtual GPUs have no mipmapped arrays: use one array, and one texture, for each level": [
            cudaGetMipmappedArrayLevel,
            cudaMallocMipmappedArray,
            cudaMipmappedArrayGetMemoryRequirements,
            cudaMipmappedArrayGetSparseProperties,
        ]
        "virtual GPUs have no sparse and no planar arrays": [
            cudaArrayGetMemoryRequirements,
            cudaArrayGetPlane,
            cudaArrayGetSparseProperties,
        ]
        "use the call for the kind of the node, such as cudaGraphAddKernelNode": [
            cudaGraphAddNode,
            cudaGraphExecNodeSetParams,
            cudaGraphNodeSetParams,
        ]
        "graphs on virtual GPUs allocate no memory, and own no objects": [
            cudaGraphAddMemAllocNode,
            cudaGraphAddMemFreeNode,
            cudaGraphMemAllocNodeGetParams,
            cudaGraphMemFreeNodeGetParams,
            cudaGraphReleaseUserObject,
            cudaGraphRetainUserObject,
            cudaUserObjectCreate,
            cudaUserObjectRelease,
            cudaUserObjectRetain,
        ]
        "graphs on virtual GPUs have no conditions": [
            cudaGraphConditionalHandleCreate,
        ]
        "kernel nodes on virtual GPUs have no attributes": [
            cudaGraphKernelNodeCopyAttributes,
            cudaGraphKernelNodeGetAttribute,
            cudaGraphKernelNodeSetAttribute,
        ]
        "change the child's nodes before the graph is instantiated": [
            cudaGraphExecChildGraphNodeSetParams,
        ]
        "virtual GPUs do not tell what a node copies": [
            cudaGraphMemcpyNodeGetParams,
        ]
        "use one cudaMemcpy3DAsync for each copy": [
            cudaMemcpy3DBatchAsync(ptsz),
        ]
    }
}

#[cfg(cuda_12)]
pub mod only_12 {
    refused! {
        "virtual GPUs share no memory and no semaphores with other libraries": [
            cudaSignalExternalSemaphoresAsync_v2(ptsz),
            cudaWaitExternalSemaphoresAsync_v2(ptsz),
        ]
        "use the call for the kind of the node, such as cudaGraphAddKernelNode": [
            cudaGraphAddNode_v2,
        ]
        "use one cudaLaunchCooperativeKernel for each device": [
            cudaLaunchCooperativeKernelMultiDevice,
        ]
        "it is the call of CUDA 11, whose structure is older: use cudaGetDeviceProperties_v2": [
            cudaGetDeviceProperties,
        ]
    }
}

#[cfg(not(cuda_12))]
pub mod only_13 {
    refused! {
        "the function is private to NVIDIA's libraries": [
            __cudaGetProcAddress,
        ]
        "atomic operations between virtual GPUs and the host are not modelled": [
            cudaDeviceGetHostAtomicCapabilities,
            cudaDeviceGetP2PAtomicCapabilities,
        ]
        "virtual GPUs keep no log: their messages are on standard error": [
            cudaLogsCurrent,
            cudaLogsDumpToFile,
            cudaLogsDumpToMemory,
            cudaLogsRegisterCallback,
            cudaLogsUnregisterCallback,
        ]
    }
}
