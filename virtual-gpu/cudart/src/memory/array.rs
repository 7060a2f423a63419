//! CUDA arrays: device memory with rows of elements, which a program names by a handle. Pure.
//!
//! Rows lie one after the other here, whereas a GPU chooses its own layout. Widths and offsets count elements in some
//! calls and bytes in others; this module counts bytes only.

use eager_exec::image::{Component, Format};

use crate::transfer::{Extent, Region};

/// `cudaChannelFormatDesc` with the kind as a plain number: bits of each component of an element.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelDesc {
    pub bits: [i32; 4],
    pub kind: u32,
}

impl ChannelDesc {
    /// Bytes of an element; `None` for components that CUDA does not have.
    pub fn element_bytes(&self) -> Option<u64> {
        const KIND_NONE: u32 = 3;
        let known = self.kind <= KIND_NONE && self.bits.iter().all(|bits| matches!(bits, 0 | 8 | 16 | 32));
        let bits: i32 = self.bits.iter().filter(|_| known).sum();
        u64::try_from(bits / 8).ok().filter(|&bytes| bytes > 0)
    }

    /// Format for textures and surfaces: 1, 2 or 4 components of one width; `None` for others.
    pub fn format(&self) -> Option<Format> {
        let component = match self.kind {
            0 => Component::Signed,
            1 => Component::Unsigned,
            2 => Component::Float,
            _ => return None,
        };
        let channels = self.bits.iter().take_while(|&&bits| bits != 0).count();
        let [bits, ..] = self.bits;
        let equal = (0..4).all(|c| self.bits[c] == if c < channels { bits } else { 0 });
        let known = matches!((component, bits), (_, 16 | 32)) || component != Component::Float && bits == 8;
        let format = Format { component, bits: bits.cast_unsigned(), channels: channels as u32 };
        (equal && known && matches!(channels, 1 | 2 | 4)).then_some(format)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Array {
    pub device: u32,
    pub address: u64,
    pub desc: ChannelDesc,
    pub element_bytes: u64,
    /// Elements of a row, rows, slices; 0 where the array has no such dimension.
    pub elements: [u64; 3],
    pub flags: u32,
}

impl Array {
    /// Size of an array in bytes; `None` if it exceeds the address space.
    pub fn bytes(elements: [u64; 3], element_bytes: u64) -> Option<u64> {
        elements.iter().try_fold(element_bytes, |bytes, &count| bytes.checked_mul(count.max(1)))
    }

    /// The block of `extent` bytes at (`x` bytes, `y` rows, `z` slices); `None` if it leaves the array.
    pub fn region(&self, [x, y, z]: [u64; 3], extent: Extent) -> Option<Region> {
        let [width, height, depth] = self.elements.map(|count| count.max(1));
        let pitch = width * self.element_bytes;
        let fits = x.checked_add(extent.width)? <= pitch
            && y.checked_add(extent.height)? <= height
            && z.checked_add(extent.depth)? <= depth;
        let slice = pitch * height;
        fits.then(|| Region { address: self.address + z * slice + y * pitch + x, pitch, slice })
    }

    /// Address of `bytes` contiguous bytes at (`x` bytes, `y` rows); `None` if they leave the first slice.
    pub fn line(&self, x: u64, y: u64, bytes: u64) -> Option<u64> {
        let [width, height, _] = self.elements.map(|count| count.max(1));
        let pitch = width * self.element_bytes;
        let start = y.checked_mul(pitch)?.checked_add(x)?;
        (start.checked_add(bytes)? <= pitch * height).then_some(self.address + start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_stay_inside_their_array() {
        let desc = ChannelDesc { bits: [32, 32, 0, 0], kind: 2 };
        assert_eq!(desc.element_bytes(), Some(8));
        assert_eq!(ChannelDesc { bits: [7, 0, 0, 0], kind: 0 }.element_bytes(), None);
        let read = desc.format().unwrap();
        assert_eq!((read.component, read.bits, read.channels), (Component::Float, 32, 2));
        let no_textures =
            [([32, 32, 32, 0], 2), ([16, 8, 0, 0], 0), ([8, 0, 0, 0], 2), ([0, 8, 0, 0], 0), ([8; 4], 3)];
        for (bits, kind) in no_textures {
            assert_eq!(ChannelDesc { bits, kind }.format(), None, "{bits:?}");
        }
        let array =
            Array { device: 0, address: 0x1000, desc, element_bytes: 8, elements: [4, 3, 0], flags: 0 };
        let region = array.region([8, 1, 0], Extent::plane(24, 2)).unwrap();
        assert_eq!(region, Region { address: 0x1000 + 32 + 8, pitch: 32, slice: 96 });
        assert!(array.region([16, 1, 0], Extent::plane(24, 2)).is_none());
        assert!(array.region([0, 2, 0], Extent::plane(8, 2)).is_none());
        assert_eq!((array.line(8, 1, 56), array.line(8, 1, 57)), (Some(0x1028), None));
        assert_eq!(Array::bytes([1 << 40, 1 << 30, 0], 8), None);
    }
}
