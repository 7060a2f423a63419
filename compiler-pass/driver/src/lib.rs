//! The parts of `eagercc`: expand ([`response`]), translate nvcc's words ([`nvcc`]), parse ([`args`], [`invocation`]),
//! find the tools ([`toolchain`]), plan ([`plan`]), run ([`run`]).
//!
//! Only [`toolchain`] reads the environment and only [`run`] starts processes; the rest is pure and tested without a
//! compiler.
#![forbid(unsafe_code)]

pub mod advice;
pub mod args;
pub mod code;
pub mod default_arguments;
pub mod device_code;
pub mod dialect;
pub mod flags;
mod interrupt;
pub mod invocation;
pub mod libraries;
pub mod mend;
pub mod nested;
pub mod nvcc;
pub mod own_files;
pub mod plan;
pub mod ptxas;
pub mod removed;
pub mod report;
pub mod response;
pub mod run;
pub mod shared_objects;
pub mod source;
pub mod stand_in;
pub mod toolchain;
