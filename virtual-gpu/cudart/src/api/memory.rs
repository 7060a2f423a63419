//! Allocation and release of device, managed and page-locked memory, and questions about pointers.
//!
//! Trap: out of memory is an answer, not a failure: the context stays usable and a later, smaller request may succeed.

use core::ffi::{c_int, c_void};

use cudarc::runtime::sys::{cudaMemoryType, cudaPointerAttributes};
use eager_gpu_model::{AllocId, AllocKind};
use eager_vgpu_link::{Reply, Request};

use super::{open, put};
use crate::memory::{Allocation, Kind};
use crate::runtime::{Runtime, unexpected};
use crate::status::{Code, guard};

/// # Safety
/// `pointer` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMalloc(pointer: *mut *mut c_void, bytes: usize) -> Code {
    // SAFETY: the caller says so.
    guard("cudaMalloc", bytes, || unsafe { put(pointer, allocate(bytes, AllocKind::Device)?) })
}

/// Memory attached to one stream (`cudaMemAttachSingle`) is treated as attached to all.
///
/// # Safety
/// `pointer` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocManaged(pointer: *mut *mut c_void, bytes: usize, flags: u32) -> Code {
    const ATTACH_GLOBAL: u32 = 1;
    const ATTACH_HOST: u32 = 2;
    guard("cudaMallocManaged", bytes, || {
        if bytes == 0 || !matches!(flags, ATTACH_GLOBAL | ATTACH_HOST) {
            return Err(Code::cudaErrorInvalidValue);
        }
        // SAFETY: the caller says so.
        unsafe { put(pointer, allocate(bytes, AllocKind::Managed)?) }
    })
}

fn allocate(bytes: usize, kind: AllocKind) -> Result<*mut c_void, Code> {
    let (runtime, device) = open()?;
    if bytes == 0 {
        return Ok(std::ptr::null_mut());
    }
    let bytes = bytes as u64;
    let alloc = match runtime.call(Request::Allocate { device, bytes, kind })? {
        Reply::Allocated(alloc) => alloc,
        other => return Err(unexpected(&other)),
    };
    let mut memory = runtime.memory.lock();
    let Some(address) = memory.arena.allocate(bytes) else {
        drop(memory);
        free_modelled(runtime, alloc)?;
        return Err(Code::cudaErrorMemoryAllocation);
    };
    let address = address.as_ptr();
    memory.table.insert(Allocation {
        address: address as u64,
        bytes,
        device,
        kind: Kind::Modelled { alloc, kind },
    });
    Ok(address.cast())
}

fn free_modelled(runtime: &Runtime, alloc: AllocId) -> Result<(), Code> {
    runtime.call(Request::Free { alloc }).map(drop)
}

/// Waits first, as CUDA does: for the device that the memory is on, or for all if any of them may use it.
#[unsafe(no_mangle)]
pub extern "C" fn cudaFree(pointer: *mut c_void) -> Code {
    guard("cudaFree", 0, || {
        let (runtime, _) = open()?;
        if pointer.is_null() {
            return Ok(());
        }
        let address = pointer as u64;
        let allocation = {
            let memory = runtime.memory.lock();
            let found = memory.table.starting_at(address).ok_or(Code::cudaErrorInvalidValue)?;
            *found
        };
        let Kind::Modelled { alloc, kind } = allocation.kind else { return Err(Code::cudaErrorInvalidValue) };
        match kind {
            AllocKind::Device => runtime.wait_for_device(allocation.device)?,
            AllocKind::Managed => runtime.wait_for_all_devices()?,
        }
        free_modelled(runtime, alloc)?;
        runtime.memory.lock().forget(&allocation);
        Ok(())
    })
}

/// # Safety
/// `pointer` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocHost(pointer: *mut *mut c_void, bytes: usize) -> Code {
    // SAFETY: the caller says so.
    guard("cudaMallocHost", bytes, || unsafe { put(pointer, allocate_pinned(bytes)?) })
}

/// Every flag is granted: page-locked memory is visible to all devices here and has one address.
///
/// # Safety
/// `pointer` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaHostAlloc(pointer: *mut *mut c_void, bytes: usize, _flags: u32) -> Code {
    // SAFETY: the caller says so.
    guard("cudaHostAlloc", bytes, || unsafe { put(pointer, allocate_pinned(bytes)?) })
}

fn allocate_pinned(bytes: usize) -> Result<*mut c_void, Code> {
    let (runtime, device) = open()?;
    if bytes == 0 {
        return Ok(std::ptr::null_mut());
    }
    let words = bytes.div_ceil(size_of::<u128>());
    let mut block: Vec<u128> = Vec::new();
    block.try_reserve_exact(words).map_err(|_| Code::cudaErrorMemoryAllocation)?;
    block.resize(words, 0);
    let address = block.as_mut_ptr();
    let mut memory = runtime.memory.lock();
    memory.pinned.insert(address as u64, block);
    let (address_number, bytes) = (address as u64, bytes as u64);
    memory.table.insert(Allocation { address: address_number, bytes, device, kind: Kind::Pinned });
    Ok(address.cast())
}

/// Waits for all devices first, because a copy may still use the memory.
#[unsafe(no_mangle)]
pub extern "C" fn cudaFreeHost(pointer: *mut c_void) -> Code {
    guard("cudaFreeHost", 0, || {
        let (runtime, _) = open()?;
        if pointer.is_null() {
            return Ok(());
        }
        let found = runtime.memory.lock().table.starting_at(pointer as u64).copied();
        let allocation =
            found.filter(|found| found.kind == Kind::Pinned).ok_or(Code::cudaErrorInvalidValue)?;
        runtime.wait_for_all_devices()?;
        runtime.memory.lock().forget(&allocation);
        Ok(())
    })
}

/// # Safety
/// `attributes` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaPointerGetAttributes(
    attributes: *mut cudaPointerAttributes,
    pointer: *const c_void,
) -> Code {
    guard("cudaPointerGetAttributes", 0, || {
        let (runtime, _) = open()?;
        let found = runtime.memory.lock().table.find(pointer as u64).copied();
        let kind = match found.map(|found| found.kind) {
            None => cudaMemoryType::cudaMemoryTypeUnregistered,
            Some(Kind::Pinned) => cudaMemoryType::cudaMemoryTypeHost,
            Some(Kind::Modelled { kind: AllocKind::Device, .. }) => cudaMemoryType::cudaMemoryTypeDevice,
            Some(Kind::Modelled { kind: AllocKind::Managed, .. }) => cudaMemoryType::cudaMemoryTypeManaged,
        };
        let (none, same) = (std::ptr::null_mut(), pointer.cast_mut());
        let device = found.map_or(-2, |found| c_int::try_from(found.device).unwrap_or(c_int::MAX));
        let filled = cudaPointerAttributes {
            type_: kind,
            device,
            devicePointer: if found.is_some() { same } else { none },
            hostPointer: if kind == cudaMemoryType::cudaMemoryTypeDevice { none } else { same },
            reserved: [0; 8],
        };
        // SAFETY: the caller says so.
        unsafe { put(attributes, filled) }
    })
}
