//! Virtual memory management: reserves addresses, creates memory, maps addresses to memory.
//!
//! Differences from the driver: mappings begin at offset 0 of their memory (as CUDA documents), a copy may not extend
//! from one mapping into the next, and the host can read mapped addresses. Unmapping does not wait; a kernel that still
//! uses the addresses faults, as on a real device.
#![allow(non_snake_case, reason = "the driver's names")]

use eager_gpu_model::AllocKind;
use eager_vgpu_link::{Reply, Request};

use super::guard;
use crate::ffi::{In, Out};
use crate::memory::{Access, Memory};
use crate::runtime::{Runtime, unexpected};
use crate::status::Code;

const LOCATION_DEVICE: u32 = 1;
const ALLOCATION_PINNED: u32 = 1;
const ACCESS_NONE: u32 = 0;
const ACCESS_READ: u32 = 1;
const ACCESS_READ_WRITE: u32 = 3;

/// `CUmemLocation`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Location {
    kind: u32,
    id: i32,
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct AllocationProp {
    kind: u32,
    handle_types: u32,
    location: Location,
    win32_meta: u64,
    flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct AccessDesc {
    location: Location,
    flags: u32,
}

const _: () = assert!(size_of::<AllocationProp>() == 32 && size_of::<AccessDesc>() == 12);

impl Location {
    /// # Errors
    /// `cudaErrorInvalidValue` for a location other than a device, `cudaErrorInvalidDevice`.
    fn device(self, runtime: &Runtime) -> Result<u32, Code> {
        if self.kind != LOCATION_DEVICE {
            return Err(Code::cudaErrorInvalidValue);
        }
        let device = u32::try_from(self.id).map_err(|_| Code::cudaErrorInvalidDevice)?;
        runtime.device(device).map(|_| device)
    }
}

impl AllocationProp {
    /// # Errors
    /// Those of [`Location::device`]; `cudaErrorNotSupported` for memory to be shared with other processes.
    fn device(&self, runtime: &Runtime) -> Result<u32, Code> {
        if self.kind != ALLOCATION_PINNED {
            return Err(Code::cudaErrorInvalidValue);
        }
        if self.handle_types != 0 {
            return Err(Code::cudaErrorNotSupported);
        }
        self.location.device(runtime)
    }
}

pub extern "C" fn cuMemGetAllocationGranularity(
    granularity: Out<usize>,
    prop: In<AllocationProp>,
    _recommended: u32,
) -> Code {
    guard("cuMemGetAllocationGranularity", 0, || {
        let runtime = Runtime::get()?;
        prop.get()?.device(runtime)?;
        if !runtime.maps_memory {
            return Err(Code::cudaErrorNotSupported);
        }
        granularity.put(runtime.memory.lock().virtual_memory.granularity() as usize)
    })
}

/// Reserves addresses; ignores the requested address, as CUDA allows.
pub extern "C" fn cuMemAddressReserve(
    address: Out<u64>,
    bytes: usize,
    alignment: usize,
    _wish: u64,
    flags: u64,
) -> Code {
    guard("cuMemAddressReserve", bytes, || {
        address.check()?;
        let runtime = Runtime::get()?;
        let memory = &mut *runtime.memory.lock();
        let granularity = memory.virtual_memory.granularity();
        if flags != 0
            || alignment as u64 > granularity
            || !granularity.is_multiple_of(alignment.max(1) as u64)
        {
            return Err(Code::cudaErrorInvalidValue);
        }
        address.put(memory.virtual_memory.reserve(&mut memory.arena, bytes as u64)?)
    })
}

pub extern "C" fn cuMemAddressFree(address: u64, bytes: usize) -> Code {
    guard("cuMemAddressFree", bytes, || {
        let memory = &mut *Runtime::get()?.memory.lock();
        memory.virtual_memory.unreserve(&mut memory.arena, address, bytes as u64)
    })
}

pub extern "C" fn cuMemCreate(handle: Out<u64>, bytes: usize, prop: In<AllocationProp>, flags: u64) -> Code {
    guard("cuMemCreate", bytes, || {
        handle.check()?;
        let runtime = Runtime::get()?;
        let device = prop.get()?.device(runtime)?;
        runtime.memory.lock().virtual_memory.check_size(bytes as u64)?;
        if flags != 0 {
            return Err(Code::cudaErrorInvalidValue);
        }
        runtime.open_context(device)?;
        let request = Request::Allocate { device, bytes: bytes as u64, kind: AllocKind::Device };
        let alloc = match runtime.call(request)? {
            Reply::Allocated(alloc) => alloc,
            other => return Err(unexpected(&other)),
        };
        let added = runtime.memory.lock().virtual_memory.add(device, bytes as u64, alloc);
        if added.is_err() {
            runtime.call(Request::Free { alloc })?;
        }
        handle.put(added?)
    })
}

pub extern "C" fn cuMemRelease(handle: u64) -> Code {
    guard("cuMemRelease", 0, || {
        let runtime = Runtime::get()?;
        let unused = runtime.memory.lock().virtual_memory.release(handle)?;
        unused.map_or(Ok(()), |alloc| runtime.call(Request::Free { alloc }).map(drop))
    })
}

pub extern "C" fn cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, flags: u64) -> Code {
    guard("cuMemMap", bytes, || {
        if offset != 0 || flags != 0 {
            return Err(Code::cudaErrorInvalidValue);
        }
        let Memory { virtual_memory, table, .. } = &mut *Runtime::get()?.memory.lock();
        virtual_memory.map(table, address, bytes as u64, handle)
    })
}

pub extern "C" fn cuMemUnmap(address: u64, bytes: usize) -> Code {
    guard("cuMemUnmap", bytes, || {
        let runtime = Runtime::get()?;
        let unused = {
            let Memory { virtual_memory, table, .. } = &mut *runtime.memory.lock();
            virtual_memory.unmap(table, address, bytes as u64)?
        };
        unused.into_iter().try_for_each(|alloc| runtime.call(Request::Free { alloc }).map(drop))
    })
}

/// Sets the access for all virtual devices at once, which are each other's peers.
pub extern "C" fn cuMemSetAccess(address: u64, bytes: usize, descs: In<AccessDesc>, count: usize) -> Code {
    guard("cuMemSetAccess", bytes, || {
        let runtime = Runtime::get()?;
        let descs = descs.all(count)?;
        let mut access = Access::Nothing;
        for desc in descs {
            desc.location.device(runtime)?;
            access = match desc.flags {
                ACCESS_NONE => access,
                ACCESS_READ if access == Access::Nothing => Access::Read,
                ACCESS_READ => access,
                ACCESS_READ_WRITE => Access::ReadWrite,
                _ => return Err(Code::cudaErrorInvalidValue),
            };
        }
        runtime.memory.lock().virtual_memory.set_access(address, bytes as u64, access)
    })
}
