//! Copies and fills: checked at the call, carried out in stream order (by `crate::execution`).
//!
//! Trap: the model's operations must be derived twice, once to check the call and once when the work runs: a managed
//! allocation may have moved to another device in between, and a graph runs the same copy many times.

mod place;
mod region;

pub use place::{DeviceOp, Direction, Place, copy_ops, fill_ops};
pub use region::{Extent, Region};

use crate::kernel::copies;
use crate::status::Code;

/// A copy of a block of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    pub to: Region,
    pub from: Region,
    pub extent: Extent,
    pub direction: Direction,
}

impl Copy {
    /// A copy of contiguous bytes.
    pub fn line(to: u64, from: u64, bytes: u64, direction: Direction) -> Copy {
        Copy { to: Region::line(to), from: Region::line(from), extent: Extent::line(bytes), direction }
    }

    /// The copy on the current device, where variables are named by their addresses in device code.
    ///
    /// # Errors
    /// `cudaErrorMemoryAllocation`.
    pub fn resolved(self) -> Result<Copy, Code> {
        Ok(Copy { to: self.to.resolved()?, from: self.from.resolved()?, ..self })
    }
}

impl Region {
    fn resolved(self) -> Result<Region, Code> {
        Ok(Region { address: copies::resolved(self.address)?, ..self })
    }
}

/// True if pageable host memory takes part in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pageable(pub bool);

/// A fill of a block with a value of one, two or four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    pub to: Region,
    pub extent: Extent,
    pub value: u32,
    /// 1, 2 or 4; row lengths are multiples of it.
    pub element_bytes: u8,
}

impl Fill {
    /// The fill on the current device, like [`Copy::resolved`].
    ///
    /// # Errors
    /// `cudaErrorMemoryAllocation`.
    pub fn resolved(self) -> Result<Fill, Code> {
        Ok(Fill { to: self.to.resolved()?, ..self })
    }
}
