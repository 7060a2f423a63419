//! Registers and shared memory of kernels as ptxas assigned them, read from the GPU code inside the program.
//!
//! A program may carry code for several architectures, and which one runs is known only on the target machine. So the
//! largest of each number is used: more registers or shared memory mean fewer resident blocks, so the result promises
//! nothing that another architecture's code cannot keep. Code that is only PTX gives no numbers.

mod cubin;
mod fatbin;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use cubin::CubinError;
pub use fatbin::FatbinError;

/// Resources of one kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Registers per thread; 0 if unknown.
    pub registers: u32,
    /// Static shared memory per block, in bytes.
    pub shared_bytes: u32,
}

/// Reason why GPU code could not be read. Only precision depends on it.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    #[error("cannot read the fat binary with the program's GPU code: {0}")]
    Fatbin(#[from] FatbinError),
    #[error("cannot read a cubin in the program's GPU code: {0}")]
    Cubin(#[from] CubinError),
}

/// Resources of the kernels in a fat binary, by mangled name.
///
/// # Errors
/// See [`ResourceError`]; code that is only PTX is no error.
pub fn of_fatbin(bytes: &[u8]) -> Result<BTreeMap<String, Resources>, ResourceError> {
    let images = fatbin::images(bytes)?;
    let all = images.iter().map(|image| cubin::resources(image)).collect::<Result<Vec<_>, _>>()?;
    Ok(largest(all))
}

/// Largest of each number, by kernel.
#[must_use]
pub fn largest(all: impl IntoIterator<Item = BTreeMap<String, Resources>>) -> BTreeMap<String, Resources> {
    let mut found: BTreeMap<String, Resources> = BTreeMap::new();
    for (name, one) in all.into_iter().flatten() {
        let known = found.entry(name).or_default();
        known.registers = known.registers.max(one.registers);
        known.shared_bytes = known.shared_bytes.max(one.shared_bytes);
    }
    found
}

/// Bytes of the fat binary that nvcc writes as assembly into the host code: `.quad` words after the label `fatbinData`.
#[must_use]
pub fn bytes_of_assembly(text: &str) -> Option<Vec<u8>> {
    let (_, data) = text.split_once("fatbinData:")?;
    let words = data.lines().map(str::trim).map_while(|line| match line.strip_prefix(".quad") {
        Some(words) => Some(words),
        None if line.is_empty() => Some(""),
        None => None,
    });
    let mut bytes = Vec::new();
    for word in words.flat_map(|line| line.split(',')).map(str::trim).filter(|word| !word.is_empty()) {
        bytes.extend(u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()?.to_le_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assembly_becomes_bytes() {
        let text = ".section .nv_fatbin, \"a\"\n.align 8\nfatbinData:\n.quad 0x01,0x0203\n.quad 0xff\n.text\n.quad 0x5\n";
        let expected: Vec<u8> = [1u64, 0x203, 0xff].iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(bytes_of_assembly(text), Some(expected));
        assert_eq!(bytes_of_assembly(".quad 0x1"), None);
        assert_eq!(bytes_of_assembly("fatbinData:\n.quad one\n"), None);
    }
}
