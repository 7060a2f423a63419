//! Copies and fills: checked at the call, carried out in stream order.
//!
//! Trap: the model's operations must be derived twice, once to check the call and once when the work runs: a managed
//! allocation may have moved to another device in between, and a graph runs the same copy many times.

mod place;
mod region;

pub use place::{DeviceOp, Direction, Place, copy_ops, fill_ops};
pub use region::{Extent, Region};

use crate::kernel::copies;
use crate::runtime::Runtime;
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

    /// Checks the copy. Returns whether it involves host memory that the program may reuse as soon as the call returns.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` when a pointer contradicts the direction, or a block leaves its allocation.
    pub fn check(&self, runtime: &Runtime) -> Result<Pageable, Code> {
        if self.to.address == 0 || self.from.address == 0 {
            return Err(Code::cudaErrorInvalidValue);
        }
        let (to, from) = (runtime.place(self.to, self.extent)?, runtime.place(self.from, self.extent)?);
        copy_ops(to, from, self.direction)?;
        Ok(Pageable(to.is_pageable() || from.is_pageable()))
    }

    /// Moves the bytes, then waits for the modelled end; returns the modelled duration in nanoseconds.
    ///
    /// # Errors
    /// Those of [`Copy::check`], if the program has freed memory that the copy needs; those of the server.
    pub fn run(&self, runtime: &Runtime) -> Result<u64, Code> {
        let (to, from) = (runtime.place(self.to, self.extent)?, runtime.place(self.from, self.extent)?);
        let ops = copy_ops(to, from, self.direction)?;
        self.move_bytes();
        note_written(runtime, self.to, self.extent);
        runtime.run_ops(ops)
    }

    fn move_bytes(&self) {
        let bytes = |number: u64| usize::try_from(number).expect("checked to lie in the address space");
        let move_line = |to: u64, from: u64, count: u64| {
            // SAFETY: an end on a device lies in a live allocation (looked up just before, and not freed while its
            // stream has work); for host memory the program is responsible, as CUDA demands. `copy` allows overlap.
            unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes(count)) };
        };
        if self.to.is_dense(self.extent) && self.from.is_dense(self.extent) {
            move_line(self.to.address, self.from.address, self.extent.bytes().expect("checked at the call"));
            return;
        }
        for (to, from) in self.to.rows(self.extent).zip(self.from.rows(self.extent)) {
            move_line(to, from, self.extent.width);
        }
    }
}

impl Region {
    fn resolved(self) -> Result<Region, Code> {
        Ok(Region { address: copies::resolved(self.address)?, ..self })
    }
}

/// Marks the bytes as initialised in strict mode.
fn note_written(runtime: &Runtime, to: Region, extent: Extent) {
    if let Some(strict) = &runtime.strict_mode {
        strict.wrote(&runtime.memory, to, extent);
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

    /// # Errors
    /// `cudaErrorInvalidValue` for pageable memory, or a block that leaves its allocation.
    pub fn check(&self, runtime: &Runtime) -> Result<(), Code> {
        fill_ops(runtime.place(self.to, self.extent)?).map(drop)
    }

    /// Writes the bytes, then waits for the modelled end; returns the modelled duration in nanoseconds.
    ///
    /// # Errors
    /// Those of [`Fill::check`], if the program has freed the memory; those of the server.
    pub fn run(&self, runtime: &Runtime) -> Result<u64, Code> {
        let ops = fill_ops(runtime.place(self.to, self.extent)?)?;
        let element = self.value.to_le_bytes();
        let element = &element[..usize::from(self.element_bytes)];
        for row in self.to.rows(self.extent) {
            let width = usize::try_from(self.extent.width).expect("checked to lie in the address space");
            // SAFETY: the row lies in a live allocation (looked up just before, and not freed while its stream has
            // work).
            let row = unsafe { std::slice::from_raw_parts_mut(row as *mut u8, width) };
            match element {
                [byte] => row.fill(*byte),
                _ => row.chunks_exact_mut(element.len()).for_each(|cell| cell.copy_from_slice(element)),
            }
        }
        note_written(runtime, self.to, self.extent);
        runtime.run_ops(ops)
    }
}
