//! Redirects the CUDA runtime calls that the shim owns to the shim, by renaming their declarations.
//!
//! Renaming the declaration covers every use at once: direct calls, clang's typed wrappers and taken addresses. Trap: a
//! module that defines such a function (a stand-in runtime compiled with the plugin) must keep it.

use eager_llvm::Module;

/// Renames every declared call of [`eager_abi::calls::renamed_symbols`]; returns the renamed ones.
pub fn rename_calls(module: &Module<'_>) -> Vec<&'static str> {
    let mut renamed = Vec::new();
    for name in eager_abi::calls::renamed_symbols() {
        let Some(function) = module.function(name).filter(|function| function.is_declaration()) else {
            continue;
        };
        let target = format!("{}{name}", eager_abi::RENAME_PREFIX);
        match module.function(&target) {
            Some(existing) => function.replace_uses_with(existing),
            None => function.set_name(&target),
        }
        renamed.push(name);
    }
    renamed
}
