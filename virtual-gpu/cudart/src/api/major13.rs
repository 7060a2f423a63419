//! Calls that only CUDA 13 has: pools by location instead of by device.
//!
//! Devices are the only locations with pools here.

use core::ffi::c_void;

use super::managed::{MemLocation, Target};
use super::open;
use super::pool::{ALLOCATION_PINNED, set_pool};
use crate::ffi::{In, Out};
use crate::runtime::Runtime;
use crate::status::{Code, guard};

/// Device given by a location and a kind of memory.
fn pool_device(runtime: &Runtime, location: In<MemLocation>, allocation_type: u32) -> Result<u32, Code> {
    match (location.get()?.target(runtime)?, allocation_type) {
        (Target::Device(device), ALLOCATION_PINNED) => Ok(device),
        _ => Err(Code::cudaErrorNotSupported),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemGetDefaultMemPool(
    pool: Out<*mut c_void>,
    location: In<MemLocation>,
    allocation_type: u32,
) -> Code {
    guard("cudaMemGetDefaultMemPool", 0, || {
        let (runtime, _) = open()?;
        let device = pool_device(runtime, location, allocation_type)?;
        pool.put(runtime.pools.lock().default_of(device).0 as *mut c_void)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemGetMemPool(
    pool: Out<*mut c_void>,
    location: In<MemLocation>,
    allocation_type: u32,
) -> Code {
    guard("cudaMemGetMemPool", 0, || {
        let (runtime, _) = open()?;
        let device = pool_device(runtime, location, allocation_type)?;
        pool.put(runtime.pools.lock().current_of(device).0 as *mut c_void)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemSetMemPool(
    location: In<MemLocation>,
    allocation_type: u32,
    pool: *mut c_void,
) -> Code {
    guard("cudaMemSetMemPool", 0, || {
        let (runtime, _) = open()?;
        let device = pool_device(runtime, location, allocation_type)?;
        set_pool(runtime, device, pool)
    })
}
