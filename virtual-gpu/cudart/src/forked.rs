//! Children of `fork` after CUDA was used: every call fails at once with `cudaErrorInitializationError`, as NVIDIA's do
//! (CUDA C++ programming guide: a context does not survive a fork).
//!
//! Trap: a child has one thread, and every lock that another held at the fork stays held for ever. So nothing of the parent's
//! state may be touched; and the connection must be closed there, or the server keeps the parent's memory for as long as the
//! child lives.

use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_CHILD: AtomicBool = AtomicBool::new(false);
static CONNECTION: OnceLock<Vec<RawFd>> = OnceLock::new();

/// The process is a child of one that used CUDA.
pub fn is_child() -> bool {
    // Written before the child has any other thread.
    IS_CHILD.load(Ordering::Relaxed)
}

/// From now on children are on their own. Called once, when the runtime is made.
pub fn watch() {
    // SAFETY: the handler is a plain function of this library, which stays loaded while its program runs. An error means no
    // memory for the entry; then children go on as before.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// The connection's descriptors, to be closed in children. They stay open in this process until it ends.
pub fn close_in_children(descriptors: Vec<RawFd>) {
    // There is one runtime, and so one connection.
    let _ = CONNECTION.set(descriptors);
}

extern "C" fn in_child() {
    IS_CHILD.store(true, Ordering::Relaxed);
    for &descriptor in CONNECTION.get().into_iter().flatten() {
        // SAFETY: close is allowed after a fork; the child owns its copies, and nothing uses them as `is_child` holds.
        unsafe { libc::close(descriptor) };
    }
}
