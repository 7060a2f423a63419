//! Gives the warp functions of old (`__shfl_down(v, d)`, `__any(p)`, `__ballot(p)`) a mask.
//!
//! GPUs since Volta do not have them, and LLVM has no code for them there. NVIDIA's driver runs PTX of older GPUs on new
//! ones with the lanes that are together, so each call takes the mask of these. Trap: this must run at the start of the
//! pipeline, while a call is still one of clang's header's functions, whose callers have the program's lines.

use llvm_sys::core::*;
use llvm_sys::prelude::*;

use crate::diagnostics::{demangled, warn};
use crate::emit::tasks::Builder;
use crate::ir::{Module, SourceLocation, Value};

const SHUFFLES: &str = "llvm.nvvm.shfl.";
const WITH_MASK: &str = "llvm.nvvm.shfl.sync.";
const VOTES: [&str; 4] =
    ["llvm.nvvm.vote.all", "llvm.nvvm.vote.any", "llvm.nvvm.vote.uni", "llvm.nvvm.vote.ballot"];
/// Calls from the program to the function of clang's header that has the intrinsic: a `double` takes three.
const CALLS_MAX: usize = 5;

/// Replaces all such calls, with one warning; returns whether there were any.
pub fn add_masks(module: Module<'_>) -> bool {
    let mut first = None;
    let mut found = false;
    for old in module.functions() {
        let Some(new) = with_mask(&old.name()) else { continue };
        for call in old.users().into_iter().filter(|user| user.callee_name().is_some()) {
            first = first.or_else(|| user_of(call));
            replace(module, call, &new);
            found = true;
        }
    }
    if let Some((name, SourceLocation { file, line })) = first {
        warn(
            module,
            &format!(
                "{file}:{line}: {name}() is for GPUs before Volta: it is compiled as {name}_sync(__activemask(), ...), which is \
                 right only where the threads of the warp run together; say which they are: {name}_sync(0xffffffff, ...) (the \
                 first such call)"
            ),
        );
    }
    found
}

/// Name of the intrinsic that takes a mask first, and else what this one takes.
fn with_mask(name: &str) -> Option<String> {
    if let Some(rest) = name.strip_prefix(SHUFFLES).filter(|_| !name.starts_with(WITH_MASK)) {
        return Some(format!("{WITH_MASK}{rest}"));
    }
    VOTES.contains(&name).then(|| format!("{name}.sync"))
}

/// The call by which the program reaches a call in clang's header: the function's name, and the place.
fn user_of(call: Value<'_>) -> Option<(String, SourceLocation)> {
    let mut call = call;
    for _ in 0..CALLS_MAX {
        let function = call.block()?.function()?;
        let symbol = function.name();
        call = function.users().into_iter().find(|user| user.callee_name().as_ref() == Some(&symbol))?;
        let caller = call.block()?.function()?.name();
        let plain = |symbol: &str| demangled(symbol).split('(').next().unwrap_or_default().to_owned();
        if !plain(&caller).starts_with("__") {
            return Some((plain(&symbol), call.location()?));
        }
    }
    None
}

/// Replaces a call by one of the function `name` that takes the mask of the lanes that are together first.
fn replace(module: Module<'_>, call: Value<'_>, name: &str) {
    let builder = Builder::before(module, call);
    // SAFETY: the call is a live instruction of the module; types and arguments are its own, with the mask in front, as
    // these intrinsics take it; nothing uses the call after it is erased.
    unsafe {
        let i32 = LLVMInt32TypeInContext(module.context());
        let mask_type = LLVMFunctionType(i32, std::ptr::null_mut(), 0, 0);
        let mask_of = declared(module, "llvm.nvvm.activemask", mask_type);
        let mask = LLVMBuildCall2(builder.raw, mask_type, mask_of, std::ptr::null_mut(), 0, c"".as_ptr());
        let mut arguments = vec![mask];
        arguments.extend(call.call_args().into_iter().map(Value::raw));
        let mut types: Vec<LLVMTypeRef> = arguments.iter().map(|&argument| LLVMTypeOf(argument)).collect();
        let count = arguments.len() as u32;
        let ty = LLVMFunctionType(call.ty(), types.as_mut_ptr(), count, 0);
        let function = declared(module, name, ty);
        let new = LLVMBuildCall2(builder.raw, ty, function, arguments.as_mut_ptr(), count, c"".as_ptr());
        LLVMReplaceAllUsesWith(call.raw(), new);
        drop(builder);
        LLVMInstructionEraseFromParent(call.raw());
    }
}

/// # Safety
/// `ty` is the type of the intrinsic of this name, in the module's context.
unsafe fn declared(module: Module<'_>, name: &str, ty: LLVMTypeRef) -> LLVMValueRef {
    if let Some(function) = module.function(name) {
        return function.raw();
    }
    let name = std::ffi::CString::new(name).unwrap_or_default();
    // SAFETY: the module is live, the name NUL-terminated, the type the caller's promise. LLVM gives a declaration under
    // an intrinsic's name that intrinsic's attributes.
    unsafe { LLVMAddFunction(module.raw(), name.as_ptr(), ty) }
}
