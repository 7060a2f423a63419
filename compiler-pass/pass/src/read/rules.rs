//! Effects of CUDA runtime calls on device memory and handles: the shim's table, re-exported for the reader.
//!
//! A call that the table lacks counts as [`CallRule::Uses`], which keeps its buffers in their task. A missing call that
//! is named like an allocation counts as an allocation of unknown size.

pub use eager_abi::calls::{CallRule, rule};
