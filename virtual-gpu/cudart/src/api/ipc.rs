//! Memory and events shared between processes: unsupported on virtual GPUs, which every call reports.
//!
//! Trap: the functions must exist. Without them a program would end at its first call; with the code it can do without
//! them.

use core::ffi::{c_char, c_void};

use crate::ffi::Out;
use crate::log::log_line;
use crate::status::Code;

/// `cudaIpcMemHandle_t` and `cudaIpcEventHandle_t`, which C passes by value.
#[repr(C)]
pub struct Handle([c_char; 64]);

fn refused(call: &str) -> Result<(), Code> {
    log_line(format_args!("{call}: virtual GPUs share no memory and no events between processes"));
    Err(Code::cudaErrorNotSupported)
}

api!(
    fn cudaIpcGetMemHandle(_handle: Out<Handle>, _memory: *mut c_void) -> Result<(), Code> {
        refused("cudaIpcGetMemHandle")
    }

    fn cudaIpcOpenMemHandle(_memory: Out<*mut c_void>, _handle: Handle, _flags: u32) -> Result<(), Code> {
        refused("cudaIpcOpenMemHandle")
    }

    /// Always an error, since no memory can have been opened.
    fn cudaIpcCloseMemHandle(_memory: *mut c_void) -> Result<(), Code> {
        Err(Code::cudaErrorInvalidValue)
    }

    fn cudaIpcGetEventHandle(_handle: Out<Handle>, _event: *mut c_void) -> Result<(), Code> {
        refused("cudaIpcGetEventHandle")
    }

    fn cudaIpcOpenEventHandle(_event: Out<*mut c_void>, _handle: Handle) -> Result<(), Code> {
        refused("cudaIpcOpenEventHandle")
    }
);
