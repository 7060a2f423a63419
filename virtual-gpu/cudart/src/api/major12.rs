//! Calls in the form that only CUDA 12 has: devices by number, edges without data, the old names for threads.
//!
//! Several have the name of a CUDA 13 call with other arguments; the CUDA 13 forms are `_v2` or `_v3` in CUDA 12.

use core::ffi::{c_int, c_void};

use super::capture::{CaptureInfo, capture_info, update_dependencies};
use super::device::{cudaDeviceReset, cudaDeviceSynchronize};
use super::event::cudaEventElapsedTime;
use super::graph::{GraphHandle, NodeHandle, add_edges, dependencies, dependents, edges, remove_edges};
use super::managed::{self, MemLocation};
use crate::ffi::{In, Out};
use crate::status::{Code, guard};

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemAdvise(pointer: *const c_void, bytes: usize, advice: u32, device: c_int) -> Code {
    managed::cudaMemAdvise(pointer, bytes, advice, MemLocation::of_number(device))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemPrefetchAsync(
    pointer: *const c_void,
    bytes: usize,
    device: c_int,
    stream: *mut c_void,
) -> Code {
    managed::cudaMemPrefetchAsync(pointer, bytes, MemLocation::of_number(device), 0, stream)
}

/// Equal to the older call, except for errors of a missing driver.
#[unsafe(no_mangle)]
pub extern "C" fn cudaEventElapsedTime_v2(
    milliseconds: Out<f32>,
    start: *mut c_void,
    end: *mut c_void,
) -> Code {
    cudaEventElapsedTime(milliseconds, start, end)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGraphGetEdges(
    graph: GraphHandle,
    from: Out<NodeHandle>,
    to: Out<NodeHandle>,
    count: Out<usize>,
) -> Code {
    guard("cudaGraphGetEdges", 0, || edges(graph, from, to, count))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGraphNodeGetDependencies(
    node: NodeHandle,
    list: Out<NodeHandle>,
    count: Out<usize>,
) -> Code {
    guard("cudaGraphNodeGetDependencies", 0, || dependencies(node, list, count))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGraphNodeGetDependentNodes(
    node: NodeHandle,
    list: Out<NodeHandle>,
    count: Out<usize>,
) -> Code {
    guard("cudaGraphNodeGetDependentNodes", 0, || dependents(node, list, count))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGraphAddDependencies(
    graph: GraphHandle,
    from: In<NodeHandle>,
    to: In<NodeHandle>,
    count: usize,
) -> Code {
    guard("cudaGraphAddDependencies", 0, || add_edges(graph, from, to, count))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGraphRemoveDependencies(
    graph: GraphHandle,
    from: In<NodeHandle>,
    to: In<NodeHandle>,
    count: usize,
) -> Code {
    guard("cudaGraphRemoveDependencies", 0, || remove_edges(graph, from, to, count))
}

/// Name to which CUDA 12's header maps `cudaStreamGetCaptureInfo`.
#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamGetCaptureInfo_v2(
    stream: *mut c_void,
    status: Out<u32>,
    id: Out<u64>,
    graph: Out<GraphHandle>,
    dependencies: Out<*const NodeHandle>,
    count: Out<usize>,
) -> Code {
    guard("cudaStreamGetCaptureInfo_v2", 0, || {
        capture_info(stream, CaptureInfo { status, id, graph, dependencies, count })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamUpdateCaptureDependencies(
    stream: *mut c_void,
    dependencies: In<NodeHandle>,
    count: usize,
    flags: u32,
) -> Code {
    guard("cudaStreamUpdateCaptureDependencies", 0, || {
        update_dependencies(stream, dependencies, count, flags)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaThreadSynchronize() -> Code {
    cudaDeviceSynchronize()
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaThreadExit() -> Code {
    cudaDeviceReset()
}
