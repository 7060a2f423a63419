//! Hooks: graphs and stream capture.

use super::{made, number, stream_id};
use crate::outcome::{Outcome, Why};
use crate::runtime::{CudaError, How, Launch};
use cudarc::runtime::sys::{
    cudaGraph_t, cudaGraphEdgeData, cudaGraphExec_t, cudaGraphInstantiateParams, cudaGraphNode_t,
    cudaMemAllocNodeParams, cudaStream_t,
};
use std::ffi::{c_uint, c_ulonglong};

hooks! { declared;
    fn cudaGraphCreate(_graph: *mut cudaGraph_t, _flags: c_uint) = |shim, thread| shim.on_a_device(thread);
    fn cudaGraphInstantiate(_executable: *mut cudaGraphExec_t, _graph: cudaGraph_t, _flags: c_ulonglong) =
        |shim, thread| shim.on_own_device(thread);
    fn cudaGraphInstantiateWithFlags(
        _executable: *mut cudaGraphExec_t,
        _graph: cudaGraph_t,
        _flags: c_ulonglong,
    ) = |shim, thread| shim.on_own_device(thread);
    fn cudaGraphInstantiateWithParams(
        _executable: *mut cudaGraphExec_t,
        _graph: cudaGraph_t,
        _parameters: *mut cudaGraphInstantiateParams,
    ) [ptds cudaGraphInstantiateWithParams_ptsz] = |shim, thread| shim.on_own_device(thread);
    fn cudaGraphUpload(_executable: cudaGraphExec_t, stream: cudaStream_t) [ptsz stream] = |shim, thread| {
        shim.on_own_device(thread)
    };
    fn cudaGraphLaunch(executable: cudaGraphExec_t, stream: cudaStream_t) [ptsz stream] = |shim, thread| {
        shim.launch(thread, &Launch {
            how: How::Graph(executable.expose_provenance()),
            stub: 0,
            grid: [0; 3],
            block: [0; 3],
            args: 0,
            shared_bytes: 0,
            stream: stream_id(stream),
        })
    };
    fn cudaStreamBeginCapture(stream: cudaStream_t, mode: c_uint) [ptsz stream] = |shim, thread| {
        // SAFETY: the program's own arguments.
        shim.begin_capture(thread, stream_id(stream), || CudaError::check(unsafe { real(stream, mode) }))
    };
    fn cudaStreamBeginCaptureToGraph(
        stream: cudaStream_t,
        graph: cudaGraph_t,
        dependencies: *const cudaGraphNode_t,
        edges: *const cudaGraphEdgeData,
        count: usize,
        mode: c_uint,
    ) [ptsz stream] = |shim, thread| {
        // SAFETY: the program's own arguments.
        let begin = || CudaError::check(unsafe { real(stream, graph, dependencies, edges, count, mode) });
        shim.begin_capture(thread, stream_id(stream), begin)
    };
    fn cudaStreamEndCapture(stream: cudaStream_t, graph: *mut cudaGraph_t) [ptsz stream] = |shim, _thread| {
        // SAFETY: the program's own arguments.
        shim.end_capture(stream_id(stream), || CudaError::check(unsafe { real(stream, graph) }))
    };
    fn cudaGraphAddMemAllocNode(
        node: *mut cudaGraphNode_t,
        graph: cudaGraph_t,
        dependencies: *const cudaGraphNode_t,
        count: usize,
        parameters: *mut cudaMemAllocNodeParams,
    ) = |shim, thread| {
        if parameters.is_null() {
            return Outcome::PassThrough(Why::AsItIs);
        }
        // SAFETY: not null; the program gave it to this call to be read and written. Only plain words are read.
        let (bytes, address) = unsafe { (&raw const (*parameters).bytesize, &raw const (*parameters).dptr) };
        // SAFETY: within the program's structure, as above.
        let bytes = unsafe { bytes.read() } as u64;
        shim.graph_malloc(thread, bytes, || {
            // SAFETY: the program's own arguments.
            let status = unsafe { real(node, graph, dependencies, count, parameters) };
            made(status, address).map(|address| number(address))
        })
    };
}
