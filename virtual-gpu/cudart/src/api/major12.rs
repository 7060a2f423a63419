//! Calls in the form that only CUDA 12 has: devices by number, edges without data, the old names for threads.
//!
//! Several have the name of a CUDA 13 call with other arguments; the CUDA 13 forms are `_v2` or `_v3` in CUDA 12.

use core::ffi::{c_int, c_void};

use super::batch::{Batch, CopyAttributes, Runs};
use super::capture::{CaptureInfo, capture_info, update_dependencies};
use super::device::{cudaDeviceReset, cudaDeviceSynchronize};
use super::event::cudaEventElapsedTime;
use super::graph::{GraphHandle, NodeHandle, add_edges, dependencies, dependents, edges, remove_edges};
use super::managed::{self, MemLocation};
use super::open;
use super::settings::{
    cudaDeviceGetCacheConfig, cudaDeviceGetLimit, cudaDeviceSetCacheConfig, cudaDeviceSetLimit,
};
use crate::ffi::{In, Out};
use crate::status::Code;

api!(
    extern "C" fn cudaMemAdvise(pointer: *const c_void, bytes: usize, advice: u32, device: c_int) -> Code {
        managed::cudaMemAdvise(pointer, bytes, advice, MemLocation::of_number(device))
    }

    #[per_thread(ptsz)]
    extern "C" fn cudaMemPrefetchAsync(
        pointer: *const c_void,
        bytes: usize,
        device: c_int,
        stream: *mut c_void,
    ) -> Code {
        managed::cudaMemPrefetchAsync(pointer, bytes, MemLocation::of_number(device), 0, stream)
    }

    /// Equal to the older call, except for errors of a missing driver.
    extern "C" fn cudaEventElapsedTime_v2(
        milliseconds: Out<f32>,
        start: *mut c_void,
        end: *mut c_void,
    ) -> Code {
        cudaEventElapsedTime(milliseconds, start, end)
    }

    fn cudaGraphGetEdges(
        graph: GraphHandle,
        from: Out<NodeHandle>,
        to: Out<NodeHandle>,
        count: Out<usize>,
    ) -> Result<(), Code> {
        edges(graph, from, to, count)
    }

    fn cudaGraphNodeGetDependencies(
        node: NodeHandle,
        list: Out<NodeHandle>,
        count: Out<usize>,
    ) -> Result<(), Code> {
        dependencies(node, list, count)
    }

    fn cudaGraphNodeGetDependentNodes(
        node: NodeHandle,
        list: Out<NodeHandle>,
        count: Out<usize>,
    ) -> Result<(), Code> {
        dependents(node, list, count)
    }

    fn cudaGraphAddDependencies(
        graph: GraphHandle,
        from: In<NodeHandle>,
        to: In<NodeHandle>,
        count: usize,
    ) -> Result<(), Code> {
        add_edges(graph, from, to, count)
    }

    fn cudaGraphRemoveDependencies(
        graph: GraphHandle,
        from: In<NodeHandle>,
        to: In<NodeHandle>,
        count: usize,
    ) -> Result<(), Code> {
        remove_edges(graph, from, to, count)
    }

    /// Name to which CUDA 12's header maps `cudaStreamGetCaptureInfo`.
    #[per_thread(ptsz)]
    fn cudaStreamGetCaptureInfo_v2(
        stream: *mut c_void,
        status: Out<u32>,
        id: Out<u64>,
        graph: Out<GraphHandle>,
        dependencies: Out<*const NodeHandle>,
        count: Out<usize>,
    ) -> Result<(), Code> {
        capture_info(stream, CaptureInfo { status, id, graph, dependencies, count })
    }

    /// The form of CUDA 11 and older.
    #[per_thread(ptsz)]
    fn cudaStreamGetCaptureInfo(stream: *mut c_void, status: Out<u32>, id: Out<u64>) -> Result<(), Code> {
        capture_info(
            stream,
            CaptureInfo { status, id, graph: Out::none(), dependencies: Out::none(), count: Out::none() },
        )
    }

    #[per_thread(ptsz)]
    fn cudaStreamUpdateCaptureDependencies(
        stream: *mut c_void,
        dependencies: In<NodeHandle>,
        count: usize,
        flags: u32,
    ) -> Result<(), Code> {
        update_dependencies(stream, dependencies, count, flags)
    }

    extern "C" fn cudaThreadSynchronize() -> Code {
        cudaDeviceSynchronize()
    }

    extern "C" fn cudaThreadExit() -> Code {
        cudaDeviceReset()
    }

    extern "C" fn cudaThreadGetLimit(value: Out<usize>, limit: u32) -> Code {
        cudaDeviceGetLimit(value, limit)
    }

    extern "C" fn cudaThreadSetLimit(limit: u32, value: usize) -> Code {
        cudaDeviceSetLimit(limit, value)
    }

    extern "C" fn cudaThreadGetCacheConfig(config: Out<u32>) -> Code {
        cudaDeviceGetCacheConfig(config)
    }

    extern "C" fn cudaThreadSetCacheConfig(config: u32) -> Code {
        cudaDeviceSetCacheConfig(config)
    }

    /// Changes nothing, like the next: every card since compute capability 1.3 computes in double precision.
    fn cudaSetDoubleForDevice(_value: Out<f64>) -> Result<(), Code> {
        open().map(drop)
    }

    fn cudaSetDoubleForHost(_value: Out<f64>) -> Result<(), Code> {
        open().map(drop)
    }

    /// Copies like CUDA 13's call; `failed` receives the index of a refused copy, or all ones if none was.
    #[per_thread(ptsz)]
    fn cudaMemcpyBatchAsync(
        to: In<*mut c_void>,
        from: In<*const c_void>,
        sizes: In<usize>,
        count: usize,
        attributes: In<CopyAttributes>,
        first_indices: In<usize>,
        attribute_count: usize,
        failed: Out<usize>,
        stream: *mut c_void,
    ) -> Result<(), Code> {
        failed.put_if_wanted(usize::MAX);
        let runs = Runs::read(first_indices, attribute_count, count)?;
        let attributes = attributes.all(attribute_count)?;
        let batch = Batch { to: to.all(count)?, from: from.all(count)?, sizes: sizes.all(count)? };
        batch.copy(&attributes, &runs, stream, |index| failed.put_if_wanted(index))
    }
);
