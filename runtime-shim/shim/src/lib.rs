//! `libeager.so`: the CUDA calls of a program, scheduled. This file is the table of hooks.
//!
//! The compiler pass renames the calls of [`eager_abi::RENAMED_CALLS`] to `eager_…`; each is one entry below. A hook is
//! [`outcome::Outcome::Handled`], passed through to the real runtime with its arguments as they came, or failed with a
//! CUDA error. Trap: the exported functions run in somebody else's program. They must not panic, unwind, start threads,
//! or do anything before their first use; [`process::guarded`] sees to that, so nothing here calls the shim without it.

pub mod account;
pub mod buffers;
pub mod config;
mod hooks;
pub mod ledger;
pub mod outcome;
pub mod process;
pub mod profile;
pub mod program;
pub mod real;
pub mod runtime;
pub mod scheduler;
pub mod shim;
pub mod spans;
pub mod state;
pub mod task;
#[cfg(test)]
mod tests;
pub mod trace;
pub mod voice;

use cudarc::runtime::sys::{cudaEvent_t, cudaStream_t, dim3};
use eager_abi::{ABI_VERSION, EagerModule};
use outcome::{Outcome, Why};
use process::guarded;
use real::Status;
use runtime::{Copy, CopyKind, Fill, Geometry, Launch, Order, StreamFlags, StreamId};
use std::ffi::{c_int, c_uint, c_void};

/// One exported hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hook {
    /// Name of the CUDA call.
    pub name: &'static str,
    /// Size of each argument.
    pub argument_bytes: &'static [usize],
}

/// Declares the hooks: an export each, the table of all, and (for the test) cudarc's view of the same functions.
macro_rules! hooks {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?) = |$shim:ident, $thread:ident| $body:expr;)*) => {
        /// Every hook, in the order of the table.
        pub const HOOKS: &[Hook] = &[
            $(Hook { name: stringify!($name), argument_bytes: &[$(size_of::<$kind>()),*] },)*
        ];

        $(const _: () = {
            #[unsafe(export_name = concat!("eager_", stringify!($name)))]
            unsafe extern "C" fn hook($($argument: $kind),*) -> Status {
                match guarded(|$shim, $thread| $body) {
                    Outcome::Handled(()) => 0,
                    Outcome::Fail(error) => error.code(),
                    // SAFETY: the real function of the same name and signature gets the program's own arguments.
                    Outcome::PassThrough(_) => unsafe { (real::table().$name)($($argument),*) },
                }
            }
        };)*

        #[cfg(test)]
        mod declared {
            use cudarc::runtime::sys;

            /// Argument sizes as cudarc declares them; does not compile if it has another number of arguments.
            pub fn hooks() -> Vec<super::Hook> {
                vec![$({
                    let function = sys::$name as unsafe fn($(super::signatures::placeholder!($argument)),*) -> _;
                    super::Hook { name: stringify!($name), argument_bytes: super::signatures::sizes(function) }
                },)*]
            }
        }
    };
}

hooks! {
    // Memory.
    fn cudaMalloc(out: *mut *mut c_void, bytes: usize) = |shim, thread| {
        stored(out, || shim.malloc(thread, bytes as u64).map(pointer))
    };
    fn cudaMallocManaged(out: *mut *mut c_void, bytes: usize, flags: c_uint) = |shim, thread| {
        stored(out, || shim.malloc_managed(thread, bytes as u64, flags).map(pointer))
    };
    fn cudaFree(address: *mut c_void) = |shim, thread| shim.free(thread, number(address));
    fn cudaMemGetInfo(_free: *mut usize, _total: *mut usize) = |shim, thread| shim.mem_get_info(thread);

    // Copies.
    fn cudaMemcpy(dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_uint) = |shim, thread| {
        shim.copy(thread, &copy(dst, src, bytes, kind, Order::Blocking))
    };
    fn cudaMemcpyAsync(
        dst: *mut c_void,
        src: *const c_void,
        bytes: usize,
        kind: c_uint,
        stream: cudaStream_t,
    ) = |shim, thread| shim.copy(thread, &copy(dst, src, bytes, kind, Order::On(stream_id(stream))));
    fn cudaMemcpyToSymbol(
        _symbol: *const c_void,
        _src: *const c_void,
        _bytes: usize,
        _offset: usize,
        _kind: c_uint,
    ) = |shim, thread| shim.copy_to_symbol(thread);
    fn cudaMemcpyToSymbolAsync(
        _symbol: *const c_void,
        _src: *const c_void,
        _bytes: usize,
        _offset: usize,
        _kind: c_uint,
        _stream: cudaStream_t,
    ) = |shim, thread| shim.copy_to_symbol(thread);
    fn cudaMemset(address: *mut c_void, value: c_int, bytes: usize) = |shim, thread| {
        shim.fill(thread, &Fill { dst: number(address), value, bytes: bytes as u64, order: Order::Blocking })
    };
    fn cudaMemsetAsync(address: *mut c_void, value: c_int, bytes: usize, stream: cudaStream_t) = |shim, thread| {
        let order = Order::On(stream_id(stream));
        shim.fill(thread, &Fill { dst: number(address), value, bytes: bytes as u64, order })
    };

    // Kernels.
    fn cudaLaunchKernel(
        stub: *const c_void,
        grid: dim3,
        block: dim3,
        args: *mut *mut c_void,
        shared_bytes: usize,
        stream: cudaStream_t,
    ) = |shim, thread| {
        shim.launch(thread, &Launch {
            stub: stub.expose_provenance(),
            grid: [grid.x, grid.y, grid.z],
            block: [block.x, block.y, block.z],
            args: args.expose_provenance(),
            shared_bytes,
            stream: stream_id(stream),
        })
    };

    // Streams and events.
    fn cudaStreamCreate(out: *mut cudaStream_t) = |shim, thread| {
        stored(out, || shim.stream_create(thread, StreamFlags::BLOCKING, None).map(stream_handle))
    };
    fn cudaStreamCreateWithFlags(out: *mut cudaStream_t, flags: c_uint) = |shim, thread| {
        stored(out, || shim.stream_create(thread, StreamFlags(flags), None).map(stream_handle))
    };
    fn cudaStreamCreateWithPriority(out: *mut cudaStream_t, flags: c_uint, priority: c_int) = |shim, thread| {
        stored(out, || shim.stream_create(thread, StreamFlags(flags), Some(priority)).map(stream_handle))
    };
    fn cudaStreamDestroy(stream: cudaStream_t) = |shim, thread| shim.stream_destroy(thread, stream_id(stream));
    fn cudaStreamSynchronize(stream: cudaStream_t) = |shim, thread| {
        shim.stream_synchronize(thread, stream_id(stream))
    };
    fn cudaEventCreate(_out: *mut cudaEvent_t) = |shim, thread| shim.event_create(thread);
    fn cudaEventCreateWithFlags(_out: *mut cudaEvent_t, _flags: c_uint) = |shim, thread| shim.event_create(thread);
    fn cudaEventSynchronize(event: cudaEvent_t) = |shim, thread| {
        shim.event_synchronize(thread, event.expose_provenance())
    };

    // Devices.
    fn cudaSetDevice(device: c_int) = |shim, thread| shim.set_device(thread, device);
    fn cudaGetDevice(out: *mut c_int) = |shim, thread| stored(out, || shim.get_device(thread));
    fn cudaDeviceSynchronize() = |shim, thread| shim.device_synchronize(thread);
    fn cudaDeviceReset() = |shim, thread| shim.device_reset(thread);
}

