//! The exported functions: take arguments from C, call the modules that decide, return a code. Each module declares
//! them in a table (`table`).
//!
//! Names, signatures and meanings are those of the CUDA 13.0 runtime API reference, and of 12.9's where the crate is
//! built as `libcudart.so.12`; each function documents its differences. Trap: C may pass any number for an enumeration,
//! so a parameter must never have the type of a CUDA enumeration.

#![allow(non_snake_case, reason = "CUDA's names")]

#[macro_use]
mod table;

mod array;
mod batch;
mod capture;
mod clock_calls;
mod cluster;
mod copy;
mod copy3d;
mod device;
mod edge_data;
mod error;
mod event;
mod fill;
mod function;
mod graph;
mod graph_add;
mod graph_dot;
mod graph_exec;
mod graph_node;
mod host;
mod image;
mod launch;
#[cfg(cuda_12)]
mod major12;
#[cfg(not(cuda_12))]
mod major13;
mod managed;
mod memory;
mod memory_range;
mod peer;
mod pointer;
mod pool;
mod refused;
mod registration;
mod settings;
mod stream;
mod stream_attribute;
mod symbol;

pub use refused::{Refused, refused};

use core::ffi::c_void;

use crate::clock;
use crate::device::current_device;
use crate::kernel::make_managed_variables;
use crate::runtime::Runtime;
use crate::status::Code;
use crate::stream::{StreamKey, default_stream, own_default_stream};

/// An exported function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Export {
    pub name: &'static str,
    /// Size of each argument in bytes.
    pub argument_bytes: &'static [usize],
    /// Name of the variant for one default stream per thread.
    pub per_thread: Option<&'static str>,
}

/// Every exported function, grouped by module.
pub fn exports() -> impl Iterator<Item = &'static Export> {
    let tables: &[&[Export]] = &[
        array::EXPORTS,
        capture::EXPORTS,
        clock_calls::EXPORTS,
        cluster::EXPORTS,
        copy::EXPORTS,
        copy3d::EXPORTS,
        device::EXPORTS,
        edge_data::EXPORTS,
        error::EXPORTS,
        event::EXPORTS,
        fill::EXPORTS,
        function::EXPORTS,
        graph::EXPORTS,
        graph_add::EXPORTS,
        graph_dot::EXPORTS,
        graph_exec::EXPORTS,
        graph_node::EXPORTS,
        host::EXPORTS,
        image::EXPORTS,
        launch::EXPORTS,
        #[cfg(cuda_12)]
        major12::EXPORTS,
        #[cfg(not(cuda_12))]
        major13::EXPORTS,
        managed::EXPORTS,
        memory::EXPORTS,
        memory_range::EXPORTS,
        peer::EXPORTS,
        pointer::EXPORTS,
        pool::EXPORTS,
        refused::both::EXPORTS,
        #[cfg(cuda_12)]
        refused::only_12::EXPORTS,
        #[cfg(not(cuda_12))]
        refused::only_13::EXPORTS,
        registration::EXPORTS,
        settings::EXPORTS,
        stream::EXPORTS,
        stream_attribute::EXPORTS,
        symbol::EXPORTS,
    ];
    tables.iter().copied().flatten()
}

/// Returns the runtime and the calling thread's device, after opening a context on it.
fn open() -> Result<(&'static Runtime, u32), Code> {
    let runtime = Runtime::get()?;
    let device = current_device();
    runtime.open_context(device)?;
    make_managed_variables(runtime, device)?;
    Ok((runtime, device))
}

/// Opens a context like [`open`], for calls that are forbidden during a stream capture.
///
/// # Errors
/// Those of [`open`], and `cudaErrorStreamCaptureUnsupported`.
fn open_uncaptured() -> Result<(&'static Runtime, u32), Code> {
    let (runtime, device) = open()?;
    runtime.check_unsafe_call()?;
    Ok((runtime, device))
}

/// Result of a query.
fn readiness(ready: bool) -> Result<(), Code> {
    clock::queried(ready);
    if ready { Ok(()) } else { Err(Code::cudaErrorNotReady) }
}

/// `cudaStreamLegacy` and `cudaStreamPerThread`.
const STREAM_LEGACY: u64 = 1;
const STREAM_PER_THREAD: u64 = 2;

/// The stream that a handle names.
fn stream_key(handle: *mut c_void, device: u32) -> StreamKey {
    match handle as u64 {
        0 => default_stream(device),
        STREAM_LEGACY => StreamKey::Default { device },
        STREAM_PER_THREAD => own_default_stream(device),
        created => StreamKey::Created(created),
    }
}
