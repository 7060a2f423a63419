//! The parts of `eagercc`: parse ([`args`], [`invocation`]), find the tools ([`toolchain`]), decide ([`plan`]), act
//! ([`run`]).
//!
//! Only [`toolchain`] looks at the environment and only [`run`] starts processes; the rest is pure and tested without a
//! compiler.
#![forbid(unsafe_code)]

pub mod args;
pub mod invocation;
pub mod plan;
pub mod run;
pub mod toolchain;
