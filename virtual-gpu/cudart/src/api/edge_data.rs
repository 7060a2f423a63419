//! Calls about edges and captures with optional data per edge: CUDA 13's only form, `_v2` or `_v3` in CUDA 12.
//!
//! CUDA 12 has functions of the same names with one argument less (`major12`).

use core::ffi::c_void;

use super::capture::{CaptureInfo, capture_info};
use super::graph::{
    GraphHandle, NodeHandle, add_edges, check_edge_data, dependencies, dependents, edges, remove_edges,
};
use crate::ffi::{In, Out};
use crate::status::{Code, guard};

#[cfg_attr(cuda_12, unsafe(export_name = "cudaGraphGetEdges_v2"))]
#[cfg_attr(not(cuda_12), unsafe(no_mangle))]
pub extern "C" fn cudaGraphGetEdges(
    graph: GraphHandle,
    from: Out<NodeHandle>,
    to: Out<NodeHandle>,
    data: Out<[u8; 8]>,
    count: Out<usize>,
) -> Code {
    guard("cudaGraphGetEdges", 0, || {
        edges(graph, from, to, count)?;
        no_data(data, count)
    })
}

/// Reports that no edge carries data.
fn no_data(data: Out<[u8; 8]>, count: Out<usize>) -> Result<(), Code> {
    if !data.is_null() {
        data.put_all(std::iter::repeat([0; 8]), count.given()?);
    }
    Ok(())
}

#[cfg_attr(cuda_12, unsafe(export_name = "cudaGraphNodeGetDependencies_v2"))]
#[cfg_attr(not(cuda_12), unsafe(no_mangle))]
pub extern "C" fn cudaGraphNodeGetDependencies(
    node: NodeHandle,
    list: Out<NodeHandle>,
    data: Out<[u8; 8]>,
    count: Out<usize>,
) -> Code {
    guard("cudaGraphNodeGetDependencies", 0, || {
        dependencies(node, list, count)?;
        no_data(data, count)
    })
}

#[cfg_attr(cuda_12, unsafe(export_name = "cudaGraphNodeGetDependentNodes_v2"))]
#[cfg_attr(not(cuda_12), unsafe(no_mangle))]
pub extern "C" fn cudaGraphNodeGetDependentNodes(
    node: NodeHandle,
    list: Out<NodeHandle>,
    data: Out<[u8; 8]>,
    count: Out<usize>,
) -> Code {
    guard("cudaGraphNodeGetDependentNodes", 0, || {
        dependents(node, list, count)?;
        no_data(data, count)
    })
}

#[cfg_attr(cuda_12, unsafe(export_name = "cudaGraphAddDependencies_v2"))]
#[cfg_attr(not(cuda_12), unsafe(no_mangle))]
pub extern "C" fn cudaGraphAddDependencies(
    graph: GraphHandle,
    from: In<NodeHandle>,
    to: In<NodeHandle>,
    data: In<[u8; 8]>,
    count: usize,
) -> Code {
    guard("cudaGraphAddDependencies", 0, || {
        check_edge_data(data, count)?;
        add_edges(graph, from, to, count)
    })
}

#[cfg_attr(cuda_12, unsafe(export_name = "cudaGraphRemoveDependencies_v2"))]
#[cfg_attr(not(cuda_12), unsafe(no_mangle))]
pub extern "C" fn cudaGraphRemoveDependencies(
    graph: GraphHandle,
    from: In<NodeHandle>,
    to: In<NodeHandle>,
    data: In<[u8; 8]>,
    count: usize,
) -> Code {
    guard("cudaGraphRemoveDependencies", 0, || {
        check_edge_data(data, count)?;
        remove_edges(graph, from, to, count)
    })
}

#[cfg_attr(cuda_12, unsafe(export_name = "cudaStreamGetCaptureInfo_v3"))]
#[cfg_attr(not(cuda_12), unsafe(no_mangle))]
pub extern "C" fn cudaStreamGetCaptureInfo(
    stream: *mut c_void,
    status: Out<u32>,
    id: Out<u64>,
    graph: Out<GraphHandle>,
    dependencies: Out<*const NodeHandle>,
    data: Out<*const c_void>,
    count: Out<usize>,
) -> Code {
    guard("cudaStreamGetCaptureInfo", 0, || {
        data.put_if_wanted(std::ptr::null());
        capture_info(stream, CaptureInfo { status, id, graph, dependencies, count })
    })
}
