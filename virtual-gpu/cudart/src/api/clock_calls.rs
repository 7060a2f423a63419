//! Calls by which the shim reports to the virtual clock that the program talks to the daemon or waits for it.
//!
//! Trap: these are not CUDA functions. They must do nothing without a virtual clock, and never fail.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::clock;
use crate::runtime::Runtime;

/// Starts the runtime before `call`: without a runtime there is no clock.
fn with_runtime(call: impl FnOnce()) {
    contained(|| {
        if Runtime::started().is_none() {
            // If it cannot start, the program's own calls report why.
            let _ = Runtime::get();
        }
        call();
    });
}

fn contained(call: impl FnOnce()) {
    // A panic must not cross the C boundary; the panic hook has printed the message on standard error.
    let _ = catch_unwind(AssertUnwindSafe(call));
}

api!(
    /// Returns when everything earlier than the program's next message to the daemon has happened.
    extern "C" fn eager_vgpu_turn() {
        with_runtime(clock::turn);
    }

    /// Reports that the thread is about to sleep until the daemon changes its answer in `slot` from the one with
    /// sequence `seen`.
    extern "C" fn eager_vgpu_await_daemon(slot: u32, seen: u32) {
        with_runtime(|| clock::await_daemon(slot, seen));
    }

    /// Reports that the thread is awake, whatever woke it.
    extern "C" fn eager_vgpu_awake() {
        with_runtime(clock::awake);
    }

    /// Enters (1) or leaves (0) a mark that the compiler placed after a call: the mark precedes the program's host
    /// work.
    extern "C" fn eager_vgpu_mark(is_in: u32) {
        clock::set_in_mark(is_in != 0);
    }

    /// Begins (1) or ends (0) the shim's part of a program's call: calls within it do not count as the program's.
    extern "C" fn eager_vgpu_call(begins: u32) {
        contained(if begins != 0 { clock::call_begins } else { clock::call_ends });
    }

    /// Models the host time of a copy by the CPU, within such a call, into or out of these bytes of managed memory.
    extern "C" fn eager_vgpu_host_copied(address: u64, bytes: u64) {
        contained(|| {
            if let Some(runtime) = Runtime::started().filter(|_| clock::is_virtual()) {
                // The service keeps the failure, and the program's next call returns it.
                let _ = runtime.copied_by_host(address, bytes);
            }
        });
    }
);
