//! Handles to LLVM's objects, so that the rest of the crate reads as compiler code and not as foreign calls.
//!
//! Trap: handles are plain pointers without lifetimes, as in LLVM itself. A handle is valid until its object is erased
//! or its [`Context`] dropped; none may escape from `convert`, which owns the only context, and values must be looked
//! up again after every pass run.
mod builder;
mod context;
mod instruction;
mod machine;
mod module;
mod value;

use std::ffi::{CStr, CString, c_char};
use std::fmt::Write;

use llvm_sys::core::{LLVMDisposeMessage, LLVMGetEnumAttributeKindForName};
use llvm_sys::prelude::*;
pub(crate) use llvm_sys::{LLVMIntPredicate, LLVMLinkage, LLVMOpcode as Opcode, LLVMTypeKind as TypeKind};

pub(crate) use builder::{Builder, Split};
pub(crate) use context::Context;
pub(crate) use machine::Machine;
pub(crate) use module::Module;
pub(crate) use value::{constant_address_space_cast, constant_at};

/// Calls LLVM's C interface.
macro_rules! llvm {
    ($call:expr) => {{
        // SAFETY: every handle reaching a call is live (see the module header), on the one thread that owns the
        // context, and of the kind that the function documents: the wrappers take typed handles and check opcodes
        // before they call functions that are valid for some instructions only.
        unsafe { $call }
    }};
}

use llvm;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Value(LLVMValueRef);
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Type(LLVMTypeRef);
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Block(LLVMBasicBlockRef);
/// Copies LLVM's string and frees it.
fn take_message(message: *mut c_char) -> String {
    if message.is_null() {
        return String::new();
    }
    // SAFETY: LLVM returns NUL-terminated strings here, which the caller must dispose of.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    llvm!(LLVMDisposeMessage(message));
    text
}

fn bytes_at(start: *const c_char, length: usize) -> String {
    if start.is_null() {
        return String::new();
    }
    // SAFETY: LLVM names are valid for the length returned with them, until the object changes; copied at once.
    let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) };
    String::from_utf8_lossy(bytes).into_owned()
}

fn name_of_length(get: impl FnOnce(*mut usize) -> *const c_char) -> String {
    let mut length = 0;
    let start = get(&mut length);
    bytes_at(start, length)
}

fn c_string(text: &str) -> CString {
    CString::new(text).expect("names and passes have no NUL")
}

/// Escapes `name` for a quoted LLVM identifier or string: bytes outside plain ASCII become `\xx`.
pub(crate) fn escaped(name: &str) -> String {
    name.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_graphic() && byte != b'"' && byte != b'\\' {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "\\{byte:02X}");
        }
        text
    })
}

/// Iterates over an intrusive list of LLVM's, from its first element to the null at its end.
fn walk<T>(first: *mut T, next: impl Fn(*mut T) -> *mut T) -> impl Iterator<Item = *mut T> {
    let some = |at: *mut T| (!at.is_null()).then_some(at);
    std::iter::successors(some(first), move |&at| some(next(at)))
}

fn attribute_kind(name: &str) -> u32 {
    llvm!(LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()))
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn names_survive_quoting() {
        assert_eq!(escaped("_Z1kPf"), "_Z1kPf");
        assert_eq!(escaped("a\"b\\c\u{e9}"), "a\\22b\\5Cc\\C3\\A9");
    }
}
