//! Finds the function behind a call: the shim's hook, or, where a program cannot be scheduled, the runtime's own.
//!
//! Traps:
//! - a program may have *two* CUDA runtimes, each of which knows the kernels of the libraries that were linked with it.
//!   The shim serves one runtime only, so such a program is plain CUDA, and each call goes to its caller's runtime. The
//!   second may come with a library that the program opens later: so every registration of a kernel is looked at;
//! - the program reads `errno` after calls, so it must be as before.

use crate::libc::{
    __errno_location, DlInfo, Loaded, PATH_MAX, RTLD_LAZY, RTLD_LOCAL, RTLD_NEXT, RTLD_NOLOAD, RTLD_NOW,
    STDERR, dl_iterate_phdr, dladdr, dlclose, dlopen, dlsym, write,
};
use crate::{FIRST, HOOKS, TABLE};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// Bytes of `eager_` before a call's own name.
const PREFIX: usize = 6;
/// `cudaErrorInitializationError`: what a call returns that leads nowhere, as the shim's calls do without a runtime.
const MISSING: c_int = 3;
/// The registration of a kernel, which is looked up each time.
const REGISTER: &str = "eager___cudaRegisterFunction\0";
/// The shim's library, in the folder of this one.
const SHIM: &[u8] = b"libeager.so\0";

/// The opened shim.
static LIBRARY: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
/// The shim cannot be opened.
static ABSENT: AtomicBool = AtomicBool::new(false);
/// The number of loads at which the libraries were looked at last.
static LOADS: AtomicU64 = AtomicU64::new(0);
/// The process had two runtimes then.
static TWO: AtomicBool = AtomicBool::new(false);
/// The table was taken back because of that.
static PLAIN: AtomicBool = AtomicBool::new(false);

/// Returns the function for call `index`, made from the code at `caller`, and enters it into the table.
pub extern "C" fn find(index: usize, caller: *const c_void) -> *const c_void {
    // SAFETY: the address of this thread's errno is always valid.
    let errno = unsafe { *__errno_location() };
    let function = lookup(index, caller);
    // SAFETY: as above.
    unsafe { *__errno_location() = errno };
    function
}

fn lookup(index: usize, caller: *const c_void) -> *const c_void {
    let (Some(hook), Some(entry)) = (HOOKS.get(index), TABLE.get(index)) else {
        return missing as *const c_void;
    };
    if has_two_runtimes() {
        if !PLAIN.swap(true, Ordering::Relaxed) {
            say(b"eager: two CUDA runtimes in one program: it runs as plain CUDA, unscheduled\n");
            for (entry, &first) in TABLE.iter().zip(&FIRST) {
                entry.store(first as *const () as *mut c_void, Ordering::Relaxed);
            }
        }
        return own(hook, caller);
    }
    let found = match shim() {
        // SAFETY: the handle is open for ever, and the name ends with NUL.
        Some(library) => unsafe { dlsym(library, hook.as_ptr().cast()) },
        None => ptr::null_mut(),
    };
    if found.is_null() {
        return own(hook, caller);
    }
    if *hook != REGISTER {
        // Relaxed: the address is the only data; another thread that still sees the old one finds the same.
        entry.store(found, Ordering::Relaxed);
    }
    found
}

/// The runtime's own function: that of the library that calls, else the next in the order of loading.
fn own(hook: &str, caller: *const c_void) -> *const c_void {
    let Some(name) = hook.get(PREFIX..) else { return missing as *const c_void };
    let name = name.as_ptr().cast::<c_char>();
    // A library that the program opened has its runtime among its own dependencies, where the next in the order of
    // loading may be another.
    let mut info = DlInfo::new();
    // SAFETY: `caller` is an address of code; the call fills `info` or returns 0.
    let known = unsafe { dladdr(caller, &raw mut info) };
    if known != 0 && !info.file.is_null() {
        // SAFETY: a path of the loader's, which loads nothing with RTLD_NOLOAD; fails for the main program.
        let library = unsafe { dlopen(info.file, RTLD_LAZY | RTLD_NOLOAD) };
        if !library.is_null() {
            // SAFETY: an open handle and a NUL-terminated name. The caller keeps its library loaded.
            let found = unsafe { dlsym(library, name) };
            // SAFETY: takes back what `dlopen` counted above.
            unsafe { dlclose(library) };
            if !found.is_null() && !is_here(found) {
                return found;
            }
        }
    }
    // SAFETY: a NUL-terminated name; the next after this library.
    let next = unsafe { dlsym(RTLD_NEXT, name) };
    if next.is_null() { missing as *const c_void } else { next }
}

