//! The guard around every exported function, and the calling thread's last error.
//!
//! Trap: no panic may cross the C boundary, so every exported function that can panic runs inside [`guard`]; the macro
//! `api!` puts it there.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::clock::HostCall;
use crate::forked;
use crate::log::log_line;
use crate::runtime::Runtime;
use crate::status::Code;
use crate::trace;

thread_local! {
    static LAST: Cell<Code> = const { Cell::new(Code::cudaSuccess) };
}

/// Calls that work even after a device error; among them registrations, which cannot return an error.
const WITHOUT_DEVICE: &[&str] = &[
    "__cudaRegisterFunction",
    "__cudaRegisterManagedVar",
    "__cudaRegisterVar",
    "cudaDriverGetVersion",
    "cudaRuntimeGetVersion",
    "eager_vgpu_register",
];

/// Runs the body of an exported call unless an earlier failure is its result: traces the call, turns panics into
/// `cudaErrorUnknown`, records the thread's last error.
pub fn guard(call: &'static str, bytes: usize, body: impl FnOnce() -> Result<(), Code>) -> Code {
    if forked::is_child() {
        LAST.set(Code::cudaErrorInitializationError);
        return Code::cudaErrorInitializationError;
    }
    trace::record(call, bytes);
    let _call = HostCall::begin();
    let body = || match Runtime::failure().filter(|_| !WITHOUT_DEVICE.contains(&call)) {
        Some(code) => Err(code),
        None => body(),
    };
    let ended = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        // The panic hook has printed the message on standard error already.
        log_line(format_args!("internal error in {call}"));
        Err(Code::cudaErrorUnknown)
    });
    match ended {
        Ok(()) => Code::cudaSuccess,
        Err(code) => {
            LAST.set(code);
            code
        }
    }
}

/// Returns the thread's last error and resets it to `cudaSuccess`.
pub fn take_last() -> Code {
    LAST.replace(Code::cudaSuccess)
}

/// Returns the thread's last error and keeps it.
pub fn peek_last() -> Code {
    LAST.get()
}
