//! Copies of blocks in three dimensions, described by a structure.
//!
//! Trap: positions and widths count bytes in pitched memory. A structure of all zeros but one end is the usual mistake
//! and is refused.

use core::ffi::{c_int, c_void};

use cudarc::runtime::sys::{cudaExtent, cudaPitchedPtr, cudaPos};

use super::copy::{Return, submit_copy};
use super::device::known_device;
use super::{open, stream_key};
use crate::ffi::In;
use crate::runtime::Runtime;
use crate::status::{Code, guard};
use crate::stream::default_stream;
use crate::transfer::{Copy, Direction, Extent, Region};

/// `cudaMemcpy3DParms` with the kind as a plain number.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Memcpy3DParms {
    from: Object,
    to: Object,
    extent: cudaExtent,
    kind: u32,
}

/// `cudaMemcpy3DPeerParms`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Memcpy3DPeerParms {
    from: Object,
    from_device: c_int,
    to: Object,
    to_device: c_int,
    extent: cudaExtent,
}

/// An array or pitched memory, and where in it to begin.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Object {
    array: *mut c_void,
    position: cudaPos,
    pitched: cudaPitchedPtr,
}

const _: () = assert!(size_of::<Memcpy3DParms>() == 160 && size_of::<Memcpy3DPeerParms>() == 168);

impl Object {
    fn region(&self, extent: Extent) -> Result<Region, Code> {
        let invalid = Code::cudaErrorInvalidValue;
        if !self.array.is_null() || self.pitched.ptr.is_null() {
            return Err(invalid);
        }
        let (pitch, rows) = (self.pitched.pitch as u64, self.pitched.ysize as u64);
        if extent.width > pitch {
            return Err(Code::cudaErrorInvalidPitchValue);
        }
        let slice = pitch.checked_mul(rows).ok_or(invalid)?;
        let cudaPos { x, y, z } = self.position;
        let offset = [(x as u64, 1), (y as u64, pitch), (z as u64, slice)].into_iter();
        let address = offset
            .map(|(steps, bytes)| steps.checked_mul(bytes))
            .try_fold(self.pitched.ptr as u64, |address, step| address.checked_add(step?));
        Ok(Region { address: address.ok_or(invalid)?, pitch, slice })
    }
}

fn block(to: &Object, from: &Object, extent: cudaExtent, direction: Direction) -> Result<Copy, Code> {
    let extent =
        Extent { width: extent.width as u64, height: extent.height as u64, depth: extent.depth as u64 };
    Ok(Copy { to: to.region(extent)?, from: from.region(extent)?, extent, direction })
}

impl Memcpy3DParms {
    /// # Errors
    /// `cudaErrorInvalidValue`, `cudaErrorInvalidPitchValue`, `cudaErrorInvalidMemcpyDirection`.
    pub fn copy(&self, _runtime: &Runtime) -> Result<Copy, Code> {
        block(&self.to, &self.from, self.extent, Direction::new(self.kind)?)
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpy3D(parms: In<Memcpy3DParms>) -> Code {
    guard("cudaMemcpy3D", 0, || {
        let (runtime, device) = open()?;
        submit_copy(runtime, default_stream(device), parms.get()?.copy(runtime)?, Return::AtEnd)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpy3DAsync(parms: In<Memcpy3DParms>, stream: *mut c_void) -> Code {
    guard("cudaMemcpy3DAsync", 0, || {
        let (runtime, device) = open()?;
        submit_copy(runtime, stream_key(stream, device), parms.get()?.copy(runtime)?, Return::Early)
    })
}

fn peer_copy(runtime: &Runtime, parms: In<Memcpy3DPeerParms>) -> Result<Copy, Code> {
    let parms = parms.get()?;
    known_device(runtime, parms.to_device)?;
    known_device(runtime, parms.from_device)?;
    block(&parms.to, &parms.from, parms.extent, Direction::Default)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpy3DPeer(parms: In<Memcpy3DPeerParms>) -> Code {
    guard("cudaMemcpy3DPeer", 0, || {
        let (runtime, device) = open()?;
        submit_copy(runtime, default_stream(device), peer_copy(runtime, parms)?, Return::AtEnd)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpy3DPeerAsync(parms: In<Memcpy3DPeerParms>, stream: *mut c_void) -> Code {
    guard("cudaMemcpy3DPeerAsync", 0, || {
        let (runtime, device) = open()?;
        submit_copy(runtime, stream_key(stream, device), peer_copy(runtime, parms)?, Return::Early)
    })
}
