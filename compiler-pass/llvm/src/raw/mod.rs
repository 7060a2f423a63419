//! The only `unsafe` code of this crate: the handles' pointers, their conversion from and to inkwell's, and calls of
//! LLVM's C interface for what inkwell lacks.
//!
//! inkwell's enumerations of values and types panic for tokens, metadata and labels, which coroutines, notes of places
//! and branches need; a handle here is of any kind. Trap: a conversion to a type of inkwell must test the kind, because
//! inkwell's constructors do not.

mod cxx;
mod instruction;
mod metadata;
mod module;
mod moved;
mod ty;
mod value;

use std::ffi::{CStr, CString, c_char};
use std::marker::PhantomData;

use inkwell::basic_block::BasicBlock;
use inkwell::types::{AnyType, BasicTypeEnum, FunctionType};
use inkwell::values::{
    AnyValue, BasicValueEnum, CallSiteValue, FunctionValue, GlobalValue, InstructionValue, PhiValue,
};

use crate::sys::LLVMTypeKind;
use crate::sys::core::*;
use crate::sys::prelude::*;

pub use cxx::{Remark, demangled};
pub use instruction::inline_assembly;
pub(crate) use instruction::{build_call, build_freeze, build_gep};
pub(crate) use metadata::take_location;
pub(crate) use module::RawContext;
pub use module::{Module, run_passes_on};
pub(crate) use moved::{copy_to, move_to, without_terminator};
pub use value::{constant_address_space_cast, constant_at};

/// Any value: function, variable, parameter, constant, instruction, or a metadata node as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Value<'m> {
    raw: LLVMValueRef,
    lifetime: PhantomData<&'m ()>,
}

/// A type; two handles of one type are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Type<'m> {
    raw: LLVMTypeRef,
    lifetime: PhantomData<&'m ()>,
}

/// A basic block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block<'m> {
    raw: LLVMBasicBlockRef,
    lifetime: PhantomData<&'m ()>,
}

impl<'m> Value<'m> {
    /// Wraps a pointer of LLVM's; `None` for null, which LLVM returns where there is no such value.
    ///
    /// # Safety
    /// `raw` is null or a live value that belongs to the context or module borrowed for `'m`.
    unsafe fn from_raw(raw: LLVMValueRef) -> Option<Self> {
        (!raw.is_null()).then_some(Value { raw, lifetime: PhantomData })
    }

    /// Wraps a value that LLVM has just made or that it has for certain.
    ///
    /// # Safety
    /// As for [`Value::from_raw`].
    #[track_caller]
    unsafe fn certain(raw: LLVMValueRef) -> Self {
        // SAFETY: this function's contract is that of `from_raw`.
        unsafe { Self::from_raw(raw) }.expect("LLVM returned no value where it has one")
    }

    pub(crate) fn of(value: impl AnyValue<'m>) -> Self {
        Value { raw: value.as_value_ref(), lifetime: PhantomData }
    }

    pub(crate) fn as_instruction(self) -> Option<InstructionValue<'m>> {
        // SAFETY: a live value, and an instruction by the test, which is all that `new` asks for.
        self.is_instruction().then(|| unsafe { InstructionValue::new(self.raw) })
    }

    pub(crate) fn as_function(self) -> Option<FunctionValue<'m>> {
        // SAFETY: a live value; `new` itself answers `None` for one that is not a function.
        unsafe { FunctionValue::new(self.raw) }
    }

    /// A function, variable or alias as what all of them have: linkage, section, visibility.
    pub(crate) fn as_global(self) -> Option<GlobalValue<'m>> {
        // SAFETY: a live value, and a global by the test. inkwell's type stands for functions too; callers use of it
        // what every global has, or come through `as_variable`.
        self.is_global().then(|| unsafe { GlobalValue::new(self.raw) })
    }

    pub(crate) fn as_variable(self) -> Option<GlobalValue<'m>> {
        // SAFETY: a live value, and a global variable by the test.
        self.is_global_variable().then(|| unsafe { GlobalValue::new(self.raw) })
    }

    pub(crate) fn as_call(self) -> Option<CallSiteValue<'m>> {
        // SAFETY: a live value, and a call by the test.
        self.is_call_site().then(|| unsafe { CallSiteValue::new(self.raw) })
    }

    pub(crate) fn as_phi(self) -> Option<PhiValue<'m>> {
        let is_phi = self.is_instruction() && self.opcode() == Some(crate::Opcode::LLVMPHI);
        // SAFETY: a live value, and a PHI by the test.
        is_phi.then(|| unsafe { PhiValue::new(self.raw) })
    }

    /// The value as one of inkwell's; `None` for tokens, metadata, labels and calls without a result, which inkwell
    /// cannot hold.
    pub(crate) fn as_basic(self) -> Option<BasicValueEnum<'m>> {
        // SAFETY: a live value, whose type is one that the constructor knows (tested).
        self.ty().is_basic().then(|| unsafe { BasicValueEnum::new(self.raw) })
    }
}

