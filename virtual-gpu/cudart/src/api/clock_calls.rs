//! For the shim, which knows when a program speaks to the daemon or waits for it: the virtual clock must know, too.
//!
//! Trap: these are no functions of CUDA. They do nothing where there is no virtual clock, and never fail.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::clock;
use crate::runtime::Runtime;

/// Comes back when everything has happened that comes before what the program is about to tell the daemon.
#[unsafe(no_mangle)]
pub extern "C" fn eager_vgpu_turn() {
    with_runtime(clock::turn);
}

/// The thread is about to sleep until the daemon changes its answer in `slot` from the one with sequence `seen`.
#[unsafe(no_mangle)]
pub extern "C" fn eager_vgpu_await_daemon(slot: u32, seen: u32) {
    with_runtime(|| clock::await_daemon(slot, seen));
}

/// It sleeps no more, whatever woke it.
#[unsafe(no_mangle)]
pub extern "C" fn eager_vgpu_awake() {
    with_runtime(clock::awake);
}

/// The thread enters (1) or leaves (0) a mark that the compiler put behind a call: it comes before the program's host work.
#[unsafe(no_mangle)]
pub extern "C" fn eager_vgpu_mark(is_in: u32) {
    clock::set_in_mark(is_in != 0);
}

/// The shim begins (1) or has ended (0) its part of a call of the program's: what it calls meanwhile is no call of the program's.
#[unsafe(no_mangle)]
pub extern "C" fn eager_vgpu_call(begins: u32) {
    contained(if begins != 0 { clock::call_begins } else { clock::call_ends });
}

/// In such a call the CPU has copied into or out of these bytes of managed memory: that takes the time of a copy by the host.
#[unsafe(no_mangle)]
pub extern "C" fn eager_vgpu_host_copied(address: u64, bytes: u64) {
    contained(|| {
        if let Some(runtime) = Runtime::started().filter(|_| clock::is_virtual()) {
            // A failure stays with the service, which the program's next call asks.
            let _ = runtime.copied_by_host(address, bytes);
        }
    });
}

/// Starts the runtime first: without one there is no clock.
fn with_runtime(call: impl FnOnce()) {
    contained(|| {
        if Runtime::started().is_none() {
            // The program's own calls will say why it cannot start.
            let _ = Runtime::get();
        }
        call();
    });
}

fn contained(call: impl FnOnce()) {
    // A panic must not cross the C boundary; its message is on standard error.
    let _ = catch_unwind(AssertUnwindSafe(call));
}
