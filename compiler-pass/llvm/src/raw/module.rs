//! Modules and contexts: who owns them, parsing, linking, passes.
//!
//! Not inkwell's here: its `link_in_module` leaves a diagnostic handler behind that writes to a dead stack frame, and
//! would replace clang's; its `run_passes` demands a target machine, and frees the error's message by the wrong
//! function; its parser of text leaks the buffer under LLVM 22. Trap: clang owns the module that it hands to the pass,
//! so that one is lent to a function ([`Module::lend`]) and never dropped.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;

use inkwell::context::{AsContextRef, ContextRef};
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module as InkModule;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::TargetData;

use super::{Type, Value, c_string, take_message};
use crate::machine::Machine;
use crate::sys::bit_reader::LLVMParseBitcodeInContext2;
use crate::sys::core::*;
use crate::sys::error::{LLVMDisposeErrorMessage, LLVMErrorRef, LLVMGetErrorMessage};
#[cfg(not(feature = "llvm22"))]
use crate::sys::ir_reader::LLVMParseIRInContext;
#[cfg(feature = "llvm22")]
use crate::sys::ir_reader::LLVMParseIRInContext2;
use crate::sys::linker::LLVMLinkModules2;
use crate::sys::prelude::*;
use crate::sys::target::LLVMGetModuleDataLayout;
use crate::sys::target_machine::LLVMTargetMachineRef;
use crate::sys::transforms::pass_builder::LLVMRunPasses;
#[cfg(feature = "llvm22")]
use crate::sys::transforms::pass_builder::LLVMRunPassesOnFunction;
use crate::{Context, OwnContext};

unsafe extern "C" {
    fn eager_optimise(
        module: LLVMModuleRef,
        passes: *const c_char,
        machine: LLVMTargetMachineRef,
        slp: bool,
    ) -> LLVMErrorRef;
}

/// A module, which is disposed of when dropped, unless it is lent.
#[derive(Debug)]
pub struct Module<'c> {
    raw: LLVMModuleRef,
    lifetime: PhantomData<&'c ()>,
}

impl<'c> Module<'c> {
    /// Runs a function on a module that belongs to somebody else.
    ///
    /// # Safety
    /// `raw` is a pointer to a live `llvm::Module` that no other code uses during the call.
    pub unsafe fn lend<R>(raw: *mut c_void, run: impl FnOnce(&Module<'_>) -> R) -> R {
        assert!(!raw.is_null(), "no module");
        let module = ManuallyDrop::new(Module { raw: raw.cast(), lifetime: PhantomData });
        run(&module)
    }

    /// Wraps a module that LLVM has just made.
    ///
    /// # Safety
    /// `raw` is a live module of the context borrowed for `'c`, and nobody else disposes of it.
    unsafe fn own(raw: LLVMModuleRef) -> Self {
        assert!(!raw.is_null(), "LLVM made no module");
        Module { raw, lifetime: PhantomData }
    }

    pub(super) fn raw(&self) -> LLVMModuleRef {
        self.raw
    }

    /// inkwell's view of the module; it must not be dropped as a module.
    pub(crate) fn ink(&self) -> ManuallyDrop<InkModule<'_>> {
        // SAFETY: a live module, borrowed as long as the view; it is not disposed of through the view.
        ManuallyDrop::new(unsafe { InkModule::new(self.raw) })
    }

    /// The module's own layout of types; it must not be dropped as one of its own.
    pub(crate) fn layout(&self) -> ManuallyDrop<TargetData> {
        // SAFETY: a live module owns the layout, and callers drop the view before they change the module.
        ManuallyDrop::new(unsafe { TargetData::new(LLVMGetModuleDataLayout(self.raw)) })
    }

