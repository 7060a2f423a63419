//! Types.

use inkwell::types::BasicTypeEnum;

use crate::TypeKind;
use crate::raw::{Type, Value};

impl<'m> Type<'m> {
    #[must_use]
    pub fn is_pointer(self) -> bool {
        self.kind() == TypeKind::LLVMPointerTypeKind
    }

    /// The type as one of inkwell's, which has no tokens, metadata and labels.
    #[track_caller]
    pub(crate) fn basic(self) -> BasicTypeEnum<'m> {
        self.as_basic().unwrap_or_else(|| panic!("{} is no type of values in memory", self.to_text()))
    }

    /// Width of an integer type.
    #[must_use]
    pub fn integer_bits(self) -> Option<u32> {
        match self.as_basic() {
            Some(BasicTypeEnum::IntType(ty)) => Some(ty.get_bit_width()),
            _ => None,
        }
    }

    /// The element type of an array or vector.
    #[must_use]
    #[track_caller]
    pub fn element(self) -> Type<'m> {
        match self.basic() {
            BasicTypeEnum::ArrayType(ty) => Type::of(ty.get_element_type()),
            BasicTypeEnum::VectorType(ty) => Type::of(ty.get_element_type()),
            BasicTypeEnum::ScalableVectorType(ty) => Type::of(ty.get_element_type()),
            _ => panic!("{} has no elements of one type", self.to_text()),
        }
    }

    #[must_use]
    #[track_caller]
    pub fn vector_length(self) -> u32 {
        match self.basic() {
            BasicTypeEnum::VectorType(ty) => ty.get_size(),
            _ => panic!("{} is no vector of a fixed length", self.to_text()),
        }
    }

    /// The parts of a struct type; none for other types.
    #[must_use]
    pub fn struct_types(self) -> Vec<Type<'m>> {
        match self.as_basic() {
            Some(BasicTypeEnum::StructType(ty)) => ty.get_field_types_iter().map(Type::of).collect(),
            _ => Vec::new(),
        }
    }

    #[must_use]
    pub fn is_variadic(self) -> bool {
        self.as_function().is_some_and(|ty| ty.is_var_arg())
    }

    /// A constant of an integer type.
    #[must_use]
    #[track_caller]
    pub fn constant(self, value: u64) -> Value<'m> {
        match self.basic() {
            BasicTypeEnum::IntType(ty) => Value::of(ty.const_int(value, false)),
            _ => panic!("{} is no integer", self.to_text()),
        }
    }
}
