//! The macro `api!`, which declares exported functions and their table.
//!
//! An entry is written as a Rust function, and the macro's argument in parentheses, so that rustfmt formats it. Its
//! attributes, in this order:
//! - `#[cuda_12(name)]`: the library of CUDA 12 exports the call as `name`, because there its own name has other
//!   arguments;
//! - `#[bytes(number)]`: the call's size in the trace, otherwise 0;
//! - `#[per_thread(suffix)]`: there is a variant with this suffix (`ptsz` or `ptds`). For code compiled with
//!   `--default-stream per-thread`, CUDA's headers rename the call to it, and its default stream is the calling
//!   thread's own. Trap: the suffix must change only the meaning of *no* stream (0), not that of a handle.
//!
//! The body of an entry runs inside [`guard`](crate::guard::guard), and its result becomes the call's code. An
//! `extern "C" fn` is exported as it is: it returns something else, or calls another export.

/// Name of a call in the library: the second one, if there is one, in that of CUDA 12.
#[cfg(cuda_12)]
macro_rules! library_name {
    ($both:ident) => {
        stringify!($both)
    };
    ($thirteen:ident $twelve:ident) => {
        stringify!($twelve)
    };
}
#[cfg(not(cuda_12))]
macro_rules! library_name {
    ($thirteen:ident $($twelve:ident)?) => {
        stringify!($thirteen)
    };
}

/// Declares exported functions and their table, `EXPORTS`. The lifetime in the pattern never matches: it only lets the
/// expansion repeat an optional `unsafe`.
macro_rules! api {
    ($(
        $(#[doc = $doc:literal])*
        $(#[cuda_12($twelve:ident)])?
        $(#[bytes($bytes:expr)])?
        $(#[per_thread($suffix:ident)])?
        $(unsafe $($unsafe:lifetime)?)? $(extern $abi:literal)?
        fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $result:ty)? $body:block
    )*) => {
        pub const EXPORTS: &[crate::api::Export] = &[
            $(crate::api::Export {
                name: library_name!($name $($twelve)?),
                argument_bytes: &[$(size_of::<$kind>()),*],
                per_thread: export!(@variant library_name!($name $($twelve)?), $($suffix)?),
            },)*
        ];

        $(
            export! {
                @function library_name!($name $($twelve)?), [$(#[doc = $doc])*] [$(unsafe $($unsafe)?)?]
                $($abi)? fn $name($($argument: $kind),*) [$($result)?] (0 $(+ $bytes)?) $body
            }
            export! {
                @per_thread library_name!($name $($twelve)?), [$($suffix)?] $name($($argument: $kind),*)
            }
        )*
    };
}

/// The parts of an entry.
macro_rules! export {
    (@function $export:expr, [$($doc:tt)*] [$($unsafe:tt)?]
        fn $name:ident($($argument:ident: $kind:ty),*) [$result:ty] ($bytes:expr) $body:block) => {
        $($doc)*
        #[unsafe(export_name = $export)]
        pub $($unsafe)? extern "C" fn $name($($argument: $kind),*) -> crate::status::Code {
            crate::guard::guard(stringify!($name), $bytes, || -> $result { $body })
        }
    };
    (@function $export:expr, [$($doc:tt)*] [$($unsafe:tt)?]
        $abi:literal fn $name:ident($($argument:ident: $kind:ty),*) [$($result:ty)?] ($bytes:expr) $body:block) => {
        $($doc)*
        #[unsafe(export_name = $export)]
        pub $($unsafe)? extern $abi fn $name($($argument: $kind),*) $(-> $result)? $body
    };

    (@per_thread $export:expr, [] $name:ident($($argument:ident: $kind:ty),*)) => {};
    (@per_thread $export:expr, [$suffix:ident] $name:ident($($argument:ident: $kind:ty),*)) => {
        const _: () = {
            #[unsafe(export_name = concat!($export, "_", stringify!($suffix)))]
            extern "C" fn per_thread($($argument: $kind),*) -> crate::status::Code {
                crate::stream::with_own_default_stream(|| $name($($argument),*))
            }
        };
    };

    (@variant $export:expr,) => {
        None
    };
    (@variant $export:expr, $suffix:ident) => {
        Some(concat!($export, "_", stringify!($suffix)))
    };
}
