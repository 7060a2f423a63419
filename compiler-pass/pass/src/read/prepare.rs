//! Transforms a function into the form that the readers expect: `sroa,early-cse`, so that sizes are values, not memory.
//!
//! Before that, two kinds of calls are inlined: CUDA's constructors of small structs (`dim3`, `cudaExtent`), which
//! would hide a launch's geometry, and small functions of the C++ library, which would hide the trip count of `for
//! (auto &p : array)` and the value of `v.size()`.
//!
//! Trap: at -O0 clang marks every function `optnone`, and LLVM then skips the passes silently. The mark is removed
//! while the passes run and put back afterwards, so that the function is compiled at the level that the user asked for.

use std::ffi::CStr;

use crate::llvm_sys::LLVMAttributeFunctionIndex;
use crate::llvm_sys::core::*;
use crate::llvm_sys::error::{LLVMConsumeError, LLVMErrorRef};
use crate::llvm_sys::prelude::LLVMValueRef;
#[cfg(feature = "llvm22")]
use crate::llvm_sys::transforms::pass_builder::LLVMRunPassesOnFunction;
use crate::llvm_sys::transforms::pass_builder::{
    LLVMCreatePassBuilderOptions, LLVMDisposePassBuilderOptions,
};

use crate::ir::{Block, Module, Value};
use crate::read::calls::Wrappers;
use crate::read::unroll;

unsafe extern "C" {
    fn eager_inline_call(call: LLVMValueRef) -> bool;
}

/// Mangled names of functions in CUDA's headers that only fill a struct.
const CONSTRUCTORS: &[&str] =
    &["_ZN4dim3C1E", "_ZN4dim3C2E", "_ZNK4dim3cv", "make_cudaExtent", "make_cudaPitchedPtr", "make_cudaPos"];

// LLVM 19 lacks this function; `llvm19.cpp` provides it.
#[cfg(not(feature = "llvm22"))]
unsafe extern "C" {
    fn LLVMRunPassesOnFunction(
        function: LLVMValueRef,
        passes: *const std::ffi::c_char,
        machine: crate::llvm_sys::target_machine::LLVMTargetMachineRef,
        options: crate::llvm_sys::transforms::pass_builder::LLVMPassBuilderOptionsRef,
    ) -> LLVMErrorRef;
}

/// Prefixes of mangled names of the C++ library: namespace `std`, and `__gnu_cxx` of GNU's library.
const LIBRARY: &[&str] = &["_ZNSt", "_ZNKSt", "_ZSt", "_ZN9__gnu_cxx", "_ZNK9__gnu_cxx"];
/// Limit on the instructions of a library function that is inlined; an iterator's step or a container's size has fewer.
const SMALL_MAX: usize = 48;
/// Library functions call each other: limits on the rounds of inlining, and on the instructions inlined in all.
const ROUNDS_MAX: usize = 10;
const INLINED_MAX: usize = 4096;

const PASSES: &CStr = c"sroa,early-cse";
const OPTNONE: &CStr = c"optnone";

/// Runs the two passes on one function, and unrolls its loops that allocate a constant number of times.
pub fn prepare<'m>(module: Module<'m>, function: Value<'m>, wrappers: &Wrappers<'m>) {
    inline_constructors(function);
    inline_library(function);
    run(module, function, PASSES);
    if unroll::has_allocating_loop(function, wrappers) {
        let write_out = || run(module, function, unroll::PASSES);
        unroll::with_marked_calls(module, function, wrappers, write_out);
    }
}

/// Runs passes on one function. A failure leaves the function unchanged, which costs precision only.
fn run(module: Module<'_>, function: Value<'_>, passes: &CStr) {
    // SAFETY: the function is a live definition of the module; the attribute is of the kind that was looked up; the
    // options are disposed of and the error consumed before the block ends. A null target machine is allowed.
    unsafe {
        let kind = LLVMGetEnumAttributeKindForName(OPTNONE.as_ptr(), OPTNONE.count_bytes());
        let had_mark = is_unoptimised(function);
        if had_mark {
            LLVMRemoveEnumAttributeAtIndex(function.raw(), LLVMAttributeFunctionIndex, kind);
        }
        let options = LLVMCreatePassBuilderOptions();
        let error: LLVMErrorRef =
            LLVMRunPassesOnFunction(function.raw(), passes.as_ptr(), std::ptr::null_mut(), options);
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

fn is_unoptimised(function: Value<'_>) -> bool {
    // SAFETY: the function is a live definition; the name is a valid string of the given length.
    unsafe {
        let kind = LLVMGetEnumAttributeKindForName(OPTNONE.as_ptr(), OPTNONE.count_bytes());
        !LLVMGetEnumAttributeAtIndex(function.raw(), LLVMAttributeFunctionIndex, kind).is_null()
    }
}

fn inline_constructors(function: Value<'_>) {
    let is_constructor = |callee: Value<'_>| {
        let name = callee.name();
        CONSTRUCTORS.iter().any(|constructor| name.contains(constructor))
    };
    for call in calls_of(function, is_constructor) {
        inline_call(call);
    }
}

/// Inlines small library functions; not at -O0, where the function keeps the calls that a debugger steps into.
fn inline_library(function: Value<'_>) {
    if is_unoptimised(function) {
        return;
    }
    let mut left = INLINED_MAX / SMALL_MAX;
    for _ in 0..ROUNDS_MAX {
        let calls = calls_of(function, |callee| {
            let name = callee.name();
            let instructions =
                || callee.blocks().into_iter().map(|block| block.instructions().len()).sum::<usize>();
            LIBRARY.iter().any(|begin| name.starts_with(begin))
                && instructions() <= SMALL_MAX
                && callee != function
        });
        let inlined = calls.into_iter().take(left).filter(|&call| inline_call(call)).count();
        left -= inlined;
        if inlined == 0 {
            break;
        }
    }
}

/// Calls in a function whose callee has a body and is `wanted`.
fn calls_of<'m>(function: Value<'m>, wanted: impl Fn(Value<'m>) -> bool) -> Vec<Value<'m>> {
    let is_wanted = |call: &Value<'m>| {
        let callee = call.callee().filter(|callee| callee.is_function() && !callee.is_declaration());
        callee.is_some_and(&wanted)
    };
    let instructions = function.blocks().into_iter().flat_map(Block::instructions);
    instructions.filter(is_wanted).collect()
}

/// Inlines a call; returns whether LLVM could.
fn inline_call(call: Value<'_>) -> bool {
    // SAFETY: the call is live: inlining deletes that call only, and each call is visited once. A call that LLVM cannot
    // inline stays unchanged.
    unsafe { eager_inline_call(call.raw()) }
}
