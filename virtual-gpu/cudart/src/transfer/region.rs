//! Blocks of bytes in up to three dimensions: their extent, and the address of each row. Pure.
//!
//! Rows are `pitch` bytes apart, slices `slice` bytes, and both may exceed the moved bytes; the gaps do not belong to
//! the region.

/// Size of a block of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes of a row.
    pub width: u64,
    /// Rows of a slice.
    pub height: u64,
    /// Slices.
    pub depth: u64,
}

impl Extent {
    /// An extent of `bytes` contiguous bytes.
    pub fn line(bytes: u64) -> Extent {
        Extent { width: bytes, height: 1, depth: 1 }
    }

    pub fn plane(width: u64, height: u64) -> Extent {
        Extent { width, height, depth: 1 }
    }

    pub fn is_empty(self) -> bool {
        self.width == 0 || self.height == 0 || self.depth == 0
    }

    /// Total number of bytes, or `None` if it exceeds the address space.
    pub fn bytes(self) -> Option<u64> {
        self.width.checked_mul(self.height)?.checked_mul(self.depth)
    }
}

/// Location of a block of bytes in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    pub address: u64,
    /// Bytes from one row to the next.
    pub pitch: u64,
    /// Bytes from one slice to the next.
    pub slice: u64,
}

impl Region {
    /// A region of contiguous bytes.
    pub fn line(address: u64) -> Region {
        Region { address, pitch: 0, slice: 0 }
    }

    pub fn plane(address: u64, pitch: u64) -> Region {
        Region { address, pitch, slice: 0 }
    }

    /// Bytes from the start to the end of the block, gaps included; `None` if they exceed the address space.
    pub fn span(self, extent: Extent) -> Option<u64> {
        let rows = self.pitch.checked_mul(extent.height.checked_sub(1)?)?;
        let slices = self.slice.checked_mul(extent.depth.checked_sub(1)?)?;
        rows.checked_add(slices)?.checked_add(extent.width)
    }

    /// Address of each row, in order.
    pub fn rows(self, extent: Extent) -> impl Iterator<Item = u64> {
        let row = move |slice, row| self.address + slice * self.slice + row * self.pitch;
        (0..extent.depth).flat_map(move |slice| (0..extent.height).map(move |y| row(slice, y)))
    }

    /// True if the block has no gaps, so that it can be handled as one row.
    pub fn is_dense(self, extent: Extent) -> bool {
        let rows_join = extent.height == 1 || self.pitch == extent.width;
        let slices_join = extent.depth == 1 || Some(self.slice) == extent.width.checked_mul(extent.height);
        rows_join && slices_join
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_spans_its_gaps_but_not_the_one_after_it() {
        let extent = Extent { width: 3, height: 4, depth: 2 };
        let region = Region { address: 100, pitch: 10, slice: 50 };
        assert_eq!((extent.bytes(), region.span(extent)), (Some(24), Some(50 + 30 + 3)));
        assert_eq!(region.rows(extent).collect::<Vec<_>>(), [100, 110, 120, 130, 150, 160, 170, 180]);
        assert!(!region.is_dense(extent));
        assert!(Region { address: 0, pitch: 3, slice: 12 }.is_dense(extent));
        assert!(Region::line(7).is_dense(Extent::line(1 << 40)));
    }

    #[test]
    fn sizes_beyond_the_address_space_are_none() {
        let extent = Extent { width: 1, height: 1 << 40, depth: 1 << 40 };
        let region = Region { address: 0, pitch: 1 << 40, slice: 1 << 40 };
        assert_eq!((extent.bytes(), region.span(extent)), (None, None));
        assert_eq!(region.span(Extent { width: 1, height: 0, depth: 1 }), None);
    }
}
