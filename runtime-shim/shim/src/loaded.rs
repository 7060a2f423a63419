//! The libraries that the process has loaded.
//!
//! Trap: `libeager_preload.so` exports the names of the calls that the shim hooks, and stands first in the global scope.
//! A function that is looked up there is the shim's own hook, which would call itself without end.

use libloading::os::unix::{Library, RTLD_NOW};
use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// Start of the file name of the library that leads calls to the shim.
const FRONT: &[u8] = b"libeager_preload.";

/// Looks up a function in the global scope, or, where the front stands there, in every library.
pub fn function(name: &str) -> Option<NonNull<c_void>> {
    let global = in_library(&Library::this(), name)?;
    if !is_of_front(global) {
        return Some(global);
    }
    let own = |path: &PathBuf| in_library(&open(path)?, name).filter(|&found| !is_of_front(found));
    libraries().iter().find_map(own)
}

/// The CUDA runtime that the process has loaded, under whatever name: Python's wheels rename their libraries.
pub fn runtime() -> Option<Library> {
    let is_runtime = |path: &&PathBuf| {
        let name = file_name(path);
        name.starts_with(b"libcudart.") || name.starts_with(b"libcudart-")
    };
    libraries().iter().find(is_runtime).and_then(|path| open(path))
}

fn in_library(library: &Library, name: &str) -> Option<NonNull<c_void>> {
    // SAFETY: only the address is taken; the caller is responsible for the type it is called with.
    let symbol = unsafe { library.get::<unsafe extern "C" fn()>(name).ok()? };
    NonNull::new(symbol.as_raw_ptr())
}

/// A library that is loaded. None for the main program, which has no path here.
fn open(path: &Path) -> Option<Library> {
    // SAFETY: with RTLD_NOLOAD no code is run.
    unsafe { Library::open(Some(path), RTLD_NOW | libc::RTLD_NOLOAD).ok() }
}

/// True for a function that the front exports.
fn is_of_front(function: NonNull<c_void>) -> bool {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: fills `info` or returns 0; zero is valid for all its fields.
    let (known, info) = unsafe { (libc::dladdr(function.as_ptr(), info.as_mut_ptr()), info.assume_init()) };
    if known == 0 || info.dli_fname.is_null() {
        return false;
    }
    // SAFETY: the loader's name of a library, which ends with NUL.
    let path = unsafe { CStr::from_ptr(info.dli_fname) };
    file_name(Path::new(OsStr::from_bytes(path.to_bytes()))).starts_with(FRONT)
}

fn file_name(path: &Path) -> &[u8] {
    path.file_name().map_or(&[], OsStr::as_bytes)
}

/// Paths of the loaded libraries, in the order of loading, without the main program.
fn libraries() -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    // SAFETY: `add` gets the pointer to `paths`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut paths).cast()) };
    paths
}

/// # Safety
/// `info` is the loader's entry of a library, and `paths` the list of [`libraries`].
unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _size: usize, paths: *mut c_void) -> c_int {
    // SAFETY: by this function's contract.
    let (info, paths) = unsafe { (&*info, &mut *paths.cast::<Vec<PathBuf>>()) };
    if !info.dlpi_name.is_null() {
        // SAFETY: the loader's name of a library, which ends with NUL.
        let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
        if !path.is_empty() {
            paths.push(PathBuf::from(OsStr::from_bytes(path)));
        }
    }
    0
}
