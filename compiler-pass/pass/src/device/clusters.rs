//! Implements `__cluster_dims__`, which clang accepts but does not lower for NVIDIA GPUs.
//!
//! `eager/nvcc.h` adds an annotation to the kernel, and this module turns it into the attribute from which LLVM emits
//! PTX's directive. The list of annotations stays in the module, in a section from which no code is emitted.

use std::ffi::{CStr, c_char};

use crate::llvm_sys::core::*;
use crate::llvm_sys::prelude::*;

use crate::ir::Module;

const ANNOTATION: &[u8] = b"eager.cluster\0";
const LIST: &CStr = c"llvm.global.annotations";
const ATTRIBUTE: &CStr = c"nvvm.cluster_dim";

/// Gives every annotated kernel its attribute; returns whether there was one.
pub fn add_cluster_attributes(module: Module<'_>) -> bool {
    let mut found = false;
    // SAFETY: all values are the module's own constants, read while it is alive; an element that a constant does not
    // have is null, which is tested each time; the texts outlive the calls, which copy them.
    unsafe {
        let list = LLVMGetNamedGlobal(module.raw(), LIST.as_ptr());
        let entries = if list.is_null() { list } else { LLVMGetInitializer(list) };
        if entries.is_null() {
            return false;
        }
        for entry in elements(entries) {
            let [kernel, text, _, _, arguments] =
                [0, 1, 2, 3, 4].map(|part| LLVMGetAggregateElement(entry, part));
            if kernel.is_null()
                || LLVMIsAFunction(kernel).is_null()
                || !is_cluster_annotation(text)
                || arguments.is_null()
            {
                continue;
            }
            let numbers = if LLVMIsAGlobalVariable(arguments).is_null() {
                std::ptr::null_mut()
            } else {
                LLVMGetInitializer(arguments)
            };
            let mut sizes = [1; 3];
            for (size, number) in sizes.iter_mut().zip(elements(numbers)) {
                if !LLVMIsAConstantInt(number).is_null() {
                    *size = LLVMConstIntGetZExtValue(number);
                }
            }
            let value = format!("{},{},{}\0", sizes[0], sizes[1], sizes[2]);
            LLVMAddTargetDependentFunctionAttr(kernel, ATTRIBUTE.as_ptr(), value.as_ptr().cast::<c_char>());
            found = true;
        }
    }
    found
}

/// Elements of a constant array or structure.
///
/// # Safety
/// `constant` is null or a constant of a live module.
unsafe fn elements(constant: LLVMValueRef) -> impl Iterator<Item = LLVMValueRef> {
    // SAFETY: `constant` is null or live (this function's contract); LLVM returns null beyond the last element.
    let element = move |index| unsafe { LLVMGetAggregateElement(constant, index) };
    (0..)
        .map_while(move |index| if constant.is_null() { None } else { Some(element(index)) })
        .take_while(|e| !e.is_null())
}

/// Whether a constant is the text of the cluster annotation.
///
/// # Safety
/// `text` is null or a constant of a live module.
unsafe fn is_cluster_annotation(text: LLVMValueRef) -> bool {
    // SAFETY: `text` is null or live (this function's contract); each step is tested for null, and the bytes are read
    // with the length that LLVM returns.
    unsafe {
        if text.is_null() || LLVMIsAGlobalVariable(text).is_null() {
            return false;
        }
        let constant = LLVMGetInitializer(text);
        if constant.is_null() || LLVMIsConstantString(constant) == 0 {
            return false;
        }
        let mut length = 0;
        let bytes = LLVMGetAsString(constant, &raw mut length);
        std::slice::from_raw_parts(bytes.cast::<u8>(), length) == ANNOTATION
    }
}
