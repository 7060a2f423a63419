//! Where the parts of a type lie in memory, by a module's own layout.

use inkwell::types::BasicType;

use crate::machine::offset_in;
use crate::raw::{Module, Type, Value};
use crate::{Opcode, TypeKind};

/// Number of pointers in one type beyond which further pointers are ignored.
const POINTERS_MAX: usize = 64;

impl<'m> Type<'m> {
    /// Whether a value of this type can hold a pointer.
    #[must_use]
    pub fn holds_pointer(self) -> bool {
        match self.kind() {
            TypeKind::LLVMPointerTypeKind => true,
            TypeKind::LLVMArrayTypeKind => self.element().holds_pointer(),
            TypeKind::LLVMStructTypeKind => self.struct_types().into_iter().any(Type::holds_pointer),
            _ => false,
        }
    }
}

impl Module<'_> {
    /// Size in bytes of a type, as an array element.
    #[must_use]
    #[track_caller]
    pub fn size_of(&self, ty: Type<'_>) -> u64 {
        self.layout().get_abi_size(&ty.basic())
    }

    /// Bytes that a store of this type writes.
    #[must_use]
    #[track_caller]
    pub fn store_size_of(&self, ty: Type<'_>) -> u64 {
        self.layout().get_store_size(&ty.basic())
    }

    /// Offset of a field in bytes from the start of the structure.
    #[must_use]
    #[track_caller]
    pub fn offset_of(&self, structure: Type<'_>, field: u32) -> u64 {
        offset_in(&self.layout(), structure, field)
    }

    /// Byte offset of the field that an `extractvalue` or `insertvalue` accesses.
    #[must_use]
    pub fn field_offset(&self, access: Value<'_>) -> Option<i64> {
        if !matches!(access.instruction_opcode(), Some(Opcode::LLVMExtractValue | Opcode::LLVMInsertValue)) {
            return None;
        }
        let mut ty = access.operand(0).ty();
        let mut offset = 0;
        for index in access.field_indices() {
            match ty.kind() {
                TypeKind::LLVMStructTypeKind => {
                    offset += self.offset_of(ty, index);
                    ty = *ty.struct_types().get(index as usize)?;
                }
                TypeKind::LLVMArrayTypeKind => {
                    ty = ty.element();
                    offset += self.size_of(ty) * u64::from(index);
                }
                _ => return None,
            }
        }
        i64::try_from(offset).ok()
    }

    /// Byte offsets of the first pointers in a structure or array.
    #[must_use]
    pub fn pointer_offsets(&self, ty: Type<'_>) -> Vec<i64> {
        let mut found = Vec::new();
        self.add_pointer_offsets(ty, 0, &mut found);
        found
    }

    fn add_pointer_offsets(&self, ty: Type<'_>, offset: u64, found: &mut Vec<i64>) {
        if found.len() >= POINTERS_MAX {
            return;
        }
        match ty.kind() {
            TypeKind::LLVMPointerTypeKind => found.extend(i64::try_from(offset)),
            TypeKind::LLVMArrayTypeKind => {
                let element = ty.element();
                for index in 0..ty.array_length().unwrap_or(0).min(POINTERS_MAX as u64) {
                    self.add_pointer_offsets(element, offset + index * self.size_of(element), found);
                }
            }
            TypeKind::LLVMStructTypeKind => {
                for (index, field) in (0..).zip(ty.struct_types()) {
                    self.add_pointer_offsets(field, offset + self.offset_of(ty, index), found);
                }
            }
            _ => {}
        }
    }
}

impl Type<'_> {
    /// Whether the layout knows the size of a type: scalable vectors and opaque types have none.
    #[must_use]
    pub fn has_fixed_size(self) -> bool {
        match self.kind() {
            TypeKind::LLVMScalableVectorTypeKind => false,
            TypeKind::LLVMArrayTypeKind | TypeKind::LLVMVectorTypeKind => self.element().has_fixed_size(),
            TypeKind::LLVMStructTypeKind => {
                self.basic().is_sized() && self.struct_types().into_iter().all(Type::has_fixed_size)
            }
            _ => self.as_basic().is_some(),
        }
    }
}
