//! The calls that add a node to a graph.

use core::ffi::c_void;

use super::copy3d::Memcpy3DParms;
use super::graph::{GraphHandle, NodeHandle, add_node};
use super::graph_node::{
    HostNodeParams, KernelNodeParams, MemsetParams, copy_work, fill_work, host_work, kernel_work,
    known_event, run,
};
use super::open;
use super::symbol::{copy_from_symbol, copy_to_symbol};
use crate::command::Command;
use crate::ffi::{In, Out};
use crate::graph::{GraphKey, Work};
use crate::status::Code;
use crate::transfer::{Copy, Direction};

/// Declares exports that add a node, each with an expression that makes the work from the parameters.
macro_rules! add_nodes {
    ($($name:ident($($argument:ident: $type:ty),*) = |$runtime:ident, $device:ident| $work:expr;)*) => {
        api! {$(
            fn $name(
                node: Out<NodeHandle>,
                graph: GraphHandle,
                after: In<NodeHandle>,
                count: usize,
                $($argument: $type),*
            ) -> Result<(), Code> {
                let ($runtime, $device) = open()?;
                // Only kernels use the device.
                let _ = $device;
                let work = $work?;
                add_node($runtime, node, graph, after, count, work)
            }
        )*}
    };
}

add_nodes! {
    cudaGraphAddKernelNode(params: In<KernelNodeParams>) =
        |runtime, device| kernel_work(runtime, device, params);
    cudaGraphAddMemcpyNode(params: In<Memcpy3DParms>) =
        |runtime, device| copy_work(runtime, params.get()?.copy(runtime)?);
    cudaGraphAddMemcpyNode1D(to: *mut c_void, from: *const c_void, bytes: usize, kind: u32) =
        |runtime, device| copy_work(runtime, Copy::line(to as u64, from as u64, bytes as u64, Direction::new(kind)?));
    cudaGraphAddMemcpyNodeToSymbol(symbol: *const c_void, from: *const c_void, bytes: usize, offset: usize, kind: u32) =
        |runtime, device| copy_work(runtime, copy_to_symbol(symbol, from, bytes, offset, kind)?);
    cudaGraphAddMemcpyNodeFromSymbol(to: *mut c_void, symbol: *const c_void, bytes: usize, offset: usize, kind: u32) =
        |runtime, device| copy_work(runtime, copy_from_symbol(to, symbol, bytes, offset, kind)?);
    cudaGraphAddMemsetNode(params: In<MemsetParams>) = |runtime, device| fill_work(runtime, params);
    cudaGraphAddHostNode(params: In<HostNodeParams>) = |runtime, device| host_work(params);
    cudaGraphAddEmptyNode() = |runtime, device| Ok::<Work, Code>(run(Command::Nothing));
    cudaGraphAddEventRecordNode(event: *mut c_void) =
        |runtime, device| known_event(runtime, event).map(Work::Record);
    cudaGraphAddEventWaitNode(event: *mut c_void) = |runtime, device| known_event(runtime, event).map(Work::Wait);
    // The child is copied, so later changes of it do not affect this graph.
    cudaGraphAddChildGraphNode(child: GraphHandle) =
        |runtime, device| runtime.graphs.lock().duplicate(GraphKey(child)).map(Work::Child);
}
