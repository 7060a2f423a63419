//! Attributes of functions, their parameters, and calls.

use inkwell::attributes::{Attribute, AttributeLoc};

use crate::raw::{Type, Value};

/// LLVM's number of an attribute.
fn kind(name: &str) -> u32 {
    let kind = Attribute::get_named_enum_kind_id(name);
    assert!(kind != 0, "LLVM has no attribute {name}");
    kind
}

impl<'m> Value<'m> {
    /// Gives a function an attribute.
    #[track_caller]
    pub fn add_attribute(self, name: &str) {
        self.add_attribute_value(name, 0);
    }

    #[track_caller]
    pub fn add_attribute_value(self, name: &str, value: u64) {
        let attribute = self.ty().context().create_enum_attribute(kind(name), value);
        self.function().add_attribute(AttributeLoc::Function, attribute);
    }

    #[track_caller]
    pub fn add_string_attribute(self, key: &str, value: &str) {
        let attribute = self.ty().context().create_string_attribute(key, value);
        self.function().add_attribute(AttributeLoc::Function, attribute);
    }

    #[track_caller]
    pub fn remove_attribute(self, name: &str) {
        self.function().remove_enum_attribute(AttributeLoc::Function, kind(name));
    }

    #[track_caller]
    pub fn remove_string_attribute(self, key: &str) {
        self.function().remove_string_attribute(AttributeLoc::Function, key);
    }

    /// The value of a function's attribute; `None` without it.
    #[must_use]
    pub fn attribute(self, name: &str) -> Option<u64> {
        let found = self.as_function()?.get_enum_attribute(AttributeLoc::Function, kind(name))?;
        Some(found.get_enum_value())
    }

    #[must_use]
    #[track_caller]
    pub fn string_attribute(self, key: &str) -> Option<String> {
        let found = self.function().get_string_attribute(AttributeLoc::Function, key)?;
        Some(found.get_string_value().to_string_lossy().into_owned())
    }

    /// True if a function neither reads nor writes memory.
    #[must_use]
    pub fn touches_no_memory(self) -> bool {
        self.attribute("memory") == Some(0)
    }

    /// Gives a call an attribute.
    #[track_caller]
    pub fn add_call_attribute(self, name: &str) {
        let attribute = self.ty().context().create_enum_attribute(kind(name), 0);
        self.as_call().expect("a call").add_attribute(AttributeLoc::Function, attribute);
    }

    #[track_caller]
    pub fn remove_call_attribute(self, name: &str) {
        self.as_call().expect("a call").remove_enum_attribute(AttributeLoc::Function, kind(name));
    }

    #[must_use]
    pub fn has_call_attribute(self, name: &str) -> bool {
        let call = self.as_call();
        call.is_some_and(|call| call.get_enum_attribute(AttributeLoc::Function, kind(name)).is_some())
    }

    /// Type of the value behind a pointer parameter that is passed by value.
    #[must_use]
    pub fn byval_type(self, param: u32) -> Option<Type<'m>> {
        let found = self.as_function()?.get_enum_attribute(AttributeLoc::Param(param), kind("byval"))?;
        Some(Type::of_attribute(self, found))
    }

    /// Type of the value behind a pointer argument of a call that is passed by value.
    #[must_use]
    pub fn call_byval_type(self, argument: u32) -> Option<Type<'m>> {
        let found = self.as_call()?.get_enum_attribute(AttributeLoc::Param(argument), kind("byval"))?;
        Some(Type::of_attribute(self, found))
    }

    #[must_use]
    pub fn param_alignment(self, param: u32) -> Option<u32> {
        let found = self.as_function()?.get_enum_attribute(AttributeLoc::Param(param), kind("align"))?;
        u32::try_from(found.get_enum_value()).ok()
    }
}
