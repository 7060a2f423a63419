//! The target: LLVM's knowledge of the CPU, and sizes of types on it.
//!
//! Inside clang the x86 target is registered already. Registering it again is harmless, but only because both
//! registrations come from the one LLVM library of the process.

use std::ptr::null_mut;

use llvm_sys::target::*;
use llvm_sys::target_machine::*;

use super::{Type, c_string, llvm, take_message};

/// Target triple of all CPU code. The CPU itself is named per function, so host code in the same module keeps its own.
pub(super) const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// LLVM's knowledge of the target CPU.
pub(crate) struct Machine {
    pub(super) raw: LLVMTargetMachineRef,
    pub(super) layout: LLVMTargetDataRef,
}

impl Machine {
    pub fn new(cpu: &str) -> Result<Self, String> {
        // SAFETY: registering a target twice, or while clang has it registered, stores the same pointers again.
        unsafe {
            LLVMInitializeX86TargetInfo();
            LLVMInitializeX86Target();
            LLVMInitializeX86TargetMC();
        }
        let triple = c_string(TRIPLE);
        let (mut target, mut message) = (null_mut(), null_mut());
        if llvm!(LLVMGetTargetFromTriple(triple.as_ptr(), &mut target, &mut message)) != 0 {
            return Err(take_message(message));
        }
        let raw = llvm!(LLVMCreateTargetMachine(
            target,
            triple.as_ptr(),
            c_string(cpu).as_ptr(),
            c"".as_ptr(),
            LLVMCodeGenOptLevel::LLVMCodeGenLevelAggressive,
            LLVMRelocMode::LLVMRelocPIC,
            LLVMCodeModel::LLVMCodeModelDefault,
        ));
        if raw.is_null() {
            return Err("LLVM makes no such target machine".to_owned());
        }
        Ok(Machine { raw, layout: llvm!(LLVMCreateTargetDataLayout(raw)) })
    }

    /// Size in bytes, as an array element.
    pub fn size_of(&self, ty: Type) -> u64 {
        llvm!(LLVMABISizeOfType(self.layout, ty.0))
    }

    /// Offset of a field in bytes from the start of the structure.
    pub fn offset_of(&self, structure: Type, field: u32) -> u64 {
        llvm!(LLVMOffsetOfElement(self.layout, structure.0, field))
    }

    pub fn align_of(&self, ty: Type) -> u32 {
        llvm!(LLVMABIAlignmentOfType(self.layout, ty.0))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        llvm!(LLVMDisposeTargetData(self.layout));
        llvm!(LLVMDisposeTargetMachine(self.raw));
    }
}
