//! Results so far of a run that measures footprints. Pure.
//!
//! The driver takes device memory for managed memory in pieces (of 64 blocks: specification S-505), so when a kernel
//! takes one block, free memory falls by nothing or by a whole piece. Trap: a kernel may be launched with buffers of
//! different sizes; the profile must keep the launch with the largest static size, and of those the largest
//! footprint, because scaling down is safe and scaling up is not.

use crate::buffers::Used;
use crate::profile::{Measured, Method, ProfileFile};
use crate::runtime::Span;
use std::collections::BTreeMap;

/// A launch, without its footprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    /// Mangled name.
    pub kernel: String,
    pub used: Used,
}

/// Free bytes of a device at the moment when the driver has taken a piece, and the bytes of filler that made it take
/// the piece: memory of the shim's own that is moved there block by block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    pub free: u64,
    pub filler: u64,
}

impl Edge {
    /// Bytes that other work took of the device since an earlier edge. Exact, however large the pieces are, since at
    /// every edge equally much of a piece is left. `None`: memory was freed meanwhile.
    pub fn taken_since(self, earlier: Edge) -> Option<u64> {
        earlier.free.checked_sub(self.free)?.checked_sub(self.filler)
    }
}

/// The conditions of the measurement.
#[derive(Debug, Clone, Copy)]
pub struct MeasuringSetup {
    /// Bytes that were free on the device.
    pub free_bytes: u64,
    pub method: Method,
}

#[derive(Debug, Clone, Copy)]
struct Buffer {
    /// Bytes that the program asked for.
    bytes: u64,
    /// Bytes after them.
    padding: u64,
}

#[derive(Debug, Default)]
pub struct Measurement {
    /// Determined before the first allocation.
    pub setup: Option<MeasuringSetup>,
    buffers: BTreeMap<u64, Buffer>,
    kernels: BTreeMap<String, Measured>,
}

impl Measurement {
    /// Records an allocation. `padding`: bytes after it, which keep neighbours out of its last block.
    pub fn allocated(&mut self, span: Span, padding: u64) {
        self.buffers.insert(span.start, Buffer { bytes: span.bytes, padding });
    }

    /// Removes an allocation and returns its bytes; `None`: there is no such allocation.
    pub fn freed(&mut self, start: u64) -> Option<u64> {
        self.buffers.remove(&start).map(|buffer| buffer.bytes)
    }

    pub fn buffers(&self) -> impl Iterator<Item = Span> + '_ {
        self.buffers.iter().map(|(&start, buffer)| Span { start, bytes: buffer.bytes })
    }

    /// Bytes that the program has allocated.
    pub fn held(&self) -> u64 {
        self.buffers.values().fold(0, |sum, buffer| sum.saturating_add(buffer.bytes))
    }

    /// Bytes of padding after the buffers.
    pub fn padding(&self) -> u64 {
        self.buffers.values().fold(0, |sum, buffer| sum.saturating_add(buffer.padding))
    }

    /// The buffer that an address points into.
    pub fn find(&self, address: u64) -> Option<Span> {
        let (&start, &Buffer { bytes, .. }) = self.buffers.range(..=address).next_back()?;
        (address - start < bytes).then_some(Span { start, bytes })
    }

    pub fn note(&mut self, launched: Launched, footprint: u64) {
        let Launched { kernel, used } = launched;
        let known = self.kernels.entry(kernel).or_default();
        known.launches += 1;
        if (used.bytes, footprint) >= (known.static_bytes, known.footprint_bytes) {
            (known.static_bytes, known.footprint_bytes, known.access) = (used.bytes, footprint, used.access);
        }
    }

    /// The profile; `None` if nothing was launched.
    pub fn file(&self) -> Option<ProfileFile> {
        (!self.kernels.is_empty())
            .then(|| ProfileFile::new(self.kernels.clone(), self.setup.map(|setup| setup.method)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_units::AccessClass;

    fn launched(bytes: u64) -> Launched {
        Launched { kernel: "k".into(), used: Used { bytes, access: AccessClass::OnePass } }
    }

    #[test]
    fn a_kernel_has_the_footprint_of_its_largest_launch() {
        let mut measurement = Measurement::default();
        for (bytes, footprint) in [(10, 9), (40, 20), (40, 30), (40, 10), (20, 20)] {
            measurement.note(launched(bytes), footprint);
        }
        let kernel = &measurement.kernels["k"];
        assert_eq!((kernel.static_bytes, kernel.footprint_bytes, kernel.launches), (40, 30, 5));
    }

    /// A kernel takes 21 blocks of a piece of 64, then another takes 39, of which the rest of that piece holds 34.
    #[test]
    fn what_a_kernel_took_does_not_depend_on_the_drivers_pieces() {
        let edge = |free, filler| Edge { free, filler };
        assert_eq!(edge(1000 - 64, 43).taken_since(edge(1000, 5)), Some(21));
        assert_eq!(edge(1000 - 128, 89).taken_since(edge(1000, 64)), Some(39));
        assert_eq!(edge(1000 - 22, 1).taken_since(edge(1000, 1)), Some(21), "without pieces");
        assert_eq!(edge(1000, 1).taken_since(edge(1000, 1)), None);
        assert_eq!(edge(1001, 0).taken_since(edge(1000, 1)), None);
    }

    #[test]
    fn an_address_is_found_in_the_buffer_that_holds_it() {
        let mut measurement = Measurement::default();
        measurement.allocated(Span { start: 100, bytes: 10 }, 0);
        measurement.allocated(Span { start: 200, bytes: 10 }, 6);
        let found = |address| measurement.find(address).map(|span| span.start);
        assert_eq!([99, 100, 109, 110, 205].map(found), [None, Some(100), Some(100), None, Some(200)]);
        assert_eq!((measurement.held(), measurement.padding()), (20, 6));
        assert_eq!((measurement.freed(100), measurement.freed(100)), (Some(10), None));
    }

    #[test]
    fn nothing_launched_is_no_profile() {
        assert!(Measurement::default().file().is_none());
    }
}
