//! Read access to a module that clang owns: small copyable handles with safe methods over the LLVM C API.
//!
//! Invariant of every handle: it was obtained from the module borrowed for `'m`, and nothing that lives in a `Facts`
//! or in a snapshot of a function is deleted while the borrow lasts; the writers in `emit` only add instructions, split
//! edges and rename declarations. Trap: operands may be metadata or tokens, which have no first-class type, so code
//! must test the kind before it asks for a width.

use std::ffi::{CStr, CString};
use std::marker::PhantomData;

use llvm_sys::core::*;
use llvm_sys::prelude::*;
use llvm_sys::{LLVMLinkage, LLVMOpcode, LLVMTypeKind};

unsafe extern "C" {
    fn eager_constant_offset(module: LLVMModuleRef, gep: LLVMValueRef, offset: *mut i64) -> bool;
}

/// More pointers of one struct are not told apart.
const POINTERS_MAX: usize = 64;

/// The module that clang handed to the pass.
#[derive(Clone, Copy, Debug)]
pub struct Module<'m> {
    raw: LLVMModuleRef,
    lifetime: PhantomData<&'m ()>,
}

/// Any value: function, global, argument, constant or instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Value<'m> {
    raw: LLVMValueRef,
    lifetime: PhantomData<&'m ()>,
}

/// A basic block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block<'m> {
    raw: LLVMBasicBlockRef,
    lifetime: PhantomData<&'m ()>,
}

/// Where an instruction comes from in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLocation {
    pub file: String,
    pub line: u32,
}

pub(crate) fn text(bytes: *const libc::c_char, len: usize) -> String {
    if bytes.is_null() {
        return String::new();
    }
    // SAFETY: LLVM returned `bytes` together with its length; both describe memory that the module keeps alive.
    let slice = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len) };
    String::from_utf8_lossy(slice).into_owned()
}

impl<'m> Module<'m> {
    /// Borrows a module.
    ///
    /// # Safety
    /// `raw` is a live module, and stays so for `'m`; nobody else changes it meanwhile.
    #[must_use]
    pub unsafe fn from_raw(raw: LLVMModuleRef) -> Self {
        Self { raw, lifetime: PhantomData }
    }

    #[must_use]
    pub fn raw(self) -> LLVMModuleRef {
        self.raw
    }

    #[must_use]
    pub fn context(self) -> LLVMContextRef {
        // SAFETY: the module is live (type invariant); this only reads a field.
        unsafe { LLVMGetModuleContext(self.raw) }
    }

    #[must_use]
    pub fn triple(self) -> String {
        // SAFETY: the module is live, and its triple is a NUL-terminated string that it owns.
        unsafe { CStr::from_ptr(LLVMGetTarget(self.raw)) }.to_string_lossy().into_owned()
    }

    #[must_use]
    pub fn source_name(self) -> String {
        let mut len = 0;
        // SAFETY: the module is live; `len` receives the length of the string that it owns.
        let bytes = unsafe { LLVMGetSourceFileName(self.raw, &raw mut len) };
        text(bytes, len)
    }

    /// Names the module after what is made of it.
    pub fn set_source_name(self, name: &str) {
        // SAFETY: the module is live and copies the `name.len()` bytes.
        unsafe { LLVMSetSourceFileName(self.raw, name.as_ptr().cast(), name.len()) };
    }