/// True for a function of this library.
fn is_here(function: *const c_void) -> bool {
    let base = |address: *const c_void| {
        let mut info = DlInfo::new();
        // SAFETY: fills `info` or returns 0.
        let known = unsafe { dladdr(address, &raw mut info) };
        if known == 0 { ptr::null_mut() } else { info.base }
    };
    base(function) == base(find as *const c_void)
}

/// Stands for a call that neither the shim nor any runtime has.
extern "C" fn missing() -> c_int {
    MISSING
}

/// The shim, opened at the first call from the folder of this library.
fn shim() -> Option<*mut c_void> {
    let open = LIBRARY.load(Ordering::Acquire);
    if !open.is_null() {
        return Some(open);
    }
    if ABSENT.load(Ordering::Relaxed) {
        return None;
    }
    let mut path = [0u8; PATH_MAX];
    let library = match beside(&mut path) {
        // SAFETY: the path ends with NUL. The shim's constructors are made for this: they only store data.
        true => unsafe { dlopen(path.as_ptr().cast(), RTLD_NOW | RTLD_LOCAL) },
        false => ptr::null_mut(),
    };
    if library.is_null() {
        if !ABSENT.swap(true, Ordering::Relaxed) {
            say(b"eager: cannot load libeager.so from the folder of libeager_preload.so: the program runs as plain CUDA, unscheduled\n");
        }
        return None;
    }
    LIBRARY.store(library, Ordering::Release);
    Some(library)
}

/// Writes the shim's path; false if it is too long.
fn beside(path: &mut [u8]) -> bool {
    let mut info = DlInfo::new();
    // SAFETY: an address of this library; fills `info` or returns 0.
    if unsafe { dladdr(find as *const c_void, &raw mut info) } == 0 || info.file.is_null() {
        return false;
    }
    // SAFETY: the loader's name of this library, which ends with NUL and lives as long as the library.
    let own = unsafe { CStr::from_ptr(info.file) }.to_bytes();
    let folder = own.len().wrapping_sub(file_name(own).len());
    let (Some(folder), Some(space)) = (own.get(..folder), path.get_mut(..folder.wrapping_add(SHIM.len())))
    else {
        return false;
    };
    for (to, from) in space.iter_mut().zip(folder.iter().chain(SHIM)) {
        *to = *from;
    }
    true
}

/// The part of a path behind its last slash.
fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// True if the process has two CUDA runtimes. Its libraries are looked at again only if more were loaded: a program
/// registers thousands of kernels while it starts.
fn has_two_runtimes() -> bool {
    let mut loads: u64 = 0;
    // SAFETY: `read_loads` gets the pointer to `loads`, which outlives the call.
    unsafe { dl_iterate_phdr(read_loads, (&raw mut loads).cast()) };
    if LOADS.load(Ordering::Acquire) != loads {
        let mut found: c_int = 0;
        // SAFETY: `count` gets the pointer to `found`, which outlives the call.
        unsafe { dl_iterate_phdr(count, (&raw mut found).cast()) };
        TWO.store(found > 1, Ordering::Relaxed);
        LOADS.store(loads, Ordering::Release);
    }
    TWO.load(Ordering::Relaxed)
}

/// Reads the number of loads from the first entry, and ends there.
unsafe extern "C" fn read_loads(info: *const Loaded, _size: usize, loads: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid entry, and `has_two_runtimes` its counter. glibc has had the field since 2.4.
    unsafe { *loads.cast::<u64>() = (*info).loads };
    1
}

/// Counts a loaded library whose file is called `libcudart…`, also under a name such as `libcudart-1a2b.so.12`, which
/// Python's wheels give it.
unsafe extern "C" fn count(info: *const Loaded, _size: usize, found: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid entry, and `has_two_runtimes` its counter.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<c_int>()) };
    if info.name.is_null() {
        return 0;
    }
    // SAFETY: the loader's name of a library, which ends with NUL.
    let file = file_name(unsafe { CStr::from_ptr(info.name) }.to_bytes());
    if file.starts_with(b"libcudart.") || file.starts_with(b"libcudart-") {
        *found = found.wrapping_add(1);
    }
    c_int::from(*found > 1)
}

/// Writes a line to standard error; a closed one is the user's choice.
fn say(line: &[u8]) {
    // SAFETY: reads the line's own bytes.
    unsafe { write(STDERR, line.as_ptr().cast(), line.len()) };
}
