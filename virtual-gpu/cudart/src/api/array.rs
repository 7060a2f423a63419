//! Arrays as memory: allocation, queries, copies. Textures and surfaces over them are in `image`.
//!
//! Offsets and widths of these copies count bytes, whereas those of `cudaMemcpy3D` count elements.

use core::ffi::{c_int, c_void};
use std::ptr::null_mut;

use cudarc::runtime::sys::cudaExtent;
use eager_gpu_model::AllocKind;

use super::copy::{copy_and_wait, copy_in};
use super::{open, open_uncaptured};
use crate::ffi::{In, Out};
use crate::log::log_line;
use crate::memory::{Array, ChannelDesc};
use crate::runtime::Runtime;
use crate::status::Code;
use crate::transfer::{Copy, Direction, Extent, Region};

/// `cudaArray_t`: a number assigned by this library; 0 for none.
pub type ArrayHandle = u64;

const INVALID: Code = Code::cudaErrorInvalidValue;

/// Flags of unsupported arrays: `cudaArrayCubemap`, `cudaArraySparse`, `cudaArrayDeferredMapping`.
const REFUSED: [(u32, &str); 3] = [(4, "cube map"), (0x40, "sparse"), (0x80, "deferred")];

/// # Errors
/// `cudaErrorInvalidValue`.
pub fn known_array(runtime: &Runtime, array: ArrayHandle) -> Result<Array, Code> {
    runtime.arrays.lock().get(&array).copied().ok_or(INVALID)
}

fn allocate(
    array: Out<ArrayHandle>,
    desc: In<ChannelDesc>,
    elements: [u64; 3],
    flags: u32,
) -> Result<(), Code> {
    let (runtime, device) = open_uncaptured()?;
    array.check()?;
    if let Some((_, what)) = REFUSED.iter().find(|(flag, _)| flags & flag != 0) {
        log_line(format_args!("{what} arrays are not there, for textures or otherwise"));
        return Err(Code::cudaErrorNotSupported);
    }
    let desc = desc.get()?;
    let element_bytes = desc.element_bytes().ok_or(INVALID)?;
    if elements[0] == 0 {
        return Err(INVALID);
    }
    let bytes = Array::bytes(elements, element_bytes).ok_or(Code::cudaErrorMemoryAllocation)?;
    let address = runtime.allocate(device, bytes, AllocKind::Device)?;
    let mut arrays = runtime.arrays.lock();
    let handle = arrays.last_key_value().map_or(1, |(&last, _)| last + 1);
    arrays.insert(handle, Array { device, address, desc, element_bytes, elements, flags });
    array.put(handle)
}

/// Rows of `width` bytes between an array and pitched memory; the array's part starts at (`x` bytes, `y` rows).
#[derive(Debug, Clone, Copy)]
struct Rows {
    array: ArrayHandle,
    x: usize,
    y: usize,
    memory: u64,
    pitch: usize,
    width: usize,
    height: usize,
}

impl Rows {
    /// Regions of the array and of the memory.
    fn ends(&self, runtime: &Runtime) -> Result<(Region, Region, Extent), Code> {
        if self.width > self.pitch {
            return Err(Code::cudaErrorInvalidPitchValue);
        }
        let extent = Extent::plane(self.width as u64, self.height as u64);
        let start = [self.x as u64, self.y as u64, 0];
        let array = known_array(runtime, self.array)?.region(start, extent).ok_or(INVALID)?;
        Ok((array, Region::plane(self.memory, self.pitch as u64), extent))
    }

    fn inbound(&self, runtime: &Runtime, kind: u32) -> Result<Copy, Code> {
        let (to, from, extent) = self.ends(runtime)?;
        Ok(Copy { to, from, extent, direction: Direction::new(kind)? })
    }

    fn outbound(&self, runtime: &Runtime, kind: u32) -> Result<Copy, Code> {
        let (from, to, extent) = self.ends(runtime)?;
        Ok(Copy { to, from, extent, direction: Direction::new(kind)? })
    }
}

