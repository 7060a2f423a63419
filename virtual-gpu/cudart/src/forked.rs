//! Children of `fork` after CUDA was used: every call fails at once with `cudaErrorInitializationError`, as NVIDIA's
//! runtime does (CUDA C++ programming guide: a context does not survive a fork).
//!
//! Trap: a child has one thread, and every lock that another thread held at the fork stays locked for ever. So the
//! child must touch nothing of the parent's state; and it must close the connection, or the server keeps the parent's
//! memory for as long as the child lives.

use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_CHILD: AtomicBool = AtomicBool::new(false);
static CONNECTION: OnceLock<Vec<RawFd>> = OnceLock::new();

/// True in a child of a process that used CUDA.
pub fn is_child() -> bool {
    // Set before the child can have another thread.
    IS_CHILD.load(Ordering::Relaxed)
}

/// Registers the handler for forks. Called once, when the runtime is made.
pub fn watch() {
    // SAFETY: the handler is a plain function of this library, which stays loaded while its program runs. An error
    // means no memory for the entry; then children behave as without this module.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// Records the connection's descriptors, which children close. They stay open in this process until it ends.
pub fn close_in_children(descriptors: Vec<RawFd>) {
    // There is only one runtime, and so one connection.
    let _ = CONNECTION.set(descriptors);
}

extern "C" fn in_child() {
    IS_CHILD.store(true, Ordering::Relaxed);
    for &descriptor in CONNECTION.get().into_iter().flatten() {
        // SAFETY: close is allowed after a fork; the child owns its copies, and nothing uses them, since `is_child`
        // makes every call fail.
        unsafe { libc::close(descriptor) };
    }
}
