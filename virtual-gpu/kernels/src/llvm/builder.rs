//! Builds instructions, and splits blocks.
//!
//! Trap: a builder inserts where it was last positioned; position it again before each group of instructions.

use llvm_sys::core::*;
use llvm_sys::prelude::*;

use super::{Block, LLVMIntPredicate, Opcode, Type, TypeKind, Value, llvm};

pub(crate) struct Builder {
    pub(super) raw: LLVMBuilderRef,
    pub(super) context: LLVMContextRef,
}

/// A block cut in two.
#[derive(Clone, Copy)]
pub(crate) struct Split {
    /// New, and without a terminator.
    pub head: Block,
    pub tail: Block,
}

impl Builder {
    pub fn before(&self, instruction: Value) -> &Self {
        llvm!(LLVMPositionBuilderBefore(self.raw, instruction.0));
        self
    }

    pub fn at_end(&self, block: Block) -> &Self {
        llvm!(LLVMPositionBuilderAtEnd(self.raw, block.0));
        self
    }

    /// Moves everything before `instruction` in its block to a new block in front of it, without a terminator, and
    /// returns both blocks. `instruction` and the rest stay in the original block, so PHIs of its successors stay
    /// valid. PHIs are moved, not copied, so values found before stay valid.
    pub fn split_before(&self, instruction: Value, name: &str) -> Split {
        let tail = instruction.parent();
        let head = Block(llvm!(LLVMInsertBasicBlockInContext(self.context, tail.0, c"".as_ptr())));
        let old_name = tail.name();
        tail.set_name(name);
        head.set_name(&old_name);
        // Without its terminator the block has no successors, so only branches to it are redirected: PHIs of its
        // successors, its own among them, still name it.
        let end = tail.terminator();
        llvm!(LLVMInstructionRemoveFromParent(end.0));
        tail.replace_uses_with(head);
        llvm!(LLVMPositionBuilderAtEnd(self.raw, tail.0));
        llvm!(LLVMInsertIntoBuilder(self.raw, end.0));
        self.at_end(head);
        for moved in tail.instructions().into_iter().take_while(|&other| other != instruction) {
            self.move_here(moved);
        }
        Split { head, tail }
    }

    pub fn call(&self, function: Value, args: &[Value]) -> Value {
        self.call_typed(function.value_type(), function, args)
    }

    fn call_typed(&self, ty: Type, function: Value, args: &[Value]) -> Value {
        let mut args: Vec<LLVMValueRef> = args.iter().map(|v| v.0).collect();
        let count = args.len() as u32;
        Value(llvm!(LLVMBuildCall2(self.raw, ty.0, function.0, args.as_mut_ptr(), count, c"".as_ptr())))
    }

    pub fn alloca(&self, ty: Type, align: u32) -> Value {
        let slot = Value(llvm!(LLVMBuildAlloca(self.raw, ty.0, c"".as_ptr())));
        slot.set_alignment(align);
        slot
    }

    pub fn store(&self, value: Value, pointer: Value) -> Value {
        Value(llvm!(LLVMBuildStore(self.raw, value.0, pointer.0)))
    }

    pub fn copy_bytes(&self, to: Value, from: Value, align: u32, bytes: Value) -> Value {
        Value(llvm!(LLVMBuildMemCpy(self.raw, to.0, align, from.0, align, bytes.0)))
    }

    /// `pointer + offset` in bytes.
    pub fn offset(&self, pointer: Value, bytes: Value) -> Value {
        let i8 = llvm!(LLVMInt8TypeInContext(self.context));
        let mut index = bytes.0;
        Value(llvm!(LLVMBuildGEP2(self.raw, i8, pointer.0, &mut index, 1, c"".as_ptr())))
    }

