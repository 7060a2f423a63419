//! Devices as the program sees them: the thread's current device, and properties of devices.
//!
//! Trap: the current device belongs to the calling thread, not to the process; stream workers must not use it.

mod attributes;
mod properties;
#[cfg(cuda_12)]
mod properties12;

pub use properties::uuid_of;
use std::cell::Cell;

pub use attributes::attribute;
pub use properties::shared_opt_in_bytes_max;

// `cudaDeviceProp` of the stand-in's CUDA version, and the function that fills it.
#[cfg(cuda_12)]
pub use properties12::{DeviceProp12 as DeviceProp, properties12 as properties};
#[cfg(not(cuda_12))]
pub use {cudarc::runtime::sys::cudaDeviceProp as DeviceProp, properties::properties};

thread_local! {
    static CURRENT: Cell<u32> = const { Cell::new(0) };
}

/// Device that the calling thread has selected; initially 0.
pub fn current_device() -> u32 {
    CURRENT.get()
}

pub fn set_current_device(device: u32) {
    CURRENT.set(device);
}
