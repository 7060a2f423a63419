//! Functions and global variables.

use inkwell::GlobalVisibility;
use inkwell::values::{FunctionValue, GlobalValue, UnnamedAddress};

use crate::LLVMLinkage;
use crate::raw::{Block, Type, Value};

impl<'m> Value<'m> {
    #[track_caller]
    pub(crate) fn function(self) -> FunctionValue<'m> {
        self.as_function().expect("a function")
    }

    #[track_caller]
    fn variable(self) -> GlobalValue<'m> {
        self.as_variable().expect("a global variable")
    }

    #[track_caller]
    fn global(self) -> GlobalValue<'m> {
        self.as_global().expect("a function or global variable")
    }

    /// Whether it is a function or variable without a body in this module.
    #[must_use]
    pub fn is_declaration(self) -> bool {
        self.as_global().is_some_and(|global| global.is_declaration())
    }

    #[must_use]
    #[track_caller]
    pub fn linkage(self) -> LLVMLinkage {
        self.global().get_linkage().into()
    }

    /// Whether it is a function or variable that no other object can name.
    #[must_use]
    pub fn is_internal(self) -> bool {
        use LLVMLinkage::{LLVMInternalLinkage, LLVMPrivateLinkage};
        self.is_global() && matches!(self.linkage(), LLVMInternalLinkage | LLVMPrivateLinkage)
    }

    /// Sets the linkage, and takes a function or variable out of its comdat.
    #[track_caller]
    pub fn set_linkage(self, linkage: LLVMLinkage) {
        self.clear_comdat();
        self.global().set_linkage(linkage.into());
    }

    #[track_caller]
    pub fn make_internal(self) {
        self.set_linkage(LLVMLinkage::LLVMInternalLinkage);
        self.global().set_visibility(GlobalVisibility::Default);
    }

    /// Lets no other program or library use it.
    #[track_caller]
    pub fn hide(self) {
        self.global().set_visibility(GlobalVisibility::Hidden);
    }

    /// Allows that it has one address with something equal.
    #[track_caller]
    pub fn forget_address(self) {
        self.global().set_unnamed_address(UnnamedAddress::Global);
    }

    /// Type of a function, or of what a variable holds.
    #[must_use]
    #[track_caller]
    pub fn value_type(self) -> Type<'m> {
        Type::of(self.global().get_value_type())
    }

    /// True if a function takes a variable number of arguments.
    #[must_use]
    #[track_caller]
    pub fn is_variadic(self) -> bool {
        self.function().get_type().is_var_arg()
    }

    #[must_use]
    #[track_caller]
    pub fn calling_convention(self) -> u32 {
        self.function().get_call_conventions()
    }

    #[track_caller]
    pub fn set_calling_convention(self, convention: u32) {
        self.function().set_call_conventions(convention);
    }

    /// Blocks of a function, the entry first; none for other values.
    #[must_use]
    pub fn blocks(self) -> Vec<Block<'m>> {
        self.as_function().map(|f| f.get_basic_block_iter().map(Block::of).collect()).unwrap_or_default()
    }

    /// Instructions of a function, block by block.
    #[must_use]
    pub fn instructions(self) -> Vec<Value<'m>> {
        self.blocks().into_iter().flat_map(Block::instructions).collect()
    }

    /// Position of a parameter in its function's list.
    #[must_use]
    pub fn argument_index(self) -> Option<usize> {
        self.parameter_of()?.params().iter().position(|&param| param == self)
    }

    /// Initial value of a global variable.
    #[must_use]
    pub fn initializer(self) -> Option<Value<'m>> {
        self.as_variable()?.get_initializer().map(Value::of)
    }

    #[track_caller]
    pub fn set_initializer(self, value: Value<'m>) {
        assert!(value.is_constant() && value.ty() == self.value_type(), "a constant of the variable's type");
        self.variable().set_initializer(&value.basic());
    }

    /// Makes a variable one that is only declared.
    #[track_caller]
    pub fn make_external(self) {
        self.clear_initializer();
        self.variable().set_externally_initialized(false);
    }

    /// Whether it is a global variable that is never written.
    #[must_use]
    pub fn is_global_constant(self) -> bool {
        self.as_variable().is_some_and(|variable| variable.is_constant())
    }

    #[track_caller]
    pub fn make_constant(self) {
        self.variable().set_constant(true);
    }

    /// Makes the variable writable, whatever the module declared.
    #[track_caller]
    pub fn make_mutable(self) {
        self.variable().set_constant(false);
        self.variable().set_externally_initialized(false);
    }

    /// Says that code outside of the module writes the variable before the module's runs.
    #[track_caller]
    pub fn make_externally_initialized(self) {
        self.variable().set_externally_initialized(true);
    }

    /// Section that a function or variable is placed in, if one is named.
    #[must_use]
    pub fn section(self) -> Option<String> {
        self.as_global()?.get_section().map(|section| section.to_string_lossy().into_owned())
    }

    /// Places a function or variable in a section; without a name, where LLVM chooses.
    #[track_caller]
    pub fn set_section(self, name: &str) {
        self.global().set_section((!name.is_empty()).then_some(name));
    }

    /// Names the function of the language's runtime that decides which exceptions a function's landing pads take.
    #[track_caller]
    pub fn set_personality(self, personality: Value<'m>) {
        self.function().set_personality_function(personality.function());
    }

    #[must_use]
    #[track_caller]
    pub fn has_personality(self) -> bool {
        self.function().has_personality_function()
    }
}
