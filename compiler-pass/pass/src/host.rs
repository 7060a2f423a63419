//! The host half: read, decide, write.
//!
//! Trap: modules without CUDA calls must come out untouched, also when clang compiles a whole project with the plugin.

use crate::emit;
use crate::ir::Module;
use crate::options::PassOptions;
use crate::read::{calls, kernels};

/// Why a host module could not be instrumented.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error("cannot write the report {path}: {source}")]
    Report { path: String, source: std::io::Error },
}

/// Instruments one host module; returns whether it changed.
///
/// # Errors
/// When the report cannot be written.
pub fn instrument(module: Module<'_>, _options: &PassOptions) -> Result<bool, HostError> {
    if emit::is_instrumented(module) || !uses_runtime(module) {
        return Ok(false);
    }
    let kernels = kernels::registered(module);
    emit::rename::rename_calls(module);
    emit::tables::emit_tables(module, &kernels, &[]);
    Ok(true)
}

/// Whether the module calls (or takes the address of) anything of the CUDA runtime.
fn uses_runtime(module: Module<'_>) -> bool {
    module.functions().into_iter().any(|function| {
        function.is_declaration()
            && calls::runtime_name(&function.name()).is_some()
            && !function.users().is_empty()
    })
}
