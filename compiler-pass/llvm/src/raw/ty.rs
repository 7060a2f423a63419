//! What inkwell lacks of types: functions of tokens, arrays of any length, numbers of address spaces.

use inkwell::types::AsTypeRef;

use super::{Type, Value, count_of, take_message};
use crate::sys::core::*;
use crate::sys::prelude::*;
use crate::{Context, TypeKind};

impl<'m> Type<'m> {
    /// The type of functions from `params` to `result`.
    #[must_use]
    pub fn function(result: Type<'m>, params: &[Type<'m>]) -> Type<'m> {
        Self::function_of(result, params, false)
    }

    /// The type of functions that take any arguments after `params`.
    #[must_use]
    pub fn variadic_function(result: Type<'m>, params: &[Type<'m>]) -> Type<'m> {
        Self::function_of(result, params, true)
    }

    fn function_of(result: Type<'m>, params: &[Type<'m>], variadic: bool) -> Type<'m> {
        let is_value =
            |ty: &Type<'_>| !matches!(ty.kind(), TypeKind::LLVMVoidTypeKind | TypeKind::LLVMFunctionTypeKind);
        assert!(result.kind() != TypeKind::LLVMFunctionTypeKind, "no function returns a function");
        assert!(params.iter().all(is_value), "parameters are values");
        let mut params: Vec<LLVMTypeRef> = params.iter().map(|ty| ty.raw).collect();
        let count = count_of(&params);
        // SAFETY: live types, such as LLVM allows in these places (asserted); LLVM copies the list. inkwell can name no
        // token among the parameters, and functions of coroutines have them.
        unsafe { Type::from_raw(LLVMFunctionType(result.raw, params.as_mut_ptr(), count, variadic.into())) }
    }

    /// The parameters of a function type; none for other types.
    #[must_use]
    pub fn param_types(self) -> Vec<Type<'m>> {
        let Some(function) = self.as_function() else { return Vec::new() };
        let mut types = vec![std::ptr::null_mut(); function.count_param_types() as usize];
        // SAFETY: a live function type, and room for as many types as it has parameters. inkwell panics on tokens.
        unsafe {
            LLVMGetParamTypes(function.as_type_ref(), types.as_mut_ptr());
            types.into_iter().map(|ty| Type::from_raw(ty)).collect()
        }
    }

    /// The result of a function type.
    #[must_use]
    #[track_caller]
    pub fn return_type(self) -> Type<'m> {
        assert!(self.as_function().is_some(), "{} is no function", self.to_text());
        // SAFETY: a live function type (asserted). inkwell panics on a token.
        unsafe { Type::from_raw(LLVMGetReturnType(self.raw)) }
    }

    #[must_use]
    #[track_caller]
    pub fn pointer_address_space(self) -> u32 {
        assert!(self.is_pointer(), "{} is no pointer", self.to_text());
        // SAFETY: a live pointer type (asserted). inkwell does not give away an address space's number.
        unsafe { LLVMGetPointerAddressSpace(self.raw) }
    }

    /// The type of arrays of `length` elements of this type. inkwell counts them in 32 bits.
    #[must_use]
    #[track_caller]
    pub fn array(self, length: u64) -> Type<'m> {
        assert!(self.is_basic(), "elements are values in memory");
        // SAFETY: a live type of values in memory (asserted).
        unsafe { Type::from_raw(LLVMArrayType2(self.raw, length)) }
    }

    /// Number of elements of an array type.
    #[must_use]
    pub fn array_length(self) -> Option<u64> {
        // SAFETY: a live array type (tested).
        (self.kind() == TypeKind::LLVMArrayTypeKind).then(|| unsafe { LLVMGetArrayLength2(self.raw) })
    }

    /// A constant array of elements of this type.
    #[must_use]
    pub fn constant_array(self, elements: &[Value<'m>]) -> Value<'m> {
        let fits = |element: &Value<'_>| element.is_constant() && element.ty() == self;
        assert!(self.is_basic() && elements.iter().all(fits), "elements are constants of one type");
        let mut elements: Vec<LLVMValueRef> = elements.iter().map(|element| element.raw).collect();
        // SAFETY: live constants of this type (asserted); LLVM copies the list. inkwell has the call for each kind of
        // type apart.
        unsafe { Value::certain(LLVMConstArray2(self.raw, elements.as_mut_ptr(), elements.len() as u64)) }
    }

    /// The constant of this type that is zero in all its bytes; for a token, the one that stands for none.
    #[must_use]
    #[track_caller]
    pub fn null(self) -> Value<'m> {
        let is_token = self.kind() == TypeKind::LLVMTokenTypeKind;
        assert!(self.is_basic() || is_token, "{} has no null", self.to_text());
        // SAFETY: a live type that has values (asserted). inkwell makes no token.
        unsafe { Value::certain(LLVMConstNull(self.raw)) }
    }

    /// The type as LLVM's assembly spells it.
    #[must_use]
    pub fn to_text(self) -> String {
        // SAFETY: a live type; the text is the caller's to dispose of, which `take_message` does. inkwell prints types of
        // each kind apart.
        unsafe { take_message(LLVMPrintTypeToString(self.raw)) }
    }
}

impl<'m> Context<'m> {
    pub(crate) fn token_type(self) -> Type<'m> {
        // SAFETY: a live context. inkwell has no tokens.
        unsafe { Type::from_raw(LLVMTokenTypeInContext(self.raw())) }
    }

    /// The type of structures of these fields, laid out for the target, or without gaps.
    #[must_use]
    pub fn structure_type(self, fields: &[Type<'m>], packed: bool) -> Type<'m> {
        let fields: Vec<_> = fields.iter().map(|ty| ty.basic()).collect();
        Type::of(self.ink().struct_type(&fields, packed))
    }
}

impl<'m> Type<'m> {
    /// The context of a type.
    pub(crate) fn context(self) -> inkwell::context::ContextRef<'m> {
        // SAFETY: a live type, whose context is borrowed as long.
        unsafe { inkwell::context::ContextRef::new(LLVMGetTypeContext(self.raw)) }
    }

    /// The type in an attribute of a function or call. inkwell ties it to the attribute's own, shorter life.
    pub(crate) fn of_attribute(_of: Value<'m>, attribute: inkwell::attributes::Attribute) -> Type<'m> {
        assert!(attribute.is_type(), "an attribute with a type");
        // SAFETY: an attribute with a type (asserted) of a live function or call, whose context keeps types.
        unsafe { Type::from_raw(LLVMGetTypeAttributeValue(attribute.as_mut_ptr())) }
    }
}