    /// Every function, declarations too, in module order.
    #[must_use]
    pub fn functions(self) -> Vec<Value<'m>> {
        let mut found = Vec::new();
        // SAFETY: the module is live; the iteration below makes no change to its function list.
        let mut next = unsafe { LLVMGetFirstFunction(self.raw) };
        while let Some(function) = Value::from_raw(next) {
            found.push(function);
            // SAFETY: `next` is a function of the live module.
            next = unsafe { LLVMGetNextFunction(next) };
        }
        found
    }

    /// Every global variable, in module order.
    #[must_use]
    pub fn globals(self) -> Vec<Value<'m>> {
        let mut found = Vec::new();
        // SAFETY: the module is live; the iteration below makes no change to its list of globals.
        let mut next = unsafe { LLVMGetFirstGlobal(self.raw) };
        while let Some(global) = Value::from_raw(next) {
            found.push(global);
            // SAFETY: `next` is a global of that module.
            next = unsafe { LLVMGetNextGlobal(next) };
        }
        found
    }

    #[must_use]
    pub fn function(self, name: &str) -> Option<Value<'m>> {
        let name = CString::new(name).ok()?;
        // SAFETY: the module is live and `name` is NUL-terminated for the length of the call.
        Value::from_raw(unsafe { LLVMGetNamedFunction(self.raw, name.as_ptr()) })
    }

    #[must_use]
    pub fn global(self, name: &str) -> Option<Value<'m>> {
        let name = CString::new(name).ok()?;
        // SAFETY: the module is live and `name` is NUL-terminated for the length of the call.
        Value::from_raw(unsafe { LLVMGetNamedGlobal(self.raw, name.as_ptr()) })
    }

    /// Size in bytes that the target gives to a type.
    #[must_use]
    pub fn size_bytes(self, ty: LLVMTypeRef) -> u64 {
        // SAFETY: the type belongs to the module's context and is sized (callers pass allocated or byval types only).
        unsafe {
            llvm_sys::target::LLVMABISizeOfType(llvm_sys::target::LLVMGetModuleDataLayout(self.raw), ty)
        }
    }

    /// The byte offset of the field that an `extractvalue` or `insertvalue` speaks of.
    #[must_use]
    pub fn field_offset(self, access: Value<'m>) -> Option<i64> {
        let indices = access.field_indices();
        // SAFETY: the type is that of operand 0, an aggregate, and each index is one of an instruction on it, so it is in
        // range at its level; offsets are asked of the module's own layout.
        unsafe {
            let layout = llvm_sys::target::LLVMGetModuleDataLayout(self.raw);
            let mut ty = access.operand(0)?.ty();
            let mut offset = 0;
            for index in indices {
                match LLVMGetTypeKind(ty) {
                    LLVMTypeKind::LLVMStructTypeKind => {
                        offset += llvm_sys::target::LLVMOffsetOfElement(layout, ty, index);
                        ty = LLVMStructGetTypeAtIndex(ty, index);
                    }
                    LLVMTypeKind::LLVMArrayTypeKind => {
                        ty = LLVMGetElementType(ty);
                        offset += self.size_bytes(ty) * u64::from(index);
                    }
                    _ => return None,
                }
            }
            i64::try_from(offset).ok()
        }
    }

    /// The byte offsets of the pointers in a struct or array; at most [`POINTERS_MAX`].
    #[must_use]
    pub fn pointer_offsets(self, ty: LLVMTypeRef) -> Vec<i64> {
        let mut found = Vec::new();
        self.add_pointer_offsets(ty, 0, &mut found);
        found
    }

    fn add_pointer_offsets(self, ty: LLVMTypeRef, offset: u64, found: &mut Vec<i64>) {
        if found.len() >= POINTERS_MAX {
            return;
        }
        // SAFETY: `ty` is a live type of the module's context; element accessors are called on the kinds that have
        // elements, with indices below their count.
        unsafe {
            match LLVMGetTypeKind(ty) {
                LLVMTypeKind::LLVMPointerTypeKind => found.extend(i64::try_from(offset)),
                LLVMTypeKind::LLVMArrayTypeKind => {
                    let element = LLVMGetElementType(ty);
                    for index in 0..LLVMGetArrayLength2(ty).min(POINTERS_MAX as u64) {
                        self.add_pointer_offsets(element, offset + index * self.size_bytes(element), found);
                    }
                }
                LLVMTypeKind::LLVMStructTypeKind => {
                    let layout = llvm_sys::target::LLVMGetModuleDataLayout(self.raw);
                    for index in 0..LLVMCountStructElementTypes(ty) {
                        let inner = llvm_sys::target::LLVMOffsetOfElement(layout, ty, index);
                        self.add_pointer_offsets(LLVMStructGetTypeAtIndex(ty, index), offset + inner, found);
                    }
                }
                _ => {}
            }
        }
    }

    /// The byte offset of a `getelementptr` whose indices are all constant.
    #[must_use]
    pub fn constant_offset(self, gep: Value<'m>) -> Option<i64> {
        let mut offset = 0;
        // SAFETY: both handles are live; the C++ side checks that the value is a getelementptr at all.
        unsafe { eager_constant_offset(self.raw, gep.raw, &raw mut offset) }.then_some(offset)
    }
}

