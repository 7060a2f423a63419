//! What each call of the CUDA runtime does with device memory and handles: the shim's table, as the reader asks it.
//!
//! Trap: a call that the table lacks counts as [`CallRule::Uses`] (and one named like an allocation as one of unknown
//! size): it keeps the buffers it is given in their task.

pub use eager_abi::calls::{CallRule, rule};
