//! Copies of blocks in three dimensions, described by a structure.
//!
//! Positions count bytes in pitched memory and elements in an array; the width counts elements as soon as an array
//! takes part.

use core::ffi::{c_int, c_void};

use cudarc::runtime::sys::{cudaExtent, cudaPitchedPtr, cudaPos};

use super::array::{ArrayHandle, known_array};
use super::copy::{copy_and_wait, copy_in};
use super::device::known_device;
use crate::ffi::In;
use crate::memory::Array;
use crate::runtime::Runtime;
use crate::status::Code;
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

/// An array or pitched memory, and the start position in it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Object {
    array: ArrayHandle,
    position: cudaPos,
    pitched: cudaPitchedPtr,
}

const _: () = assert!(size_of::<Memcpy3DParms>() == 160 && size_of::<Memcpy3DPeerParms>() == 168);

impl Object {
    /// The array, if given; exactly one of array and pointer must be given.
    fn array(&self, runtime: &Runtime) -> Result<Option<Array>, Code> {
        match (self.array, self.pitched.ptr.is_null()) {
            (0, false) => Ok(None),
            (array, true) if array != 0 => known_array(runtime, array).map(Some),
            _ => Err(Code::cudaErrorInvalidValue),
        }
    }

    fn region(&self, array: Option<&Array>, extent: Extent) -> Result<Region, Code> {
        let invalid = Code::cudaErrorInvalidValue;
        let [x, y, z] = [self.position.x, self.position.y, self.position.z].map(|steps| steps as u64);
        if let Some(array) = array {
            let x = x.checked_mul(array.element_bytes).ok_or(invalid)?;
            return array.region([x, y, z], extent).ok_or(invalid);
        }
        let (pitch, rows) = (self.pitched.pitch as u64, self.pitched.ysize as u64);
        if extent.width > pitch {
            return Err(Code::cudaErrorInvalidPitchValue);
        }
        let slice = pitch.checked_mul(rows).ok_or(invalid)?;
        let steps = [(x, 1), (y, pitch), (z, slice)].into_iter();
        let address = steps
            .map(|(steps, bytes)| steps.checked_mul(bytes))
            .try_fold(self.pitched.ptr as u64, |address, step| address.checked_add(step?));
        Ok(Region { address: address.ok_or(invalid)?, pitch, slice })
    }
}

fn block(
    runtime: &Runtime,
    to: &Object,
    from: &Object,
    extent: cudaExtent,
    direction: Direction,
) -> Result<Copy, Code> {
    let invalid = Code::cudaErrorInvalidValue;
    let (to_array, from_array) = (to.array(runtime)?, from.array(runtime)?);
    let element_bytes = match (&to_array, &from_array) {
        (Some(to), Some(from)) if to.element_bytes != from.element_bytes => return Err(invalid),
        (Some(array), _) | (None, Some(array)) => array.element_bytes,
        (None, None) => 1,
    };
    let width = (extent.width as u64).checked_mul(element_bytes).ok_or(invalid)?;
    let extent = Extent { width, height: extent.height as u64, depth: extent.depth as u64 };
    let to = to.region(to_array.as_ref(), extent)?;
    Ok(Copy { to, from: from.region(from_array.as_ref(), extent)?, extent, direction })
}

impl Memcpy3DParms {
    /// # Errors
    /// `cudaErrorInvalidValue`, `cudaErrorInvalidPitchValue`, `cudaErrorInvalidMemcpyDirection`.
    pub fn copy(&self, runtime: &Runtime) -> Result<Copy, Code> {
        block(runtime, &self.to, &self.from, self.extent, Direction::new(self.kind)?)
    }
}

fn peer_copy(runtime: &Runtime, parms: In<Memcpy3DPeerParms>) -> Result<Copy, Code> {
    let parms = parms.get()?;
    known_device(runtime, parms.to_device)?;
    known_device(runtime, parms.from_device)?;
    block(runtime, &parms.to, &parms.from, parms.extent, Direction::Default)
}

api!(
    #[per_thread(ptds)]
    fn cudaMemcpy3D(parms: In<Memcpy3DParms>) -> Result<(), Code> {
        copy_and_wait(|runtime| parms.get()?.copy(runtime))
    }

    #[per_thread(ptsz)]
    fn cudaMemcpy3DAsync(parms: In<Memcpy3DParms>, stream: *mut c_void) -> Result<(), Code> {
        copy_in(stream, |runtime| parms.get()?.copy(runtime))
    }

    #[per_thread(ptds)]
    fn cudaMemcpy3DPeer(parms: In<Memcpy3DPeerParms>) -> Result<(), Code> {
        copy_and_wait(|runtime| peer_copy(runtime, parms))
    }

    #[per_thread(ptsz)]
    fn cudaMemcpy3DPeerAsync(parms: In<Memcpy3DPeerParms>, stream: *mut c_void) -> Result<(), Code> {
        copy_in(stream, |runtime| peer_copy(runtime, parms))
    }
);
