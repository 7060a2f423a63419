//! Functions, globals, arguments, constants and instructions.
//!
//! Trap: only some kinds of value have the property that a method returns. Methods must test the kind first, because
//! the C API does not.

use std::ffi::CStr;
use std::marker::PhantomData;

use crate::llvm_sys::core::*;
use crate::llvm_sys::prelude::*;
use crate::llvm_sys::{LLVMLinkage, LLVMOpcode, LLVMTypeKind};

use super::{Block, text};

/// Any value: function, global, argument, constant or instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Value<'m> {
    raw: LLVMValueRef,
    lifetime: PhantomData<&'m ()>,
}

/// Source position of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLocation {
    pub file: String,
    pub line: u32,
}

impl<'m> Value<'m> {
    /// Wraps a value; `None` for null, which LLVM returns where there is no such value.
    #[must_use]
    pub fn from_raw(raw: LLVMValueRef) -> Option<Self> {
        (!raw.is_null()).then_some(Self { raw, lifetime: PhantomData })
    }

    #[must_use]
    pub fn raw(self) -> LLVMValueRef {
        self.raw
    }

    #[must_use]
    pub fn name(self) -> String {
        let mut len = 0;
        // SAFETY: the value is live; `len` receives the length of the name that it owns.
        let bytes = unsafe { LLVMGetValueName2(self.raw, &raw mut len) };
        text(bytes, len)
    }

    #[must_use]
    pub fn is_function(self) -> bool {
        // SAFETY: the value is live; this is a kind test.
        !unsafe { LLVMIsAFunction(self.raw) }.is_null()
    }

    /// Whether it is a function or variable without a body in this module.
    #[must_use]
    pub fn is_declaration(self) -> bool {
        // SAFETY: only globals have this property, and the kind test comes first.
        self.is_global() && unsafe { LLVMIsDeclaration(self.raw) } != 0
    }

    /// Whether it is a function or a global variable.
    #[must_use]
    pub fn is_global(self) -> bool {
        // SAFETY: the value is live; this is a kind test.
        !unsafe { LLVMIsAGlobalValue(self.raw) }.is_null()
    }

