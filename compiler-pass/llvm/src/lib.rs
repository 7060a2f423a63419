//! The LLVM C API of LLVM 22 or LLVM 19, selected by feature; dependent crates call this crate `llvm_sys`.
//!
//! Trap: the two versions cannot be in one process, so exactly one feature is on: `--no-default-features --features
//! llvm19`.
#![forbid(unsafe_code)]

#[cfg(all(feature = "llvm19", feature = "llvm22"))]
compile_error!("one LLVM at a time: for LLVM 19 build with --no-default-features --features llvm19");
#[cfg(not(any(feature = "llvm19", feature = "llvm22")))]
compile_error!("no LLVM chosen: feature llvm22 (the default) or llvm19");

#[cfg(all(feature = "llvm19", not(feature = "llvm22")))]
pub use llvm_sys_19::*;
#[cfg(feature = "llvm22")]
pub use llvm_sys_22::*;

/// Major version of LLVM.
pub const MAJOR: u32 = if cfg!(feature = "llvm22") { 22 } else { 19 };