    pub fn gep(&self, source: Type, operands: &[Value]) -> Value {
        let mut indices: Vec<LLVMValueRef> = operands[1..].iter().map(|v| v.0).collect();
        let count = indices.len() as u32;
        let pointer = operands[0].0;
        Value(llvm!(LLVMBuildGEP2(self.raw, source.0, pointer, indices.as_mut_ptr(), count, c"".as_ptr())))
    }

    pub fn cast(&self, opcode: Opcode, value: Value, to: Type) -> Value {
        Value(llvm!(LLVMBuildCast(self.raw, opcode, value.0, to.0, c"".as_ptr())))
    }

    pub fn binary(&self, opcode: Opcode, left: Value, right: Value) -> Value {
        Value(llvm!(LLVMBuildBinOp(self.raw, opcode, left.0, right.0, c"".as_ptr())))
    }

    pub fn address_space_cast(&self, value: Value, to: Type) -> Value {
        if value.ty() == to {
            return value;
        }
        Value(llvm!(LLVMBuildAddrSpaceCast(self.raw, value.0, to.0, c"".as_ptr())))
    }

    pub fn equal(&self, left: Value, right: Value) -> Value {
        let equal = LLVMIntPredicate::LLVMIntEQ;
        Value(llvm!(LLVMBuildICmp(self.raw, equal, left.0, right.0, c"".as_ptr())))
    }

    /// Zero-extends or truncates.
    pub fn cast_integer(&self, value: Value, to: Type) -> Value {
        Value(llvm!(LLVMBuildIntCast2(self.raw, value.0, to.0, 0, c"".as_ptr())))
    }

    /// Converts `value` to type `to`; `None` if they differ by more than the address space.
    pub fn fit(&self, value: Value, to: Type) -> Option<Value> {
        let pointers = [value.ty(), to].map(|t| t.kind() == TypeKind::LLVMPointerTypeKind);
        match pointers {
            _ if value.ty() == to => Some(value),
            [true, true] => Some(self.address_space_cast(value, to)),
            _ => None,
        }
    }

    /// Moves an instruction from its block to this position.
    pub fn move_here(&self, instruction: Value) {
        llvm!(LLVMInstructionRemoveFromParent(instruction.0));
        llvm!(LLVMInsertIntoBuilder(self.raw, instruction.0));
    }

    /// A copy of `instruction`, with the same operands.
    pub fn clone_here(&self, instruction: Value) -> Value {
        let copy = llvm!(LLVMInstructionClone(instruction.0));
        llvm!(LLVMInsertIntoBuilder(self.raw, copy));
        Value(copy)
    }

    /// Returns `value`, or an arbitrary but fixed value if it is poison.
    pub fn freeze(&self, value: Value) -> Value {
        Value(llvm!(LLVMBuildFreeze(self.raw, value.0, c"".as_ptr())))
    }

    pub fn load(&self, ty: Type, pointer: Value) -> Value {
        Value(llvm!(LLVMBuildLoad2(self.raw, ty.0, pointer.0, c"".as_ptr())))
    }

    pub fn branch(&self, to: Block) -> Value {
        Value(llvm!(LLVMBuildBr(self.raw, to.0)))
    }

    pub fn branch_if(&self, condition: Value, then: Block, otherwise: Block) -> Value {
        Value(llvm!(LLVMBuildCondBr(self.raw, condition.0, then.0, otherwise.0)))
    }

    /// Emits `switch value`, with `otherwise` as the default.
    pub fn switch(&self, value: Value, otherwise: Block, cases: &[(u64, Block)]) {
        let switch = llvm!(LLVMBuildSwitch(self.raw, value.0, otherwise.0, cases.len() as u32));
        for &(case, block) in cases {
            llvm!(LLVMAddCase(switch, value.ty().constant(case).0, block.0));
        }
    }

    pub fn return_nothing(&self) {
        llvm!(LLVMBuildRetVoid(self.raw));
    }

    pub fn return_value(&self, value: Value) {
        llvm!(LLVMBuildRet(self.raw, value.0));
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        llvm!(LLVMDisposeBuilder(self.raw));
    }
}
