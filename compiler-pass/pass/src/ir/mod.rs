//! Read access to a module that clang owns: small copyable handles with safe methods over the LLVM C API.
//!
//! Invariant of every handle: it was obtained from the module borrowed for `'m`, and nothing that lives in a `Facts`
//! or in a snapshot of a function is deleted while the borrow lasts; the writers in `emit` only add instructions, split
//! edges and rename declarations. Trap: operands may be metadata or tokens, which have no first-class type, so code
//! must test the kind before it asks for a width.

mod block;
mod value;

use std::ffi::{CStr, CString};
use std::marker::PhantomData;

pub use block::Block;
pub use value::{SourceLocation, Value};

use crate::llvm_sys::LLVMTypeKind;
use crate::llvm_sys::core::*;
use crate::llvm_sys::prelude::*;

unsafe extern "C" {
    fn eager_constant_offset(module: LLVMModuleRef, gep: LLVMValueRef, offset: *mut i64) -> bool;
}

/// Number of pointers in one struct beyond which further pointers are ignored.
const POINTERS_MAX: usize = 64;

/// The module that clang handed to the pass.
#[derive(Clone, Copy, Debug)]
pub struct Module<'m> {
    raw: LLVMModuleRef,
    lifetime: PhantomData<&'m ()>,
}

pub(crate) fn text(bytes: *const libc::c_char, len: usize) -> String {
    if bytes.is_null() {
        return String::new();
    }
    // SAFETY: LLVM returned `bytes` together with its length; both describe memory that the module keeps alive.
    let slice = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len) };
    String::from_utf8_lossy(slice).into_owned()
}

impl<'m> Module<'m> {
    /// Borrows a module.
    ///
    /// # Safety
    /// `raw` is a live module, and stays so for `'m`; no other code changes it meanwhile.
    #[must_use]
    pub unsafe fn from_raw(raw: LLVMModuleRef) -> Self {
        Self { raw, lifetime: PhantomData }
    }

    #[must_use]
    pub fn raw(self) -> LLVMModuleRef {
        self.raw
    }

    #[must_use]
    pub fn context(self) -> LLVMContextRef {
        // SAFETY: the module is live (type invariant); this only reads a field.
        unsafe { LLVMGetModuleContext(self.raw) }
    }

    #[must_use]
    pub fn triple(self) -> String {
        // SAFETY: the module is live, and its triple is a NUL-terminated string that it owns.
        unsafe { CStr::from_ptr(LLVMGetTarget(self.raw)) }.to_string_lossy().into_owned()
    }

    #[must_use]
    pub fn source_name(self) -> String {
        let mut len = 0;
        // SAFETY: the module is live; `len` receives the length of the string that it owns.
        let bytes = unsafe { LLVMGetSourceFileName(self.raw, &raw mut len) };
        text(bytes, len)
    }

    /// Sets the source name of the module.
    pub fn set_source_name(self, name: &str) {
        // SAFETY: the module is live and copies the `name.len()` bytes.
        unsafe { LLVMSetSourceFileName(self.raw, name.as_ptr().cast(), name.len()) };
    }

