//! Gets a function into the shape that the readers expect: `sroa,early-cse`, so that sizes are values, not memory.
//!
//! Trap: at -O0 clang marks every function `optnone`, and LLVM then skips the passes without a word. The mark is taken
//! off for the time of the two passes and put back, so the function is compiled at the level that the user asked for.

use std::ffi::CStr;

use llvm_sys::LLVMAttributeFunctionIndex;
use llvm_sys::core::*;
use llvm_sys::error::{LLVMConsumeError, LLVMErrorRef};
use llvm_sys::transforms::pass_builder::{
    LLVMCreatePassBuilderOptions, LLVMDisposePassBuilderOptions, LLVMRunPassesOnFunction,
};

use crate::ir::{Module, Value};

const PASSES: &CStr = c"sroa,early-cse";
const OPTNONE: &CStr = c"optnone";

/// Runs the two passes on one function. A failure leaves the function as it was, which costs precision only.
pub fn prepare(module: Module<'_>, function: Value<'_>) {
    // SAFETY: the function is a live definition of the module; the attribute is of the kind that was looked up; the
    // options are disposed of and the error consumed before the block ends. A null target machine is allowed.
    unsafe {
        let kind = LLVMGetEnumAttributeKindForName(OPTNONE.as_ptr(), OPTNONE.count_bytes());
        let had_mark =
            !LLVMGetEnumAttributeAtIndex(function.raw(), LLVMAttributeFunctionIndex, kind).is_null();
        if had_mark {
            LLVMRemoveEnumAttributeAtIndex(function.raw(), LLVMAttributeFunctionIndex, kind);
        }
        let options = LLVMCreatePassBuilderOptions();
        let error: LLVMErrorRef =
            LLVMRunPassesOnFunction(function.raw(), PASSES.as_ptr(), std::ptr::null_mut(), options);
        LLVMDisposePassBuilderOptions(options);
        if !error.is_null() {
            LLVMConsumeError(error);
        }
        if had_mark {
            let mark = LLVMCreateEnumAttribute(module.context(), kind, 0);
            LLVMAddAttributeAtIndex(function.raw(), LLVMAttributeFunctionIndex, mark);
        }
    }
}
