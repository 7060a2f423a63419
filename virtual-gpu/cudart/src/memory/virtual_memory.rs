//! CUDA's virtual memory management: addresses without memory, memory without addresses, and mappings between them.
//!
//! Trap: released memory must live on while something is mapped to it. Its contents belong to the memory, not to the
//! address: mapped elsewhere, it shows them again.

use std::collections::BTreeMap;
use std::fs::File;

use eager_gpu_model::{AllocId, AllocKind};

use super::pages::{self, Access};
use super::{Allocation, Arena, Kind, Table};
use crate::log::log_line;
use crate::status::Code;

/// State of the driver's `cuMem*` calls.
#[derive(Debug)]
pub struct VirtualMemory {
    /// Every size and address is a multiple of this.
    granularity: u64,
    /// Reserved ranges: start to length.
    reserved: BTreeMap<u64, u64>,
    pieces: BTreeMap<u64, Piece>,
    /// Mappings by start.
    mappings: BTreeMap<u64, Mapping>,
    last_handle: u64,
}

/// Memory of a device, without an address.
#[derive(Debug)]
struct Piece {
    device: u32,
    bytes: u64,
    alloc: AllocId,
    file: File,
    mappings: u32,
    is_released: bool,
}

#[derive(Debug, Clone, Copy)]
struct Mapping {
    bytes: u64,
    handle: u64,
}

impl VirtualMemory {
    pub fn new(granularity: u64) -> VirtualMemory {
        VirtualMemory {
            granularity,
            reserved: BTreeMap::new(),
            pieces: BTreeMap::new(),
            mappings: BTreeMap::new(),
            last_handle: 0,
        }
    }

    pub fn granularity(&self) -> u64 {
        self.granularity
    }

    /// # Errors
    /// `cudaErrorInvalidValue` for a size that is 0 or not a multiple of the granularity.
    pub fn check_size(&self, bytes: u64) -> Result<(), Code> {
        if bytes > 0 && bytes.is_multiple_of(self.granularity) {
            Ok(())
        } else {
            Err(Code::cudaErrorInvalidValue)
        }
    }

    /// True if a mapping made by the program starts at `address`.
    pub fn is_mapped(&self, address: u64) -> bool {
        self.mappings.contains_key(&address)
    }

    /// Reserves addresses, which are not mapped yet.
    ///
    /// # Errors
    /// Those of [`VirtualMemory::check_size`], and `cudaErrorMemoryAllocation` when no addresses are left.
    pub fn reserve(&mut self, arena: &mut Arena, bytes: u64) -> Result<u64, Code> {
        self.check_size(bytes)?;
        let address = arena.allocate(bytes).ok_or(Code::cudaErrorMemoryAllocation)?.as_ptr() as u64;
        // SAFETY: the arena has just given these addresses to this function.
        unsafe { pages::map_nothing(address, bytes) }.map_err(|e| unmappable(&e))?;
        self.reserved.insert(address, bytes);
        Ok(address)
    }

    /// Frees a range that [`VirtualMemory::reserve`] returned.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` if the range is not a reservation, or something is still mapped there.
    pub fn unreserve(&mut self, arena: &mut Arena, address: u64, bytes: u64) -> Result<(), Code> {
        let is_it = self.reserved.get(&address) == Some(&bytes);
        if !is_it || self.mappings.range(address..address + bytes).next().is_some() {
            return Err(Code::cudaErrorInvalidValue);
        }
        // The arena's free addresses must be readable and writable.
        // SAFETY: the range is a reservation made here, without mappings.
        unsafe { pages::protect(address, bytes, Access::ReadWrite) }.map_err(|e| unmappable(&e))?;
        self.reserved.remove(&address);
        arena.release(address, bytes);
        Ok(())
    }

    /// Adds memory that the model has allocated; returns its handle.
    ///
    /// # Errors
    /// `cudaErrorMemoryAllocation` when the host has no memory for it.
    pub fn add(&mut self, device: u32, bytes: u64, alloc: AllocId) -> Result<u64, Code> {
        let file = pages::memory_file(bytes).map_err(|e| unmappable(&e))?;
        self.last_handle += 1;
        let piece = Piece { device, bytes, alloc, file, mappings: 0, is_released: false };
        self.pieces.insert(self.last_handle, piece);
        Ok(self.last_handle)
    }

    /// Releases a handle. Returns the allocation that the model may free now, if any.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` for an invalid handle.
    pub fn release(&mut self, handle: u64) -> Result<Option<AllocId>, Code> {
        let piece = self.pieces.get_mut(&handle).filter(|piece| !piece.is_released);
        piece.ok_or(Code::cudaErrorInvalidValue)?.is_released = true;
        Ok(self.drop_if_unused(handle))
    }

