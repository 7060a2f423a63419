//! CUDA's structures that hooks read, with plain numbers in place of CUDA's enumerations: as a Rust enum, a value
//! that this build does not know would be undefined behaviour.
//!
//! The layouts are CUDA's; the assertions compare them with cudarc's.

use crate::runtime::{Copy, CopyKind, Order, Rows};
use cudarc::runtime::sys;

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Position {
    pub x: usize,
    pub y: usize,
    pub z: usize,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PitchedPointer {
    pub address: usize,
    pub pitch: usize,
    pub width: usize,
    pub height: usize,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ChannelBits {
    pub x: i32,
    pub y: i32,
    pub z: i32,
    pub w: i32,
    pub kind: u32,
}

/// `cudaMemcpy3DParms`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Copy3D {
    pub src_array: usize,
    pub src_position: Position,
    pub src: PitchedPointer,
    pub dst_array: usize,
    pub dst_position: Position,
    pub dst: PitchedPointer,
    pub extent: Extent,
    pub kind: u32,
}

/// `cudaMemcpy3DPeerParms`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Copy3DPeer {
    pub src_array: usize,
    pub src_position: Position,
    pub src: PitchedPointer,
    pub src_device: i32,
    pub dst_array: usize,
    pub dst_position: Position,
    pub dst: PitchedPointer,
    pub dst_device: i32,
    pub extent: Extent,
}

/// `cudaLaunchConfig_t`, without its attributes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LaunchConfig {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: usize,
    pub stream: usize,
}

const _: () = assert!(size_of::<Copy3D>() == size_of::<sys::cudaMemcpy3DParms>());
const _: () = assert!(size_of::<Copy3DPeer>() == size_of::<sys::cudaMemcpy3DPeerParms>());
const _: () = assert!(size_of::<PitchedPointer>() == size_of::<sys::cudaPitchedPtr>());
const _: () = assert!(size_of::<ChannelBits>() == size_of::<sys::cudaChannelFormatDesc>());
const _: () = assert!(std::mem::offset_of!(sys::cudaLaunchConfig_st, stream) == 32);
const _: () = assert!(std::mem::offset_of!(LaunchConfig, stream) == 32);

/// Reads a structure that the program passed to a call; `None` if the pointer is null.
///
/// # Safety
/// `given` is null or points to a readable structure that begins as `T` does.
pub unsafe fn read<T: std::marker::Copy, U>(given: *const U) -> Option<T> {
    // SAFETY: not null, and readable as the caller promises; the program need not align it.
    (!given.is_null()).then(|| unsafe { given.cast::<T>().read_unaligned() })
}

/// Bytes of an array of these elements, without padding by the device; at most `u64::MAX`.
pub fn array_bytes(bits: ChannelBits, extent: Extent) -> u64 {
    let element: u64 =
        [bits.x, bits.y, bits.z, bits.w].iter().map(|&bits| u64::try_from(bits).unwrap_or(0)).sum();
    let dimensions = [extent.width, extent.height.max(1), extent.depth.max(1)];
    dimensions.iter().fold(element / 8, |all, &one| all.saturating_mul(one as u64))
}

/// Bytes of a chain of `levels` arrays, each half as large in every dimension as the one before; at most `u64::MAX`.
pub fn mipmapped_bytes(bits: ChannelBits, extent: Extent, levels: u32) -> u64 {
    let at = |level: u32| {
        let half = |one: usize| one.checked_shr(level).unwrap_or(0).max(usize::from(one > 0));
        Extent { width: half(extent.width), height: half(extent.height), depth: half(extent.depth) }
    };
    (0..levels.min(usize::BITS)).fold(0, |all, level| all.saturating_add(array_bytes(bits, at(level))))
}

/// One side of a three-dimensional copy of linear memory: address of its first byte, and bytes between rows and
/// between slices.
#[derive(Debug, Clone, Copy)]
pub struct Side {
    start: u64,
    pitch: u64,
    slice: u64,
}

impl Side {
    pub fn new(memory: PitchedPointer, position: Position) -> Option<Side> {
        let slice = memory.pitch.checked_mul(memory.height)?;
        let rows = position.y.checked_mul(memory.pitch)?;
        let offset = position.z.checked_mul(slice)?.checked_add(rows)?.checked_add(position.x)?;
        let start = memory.address.checked_add(offset)? as u64;
        Some(Side { start, pitch: memory.pitch as u64, slice: slice as u64 })
    }
}

/// Splits a three-dimensional copy into two-dimensional ones: a single one if the slices follow each other without a
/// gap.
pub fn slices(dst: Side, src: Side, extent: Extent, kind: CopyKind, order: Order) -> Vec<Copy> {
    let (rows, depth) = (extent.height as u64, extent.depth as u64);
    let follows = |side: Side| Some(side.slice) == side.pitch.checked_mul(rows);
    let (count, rows) = if depth == 1 || follows(dst) && follows(src) {
        (depth.min(1), rows.saturating_mul(depth))
    } else {
        (depth, rows)
    };
    let at = |side: Side, index: u64| side.start.saturating_add(index.saturating_mul(side.slice));
    let slice = |index: u64| Copy {
        dst: at(dst, index),
        src: at(src, index),
        bytes: extent.width as u64,
        rows: Rows { count: rows, dst_pitch: dst.pitch, src_pitch: src.pitch },
        kind,
        order,
    };
    (0..count).map(slice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(address: usize, pitch: usize, height: usize) -> PitchedPointer {
        PitchedPointer { address, pitch, width: pitch, height }
    }

    const ORIGIN: Position = Position { x: 0, y: 0, z: 0 };

    #[test]
    fn slices_without_gaps_are_one_copy_and_others_one_each() {
        let extent = Extent { width: 10, height: 4, depth: 3 };
        let side = |height| Side::new(memory(1000, 16, height), ORIGIN).expect("small");
        let copy = |height| slices(side(height), side(4), extent, CopyKind::DEFAULT, Order::Blocking);
        let rows: Vec<_> = copy(4).iter().map(|slice| (slice.dst, slice.rows.count)).collect();
        assert_eq!(rows, [(1000, 12)]);
        let rows: Vec<_> = copy(5).iter().map(|slice| (slice.dst, slice.src, slice.rows.count)).collect();
        assert_eq!(rows, [(1000, 1000, 4), (1080, 1064, 4), (1160, 1128, 4)]);
        let flat = Extent { depth: 0, ..extent };
        assert!(slices(side(4), side(4), flat, CopyKind::DEFAULT, Order::Blocking).is_empty());
    }

    #[test]
    fn a_side_starts_at_its_position() {
        let side = Side::new(memory(1000, 16, 4), Position { x: 3, y: 2, z: 1 }).expect("small");
        assert_eq!(side.start, 1000 + 64 + 32 + 3);
        assert!(Side::new(memory(1000, usize::MAX, 4), ORIGIN).is_none(), "no memory is that large");
    }

    #[test]
    fn arrays_count_their_elements_and_all_levels() {
        let float2 = ChannelBits { x: 32, y: 32, z: 0, w: 0, kind: 2 };
        let extent = |width, height, depth| Extent { width, height, depth };
        assert_eq!(array_bytes(float2, extent(10, 0, 0)), 80);
        assert_eq!(array_bytes(float2, extent(10, 5, 2)), 800);
        assert_eq!(array_bytes(float2, extent(usize::MAX, 5, 2)), u64::MAX);
        assert_eq!(mipmapped_bytes(float2, extent(8, 8, 0), 4), 8 * (64 + 16 + 4 + 1));
    }
}
