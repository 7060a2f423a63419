//! Devices: how many, which one, what they can do, waiting for them, leaving them.
//!
//! Trap: choosing a device or asking for its properties makes no context on it; the first allocation, copy, launch or
//! stream does.

use core::ffi::c_int;

use cudarc::runtime::sys::cudaDeviceProp;
use eager_vgpu_link::{Reply, Request};

use super::{open, put};
use crate::device::{attribute, current_device, properties, set_current_device};
use crate::runtime::{Runtime, unexpected};
use crate::status::{Code, guard};

/// Priorities of streams: 0 is the default and the least, as on NVIDIA's cards since Volta.
pub const PRIORITY_LEAST: c_int = 0;
pub const PRIORITY_GREATEST: c_int = -5;

fn index(device: c_int) -> Result<u32, Code> {
    u32::try_from(device).map_err(|_| Code::cudaErrorInvalidDevice)
}

/// # Safety
/// `count` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDeviceCount(count: *mut c_int) -> Code {
    guard("cudaGetDeviceCount", 0, || {
        let devices = c_int::try_from(Runtime::get()?.devices.len()).unwrap_or(c_int::MAX);
        // SAFETY: the caller says so.
        unsafe { put(count, devices) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaSetDevice(device: c_int) -> Code {
    guard("cudaSetDevice", 0, || {
        let device = index(device)?;
        Runtime::get()?.device(device)?;
        set_current_device(device);
        Ok(())
    })
}

/// # Safety
/// `device` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDevice(device: *mut c_int) -> Code {
    // SAFETY: the caller says so.
    guard("cudaGetDevice", 0, || unsafe { put(device, current_device().cast_signed()) })
}

/// # Safety
/// `filled` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDeviceProperties(filled: *mut cudaDeviceProp, device: c_int) -> Code {
    guard("cudaGetDeviceProperties", 0, || {
        let device = Runtime::get()?.device(index(device)?)?;
        // SAFETY: the caller says so.
        unsafe { put(filled, properties(device)) }
    })
}

/// # Safety
/// `value` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetAttribute(value: *mut c_int, number: u32, device: c_int) -> Code {
    guard("cudaDeviceGetAttribute", 0, || {
        let device = Runtime::get()?.device(index(device)?)?;
        let found = attribute(device, number).ok_or(Code::cudaErrorInvalidValue)?;
        // SAFETY: the caller says so.
        unsafe { put(value, found) }
    })
}

/// # Safety
/// Both pointers are null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> Code {
    guard("cudaDeviceGetStreamPriorityRange", 0, || {
        Runtime::get()?;
        for (to, priority) in [(least, PRIORITY_LEAST), (greatest, PRIORITY_GREATEST)] {
            if !to.is_null() {
                // SAFETY: not null, and then the caller vouches for it.
                unsafe { to.write(priority) };
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceSynchronize() -> Code {
    guard("cudaDeviceSynchronize", 0, || {
        let (runtime, device) = open()?;
        runtime.wait_for_device(device)
    })
}

/// Ends the process's context on the current device with all its memory. An error of the device stays, as on NVIDIA's.
#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceReset() -> Code {
    guard("cudaDeviceReset", 0, || Runtime::get()?.close_context(current_device()))
}

/// # Safety
/// Both pointers are null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemGetInfo(free: *mut usize, total: *mut usize) -> Code {
    guard("cudaMemGetInfo", 0, || {
        let (runtime, device) = open()?;
        let info = match runtime.call(Request::MemoryInfo { device })? {
            Reply::MemoryInfo(info) => info,
            other => return Err(unexpected(&other)),
        };
        for (to, bytes) in [(free, info.free), (total, info.total)] {
            if !to.is_null() {
                // SAFETY: not null, and then the caller vouches for it.
                unsafe { to.write(usize::try_from(bytes).unwrap_or(usize::MAX)) };
            }
        }
        Ok(())
    })
}
