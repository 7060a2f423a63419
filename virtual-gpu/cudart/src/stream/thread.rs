//! Default streams of threads: which thread asks, and whether "no stream" means its own.
//!
//! Trap: a thread's default streams end with it, but what it left in them still runs.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::StreamKey;
use crate::runtime::Runtime;

/// This thread's number, and the end of its default streams.
struct Thread {
    number: u64,
    has_streams: Cell<bool>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        if self.has_streams.get()
            && let Some(runtime) = Runtime::started()
        {
            runtime.streams.lock().end_thread(self.number);
        }
    }
}

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static THREAD: Thread =
        Thread { number: NEXT_NUMBER.fetch_add(1, Relaxed), has_streams: Cell::new(false) };
    static OWN_DEFAULT: Cell<bool> = const { Cell::new(false) };
}

/// Calls with the thread's own stream as the default one.
pub fn with_own_default_stream<T>(call: impl FnOnce() -> T) -> T {
    let before = OWN_DEFAULT.replace(true);
    let answer = call();
    OWN_DEFAULT.set(before);
    answer
}

/// A number that no other thread of the process has or had.
pub fn thread_number() -> u64 {
    THREAD.try_with(|thread| thread.number).unwrap_or(0)
}

/// The calling thread's default stream on a device.
pub fn own_default_stream(device: u32) -> StreamKey {
    // In a thread that is ending, other destructors may still call: they get a stream that stays.
    let thread = THREAD.try_with(|thread| {
        thread.has_streams.set(true);
        thread.number
    });
    StreamKey::PerThread { device, thread: thread.unwrap_or(0) }
}

/// What "no stream" means in the call under way.
pub fn default_stream(device: u32) -> StreamKey {
    if OWN_DEFAULT.get() { own_default_stream(device) } else { StreamKey::Default { device } }
}
