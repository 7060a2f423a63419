//! The file through which the device side of a compile passes its results to the host side.
//!
//! Trap: clang runs the device side once per GPU architecture, and code may differ between them (`__CUDA_ARCH__`). The
//! file holds only facts that are true of all of them ([`KernelFactsFile::join`]). Kernels with the same name in several
//! sources are joined the same way.

use serde::{Deserialize, Serialize};

use crate::{Access, ArgumentUse, KernelUse};

const VERSION: u32 = 2;

/// Facts about all kernels of one translation unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelFactsFile {
    version: u32,
    pub kernels: Vec<KernelUse>,
}

/// Reason why a file is not used.
#[derive(Debug, thiserror::Error)]
pub enum KernelFactsFileError {
    #[error("cannot parse it: {0}")]
    Parse(#[from] serde_json::Error),
    #[error(
        "it has version {0}, but this pass reads version {VERSION}: compile both halves with the same pass"
    )]
    Version(u32),
}

impl Default for KernelFactsFile {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl KernelFactsFile {
    #[must_use]
    pub fn new(kernels: Vec<KernelUse>) -> Self {
        Self { version: VERSION, kernels }
    }

    /// # Errors
    /// See [`KernelFactsFileError`].
    pub fn parse(text: &str) -> Result<Self, KernelFactsFileError> {
        let found: Self = serde_json::from_str(text)?;
        if found.version == VERSION { Ok(found) } else { Err(KernelFactsFileError::Version(found.version)) }
    }

    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Keeps the facts that hold for the code of both architectures. A kernel that only one of them has is kept as it
    /// is.
    #[must_use]
    pub fn join(mut self, other: Self) -> Self {
        for kernel in other.kernels {
            match self.kernels.iter_mut().find(|known| known.name == kernel.name) {
                Some(known) => join_kernels(known, &kernel),
                None => self.kernels.push(kernel),
            }
        }
        self
    }
}

fn join_kernels(known: &mut KernelUse, other: &KernelUse) {
    known.keeps_pointers |= other.keeps_pointers || known.pointers != other.pointers;
    known.keeps_contents |= other.keeps_contents;
    if known.arguments.len() != other.arguments.len() {
        known.arguments.fill(ArgumentUse::UNKNOWN);
        known.keeps_pointers = true;
        return;
    }
    for (one, other) in known.arguments.iter_mut().zip(&other.arguments) {
        let access = match (one.access, other.access) {
            (one, other) if one == other => one,
            (Access::Unused, used) | (used, Access::Unused) => used,
            _ => Access::Unknown,
        };
        *one = ArgumentUse { reads: one.reads | other.reads, writes: one.writes | other.writes, access };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(name: String, arguments: Vec<ArgumentUse>) -> KernelUse {
        let pointers = arguments.len();
        KernelUse { name, arguments, keeps_pointers: false, keeps_contents: false, pointers }
    }

    fn unit(arguments: &[ArgumentUse]) -> KernelFactsFile {
        let (name, arguments) = ("k".to_owned(), arguments.to_vec());
        KernelFactsFile::new(vec![kernel(name, arguments)])
    }

    const READ: ArgumentUse = ArgumentUse { reads: true, writes: false, access: Access::OnePass };
    const WRITTEN: ArgumentUse = ArgumentUse { reads: false, writes: true, access: Access::Sparse };
    const UNUSED: ArgumentUse = ArgumentUse { reads: false, writes: false, access: Access::Unused };

    #[test]
    fn text_and_back() {
        let unit = unit(&[READ, UNUSED]);
        assert_eq!(KernelFactsFile::parse(&unit.text()).unwrap(), unit);
        assert!(KernelFactsFile::parse("{").unwrap_err().to_string().contains("cannot parse it"));
        assert!(
            KernelFactsFile::parse(r#"{"version":9,"kernels":[]}"#)
                .unwrap_err()
                .to_string()
                .contains("version 9")
        );
    }

    #[test]
    fn two_architectures_agree_or_are_unknown() {
        let both = unit(&[READ, READ, UNUSED]).join(unit(&[READ, WRITTEN, READ]));
        let mixed = ArgumentUse { reads: true, writes: true, access: Access::Unknown };
        assert_eq!(both, unit(&[READ, mixed, READ]));
        let other_shape = unit(&[READ]).join(unit(&[READ, READ]));
        assert_eq!(other_shape.kernels[0].arguments, [ArgumentUse::UNKNOWN]);
        assert!(other_shape.kernels[0].keeps_pointers);
        let (name, arguments) = ("l".to_owned(), vec![READ]);
        let other_kernel = KernelFactsFile::new(vec![kernel(name, arguments)]);
        assert_eq!(unit(&[READ]).join(other_kernel).kernels.len(), 2);
    }
}
