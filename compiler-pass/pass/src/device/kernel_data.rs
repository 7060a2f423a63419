//! Facts about kernels' use of their arguments: derived from the device module and passed in a file to the host half.
//! If the program is instrumented at link time, the host half passes them on to the linker as metadata.
//!
//! Trap: nothing here may fail a compile because of the code itself; code that is not understood yields unknown facts.
//! Only a file that cannot be written or read is an error, because the driver promised it.

use std::path::Path;

use eager_kernel_facts::{KernelFactsFile, KernelFactsFileError, KernelUse};
use eager_llvm::Module;

use super::{read, scratch};

/// Name of the metadata in a host module that is instrumented at link time.
const KEPT: &str = "eager.kernels";

/// Reason why kernel data could not be passed on.
#[derive(Debug, thiserror::Error)]
pub enum KernelDataError {
    #[error("cannot write kernel data to {path}: {source}")]
    Write { path: String, source: std::io::Error },
    #[error("cannot read kernel data from {path}: {source}")]
    Read { path: String, source: std::io::Error },
    #[error("cannot use the kernel data in {path}: {source}")]
    Content { path: String, source: KernelFactsFileError },
}

/// Analyses the device module and writes the facts, joined with those of earlier architectures.
///
/// # Errors
/// If the file cannot be read or written.
pub fn write(module: &Module<'_>, path: &Path) -> Result<(), KernelDataError> {
    let mut found = KernelFactsFile::new(analyse(module));
    if path.exists() {
        found = load(path)?.join(found);
    }
    std::fs::write(path, found.text())
        .map_err(|source| KernelDataError::Write { path: path.display().to_string(), source })
}

/// Facts that the device half left for the host half; none for a source without device code.
///
/// # Errors
/// If there is a file, and it cannot be read.
pub fn receive(module: &Module<'_>, path: Option<&Path>) -> Result<Vec<KernelUse>, KernelDataError> {
    let kept = module.named_metadata_texts(KEPT).into_iter().map(|text| {
        KernelFactsFile::parse(&text)
            .map_err(|source| KernelDataError::Content { path: module.source_name(), source })
    });
    let handed = path.filter(|path| path.exists()).map(load);
    let mut all = KernelFactsFile::default();
    for part in kept.chain(handed) {
        all = all.join(part?);
    }
    Ok(all.kernels)
}

/// Puts the device half's facts into the host module for the linker, which sees the modules of all sources merged.
/// Returns whether there were any.
///
/// # Errors
/// If there is a file, and it cannot be read.
pub fn add_metadata(module: &Module<'_>, path: &Path) -> Result<bool, KernelDataError> {
    if !path.exists() {
        return Ok(false);
    }
    module.add_named_metadata(KEPT, module.context().text_node(&load(path)?.text()));
    Ok(true)
}

fn load(path: &Path) -> Result<KernelFactsFile, KernelDataError> {
    let shown = || path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|source| KernelDataError::Read { path: shown(), source })?;
    KernelFactsFile::parse(&text).map_err(|source| KernelDataError::Content { path: shown(), source })
}

fn analyse(module: &Module<'_>) -> Vec<KernelUse> {
    let analyse = |copy: &Module<'_>, kernels: &[String]| {
        eager_kernel_facts::access::analyse(&read::program(copy, kernels))
    };
    scratch::with_copy(&module.to_bitcode(), analyse).unwrap_or_default()
}
