//! What the library uses of glibc, on x86-64.

use core::ffi::{c_char, c_int, c_void};

/// `Dl_info` of `<dlfcn.h>`.
#[repr(C)]
pub struct DlInfo {
    pub file: *const c_char,
    pub base: *mut c_void,
    symbol: *const c_char,
    address: *mut c_void,
}

impl DlInfo {
    pub const fn new() -> DlInfo {
        DlInfo {
            file: core::ptr::null(),
            base: core::ptr::null_mut(),
            symbol: core::ptr::null(),
            address: core::ptr::null_mut(),
        }
    }
}

/// `struct dl_phdr_info` of `<link.h>`, as far as `loads`.
#[repr(C)]
pub struct Loaded {
    base: usize,
    pub name: *const c_char,
    headers: *const c_void,
    header_count: u16,
    /// How many libraries the process has loaded so far.
    pub loads: u64,
}

pub const RTLD_LAZY: c_int = 1;
pub const RTLD_NOW: c_int = 2;
pub const RTLD_NOLOAD: c_int = 4;
pub const RTLD_LOCAL: c_int = 0;
/// `RTLD_NEXT`, which is -1 as a handle.
pub const RTLD_NEXT: *mut c_void = core::ptr::without_provenance_mut(usize::MAX);
pub const STDERR: c_int = 2;
/// Longest path, with its NUL.
pub const PATH_MAX: usize = 4096;

#[link(name = "c")]
unsafe extern "C" {
    pub fn __errno_location() -> *mut c_int;
    pub fn dladdr(address: *const c_void, info: *mut DlInfo) -> c_int;
    pub fn dlclose(library: *mut c_void) -> c_int;
    pub fn dlopen(path: *const c_char, mode: c_int) -> *mut c_void;
    pub fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    pub fn dl_iterate_phdr(
        visit: unsafe extern "C" fn(*const Loaded, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
    pub fn write(file: c_int, bytes: *const c_void, count: usize) -> isize;
}
