//! Types, constants, functions and global variables.
//!
//! A constant expression is not an instruction but has an opcode and operands like one; most functions here work for
//! both.

use std::ptr::null_mut;

use llvm_sys::core::*;
use llvm_sys::prelude::*;

use super::{
    Block, LLVMLinkage, Opcode, Type, TypeKind, Value, attribute_kind, bytes_at, llvm, name_of_length,
    take_message, walk,
};

impl Type {
    pub fn kind(self) -> TypeKind {
        llvm!(LLVMGetTypeKind(self.0))
    }

    /// Width of an integer type.
    pub fn integer_bits(self) -> Option<u32> {
        (self.kind() == TypeKind::LLVMIntegerTypeKind).then(|| llvm!(LLVMGetIntTypeWidth(self.0)))
    }

    /// The element type of an array or vector.
    pub fn element(self) -> Type {
        Type(llvm!(LLVMGetElementType(self.0)))
    }

    pub fn vector_length(self) -> u32 {
        llvm!(LLVMGetVectorSize(self.0))
    }

    pub fn pointer_address_space(self) -> u32 {
        llvm!(LLVMGetPointerAddressSpace(self.0))
    }

    pub fn param_types(self) -> Vec<Type> {
        let mut types = vec![null_mut(); llvm!(LLVMCountParamTypes(self.0)) as usize];
        llvm!(LLVMGetParamTypes(self.0, types.as_mut_ptr()));
        types.into_iter().map(Type).collect()
    }

    /// The result of a function type.
    pub fn return_type(self) -> Type {
        Type(llvm!(LLVMGetReturnType(self.0)))
    }

    /// The parts of a struct type.
    pub fn struct_types(self) -> Vec<Type> {
        let mut types = vec![null_mut(); llvm!(LLVMCountStructElementTypes(self.0)) as usize];
        llvm!(LLVMGetStructElementTypes(self.0, types.as_mut_ptr()));
        types.into_iter().map(Type).collect()
    }

    pub fn function(result: Type, params: &[Type]) -> Type {
        let mut params: Vec<LLVMTypeRef> = params.iter().map(|t| t.0).collect();
        Type(llvm!(LLVMFunctionType(result.0, params.as_mut_ptr(), params.len() as u32, 0)))
    }

    pub fn array(self, length: u64) -> Type {
        Type(llvm!(LLVMArrayType2(self.0, length)))
    }

    pub fn constant(self, value: u64) -> Value {
        Value(llvm!(LLVMConstInt(self.0, value, 0)))
    }

    pub fn null(self) -> Value {
        Value(llvm!(LLVMConstNull(self.0)))
    }

    pub fn to_text(self) -> String {
        take_message(llvm!(LLVMPrintTypeToString(self.0)))
    }
}

impl Value {
    pub fn name(self) -> String {
        name_of_length(|length| llvm!(LLVMGetValueName2(self.0, length)))
    }

    pub fn set_name(self, name: &str) {
        llvm!(LLVMSetValueName2(self.0, name.as_ptr().cast(), name.len()));
    }

    pub fn ty(self) -> Type {
        Type(llvm!(LLVMTypeOf(self.0)))
    }

    pub fn replace_uses_with(self, other: Value) {
        llvm!(LLVMReplaceAllUsesWith(self.0, other.0));
    }

    /// Instructions and constants that use this value.
    pub fn users(self) -> Vec<Value> {
        let first = llvm!(LLVMGetFirstUse(self.0));
        walk(first, |u| llvm!(LLVMGetNextUse(u))).map(|u| Value(llvm!(LLVMGetUser(u)))).collect()
    }

    pub fn operands(self) -> Vec<Value> {
        let count = llvm!(LLVMGetNumOperands(self.0));
        (0..count as u32).map(|i| Value(llvm!(LLVMGetOperand(self.0, i)))).collect()
    }

    pub fn operand(self, index: u32) -> Value {
        Value(llvm!(LLVMGetOperand(self.0, index)))
    }

    pub fn set_operand(self, index: u32, value: Value) {
        llvm!(LLVMSetOperand(self.0, index, value.0));
    }

    pub fn is_instruction(self) -> bool {
        !llvm!(LLVMIsAInstruction(self.0)).is_null()
    }

    pub fn is_constant(self) -> bool {
        !llvm!(LLVMIsAConstant(self.0)).is_null()
    }

    pub fn is_poison(self) -> bool {
        llvm!(LLVMIsPoison(self.0)) != 0
    }

    pub fn is_constant_expression(self) -> bool {
        !llvm!(LLVMIsAConstantExpr(self.0)).is_null()
    }

    pub fn is_global_variable(self) -> bool {
        !llvm!(LLVMIsAGlobalVariable(self.0)).is_null()
    }

    pub fn is_function(self) -> bool {
        !llvm!(LLVMIsAFunction(self.0)).is_null()
    }

    /// The opcode of an instruction or constant expression.
    pub fn opcode(self) -> Option<Opcode> {
        if self.is_instruction() {
            Some(llvm!(LLVMGetInstructionOpcode(self.0)))
        } else if self.is_constant_expression() {
            Some(llvm!(LLVMGetConstOpcode(self.0)))
        } else {
            None
        }
    }

