//! Graphs, their nodes and edges.
//!
//! Callers query a list twice, first without an array to learn its length; if the array is longer than the list, CUDA
//! fills the rest with null.

use core::ffi::{c_int, c_void};

use super::device::known_device;
use super::open;
use crate::ffi::{In, Out};
use crate::graph::{Edge, GraphKey, NodeKey, Work};
use crate::log::log_line;
use crate::runtime::Runtime;
use crate::status::Code;

/// `cudaGraph_t` and `cudaGraphNode_t`: numbers assigned by this library; 0 for none.
pub type GraphHandle = u64;
pub type NodeHandle = u64;

/// Last of `cudaGraphMemAttributeType`: used memory and its high watermark, reserved memory and its high watermark.
const MEMORY_ATTRIBUTE_LAST: u32 = 3;

/// Rejects edge data: programmatic edges, between parts of kernels, are not modelled.
///
/// # Errors
/// `cudaErrorNotSupported`.
pub fn check_edge_data(data: In<[u8; 8]>, count: usize) -> Result<(), Code> {
    if data.is_null() || data.all(count)?.iter().all(|data| *data == [0; 8]) {
        return Ok(());
    }
    log_line(format_args!("edges of graphs carry no data on virtual GPUs: a node follows all of another"));
    Err(Code::cudaErrorNotSupported)
}

/// Fills a caller's list as the module's header describes.
///
/// # Errors
/// `cudaErrorInvalidValue` if `count` is null.
pub fn put_list(list: Out<u64>, count: Out<usize>, values: &[u64]) -> Result<(), Code> {
    count.check()?;
    if list.is_null() {
        return count.put(values.len());
    }
    let room = count.given()?;
    list.put_all(values.iter().copied().chain(std::iter::repeat(0)), room);
    count.put(values.len().min(room))
}

fn handles(nodes: &[NodeKey]) -> Vec<u64> {
    nodes.iter().map(|node| node.0).collect()
}

/// Returns the edges of a graph as two lists.
///
/// # Errors
/// `cudaErrorInvalidValue` for an unknown graph, or one list without the other.
pub fn edges(
    graph: GraphHandle,
    from: Out<NodeHandle>,
    to: Out<NodeHandle>,
    count: Out<usize>,
) -> Result<(), Code> {
    let (runtime, _) = open()?;
    let edges = runtime.graphs.lock().edges(GraphKey(graph))?;
    if from.is_null() != to.is_null() {
        return Err(Code::cudaErrorInvalidValue);
    }
    let (tails, heads): (Vec<u64>, Vec<u64>) = edges.iter().map(|(from, to)| (from.0, to.0)).unzip();
    if !from.is_null() {
        to.put_all(heads.into_iter().chain(std::iter::repeat(0)), count.given()?);
    }
    put_list(from, count, &tails)
}

/// Returns the nodes that a node follows.
///
/// # Errors
/// `cudaErrorInvalidValue` for an unknown node.
pub fn dependencies(node: NodeHandle, list: Out<NodeHandle>, count: Out<usize>) -> Result<(), Code> {
    let (runtime, _) = open()?;
    put_list(list, count, &handles(&runtime.graphs.lock().dependencies(NodeKey(node))?))
}

/// Returns the nodes that follow a node.
///
/// # Errors
/// `cudaErrorInvalidValue` for an unknown node.
pub fn dependents(node: NodeHandle, list: Out<NodeHandle>, count: Out<usize>) -> Result<(), Code> {
    let (runtime, _) = open()?;
    put_list(list, count, &handles(&runtime.graphs.lock().dependents(NodeKey(node))?))
}

fn edge_list(from: In<NodeHandle>, to: In<NodeHandle>, count: usize) -> Result<Vec<Edge>, Code> {
    let pairs = from.all(count)?.into_iter().zip(to.all(count)?);
    Ok(pairs.map(|(from, to)| (NodeKey(from), NodeKey(to))).collect())
}

/// Adds edges.
///
/// # Errors
/// `cudaErrorInvalidValue` for nodes of another graph and existing edges.
pub fn add_edges(
    graph: GraphHandle,
    from: In<NodeHandle>,
    to: In<NodeHandle>,
    count: usize,
) -> Result<(), Code> {
    let (runtime, _) = open()?;
    let mut graphs = runtime.graphs.lock();
    edge_list(from, to, count)?.into_iter().try_for_each(|edge| graphs.add_edge(GraphKey(graph), edge))
}

