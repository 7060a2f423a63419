//! Errors as text and the thread's last error; versions.
//!
//! Trap: `cudaGetLastError` forgets the error, unless it is one that the device does not recover from.

use core::ffi::{CStr, c_char, c_int};

use super::put;
use crate::runtime::Runtime;
use crate::status::{Code, guard, peek_last, take_last};

/// 1000 × major + 10 × minor.
const CUDA_VERSION: c_int = 13_000;

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetLastError() -> Code {
    let last = take_last();
    Runtime::failure().unwrap_or(last)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaPeekAtLastError() -> Code {
    Runtime::failure().unwrap_or_else(peek_last)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorName(code: u32) -> *const c_char {
    entry(code).1.as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorString(code: u32) -> *const c_char {
    entry(code).2.as_ptr()
}

/// # Safety
/// `version` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaRuntimeGetVersion(version: *mut c_int) -> Code {
    // SAFETY: the caller says so.
    guard("cudaRuntimeGetVersion", 0, || unsafe { put(version, CUDA_VERSION) })
}

/// # Safety
/// `version` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDriverGetVersion(version: *mut c_int) -> Code {
    // SAFETY: the caller says so.
    guard("cudaDriverGetVersion", 0, || unsafe { put(version, CUDA_VERSION) })
}

type Entry = (Code, &'static CStr, &'static CStr);

/// The codes this library gives, in ascending order; wording of the CUDA runtime.
const ENTRIES: &[Entry] = &[
    (Code::cudaSuccess, c"cudaSuccess", c"no error"),
    (Code::cudaErrorInvalidValue, c"cudaErrorInvalidValue", c"invalid argument"),
    (Code::cudaErrorMemoryAllocation, c"cudaErrorMemoryAllocation", c"out of memory"),
    (Code::cudaErrorInitializationError, c"cudaErrorInitializationError", c"initialization error"),
    (
        Code::cudaErrorInvalidConfiguration,
        c"cudaErrorInvalidConfiguration",
        c"invalid configuration argument",
    ),
    (Code::cudaErrorInvalidSymbol, c"cudaErrorInvalidSymbol", c"invalid device symbol"),
    (
        Code::cudaErrorInvalidMemcpyDirection,
        c"cudaErrorInvalidMemcpyDirection",
        c"invalid copy direction for memcpy",
    ),
    (
        Code::cudaErrorDevicesUnavailable,
        c"cudaErrorDevicesUnavailable",
        c"CUDA-capable device(s) is/are busy or unavailable",
    ),
    (
        Code::cudaErrorMissingConfiguration,
        c"cudaErrorMissingConfiguration",
        c"__global__ function call is not configured",
    ),
    (Code::cudaErrorInvalidDeviceFunction, c"cudaErrorInvalidDeviceFunction", c"invalid device function"),
    (Code::cudaErrorInvalidDevice, c"cudaErrorInvalidDevice", c"invalid device ordinal"),
    (Code::cudaErrorInvalidResourceHandle, c"cudaErrorInvalidResourceHandle", c"invalid resource handle"),
    (Code::cudaErrorNotReady, c"cudaErrorNotReady", c"device not ready"),
    (Code::cudaErrorLaunchFailure, c"cudaErrorLaunchFailure", c"unspecified launch failure"),
    (Code::cudaErrorNotSupported, c"cudaErrorNotSupported", c"operation not supported"),
    (Code::cudaErrorUnknown, c"cudaErrorUnknown", c"unknown error"),
];

/// Code, name and text; NVIDIA's words for a number that is no code.
fn entry(code: u32) -> Entry {
    let unknown = (Code::cudaErrorUnknown, c"unrecognized error code", c"unrecognized error code");
    ENTRIES.iter().copied().find(|(known, ..)| *known as u32 == code).unwrap_or(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_listed_once_in_order() {
        assert!(ENTRIES.windows(2).all(|pair| (pair[0].0 as u32) < pair[1].0 as u32));
        assert_eq!(entry(2).2, c"out of memory");
        assert_eq!(entry(12345).1, c"unrecognized error code");
    }
}
