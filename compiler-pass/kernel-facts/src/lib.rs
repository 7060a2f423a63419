//! What is known of a kernel before it runs: which buffers it reads and writes and in which way, its registers and its
//! shared memory. No LLVM, no unsafe code.
//!
//! [`access`] works on device code that the compiler pass translates into its small form; [`resources`] reads what ptxas
//! put into the program. [`HandOver`] is how the first gets from the device side of a compile to the host side. Trap:
//! `reads`, `writes`, `keeps_pointers`, `keeps_contents` and [`Access::Unused`] are promises; the other classes are
//! estimates that only scheduling may use.
#![forbid(unsafe_code)]

pub mod access;
mod hand_over;
pub mod repetition;
pub mod resources;

pub use hand_over::{HandOver, HandOverError};

use serde::{Deserialize, Serialize};

/// How one launch goes through a buffer; see `eager_abi::ACCESS_UNKNOWN` and its neighbours.
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

/// What a kernel does with one argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArgumentUse {
    /// It may read what the argument points to.
    pub reads: bool,
    /// It may write what the argument points to.
    pub writes: bool,
    pub access: Access,
}

impl ArgumentUse {
    /// Of numbers, structs, and pointers that nothing is known of.
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

/// What a kernel does with its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelUse {
    /// Mangled device name.
    pub name: String,
    /// In the order of its parameters.
    pub arguments: Vec<ArgumentUse>,
    /// It may put an address that it gets as a pointer into memory, where a later kernel finds it. `false` is a promise.
    pub keeps_pointers: bool,
    /// The same of what structs passed by value hold.
    pub keeps_contents: bool,
    /// Parameters that are pointers, as opposed to structs that may hold some.
    pub pointers: usize,
}
