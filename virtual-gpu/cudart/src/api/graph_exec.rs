//! Executable graphs: instantiation, launch, update.
//!
//! Trap: a change of an executable graph must affect later launches only; a running launch keeps its own copy of the
//! work.

use core::ffi::c_void;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::copy3d::Memcpy3DParms;
use super::graph::{GraphHandle, NodeHandle};
use super::graph_node::{
    HostNodeParams, KernelNodeParams, MemsetParams, copy_work, fill_work, host_work, kernel_work, known_event,
};
use super::symbol::{copy_from_symbol, copy_to_symbol};
use super::{open, stream_key};
use crate::command::Command;
use crate::event::{Event, Recorded};
use crate::ffi::{In, Out};
use crate::graph::{Action, ExecKey, GraphKey, NodeKey, Planned, UpdateFailure, Work};
use crate::log::log_line;
use crate::runtime::{Runtime, invalid_stream};
use crate::status::Code;
use crate::stream::{Completion, StreamKey};
use crate::transfer::{Copy, Direction};

/// `cudaGraphExec_t`: a number assigned by this library; 0 for none.
type ExecHandle = u64;

/// Flags: free on launch, upload, launch from a device, node priorities.
const FLAGS: u64 = 15;
const DEVICE_LAUNCH: u64 = 4;

fn instantiate(exec: Out<ExecHandle>, graph: GraphHandle, flags: u64) -> Result<(), Code> {
    let (runtime, _) = open()?;
    exec.check()?;
    if flags & !FLAGS != 0 {
        return Err(Code::cudaErrorInvalidValue);
    }
    if flags & DEVICE_LAUNCH != 0 {
        log_line(format_args!("kernels on virtual GPUs launch no graphs"));
        return Err(Code::cudaErrorNotSupported);
    }
    exec.put(runtime.graphs.lock().instantiate(GraphKey(graph), flags)?.0)
}

/// `cudaGraphInstantiateParams`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct InstantiateParams {
    flags: u64,
    upload_stream: *mut c_void,
    error_node: NodeHandle,
    result: u32,
}

/// Enqueues the graph's work in the stream, and parallel branches in streams of the graph; all after the graph's
/// previous launch.
fn launch(runtime: &'static Runtime, exec: ExecKey, stream: StreamKey) -> Result<(), Code> {
    runtime.report_host_faults(|_, _| true)?;
    // Held during the launch, so that two threads' launches of a graph do not mix.
    let mut events = runtime.events.lock();
    let (plan, last) = {
        let mut graphs = runtime.graphs.lock();
        if let Some(seen) = graphs.capture_of(stream) {
            graphs.invalidate(seen.id);
            log_line(format_args!(
                "a graph launch cannot be captured on virtual GPUs: add a child graph node"
            ));
            return Err(Code::cudaErrorNotSupported);
        }
        runtime.check_default_stream(&mut graphs, stream)?;
        graphs.plan(exec)?
    };
    let device = runtime.streams.lock().describe(stream).map_err(invalid_stream)?.device;
    let start = runtime.enqueue(stream, last.into_iter().collect(), Command::Nothing)?;
    let mut ends: Vec<Arc<Completion>> = Vec::with_capacity(plan.len());
    let mut branches: BTreeMap<u32, Arc<Completion>> = BTreeMap::new();
    for Planned { action, lane, waits } in plan {
        let mut waits: Vec<Arc<Completion>> = waits.into_iter().map(|before| ends[before].clone()).collect();
        let stream = match lane {
            0 => stream,
            lane => {
                waits.push(start.clone());
                StreamKey::Branch { device, exec: exec.0, lane }
            }
        };
        let end = run(runtime, &mut events, stream, waits, action)?;
        if lane > 0 {
            branches.insert(lane, end.clone());
        }
        ends.push(end);
    }
    let end = match branches.is_empty() {
        true => ends.pop().unwrap_or(start),
        false => runtime.enqueue(stream, branches.into_values().collect(), Command::Nothing)?,
    };
    runtime.graphs.lock().launched(exec, end);
    Ok(())
}

