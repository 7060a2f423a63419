//! Constants, globals and declarations in the few forms that the pass emits.
//!
//! Layouts follow `eager_abi`'s `repr(C)` structs field by field; a non-packed LLVM struct of the same field types has
//! the same layout on x86-64.

use std::ffi::CString;

use crate::llvm_sys::core::*;
use crate::llvm_sys::prelude::*;
use crate::llvm_sys::{LLVMLinkage, LLVMUnnamedAddr};

use crate::ir::{Module, Value};

/// Adds constants to one module.
#[derive(Clone, Copy, Debug)]
pub struct Constants<'m> {
    module: Module<'m>,
}

impl<'m> Constants<'m> {
    #[must_use]
    pub fn new(module: Module<'m>) -> Self {
        Self { module }
    }

    #[must_use]
    pub fn module(self) -> Module<'m> {
        self.module
    }

    #[must_use]
    pub fn void(self) -> LLVMTypeRef {
        // SAFETY: the context is that of a live module.
        unsafe { LLVMVoidTypeInContext(self.module.context()) }
    }

    #[must_use]
    pub fn int(self, bits: u32) -> LLVMTypeRef {
        // SAFETY: the context is that of a live module.
        unsafe { LLVMIntTypeInContext(self.module.context(), bits) }
    }

    #[must_use]
    pub fn pointer(self) -> LLVMTypeRef {
        // SAFETY: the context is that of a live module.
        unsafe { LLVMPointerTypeInContext(self.module.context(), 0) }
    }

    #[must_use]
    pub fn u32(self, value: u32) -> LLVMValueRef {
        // SAFETY: the type is an integer type of the module's context.
        unsafe { LLVMConstInt(self.int(32), u64::from(value), 0) }
    }

    #[must_use]
    pub fn u64(self, value: u64) -> LLVMValueRef {
        // SAFETY: the type is an integer type of the module's context.
        unsafe { LLVMConstInt(self.int(64), value, 0) }
    }

    #[must_use]
    pub fn null(self) -> LLVMValueRef {
        // SAFETY: the type is a pointer type of the module's context.
        unsafe { LLVMConstNull(self.pointer()) }
    }

    #[must_use]
    pub fn structure(self, fields: &mut [LLVMValueRef]) -> LLVMValueRef {
        let count = u32::try_from(fields.len()).unwrap_or(u32::MAX);
        // SAFETY: `fields` are constants of the module's context, and the slice is valid for the call.
        unsafe { LLVMConstStructInContext(self.module.context(), fields.as_mut_ptr(), count, 0) }
    }

    /// Adds a private constant global; returns its address.
    #[must_use]
    pub fn global(self, name: &str, initializer: LLVMValueRef) -> LLVMValueRef {
        let name = c_name(name);
        // SAFETY: the initializer is a constant of the module's context, and the name is valid for the call.
        unsafe {
            let global = LLVMAddGlobal(self.module.raw(), LLVMTypeOf(initializer), name.as_ptr());
            LLVMSetInitializer(global, initializer);
            LLVMSetGlobalConstant(global, 1);
            LLVMSetLinkage(global, LLVMLinkage::LLVMPrivateLinkage);
            global
        }
    }

    /// Adds a NUL-terminated string constant; returns its address.
    #[must_use]
    pub fn string(self, name: &str, text: &str) -> LLVMValueRef {
        let text = c_name(text);
        // SAFETY: the text is valid for the call, with its length; the last argument 0 asks for a NUL.
        let data =
            unsafe { LLVMConstStringInContext2(self.module.context(), text.as_ptr(), text.count_bytes(), 0) };
        let global = self.global(name, data);
        // SAFETY: `global` is the global variable made above.
        unsafe { LLVMSetUnnamedAddress(global, LLVMUnnamedAddr::LLVMGlobalUnnamedAddr) };
        global
    }

    /// Adds an array constant in a private global; null if there are no elements.
    #[must_use]
    pub fn array(self, name: &str, elements: &mut [LLVMValueRef]) -> LLVMValueRef {
        let Some(&first) = elements.first() else { return self.null() };
        // SAFETY: all elements are constants of one type, made by the same constructor.
        let array =
            unsafe { LLVMConstArray2(LLVMTypeOf(first), elements.as_mut_ptr(), elements.len() as u64) };
        self.global(name, array)
    }

    /// Returns type and declaration of `void name(params...)`, which is added once per module.
    #[must_use]
    pub fn declare(self, name: &str, params: &mut [LLVMTypeRef]) -> (LLVMTypeRef, LLVMValueRef) {
        let count = u32::try_from(params.len()).unwrap_or(u32::MAX);
        // SAFETY: the types belong to the module's context, and the slice is valid for the call.
        let ty = unsafe { LLVMFunctionType(self.void(), params.as_mut_ptr(), count, 0) };
        if let Some(function) = self.module.function(name) {
            return (ty, function.raw());
        }
        let name = c_name(name);
        // SAFETY: the module is live, and no function of this name exists (looked up above).
        (ty, unsafe { LLVMAddFunction(self.module.raw(), name.as_ptr(), ty) })
    }

    /// Adds a new function `void ()` of the module's own. A function of the same name, which a linked program may have
    /// from another object, stays unchanged, and LLVM renames the new one.
    #[must_use]
    pub fn own_function(self, name: &str) -> LLVMValueRef {
        let name = c_name(name);
        // SAFETY: the module is live; LLVM gives the function another name if this one is taken.
        unsafe {
            let ty = LLVMFunctionType(self.void(), std::ptr::null_mut(), 0, 0);
            let function = LLVMAddFunction(self.module.raw(), name.as_ptr(), ty);
            LLVMSetLinkage(function, LLVMLinkage::LLVMInternalLinkage);
            function
        }
    }

    /// Adds an undefined external variable: a reference that the linker must resolve.
    #[must_use]
    pub fn external(self, name: &str) -> Option<Value<'m>> {
        let name = c_name(name);
        // SAFETY: the module is live, and the name is valid for the call.
        Value::from_raw(unsafe { LLVMAddGlobal(self.module.raw(), self.int(8), name.as_ptr()) })
    }
}

/// Makes a C string; text behind an interior NUL is cut off, which no symbol or path has.
#[must_use]
pub fn c_name(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}
