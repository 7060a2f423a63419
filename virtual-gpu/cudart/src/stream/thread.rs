//! Per-thread default streams: numbers threads, and decides whether "no stream" means the thread's own.
//!
//! Trap: a thread's default streams are destroyed when it ends, but work left in them must still run.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::StreamKey;
use crate::runtime::Runtime;

/// The thread's number; destroys its default streams when it ends.
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

/// Runs `call` with the thread's own stream as the default stream.
pub fn with_own_default_stream<T>(call: impl FnOnce() -> T) -> T {
    let before = OWN_DEFAULT.replace(true);
    let answer = call();
    OWN_DEFAULT.set(before);
    answer
}

/// A number unique among all threads that the process has had.
pub fn thread_number() -> u64 {
    THREAD.try_with(|thread| thread.number).unwrap_or(0)
}

/// The calling thread's default stream on a device.
pub fn own_default_stream(device: u32) -> StreamKey {
    // In a thread that is ending, other destructors may still call CUDA: they get a stream that is not destroyed.
    let thread = THREAD.try_with(|thread| {
        thread.has_streams.set(true);
        thread.number
    });
    StreamKey::PerThread { device, thread: thread.unwrap_or(0) }
}

/// The stream that "no stream" means in the current call.
pub fn default_stream(device: u32) -> StreamKey {
    if OWN_DEFAULT.get() { own_default_stream(device) } else { StreamKey::Default { device } }
}
