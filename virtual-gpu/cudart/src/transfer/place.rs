//! Finds the memory behind a pointer, and derives the model's operations for copies and fills. Pure.
//!
//! A managed range is device memory to a copy that names the device side, and host memory to a copy that names the host
//! side; the latter must pull resident pages back to the host, as a `memcpy` in the program would.

use eager_gpu_model::{AllocId, AllocKind, Op, Range};

use super::{Extent, Region};
use crate::memory::{Allocation, Kind};
use crate::status::Code;

/// Direction of a copy, as given by the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    HostToHost,
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
    /// To be derived from the pointers.
    Default,
}

impl Direction {
    /// # Errors
    /// `cudaErrorInvalidMemcpyDirection`.
    pub fn new(kind: u32) -> Result<Direction, Code> {
        match kind {
            0 => Ok(Direction::HostToHost),
            1 => Ok(Direction::HostToDevice),
            2 => Ok(Direction::DeviceToHost),
            3 => Ok(Direction::DeviceToDevice),
            4 => Ok(Direction::Default),
            _ => Err(Code::cudaErrorInvalidMemcpyDirection),
        }
    }
}

/// Memory at one end of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Host {
        pinned: bool,
    },
    Modelled {
        alloc: AllocId,
        kind: AllocKind,
        device: u32,
        range: Range,
    },
    /// A `__device__` or `__constant__` variable; the model knows its bytes as little as it knows code.
    Variable,
}

impl Place {
    /// Place of a block inside an allocation. The model sees as many contiguous bytes as are moved; for managed memory
    /// it sees the whole span, because the pages between two rows move too.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` if the block ends outside the allocation.
    pub fn inside(allocation: &Allocation, region: Region, extent: Extent) -> Result<Place, Code> {
        let invalid = Code::cudaErrorInvalidValue;
        let span = region.span(extent).ok_or(invalid)?;
        let mut range = allocation.range(region.address, span).ok_or(invalid)?;
        Ok(match allocation.kind {
            Kind::Pinned { .. } => Place::Host { pinned: true },
            Kind::Modelled { alloc, kind } => {
                if kind == AllocKind::Device {
                    range.bytes = extent.bytes().ok_or(invalid)?;
                }
                Place::Modelled { alloc, kind, device: allocation.device, range }
            }
        })
    }

    /// Host memory that the runtime does not know.
    pub const PAGEABLE: Place = Place::Host { pinned: false };

    pub fn is_pageable(self) -> bool {
        self == Place::PAGEABLE
    }

    fn is_on_device(self) -> bool {
        matches!(self, Place::Variable | Place::Modelled { kind: AllocKind::Device, .. })
    }
}

/// An operation and the device it is submitted to.
pub type DeviceOp = (u32, Op);

/// The model's operations for a copy, in order.
///
/// # Errors
/// `cudaErrorInvalidValue` when a pointer contradicts the direction.
pub fn copy_ops(to: Place, from: Place, direction: Direction) -> Result<Vec<DeviceOp>, Code> {
    let (to_device, from_device) = match direction {
        Direction::HostToHost => (false, false),
        Direction::HostToDevice => (true, false),
        Direction::DeviceToHost => (false, true),
        Direction::DeviceToDevice => (true, true),
        Direction::Default => (!matches!(to, Place::Host { .. }), !matches!(from, Place::Host { .. })),
    };
    // Page-locked host memory has a device address too; pageable memory has none, and device memory has no host
    // address.
    let fits = |place: Place, device: bool| if device { !place.is_pageable() } else { !place.is_on_device() };
    if !fits(to, to_device) || !fits(from, from_device) {
        return Err(Code::cudaErrorInvalidValue);
    }
    let mut ops = Vec::new();
    if !from_device {
        ops.extend(host_access(from));
    }
    ops.extend(move_ops(to, to_device, from, from_device));
    if !to_device {
        ops.extend(host_access(to));
    }
    Ok(ops)
}

