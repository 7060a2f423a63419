//! `libeager.so`: schedules the CUDA calls of a program. This file has the entry points that are not CUDA calls.
//!
//! The compiler pass renames the calls of [`eager_abi::calls::renamed_symbols`] to `eager_…`; each is an entry of a
//! table in [`exports`]. Trap: the exported functions run inside a user's program and must not panic, unwind, start
//! threads, or do anything before their first use. [`process::guarded`] ensures that, so an entry point that calls
//! the shim without it breaks the promise.

mod address_map;
mod addresses;
pub mod config;
mod driver;
mod dying;
pub mod exports;
mod hooks;
mod host_memory;
pub mod learnt;
pub mod library;
mod loaded;
pub mod measure;
pub mod nvtx;
mod outcome;
pub mod pages;
pub mod process;
pub mod profile;
pub mod program;
pub mod real;
mod reporter;
pub mod ring;
pub mod runtime;
pub mod scheduler;
pub mod shim;
pub mod signature;
mod standing;
pub mod state;
pub mod stats;
pub mod task;
#[cfg(test)]
mod tests;
pub mod trace;
pub mod virtual_clock;
mod visible;
mod wait_message;
mod whole_file;

pub use eager_client::{account, beliefs, buffers, ledger};

use account::Requirement;
use eager_abi::{ABI_VERSION, EagerModule};
use eager_client::task::Geometry;
use outcome::Outcome;
use process::guarded;
use program::ModuleError;
use std::ffi::c_void;

/// Symbol that instrumented objects refer to by name; see [`eager_abi::VERSION_SYMBOL`].
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name is the binary interface")]
pub static eager_abi_v3: u32 = ABI_VERSION;

/// See [`eager_abi::MODULE_REGISTER`].
///
/// # Safety
/// `module` is null or points to a module as the pass emits it, which lives as long as its object is loaded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eager_module_register(module: *const EagerModule) {
    // SAFETY: passed on from the caller. No panic can leave this call: the reader checks every length and pointer it
    // follows.
    let registered = unsafe { process::PROGRAM.write().register(module) };
    match registered {
        Ok(()) => {}
        // Reported once for all modules, with how the program runs then.
        Err(ModuleError::Version { .. }) => process::on_foreign_module(),
        Err(error) => {
            reporter::to_stderr(&format!(
                "a module of the program is ignored, so its kernels are unknown: {error}"
            ));
        }
    }
}

/// See [`eager_abi::TASK_BEGIN`].
#[unsafe(no_mangle)]
pub extern "C" fn eager_task_begin(
    site: u64,
    bytes: u64,
    live_bytes: u64,
    blocks: u64,
    threads_per_block: u32,
) {
    let _ = guarded(|shim, thread| {
        shim.task_begin(
            thread,
            site,
            Requirement { bytes, live_bytes },
            Geometry { blocks, threads_per_block: u64::from(threads_per_block) },
        );
        Outcome::Handled(())
    });
}

/// See [`eager_abi::BUFFER_DEAD`].
#[unsafe(no_mangle)]
pub extern "C" fn eager_buffer_dead(buffer: *mut c_void) {
    let _ = virtual_clock::in_mark(|| {
        guarded(|shim, thread| {
            shim.buffer_dead(thread, buffer.expose_provenance() as u64);
            Outcome::Handled(())
        })
    });
}

/// See [`eager_abi::MANAGED_VARIABLE`].
#[unsafe(no_mangle)]
pub extern "C" fn eager_managed_variable(bytes: u64) {
    process::PROGRAM.write().add_managed_variable(bytes);
}

/// See [`eager_abi::ALL_LAUNCHED`].
#[unsafe(no_mangle)]
pub extern "C" fn eager_all_launched(site: u64) {
    let _ = virtual_clock::in_mark(|| {
        guarded(|shim, thread| {
            shim.all_launched(thread, site);
            Outcome::Handled(())
        })
    });
}

/// See [`eager_abi::TASK_END`].
#[unsafe(no_mangle)]
pub extern "C" fn eager_task_end(site: u64) {
    let _ = guarded(|shim, thread| {
        shim.task_end(thread, site);
        Outcome::Handled(())
    });
}