    #[must_use]
    pub fn context(&self) -> Context<'_> {
        // SAFETY: a live module, whose context outlives it, is borrowed as long as the handle.
        unsafe { Context::from_raw(LLVMGetModuleContext(self.raw), None) }
    }

    /// Target triple, as the module spells it.
    #[must_use]
    pub fn triple(&self) -> String {
        // SAFETY: a live module owns the NUL-terminated text, which is copied at once. inkwell copies it for its
        // type of triples first.
        unsafe { CStr::from_ptr(LLVMGetTarget(self.raw)) }.to_string_lossy().into_owned()
    }

    pub(crate) fn set_triple(&self, triple: &CStr) {
        // SAFETY: a live module, which copies the text.
        unsafe { LLVMSetTarget(self.raw, triple.as_ptr()) };
    }

    /// Copies target and data layout of `other`, so that linking into it causes no warning.
    pub fn set_layout_of(&self, other: &Module<'_>) {
        // SAFETY: two live modules; both texts belong to `other` and are copied by the calls.
        unsafe {
            LLVMSetTarget(self.raw, LLVMGetTarget(other.raw));
            LLVMSetDataLayout(self.raw, LLVMGetDataLayoutStr(other.raw));
        }
    }

    /// Module-level assembly.
    #[must_use]
    pub fn inline_assembly(&self) -> String {
        let mut length = 0;
        // SAFETY: a live module owns the text and says how long it is; copied at once.
        unsafe {
            let start = LLVMGetModuleInlineAsm(self.raw, &raw mut length);
            super::text_at(start, length)
        }
    }

    /// Adds a function; LLVM renames it if the name is taken.
    #[must_use]
    pub fn add_function(&self, name: &str, ty: Type<'_>) -> Value<'_> {
        assert!(ty.as_function().is_some(), "a function has a function type");
        // SAFETY: a live module, a function type (asserted), and a name that is copied. inkwell's call would do, but its
        // lifetimes tie the type to the module's context, which a borrowed module does not name.
        unsafe { Value::certain(LLVMAddFunction(self.raw, c_string(name).as_ptr(), ty.raw)) }
    }

    /// Adds a variable in an address space; LLVM renames it if the name is taken.
    #[must_use]
    pub fn add_global_in(&self, name: &str, ty: Type<'_>, address_space: u32) -> Value<'_> {
        assert!(ty.is_basic(), "a variable has the type of a value in memory");
        let name = c_string(name);
        // SAFETY: as for a function; the type is one of values in memory (asserted).
        unsafe { Value::certain(LLVMAddGlobalInAddressSpace(self.raw, ty.raw, name.as_ptr(), address_space)) }
    }

    /// Declares an intrinsic with the signature of this LLVM: those of coroutine intrinsics change between versions.
    #[must_use]
    pub fn intrinsic(&self, name: &str, overloads: &[Type<'_>]) -> Value<'_> {
        let mut overloads: Vec<LLVMTypeRef> = overloads.iter().map(|ty| ty.raw).collect();
        // SAFETY: a live module and live types; the name is given with its length, and 0 is the answer for one that LLVM
        // does not know (asserted). inkwell's overloads are types of values only, and tokens are none.
        unsafe {
            let id = LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len());
            assert!(id != 0, "LLVM has no intrinsic {name}");
            let (start, count) = (overloads.as_mut_ptr(), overloads.len());
            Value::certain(LLVMGetIntrinsicDeclaration(self.raw, id, start, count))
        }
    }

    /// Moves everything from `other` into this module.
    ///
    /// # Errors
    /// If both define a name; LLVM says which to the context's handler.
    #[expect(clippy::result_unit_err, reason = "the context's messages have the reason")]
    pub fn link(&self, other: Module<'_>) -> Result<(), ()> {
        let other = ManuallyDrop::new(other);
        // SAFETY: two live modules of one context; the linker disposes of the other one in any case, so it is not
        // dropped.
        if unsafe { LLVMLinkModules2(self.raw, other.raw) } == 0 { Ok(()) } else { Err(()) }
    }

    /// A copy in the same context.
    #[must_use]
    pub fn copy(&self) -> Module<'_> {
        // SAFETY: a live module; the copy belongs to the caller. inkwell verifies before it copies, which takes time.
        unsafe { Module::own(LLVMCloneModule(self.raw)) }
    }

    /// Runs passes; `machine`: the CPU that they may ask about.
    ///
    /// # Errors
    /// LLVM's message.
    pub fn run_passes_with(&self, passes: &str, machine: Option<&Machine>) -> Result<(), String> {
        let options = PassBuilderOptions::create();
        let machine = machine.map_or(null_mut(), |machine| machine.ink().as_mut_ptr());
        // SAFETY: a live module, passes by name, null or a live machine, and live options; the error is read once.
        unsafe { outcome(LLVMRunPasses(self.raw, c_string(passes).as_ptr(), machine, options.as_mut_ptr())) }
    }

    /// Runs passes of which one may be the loop vectoriser, with corrections in front of it (`optimise.cpp`); `slp`: vectorise
    /// straight code.
    ///
    /// # Errors
    /// LLVM's message.
    pub fn optimise(&self, passes: &str, machine: &Machine, slp: bool) -> Result<(), String> {
        let (passes, machine) = (c_string(passes), machine.ink().as_mut_ptr());
        // SAFETY: a live module, passes by name, and a live machine; the error is read once.
        unsafe { outcome(eager_optimise(self.raw, passes.as_ptr(), machine, slp)) }
    }
}

/// Runs passes on one function.
///
/// # Errors
/// LLVM's message.
pub fn run_passes_on(function: Value<'_>, passes: &str) -> Result<(), String> {
    assert!(function.is_function() && !function.is_declaration(), "passes need a body");
    let (passes, options) = (c_string(passes), PassBuilderOptions::create());
    // SAFETY: a live function with a body (asserted), passes by name, live options, and no machine, which is allowed; the
    // error is read once. inkwell demands a machine, and has no such call under LLVM 19.
    unsafe {
        outcome(LLVMRunPassesOnFunction(function.raw, passes.as_ptr(), null_mut(), options.as_mut_ptr()))
    }
}

/// # Safety
/// `error` is null, or an error that the caller owns and that is not used after this.
unsafe fn outcome(error: LLVMErrorRef) -> Result<(), String> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: an error that the caller owns (this function's contract); asking for the message consumes it, and the
    // message is NUL-terminated and disposed of after it is copied.
    unsafe {
        let message = LLVMGetErrorMessage(error);
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        LLVMDisposeErrorMessage(message);
        Err(text)
    }
}

impl Drop for Module<'_> {
    fn drop(&mut self) {
        // SAFETY: the module belongs to this object (`own`), and handles to its parts borrow it, so none is left.
        unsafe { LLVMDisposeModule(self.raw) };
    }
}