/// Instrumented objects refer to it by name; see [`eager_abi::VERSION_SYMBOL`].
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name is the binary interface")]
pub static eager_abi_v2: u32 = ABI_VERSION;

/// See [`eager_abi::MODULE_REGISTER`].
///
/// # Safety
/// `module` is null or points to a module as the pass emits it, which lives as long as its object is loaded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eager_module_register(module: *const EagerModule) {
    // SAFETY: passed on from the caller. No panic can come out: the reader checks every length and pointer it follows.
    if let Err(error) = unsafe { process::PROGRAM.write().register(module) } {
        voice::to_stderr(&format!("a module of the program is not scheduled by kernel: {error}"));
    }
}

/// See [`eager_abi::TASK_BEGIN`].
#[unsafe(no_mangle)]
pub extern "C" fn eager_task_begin(site: u64, bytes: u64, blocks: u64, threads_per_block: u32) {
    let _ = guarded(|shim, thread| {
        shim.task_begin(thread, site, bytes, Geometry { blocks, threads_per_block });
        Outcome::Handled(())
    });
}

/// See [`eager_abi::ALL_LAUNCHED`].
#[unsafe(no_mangle)]
pub extern "C" fn eager_all_launched(site: u64) {
    let _ = guarded(|shim, thread| {
        shim.all_launched(thread, site);
        Outcome::Handled(())
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

/// Stores what a hook made at `out`. Asked first: with nowhere to store it, nothing may be made; the runtime then
/// returns its own error for the null pointer.
fn stored<T>(out: *mut T, make: impl FnOnce() -> Outcome<T>) -> Outcome<()> {
    if out.is_null() {
        return Outcome::PassThrough(Why::AsItIs);
    }
    // SAFETY: not null, and the program gave it to this CUDA call to be written.
    make().map(|value| unsafe { out.write(value) })
}

fn number(address: *const c_void) -> u64 {
    address.expose_provenance() as u64
}

fn pointer(address: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

fn stream_id(stream: cudaStream_t) -> StreamId {
    StreamId(stream.expose_provenance())
}

fn stream_handle(stream: StreamId) -> cudaStream_t {
    std::ptr::with_exposed_provenance_mut(stream.0)
}

fn copy(dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_uint, order: Order) -> Copy {
    Copy { dst: number(dst), src: number(src), bytes: bytes as u64, kind: CopyKind(kind), order }
}

#[cfg(test)]
mod signatures {
    use super::*;

    macro_rules! placeholder {
        ($argument:ident) => {
            _
        };
    }
    pub(super) use placeholder;

    /// The argument sizes of a function type.
    pub(super) trait Signature {
        const ARGUMENT_BYTES: &'static [usize];
    }

    macro_rules! signatures {
        ($(($($argument:ident),*))*) => {
            $(impl<R, $($argument),*> Signature for unsafe fn($($argument),*) -> R {
                const ARGUMENT_BYTES: &'static [usize] = &[$(size_of::<$argument>()),*];
            })*
        };
    }
    signatures! { () (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F) }

    pub(super) fn sizes<F: Signature>(_: F) -> &'static [usize] {
        F::ARGUMENT_BYTES
    }

    #[test]
    fn hooks_are_exactly_the_calls_that_the_pass_renames() {
        let mut names: Vec<&str> = HOOKS.iter().map(|hook| hook.name).collect();
        names.sort_unstable();
        assert_eq!(names, eager_abi::RENAMED_CALLS);
    }

    #[test]
    fn hooks_have_the_arguments_that_cuda_declares() {
        assert_eq!(HOOKS, declared::hooks());
    }
}