    /// Initial value of a global variable.
    #[must_use]
    pub fn initializer(self) -> Option<Value<'m>> {
        // SAFETY: a live value; only a global variable has an initializer, and LLVM gives null if it has none.
        unsafe {
            let global = LLVMIsAGlobalVariable(self.raw);
            if global.is_null() { None } else { Self::from_raw(LLVMGetInitializer(global)) }
        }
    }

    /// Whether it is a global variable, as opposed to a function or an alias.
    #[must_use]
    pub fn is_variable(self) -> bool {
        // SAFETY: the value is live; this is a kind test.
        !unsafe { LLVMIsAGlobalVariable(self.raw) }.is_null()
    }

    /// Whether it is a global variable that is never written.
    #[must_use]
    pub fn is_constant_variable(self) -> bool {
        // SAFETY: the mark is read only of global variables.
        self.is_variable() && unsafe { LLVMIsGlobalConstant(self.raw) } != 0
    }

    /// Whether it is a function or variable that no other object can name.
    #[must_use]
    pub fn is_internal(self) -> bool {
        // SAFETY: the linkage is read only of globals.
        self.is_global()
            && matches!(
                unsafe { LLVMGetLinkage(self.raw) },
                LLVMLinkage::LLVMInternalLinkage | LLVMLinkage::LLVMPrivateLinkage
            )
    }

    #[must_use]
    pub fn is_inline_assembly(self) -> bool {
        // SAFETY: the value is live; this is a kind test.
        !unsafe { LLVMIsAInlineAsm(self.raw) }.is_null()
    }

    /// Whether it is a load that must happen exactly once.
    #[must_use]
    pub fn is_volatile(self) -> bool {
        // SAFETY: the mark is read only of loads.
        self.opcode() == Some(LLVMOpcode::LLVMLoad) && unsafe { LLVMGetVolatile(self.raw) } != 0
    }

    #[must_use]
    pub fn ty(self) -> LLVMTypeRef {
        // SAFETY: every live value has a type.
        unsafe { LLVMTypeOf(self.raw) }
    }

    /// Indices of an `extractvalue` or `insertvalue`; empty for other values.
    pub(super) fn field_indices(self) -> Vec<u32> {
        if !matches!(self.opcode(), Some(LLVMOpcode::LLVMExtractValue | LLVMOpcode::LLVMInsertValue)) {
            return Vec::new();
        }
        // SAFETY: the instruction is of a kind that has indices (tested above); LLVM returns them with their count.
        unsafe {
            let count = LLVMGetNumIndices(self.raw) as usize;
            std::slice::from_raw_parts(LLVMGetIndices(self.raw), count).to_vec()
        }
    }

    #[must_use]
    pub fn is_constant(self) -> bool {
        // SAFETY: the value is live; this is a kind test.
        unsafe { LLVMIsConstant(self.raw) != 0 }
    }

    #[must_use]
    pub fn is_argument(self) -> bool {
        // SAFETY: the value is live; this is a kind test.
        !unsafe { LLVMIsAArgument(self.raw) }.is_null()
    }

    /// Position of an argument in its function's parameter list.
    #[must_use]
    pub fn argument_index(self) -> Option<usize> {
        if !self.is_argument() {
            return None;
        }
        // SAFETY: the value is an argument (tested above), so it has a parent function.
        let function = Value::from_raw(unsafe { LLVMGetParamParent(self.raw) })?;
        function.params().iter().position(|&param| param == self)
    }

    #[must_use]
    pub fn params(self) -> Vec<Value<'m>> {
        if !self.is_function() {
            return Vec::new();
        }
        // SAFETY: the value is a function (tested above) and the indices stay below its parameter count.
        unsafe {
            (0..LLVMCountParams(self.raw))
                .filter_map(|i| Value::from_raw(LLVMGetParam(self.raw, i)))
                .collect()
        }
    }

    /// Blocks of a function, the entry first.
    #[must_use]
    pub fn blocks(self) -> Vec<Block<'m>> {
        let mut found = Vec::new();
        if !self.is_function() {
            return found;
        }
        // SAFETY: the value is a function (tested above); the list is not changed during the iteration.
        let mut next = unsafe { LLVMGetFirstBasicBlock(self.raw) };
        while let Some(block) = Block::from_raw(next) {
            found.push(block);
            // SAFETY: `next` is a block of that function.
            next = unsafe { LLVMGetNextBasicBlock(next) };
        }
        found
    }

    #[must_use]
    pub fn opcode(self) -> Option<LLVMOpcode> {
        // SAFETY: the value is live; the opcode is read only after the kind test says that it is an instruction.
        unsafe { (!LLVMIsAInstruction(self.raw).is_null()).then(|| LLVMGetInstructionOpcode(self.raw)) }
    }

    /// Opcode of an instruction or of a constant expression.
    #[must_use]
    pub fn expression_opcode(self) -> Option<LLVMOpcode> {
        self.opcode().or_else(|| {
            // SAFETY: the opcode is read only after the kind test says that it is a constant expression.
            unsafe { (!LLVMIsAConstantExpr(self.raw).is_null()).then(|| LLVMGetConstOpcode(self.raw)) }
        })
    }

    /// Operands of an instruction or a constant, including blocks and callees.
    #[must_use]
    pub fn operands(self) -> Vec<Value<'m>> {
        // SAFETY: the value is live; LLVM returns 0 (or -1 for plain values) where there are none.
        let count = unsafe { if LLVMIsAUser(self.raw).is_null() { 0 } else { LLVMGetNumOperands(self.raw) } };
        (0..u32::try_from(count).unwrap_or(0))
            // SAFETY: the index is below the operand count.
            .filter_map(|i| Value::from_raw(unsafe { LLVMGetOperand(self.raw, i) }))
            .collect()
    }

    #[must_use]
    pub fn operand(self, index: usize) -> Option<Value<'m>> {
        self.operands().get(index).copied()
    }

    /// Instructions and constants that use this value.
    #[must_use]
    pub fn users(self) -> Vec<Value<'m>> {
        let mut found = Vec::new();
        // SAFETY: the value is live; the use list is not changed during the iteration.
        unsafe {
            let mut next = LLVMGetFirstUse(self.raw);
            while !next.is_null() {
                found.extend(Value::from_raw(LLVMGetUser(next)));
                next = LLVMGetNextUse(next);
            }
        }
        found
    }

    #[must_use]
    pub fn type_kind(self) -> LLVMTypeKind {
        // SAFETY: every live value has a type.
        unsafe { LLVMGetTypeKind(LLVMTypeOf(self.raw)) }
    }

    #[must_use]
    pub fn is_pointer(self) -> bool {
        self.type_kind() == LLVMTypeKind::LLVMPointerTypeKind
    }

    #[must_use]
    pub fn integer_bits(self) -> Option<u32> {
        // SAFETY: the width is read only of integer types.
        (self.type_kind() == LLVMTypeKind::LLVMIntegerTypeKind)
            .then(|| unsafe { LLVMGetIntTypeWidth(LLVMTypeOf(self.raw)) })
    }

    #[must_use]
    pub fn const_int(self) -> Option<u64> {
        if self.integer_bits().is_none_or(|bits| bits > 64) {
            return None;
        }
        // SAFETY: the value is read only if it is an integer constant of at most 64 bits.
        unsafe { (!LLVMIsAConstantInt(self.raw).is_null()).then(|| LLVMConstIntGetZExtValue(self.raw)) }
    }

    /// Text of a constant C string (a global whose initializer is a byte array), without its NUL.
    #[must_use]
    pub fn c_string(self) -> Option<String> {
        // SAFETY: each step is taken only if the kind test before it holds; the text belongs to the module.
        unsafe {
            if LLVMIsAGlobalVariable(self.raw).is_null() {
                return None;
            }
            let initializer = LLVMGetInitializer(self.raw);
            if initializer.is_null() || LLVMIsConstantString(initializer) == 0 {
                return None;
            }
            let mut len = 0;
            let bytes = LLVMGetAsString(initializer, &raw mut len);
            Some(text(bytes, len).trim_end_matches('\0').to_owned())
        }
    }

    /// Whether it is a `musttail` call, which nothing but a return may follow.
    #[must_use]
    pub fn is_must_tail(self) -> bool {
        self.opcode() == Some(LLVMOpcode::LLVMCall)
            // SAFETY: the instruction is a call (tested in front).
            && unsafe { LLVMGetTailCallKind(self.raw) } == crate::llvm_sys::LLVMTailCallKind::LLVMTailCallKindMustTail
    }

    /// Function or pointer that a call or invoke calls.
    #[must_use]
    pub fn callee(self) -> Option<Value<'m>> {
        match self.opcode() {
            Some(LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke) => {
                // SAFETY: the instruction is a call or invoke (matched above).
                Value::from_raw(unsafe { LLVMGetCalledValue(self.raw) })
            }
            _ => None,
        }
    }

    /// Name of a directly called function.
    #[must_use]
    pub fn callee_name(self) -> Option<String> {
        self.callee().filter(|callee| callee.is_function()).map(Value::name)
    }

    /// Arguments of a call or invoke, without the callee.
    #[must_use]
    pub fn call_args(self) -> Vec<Value<'m>> {
        if self.callee().is_none() {
            return Vec::new();
        }
        // SAFETY: the instruction is a call (it has a callee), and indices stay below its argument count.
        unsafe {
            (0..LLVMGetNumArgOperands(self.raw))
                .filter_map(|i| Value::from_raw(LLVMGetOperand(self.raw, i)))
                .collect()
        }
    }

    #[must_use]
    pub fn block(self) -> Option<Block<'m>> {
        self.opcode()?;
        // SAFETY: the value is an instruction (it has an opcode), and so has a parent block.
        Block::from_raw(unsafe { LLVMGetInstructionParent(self.raw) })
    }

    /// Type that an `alloca` allocates a single element of.
    #[must_use]
    pub fn allocated_type(self) -> Option<LLVMTypeRef> {
        // SAFETY: the type is read only if the value is an alloca.
        (self.opcode() == Some(LLVMOpcode::LLVMAlloca)).then(|| unsafe { LLVMGetAllocatedType(self.raw) })
    }

    /// Pointee type of a `byval` parameter.
    #[must_use]
    pub fn byval_type(self) -> Option<LLVMTypeRef> {
        let index = u32::try_from(self.argument_index()?).ok()? + 1;
        // SAFETY: the value is an argument (it has an index), so the parent exists and the attribute index is in range.
        unsafe {
            type_attribute(|kind| LLVMGetEnumAttributeAtIndex(LLVMGetParamParent(self.raw), index, kind))
        }
    }

    /// Pointee type of the `byval` argument `index` of a call.
    #[must_use]
    pub fn call_byval_type(self, index: usize) -> Option<LLVMTypeRef> {
        let index = u32::try_from(index).ok()? + 1;
        self.callee()?;
        // SAFETY: the instruction is a call (it has a callee); an index without attributes gives null.
        unsafe { type_attribute(|kind| LLVMGetCallSiteEnumAttribute(self.raw, index, kind)) }
    }

    /// Source file and line of an instruction; needs line tables or location tracking at compile time.
    #[must_use]
    pub fn location(self) -> Option<SourceLocation> {
        self.opcode()?;
        // SAFETY: the value is an instruction (it has an opcode); LLVM returns line 0 without debug information.
        let line = unsafe { LLVMGetDebugLocLine(self.raw) };
        if line == 0 {
            return None;
        }
        let mut len = 0;
        // SAFETY: as above; `len` receives the length of a string that the debug information owns.
        let bytes = unsafe { LLVMGetDebugLocFilename(self.raw, &raw mut len) };
        Some(SourceLocation { file: text(bytes, len as usize), line })
    }
}

/// # Safety
/// `get` looks up an enum attribute by kind on a live function or call.
unsafe fn type_attribute(get: impl FnOnce(u32) -> LLVMAttributeRef) -> Option<LLVMTypeRef> {
    const BYVAL: &CStr = c"byval";
    // SAFETY: the name is a valid string of the given length; the attribute, if there is one, is a type attribute.
    unsafe {
        let attribute = get(LLVMGetEnumAttributeKindForName(BYVAL.as_ptr(), BYVAL.count_bytes()));
        (!attribute.is_null()).then(|| LLVMGetTypeAttributeValue(attribute))
    }
}
