//! Fills of lines, planes and blocks.
//!
//! Trap: a fill of device memory must not block the host, not even `cudaMemset` (CUDA runtime API, "API synchronization
//! behavior").

use core::ffi::{c_int, c_void};
use std::ptr::null_mut;

use cudarc::runtime::sys::{cudaExtent, cudaPitchedPtr};

use super::{open, stream_key};
use crate::command::Command;
use crate::status::Code;
use crate::transfer::{Extent, Fill, Region};

/// Makes a fill and submits it to a stream.
fn fill_in(stream: *mut c_void, make: impl FnOnce() -> Result<Fill, Code>) -> Result<(), Code> {
    let (runtime, device) = open()?;
    let fill = make()?;
    if fill.extent.is_empty() {
        return Ok(());
    }
    let fill = fill.resolved()?;
    fill.check(runtime)?;
    runtime.submit(stream_key(stream, device), Command::Fill(fill)).map(drop)
}

/// A fill with the low byte of `value`, as in CUDA.
fn bytes_of(to: Region, extent: Extent, value: c_int) -> Fill {
    Fill { to, extent, value: u32::from(value as u8), element_bytes: 1 }
}

fn line(to: *mut c_void, value: c_int, bytes: usize) -> Fill {
    bytes_of(Region::line(to as u64), Extent::line(bytes as u64), value)
}

fn plane(to: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize) -> Result<Fill, Code> {
    if width > pitch && height > 1 {
        return Err(Code::cudaErrorInvalidValue);
    }
    let extent = Extent::plane(width as u64, height as u64);
    Ok(bytes_of(Region::plane(to as u64, pitch as u64), extent, value))
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

api!(
    #[bytes(bytes)]
    #[per_thread(ptds)]
    fn cudaMemset(to: *mut c_void, value: c_int, bytes: usize) -> Result<(), Code> {
        fill_in(null_mut(), || Ok(line(to, value, bytes)))
    }

    #[bytes(bytes)]
    #[per_thread(ptsz)]
    fn cudaMemsetAsync(to: *mut c_void, value: c_int, bytes: usize, stream: *mut c_void) -> Result<(), Code> {
        fill_in(stream, || Ok(line(to, value, bytes)))
    }

    #[bytes(width.saturating_mul(height))]
    #[per_thread(ptds)]
    fn cudaMemset2D(
        to: *mut c_void,
        pitch: usize,
        value: c_int,
        width: usize,
        height: usize,
    ) -> Result<(), Code> {
        fill_in(null_mut(), || plane(to, pitch, value, width, height))
    }

    #[bytes(width.saturating_mul(height))]
    #[per_thread(ptsz)]
    fn cudaMemset2DAsync(
        to: *mut c_void,
        pitch: usize,
        value: c_int,
        width: usize,
        height: usize,
        stream: *mut c_void,
    ) -> Result<(), Code> {
        fill_in(stream, || plane(to, pitch, value, width, height))
    }

    #[per_thread(ptds)]
    fn cudaMemset3D(to: cudaPitchedPtr, value: c_int, extent: cudaExtent) -> Result<(), Code> {
        fill_in(null_mut(), || block(to, value, extent))
    }

    #[per_thread(ptsz)]
    fn cudaMemset3DAsync(
        to: cudaPitchedPtr,
        value: c_int,
        extent: cudaExtent,
        stream: *mut c_void,
    ) -> Result<(), Code> {
        fill_in(stream, || block(to, value, extent))
    }
);
