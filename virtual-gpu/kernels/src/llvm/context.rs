//! The LLVM context that owns all modules, and its diagnostics.
//!
//! Trap: without the handler installed here, LLVM prints diagnostics, and ends the process (clang!) at the first error.

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::rc::Rc;

use llvm_sys::bit_reader::LLVMParseBitcodeInContext2;
use llvm_sys::core::*;
#[cfg(not(feature = "llvm22"))]
use llvm_sys::ir_reader::LLVMParseIRInContext;
#[cfg(feature = "llvm22")]
use llvm_sys::ir_reader::LLVMParseIRInContext2;
use llvm_sys::prelude::*;

use super::{Block, Builder, Module, Type, Value, c_string, llvm, take_message};

/// An LLVM context; its diagnostics are collected instead of printed (or, for errors, exiting).
pub(crate) struct Context {
    raw: LLVMContextRef,
    messages: Rc<RefCell<Vec<String>>>,
}

extern "C" fn collect(info: LLVMDiagnosticInfoRef, messages: *mut c_void) {
    // SAFETY: `Context::new` registered the cell that its `messages` keep alive as long as the context, and LLVM calls
    // back only from inside a call on this context, on the thread that owns both.
    let messages = unsafe { &*messages.cast::<RefCell<Vec<String>>>() };
    messages.borrow_mut().push(take_message(llvm!(LLVMGetDiagInfoDescription(info))));
}

impl Context {
    pub fn new() -> Self {
        let raw = llvm!(LLVMContextCreate());
        let messages: Rc<RefCell<Vec<String>>> = Rc::default();
        let sink = Rc::as_ptr(&messages).cast_mut().cast::<c_void>();
        llvm!(LLVMContextSetDiagnosticHandler(raw, Some(collect), sink));
        Context { raw, messages }
    }

    /// All diagnostics so far.
    pub fn messages(&self) -> String {
        self.messages.borrow().join("; ")
    }

    fn buffer(contents: &[u8]) -> LLVMMemoryBufferRef {
        llvm!(LLVMCreateMemoryBufferWithMemoryRangeCopy(
            contents.as_ptr().cast(),
            contents.len(),
            c"".as_ptr()
        ))
    }

    pub fn parse_bitcode(&self, bitcode: &[u8]) -> Result<Module, String> {
        let buffer = Self::buffer(bitcode);
        let mut module = null_mut();
        let failed = llvm!(LLVMParseBitcodeInContext2(self.raw, buffer, &mut module));
        llvm!(LLVMDisposeMemoryBuffer(buffer));
        if failed == 0 { Ok(Module { raw: module }) } else { Err(self.messages()) }
    }

    pub fn parse_text(&self, text: &str) -> Result<Module, String> {
        let buffer = Self::buffer(text.as_bytes());
        let (mut module, mut message) = (null_mut(), null_mut());
        #[cfg(feature = "llvm22")]
        let failed = {
            let failed = llvm!(LLVMParseIRInContext2(self.raw, buffer, &mut module, &mut message));
            llvm!(LLVMDisposeMemoryBuffer(buffer));
            failed
        };
        // The older function takes ownership of the buffer.
        #[cfg(not(feature = "llvm22"))]
        let failed = llvm!(LLVMParseIRInContext(self.raw, buffer, &mut module, &mut message));
        if failed == 0 { Ok(Module { raw: module }) } else { Err(take_message(message)) }
    }

    pub fn metadata_kind(&self, name: &str) -> u32 {
        llvm!(LLVMGetMDKindIDInContext(self.raw, name.as_ptr().cast(), name.len() as u32))
    }

    /// Creates a metadata node that holds a text.
    pub fn text_node(&self, text: &str) -> Value {
        let mut part = llvm!(LLVMMDStringInContext2(self.raw, text.as_ptr().cast(), text.len()));
        let node = llvm!(LLVMMDNodeInContext2(self.raw, &mut part, 1));
        Value(llvm!(LLVMMetadataAsValue(self.raw, node)))
    }

    /// Creates a constant NUL-terminated text.
    pub fn text(&self, text: &str) -> Value {
        let (start, length) = (text.as_ptr().cast(), text.len());
        #[cfg(feature = "llvm22")]
        let constant = llvm!(LLVMConstStringInContext2(self.raw, start, length, 0));
        #[cfg(not(feature = "llvm22"))]
        let constant = llvm!(LLVMConstStringInContext(self.raw, start, length as u32, 0));
        Value(constant)
    }

    /// Creates a constant structure without gaps.
    pub fn packed(&self, parts: &[Value]) -> Value {
        let mut parts: Vec<LLVMValueRef> = parts.iter().map(|part| part.0).collect();
        Value(llvm!(LLVMConstStructInContext(self.raw, parts.as_mut_ptr(), parts.len() as u32, 1)))
    }

    pub fn int_type(&self, bits: u32) -> Type {
        Type(llvm!(LLVMIntTypeInContext(self.raw, bits)))
    }

    pub fn void_type(&self) -> Type {
        Type(llvm!(LLVMVoidTypeInContext(self.raw)))
    }

    pub fn ptr_type(&self, address_space: u32) -> Type {
        Type(llvm!(LLVMPointerTypeInContext(self.raw, address_space)))
    }

    pub fn token_none(&self) -> Value {
        Value(llvm!(LLVMConstNull(LLVMTokenTypeInContext(self.raw))))
    }

    pub fn append_block(&self, function: Value, name: &str) -> Block {
        Block(llvm!(LLVMAppendBasicBlockInContext(self.raw, function.0, c_string(name).as_ptr())))
    }

    pub fn builder(&self) -> Builder {
        Builder { raw: llvm!(LLVMCreateBuilderInContext(self.raw)), context: self.raw }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        llvm!(LLVMContextDispose(self.raw));
    }
}
