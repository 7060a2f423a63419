//! Turns saturating float-to-integer casts back into plain casts for the GPU.
//!
//! The driver makes clang emit such casts as calls (`-fno-strict-float-cast-overflow`), because clang itself folds a
//! cast such as `(int)3e10f` to poison, while a GPU computes a number. CPU kernels keep the calls; for the GPU they
//! become casts again, as the GPU's own instruction saturates. Trap: the call must stay for a constant argument. LLVM
//! folds the call to the right number, but the cast to poison.

use crate::llvm_sys::core::*;

use crate::emit::tasks::Builder;
use crate::ir::Module;

/// Replaces the calls by plain casts; returns whether there were any.
pub fn make_plain(module: Module<'_>) -> bool {
    let mut found = false;
    for function in module.functions() {
        let name = function.name();
        let is_signed = name.starts_with("llvm.fptosi.sat.");
        if !is_signed && !name.starts_with("llvm.fptoui.sat.") {
            continue;
        }
        for call in function.users() {
            let argument = call.call_args().into_iter().next().filter(|argument| !argument.is_constant());
            let Some(argument) = argument else { continue };
            let builder = Builder::before(module, call);
            // SAFETY: the call is a live instruction, its argument and type are its own, and nothing uses it after it
            // is erased.
            unsafe {
                let (raw, ty, name) = (builder.raw, call.ty(), c"".as_ptr());
                let cast = if is_signed {
                    LLVMBuildFPToSI(raw, argument.raw(), ty, name)
                } else {
                    LLVMBuildFPToUI(raw, argument.raw(), ty, name)
                };
                LLVMReplaceAllUsesWith(call.raw(), cast);
                drop(builder);
                LLVMInstructionEraseFromParent(call.raw());
            }
            found = true;
        }
    }
    found
}
