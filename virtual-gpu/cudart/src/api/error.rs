//! The thread's last error, names and texts of errors, and versions.
//!
//! `cudaGetLastError` resets the error, except one from which the device does not recover.

use core::ffi::{c_char, c_int};

use crate::error_texts::error_texts;
use crate::ffi::Out;
use crate::guard::{peek_last, take_last};
use crate::runtime::Runtime;
use crate::status::Code;

/// Version as 1000 × major + 10 × minor.
const CUDA_VERSION: c_int = if cfg!(cuda_12) { 12_090 } else { 13_000 };

api!(
    extern "C" fn cudaGetLastError() -> Code {
        let last = take_last();
        Runtime::failure().unwrap_or(last)
    }

    extern "C" fn cudaPeekAtLastError() -> Code {
        Runtime::failure().unwrap_or_else(peek_last)
    }

    extern "C" fn cudaGetErrorName(code: u32) -> *const c_char {
        error_texts(code)[0].as_ptr()
    }

    extern "C" fn cudaGetErrorString(code: u32) -> *const c_char {
        error_texts(code)[1].as_ptr()
    }

    fn cudaRuntimeGetVersion(version: Out<c_int>) -> Result<(), Code> {
        version.put(CUDA_VERSION)
    }

    fn cudaDriverGetVersion(version: Out<c_int>) -> Result<(), Code> {
        version.put(CUDA_VERSION)
    }
);