    pub fn constant_integer(self) -> Option<u64> {
        (!llvm!(LLVMIsAConstantInt(self.0)).is_null()).then(|| llvm!(LLVMConstIntGetZExtValue(self.0)))
    }

    pub fn alignment(self) -> u32 {
        llvm!(LLVMGetAlignment(self.0))
    }

    pub fn set_alignment(self, bytes: u32) {
        llvm!(LLVMSetAlignment(self.0, bytes));
    }

    pub fn has_metadata(self, kind: u32) -> bool {
        llvm!(LLVMHasMetadata(self.0)) != 0 && !llvm!(LLVMGetMetadata(self.0, kind)).is_null()
    }

    pub fn metadata(self, kind: u32) -> Option<Value> {
        self.has_metadata(kind).then(|| Value(llvm!(LLVMGetMetadata(self.0, kind))))
    }

    pub fn set_metadata(self, kind: u32, node: Value) {
        llvm!(LLVMSetMetadata(self.0, kind, node.0));
    }

    /// Text that a node holds (`Context::text_node`).
    pub fn node_text(self) -> Option<String> {
        if llvm!(LLVMGetMDNodeNumOperands(self.0)) != 1 {
            return None;
        }
        let mut part = null_mut();
        llvm!(LLVMGetMDNodeOperands(self.0, &mut part));
        let mut length = 0;
        let start = llvm!(LLVMGetMDString(part, &mut length));
        Some(bytes_at(start, length as usize))
    }

    /// First texts of a node's inner nodes, as in `llvm.loop`.
    pub fn inner_node_texts(self) -> Vec<String> {
        let parts = |node: Value| {
            let count = llvm!(LLVMGetMDNodeNumOperands(node.0));
            let mut parts = vec![null_mut(); count as usize];
            llvm!(LLVMGetMDNodeOperands(node.0, parts.as_mut_ptr()));
            parts.into_iter().filter(|part| !part.is_null()).map(Value).collect::<Vec<_>>()
        };
        let text = |part: Value| {
            let mut length = 0;
            let start = llvm!(LLVMGetMDString(part.0, &mut length));
            (!start.is_null()).then(|| bytes_at(start, length as usize))
        };
        let nodes = parts(self).into_iter().filter(|part| !llvm!(LLVMIsAMDNode(part.0)).is_null());
        nodes.filter_map(|node| parts(node).first().copied().and_then(text)).collect()
    }

    pub fn remove_metadata(self, kind: u32) {
        llvm!(LLVMSetMetadata(self.0, kind, null_mut()));
    }
}

/// Functions and global variables.
impl Value {
    pub fn is_declaration(self) -> bool {
        llvm!(LLVMIsDeclaration(self.0)) != 0
    }

    pub fn linkage(self) -> LLVMLinkage {
        llvm!(LLVMGetLinkage(self.0))
    }

    pub fn make_internal(self) {
        llvm!(llvm_sys::comdat::LLVMSetComdat(self.0, null_mut()));
        llvm!(LLVMSetLinkage(self.0, LLVMLinkage::LLVMInternalLinkage));
        llvm!(LLVMSetVisibility(self.0, llvm_sys::LLVMVisibility::LLVMDefaultVisibility));
    }

    pub fn set_linkage(self, linkage: LLVMLinkage) {
        llvm!(llvm_sys::comdat::LLVMSetComdat(self.0, null_mut()));
        llvm!(LLVMSetLinkage(self.0, linkage));
    }

    pub fn value_type(self) -> Type {
        Type(llvm!(LLVMGlobalGetValueType(self.0)))
    }

    pub fn calling_convention(self) -> u32 {
        llvm!(LLVMGetFunctionCallConv(self.0))
    }

    pub fn set_calling_convention(self, convention: u32) {
        llvm!(LLVMSetFunctionCallConv(self.0, convention));
    }

    pub fn params(self) -> Vec<Value> {
        (0..llvm!(LLVMCountParams(self.0))).map(|i| Value(llvm!(LLVMGetParam(self.0, i)))).collect()
    }

    pub fn blocks(self) -> Vec<Block> {
        let first = llvm!(LLVMGetFirstBasicBlock(self.0));
        walk(first, |b| llvm!(LLVMGetNextBasicBlock(b))).map(Block).collect()
    }

    pub fn instructions(self) -> Vec<Value> {
        self.blocks().into_iter().flat_map(Block::instructions).collect()
    }

    pub fn delete_function(self) {
        llvm!(LLVMDeleteFunction(self.0));
    }

    pub fn delete_global(self) {
        llvm!(LLVMDeleteGlobal(self.0));
    }

    pub fn initializer(self) -> Option<Value> {
        let found = llvm!(LLVMGetInitializer(self.0));
        (!found.is_null()).then_some(Value(found))
    }