fn line_address(
    runtime: &Runtime,
    array: ArrayHandle,
    x: usize,
    y: usize,
    bytes: usize,
) -> Result<u64, Code> {
    known_array(runtime, array)?.line(x as u64, y as u64, bytes as u64).ok_or(INVALID)
}

api!(
    fn cudaMallocArray(
        array: Out<ArrayHandle>,
        desc: In<ChannelDesc>,
        width: usize,
        height: usize,
        flags: u32,
    ) -> Result<(), Code> {
        allocate(array, desc, [width as u64, height as u64, 0], flags)
    }

    fn cudaMalloc3DArray(
        array: Out<ArrayHandle>,
        desc: In<ChannelDesc>,
        extent: cudaExtent,
        flags: u32,
    ) -> Result<(), Code> {
        allocate(array, desc, [extent.width, extent.height, extent.depth].map(|count| count as u64), flags)
    }

    fn cudaFreeArray(array: ArrayHandle) -> Result<(), Code> {
        let (runtime, _) = open_uncaptured()?;
        if array == 0 {
            return Ok(());
        }
        let found = known_array(runtime, array)?;
        runtime.wait_for_device(found.device)?;
        runtime.arrays.lock().remove(&array);
        runtime.release(found.address)
    }

    fn cudaArrayGetInfo(
        desc: Out<ChannelDesc>,
        extent: Out<cudaExtent>,
        flags: Out<u32>,
        array: ArrayHandle,
    ) -> Result<(), Code> {
        let (runtime, _) = open()?;
        let found = known_array(runtime, array)?;
        let [width, height, depth] = found.elements.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        desc.put_if_wanted(found.desc);
        extent.put_if_wanted(cudaExtent { width, height, depth });
        flags.put_if_wanted(found.flags);
        Ok(())
    }

    fn cudaGetChannelDesc(desc: Out<ChannelDesc>, array: ArrayHandle) -> Result<(), Code> {
        let (runtime, _) = open()?;
        desc.put(known_array(runtime, array)?.desc)
    }

    extern "C" fn cudaCreateChannelDesc(x: c_int, y: c_int, z: c_int, w: c_int, kind: u32) -> ChannelDesc {
        ChannelDesc { bits: [x, y, z, w], kind }
    }

    #[bytes(width.saturating_mul(height))]
    #[per_thread(ptds)]
    fn cudaMemcpy2DToArray(
        array: ArrayHandle,
        x: usize,
        y: usize,
        from: *const c_void,
        pitch: usize,
        width: usize,
        height: usize,
        kind: u32,
    ) -> Result<(), Code> {
        copy_and_wait(|runtime| {
            Rows { array, x, y, memory: from as u64, pitch, width, height }.inbound(runtime, kind)
        })
    }

    #[bytes(width.saturating_mul(height))]
    #[per_thread(ptsz)]
    fn cudaMemcpy2DToArrayAsync(
        array: ArrayHandle,
        x: usize,
        y: usize,
        from: *const c_void,
        pitch: usize,
        width: usize,
        height: usize,
        kind: u32,
        stream: *mut c_void,
    ) -> Result<(), Code> {
        copy_in(stream, |runtime| {
            Rows { array, x, y, memory: from as u64, pitch, width, height }.inbound(runtime, kind)
        })
    }

    #[bytes(width.saturating_mul(height))]
    #[per_thread(ptds)]
    fn cudaMemcpy2DFromArray(
        to: *mut c_void,
        pitch: usize,
        array: ArrayHandle,
        x: usize,
        y: usize,
        width: usize,
        height: usize,
        kind: u32,
    ) -> Result<(), Code> {
        copy_and_wait(|runtime| {
            Rows { array, x, y, memory: to as u64, pitch, width, height }.outbound(runtime, kind)
        })
    }

    #[bytes(width.saturating_mul(height))]
    #[per_thread(ptsz)]
    fn cudaMemcpy2DFromArrayAsync(
        to: *mut c_void,
        pitch: usize,
        array: ArrayHandle,
        x: usize,
        y: usize,
        width: usize,
        height: usize,
        kind: u32,
        stream: *mut c_void,
    ) -> Result<(), Code> {
        copy_in(stream, |runtime| {
            Rows { array, x, y, memory: to as u64, pitch, width, height }.outbound(runtime, kind)
        })
    }

    #[bytes(width.saturating_mul(height))]
    #[per_thread(ptds)]
    fn cudaMemcpy2DArrayToArray(
        to: ArrayHandle,
        to_x: usize,
        to_y: usize,
        from: ArrayHandle,
        from_x: usize,
        from_y: usize,
        width: usize,
        height: usize,
        kind: u32,
    ) -> Result<(), Code> {
        // A copy on the device need not block the host.
        copy_in(null_mut(), |runtime| {
            let extent = Extent::plane(width as u64, height as u64);
            let region = |array, x, y| {
                known_array(runtime, array)?.region([x as u64, y as u64, 0], extent).ok_or(INVALID)
            };
            let (to, from) = (region(to, to_x, to_y)?, region(from, from_x, from_y)?);
            Ok(Copy { to, from, extent, direction: Direction::new(kind)? })
        })
    }

    #[bytes(bytes)]
    #[per_thread(ptds)]
    fn cudaMemcpyToArray(
        array: ArrayHandle,
        x: usize,
        y: usize,
        from: *const c_void,
        bytes: usize,
        kind: u32,
    ) -> Result<(), Code> {
        copy_and_wait(|runtime| {
            let to = line_address(runtime, array, x, y, bytes)?;
            Ok(Copy::line(to, from as u64, bytes as u64, Direction::new(kind)?))
        })
    }

    #[bytes(bytes)]
    #[per_thread(ptds)]
    fn cudaMemcpyFromArray(
        to: *mut c_void,
        array: ArrayHandle,
        x: usize,
        y: usize,
        bytes: usize,
        kind: u32,
    ) -> Result<(), Code> {
        copy_and_wait(|runtime| {
            let from = line_address(runtime, array, x, y, bytes)?;
            Ok(Copy::line(to as u64, from, bytes as u64, Direction::new(kind)?))
        })
    }

    #[bytes(bytes)]
    #[per_thread(ptsz)]
    fn cudaMemcpyToArrayAsync(
        array: ArrayHandle,
        x: usize,
        y: usize,
        from: *const c_void,
        bytes: usize,
        kind: u32,
        stream: *mut c_void,
    ) -> Result<(), Code> {
        copy_in(stream, |runtime| {
            let to = line_address(runtime, array, x, y, bytes)?;
            Ok(Copy::line(to, from as u64, bytes as u64, Direction::new(kind)?))
        })
    }

    #[bytes(bytes)]
    #[per_thread(ptsz)]
    fn cudaMemcpyFromArrayAsync(
        to: *mut c_void,
        array: ArrayHandle,
        x: usize,
        y: usize,
        bytes: usize,
        kind: u32,
        stream: *mut c_void,
    ) -> Result<(), Code> {
        copy_in(stream, |runtime| {
            let from = line_address(runtime, array, x, y, bytes)?;
            Ok(Copy::line(to as u64, from, bytes as u64, Direction::new(kind)?))
        })
    }

    #[bytes(bytes)]
    #[per_thread(ptds)]
    fn cudaMemcpyArrayToArray(
        to: ArrayHandle,
        to_x: usize,
        to_y: usize,
        from: ArrayHandle,
        from_x: usize,
        from_y: usize,
        bytes: usize,
        kind: u32,
    ) -> Result<(), Code> {
        // A copy on the device need not block the host.
        copy_in(null_mut(), |runtime| {
            let to = line_address(runtime, to, to_x, to_y, bytes)?;
            let from = line_address(runtime, from, from_x, from_y, bytes)?;
            Ok(Copy::line(to, from, bytes as u64, Direction::new(kind)?))
        })
    }
);