impl<'m> Value<'m> {
    /// `None` for null, which is how LLVM says "no such value".
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

    /// A function or variable without a body in this module.
    #[must_use]
    pub fn is_declaration(self) -> bool {
        // SAFETY: callers ask this of globals only, which the kind test in front makes sure of.
        self.is_global() && unsafe { LLVMIsDeclaration(self.raw) } != 0
    }

    /// A function or a global variable.
    #[must_use]
    pub fn is_global(self) -> bool {
        // SAFETY: the value is live; this is a kind test.
        !unsafe { LLVMIsAGlobalValue(self.raw) }.is_null()
    }

    /// The initial value of a global variable.
    #[must_use]
    pub fn initializer(self) -> Option<Value<'m>> {
        // SAFETY: a live value; only a global variable has an initializer, and LLVM gives null if it has none.
        unsafe {
            let global = LLVMIsAGlobalVariable(self.raw);
            if global.is_null() { None } else { Self::from_raw(LLVMGetInitializer(global)) }
        }
    }

    /// A global variable, as opposed to a function or an alias.
    #[must_use]
    pub fn is_variable(self) -> bool {
        // SAFETY: the value is live; this is a kind test.
        !unsafe { LLVMIsAGlobalVariable(self.raw) }.is_null()
    }

    /// A global variable that is never written.
    #[must_use]
    pub fn is_constant_variable(self) -> bool {
        // SAFETY: the mark is read only of global variables.
        self.is_variable() && unsafe { LLVMIsGlobalConstant(self.raw) } != 0
    }

    /// A function or variable that no other object can name.
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

    /// A load that the program wants to happen exactly once.
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

    /// The indices of an `extractvalue` or `insertvalue`; none for anything else.
    fn field_indices(self) -> Vec<u32> {
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

    /// Position of an argument in its function's list.
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

    /// The blocks of a function, entry first.
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

    /// The opcode of an instruction or of a constant expression.
    #[must_use]
    pub fn expression_opcode(self) -> Option<LLVMOpcode> {
        self.opcode().or_else(|| {
            // SAFETY: the opcode is read only after the kind test says that it is a constant expression.
            unsafe { (!LLVMIsAConstantExpr(self.raw).is_null()).then(|| LLVMGetConstOpcode(self.raw)) }
        })
    }

    /// Operands of an instruction or a constant; blocks and callees included.
    #[must_use]
    pub fn operands(self) -> Vec<Value<'m>> {
        // SAFETY: the value is live; LLVM answers 0 (or -1 for plain values) where there are none.
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

    /// The text of a constant C string (a global whose initializer is a byte array), without its NUL.
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

    /// Whether it is a call that must be the last thing its function does.
    #[must_use]
    pub fn is_must_tail(self) -> bool {
        self.opcode() == Some(LLVMOpcode::LLVMCall)
            // SAFETY: the instruction is a call (tested in front).
            && unsafe { LLVMGetTailCallKind(self.raw) } == llvm_sys::LLVMTailCallKind::LLVMTailCallKindMustTail
    }

    /// The function or pointer that a call or invoke calls.
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

    /// The name of a directly called function.
    #[must_use]
    pub fn callee_name(self) -> Option<String> {
        self.callee().filter(|callee| callee.is_function()).map(Value::name)
    }

    /// The arguments of a call or invoke, callee excluded.
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

    /// The type that an `alloca` allocates, when it allocates one of it.
    #[must_use]
    pub fn allocated_type(self) -> Option<LLVMTypeRef> {
        // SAFETY: the type is read only if the value is an alloca.
        (self.opcode() == Some(LLVMOpcode::LLVMAlloca)).then(|| unsafe { LLVMGetAllocatedType(self.raw) })
    }

    /// The type of a `byval` parameter.
    #[must_use]
    pub fn byval_type(self) -> Option<LLVMTypeRef> {
        let index = u32::try_from(self.argument_index()?).ok()? + 1;
        // SAFETY: the value is an argument (it has an index), so the parent exists and the attribute index is in range.
        unsafe {
            type_attribute(|kind| LLVMGetEnumAttributeAtIndex(LLVMGetParamParent(self.raw), index, kind))
        }
    }

    /// The type of the `byval` argument `index` at a call.
    #[must_use]
    pub fn call_byval_type(self, index: usize) -> Option<LLVMTypeRef> {
        let index = u32::try_from(index).ok()? + 1;
        self.callee()?;
        // SAFETY: the instruction is a call (it has a callee); an index without attributes gives null.
        unsafe { type_attribute(|kind| LLVMGetCallSiteEnumAttribute(self.raw, index, kind)) }
    }

    /// The source file and line of an instruction; needs line tables or location tracking at compile time.
    #[must_use]
    pub fn location(self) -> Option<SourceLocation> {
        self.opcode()?;
        // SAFETY: the value is an instruction (it has an opcode); LLVM answers line 0 without debug information.
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

/// Whether a value of this type can hold a pointer.
#[must_use]
pub fn type_holds_pointer(ty: LLVMTypeRef) -> bool {
    // SAFETY: `ty` is a live type of the module's context; element accessors are called on the kinds that have elements.
    unsafe {
        match LLVMGetTypeKind(ty) {
            LLVMTypeKind::LLVMPointerTypeKind => true,
            LLVMTypeKind::LLVMArrayTypeKind => type_holds_pointer(LLVMGetElementType(ty)),
            LLVMTypeKind::LLVMStructTypeKind => (0..LLVMCountStructElementTypes(ty))
                .any(|i| type_holds_pointer(LLVMStructGetTypeAtIndex(ty, i))),
            _ => false,
        }
    }
}

impl<'m> Block<'m> {
    #[must_use]
    pub fn from_raw(raw: LLVMBasicBlockRef) -> Option<Self> {
        (!raw.is_null()).then_some(Self { raw, lifetime: PhantomData })
    }

    #[must_use]
    pub fn raw(self) -> LLVMBasicBlockRef {
        self.raw
    }

    #[must_use]
    pub fn instructions(self) -> Vec<Value<'m>> {
        let mut found = Vec::new();
        // SAFETY: the block is live; its list is not changed during the iteration.
        let mut next = unsafe { LLVMGetFirstInstruction(self.raw) };
        while let Some(instruction) = Value::from_raw(next) {
            found.push(instruction);
            // SAFETY: `next` is an instruction of that block.
            next = unsafe { LLVMGetNextInstruction(next) };
        }
        found
    }

    #[must_use]
    pub fn function(self) -> Option<Value<'m>> {
        // SAFETY: the block is live and lies in a function.
        Value::from_raw(unsafe { LLVMGetBasicBlockParent(self.raw) })
    }

    /// The blocks that end in a branch to this one, each once.
    #[must_use]
    pub fn predecessors(self) -> Vec<Block<'m>> {
        // SAFETY: the block is live; blocks are values too, and the users of a block's value are terminators.
        let users = Value::from_raw(unsafe { LLVMBasicBlockAsValue(self.raw) }).map(Value::users);
        let mut found: Vec<_> = users.unwrap_or_default().into_iter().filter_map(Value::block).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    #[must_use]
    pub fn successors(self) -> Vec<Block<'m>> {
        // SAFETY: a block of a complete function has a terminator, and indices stay below its successor count.
        unsafe {
            let terminator = LLVMGetBasicBlockTerminator(self.raw);
            if terminator.is_null() {
                return Vec::new();
            }
            (0..LLVMGetNumSuccessors(terminator))
                .filter_map(|i| Block::from_raw(LLVMGetSuccessor(terminator, i)))
                .collect()
        }
    }
}
