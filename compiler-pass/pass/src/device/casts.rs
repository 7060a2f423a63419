//! Casts of real numbers to integers, which the driver makes clang write as calls (`-fno-strict-float-cast-overflow`): else
//! clang itself folds what a GPU would compute, such as `(int)3e10f`, to no number at all.
//!
//! For CPU kernels the calls stay; for the GPU they become casts again, as its own instruction holds the range. Trap: a cast
//! of a constant stays a call, which LLVM folds to the right number, where it would fold the cast to none.

use llvm_sys::core::*;

use crate::emit::tasks::Builder;
use crate::ir::Module;

/// Makes ordinary casts of the calls; returns whether there were any.
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
            // SAFETY: the call is a live instruction, its argument and type are its own, and nobody uses it after its end.
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
