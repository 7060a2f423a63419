//! Sets the exit status of a program that ignores the failure of its device work, where the user wants that
//! (`eager run` does).
//!
//! Trap: only handlers of `on_exit` get the status, and only a nested `exit` changes it. The C library then continues
//! with the remaining handlers, as its manual promises for Linux, so that destructors and buffers are still handled.

use core::ffi::{CStr, c_int, c_void};
use std::num::NonZeroU8;

use crate::error_texts::error_texts;
use crate::log::log_line;
use crate::runtime::Runtime;

unsafe extern "C" {
    /// on_exit(3), which the crate `libc` lacks.
    safe fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Makes a program that ends with status 0 after a failure end with `status`.
pub fn set_failure_status(status: NonZeroU8) {
    on_exit(at_exit, std::ptr::without_provenance_mut(usize::from(status.get())));
}

/// Logs the number of strict-mode findings at the end of the program; with errors, the program ends with `status`.
pub fn report_strict_totals(status: Option<NonZeroU8>) {
    let status = status.map_or(0, |status| usize::from(status.get()));
    on_exit(after_findings, std::ptr::without_provenance_mut(status));
}

extern "C" fn after_findings(ended_with: c_int, status: *mut c_void) {
    let Some(strict) = Runtime::started().and_then(|runtime| runtime.strict_mode.as_ref()) else { return };
    let status = status.addr() as c_int;
    if strict.report_totals() && status != 0 && status != ended_with {
        // SAFETY: nested in `exit` as the module's header describes; no value of this function needs a drop.
        unsafe { libc::exit(status) }
    }
}

extern "C" fn at_exit(ended_with: c_int, status: *mut c_void) {
    let Some(code) = Runtime::failure().filter(|_| ended_with == 0) else { return };
    let [name, text] = error_texts(code as u32).map(CStr::to_string_lossy);
    let status = status.addr() as c_int;
    log_line(format_args!(
        "the program ended with status 0 although its GPU work had failed ({name}: {text}): the status is {status} instead"
    ));
    // SAFETY: nested in `exit` as the module's header describes; no value of this function needs a drop.
    unsafe { libc::exit(status) }
}
