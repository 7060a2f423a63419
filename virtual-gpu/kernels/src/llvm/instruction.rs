//! Instructions and basic blocks.
//!
//! Trap: most functions are valid only for certain opcodes (`incoming` for a PHI, `callee` for a call); callers must
//! check the opcode first.

use llvm_sys::core::*;
use llvm_sys::debuginfo::*;
use llvm_sys::prelude::*;

use super::{Block, LLVMIntPredicate, Type, Value, attribute_kind, bytes_at, llvm, name_of_length, walk};

impl Value {
    pub fn parent(self) -> Block {
        Block(llvm!(LLVMGetInstructionParent(self.0)))
    }

    pub fn erase(self) {
        llvm!(LLVMInstructionEraseFromParent(self.0));
    }

    /// The function that a call names; `None` if it calls through a pointer or is inline assembly.
    pub fn callee(self) -> Option<Value> {
        let called = self.called_value();
        called.is_function().then_some(called)
    }

    pub fn called_value(self) -> Value {
        Value(llvm!(LLVMGetCalledValue(self.0)))
    }

    pub fn call_arguments(self) -> Vec<Value> {
        (0..llvm!(LLVMGetNumArgOperands(self.0))).map(|i| self.operand(i)).collect()
    }

    pub fn remove_call_attribute(self, name: &str) {
        let at = llvm_sys::LLVMAttributeFunctionIndex;
        llvm!(LLVMRemoveCallSiteEnumAttribute(self.0, at, attribute_kind(name)));
    }

    /// The text of inline assembly, for a called value.
    pub fn assembly(self) -> Option<String> {
        (!llvm!(LLVMIsAInlineAsm(self.0)).is_null())
            .then(|| name_of_length(|length| llvm!(LLVMGetInlineAsmAsmString(self.0, length))))
    }

    /// The constraints of inline assembly, for a called value.
    pub fn assembly_constraints(self) -> String {
        name_of_length(|length| llvm!(LLVMGetInlineAsmConstraintString(self.0, length)))
    }

    pub fn called_function_type(self) -> Type {
        Type(llvm!(LLVMGetCalledFunctionType(self.0)))
    }

    /// Makes a call use another function of the same type.
    pub fn set_called_value(self, function: Value) {
        // The called value is a call's last operand.
        let last = llvm!(LLVMGetNumOperands(self.0)) - 1;
        llvm!(LLVMSetOperand(self.0, last as u32, function.0));
    }

    pub fn incoming(self) -> Vec<(Value, Block)> {
        (0..llvm!(LLVMCountIncoming(self.0)))
            .map(|i| {
                (Value(llvm!(LLVMGetIncomingValue(self.0, i))), Block(llvm!(LLVMGetIncomingBlock(self.0, i))))
            })
            .collect()
    }

    /// Blocks to which a terminator may branch.
    pub fn successors(self) -> Vec<Block> {
        (0..llvm!(LLVMGetNumSuccessors(self.0))).map(|i| Block(llvm!(LLVMGetSuccessor(self.0, i)))).collect()
    }

    /// The next instruction in its block; not for a terminator.
    pub fn next_instruction(self) -> Value {
        Value(llvm!(LLVMGetNextInstruction(self.0)))
    }

    pub fn set_successor(self, index: u32, block: Block) {
        llvm!(LLVMSetSuccessor(self.0, index, block.0));
    }

    /// Predicate of an integer comparison.
    pub fn predicate(self) -> LLVMIntPredicate {
        llvm!(LLVMGetICmpPredicate(self.0))
    }

    /// True for an `or` whose operands have no bit in common, so that it equals an addition.
    pub fn is_disjoint(self) -> bool {
        llvm!(LLVMGetIsDisjoint(self.0)) != 0
    }

    /// True for a zero extension of a number that is known not to have the highest bit set.
    pub fn is_never_negative(self) -> bool {
        llvm!(LLVMGetNNeg(self.0)) != 0
    }