/// Enqueues a step of a launch in its stream.
fn run(
    runtime: &'static Runtime,
    events: &mut BTreeMap<u64, Event>,
    stream: StreamKey,
    mut waits: Vec<Arc<Completion>>,
    action: Action,
) -> Result<Arc<Completion>, Code> {
    match action {
        Action::Run(command) => runtime.enqueue(stream, waits, command),
        Action::Record(event) => {
            let end = runtime.enqueue(stream, waits, Command::Nothing)?;
            if let Some(event) = events.get_mut(&event) {
                event.recorded = Recorded::InStream(end.clone());
            }
            Ok(end)
        }
        Action::Wait(event) => {
            waits.extend(events.get(&event).map_or(Ok(None), |event| event.completion())?);
            runtime.enqueue(stream, waits, Command::Nothing)
        }
    }
}

/// `cudaGraphExecUpdateResultInfo`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct UpdateResult {
    result: u32,
    error_node: NodeHandle,
    error_from_node: NodeHandle,
}

fn set(runtime: &Runtime, exec: ExecHandle, node: NodeHandle, work: Work) -> Result<(), Code> {
    runtime.graphs.lock().set_action(ExecKey(exec), NodeKey(node), work)
}

api!(
    fn cudaGraphInstantiate(exec: Out<ExecHandle>, graph: GraphHandle, flags: u64) -> Result<(), Code> {
        instantiate(exec, graph, flags)
    }

    fn cudaGraphInstantiateWithFlags(
        exec: Out<ExecHandle>,
        graph: GraphHandle,
        flags: u64,
    ) -> Result<(), Code> {
        instantiate(exec, graph, flags)
    }

    #[per_thread(ptsz)]
    fn cudaGraphInstantiateWithParams(
        exec: Out<ExecHandle>,
        graph: GraphHandle,
        params: Out<InstantiateParams>,
    ) -> Result<(), Code> {
        const SUCCESS: u32 = 0;
        const INVALID_STRUCTURE: u32 = 2;
        let given = params.given()?;
        let made = instantiate(exec, graph, given.flags);
        let result = if made.is_ok() { SUCCESS } else { INVALID_STRUCTURE };
        params.put(InstantiateParams { error_node: 0, result, ..given })?;
        made
    }

    fn cudaGraphExecGetFlags(exec: ExecHandle, flags: Out<u64>) -> Result<(), Code> {
        let (runtime, _) = open()?;
        flags.put(runtime.graphs.lock().exec_flags(ExecKey(exec))?)
    }

    fn cudaGraphExecDestroy(exec: ExecHandle) -> Result<(), Code> {
        let (runtime, _) = open()?;
        runtime.graphs.lock().destroy_exec(ExecKey(exec))?;
        runtime.streams.lock().end_graph(exec);
        Ok(())
    }

    /// Only checks its arguments, since there is nothing to upload.
    #[per_thread(ptsz)]
    fn cudaGraphUpload(exec: ExecHandle, stream: *mut c_void) -> Result<(), Code> {
        let (runtime, device) = open()?;
        let key = stream_key(stream, device);
        runtime.streams.lock().describe(key).map_err(invalid_stream)?;
        runtime.check_synchronisable(key)?;
        runtime.graphs.lock().exec_flags(ExecKey(exec)).map(drop)
    }

    #[per_thread(ptsz)]
    fn cudaGraphLaunch(exec: ExecHandle, stream: *mut c_void) -> Result<(), Code> {
        let (runtime, device) = open()?;
        launch(runtime, ExecKey(exec), stream_key(stream, device))
    }

    fn cudaGraphExecUpdate(
        exec: ExecHandle,
        graph: GraphHandle,
        result: Out<UpdateResult>,
    ) -> Result<(), Code> {
        const SUCCESS: u32 = 0;
        const TOPOLOGY_CHANGED: u32 = 2;
        const NODE_TYPE_CHANGED: u32 = 3;
        let (runtime, _) = open()?;
        let updated = runtime.graphs.lock().update(ExecKey(exec), GraphKey(graph))?;
        let (number, node) = match updated {
            Ok(()) => (SUCCESS, 0),
            Err(UpdateFailure::TopologyChanged) => (TOPOLOGY_CHANGED, 0),
            Err(UpdateFailure::NodeTypeChanged(node)) => (NODE_TYPE_CHANGED, node.0),
        };
        result.put(UpdateResult { result: number, error_node: node, error_from_node: 0 })?;
        updated.map_err(|_| Code::cudaErrorGraphExecUpdateFailure)
    }

    fn cudaGraphExecKernelNodeSetParams(
        exec: ExecHandle,
        node: NodeHandle,
        params: In<KernelNodeParams>,
    ) -> Result<(), Code> {
        let (runtime, device) = open()?;
        set(runtime, exec, node, kernel_work(runtime, device, params)?)
    }

    fn cudaGraphExecMemcpyNodeSetParams(
        exec: ExecHandle,
        node: NodeHandle,
        params: In<Memcpy3DParms>,
    ) -> Result<(), Code> {
        let (runtime, _) = open()?;
        set(runtime, exec, node, copy_work(runtime, params.get()?.copy(runtime)?)?)
    }

    fn cudaGraphExecMemcpyNodeSetParams1D(
        exec: ExecHandle,
        node: NodeHandle,
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
        kind: u32,
    ) -> Result<(), Code> {
        let (runtime, _) = open()?;
        let copy = Copy::line(to as u64, from as u64, bytes as u64, Direction::new(kind)?);
        set(runtime, exec, node, copy_work(runtime, copy)?)
    }

    fn cudaGraphExecMemcpyNodeSetParamsToSymbol(
        exec: ExecHandle,
        node: NodeHandle,
        symbol: *const c_void,
        from: *const c_void,
        bytes: usize,
        offset: usize,
        kind: u32,
    ) -> Result<(), Code> {
        let (runtime, _) = open()?;
        set(runtime, exec, node, copy_work(runtime, copy_to_symbol(symbol, from, bytes, offset, kind)?)?)
    }

    fn cudaGraphExecMemcpyNodeSetParamsFromSymbol(
        exec: ExecHandle,
        node: NodeHandle,
        to: *mut c_void,
        symbol: *const c_void,
        bytes: usize,
        offset: usize,
        kind: u32,
    ) -> Result<(), Code> {
        let (runtime, _) = open()?;
        set(runtime, exec, node, copy_work(runtime, copy_from_symbol(to, symbol, bytes, offset, kind)?)?)
    }

    fn cudaGraphExecMemsetNodeSetParams(
        exec: ExecHandle,
        node: NodeHandle,
        params: In<MemsetParams>,
    ) -> Result<(), Code> {
        let (runtime, _) = open()?;
        set(runtime, exec, node, fill_work(runtime, params)?)
    }

    fn cudaGraphExecHostNodeSetParams(
        exec: ExecHandle,
        node: NodeHandle,
        params: In<HostNodeParams>,
    ) -> Result<(), Code> {
        let (runtime, _) = open()?;
        set(runtime, exec, node, host_work(params)?)
    }

    fn cudaGraphExecEventRecordNodeSetEvent(
        exec: ExecHandle,
        node: NodeHandle,
        event: *mut c_void,
    ) -> Result<(), Code> {
        let (runtime, _) = open()?;
        set(runtime, exec, node, Work::Record(known_event(runtime, event)?))
    }

    fn cudaGraphExecEventWaitNodeSetEvent(
        exec: ExecHandle,
        node: NodeHandle,
        event: *mut c_void,
    ) -> Result<(), Code> {
        let (runtime, _) = open()?;
        set(runtime, exec, node, Work::Wait(known_event(runtime, event)?))
    }

    fn cudaGraphNodeSetEnabled(exec: ExecHandle, node: NodeHandle, enabled: u32) -> Result<(), Code> {
        let (runtime, _) = open()?;
        *runtime.graphs.lock().enabled(ExecKey(exec), NodeKey(node))? = enabled != 0;
        Ok(())
    }

    fn cudaGraphNodeGetEnabled(exec: ExecHandle, node: NodeHandle, enabled: Out<u32>) -> Result<(), Code> {
        let (runtime, _) = open()?;
        enabled.put(u32::from(*runtime.graphs.lock().enabled(ExecKey(exec), NodeKey(node))?))
    }
);
