//! Calls of the CUDA *driver* that the stand-in has, found through `cudaGetDriverEntryPoint`: virtual memory
//! management, which the runtime interface lacks, a device's uuid, and whether it has a context.
//!
//! Names, signatures and meanings are those of the CUDA driver API reference. They are not exported: the name
//! `libcuda.so.1` stays the driver's. Trap: driver calls must not change the runtime's last error.

mod device;
mod virtual_memory;

use core::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::log::log_line;
use crate::status::Code;
use crate::trace;

/// Address of a driver call; `None` if the stand-in lacks it.
pub fn entry_point(symbol: &str) -> Option<*mut c_void> {
    Some(match symbol {
        "cuDeviceGetUuid" => device::cuDeviceGetUuid as *mut c_void,
        "cuDevicePrimaryCtxGetState" => device::cuDevicePrimaryCtxGetState as *mut c_void,
        "cuMemAddressFree" => virtual_memory::cuMemAddressFree as *mut c_void,
        "cuMemAddressReserve" => virtual_memory::cuMemAddressReserve as *mut c_void,
        "cuMemCreate" => virtual_memory::cuMemCreate as *mut c_void,
        "cuMemGetAllocationGranularity" => virtual_memory::cuMemGetAllocationGranularity as *mut c_void,
        "cuMemMap" => virtual_memory::cuMemMap as *mut c_void,
        "cuMemRelease" => virtual_memory::cuMemRelease as *mut c_void,
        "cuMemSetAccess" => virtual_memory::cuMemSetAccess as *mut c_void,
        "cuMemUnmap" => virtual_memory::cuMemUnmap as *mut c_void,
        _ => return None,
    })
}

/// Runs the body of a driver call. The codes used here are numbered like those of `CUresult`.
fn guard(call: &'static str, bytes: usize, body: impl FnOnce() -> Result<(), Code>) -> Code {
    trace::record(call, bytes);
    let ended = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        // The panic hook has printed the message on standard error already.
        log_line(format_args!("internal error in {call}"));
        Err(Code::cudaErrorUnknown)
    });
    ended.err().unwrap_or(Code::cudaSuccess)
}