impl<'m> Type<'m> {
    /// Wraps a type that LLVM has for certain.
    ///
    /// # Safety
    /// `raw` is a type of the context borrowed for `'m`, or null, for which this panics. A context keeps its types.
    #[track_caller]
    unsafe fn from_raw(raw: LLVMTypeRef) -> Self {
        assert!(!raw.is_null(), "LLVM returned no type where it has one");
        Type { raw, lifetime: PhantomData }
    }

    pub(crate) fn of(ty: impl AnyType<'m>) -> Self {
        Type { raw: ty.as_type_ref(), lifetime: PhantomData }
    }

    #[must_use]
    pub fn kind(self) -> LLVMTypeKind {
        // SAFETY: the type is alive (it is borrowed), and every type has a kind.
        unsafe { LLVMGetTypeKind(self.raw) }
    }

    /// Whether inkwell can hold values of this type.
    pub(crate) fn is_basic(self) -> bool {
        use LLVMTypeKind::*;
        !matches!(
            self.kind(),
            LLVMVoidTypeKind
                | LLVMLabelTypeKind
                | LLVMFunctionTypeKind
                | LLVMMetadataTypeKind
                | LLVMTokenTypeKind
                | LLVMX86_AMXTypeKind
                | LLVMTargetExtTypeKind
        )
    }

    pub(crate) fn as_basic(self) -> Option<BasicTypeEnum<'m>> {
        // SAFETY: a live type, of a kind that the constructor knows (tested).
        self.is_basic().then(|| unsafe { BasicTypeEnum::new(self.raw) })
    }

    pub(crate) fn as_function(self) -> Option<FunctionType<'m>> {
        // SAFETY: a live type, and a function type by the test.
        (self.kind() == LLVMTypeKind::LLVMFunctionTypeKind).then(|| unsafe { FunctionType::new(self.raw) })
    }
}

impl<'m> Block<'m> {
    pub(crate) fn of(block: BasicBlock<'m>) -> Self {
        Block { raw: block.as_mut_ptr(), lifetime: PhantomData }
    }

    pub(crate) fn ink(self) -> BasicBlock<'m> {
        // SAFETY: a live block; `new` answers `None` only for null and for values that are not blocks.
        unsafe { BasicBlock::new(self.raw) }.expect("a block")
    }
}

/// Length of a list that is handed to LLVM.
fn count_of<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).expect("LLVM's lists have fewer than 2^32 elements")
}

fn c_string(text: &str) -> CString {
    CString::new(text).expect("names and passes have no NUL")
}

/// Copies a text that LLVM allocated, and frees it.
///
/// # Safety
/// `message` is null or a text that the caller owns and that `LLVMDisposeMessage` frees.
unsafe fn take_message(message: *mut c_char) -> String {
    if message.is_null() {
        return String::new();
    }
    // SAFETY: not null (tested), NUL-terminated as all of LLVM's messages are, and not freed before the next line.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    // SAFETY: the caller owns the text, and nothing uses it after this.
    unsafe { LLVMDisposeMessage(message) };
    text
}

/// Copies bytes that LLVM describes by start and length.
///
/// # Safety
/// `start` is null, or `length` bytes from it are readable during the call.
unsafe fn bytes_at(start: *const c_char, length: usize) -> Vec<u8> {
    if start.is_null() {
        return Vec::new();
    }
    // SAFETY: not null (tested), and readable for `length` bytes by this function's contract; copied at once.
    unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) }.to_vec()
}

/// Copies a text that LLVM describes by start and length.
///
/// # Safety
/// As for [`bytes_at`].
unsafe fn text_at(start: *const c_char, length: usize) -> String {
    // SAFETY: this function's contract is that of `bytes_at`.
    String::from_utf8_lossy(&unsafe { bytes_at(start, length) }).into_owned()
}

/// Iterates over an intrusive list of LLVM's, from its first element to the null at its end.
fn walk<T>(first: *mut T, next: impl Fn(*mut T) -> *mut T) -> impl Iterator<Item = *mut T> {
    let some = |at: *mut T| (!at.is_null()).then_some(at);
    std::iter::successors(some(first), move |&at| some(next(at)))
}
