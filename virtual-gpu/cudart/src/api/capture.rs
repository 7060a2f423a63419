//! Stream capture.
//!
//! The legacy default stream cannot be captured, and its use while a blocking stream is captured invalidates that
//! capture.

use core::ffi::c_void;
use std::collections::BTreeSet;

use super::graph::{GraphHandle, NodeHandle, check_edge_data};
use super::{open, stream_key};
use crate::capture::exchange_mode;
use crate::ffi::{In, Out};
use crate::graph::{GraphKey, Mode, NodeKey};
use crate::runtime::invalid_stream;
use crate::status::Code;
use crate::stream::{StreamKey, thread_number};

const STATUS_NONE: u32 = 0;

fn begin(stream: *mut c_void, mode: u32, into: Option<(GraphKey, BTreeSet<NodeKey>)>) -> Result<(), Code> {
    let (runtime, device) = open()?;
    let mode = Mode::new(mode)?;
    let key = stream_key(stream, device);
    runtime.streams.lock().describe(key).map_err(invalid_stream)?;
    if matches!(key, StreamKey::Default { .. }) {
        return Err(Code::cudaErrorStreamCaptureUnsupported);
    }
    runtime.graphs.lock().begin_capture(key, mode, thread_number(), into)
}

/// Destinations for the state of a capture; all but the status are optional.
#[derive(Debug, Clone, Copy)]
pub struct CaptureInfo {
    pub status: Out<u32>,
    pub id: Out<u64>,
    pub graph: Out<GraphHandle>,
    pub dependencies: Out<*const NodeHandle>,
    pub count: Out<usize>,
}

/// Reports the state of a stream's capture.
///
/// # Errors
/// `cudaErrorStreamCaptureImplicit` for the default stream while a blocking one is captured.
pub fn capture_info(stream: *mut c_void, to: CaptureInfo) -> Result<(), Code> {
    let (runtime, device) = open()?;
    let key = stream_key(stream, device);
    runtime.streams.lock().describe(key).map_err(invalid_stream)?;
    let mut graphs = runtime.graphs.lock();
    runtime.check_default_stream(&mut graphs, key)?;
    let Some(seen) = graphs.capture_of(key) else { return to.status.put(STATUS_NONE) };
    to.status.put(seen.status as u32)?;
    to.id.put_if_wanted(seen.id.0);
    to.graph.put_if_wanted(seen.graph.0);
    let ends = graphs.end_handles(key).unwrap_or_default();
    to.dependencies.put_if_wanted(ends.as_ptr());
    to.count.put_if_wanted(ends.len());
    Ok(())
}

/// Changes the nodes that the stream's next node follows, for [`cudaStreamUpdateCaptureDependencies`].
///
/// # Errors
/// `cudaErrorIllegalState` for a stream that is not captured, `cudaErrorInvalidValue` for nodes of another graph.
pub fn update_dependencies(
    stream: *mut c_void,
    dependencies: In<NodeHandle>,
    count: usize,
    flags: u32,
) -> Result<(), Code> {
    const ADD: u32 = 0;
    const SET: u32 = 1;
    let (runtime, device) = open()?;
    let key = stream_key(stream, device);
    let mut graphs = runtime.graphs.lock();
    let seen = graphs.capture_of(key).ok_or(Code::cudaErrorIllegalState)?;
    let (id, mut ends) = graphs.ends(key).ok_or(Code::cudaErrorIllegalState)?;
    let named: BTreeSet<NodeKey> = dependencies.all(count)?.into_iter().map(NodeKey).collect();
    let known: BTreeSet<NodeKey> = graphs.nodes(seen.graph)?.into_iter().collect();
    if !named.is_subset(&known) {
        return Err(Code::cudaErrorInvalidValue);
    }
    match flags {
        ADD => ends.extend(named),
        SET => ends = named,
        _ => return Err(Code::cudaErrorInvalidValue),
    }
    graphs.set_ends(id, key, ends);
    Ok(())
}

api!(
    #[per_thread(ptsz)]
    fn cudaStreamBeginCapture(stream: *mut c_void, mode: u32) -> Result<(), Code> {
        begin(stream, mode, None)
    }

    #[per_thread(ptsz)]
    fn cudaStreamBeginCaptureToGraph(
        stream: *mut c_void,
        graph: GraphHandle,
        dependencies: In<NodeHandle>,
        edge_data: In<[u8; 8]>,
        count: usize,
        mode: u32,
    ) -> Result<(), Code> {
        check_edge_data(edge_data, count)?;
        let after = dependencies.all(count)?.into_iter().map(NodeKey).collect();
        begin(stream, mode, Some((GraphKey(graph), after)))
    }

    #[per_thread(ptsz)]
    fn cudaStreamEndCapture(stream: *mut c_void, graph: Out<GraphHandle>) -> Result<(), Code> {
        let (runtime, device) = open()?;
        graph.put(0)?;
        let ended = runtime.graphs.lock().end_capture(stream_key(stream, device), thread_number())?;
        graph.put(ended.0)
    }

    #[per_thread(ptsz)]
    fn cudaStreamIsCapturing(stream: *mut c_void, status: Out<u32>) -> Result<(), Code> {
        let (runtime, device) = open()?;
        let key = stream_key(stream, device);
        runtime.streams.lock().describe(key).map_err(invalid_stream)?;
        let mut graphs = runtime.graphs.lock();
        runtime.check_default_stream(&mut graphs, key)?;
        status.put(graphs.capture_of(key).map_or(STATUS_NONE, |seen| seen.status as u32))
    }

    fn cudaThreadExchangeStreamCaptureMode(mode: Out<u32>) -> Result<(), Code> {
        let before = exchange_mode(Mode::new(mode.given()?)?);
        mode.put(before as u32)
    }

    /// Adds to the nodes that the stream's next node follows, or replaces them.
    #[cuda_12(cudaStreamUpdateCaptureDependencies_v2)]
    #[per_thread(ptsz)]
    fn cudaStreamUpdateCaptureDependencies(
        stream: *mut c_void,
        dependencies: In<NodeHandle>,
        edge_data: In<[u8; 8]>,
        count: usize,
        flags: u32,
    ) -> Result<(), Code> {
        check_edge_data(edge_data, count)?;
        update_dependencies(stream, dependencies, count, flags)
    }
);
