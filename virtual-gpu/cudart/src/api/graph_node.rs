//! Graph nodes: making, changing and reading their work.
//!
//! Trap: a node's work, including kernel arguments, must be copied when the node is added; later changes of the
//! program's structures have no effect.

use core::ffi::c_void;
use std::sync::Arc;

use cudarc::runtime::sys::dim3;

use super::copy3d::Memcpy3DParms;
use super::graph::{GraphHandle, NodeHandle};
use super::launch::{Asked, shape};
use super::open;
use super::symbol::{copy_from_symbol, copy_to_symbol};
use crate::command::{Command, HostFunction};
use crate::ffi::{In, KernelArgs, Out};
use crate::graph::{NodeKey, Work};
use crate::log::log_line;
use crate::runtime::Runtime;
use crate::status::Code;
use crate::transfer::{Copy, Direction, Extent, Fill, Region};

pub fn run(command: Command) -> Work {
    Work::Run(Arc::new(command))
}

/// `cudaKernelNodeParams`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct KernelNodeParams {
    pub stub: *const c_void,
    pub grid: dim3,
    pub block: dim3,
    pub dynamic_shared_bytes: u32,
    pub args: KernelArgs,
    pub extra: *mut *mut c_void,
}

const _: () = assert!(size_of::<KernelNodeParams>() == 56);

/// # Errors
/// Those of a launch with these parameters.
pub fn kernel_work(runtime: &Runtime, device: u32, params: In<KernelNodeParams>) -> Result<Work, Code> {
    let params = params.get()?;
    if !params.extra.is_null() {
        log_line(format_args!("kernel nodes on virtual GPUs take their arguments through kernelParams only"));
        return Err(Code::cudaErrorNotSupported);
    }
    let shape = shape(params.grid, params.block, params.dynamic_shared_bytes as usize);
    let asked = Asked::plain(params.stub, shape, params.args);
    Ok(run(Command::Kernel(asked.prepare(runtime, device, super::device::PRIORITY_LEAST)?)))
}

/// # Errors
/// Those of the copy in a stream.
pub fn copy_work(runtime: &Runtime, copy: Copy) -> Result<Work, Code> {
    if copy.extent.is_empty() {
        return Err(Code::cudaErrorInvalidValue);
    }
    let copy = copy.resolved()?;
    copy.check(runtime)?;
    Ok(run(Command::Copy(copy)))
}

/// `cudaMemsetParams`: width in elements.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MemsetParams {
    to: *mut c_void,
    pitch: usize,
    value: u32,
    element_bytes: u32,
    width: usize,
    height: usize,
}

/// # Errors
/// `cudaErrorInvalidValue`.
pub fn fill_work(runtime: &Runtime, params: In<MemsetParams>) -> Result<Work, Code> {
    let params = params.get()?;
    let invalid = Code::cudaErrorInvalidValue;
    let element_bytes = u8::try_from(params.element_bytes).ok().filter(|bytes| matches!(bytes, 1 | 2 | 4));
    let element_bytes = element_bytes.ok_or(invalid)?;
    let width = (params.width as u64).checked_mul(u64::from(element_bytes)).ok_or(invalid)?;
    if params.height > 1 && width > params.pitch as u64 {
        return Err(invalid);
    }
    let to = Region::plane(params.to as u64, params.pitch as u64);
    let extent = Extent::plane(width, params.height as u64);
    if extent.is_empty() {
        return Err(invalid);
    }
    let fill = Fill { to, extent, value: params.value, element_bytes };
    let fill = fill.resolved()?;
    fill.check(runtime)?;
    Ok(run(Command::Fill(fill)))
}

/// `cudaHostNodeParams`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct HostNodeParams {
    function: Option<extern "C" fn(*mut c_void)>,
    data: *mut c_void,
}

/// # Errors
/// `cudaErrorInvalidValue` without a function.
pub fn host_work(params: In<HostNodeParams>) -> Result<Work, Code> {
    let HostNodeParams { function, data } = params.get()?;
    let function = function.ok_or(Code::cudaErrorInvalidValue)?;
    Ok(run(Command::Host(HostFunction { function, data })))
}

/// Applies `read` to the command of a node.
///
/// # Errors
/// `cudaErrorInvalidValue` for a node without a command, or with one for which `read` returns `None`.
fn of_command<T>(node: NodeHandle, read: impl FnOnce(&Command) -> Option<T>) -> Result<T, Code> {
    let (runtime, _) = open()?;
    let graphs = runtime.graphs.lock();
    match graphs.work(NodeKey(node))? {
        Work::Run(command) => read(command).ok_or(Code::cudaErrorInvalidValue),
        _ => Err(Code::cudaErrorInvalidValue),
    }
}

/// # Errors
/// `cudaErrorInvalidValue` for an unknown event.
pub fn known_event(runtime: &Runtime, event: *mut c_void) -> Result<u64, Code> {
    let known = runtime.events.lock().contains_key(&(event as u64));
    if known { Ok(event as u64) } else { Err(Code::cudaErrorInvalidValue) }
}

fn set(runtime: &Runtime, node: NodeHandle, work: Work) -> Result<(), Code> {
    runtime.graphs.lock().set_work(NodeKey(node), work)
}

