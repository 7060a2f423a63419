//! Fills of lines, planes and blocks.
//!
//! Trap: a fill of device memory must not block the host, not even `cudaMemset` (CUDA runtime API, "API synchronization
//! behavior").

use core::ffi::{c_int, c_void};

use cudarc::runtime::sys::{cudaExtent, cudaPitchedPtr};

use super::{open, stream_key};
use crate::command::Command;
use crate::runtime::Runtime;
use crate::status::{Code, guard};
use crate::stream::{StreamKey, default_stream};
use crate::transfer::{Extent, Fill, Region};

/// Submits a fill to a stream.
///
/// # Errors
/// An error in the call.
pub fn submit_fill(runtime: &'static Runtime, stream: StreamKey, fill: Fill) -> Result<(), Code> {
    if fill.extent.is_empty() {
        return Ok(());
    }
    fill.check(runtime)?;
    runtime.submit(stream, Command::Fill(fill)).map(drop)
}

/// A fill with the low byte of `value`, as in CUDA.
fn bytes_of(to: Region, extent: Extent, value: c_int) -> Fill {
    Fill { to, extent, value: u32::from(value as u8), element_bytes: 1 }
}

fn line(to: *mut c_void, value: c_int, bytes: usize) -> Fill {
    bytes_of(Region::line(to as u64), Extent::line(bytes as u64), value)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemset(to: *mut c_void, value: c_int, bytes: usize) -> Code {
    guard("cudaMemset", bytes, || {
        let (runtime, device) = open()?;
        submit_fill(runtime, default_stream(device), line(to, value, bytes))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemsetAsync(to: *mut c_void, value: c_int, bytes: usize, stream: *mut c_void) -> Code {
    guard("cudaMemsetAsync", bytes, || {
        let (runtime, device) = open()?;
        submit_fill(runtime, stream_key(stream, device), line(to, value, bytes))
    })
}

fn plane(to: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize) -> Result<Fill, Code> {
    if width > pitch && height > 1 {
        return Err(Code::cudaErrorInvalidValue);
    }
    let extent = Extent::plane(width as u64, height as u64);
    Ok(bytes_of(Region::plane(to as u64, pitch as u64), extent, value))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemset2D(
    to: *mut c_void,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
) -> Code {
    guard("cudaMemset2D", width.saturating_mul(height), || {
        let (runtime, device) = open()?;
        submit_fill(runtime, default_stream(device), plane(to, pitch, value, width, height)?)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemset2DAsync(
    to: *mut c_void,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
    stream: *mut c_void,
) -> Code {
    guard("cudaMemset2DAsync", width.saturating_mul(height), || {
        let (runtime, device) = open()?;
        submit_fill(runtime, stream_key(stream, device), plane(to, pitch, value, width, height)?)
    })
}

fn block(to: cudaPitchedPtr, value: c_int, extent: cudaExtent) -> Result<Fill, Code> {
    let invalid = Code::cudaErrorInvalidValue;
    if extent.width > to.pitch || (extent.depth > 1 && extent.height > to.ysize) {
        return Err(invalid);
    }
    let slice = (to.pitch as u64).checked_mul(to.ysize as u64).ok_or(invalid)?;
    let to = Region { address: to.ptr as u64, pitch: to.pitch as u64, slice };
    let extent =
        Extent { width: extent.width as u64, height: extent.height as u64, depth: extent.depth as u64 };
    Ok(bytes_of(to, extent, value))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemset3D(to: cudaPitchedPtr, value: c_int, extent: cudaExtent) -> Code {
    guard("cudaMemset3D", 0, || {
        let (runtime, device) = open()?;
        submit_fill(runtime, default_stream(device), block(to, value, extent)?)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemset3DAsync(
    to: cudaPitchedPtr,
    value: c_int,
    extent: cudaExtent,
    stream: *mut c_void,
) -> Code {
    guard("cudaMemset3DAsync", 0, || {
        let (runtime, device) = open()?;
        submit_fill(runtime, stream_key(stream, device), block(to, value, extent)?)
    })
}