    /// All functions in module order, including declarations.
    #[must_use]
    pub fn functions(self) -> Vec<Value<'m>> {
        let mut found = Vec::new();
        // SAFETY: the module is live; the iteration below makes no change to its function list.
        let mut next = unsafe { LLVMGetFirstFunction(self.raw) };
        while let Some(function) = Value::from_raw(next) {
            found.push(function);
            // SAFETY: `next` is a function of the live module.
            next = unsafe { LLVMGetNextFunction(next) };
        }
        found
    }

    /// All global variables in module order.
    #[must_use]
    pub fn globals(self) -> Vec<Value<'m>> {
        let mut found = Vec::new();
        // SAFETY: the module is live; the iteration below makes no change to its list of globals.
        let mut next = unsafe { LLVMGetFirstGlobal(self.raw) };
        while let Some(global) = Value::from_raw(next) {
            found.push(global);
            // SAFETY: `next` is a global of that module.
            next = unsafe { LLVMGetNextGlobal(next) };
        }
        found
    }

    #[must_use]
    pub fn function(self, name: &str) -> Option<Value<'m>> {
        let name = CString::new(name).ok()?;
        // SAFETY: the module is live and `name` is NUL-terminated for the length of the call.
        Value::from_raw(unsafe { LLVMGetNamedFunction(self.raw, name.as_ptr()) })
    }

    #[must_use]
    pub fn global(self, name: &str) -> Option<Value<'m>> {
        let name = CString::new(name).ok()?;
        // SAFETY: the module is live and `name` is NUL-terminated for the length of the call.
        Value::from_raw(unsafe { LLVMGetNamedGlobal(self.raw, name.as_ptr()) })
    }

    /// Size in bytes of a type on the target.
    #[must_use]
    pub fn size_bytes(self, ty: LLVMTypeRef) -> u64 {
        // SAFETY: the type belongs to the module's context and is sized (callers pass allocated or byval types only).
        unsafe {
            crate::llvm_sys::target::LLVMABISizeOfType(
                crate::llvm_sys::target::LLVMGetModuleDataLayout(self.raw),
                ty,
            )
        }
    }

    /// Byte offset of the field that an `extractvalue` or `insertvalue` accesses.
    #[must_use]
    pub fn field_offset(self, access: Value<'m>) -> Option<i64> {
        let indices = access.field_indices();
        // SAFETY: the type is that of operand 0, an aggregate, and each index is one of an instruction on it, so it is
        // in range at its level; offsets are read from the module's own layout.
        unsafe {
            let layout = crate::llvm_sys::target::LLVMGetModuleDataLayout(self.raw);
            let mut ty = access.operand(0)?.ty();
            let mut offset = 0;
            for index in indices {
                match LLVMGetTypeKind(ty) {
                    LLVMTypeKind::LLVMStructTypeKind => {
                        offset += crate::llvm_sys::target::LLVMOffsetOfElement(layout, ty, index);
                        ty = LLVMStructGetTypeAtIndex(ty, index);
                    }
                    LLVMTypeKind::LLVMArrayTypeKind => {
                        ty = LLVMGetElementType(ty);
                        offset += self.size_bytes(ty) * u64::from(index);
                    }
                    _ => return None,
                }
            }
            i64::try_from(offset).ok()
        }
    }

    /// Byte offsets of the pointers in a struct or array; at most [`POINTERS_MAX`].
    #[must_use]
    pub fn pointer_offsets(self, ty: LLVMTypeRef) -> Vec<i64> {
        let mut found = Vec::new();
        self.add_pointer_offsets(ty, 0, &mut found);
        found
    }

    fn add_pointer_offsets(self, ty: LLVMTypeRef, offset: u64, found: &mut Vec<i64>) {
        if found.len() >= POINTERS_MAX {
            return;
        }
        // SAFETY: `ty` is a live type of the module's context; element accessors are called on the kinds that have
        // elements, with indices below their count.
        unsafe {
            match LLVMGetTypeKind(ty) {
                LLVMTypeKind::LLVMPointerTypeKind => found.extend(i64::try_from(offset)),
                LLVMTypeKind::LLVMArrayTypeKind => {
                    let element = LLVMGetElementType(ty);
                    for index in 0..LLVMGetArrayLength2(ty).min(POINTERS_MAX as u64) {
                        self.add_pointer_offsets(element, offset + index * self.size_bytes(element), found);
                    }
                }
                LLVMTypeKind::LLVMStructTypeKind => {
                    let layout = crate::llvm_sys::target::LLVMGetModuleDataLayout(self.raw);
                    for index in 0..LLVMCountStructElementTypes(ty) {
                        let inner = crate::llvm_sys::target::LLVMOffsetOfElement(layout, ty, index);
                        self.add_pointer_offsets(LLVMStructGetTypeAtIndex(ty, index), offset + inner, found);
                    }
                }
                _ => {}
            }
        }
    }

    /// Byte offset of a `getelementptr` with constant indices; `None` otherwise.
    #[must_use]
    pub fn constant_offset(self, gep: Value<'m>) -> Option<i64> {
        let mut offset = 0;
        // SAFETY: both handles are live; the C++ side checks that the value is a getelementptr at all.
        unsafe { eager_constant_offset(self.raw, gep.raw(), &raw mut offset) }.then_some(offset)
    }
}

/// Whether a value of this type can hold a pointer.
#[must_use]
pub fn type_holds_pointer(ty: LLVMTypeRef) -> bool {
    // SAFETY: `ty` is a live type of the module's context; element accessors are called only on kinds with elements.
    unsafe {
        match LLVMGetTypeKind(ty) {
            LLVMTypeKind::LLVMPointerTypeKind => true,
            LLVMTypeKind::LLVMArrayTypeKind => type_holds_pointer(LLVMGetElementType(ty)),
            LLVMTypeKind::LLVMStructTypeKind => (0..LLVMCountStructElementTypes(ty))
                .any(|i| type_holds_pointer(LLVMStructGetTypeAtIndex(ty, i))),
            _ => false,
        }
    }
}
