//! Separate compilation of device code (`-fgpu-rdc`): kernels may call functions of other files, so CPU kernels are
//! made when the program is linked. Until then each object carries the device module that clang started from.
//!
//! Trap: an object may be a merge of several (`ld -r`), whose sections are concatenated, so each module must be
//! preceded by its length. The section is marked for exclusion from executables.

use std::io::{Error, ErrorKind};
use std::path::Path;

use eager_llvm::Module;

/// Section of an object that holds, for each device module, its length (8 bytes, little-endian) and its bitcode. The
/// driver reads it.
pub const SECTION: &str = ".eager.device";

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
pub fn keep(module: &Module<'_>, path: &Path) -> Result<(), KeepError> {
    let failed = |source| KeepError { path: path.display().to_string(), source };
    if path.exists() {
        return Ok(());
    }
    if module.write_bitcode(path) { Ok(()) } else { Err(failed(Error::last_os_error())) }
}

/// Host half: embeds the device module in the object. Returns false for a source without a device half, which leaves no
/// file.
///
/// # Errors
/// If the file exists and cannot be read.
pub fn embed(module: &Module<'_>, path: &Path) -> Result<bool, KeepError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(KeepError { path: path.display().to_string(), source }),
    };
    let framed: Vec<u8> = (bytes.len() as u64).to_le_bytes().into_iter().chain(bytes).collect();
    module.embed(&framed, SECTION);
    Ok(true)
}
