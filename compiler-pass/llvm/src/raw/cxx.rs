//! What LLVM offers in C++ only, through `helpers.cpp` and `remarks.cpp`.

use std::ffi::{CStr, c_char};

use super::{Block, Module, Value, c_string};
use crate::sys::prelude::*;

unsafe extern "C" {
    fn eager_append_constructor(module: LLVMModuleRef, function: LLVMValueRef);
    fn eager_append_used(module: LLVMModuleRef, global: LLVMValueRef);
    fn eager_constant_offset(module: LLVMModuleRef, gep: LLVMValueRef, offset: *mut i64) -> bool;
    fn eager_demangle(symbol: *const c_char) -> *mut c_char;
    fn eager_embed(module: LLVMModuleRef, bytes: *const u8, len: usize, section: *const c_char);
    fn eager_emit_error(module: LLVMModuleRef, message: *const c_char);
    fn eager_emit_remark(
        module: LLVMModuleRef,
        symbol: *const c_char,
        file: *const c_char,
        line: u32,
        missed: bool,
        name: *const c_char,
        message: *const c_char,
    );
    fn eager_emit_warning(module: LLVMModuleRef, message: *const c_char);
    fn eager_expand_constants(global: LLVMValueRef);
    fn eager_inline_call(call: LLVMValueRef) -> bool;
    fn eager_invoke(call: LLVMValueRef, unwind: LLVMBasicBlockRef);
    fn eager_is_library_function(module: LLVMModuleRef, name: *const c_char) -> bool;
    fn eager_split_edge(from: LLVMBasicBlockRef, to: LLVMBasicBlockRef) -> LLVMBasicBlockRef;
    fn free(memory: *mut std::ffi::c_void);
}

/// An optimisation remark about a function.
#[derive(Debug, Clone, Copy)]
pub struct Remark<'a> {
    /// The function's symbol; nothing is said of one without a body.
    pub symbol: &'a str,
    pub file: &'a str,
    /// 0: the function's own place.
    pub line: u32,
    /// Something was not done.
    pub missed: bool,
    pub name: &'a str,
    pub text: &'a str,
}

impl Module<'_> {
    /// Makes the program run `function` before `main`.
    pub fn append_constructor(&self, function: Value<'_>) {
        assert!(function.is_function(), "constructors are functions");
        // SAFETY: a live module, and a live function (asserted), which LLVM casts it to.
        unsafe { eager_append_constructor(self.raw(), function.raw) };
    }

    /// Keeps a function or variable although nothing refers to it.
    pub fn append_used(&self, global: Value<'_>) {
        assert!(global.is_global(), "only globals are listed");
        // SAFETY: a live module, and a live global (asserted), which LLVM casts it to.
        unsafe { eager_append_used(self.raw(), global.raw) };
    }

    /// Byte offset of a `getelementptr` with constant indices; `None` for other values.
    #[must_use]
    pub fn constant_offset(&self, gep: Value<'_>) -> Option<i64> {
        let mut offset = 0;
        // SAFETY: a live module and a live value, whose kind the function tests; it writes the offset before it answers
        // true.
        unsafe { eager_constant_offset(self.raw(), gep.raw, &raw mut offset) }.then_some(offset)
    }

    /// Puts bytes into a section of the object that is left out of executables.
    pub fn embed(&self, bytes: &[u8], section: &str) {
        let section = c_string(section);
        // SAFETY: a live module, which copies the bytes and the name.
        unsafe { eager_embed(self.raw(), bytes.as_ptr(), bytes.len(), section.as_ptr()) };
    }

    /// Reports an error through the context, so that the compile fails.
    pub fn emit_error(&self, message: &CStr) {
        // SAFETY: a live module, and a text that is copied into the diagnostic before the call returns.
        unsafe { eager_emit_error(self.raw(), message.as_ptr()) };
    }

    /// Reports a warning through the context.
    pub fn emit_warning(&self, message: &CStr) {
        // SAFETY: a live module, and a text that is printed before the call returns.
        unsafe { eager_emit_warning(self.raw(), message.as_ptr()) };
    }

    /// Reports a remark through the context, if remarks are asked for. A text with a NUL counts as empty.
    pub fn emit_remark(&self, remark: Remark<'_>) {
        let text = |text: &str| std::ffi::CString::new(text).unwrap_or_default();
        let [symbol, file] = [remark.symbol, remark.file].map(text);
        let [name, message] = [remark.name, remark.text].map(text);
        // SAFETY: a live module, and texts that outlive the call, which copies what it keeps; the function looks the
        // symbol up and does nothing without a body.
        unsafe {
            eager_emit_remark(
                self.raw(),
                symbol.as_ptr(),
                file.as_ptr(),
                remark.line,
                remark.missed,
                name.as_ptr(),
                message.as_ptr(),
            );
        }
    }

    /// Whether LLVM knows a function of this name as one of the C library of the module's target.
    #[must_use]
    pub fn is_library_function(&self, name: &str) -> bool {
        let Ok(name) = std::ffi::CString::new(name) else { return false };
        // SAFETY: a live module, and a NUL-terminated name that outlives the call.
        unsafe { eager_is_library_function(self.raw(), name.as_ptr()) }
    }
}

impl<'m> Value<'m> {
    /// Turns constants in functions that are computed from this global into instructions.
    pub fn expand_constants(self) {
        assert!(self.is_global(), "a global");
        // SAFETY: a live global (asserted), which is a constant as the function casts it to; it only adds instructions.
        unsafe { eager_expand_constants(self.raw) };
    }

    /// Inlines a call; returns whether LLVM could. The call's life ends if it could.
    #[must_use]
    pub fn inline_call(self) -> bool {
        assert!(self.is_call_site() && self.place().is_some(), "a call in a block");
        // SAFETY: a live call in a block (asserted); the caller uses no handle to it any more (trap of this crate).
        unsafe { eager_inline_call(self.raw) }
    }

    /// Makes a call one that goes on at `unwind` if an exception leaves it. The call's life ends; what follows it is in a
    /// new block.
    pub fn make_invoke(self, unwind: Block<'m>) {
        assert!(self.is_plain_call() && self.place().is_some(), "a plain call in a block");
        // SAFETY: a live `call` instruction in a block (asserted), as the function casts it to, and a live block; the
        // caller uses no handle to the call any more (trap of this crate).
        unsafe { eager_invoke(self.raw, unwind.raw) };
    }
}

impl<'m> Block<'m> {
    /// Puts a new block on the edge to `to`; `None` for an edge that LLVM cannot split.
    #[must_use]
    pub fn split_edge(self, to: Block<'m>) -> Option<Block<'m>> {
        assert!(self.successors().contains(&to), "an edge between the blocks");
        // SAFETY: two live blocks with an edge between them (asserted); the function answers null if it cannot split it.
        unsafe { Block::from_raw(eager_split_edge(self.raw, to.raw)) }
    }
}

/// A C++ symbol as written in the source; any other symbol unchanged.
#[must_use]
pub fn demangled(symbol: &str) -> String {
    let Ok(name) = std::ffi::CString::new(symbol) else { return symbol.to_owned() };
    // SAFETY: the argument is NUL-terminated; the result is null, or a fresh NUL-terminated text from `malloc`, which is
    // copied before it is freed.
    unsafe {
        let readable = eager_demangle(name.as_ptr());
        if readable.is_null() {
            return symbol.to_owned();
        }
        let owned = CStr::from_ptr(readable).to_string_lossy().into_owned();
        free(readable.cast());
        owned
    }
}
