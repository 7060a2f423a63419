//! Second names of calls that use a default stream: `…_ptsz` and `…_ptds`.
//!
//! For code compiled with `--default-stream per-thread`, CUDA's headers rename the calls to these, whose default stream
//! is the calling thread's own. Trap: the suffix must change only the meaning of *no* stream (0), not that of a handle.

use core::ffi::{c_char, c_int, c_void};

use cudarc::runtime::sys::{cudaExtent, cudaPitchedPtr, dim3};

use super::copy3d::{Memcpy3DParms, Memcpy3DPeerParms};
use super::graph_exec::InstantiateParams;
use super::launch::LaunchConfig;
#[cfg(cuda_12)]
use super::major12;
use super::managed::MemLocation;
use super::{
    array, capture, copy, copy3d, edge_data, event, fill, graph_exec, launch, managed, pool, settings,
    stream, stream_attribute, symbol,
};
use crate::ffi::{In, KernelArgs, Out};
use crate::status::Code;
use crate::stream::with_own_default_stream;

macro_rules! second_names {
    ($($(#[$when:meta])* $name:ident = $call:path: ($($argument:ident: $type:ty),*);)*) => {$(
        $(#[$when])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) -> Code {
            with_own_default_stream(|| $call($($argument),*))
        }
    )*};
}

type Ptr = *mut c_void;
type ConstPtr = *const c_void;
type Stream = *mut c_void;
type HostFn = Option<extern "C" fn(*mut c_void)>;
type CallbackFn = Option<extern "C" fn(*mut c_void, Code, *mut c_void)>;

second_names! {
    cudaMemcpy_ptds = copy::cudaMemcpy: (to: Ptr, from: ConstPtr, bytes: usize, kind: u32);
    cudaMemcpyAsync_ptsz = copy::cudaMemcpyAsync: (to: Ptr, from: ConstPtr, bytes: usize, kind: u32, stream: Stream);
    cudaMemcpy2D_ptds = copy::cudaMemcpy2D:
        (to: Ptr, to_pitch: usize, from: ConstPtr, from_pitch: usize, width: usize, height: usize, kind: u32);
    cudaMemcpy2DAsync_ptsz = copy::cudaMemcpy2DAsync:
        (to: Ptr, to_pitch: usize, from: ConstPtr, from_pitch: usize, width: usize, height: usize, kind: u32,
         stream: Stream);
    cudaMemcpy3D_ptds = copy3d::cudaMemcpy3D: (parms: In<Memcpy3DParms>);
    cudaMemcpy3DAsync_ptsz = copy3d::cudaMemcpy3DAsync: (parms: In<Memcpy3DParms>, stream: Stream);
    cudaMemcpy3DPeer_ptds = copy3d::cudaMemcpy3DPeer: (parms: In<Memcpy3DPeerParms>);
    cudaMemcpy3DPeerAsync_ptsz = copy3d::cudaMemcpy3DPeerAsync: (parms: In<Memcpy3DPeerParms>, stream: Stream);
    cudaMemset_ptds = fill::cudaMemset: (to: Ptr, value: c_int, bytes: usize);
    cudaMemsetAsync_ptsz = fill::cudaMemsetAsync: (to: Ptr, value: c_int, bytes: usize, stream: Stream);
    cudaMemset2D_ptds = fill::cudaMemset2D: (to: Ptr, pitch: usize, value: c_int, width: usize, height: usize);
    cudaMemset2DAsync_ptsz = fill::cudaMemset2DAsync:
        (to: Ptr, pitch: usize, value: c_int, width: usize, height: usize, stream: Stream);
    cudaMemset3D_ptds = fill::cudaMemset3D: (to: cudaPitchedPtr, value: c_int, extent: cudaExtent);
    cudaMemset3DAsync_ptsz = fill::cudaMemset3DAsync:
        (to: cudaPitchedPtr, value: c_int, extent: cudaExtent, stream: Stream);
    cudaMemcpyToSymbol_ptds = symbol::cudaMemcpyToSymbol:
        (symbol: ConstPtr, from: ConstPtr, bytes: usize, offset: usize, kind: u32);
    cudaMemcpyToSymbolAsync_ptsz = symbol::cudaMemcpyToSymbolAsync:
        (symbol: ConstPtr, from: ConstPtr, bytes: usize, offset: usize, kind: u32, stream: Stream);
    cudaMemcpyFromSymbol_ptds = symbol::cudaMemcpyFromSymbol:
        (to: Ptr, symbol: ConstPtr, bytes: usize, offset: usize, kind: u32);
    cudaMemcpyFromSymbolAsync_ptsz = symbol::cudaMemcpyFromSymbolAsync:
        (to: Ptr, symbol: ConstPtr, bytes: usize, offset: usize, kind: u32, stream: Stream);
    #[cfg(not(cuda_12))]
    cudaMemPrefetchAsync_ptsz = managed::cudaMemPrefetchAsync:
        (pointer: ConstPtr, bytes: usize, location: MemLocation, flags: u32, stream: Stream);
    #[cfg(cuda_12)]
    cudaMemPrefetchAsync_v2_ptsz = managed::cudaMemPrefetchAsync:
        (pointer: ConstPtr, bytes: usize, location: MemLocation, flags: u32, stream: Stream);
    #[cfg(cuda_12)]
    cudaMemPrefetchAsync_ptsz = major12::cudaMemPrefetchAsync:
        (pointer: ConstPtr, bytes: usize, device: c_int, stream: Stream);
    cudaMemcpy2DToArray_ptds = array::cudaMemcpy2DToArray:
        (array: u64, x: usize, y: usize, from: ConstPtr, pitch: usize, width: usize, height: usize, kind: u32);
    cudaMemcpy2DToArrayAsync_ptsz = array::cudaMemcpy2DToArrayAsync:
        (array: u64, x: usize, y: usize, from: ConstPtr, pitch: usize, width: usize, height: usize, kind: u32,
         stream: Stream);
    cudaMemcpy2DFromArray_ptds = array::cudaMemcpy2DFromArray:
        (to: Ptr, pitch: usize, array: u64, x: usize, y: usize, width: usize, height: usize, kind: u32);
    cudaMemcpy2DFromArrayAsync_ptsz = array::cudaMemcpy2DFromArrayAsync:
        (to: Ptr, pitch: usize, array: u64, x: usize, y: usize, width: usize, height: usize, kind: u32,
         stream: Stream);
    cudaMemcpy2DArrayToArray_ptds = array::cudaMemcpy2DArrayToArray:
        (to: u64, to_x: usize, to_y: usize, from: u64, from_x: usize, from_y: usize, width: usize, height: usize,
         kind: u32);
    cudaMemcpyToArray_ptds = array::cudaMemcpyToArray:
        (array: u64, x: usize, y: usize, from: ConstPtr, bytes: usize, kind: u32);
    cudaMemcpyFromArray_ptds = array::cudaMemcpyFromArray:
        (to: Ptr, array: u64, x: usize, y: usize, bytes: usize, kind: u32);

    cudaMemcpyArrayToArray_ptds = array::cudaMemcpyArrayToArray:
        (to: u64, to_x: usize, to_y: usize, from: u64, from_x: usize, from_y: usize, bytes: usize, kind: u32);
    cudaMemcpyToArrayAsync_ptsz = array::cudaMemcpyToArrayAsync:
        (array: u64, x: usize, y: usize, from: ConstPtr, bytes: usize, kind: u32, stream: Stream);
    cudaMemcpyFromArrayAsync_ptsz = array::cudaMemcpyFromArrayAsync:
        (to: Ptr, array: u64, x: usize, y: usize, bytes: usize, kind: u32, stream: Stream);

    cudaMallocAsync_ptsz = pool::cudaMallocAsync: (pointer: Out<Ptr>, bytes: usize, stream: Stream);
    cudaMallocFromPoolAsync_ptsz = pool::cudaMallocFromPoolAsync:
        (pointer: Out<Ptr>, bytes: usize, pool: Ptr, stream: Stream);
    cudaFreeAsync_ptsz = pool::cudaFreeAsync: (pointer: Ptr, stream: Stream);

    cudaLaunchKernel_ptsz = launch::cudaLaunchKernel:
        (stub: ConstPtr, grid: dim3, block: dim3, args: KernelArgs, shared_bytes: usize, stream: Stream);
    __cudaLaunchKernel_ptsz = launch::__cudaLaunchKernel:
        (handle: ConstPtr, grid: dim3, block: dim3, args: KernelArgs, shared_bytes: usize, stream: Stream);
    cudaLaunchCooperativeKernel_ptsz = launch::cudaLaunchCooperativeKernel:
        (stub: ConstPtr, grid: dim3, block: dim3, args: KernelArgs, shared_bytes: usize, stream: Stream);
    cudaLaunchKernelExC_ptsz = launch::cudaLaunchKernelExC:
        (config: In<LaunchConfig>, stub: ConstPtr, args: KernelArgs);

    cudaGraphLaunch_ptsz = graph_exec::cudaGraphLaunch: (exec: u64, stream: Stream);
    cudaGraphUpload_ptsz = graph_exec::cudaGraphUpload: (exec: u64, stream: Stream);
    cudaGraphInstantiateWithParams_ptsz = graph_exec::cudaGraphInstantiateWithParams:
        (exec: Out<u64>, graph: u64, params: Out<InstantiateParams>);
    cudaStreamBeginCapture_ptsz = capture::cudaStreamBeginCapture: (stream: Stream, mode: u32);
    cudaStreamBeginCaptureToGraph_ptsz = capture::cudaStreamBeginCaptureToGraph:
        (stream: Stream, graph: u64, dependencies: In<u64>, data: In<[u8; 8]>, count: usize, mode: u32);
    cudaStreamEndCapture_ptsz = capture::cudaStreamEndCapture: (stream: Stream, graph: Out<u64>);
    cudaStreamIsCapturing_ptsz = capture::cudaStreamIsCapturing: (stream: Stream, status: Out<u32>);
    #[cfg(not(cuda_12))]
    cudaStreamUpdateCaptureDependencies_ptsz = capture::cudaStreamUpdateCaptureDependencies:
        (stream: Stream, dependencies: In<u64>, data: In<[u8; 8]>, count: usize, flags: u32);
    #[cfg(cuda_12)]
    cudaStreamUpdateCaptureDependencies_v2_ptsz = capture::cudaStreamUpdateCaptureDependencies:
        (stream: Stream, dependencies: In<u64>, data: In<[u8; 8]>, count: usize, flags: u32);
    #[cfg(cuda_12)]
    cudaStreamUpdateCaptureDependencies_ptsz = major12::cudaStreamUpdateCaptureDependencies:
        (stream: Stream, dependencies: In<u64>, count: usize, flags: u32);
    #[cfg(not(cuda_12))]
    cudaStreamGetCaptureInfo_ptsz = edge_data::cudaStreamGetCaptureInfo:
        (stream: Stream, status: Out<u32>, id: Out<u64>, graph: Out<u64>, dependencies: Out<*const u64>,
         data: Out<ConstPtr>, count: Out<usize>);
    #[cfg(cuda_12)]
    cudaStreamGetCaptureInfo_v3_ptsz = edge_data::cudaStreamGetCaptureInfo:
        (stream: Stream, status: Out<u32>, id: Out<u64>, graph: Out<u64>, dependencies: Out<*const u64>,
         data: Out<ConstPtr>, count: Out<usize>);
    #[cfg(cuda_12)]
    cudaStreamGetCaptureInfo_v2_ptsz = major12::cudaStreamGetCaptureInfo_v2:
        (stream: Stream, status: Out<u32>, id: Out<u64>, graph: Out<u64>, dependencies: Out<*const u64>,
         count: Out<usize>);

    cudaEventRecord_ptsz = event::cudaEventRecord: (event: Ptr, stream: Stream);
    cudaEventRecordWithFlags_ptsz = event::cudaEventRecordWithFlags: (event: Ptr, stream: Stream, flags: u32);
    cudaStreamWaitEvent_ptsz = stream::cudaStreamWaitEvent: (stream: Stream, event: Ptr, flags: u32);
    cudaStreamSynchronize_ptsz = stream::cudaStreamSynchronize: (stream: Stream);
    cudaStreamQuery_ptsz = stream::cudaStreamQuery: (stream: Stream);
    cudaStreamGetPriority_ptsz = stream::cudaStreamGetPriority: (stream: Stream, priority: Out<c_int>);
    cudaStreamGetFlags_ptsz = stream::cudaStreamGetFlags: (stream: Stream, flags: Out<u32>);
    cudaStreamGetDevice_ptsz = stream::cudaStreamGetDevice: (stream: Stream, device: Out<c_int>);
    cudaStreamGetId_ptsz = stream::cudaStreamGetId: (stream: Stream, id: Out<u64>);
    cudaStreamAttachMemAsync_ptsz = stream::cudaStreamAttachMemAsync:
        (stream: Stream, pointer: Ptr, bytes: usize, flags: u32);
    cudaStreamAddCallback_ptsz = stream::cudaStreamAddCallback:
        (stream: Stream, function: CallbackFn, data: Ptr, flags: u32);
    cudaStreamGetAttribute_ptsz = stream_attribute::cudaStreamGetAttribute:
        (stream: Stream, attribute: u32, value: Out<[u32; 16]>);
    cudaStreamSetAttribute_ptsz = stream_attribute::cudaStreamSetAttribute:
        (stream: Stream, attribute: u32, value: In<[u32; 16]>);
    cudaStreamCopyAttributes_ptsz = stream_attribute::cudaStreamCopyAttributes: (to: Stream, from: Stream);
    cudaGetDriverEntryPoint_ptsz = settings::cudaGetDriverEntryPoint:
        (symbol: *const c_char, function: Out<Ptr>, flags: u64, status: Out<u32>);
    cudaGetDriverEntryPointByVersion_ptsz = settings::cudaGetDriverEntryPointByVersion:
        (symbol: *const c_char, function: Out<Ptr>, version: u32, flags: u64, status: Out<u32>);
    cudaLaunchHostFunc_ptsz = stream::cudaLaunchHostFunc: (stream: Stream, function: HostFn, data: Ptr);
}
