//! Page-locked host memory: allocated by the runtime, or registered by the program.
//!
//! All devices see it at the host's address. Trap: registered memory remains the program's, so only
//! `cudaHostUnregister` may remove it; `cudaFreeHost` must refuse it.

use core::ffi::c_void;

use super::{open, open_uncaptured};
use crate::ffi::Out;
use crate::log::log_line;
use crate::memory::{Allocation, Kind};
use crate::runtime::Runtime;
use crate::status::Code;

/// Flags: portable, mapped, write-combined.
const ALLOC_FLAGS: u32 = 7;
/// Flags: portable, mapped, I/O memory, read-only.
const REGISTER_FLAGS: u32 = 15;
const REGISTER_IO_MEMORY: u32 = 4;

fn allocate_pinned(bytes: usize, flags: u32) -> Result<*mut c_void, Code> {
    let (runtime, device) = open_uncaptured()?;
    if bytes == 0 {
        return Ok(std::ptr::null_mut());
    }
    let words = bytes.div_ceil(size_of::<u128>());
    let mut block: Vec<u128> = Vec::new();
    block.try_reserve_exact(words).map_err(|_| Code::cudaErrorMemoryAllocation)?;
    block.resize(words, 0);
    let pointer = block.as_mut_ptr();
    let address = pointer as u64;
    let mut memory = runtime.memory.lock();
    memory.pinned.insert(address, block);
    let kind = Kind::Pinned { flags, registered: false };
    memory.table.insert(Allocation { address, bytes: bytes as u64, device, kind });
    Ok(pointer.cast())
}

fn forget(runtime: &Runtime, pointer: *mut c_void, program_owns: bool, otherwise: Code) -> Result<(), Code> {
    let is_it = |found: &Allocation| matches!(found.kind, Kind::Pinned { registered, .. } if registered == program_owns);
    let found = runtime.memory.lock().table.starting_at(pointer as u64).copied();
    let allocation = found.filter(is_it).ok_or(otherwise)?;
    runtime.wait_for_all_devices()?;
    runtime.memory.lock().forget(&allocation);
    Ok(())
}

/// Flags of the page-locked memory that contains an address.
fn flags_at(runtime: &Runtime, pointer: *mut c_void) -> Result<u32, Code> {
    match runtime.memory.lock().table.find(pointer as u64).map(|found| found.kind) {
        Some(Kind::Pinned { flags, .. }) => Ok(flags),
        _ => Err(Code::cudaErrorInvalidValue),
    }
}

api!(
    #[bytes(bytes)]
    fn cudaMallocHost(pointer: Out<*mut c_void>, bytes: usize) -> Result<(), Code> {
        pointer.check()?;
        pointer.put(allocate_pinned(bytes, 0)?)
    }

    #[bytes(bytes)]
    fn cudaHostAlloc(pointer: Out<*mut c_void>, bytes: usize, flags: u32) -> Result<(), Code> {
        pointer.check()?;
        if flags & !ALLOC_FLAGS != 0 {
            return Err(Code::cudaErrorInvalidValue);
        }
        pointer.put(allocate_pinned(bytes, flags)?)
    }

    /// Waits for all devices first, because a copy may still use the memory.
    fn cudaFreeHost(pointer: *mut c_void) -> Result<(), Code> {
        let (runtime, _) = open_uncaptured()?;
        if pointer.is_null() {
            return Ok(());
        }
        forget(runtime, pointer, false, Code::cudaErrorInvalidValue)
    }

    /// Locks no pages: from now on, copies from and to the range count as fast and asynchronous.
    #[bytes(bytes)]
    fn cudaHostRegister(pointer: *mut c_void, bytes: usize, flags: u32) -> Result<(), Code> {
        let (runtime, device) = open_uncaptured()?;
        let address = pointer as u64;
        let beyond = address.checked_add(bytes as u64).is_none();
        if pointer.is_null() || bytes == 0 || beyond || flags & !REGISTER_FLAGS != 0 {
            return Err(Code::cudaErrorInvalidValue);
        }
        if flags & REGISTER_IO_MEMORY != 0 {
            log_line(format_args!("cudaHostRegister: virtual GPUs reach no I/O memory"));
            return Err(Code::cudaErrorNotSupported);
        }
        let mut memory = runtime.memory.lock();
        if memory.table.overlaps(address, bytes as u64) {
            return Err(Code::cudaErrorHostMemoryAlreadyRegistered);
        }
        let kind = Kind::Pinned { flags, registered: true };
        memory.table.insert(Allocation { address, bytes: bytes as u64, device, kind });
        Ok(())
    }

    /// Waits for all devices first, because a copy may still use the memory.
    fn cudaHostUnregister(pointer: *mut c_void) -> Result<(), Code> {
        let (runtime, _) = open_uncaptured()?;
        if pointer.is_null() {
            return Err(Code::cudaErrorInvalidValue);
        }
        forget(runtime, pointer, true, Code::cudaErrorHostMemoryNotRegistered)
    }

    /// Returns the same address, since host and devices share one address space.
    fn cudaHostGetDevicePointer(
        device_pointer: Out<*mut c_void>,
        pointer: *mut c_void,
        flags: u32,
    ) -> Result<(), Code> {
        let (runtime, _) = open()?;
        if flags != 0 {
            return Err(Code::cudaErrorInvalidValue);
        }
        flags_at(runtime, pointer)?;
        device_pointer.put(pointer)
    }

    fn cudaHostGetFlags(flags: Out<u32>, pointer: *mut c_void) -> Result<(), Code> {
        let (runtime, _) = open()?;
        flags.put(flags_at(runtime, pointer)?)
    }
);
