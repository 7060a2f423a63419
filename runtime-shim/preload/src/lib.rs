//! `libeager_preload.so`, for `LD_PRELOAD`: exports the CUDA calls that `libeager.so` has hooks for, and leads each to
//! its hook, so that a program which `eagercc` did not compile is scheduled too.
//!
//! Every shell and every child of the program loads this library, so it has no constructor, needs the C library only,
//! and opens `libeager.so` at the first CUDA call. Traps:
//! - an exported name stands before the same name of all libraries that the program loads. The shim must therefore
//!   look its runtime up by a handle, never in the global scope;
//! - code that may panic does not link: [`panic`] refers to a symbol that nothing defines.
#![no_std]
#![allow(non_snake_case, reason = "the exports are named as the calls of CUDA")]

mod jump;
mod libc;
mod resolve;

use core::ffi::c_void;
use core::sync::atomic::AtomicPtr;

/// Declares the exports. Each jumps through its entry of the table, which first leads to [`resolve::find`] and from
/// then on to the hook.
macro_rules! front {
    ($($index:literal $name:ident $first:ident;)*) => {
        /// The shim's hooks of the calls, in the order of the table, NUL-terminated: `eager_abi::RENAME_PREFIX` and
        /// the call.
        const HOOKS: &[&str] = &[$(concat!("eager_", stringify!($name), "\0")),*];

        /// What each entry of the table holds at first.
        static FIRST: [unsafe extern "C" fn(); HOOKS.len()] = [$($first),*];

        /// Where each call goes.
        static TABLE: [AtomicPtr<c_void>; HOOKS.len()] =
            [$(AtomicPtr::new($first as *const () as *mut c_void)),*];

        $(
            jump::export!($index $name);
            jump::first!($index $first);
        )*
    };
}

include!(concat!(env!("OUT_DIR"), "/front.rs"));

/// Never part of the library: a panic that the compiler could not rule out is an undefined symbol at its link.
#[cfg(linked)]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe extern "C" {
        fn eager_preload_may_panic() -> !;
    }
    // SAFETY: not defined, so that a library with this call does not link.
    unsafe { eager_preload_may_panic() }
}
