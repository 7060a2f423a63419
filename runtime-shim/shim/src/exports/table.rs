//! The macros that declare tables of hooks.
//!
//! In a body, `real(…)` is the real function. `[ptsz stream]` adds the variant for one default stream per thread: the
//! same call with the thread's stream for stream 0. `[ptds name]` adds a variant whose real function is `name`;
//! `ORDER` distinguishes the two in the body. Trap: the bodies see `real` and `ORDER` because a macro's items are not
//! hygienic; its local variables are, so turning `real` or `ORDER` into a local would hide it from the bodies.

/// A hook: the exported function and, if it has one, its per-thread variant.
macro_rules! hook {
    ($name:ident($($argument:ident: $kind:ty),*) [] $shim:ident $thread:ident $body:expr) => {
        hook!(@export stringify!($name), concat!("eager_", stringify!($name)),
            crate::runtime::Order::Blocking, ($($argument: $kind),*) {} $shim $thread $body);
    };
    ($name:ident($($argument:ident: $kind:ty),*) [ptsz $stream:ident] $shim:ident $thread:ident $body:expr) => {
        hook!($name($($argument: $kind),*) [] $shim $thread $body);
        hook!(@export stringify!($name), concat!("eager_", stringify!($name), "_ptsz"),
            crate::runtime::Order::Blocking, ($($argument: $kind),*)
            { $stream = crate::exports::per_thread($stream); } $shim $thread $body);
    };
    ($name:ident($($argument:ident: $kind:ty),*) [ptds $variant:ident] $shim:ident $thread:ident $body:expr) => {
        hook!($name($($argument: $kind),*) [] $shim $thread $body);
        hook!(@export stringify!($variant), concat!("eager_", stringify!($variant)),
            crate::runtime::Order::BlockingPerThread, ($($argument: $kind),*) {} $shim $thread $body);
    };
    (@export $real:expr, $export:expr, $order:expr, ($($argument:ident: $kind:ty),*) { $($before:tt)* }
        $shim:ident $thread:ident $body:expr) => {
        const _: () = {
            #[allow(dead_code, reason = "only bodies of blocking calls ask")]
            const ORDER: crate::runtime::Order = $order;

            /// The real function.
            ///
            /// # Safety
            /// As for the CUDA call.
            #[allow(clippy::too_many_arguments, reason = "CUDA's own")]
            unsafe fn real($($argument: $kind),*) -> crate::library::Status {
                static REAL: crate::library::Symbol = crate::library::Symbol::new($real);
                type Call = unsafe extern "C" fn($($kind),*) -> crate::library::Status;
                match REAL.get() {
                    // SAFETY: the address is that of the CUDA function of this name, whose arguments are these.
                    Ok(address) => unsafe {
                        std::mem::transmute::<*mut std::ffi::c_void, Call>(address.as_ptr())($($argument),*)
                    },
                    Err(missing) => missing,
                }
            }

            #[unsafe(export_name = $export)]
            #[allow(unused_mut, reason = "most bodies leave their arguments alone")]
            unsafe extern "C" fn hook($(mut $argument: $kind),*) -> crate::library::Status {
                $($before)*
                match crate::process::guarded(|$shim, $thread| $body) {
                    crate::outcome::Outcome::Handled(()) => 0,
                    crate::outcome::Outcome::Fail(error) => error.code(),
                    crate::outcome::Outcome::PassThrough(why) => {
                        crate::stats::count(why);
                        // SAFETY: the real function of the same signature gets the program's own arguments.
                        unsafe { real($($argument),*) }
                    }
                }
            }
        };
    };
}
/// Declares hooks: an export for each, and their table; with `declared`, also cudarc's declarations of them, for the
/// test.
macro_rules! hooks {
    (declared; $($rest:tt)*) => {
        hooks! { $($rest)* }
        #[cfg(test)]
        hooks! { @declared $($rest)* }
    };
    (@declared $(fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $([$($variant:tt)*])? =
        |$shim:ident, $thread:ident| $body:expr;)*) => {
        /// Argument sizes as cudarc declares them; does not compile if cudarc has another number of arguments.
        pub fn declared() -> Vec<crate::signature::Hook> {
            use crate::signature::declared::{placeholder, sizes};
            vec![$({
                let function = cudarc::runtime::sys::$name as unsafe fn($(placeholder!($argument)),*) -> _;
                crate::signature::Hook { name: stringify!($name), argument_bytes: sizes(function) }
            },)*]
        }
    };
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $([$($variant:tt)*])? =
        |$shim:ident, $thread:ident| $body:expr;)*) => {
        pub const HOOKS: &[crate::signature::Hook] = &[
            $(crate::signature::Hook {
                name: stringify!($name),
                argument_bytes: &[$(size_of::<$kind>()),*],
            },)*
        ];

        $(hook!($name($($argument: $kind),*) [$($($variant)*)?] $shim $thread $body);)*
    };
}
