//! The LLVM context that owns all types and modules, and its diagnostics.
//!
//! Trap: without the handler installed here, LLVM prints diagnostics, and ends the process (clang!) at the first error.

use std::cell::RefCell;
use std::num::NonZeroU32;
use std::rc::Rc;

use inkwell::AddressSpace;
use inkwell::context::ContextRef;

use crate::Builder;
use crate::raw::{Block, RawContext, Type, Value};

/// A context that belongs to this object; its diagnostics are collected instead of printed (or, for errors, exiting).
#[derive(Debug)]
pub struct OwnContext {
    // In this order: the context, when it is dropped, may still hand diagnostics to the list.
    owned: inkwell::context::Context,
    messages: Rc<RefCell<Vec<String>>>,
}

impl OwnContext {
    #[must_use]
    pub fn new() -> Self {
        let own = OwnContext { owned: inkwell::context::Context::create(), messages: Rc::default() };
        own.collect_messages();
        own
    }

    pub(crate) fn owned(&self) -> &inkwell::context::Context {
        &self.owned
    }

    pub(crate) fn sink(&self) -> &Rc<RefCell<Vec<String>>> {
        &self.messages
    }
}

impl Default for OwnContext {
    fn default() -> Self {
        Self::new()
    }
}

/// A handle to a context.
#[derive(Debug, Clone, Copy)]
pub struct Context<'m> {
    pointer: RawContext<'m>,
    messages: Option<&'m RefCell<Vec<String>>>,
}

impl<'m> Context<'m> {
    pub(crate) fn new(pointer: RawContext<'m>, messages: Option<&'m RefCell<Vec<String>>>) -> Self {
        Context { pointer, messages }
    }

    pub(crate) fn pointer(self) -> RawContext<'m> {
        self.pointer
    }

    pub(crate) fn ink(self) -> ContextRef<'m> {
        self.pointer.ink()
    }

    /// All diagnostics so far, if the context collects them.
    #[must_use]
    pub fn messages(self) -> String {
        self.messages.map(|messages| messages.borrow().join("; ")).unwrap_or_default()
    }

    /// An integer type of at most 2^23 bits.
    #[must_use]
    pub fn int_type(self, bits: u32) -> Type<'m> {
        let bits = NonZeroU32::new(bits).expect("an integer has bits");
        Type::of(self.ink().custom_width_int_type(bits).expect("LLVM has integers of this width"))
    }

    #[must_use]
    pub fn void_type(self) -> Type<'m> {
        Type::of(self.ink().void_type())
    }

    #[must_use]
    pub fn ptr_type(self, address_space: u32) -> Type<'m> {
        let space = AddressSpace::try_from(address_space).expect("LLVM has 2^24 address spaces");
        Type::of(self.ink().ptr_type(space))
    }

    /// The number that LLVM uses for a kind of metadata.
    #[must_use]
    pub fn metadata_kind(self, name: &str) -> u32 {
        self.ink().get_kind_id(name)
    }

    /// A constant structure without gaps.
    #[must_use]
    pub fn packed(self, parts: &[Value<'m>]) -> Value<'m> {
        self.structure(parts, true)
    }

    /// A constant structure, laid out for the target, or without gaps.
    #[must_use]
    pub fn structure(self, parts: &[Value<'m>], packed: bool) -> Value<'m> {
        assert!(parts.iter().all(|part| part.is_constant()), "a constant consists of constants");
        let parts: Vec<_> = parts.iter().map(|part| part.basic()).collect();
        Value::of(self.ink().const_struct(&parts, packed))
    }

    /// The token that stands for none, as coroutines need it.
    #[must_use]
    pub fn token_none(self) -> Value<'m> {
        self.token_type().null()
    }

    /// Adds an empty block at the end of a function.
    #[must_use]
    pub fn append_block(self, function: Value<'m>, name: &str) -> Block<'m> {
        Block::appended(function, name)
    }

    #[must_use]
    pub fn builder(self) -> Builder<'m> {
        Builder::of(self.ink().create_builder())
    }
}
