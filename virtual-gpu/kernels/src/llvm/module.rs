//! Modules: linking, verifying, running passes, writing bitcode.
//!
//! Trap: linking consumes the other module, and a pass run or a link may free any value found before it.

use std::ffi::CStr;
use std::ptr::null_mut;

use llvm_sys::analysis::{LLVMVerifierFailureAction, LLVMVerifyModule};
use llvm_sys::bit_writer::LLVMWriteBitcodeToMemoryBuffer;
use llvm_sys::core::*;
use llvm_sys::debuginfo::LLVMStripModuleDebugInfo;
use llvm_sys::error::{LLVMDisposeErrorMessage, LLVMGetErrorMessage};
use llvm_sys::linker::LLVMLinkModules2;
use llvm_sys::prelude::*;
use llvm_sys::target::LLVMSetModuleDataLayout;
use llvm_sys::transforms::pass_builder::*;

use super::machine::TRIPLE;
use super::{Machine, Type, Value, c_string, llvm, name_of_length, take_message, walk};

pub(crate) struct Module {
    pub(super) raw: LLVMModuleRef,
}

impl Module {
    pub fn triple(&self) -> String {
        // SAFETY: the triple is a NUL-terminated string owned by the module.
        unsafe { CStr::from_ptr(LLVMGetTarget(self.raw)) }.to_string_lossy().into_owned()
    }

    pub fn inline_assembly(&self) -> String {
        name_of_length(|length| llvm!(LLVMGetModuleInlineAsm(self.raw, length)))
    }

    pub fn set_target(&self, machine: &Machine) {
        llvm!(LLVMSetTarget(self.raw, c_string(TRIPLE).as_ptr()));
        llvm!(LLVMSetModuleDataLayout(self.raw, machine.layout));
    }

    /// Clears the target triple. The linker warns when two modules spell theirs differently (`-pc-`, `-unknown-`), and
    /// clang's handler crashes on such a warning from a pass.
    pub fn forget_triple(&self) {
        llvm!(LLVMSetTarget(self.raw, c"".as_ptr()));
    }

    /// Copies target and data layout of `other`, so that linking into it causes no warning.
    pub fn set_layout_of(&self, other: &Module) {
        // SAFETY: both strings belong to `other` and are copied by the calls.
        unsafe {
            LLVMSetTarget(self.raw, LLVMGetTarget(other.raw));
            LLVMSetDataLayout(self.raw, LLVMGetDataLayoutStr(other.raw));
        }
    }

    pub fn functions(&self) -> Vec<Value> {
        let first = llvm!(LLVMGetFirstFunction(self.raw));
        walk(first, |f| llvm!(LLVMGetNextFunction(f))).map(Value).collect()
    }

    pub fn globals(&self) -> Vec<Value> {
        let first = llvm!(LLVMGetFirstGlobal(self.raw));
        walk(first, |g| llvm!(LLVMGetNextGlobal(g))).map(Value).collect()
    }

    pub fn function(&self, name: &str) -> Option<Value> {
        let found = llvm!(LLVMGetNamedFunction(self.raw, c_string(name).as_ptr()));
        (!found.is_null()).then_some(Value(found))
    }

    pub fn add_function(&self, name: &str, ty: Type) -> Value {
        Value(llvm!(LLVMAddFunction(self.raw, c_string(name).as_ptr(), ty.0)))
    }

    pub fn add_global(&self, name: &str, ty: Type) -> Value {
        Value(llvm!(LLVMAddGlobal(self.raw, ty.0, c_string(name).as_ptr())))
    }

    pub fn global(&self, name: &str) -> Option<Value> {
        let found = llvm!(LLVMGetNamedGlobal(self.raw, c_string(name).as_ptr()));
        (!found.is_null()).then_some(Value(found))
    }

    /// Declares an intrinsic with the signature of this LLVM: those of coroutine intrinsics change between versions.
    pub fn intrinsic(&self, name: &str, overloads: &[Type]) -> Value {
        let id = llvm!(LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len()));
        let mut overloads: Vec<LLVMTypeRef> = overloads.iter().map(|t| t.0).collect();
        Value(llvm!(LLVMGetIntrinsicDeclaration(self.raw, id, overloads.as_mut_ptr(), overloads.len())))
    }

    /// Moves everything from `other` into this module.
    pub fn link(&self, other: Module) -> Result<(), ()> {
        let source = other.raw;
        std::mem::forget(other);
        if llvm!(LLVMLinkModules2(self.raw, source)) == 0 { Ok(()) } else { Err(()) }
    }

    pub fn verify(&self) -> Result<(), String> {
        let mut message = null_mut();
        let action = LLVMVerifierFailureAction::LLVMReturnStatusAction;
        let broken = llvm!(LLVMVerifyModule(self.raw, action, &mut message));
        let message = take_message(message);
        if broken == 0 { Ok(()) } else { Err(message) }
    }

    pub fn run_passes(&self, passes: &str, machine: &Machine) -> Result<(), String> {
        self.run_passes_with(passes, machine, true)
    }

    /// Runs passes; `slp`: vectorise straight code.
    pub fn run_passes_with(&self, passes: &str, machine: &Machine, slp: bool) -> Result<(), String> {
        let options = llvm!(LLVMCreatePassBuilderOptions());
        llvm!(LLVMPassBuilderOptionsSetSLPVectorization(options, i32::from(slp)));
        let error = llvm!(LLVMRunPasses(self.raw, c_string(passes).as_ptr(), machine.raw, options));
        llvm!(LLVMDisposePassBuilderOptions(options));
        if error.is_null() {
            return Ok(());
        }
        let message = llvm!(LLVMGetErrorMessage(error));
        // SAFETY: the message is NUL-terminated, and the caller must dispose of it.
        let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
        llvm!(LLVMDisposeErrorMessage(message));
        Err(text)
    }

    pub fn strip_debug_info(&self) {
        llvm!(LLVMStripModuleDebugInfo(self.raw));
    }

    pub fn to_text(&self) -> String {
        take_message(llvm!(LLVMPrintModuleToString(self.raw)))
    }

    pub fn to_bitcode(&self) -> Vec<u8> {
        let buffer = llvm!(LLVMWriteBitcodeToMemoryBuffer(self.raw));
        let (start, size) = (llvm!(LLVMGetBufferStart(buffer)), llvm!(LLVMGetBufferSize(buffer)));
        // SAFETY: LLVM's buffer holds `size` bytes at `start` until it is disposed of below.
        let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), size) }.to_vec();
        llvm!(LLVMDisposeMemoryBuffer(buffer));
        bytes
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        llvm!(LLVMDisposeModule(self.raw));
    }
}
