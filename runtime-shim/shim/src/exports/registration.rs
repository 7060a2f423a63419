//! Registration of kernels by the host code of clang and nvcc, seen in programs that `eagercc` did not compile
//! (`libeager_preload.so`): it tells the names of their kernels.
//!
//! Trap: the calls come from constructors, before `main`. Nothing here may reach the daemon or initialize CUDA.

use crate::library::Symbol;
use crate::process::PROGRAM;
use std::ffi::{CStr, c_char, c_int, c_void};

type Register = unsafe extern "C" fn(
    *mut *mut c_void,
    *const c_char,
    *mut c_char,
    *const c_char,
    c_int,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_int,
) -> c_int;

/// `__cudaRegisterFunction`: stores the kernel's name, and registers it with the program's runtime. nvcc declares no
/// result, clang one that is not read.
///
/// # Safety
/// As for the runtime's function: `device_name` is null or NUL-terminated.
#[unsafe(export_name = "eager___cudaRegisterFunction")]
#[allow(clippy::too_many_arguments, reason = "CUDA's own")]
unsafe extern "C" fn register_kernel(
    module: *mut *mut c_void,
    stub: *const c_char,
    device_function: *mut c_char,
    device_name: *const c_char,
    thread_limit: c_int,
    thread_id: *mut c_void,
    block_id: *mut c_void,
    block: *mut c_void,
    grid: *mut c_void,
    warp_size: *mut c_int,
) -> c_int {
    static REAL: Symbol = Symbol::new("__cudaRegisterFunction");
    if !device_name.is_null() {
        // SAFETY: not null, and NUL-terminated by this function's contract.
        let name = unsafe { CStr::from_ptr(device_name) }.to_string_lossy().into_owned();
        PROGRAM.write().name_kernel(stub.expose_provenance(), name);
    }
    match REAL.get() {
        // SAFETY: the address is that of the runtime's function, whose arguments are these in both versions of CUDA.
        Ok(address) => unsafe {
            let real = std::mem::transmute::<*mut c_void, Register>(address.as_ptr());
            real(
                module,
                stub,
                device_function,
                device_name,
                thread_limit,
                thread_id,
                block_id,
                block,
                grid,
                warp_size,
            )
        },
        Err(missing) => missing.cast_signed(),
    }
}
