//! Calls about edges and captures with optional data per edge: CUDA 13's only form, `_v2` or `_v3` in CUDA 12.
//!
//! CUDA 12 has functions of the same names with one argument less (`major12`).

use core::ffi::c_void;

use super::capture::{CaptureInfo, capture_info};
use super::graph::{
    GraphHandle, NodeHandle, add_edges, check_edge_data, dependencies, dependents, edges, remove_edges,
};
use crate::ffi::{In, Out};
use crate::status::Code;

/// Reports that no edge carries data.
fn no_data(data: Out<[u8; 8]>, count: Out<usize>) -> Result<(), Code> {
    if !data.is_null() {
        data.put_all(std::iter::repeat([0; 8]), count.given()?);
    }
    Ok(())
}

api!(
    #[cuda_12(cudaGraphGetEdges_v2)]
    fn cudaGraphGetEdges(
        graph: GraphHandle,
        from: Out<NodeHandle>,
        to: Out<NodeHandle>,
        data: Out<[u8; 8]>,
        count: Out<usize>,
    ) -> Result<(), Code> {
        edges(graph, from, to, count)?;
        no_data(data, count)
    }

    #[cuda_12(cudaGraphNodeGetDependencies_v2)]
    fn cudaGraphNodeGetDependencies(
        node: NodeHandle,
        list: Out<NodeHandle>,
        data: Out<[u8; 8]>,
        count: Out<usize>,
    ) -> Result<(), Code> {
        dependencies(node, list, count)?;
        no_data(data, count)
    }

    #[cuda_12(cudaGraphNodeGetDependentNodes_v2)]
    fn cudaGraphNodeGetDependentNodes(
        node: NodeHandle,
        list: Out<NodeHandle>,
        data: Out<[u8; 8]>,
        count: Out<usize>,
    ) -> Result<(), Code> {
        dependents(node, list, count)?;
        no_data(data, count)
    }

    #[cuda_12(cudaGraphAddDependencies_v2)]
    fn cudaGraphAddDependencies(
        graph: GraphHandle,
        from: In<NodeHandle>,
        to: In<NodeHandle>,
        data: In<[u8; 8]>,
        count: usize,
    ) -> Result<(), Code> {
        check_edge_data(data, count)?;
        add_edges(graph, from, to, count)
    }

    #[cuda_12(cudaGraphRemoveDependencies_v2)]
    fn cudaGraphRemoveDependencies(
        graph: GraphHandle,
        from: In<NodeHandle>,
        to: In<NodeHandle>,
        data: In<[u8; 8]>,
        count: usize,
    ) -> Result<(), Code> {
        check_edge_data(data, count)?;
        remove_edges(graph, from, to, count)
    }

    #[cuda_12(cudaStreamGetCaptureInfo_v3)]
    #[per_thread(ptsz)]
    fn cudaStreamGetCaptureInfo(
        stream: *mut c_void,
        status: Out<u32>,
        id: Out<u64>,
        graph: Out<GraphHandle>,
        dependencies: Out<*const NodeHandle>,
        data: Out<*const c_void>,
        count: Out<usize>,
    ) -> Result<(), Code> {
        data.put_if_wanted(std::ptr::null());
        capture_info(stream, CaptureInfo { status, id, graph, dependencies, count })
    }
);