api!(
    fn cudaGraphChildGraphNodeGetGraph(node: NodeHandle, graph: Out<GraphHandle>) -> Result<(), Code> {
        let (runtime, _) = open()?;
        match runtime.graphs.lock().work(NodeKey(node))? {
            Work::Child(child) => graph.put(child.0),
            _ => Err(Code::cudaErrorInvalidValue),
        }
    }

    fn cudaGraphKernelNodeSetParams(node: NodeHandle, params: In<KernelNodeParams>) -> Result<(), Code> {
        let (runtime, device) = open()?;
        set(runtime, node, kernel_work(runtime, device, params)?)
    }

    fn cudaGraphMemcpyNodeSetParams(node: NodeHandle, params: In<Memcpy3DParms>) -> Result<(), Code> {
        let (runtime, _) = open()?;
        set(runtime, node, copy_work(runtime, params.get()?.copy(runtime)?)?)
    }

    fn cudaGraphMemcpyNodeSetParams1D(
        node: NodeHandle,
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
        kind: u32,
    ) -> Result<(), Code> {
        let (runtime, _) = open()?;
        let copy = Copy::line(to as u64, from as u64, bytes as u64, Direction::new(kind)?);
        set(runtime, node, copy_work(runtime, copy)?)
    }

    fn cudaGraphMemsetNodeSetParams(node: NodeHandle, params: In<MemsetParams>) -> Result<(), Code> {
        let (runtime, _) = open()?;
        set(runtime, node, fill_work(runtime, params)?)
    }

    fn cudaGraphHostNodeSetParams(node: NodeHandle, params: In<HostNodeParams>) -> Result<(), Code> {
        let (runtime, _) = open()?;
        set(runtime, node, host_work(params)?)
    }

    fn cudaGraphMemcpyNodeSetParamsToSymbol(
        node: NodeHandle,
        symbol: *const c_void,
        from: *const c_void,
        bytes: usize,
        offset: usize,
        kind: u32,
    ) -> Result<(), Code> {
        let (runtime, _) = open()?;
        set(runtime, node, copy_work(runtime, copy_to_symbol(symbol, from, bytes, offset, kind)?)?)
    }

    fn cudaGraphMemcpyNodeSetParamsFromSymbol(
        node: NodeHandle,
        to: *mut c_void,
        symbol: *const c_void,
        bytes: usize,
        offset: usize,
        kind: u32,
    ) -> Result<(), Code> {
        let (runtime, _) = open()?;
        set(runtime, node, copy_work(runtime, copy_from_symbol(to, symbol, bytes, offset, kind)?)?)
    }

    fn cudaGraphEventRecordNodeSetEvent(node: NodeHandle, event: *mut c_void) -> Result<(), Code> {
        let (runtime, _) = open()?;
        set(runtime, node, Work::Record(known_event(runtime, event)?))
    }

    fn cudaGraphEventWaitNodeSetEvent(node: NodeHandle, event: *mut c_void) -> Result<(), Code> {
        let (runtime, _) = open()?;
        set(runtime, node, Work::Wait(known_event(runtime, event)?))
    }

    fn cudaGraphEventRecordNodeGetEvent(node: NodeHandle, event: Out<u64>) -> Result<(), Code> {
        let (runtime, _) = open()?;
        match runtime.graphs.lock().work(NodeKey(node))? {
            Work::Record(handle) => event.put(*handle),
            _ => Err(Code::cudaErrorInvalidValue),
        }
    }

    fn cudaGraphEventWaitNodeGetEvent(node: NodeHandle, event: Out<u64>) -> Result<(), Code> {
        let (runtime, _) = open()?;
        match runtime.graphs.lock().work(NodeKey(node))? {
            Work::Wait(handle) => event.put(*handle),
            _ => Err(Code::cudaErrorInvalidValue),
        }
    }

    /// Returns arguments at addresses that stay valid until the node is changed.
    fn cudaGraphKernelNodeGetParams(node: NodeHandle, filled: Out<KernelNodeParams>) -> Result<(), Code> {
        let params = of_command(node, |command| {
            let Command::Kernel(launch) = command else { return None };
            let [x, y, z] = launch.shape.grid;
            let grid = dim3 { x, y, z };
            let [x, y, z] = launch.shape.block;
            Some(KernelNodeParams {
                stub: launch.stub as *const c_void,
                grid,
                block: dim3 { x, y, z },
                dynamic_shared_bytes: u32::try_from(launch.shape.dynamic_shared_bytes).unwrap_or(u32::MAX),
                args: KernelArgs::to(launch.args.kept_pointers()),
                extra: std::ptr::null_mut(),
            })
        });
        filled.put(params?)
    }

    fn cudaGraphHostNodeGetParams(node: NodeHandle, filled: Out<HostNodeParams>) -> Result<(), Code> {
        let params = of_command(node, |command| match command {
            Command::Host(HostFunction { function, data }) => {
                Some(HostNodeParams { function: Some(*function), data: *data })
            }
            _ => None,
        });
        filled.put(params?)
    }

    fn cudaGraphMemsetNodeGetParams(node: NodeHandle, filled: Out<MemsetParams>) -> Result<(), Code> {
        let params = of_command(node, |command| match command {
            Command::Fill(fill) => Some(MemsetParams {
                to: fill.to.address as *mut c_void,
                pitch: fill.to.pitch as usize,
                value: fill.value,
                element_bytes: u32::from(fill.element_bytes),
                width: (fill.extent.width / u64::from(fill.element_bytes)) as usize,
                height: fill.extent.height as usize,
            }),
            _ => None,
        });
        filled.put(params?)
    }
);
