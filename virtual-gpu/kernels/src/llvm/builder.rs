//! Makes instructions, and the one piece of control-flow surgery: splitting a block.
//!
//! Trap: a builder inserts where it was last positioned, and keeps doing so before or at the end of that place; position
//! it anew before each group of instructions.

use llvm_sys::core::*;
use llvm_sys::prelude::*;

use super::{Block, Opcode, Type, TypeKind, Value, c_string, llvm};

pub(crate) struct Builder {
    pub(super) raw: LLVMBuilderRef,
    pub(super) context: LLVMContextRef,
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

    /// Moves `instruction` and all that follow it in its block into a new block, and returns that one. The old block is
    /// left without a terminator, and the PHIs of the old block's successors name the new one.
    pub fn split_before(&self, instruction: Value, name: &str) -> Block {
        let head = instruction.parent();
        let name = c_string(name);
        let function = llvm!(LLVMGetBasicBlockParent(head.0));
        let tail = Block(llvm!(LLVMAppendBasicBlockInContext(self.context, function, name.as_ptr())));
        tail.move_after(head);
        // The first call redirects branches to `head` and the successors' PHIs; the second brings the branches back and
        // leaves the PHIs, because `tail` has no terminator yet and so no successors.
        head.replace_uses_with(tail);
        tail.replace_uses_with(head);
        let instructions = head.instructions();
        let first = instructions.iter().position(|&i| i == instruction).expect("it is in its parent");
        self.at_end(tail);
        for moved in &instructions[first..] {
            self.move_here(*moved);
        }
        // A block that is its own successor: when its PHIs were looked for, the branch led to `tail` already.
        for phi in head.instructions().into_iter().filter(|i| i.opcode() == Some(Opcode::LLVMPHI)) {
            if phi.incoming().iter().any(|(_, from)| *from == head) {
                self.rename_incoming(phi, head, tail);
            }
        }
        tail
    }

    /// What came to `phi` from one block comes from another now.
    fn rename_incoming(&self, phi: Value, from: Block, to: Block) {
        self.before(phi);
        let renamed = Value(llvm!(LLVMBuildPhi(self.raw, phi.ty().0, c"".as_ptr())));
        for (value, block) in phi.incoming() {
            let (mut value, mut block) = (value.0, if block == from { to.0 } else { block.0 });
            llvm!(LLVMAddIncoming(renamed.0, &mut value, &mut block, 1));
        }
        phi.replace_uses_with(renamed);
        phi.erase();
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

    /// Zero-extends or truncates.
    pub fn cast_integer(&self, value: Value, to: Type) -> Value {
        Value(llvm!(LLVMBuildIntCast2(self.raw, value.0, to.0, 0, c"".as_ptr())))
    }

    /// `value` as a `to`, if they differ by address space at most.
    pub fn fit(&self, value: Value, to: Type) -> Option<Value> {
        let pointers = [value.ty(), to].map(|t| t.kind() == TypeKind::LLVMPointerTypeKind);
        match pointers {
            _ if value.ty() == to => Some(value),
            [true, true] => Some(self.address_space_cast(value, to)),
            _ => None,
        }
    }

    /// Takes an instruction out of its block and inserts it here.
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

    /// `value`, but some one value where it would be poison.
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

    /// `switch value`, to `otherwise` unless one of `cases` holds.
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
