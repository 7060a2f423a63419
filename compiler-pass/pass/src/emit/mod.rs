//! Plan into IR: task calls, renamed runtime calls, the module's tables and their constructor.
//!
//! Everything written here is undone by nothing: [`is_instrumented`] is what makes a second run a no-op.

pub mod constants;
pub mod dead;
pub mod managed;
pub mod rename;
pub mod runtime;
pub mod tables;
pub mod tasks;
pub mod unwinds;

use crate::ir::Module;

/// Whether the pass has been here: only it refers to the shim's version symbol.
#[must_use]
pub fn is_instrumented(module: Module<'_>) -> bool {
    module.global(eager_abi::VERSION_SYMBOL).is_some()
}
