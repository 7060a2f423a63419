//! Modules: their functions and variables, verifying, writing.
//!
//! Trap: linking consumes the other module, and a pass run or a link may free any value found before it.

use std::path::Path;

use inkwell::values::AnyValue;

use crate::raw::{Type, Value};
use crate::{Machine, Module};

impl Module<'_> {
    /// Name of the source that the module was made from.
    #[must_use]
    pub fn source_name(&self) -> String {
        self.ink().get_source_file_name().to_string_lossy().into_owned()
    }

    pub fn set_source_name(&self, name: &str) {
        self.ink().set_source_file_name(name);
    }

    /// All functions in module order, with those that are only declared.
    #[must_use]
    pub fn functions(&self) -> Vec<Value<'_>> {
        // Through a second view, because the iterator has the view's lifetime.
        self.ink().get_functions().map(|function| self.of(function)).collect()
    }

    /// All global variables in module order.
    #[must_use]
    pub fn globals(&self) -> Vec<Value<'_>> {
        self.ink().get_globals().map(|global| self.of(global)).collect()
    }

    fn of<'m>(&'m self, value: impl AnyValue<'m>) -> Value<'m> {
        Value::of(value)
    }

    #[must_use]
    pub fn function(&self, name: &str) -> Option<Value<'_>> {
        self.ink().get_function(name).map(Value::of)
    }

    #[must_use]
    pub fn global(&self, name: &str) -> Option<Value<'_>> {
        self.ink().get_global(name).map(Value::of)
    }

    #[must_use]
    pub fn add_global(&self, name: &str, ty: Type<'_>) -> Value<'_> {
        self.add_global_in(name, ty, 0)
    }

    /// # Errors
    /// What is wrong with the module.
    pub fn verify(&self) -> Result<(), String> {
        self.ink().verify().map_err(|message| message.to_string())
    }

    /// Runs passes.
    ///
    /// # Errors
    /// LLVM's message.
    pub fn run_passes(&self, passes: &str, machine: &Machine) -> Result<(), String> {
        self.run_passes_with(passes, Some(machine))
    }

    pub fn strip_debug_info(&self) {
        self.ink().strip_debug_info();
    }

    #[must_use]
    pub fn to_text(&self) -> String {
        self.ink().print_to_string().to_string()
    }

    #[must_use]
    pub fn to_bitcode(&self) -> Vec<u8> {
        self.ink().write_bitcode_to_memory().as_slice().to_vec()
    }

    /// Writes the module as bitcode; returns whether LLVM could.
    #[must_use]
    pub fn write_bitcode(&self, path: &Path) -> bool {
        self.ink().write_bitcode_to_path(path)
    }
}
