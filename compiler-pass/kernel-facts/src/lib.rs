//! Facts about a kernel before it runs: the buffers that it reads and writes, and in which way, its registers and its
//! shared memory. No LLVM, no unsafe code.
//!
//! [`access`] analyses device code, which the compiler pass translates into a small form; [`resources`] reads the data
//! that ptxas put into the program. [`KernelFactsFile`] carries the results of `access` from the device side of a
//! compile to the host side. Trap: `reads`, `writes`, `keeps_pointers`, `keeps_contents` and [`Access::Unused`] are
//! promises; the other classes are estimates that only scheduling may use.
#![forbid(unsafe_code)]

pub mod access;
mod facts_file;
pub mod repetition;
pub mod resources;

pub use facts_file::{KernelFactsFile, KernelFactsFileError};

use serde::{Deserialize, Serialize};

/// Access pattern of one launch on a buffer; see `eager_abi::ACCESS_UNKNOWN` and its neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    #[default]
    Unknown,
    OnePass,
    Cyclic,
    Sparse,
    Unused,
}

/// Use of one argument by a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArgumentUse {
    /// The kernel may read the memory that the argument points to.
    pub reads: bool,
    /// The kernel may write the memory that the argument points to.
    pub writes: bool,
    pub access: Access,
}

impl ArgumentUse {
    /// For numbers, structs, and pointers about which nothing is known.
    pub const UNKNOWN: Self = Self { reads: false, writes: false, access: Access::Unknown };

    /// The bits of `eager_abi::EagerKernelArg::flags`, without `ARG_POINTER`.
    #[must_use]
    pub fn flags(self) -> u32 {
        let class = match self.access {
            Access::Unknown => eager_abi::ACCESS_UNKNOWN,
            Access::OnePass => eager_abi::ACCESS_ONE_PASS,
            Access::Cyclic => eager_abi::ACCESS_CYCLIC,
            Access::Sparse => eager_abi::ACCESS_SPARSE,
            Access::Unused => eager_abi::ACCESS_UNUSED,
        };
        let reads = if self.reads { eager_abi::ARG_READ } else { 0 };
        let writes = if self.writes { eager_abi::ARG_WRITTEN } else { 0 };
        reads | writes | class << eager_abi::ARG_ACCESS_SHIFT
    }
}

/// Use of all its arguments by a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelUse {
    /// Mangled device name.
    pub name: String,
    /// Uses of its parameters, in their order.
    pub arguments: Vec<ArgumentUse>,
    /// The kernel may store one of its pointer arguments to memory, where a later kernel finds it. `false` is a
    /// promise.
    pub keeps_pointers: bool,
    /// The kernel may store a pointer from a by-value struct to memory. `false` is a promise.
    pub keeps_contents: bool,
    /// Number of parameters that are pointers; structs that may hold pointers do not count.
    pub pointers: usize,
}
