//! Turns saturating float-to-integer casts back into plain casts for the GPU.
//!
//! The driver makes clang emit such casts as calls (`-fno-strict-float-cast-overflow`), because clang itself folds a
//! cast such as `(int)3e10f` to poison, while a GPU computes a number. CPU kernels keep the calls; for the GPU they
//! become casts again, as the GPU's own instruction saturates. Trap: the call must stay for a constant argument. LLVM
//! folds the call to the right number, but the cast to poison.

use eager_llvm::{Module, Opcode};

use crate::emit::builder_before;

/// Replaces the calls by plain casts; returns whether there were any.
pub fn make_plain<'m>(module: &'m Module<'m>) -> bool {
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
            let opcode = if is_signed { Opcode::LLVMFPToSI } else { Opcode::LLVMFPToUI };
            call.replace_uses_with(builder_before(module, call).cast(opcode, argument, call.ty()));
            call.erase();
            found = true;
        }
    }
    found
}
