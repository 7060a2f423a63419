//! Separate compilation of device code (`-fgpu-rdc`): kernels may call functions of other files, so CPU kernels are
//! made when the program is linked. Until then each object carries the device module that clang started from.
//!
//! Trap: an object may be a merge of several (`ld -r`), whose sections are concatenated, so each module must be
//! preceded by its length. The section is marked for exclusion from executables.

use std::ffi::CString;
use std::io::{Error, ErrorKind};
use std::path::Path;

use crate::llvm_sys::bit_writer::LLVMWriteBitcodeToFile;
use crate::llvm_sys::prelude::LLVMModuleRef;

use crate::ir::Module;

/// Section of an object that holds, for each device module, its length (8 bytes, little-endian) and its bitcode. The
/// driver reads it.
pub const SECTION: &str = ".eager.device";

unsafe extern "C" {
    fn eager_embed(module: LLVMModuleRef, bytes: *const u8, len: usize, section: *const libc::c_char);
}

/// Reason why device code could not be kept for the link.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep device code for the link in {path}: {source}")]
pub struct KeepError {
    path: String,
    source: Error,
}

/// Device half: writes the module to `path`, unless an earlier architecture did.
///
/// # Errors
/// If the file cannot be written.
pub fn keep(module: Module<'_>, path: &Path) -> Result<(), KeepError> {
    let failed = |source| KeepError { path: path.display().to_string(), source };
    if path.exists() {
        return Ok(());
    }
    let name =
        CString::new(path.as_os_str().as_encoded_bytes()).map_err(|error| failed(Error::other(error)))?;
    // SAFETY: the module is live and the name NUL-terminated.
    let status = unsafe { LLVMWriteBitcodeToFile(module.raw(), name.as_ptr()) };
    if status == 0 { Ok(()) } else { Err(failed(Error::last_os_error())) }
}

/// Host half: embeds the device module in the object. Returns false for a source without a device half, which leaves no
/// file.
///
/// # Errors
/// If the file exists and cannot be read.
pub fn embed(module: Module<'_>, path: &Path) -> Result<bool, KeepError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(KeepError { path: path.display().to_string(), source }),
    };
    let framed: Vec<u8> = (bytes.len() as u64).to_le_bytes().into_iter().chain(bytes).collect();
    let section = CString::new(SECTION).unwrap_or_default();
    // SAFETY: the module is live; bytes and section are copied before the call returns.
    unsafe { eager_embed(module.raw(), framed.as_ptr(), framed.len(), section.as_ptr()) };
    Ok(true)
}
