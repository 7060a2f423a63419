//! Devices as the program sees them: the thread's current one, and their properties.
//!
//! Trap: the current device belongs to the calling thread, never to the process; stream workers must not ask for it.

mod attributes;
mod properties;
#[cfg(cuda_12)]
mod properties12;

pub use properties::uuid_of;
use std::cell::Cell;

pub use attributes::attribute;
pub use properties::shared_opt_in_bytes_max;

// `cudaDeviceProp` of the CUDA version that the library stands in for, and how it is filled.
#[cfg(cuda_12)]
pub use properties12::{DeviceProp12 as DeviceProp, properties12 as properties};
#[cfg(not(cuda_12))]
pub use {cudarc::runtime::sys::cudaDeviceProp as DeviceProp, properties::properties};

thread_local! {
    static CURRENT: Cell<u32> = const { Cell::new(0) };
}

/// Device that the calling thread has chosen; 0 at first.
pub fn current_device() -> u32 {
    CURRENT.get()
}

pub fn set_current_device(device: u32) {
    CURRENT.set(device);
}
