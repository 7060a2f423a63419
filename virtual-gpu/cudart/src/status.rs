//! Results of calls: CUDA's error codes, and which of them a failed request of the server is.
//!
//! Trap: CUDA's codes cannot carry a reason, so a reason that is not in the code must be logged where it becomes one.

use cudarc::runtime::sys::cudaError;
use eager_vgpu_link::{LinkError, Refusal};

use crate::log::log_line;

/// A CUDA error code other than `cudaSuccess`; in `Result`s only.
pub type Code = cudaError;

/// Code that the program gets for a failed request. Anything but an ordinary refusal is logged on standard error,
/// because CUDA's codes cannot carry the reason.
pub fn code_of(error: &LinkError) -> Code {
    match error {
        LinkError::Refused(Refusal::OutOfMemory { .. }) => Code::cudaErrorMemoryAllocation,
        LinkError::Refused(Refusal::NoDevice { .. }) => Code::cudaErrorInvalidDevice,
        LinkError::Refused(Refusal::TooMuch(_)) => {
            log_line(format_args!("{error}"));
            Code::cudaErrorMemoryAllocation
        }
        LinkError::Refused(_) => {
            log_line(format_args!("{error}"));
            Code::cudaErrorInvalidValue
        }
        LinkError::Connect { .. } | LinkError::NoThread(_) => {
            log_line(format_args!("{error}"));
            Code::cudaErrorInitializationError
        }
        LinkError::Lost(_) | LinkError::Malformed { .. } => {
            log_line(format_args!("{error}"));
            Code::cudaErrorDevicesUnavailable
        }
    }
}
