//! Maps addresses of the arena to nothing, or to the pages of a memory file.
//!
//! Trap: every function here replaces the previous mapping, so callers must track the ownership of addresses.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

/// Permitted use of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Nothing,
    Read,
    ReadWrite,
}

impl Access {
    fn protection(self) -> libc::c_int {
        match self {
            Access::Nothing => libc::PROT_NONE,
            Access::Read => libc::PROT_READ,
            Access::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
        }
    }
}

/// Creates memory without an address, initially zero.
///
/// # Errors
/// The kernel's error, for example too many open files.
pub fn memory_file(bytes: u64) -> io::Result<File> {
    // SAFETY: the name is a C string, and the flag is the kernel's.
    let descriptor = unsafe { libc::memfd_create(c"eager-virtual-gpu".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
    let file = unsafe { File::from_raw_fd(descriptor) };
    file.set_len(bytes)?;
    Ok(file)
}

/// Maps addresses to the first bytes of a file; they are inaccessible until [`protect`] permits more.
///
/// # Errors
/// The kernel's error.
///
/// # Safety
/// The whole pages from `address` on must lie in an arena, in a range whose owner has given it to the caller.
pub unsafe fn map_file(address: u64, bytes: u64, file: &File) -> io::Result<()> {
    // SAFETY: the caller owns the addresses, so only the arena's own mapping is replaced.
    unsafe { map(address, bytes, libc::MAP_SHARED, file.as_raw_fd()) }
}

/// Maps addresses to nothing: any access is a fault.
///
/// # Errors
/// The kernel's error.
///
/// # Safety
/// Those of [`map_file`].
pub unsafe fn map_nothing(address: u64, bytes: u64) -> io::Result<()> {
    // SAFETY: as above.
    unsafe { map(address, bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1) }
}

/// # Safety
/// Those of [`map_file`].
unsafe fn map(address: u64, bytes: u64, flags: libc::c_int, file: libc::c_int) -> io::Result<()> {
    let length = usize::try_from(bytes).map_err(io::Error::other)?;
    let at = address as *mut libc::c_void;
    // SAFETY: the caller owns the addresses; `MAP_FIXED` replaces nothing else.
    let mapped = unsafe { libc::mmap(at, length, libc::PROT_NONE, flags | libc::MAP_FIXED, file, 0) };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// # Errors
/// The kernel's error.
///
/// # Safety
/// Those of [`map_file`].
pub unsafe fn protect(address: u64, bytes: u64, access: Access) -> io::Result<()> {
    let length = usize::try_from(bytes).map_err(io::Error::other)?;
    // SAFETY: the caller owns the addresses.
    let failed = unsafe { libc::mprotect(address as *mut libc::c_void, length, access.protection()) } != 0;
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}