/// Removes edges.
///
/// # Errors
/// `cudaErrorInvalidValue` for missing edges.
pub fn remove_edges(
    graph: GraphHandle,
    from: In<NodeHandle>,
    to: In<NodeHandle>,
    count: usize,
) -> Result<(), Code> {
    let (runtime, _) = open()?;
    let mut graphs = runtime.graphs.lock();
    edge_list(from, to, count)?.into_iter().try_for_each(|edge| graphs.remove_edge(GraphKey(graph), edge))
}

/// Adds a node that follows other nodes.
///
/// # Errors
/// `cudaErrorInvalidValue` for nodes of another graph, or a node named twice.
pub fn add_node(
    runtime: &Runtime,
    node: Out<NodeHandle>,
    graph: GraphHandle,
    after: In<NodeHandle>,
    count: usize,
    work: Work,
) -> Result<(), Code> {
    node.check()?;
    let after: Vec<NodeKey> = after.all(count)?.into_iter().map(NodeKey).collect();
    node.put(runtime.graphs.lock().add(GraphKey(graph), &after, work)?.0)
}

api!(
    fn cudaGraphCreate(graph: Out<GraphHandle>, flags: u32) -> Result<(), Code> {
        let (runtime, _) = open()?;
        graph.check()?;
        if flags != 0 {
            return Err(Code::cudaErrorInvalidValue);
        }
        graph.put(runtime.graphs.lock().create().0)
    }

    fn cudaGraphDestroy(graph: GraphHandle) -> Result<(), Code> {
        let (runtime, _) = open()?;
        runtime.graphs.lock().destroy(GraphKey(graph))
    }

    fn cudaGraphClone(clone: Out<GraphHandle>, original: GraphHandle) -> Result<(), Code> {
        let (runtime, _) = open()?;
        clone.check()?;
        clone.put(runtime.graphs.lock().duplicate(GraphKey(original))?.0)
    }

    fn cudaGraphNodeFindInClone(
        node: Out<NodeHandle>,
        original: NodeHandle,
        clone: GraphHandle,
    ) -> Result<(), Code> {
        let (runtime, _) = open()?;
        let found = runtime.graphs.lock().find_in_clone(NodeKey(original), GraphKey(clone))?;
        node.put(found.0)
    }

    fn cudaGraphNodeGetType(node: NodeHandle, kind: Out<u32>) -> Result<(), Code> {
        let (runtime, _) = open()?;
        let graphs = runtime.graphs.lock();
        kind.put(graphs.work(NodeKey(node))?.kind() as u32)
    }

    fn cudaGraphDestroyNode(node: NodeHandle) -> Result<(), Code> {
        let (runtime, _) = open()?;
        runtime.graphs.lock().remove(NodeKey(node))
    }

    fn cudaGraphGetNodes(graph: GraphHandle, nodes: Out<NodeHandle>, count: Out<usize>) -> Result<(), Code> {
        let (runtime, _) = open()?;
        put_list(nodes, count, &handles(&runtime.graphs.lock().nodes(GraphKey(graph))?))
    }

    fn cudaGraphGetRootNodes(
        graph: GraphHandle,
        nodes: Out<NodeHandle>,
        count: Out<usize>,
    ) -> Result<(), Code> {
        let (runtime, _) = open()?;
        let graphs = runtime.graphs.lock();
        let mut roots = graphs.nodes(GraphKey(graph))?;
        roots.retain(|node| graphs.dependencies(*node).is_ok_and(|after| after.is_empty()));
        put_list(nodes, count, &handles(&roots))
    }

    /// Returns 0: graphs hold no memory of their own.
    fn cudaDeviceGetGraphMemAttribute(device: c_int, attribute: u32, value: Out<c_void>) -> Result<(), Code> {
        let (runtime, _) = open()?;
        known_device(runtime, device)?;
        if attribute > MEMORY_ATTRIBUTE_LAST {
            return Err(Code::cudaErrorInvalidValue);
        }
        value.cast::<u64>().put(0)
    }

    /// Resets a high watermark, which is 0 anyway.
    fn cudaDeviceSetGraphMemAttribute(device: c_int, attribute: u32, value: In<c_void>) -> Result<(), Code> {
        let (runtime, _) = open()?;
        known_device(runtime, device)?;
        let is_watermark = attribute <= MEMORY_ATTRIBUTE_LAST && attribute % 2 == 1;
        if is_watermark && value.cast::<u64>().get()? == 0 {
            Ok(())
        } else {
            Err(Code::cudaErrorInvalidValue)
        }
    }

    /// Does nothing: graphs hold no memory of their own.
    fn cudaDeviceGraphMemTrim(_device: c_int) -> Result<(), Code> {
        open().map(drop)
    }
);
