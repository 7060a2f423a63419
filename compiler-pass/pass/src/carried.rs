//! Data that a module carries besides its code: named metadata, assembly, sections, constant bytes.
//!
//! Linking modules concatenates named metadata of the same name, so a linked module has one entry per source.

use std::ffi::CStr;

use crate::llvm_sys::core::*;

use crate::ir::{Module, Value, text};

impl Module<'_> {
    /// Returns the strings in the module's metadata of this name.
    #[must_use]
    pub fn named_metadata(self, name: &CStr) -> Vec<String> {
        // SAFETY: the module is live, `rows` has room for as many rows as LLVM says there are, and a row's operands are
        // read only if they are strings, which the context owns.
        unsafe {
            let count = LLVMGetNamedMetadataNumOperands(self.raw(), name.as_ptr());
            let mut rows = vec![std::ptr::null_mut(); count as usize];
            LLVMGetNamedMetadataOperands(self.raw(), name.as_ptr(), rows.as_mut_ptr());
            let mut found = Vec::new();
            for row in rows {
                let mut parts = vec![std::ptr::null_mut(); LLVMGetMDNodeNumOperands(row) as usize];
                LLVMGetMDNodeOperands(row, parts.as_mut_ptr());
                for part in
                    parts.into_iter().filter(|part| !part.is_null() && !LLVMIsAMDString(*part).is_null())
                {
                    let mut len = 0;
                    let bytes = LLVMGetMDString(part, &raw mut len);
                    found.push(text(bytes, len as usize));
                }
            }
            found
        }
    }

    /// Adds a string to the module's metadata of this name.
    pub fn add_named_metadata(self, name: &CStr, value: &str) {
        // SAFETY: the module is live, and the string and the node are made in its context; both are copied or interned
        // before the calls return.
        unsafe {
            let string = LLVMMDStringInContext2(self.context(), value.as_ptr().cast(), value.len());
            let mut parts = [string];
            let node = LLVMMDNodeInContext2(self.context(), parts.as_mut_ptr(), parts.len());
            LLVMAddNamedMetadataOperand(self.raw(), name.as_ptr(), LLVMMetadataAsValue(self.context(), node));
        }
    }

    /// Returns the module-level inline assembly.
    #[must_use]
    pub fn inline_assembly(self) -> String {
        let mut len = 0;
        // SAFETY: the module is live; `len` receives the length of the text that it owns.
        let bytes = unsafe { LLVMGetModuleInlineAsm(self.raw(), &raw mut len) };
        text(bytes, len)
    }
}

impl Value<'_> {
    /// Returns the bytes of a global whose initializer is a constant byte array; `None` for other values.
    #[must_use]
    pub fn constant_bytes(self) -> Option<Vec<u8>> {
        // SAFETY: each step is taken only if the kind test before it holds; the bytes belong to the module.
        unsafe {
            if LLVMIsAGlobalVariable(self.raw()).is_null() {
                return None;
            }
            let initializer = LLVMGetInitializer(self.raw());
            if initializer.is_null() || LLVMIsConstantString(initializer) == 0 {
                return None;
            }
            let mut len = 0;
            let bytes = LLVMGetAsString(initializer, &raw mut len);
            Some(std::slice::from_raw_parts(bytes.cast::<u8>(), len).to_vec())
        }
    }

    /// Section that a global is placed in; `None` if none is set.
    #[must_use]
    pub fn section(self) -> Option<String> {
        if !self.is_global() {
            return None;
        }
        // SAFETY: the value is a global (tested above); its section's name is NUL-terminated and owned by the module.
        let section = unsafe { LLVMGetSection(self.raw()) };
        // SAFETY: not null (tested), and NUL-terminated as above.
        (!section.is_null()).then(|| unsafe { CStr::from_ptr(section) }.to_string_lossy().into_owned())
    }
}