// LLVM 19 lacks this function; `llvm19.cpp` provides it.
#[cfg(not(feature = "llvm22"))]
unsafe extern "C" {
    fn LLVMRunPassesOnFunction(
        function: LLVMValueRef,
        passes: *const std::ffi::c_char,
        machine: crate::sys::target_machine::LLVMTargetMachineRef,
        options: crate::sys::transforms::pass_builder::LLVMPassBuilderOptionsRef,
    ) -> LLVMErrorRef;
}

/// A context as LLVM's pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawContext<'m> {
    raw: LLVMContextRef,
    lifetime: PhantomData<&'m ()>,
}

impl<'m> RawContext<'m> {
    pub(crate) fn ink(self) -> ContextRef<'m> {
        // SAFETY: a live context, which is borrowed for `'m`.
        unsafe { ContextRef::new(self.raw) }
    }
}

impl<'m> Context<'m> {
    /// # Safety
    /// `raw` is a context that lives for `'m`.
    unsafe fn from_raw(raw: LLVMContextRef, messages: Option<&'m RefCell<Vec<String>>>) -> Self {
        assert!(!raw.is_null(), "no context");
        Context::new(RawContext { raw, lifetime: PhantomData }, messages)
    }

    pub(super) fn raw(self) -> LLVMContextRef {
        self.pointer().raw
    }

    /// A constant NUL-terminated text.
    #[must_use]
    pub fn text(self, text: &str) -> Value<'m> {
        Value::of(self.ink().const_string(text.as_bytes(), true))
    }

    /// Parses bitcode.
    ///
    /// # Errors
    /// LLVM's messages.
    pub fn parse_bitcode(self, bitcode: &[u8]) -> Result<Module<'m>, String> {
        let buffer = MemoryBuffer::create_from_memory_range_copy(bitcode, "");
        let mut module = null_mut();
        // SAFETY: a live context, and a buffer of its own that outlives the call; on success the module is the caller's.
        // inkwell's call gives the error away instead of handing it to the context's handler.
        let failed =
            unsafe { LLVMParseBitcodeInContext2(self.raw(), buffer.as_mut_ptr(), &raw mut module) } != 0;
        // SAFETY: LLVM has just made the module (tested), in this context.
        if failed { Err(self.messages()) } else { Ok(unsafe { Module::own(module) }) }
    }

    /// Parses LLVM's assembly.
    ///
    /// # Errors
    /// LLVM's message.
    pub fn parse_text(self, text: &str) -> Result<Module<'m>, String> {
        let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "");
        let (mut module, mut message) = (null_mut(), null_mut());
        // SAFETY: a live context, and a buffer of its own that outlives the call.
        #[cfg(feature = "llvm22")]
        let failed = unsafe {
            LLVMParseIRInContext2(self.raw(), buffer.as_mut_ptr(), &raw mut module, &raw mut message)
        };
        // SAFETY: as above, but this older function takes the buffer, so it is not dropped.
        #[cfg(not(feature = "llvm22"))]
        let failed = unsafe {
            let buffer = ManuallyDrop::new(buffer);
            LLVMParseIRInContext(self.raw(), buffer.as_mut_ptr(), &raw mut module, &raw mut message)
        };
        if failed == 0 {
            // SAFETY: LLVM has just made the module (tested), in this context.
            return Ok(unsafe { Module::own(module) });
        }
        // SAFETY: LLVM leaves the message to the caller.
        Err(unsafe { take_message(message) })
    }
}

impl OwnContext {
    /// Hands LLVM's diagnostics to the list of messages.
    pub(crate) fn collect_messages(&self) {
        let sink = std::rc::Rc::as_ptr(self.sink()).cast_mut().cast::<c_void>();
        // SAFETY: a live context; the list, which the handler is given, is kept by this object for longer than the
        // context (order of its fields).
        unsafe { LLVMContextSetDiagnosticHandler(self.owned().as_ctx_ref(), Some(collect), sink) };
    }

    /// The context as a handle.
    #[must_use]
    pub fn handle(&self) -> Context<'_> {
        // SAFETY: a live context, which is borrowed as long as the handle.
        unsafe { Context::from_raw(self.owned().as_ctx_ref(), Some(self.sink())) }
    }
}

extern "C" fn collect(info: LLVMDiagnosticInfoRef, messages: *mut c_void) {
    // SAFETY: `collect_messages` registered the list, which outlives the context, and LLVM calls back only from inside a
    // call on this context, on the thread that owns both.
    let messages = unsafe { &*messages.cast::<RefCell<Vec<String>>>() };
    // SAFETY: LLVM's own diagnostic, whose description is the receiver's to dispose of.
    messages.borrow_mut().push(unsafe { take_message(LLVMGetDiagInfoDescription(info)) });
}
