//! Devices as the program sees them: the thread's current one, and their properties.
//!
//! Trap: the current device belongs to the calling thread, never to the process; stream workers must not ask for it.

mod properties;

use std::cell::Cell;

pub use properties::{attribute, properties, shared_opt_in_bytes_max};

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