    /// True if a constant is zero in all its bytes, or has no particular value.
    pub fn is_zero(self) -> bool {
        llvm!(LLVMIsNull(self.0)) != 0 || llvm!(LLVMIsUndef(self.0)) != 0
    }

    pub fn set_initializer(self, value: Value) {
        llvm!(LLVMSetInitializer(self.0, value.0));
    }

    pub fn is_global_constant(self) -> bool {
        llvm!(LLVMIsGlobalConstant(self.0)) != 0
    }

    /// Makes the variable writable, whatever the module declared.
    pub fn make_mutable(self) {
        llvm!(LLVMSetGlobalConstant(self.0, 0));
        llvm!(LLVMSetExternallyInitialized(self.0, 0));
    }

    pub fn add_attribute(self, name: &str) {
        let attribute = self.enum_attribute(name, 0);
        llvm!(LLVMAddAttributeAtIndex(self.0, llvm_sys::LLVMAttributeFunctionIndex, attribute));
    }

    pub fn add_attribute_value(self, name: &str, value: u64) {
        let attribute = self.enum_attribute(name, value);
        llvm!(LLVMAddAttributeAtIndex(self.0, llvm_sys::LLVMAttributeFunctionIndex, attribute));
    }

    fn enum_attribute(self, name: &str, value: u64) -> LLVMAttributeRef {
        let context = llvm!(LLVMGetTypeContext(LLVMTypeOf(self.0)));
        llvm!(LLVMCreateEnumAttribute(context, attribute_kind(name), value))
    }

    pub fn add_string_attribute(self, key: &str, value: &str) {
        let context = llvm!(LLVMGetTypeContext(LLVMTypeOf(self.0)));
        let attribute = llvm!(LLVMCreateStringAttribute(
            context,
            key.as_ptr().cast(),
            key.len() as u32,
            value.as_ptr().cast(),
            value.len() as u32
        ));
        llvm!(LLVMAddAttributeAtIndex(self.0, llvm_sys::LLVMAttributeFunctionIndex, attribute));
    }

    /// True if a function neither reads nor writes memory.
    pub fn touches_no_memory(self) -> bool {
        let at = llvm_sys::LLVMAttributeFunctionIndex;
        let attribute = llvm!(LLVMGetEnumAttributeAtIndex(self.0, at, attribute_kind("memory")));
        !attribute.is_null() && llvm!(LLVMGetEnumAttributeValue(attribute)) == 0
    }

    pub fn string_attribute(self, key: &str) -> Option<String> {
        let at = llvm_sys::LLVMAttributeFunctionIndex;
        let attribute =
            llvm!(LLVMGetStringAttributeAtIndex(self.0, at, key.as_ptr().cast(), key.len() as u32));
        if attribute.is_null() {
            return None;
        }
        let mut length = 0;
        let text = llvm!(LLVMGetStringAttributeValue(attribute, &mut length));
        // SAFETY: needed because LLVM returns text as pointer and length; it stays valid as long as the context.
        let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length as usize) };
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    pub fn remove_attribute(self, name: &str) {
        let at = llvm_sys::LLVMAttributeFunctionIndex;
        llvm!(LLVMRemoveEnumAttributeAtIndex(self.0, at, attribute_kind(name)));
    }

    /// True if a function takes a variable number of arguments.
    pub fn is_variadic(self) -> bool {
        llvm!(LLVMIsFunctionVarArg(self.value_type().0)) != 0
    }

    pub fn set_section(self, name: &str) {
        let name = std::ffi::CString::new(name).expect("a section's name has no NUL");
        llvm!(LLVMSetSection(self.0, name.as_ptr()));
    }

    pub fn remove_string_attribute(self, key: &str) {
        let at = llvm_sys::LLVMAttributeFunctionIndex;
        llvm!(LLVMRemoveStringAttributeAtIndex(self.0, at, key.as_ptr().cast(), key.len() as u32));
    }

    /// Type of the value behind a pointer parameter that is passed by value.
    pub fn byval_type(self, param: u32) -> Option<Type> {
        let attribute = llvm!(LLVMGetEnumAttributeAtIndex(self.0, param + 1, attribute_kind("byval")));
        (!attribute.is_null()).then(|| Type(llvm!(LLVMGetTypeAttributeValue(attribute))))
    }

    pub fn param_alignment(self, param: u32) -> Option<u32> {
        let attribute = llvm!(LLVMGetEnumAttributeAtIndex(self.0, param + 1, attribute_kind("align")));
        (!attribute.is_null()).then(|| llvm!(LLVMGetEnumAttributeValue(attribute)) as u32)
    }
}

/// Casts a constant address to another address space.
pub(crate) fn constant_address_space_cast(value: Value, to: Type) -> Value {
    Value(llvm!(LLVMConstAddrSpaceCast(value.0, to.0)))
}

/// The constant address `offset` bytes behind a global variable; `byte` is the type of a byte.
pub(crate) fn constant_at(global: Value, byte: Type, offset: Value) -> Value {
    let mut indices = [offset.0];
    Value(llvm!(LLVMConstInBoundsGEP2(byte.0, global.0, indices.as_mut_ptr(), 1)))
}
