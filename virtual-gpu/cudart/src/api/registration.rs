//! Calls that compiled objects make from constructors (kernels, variables), and the launch configuration between `<<<`
//! and `>>>`.
//!
//! Trap: everything here may run before `main`, as in NVIDIA's runtime, where only [`eager_vgpu_register`] is missing;
//! so it must be quick and start nothing.

use core::ffi::{c_char, c_int, c_void};
use std::cell::RefCell;

use cudarc::runtime::sys::dim3;
use eager_exec::abi::KernelTable;

use super::open;
use crate::guard::guard;
use crate::kernel::{add_managed, add_shadow, add_stub, add_table};
use crate::status::Code;

#[derive(Clone, Copy)]
struct Configuration {
    grid: dim3,
    block: dim3,
    dynamic_shared_bytes: usize,
    stream: *mut c_void,
}

thread_local! {
    /// A stack, because an argument expression of one launch may contain another launch.
    static CONFIGURATIONS: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

api!(
    /// Registers the CPU kernels of one translation unit; see `eager_exec::abi::REGISTER_SYMBOL`.
    ///
    /// # Safety
    /// `table` is null or stays valid until the process ends.
    unsafe extern "C" fn eager_vgpu_register(table: *const KernelTable) {
        guard("eager_vgpu_register", 0, || {
            // SAFETY: by this function's contract.
            unsafe { add_table(table) };
            Ok(())
        });
    }

    /// Returns the address of the GPU code as the handle. The code itself is unused, but its address identifies the
    /// file whose CPU code belongs to a registration (`eager_exec::abi::KernelTable::device_code`).
    extern "C" fn __cudaRegisterFatBinary(fat_binary: *mut c_void) -> *mut *mut c_void {
        fat_binary.cast()
    }

    extern "C" fn __cudaRegisterFatBinaryEnd(_handle: *mut *mut c_void) {}

    /// Keeps the stubs registered: nothing is launched after the module's destructors.
    extern "C" fn __cudaUnregisterFatBinary(_handle: *mut *mut c_void) {}

    /// Called by host code that needs the address of a `__managed__` variable and has none yet.
    extern "C" fn __cudaInitModule(_handle: *mut *mut c_void) -> c_char {
        let ended = guard("__cudaInitModule", 0, || open().map(drop));
        c_char::from(ended == Code::cudaSuccess)
    }

    /// # Safety
    /// `device_name` is a NUL-terminated string that stays valid.
    unsafe extern "C" fn __cudaRegisterFunction(
        handle: *mut *mut c_void,
        host_stub: *const c_char,
        _device_function: *mut c_char,
        device_name: *const c_char,
        _thread_limit: c_int,
        _thread_id: *mut c_void,
        _block_id: *mut c_void,
        _block: *mut dim3,
        _grid: *mut dim3,
        _warp_size: *mut c_int,
    ) {
        guard("__cudaRegisterFunction", 0, || {
            // SAFETY: by this function's contract.
            unsafe { add_stub(handle.cast(), host_stub.cast(), device_name) };
            Ok(())
        });
    }

    /// # Safety
    /// `device_name` is a NUL-terminated string that stays valid.
    unsafe extern "C" fn __cudaRegisterVar(
        handle: *mut *mut c_void,
        host_shadow: *mut c_char,
        _device_address: *mut c_char,
        device_name: *const c_char,
        _is_extern: c_int,
        bytes: usize,
        _is_constant: c_int,
        _is_global: c_int,
    ) {
        guard("__cudaRegisterVar", bytes, || {
            // SAFETY: by this function's contract.
            unsafe { add_shadow(handle.cast(), host_shadow.cast(), device_name) };
            Ok(())
        });
    }

    /// # Safety
    /// `device_name` is a NUL-terminated string that stays valid; `host_pointer` stays valid for writing.
    unsafe extern "C" fn __cudaRegisterManagedVar(
        handle: *mut *mut c_void,
        host_pointer: *mut *mut c_void,
        _device_address: *mut c_char,
        device_name: *const c_char,
        _is_extern: c_int,
        bytes: usize,
        _is_constant: c_int,
        _is_global: c_int,
    ) {
        guard("__cudaRegisterManagedVar", bytes, || {
            // SAFETY: by this function's contract.
            unsafe { add_managed(handle.cast(), host_pointer, device_name, bytes as u64) };
            Ok(())
        });
    }

    /// Returns 0 for success, as compiled code expects.
    extern "C" fn __cudaPushCallConfiguration(
        grid: dim3,
        block: dim3,
        dynamic_shared_bytes: usize,
        stream: *mut c_void,
    ) -> u32 {
        CONFIGURATIONS
            .with_borrow_mut(|stack| stack.push(Configuration { grid, block, dynamic_shared_bytes, stream }));
        0
    }

    /// # Safety
    /// All pointers are valid for writing.
    unsafe extern "C" fn __cudaPopCallConfiguration(
        grid: *mut dim3,
        block: *mut dim3,
        dynamic_shared_bytes: *mut usize,
        stream: *mut c_void,
    ) -> Code {
        let Some(top) = CONFIGURATIONS.with_borrow_mut(Vec::pop) else {
            return Code::cudaErrorMissingConfiguration;
        };
        // SAFETY: the compiled code passes pointers to its own variables; `stream` points to a stream handle.
        unsafe {
            grid.write(top.grid);
            block.write(top.block);
            dynamic_shared_bytes.write(top.dynamic_shared_bytes);
            stream.cast::<*mut c_void>().write(top.stream);
        }
        Code::cudaSuccess
    }
);
