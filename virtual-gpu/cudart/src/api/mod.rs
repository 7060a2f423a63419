//! The exported functions: arguments in from C, decisions elsewhere, a code out.
//!
//! Names, signatures and meanings are those of the CUDA 13.0 runtime API reference; what differs here is said at the
//! function. Trap: C may pass any number for an enumeration, so none of CUDA's enumerations is a parameter type here.

mod device;
mod error;
mod event;
mod launch;
mod managed;
mod memory;
mod registration;
mod stream;
mod symbol;
mod transfer;

use core::ffi::c_void;

use crate::device::current_device;
use crate::runtime::Runtime;
use crate::status::Code;
use crate::stream::StreamKey;

/// The runtime and the calling thread's device, with a context on it.
fn open() -> Result<(&'static Runtime, u32), Code> {
    let runtime = Runtime::get()?;
    let device = current_device();
    runtime.open_context(device)?;
    Ok((runtime, device))
}

/// Writes a result through a C pointer.
///
/// # Safety
/// `to` is null or valid for writing a `T`.
unsafe fn put<T>(to: *mut T, value: T) -> Result<(), Code> {
    if to.is_null() {
        return Err(Code::cudaErrorInvalidValue);
    }
    // SAFETY: not null, and then the caller vouches for it.
    unsafe { to.write(value) };
    Ok(())
}

/// Handles below this name default streams: 0, `cudaStreamLegacy` (1) and `cudaStreamPerThread` (2).
const STREAM_DEFAULT_HANDLES: u64 = 3;

/// The stream behind a handle. A per-thread default stream is the device's default stream here: stricter order than
/// CUDA promises, same results.
fn stream_key(handle: *mut c_void, device: u32) -> StreamKey {
    match handle as u64 {
        0..STREAM_DEFAULT_HANDLES => StreamKey::Default { device },
        created => StreamKey::Created(created),
    }
}
