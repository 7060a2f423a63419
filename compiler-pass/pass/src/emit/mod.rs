//! Writes the plan into IR: task calls, renamed runtime calls, the module's tables and their constructor.
//!
//! Nothing undoes these changes; [`is_instrumented`] makes a second run do nothing.

use eager_llvm::{Builder, Module, Value};

pub mod constants;
pub mod dead;
pub mod managed;
pub mod rename;
pub mod runtime;
pub mod tables;
pub mod tasks;
pub mod unwinds;

/// Whether the pass has already run on the module: only the pass refers to the shim's version symbol.
#[must_use]
pub fn is_instrumented(module: &Module<'_>) -> bool {
    module.global(eager_abi::VERSION_SYMBOL).is_some()
}

/// A builder positioned before one instruction, with that instruction's source location.
pub(crate) fn builder_before<'m>(module: &'m Module<'m>, before: Value<'m>) -> Builder<'m> {
    let builder = module.context().builder();
    builder.before(before).located_as(before);
    builder
}