    /// Removes flags that can make an instruction's result poison: no wrap, exact, non-negative and so on.
    pub fn drop_poison_flags(self) {
        use super::Opcode::*;
        match self.opcode() {
            Some(LLVMAdd | LLVMSub | LLVMMul | LLVMShl) => {
                llvm!(LLVMSetNUW(self.0, 0));
                llvm!(LLVMSetNSW(self.0, 0));
            }
            Some(LLVMUDiv | LLVMSDiv | LLVMLShr | LLVMAShr) => llvm!(LLVMSetExact(self.0, 0)),
            Some(LLVMZExt) => llvm!(LLVMSetNNeg(self.0, 0)),
            Some(LLVMOr) => llvm!(LLVMSetIsDisjoint(self.0, 0)),
            #[cfg(feature = "llvm22")]
            Some(LLVMGetElementPtr) => llvm!(LLVMGEPSetNoWrapFlags(self.0, 0)),
            #[cfg(not(feature = "llvm22"))]
            Some(LLVMGetElementPtr) => llvm!(LLVMSetIsInBounds(self.0, 0)),
            _ => {}
        }
    }

    /// True for a volatile load or store.
    pub fn is_volatile(self) -> bool {
        llvm!(LLVMGetVolatile(self.0)) != 0
    }

    /// True for an atomic load or store.
    pub fn is_atomic(self) -> bool {
        llvm!(LLVMGetOrdering(self.0)) != llvm_sys::LLVMAtomicOrdering::LLVMAtomicOrderingNotAtomic
    }

    /// True for an atomic read-modify-write that leaves the value unchanged, or stores a value that does not depend on
    /// it.
    pub fn ignores_or_keeps_old(self) -> bool {
        use llvm_sys::LLVMAtomicRMWBinOp::*;
        let constant = self.operand(1).constant_integer();
        match llvm!(LLVMGetAtomicRMWBinOp(self.0)) {
            LLVMAtomicRMWBinOpXchg => true,
            LLVMAtomicRMWBinOpAdd
            | LLVMAtomicRMWBinOpSub
            | LLVMAtomicRMWBinOpOr
            | LLVMAtomicRMWBinOpXor
            | LLVMAtomicRMWBinOpUMax => constant == Some(0),
            _ => false,
        }
    }

    /// Type that a stack slot holds.
    pub fn allocated_type(self) -> Type {
        Type(llvm!(LLVMGetAllocatedType(self.0)))
    }

    pub fn gep_source(self) -> Type {
        Type(llvm!(LLVMGetGEPSourceElementType(self.0)))
    }

    /// `file:line` of the outermost inlined call, which is the line in the user's kernel.
    pub fn source_place(self) -> Option<String> {
        self.source_places().pop()
    }

    /// `file:line` of the instruction, and of each inlined call around it, from the inside out.
    pub fn source_places(self) -> Vec<String> {
        let first = llvm!(LLVMInstructionGetDebugLoc(self.0));
        let outer = |at| llvm!(LLVMDILocationGetInlinedAt(at));
        walk(first, outer).map_while(place_of).collect()
    }
}

/// `file:line` of a location; `None` if it has no file.
fn place_of(location: LLVMMetadataRef) -> Option<String> {
    let file = llvm!(LLVMDIScopeGetFile(LLVMDILocationGetScope(location)));
    if file.is_null() {
        return None;
    }
    let mut length = 0;
    let start = llvm!(LLVMDIFileGetFilename(file, &mut length));
    Some(format!("{}:{}", bytes_at(start, length as usize), llvm!(LLVMDILocationGetLine(location))))
}

impl Block {
    pub fn instructions(self) -> Vec<Value> {
        let first = llvm!(LLVMGetFirstInstruction(self.0));
        walk(first, |i| llvm!(LLVMGetNextInstruction(i))).map(Value).collect()
    }

    pub fn name(self) -> String {
        // SAFETY: the name is NUL-terminated and lives as long as the block keeps it; copied at once.
        unsafe { std::ffi::CStr::from_ptr(LLVMGetBasicBlockName(self.0)) }.to_string_lossy().into_owned()
    }

    pub fn set_name(self, name: &str) {
        Value(self.as_value()).set_name(name);
    }

    pub fn function(self) -> Value {
        Value(llvm!(LLVMGetBasicBlockParent(self.0)))
    }

    pub fn terminator(self) -> Value {
        Value(llvm!(LLVMGetBasicBlockTerminator(self.0)))
    }

    /// Moves this block after `other`, into `other`'s function.
    pub fn move_after(self, other: Block) {
        llvm!(LLVMMoveBasicBlockAfter(self.0, other.0));
    }

    pub(super) fn as_value(self) -> LLVMValueRef {
        llvm!(LLVMBasicBlockAsValue(self.0))
    }

    /// Redirects references to this block (branches to it, and PHIs of its successors) to `other`.
    pub(super) fn replace_uses_with(self, other: Block) {
        llvm!(LLVMReplaceAllUsesWith(self.as_value(), other.as_value()));
    }
}