    /// Maps reserved addresses to memory; they are accessible after [`VirtualMemory::set_access`].
    ///
    /// # Errors
    /// `cudaErrorInvalidValue`: not reserved, already mapped, more than the memory's size, or no such handle.
    pub fn map(&mut self, table: &mut Table, address: u64, bytes: u64, handle: u64) -> Result<(), Code> {
        self.check_size(bytes)?;
        let is_free = address.is_multiple_of(self.granularity)
            && self.is_reserved(address, bytes)
            && !table.overlaps(address, bytes);
        let piece = self.pieces.get_mut(&handle).filter(|piece| !piece.is_released && bytes <= piece.bytes);
        let Some(piece) = piece.filter(|_| is_free) else { return Err(Code::cudaErrorInvalidValue) };
        // SAFETY: the addresses are reserved by the program and nothing is mapped there.
        unsafe { pages::map_file(address, bytes, &piece.file) }.map_err(|e| unmappable(&e))?;
        piece.mappings += 1;
        self.mappings.insert(address, Mapping { bytes, handle });
        let kind = Kind::Modelled { alloc: piece.alloc, kind: AllocKind::Device };
        table.insert(Allocation { address, bytes, device: piece.device, kind });
        Ok(())
    }

    /// Unmaps a range. Returns the allocations that the model may free now.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` unless the range consists of one or several whole mappings.
    pub fn unmap(&mut self, table: &mut Table, address: u64, bytes: u64) -> Result<Vec<AllocId>, Code> {
        let starts = self.whole_mappings(address, bytes).ok_or(Code::cudaErrorInvalidValue)?;
        // SAFETY: the range consists of mappings made here.
        unsafe { pages::map_nothing(address, bytes) }.map_err(|e| unmappable(&e))?;
        Ok(starts.into_iter().filter_map(|start| self.forget_mapping(table, start)).collect())
    }

    /// # Errors
    /// `cudaErrorInvalidValue` unless the range consists of one or several whole mappings.
    pub fn set_access(&self, address: u64, bytes: u64, access: Access) -> Result<(), Code> {
        self.whole_mappings(address, bytes).ok_or(Code::cudaErrorInvalidValue)?;
        // SAFETY: the range consists of mappings made here.
        unsafe { pages::protect(address, bytes, access) }.map_err(|e| unmappable(&e))
    }

    /// Removes the memory and mappings of a device whose context has ended; reservations stay.
    pub fn forget_device(&mut self, table: &mut Table, device: u32) {
        let of_device =
            |mapping: &Mapping| self.pieces.get(&mapping.handle).is_some_and(|p| p.device == device);
        let gone: Vec<(u64, u64)> =
            self.mappings.iter().filter(|(_, m)| of_device(m)).map(|(start, m)| (*start, m.bytes)).collect();
        for (start, bytes) in gone {
            // If this fails, the addresses still lead to the old bytes, which no valid program uses any more.
            let _ = self.unmap(table, start, bytes);
        }
        self.pieces.retain(|_, piece| piece.device != device);
    }

    fn is_reserved(&self, address: u64, bytes: u64) -> bool {
        let around = self.reserved.range(..=address).next_back();
        around.is_some_and(|(start, length)| {
            address.checked_add(bytes).is_some_and(|end| end <= start + length)
        })
    }

    /// Starts of the mappings that together cover exactly the range; `None` if there are none.
    fn whole_mappings(&self, address: u64, bytes: u64) -> Option<Vec<u64>> {
        let end = address.checked_add(bytes).filter(|_| bytes > 0)?;
        let mut starts = Vec::new();
        let mut at = address;
        while at < end {
            starts.push(at);
            at += self.mappings.get(&at)?.bytes;
        }
        (at == end).then_some(starts)
    }

    fn forget_mapping(&mut self, table: &mut Table, start: u64) -> Option<AllocId> {
        let mapping = self.mappings.remove(&start)?;
        table.remove(start);
        self.pieces.get_mut(&mapping.handle)?.mappings -= 1;
        self.drop_if_unused(mapping.handle)
    }

    fn drop_if_unused(&mut self, handle: u64) -> Option<AllocId> {
        let unused = self.pieces.get(&handle).is_some_and(|piece| piece.is_released && piece.mappings == 0);
        let piece = unused.then(|| self.pieces.remove(&handle)).flatten()?;
        Some(piece.alloc)
    }
}

/// Reports a limit of the host on standard error, because the code for the program cannot tell it from the device's.
fn unmappable(error: &std::io::Error) -> Code {
    log_line(format_args!(
        "cannot map device memory: {error}; the number of open files or mappings may be limited"
    ));
    Code::cudaErrorMemoryAllocation
}
