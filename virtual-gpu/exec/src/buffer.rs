//! Memory that a worker keeps from launch to launch, for shared memory and for the frames of threads.

use core::ptr::NonNull;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};

/// Alignment of shared memory and of coroutine frames, in bytes (the ABI promises 128 and 64).
pub(crate) const BUFFER_ALIGN: usize = 128;

/// Memory of at least the size last requested, contents undefined.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    memory: Option<(NonNull<u8>, Layout)>,
}

impl Buffer {
    pub fn bytes(&self) -> usize {
        self.memory.map_or(0, |(_, layout)| layout.size())
    }

    pub fn as_ptr(&self) -> *mut u8 {
        self.memory.map_or(std::ptr::null_mut(), |(start, _)| start.as_ptr())
    }

    pub fn ensure(&mut self, bytes: usize) {
        if bytes <= self.bytes() {
            return;
        }
        let layout =
            Layout::from_size_align(bytes.next_power_of_two(), BUFFER_ALIGN).expect("a block's memory fits");
        *self = Buffer::default();
        // SAFETY: `bytes > self.bytes() >= 0`, so the layout is not empty.
        let start = NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        self.memory = Some((start, layout));
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some((start, layout)) = self.memory {
            // SAFETY: allocated by `ensure` with this layout, and freed only here.
            unsafe { dealloc(start.as_ptr(), layout) }
        }
    }
}