fn move_ops(to: Place, to_device: bool, from: Place, from_device: bool) -> Vec<DeviceOp> {
    let arriving = match to {
        Place::Modelled { alloc, device, range, .. } if to_device => Some((alloc, device, range)),
        _ => None,
    };
    let leaving = match from {
        Place::Modelled { alloc, device, range, .. } if from_device => Some((alloc, device, range)),
        _ => None,
    };
    let pinned = |place| place == Place::Host { pinned: true };
    match (arriving, leaving) {
        (Some((to, device, to_range)), Some((from, from_device, from_range))) if device == from_device => {
            // The sizes differ where one end is managed memory with gaps between its rows.
            let bytes = from_range.bytes.min(to_range.bytes);
            let from_range = Range { bytes, ..from_range };
            vec![(device, Op::CopyOnDevice { from, from_range, to, to_offset: to_range.offset })]
        }
        (arriving, leaving) => {
            let between_devices = arriving.is_some() && leaving.is_some();
            let out = leaving.map(|(alloc, device, range)| {
                (device, Op::CopyToHost { alloc, range, pinned: between_devices || pinned(to) })
            });
            let into = arriving.map(|(alloc, device, range)| {
                (device, Op::CopyToDevice { alloc, range, pinned: between_devices || pinned(from) })
            });
            out.into_iter().chain(into).collect()
        }
    }
}

fn host_access(place: Place) -> Option<DeviceOp> {
    match place {
        Place::Modelled { alloc, kind: AllocKind::Managed, device, range } => {
            Some((device, Op::HostAccess { alloc, range }))
        }
        _ => None,
    }
}

/// The model's operations for a fill.
///
/// # Errors
/// `cudaErrorInvalidValue` for pageable memory.
pub fn fill_ops(place: Place) -> Result<Vec<DeviceOp>, Code> {
    match place {
        Place::Modelled { alloc, device, range, .. } => Ok(vec![(device, Op::Fill { alloc, range })]),
        Place::Host { pinned: true } | Place::Variable => Ok(Vec::new()),
        Place::Host { pinned: false } => Err(Code::cudaErrorInvalidValue),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: Range = Range { offset: 0, bytes: 64 };
    const HOST: Place = Place::Host { pinned: false };

    fn modelled(id: u64, kind: AllocKind) -> Place {
        Place::Modelled { alloc: AllocId(id), kind, device: 0, range: RANGE }
    }

    #[test]
    fn managed_memory_is_what_the_direction_calls_it() {
        let (device, managed) = (modelled(1, AllocKind::Device), modelled(2, AllocKind::Managed));
        let touch = (0, Op::HostAccess { alloc: AllocId(2), range: RANGE });
        let into = |id, pinned| (0, Op::CopyToDevice { alloc: AllocId(id), range: RANGE, pinned });
        assert_eq!(copy_ops(managed, HOST, Direction::HostToDevice), Ok(vec![into(2, false)]));
        assert_eq!(copy_ops(managed, HOST, Direction::HostToHost), Ok(vec![touch.clone()]));
        assert_eq!(copy_ops(device, managed, Direction::HostToDevice), Ok(vec![touch, into(1, false)]));
        let pinned = Place::Host { pinned: true };
        assert_eq!(copy_ops(device, pinned, Direction::Default), Ok(vec![into(1, true)]));
    }

    #[test]
    fn pointers_that_contradict_the_direction_are_refused() {
        let device = modelled(1, AllocKind::Device);
        for (to, from, direction) in [
            (HOST, HOST, Direction::HostToDevice),
            (HOST, HOST, Direction::DeviceToHost),
            (device, device, Direction::HostToDevice),
            (device, HOST, Direction::DeviceToDevice),
        ] {
            assert_eq!(copy_ops(to, from, direction), Err(Code::cudaErrorInvalidValue), "{direction:?}");
        }
        assert_eq!(copy_ops(HOST, HOST, Direction::Default), Ok(vec![]));
        assert_eq!(Direction::new(5), Err(Code::cudaErrorInvalidMemcpyDirection));
    }
}
