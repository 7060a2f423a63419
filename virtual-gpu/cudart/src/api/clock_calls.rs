//! For the shim, which knows when a program speaks to the daemon or waits for it: the virtual clock must know, too.
//!
//! Trap: these are no functions of CUDA. They do nothing where there is no virtual clock, and never fail.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::clock;
use crate::runtime::Runtime;

/// Comes back when everything has happened that comes before what the program is about to tell the daemon.
#[unsafe(no_mangle)]
pub extern "C" fn eager_vgpu_turn() {
    contained(clock::turn);
}

/// The thread is about to sleep until the daemon changes its answer in `slot` from the one with sequence `seen`.
#[unsafe(no_mangle)]
pub extern "C" fn eager_vgpu_await_daemon(slot: u32, seen: u32) {
    contained(|| clock::await_daemon(slot, seen));
}

/// It sleeps no more, whatever woke it.
#[unsafe(no_mangle)]
pub extern "C" fn eager_vgpu_awake() {
    contained(clock::awake);
}

/// The thread enters (1) or leaves (0) a mark that the compiler put behind a call: it comes before the program's host work.
#[unsafe(no_mangle)]
pub extern "C" fn eager_vgpu_mark(is_in: u32) {
    clock::set_in_mark(is_in != 0);
}

/// The thread begins (1) or ends (0) making one copy of the program's by several.
#[unsafe(no_mangle)]
pub extern "C" fn eager_vgpu_pieces(begin: u32) {
    contained(if begin != 0 { clock::pieces_begin } else { clock::pieces_end });
}

fn contained(call: impl FnOnce()) {
    // A panic must not cross the C boundary; its message is on standard error.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        if Runtime::started().is_none() {
            // Without a runtime there is no clock; the program's own calls will say why.
            let _ = Runtime::get();
        }
        call();
    }));
}
