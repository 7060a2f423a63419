//! Constants, globals and declarations in the few forms that the pass emits.
//!
//! Layouts follow `eager_abi`'s `repr(C)` structs field by field; a non-packed LLVM struct of the same field types has
//! the same layout on x86-64.

use eager_llvm::{LLVMLinkage, Module, Type, Value};

/// Adds constants to one module.
#[derive(Clone, Copy, Debug)]
pub struct Constants<'m> {
    module: &'m Module<'m>,
}

impl<'m> Constants<'m> {
    #[must_use]
    pub fn new(module: &'m Module<'m>) -> Self {
        Self { module }
    }

    #[must_use]
    pub fn module(self) -> &'m Module<'m> {
        self.module
    }

    #[must_use]
    pub fn void(self) -> Type<'m> {
        self.module.context().void_type()
    }

    #[must_use]
    pub fn int(self, bits: u32) -> Type<'m> {
        self.module.context().int_type(bits)
    }

    #[must_use]
    pub fn pointer(self) -> Type<'m> {
        self.module.context().ptr_type(0)
    }

    #[must_use]
    pub fn u32(self, value: u32) -> Value<'m> {
        self.int(32).constant(u64::from(value))
    }

    #[must_use]
    pub fn u64(self, value: u64) -> Value<'m> {
        self.int(64).constant(value)
    }

    #[must_use]
    pub fn null(self) -> Value<'m> {
        self.pointer().null()
    }

    #[must_use]
    pub fn structure(self, fields: &[Value<'m>]) -> Value<'m> {
        self.module.context().structure(fields, false)
    }

    /// Adds a private constant global; returns its address.
    #[must_use]
    pub fn global(self, name: &str, initializer: Value<'m>) -> Value<'m> {
        let global = self.module.add_global(plain(name), initializer.ty());
        global.set_initializer(initializer);
        global.make_constant();
        global.set_linkage(LLVMLinkage::LLVMPrivateLinkage);
        global
    }

    /// Adds a NUL-terminated string constant; returns its address.
    #[must_use]
    pub fn string(self, name: &str, text: &str) -> Value<'m> {
        let global = self.global(name, self.module.context().text(plain(text)));
        global.forget_address();
        global
    }

    /// Adds an array constant in a private global; null if there are no elements.
    #[must_use]
    pub fn array(self, name: &str, elements: &[Value<'m>]) -> Value<'m> {
        match elements.first() {
            Some(first) => self.global(name, first.ty().constant_array(elements)),
            None => self.null(),
        }
    }

    /// Returns the declaration of `void name(params...)`, which is added once per module, and that type. A function of
    /// another type may have the name already.
    #[must_use]
    pub fn declare(self, name: &str, params: &[Type<'m>]) -> (Type<'m>, Value<'m>) {
        self.declare_type(name, Type::function(self.void(), params))
    }

    /// Returns a type and the declaration of `name`, which is added with this type if the module has none.
    #[must_use]
    pub fn declare_type(self, name: &str, ty: Type<'m>) -> (Type<'m>, Value<'m>) {
        (ty, self.module.function(name).unwrap_or_else(|| self.module.add_function(plain(name), ty)))
    }

    /// Adds a new function `void ()` of the module's own. A function of the same name, which a linked program may have
    /// from another object, stays unchanged, and LLVM renames the new one.
    #[must_use]
    pub fn own_function(self, name: &str) -> Value<'m> {
        let function = self.module.add_function(plain(name), Type::function(self.void(), &[]));
        function.set_linkage(LLVMLinkage::LLVMInternalLinkage);
        function
    }

    /// Adds an undefined external variable: a reference that the linker must resolve.
    #[must_use]
    pub fn external(self, name: &str) -> Value<'m> {
        self.module.add_global(plain(name), self.int(8))
    }
}

/// The text before its first NUL; no symbol or path has one.
#[must_use]
pub fn plain(text: &str) -> &str {
    text.split('\0').next().unwrap_or_default()
}
