//! Instructions and blocks that change their place, and the end of instructions.

use inkwell::builder::Builder as InkBuilder;

use super::{Block, Value, c_string};
use crate::sys::core::*;

impl<'m> Value<'m> {
    /// Removes an instruction that nothing uses, and ends its life.
    #[track_caller]
    pub fn erase(self) {
        assert!(self.place().is_some(), "not an instruction in a block");
        assert!(self.users().is_empty(), "a used instruction cannot be erased");
        // SAFETY: a live instruction in a block, without users (asserted), so that nothing in the module leads to it; the
        // caller uses no handle to it any more (trap of this crate).
        unsafe { LLVMInstructionEraseFromParent(self.raw) };
    }

    /// Takes an instruction out of its block; it must be put into another one.
    fn take_out(self) {
        assert!(self.place().is_some(), "not an instruction in a block");
        // SAFETY: a live instruction in a block (asserted), which LLVM unlinks and keeps alive.
        unsafe { LLVMInstructionRemoveFromParent(self.raw) };
    }

    /// A copy of an instruction with the same operands, in no block.
    fn copied(self) -> Value<'m> {
        assert!(self.is_instruction(), "only instructions are copied");
        // SAFETY: a live instruction (asserted).
        unsafe { Value::certain(LLVMInstructionClone(self.raw)) }
    }
}

/// Moves an instruction to the builder's place.
pub(crate) fn move_to<'m>(builder: &InkBuilder<'m>, instruction: Value<'m>) {
    assert!(builder.get_insert_block().is_some(), "the builder is at no place");
    instruction.take_out();
    // SAFETY: a live builder at a place (asserted), and an instruction that is in no block now.
    unsafe { LLVMInsertIntoBuilder(builder.as_mut_ptr(), instruction.raw) };
}

/// Puts a copy of an instruction at the builder's place.
pub(crate) fn copy_to<'m>(builder: &InkBuilder<'m>, instruction: Value<'m>) -> Value<'m> {
    assert!(builder.get_insert_block().is_some(), "the builder is at no place");
    let copy = instruction.copied();
    // SAFETY: a live builder at a place (asserted), and an instruction that is in no block.
    unsafe { LLVMInsertIntoBuilder(builder.as_mut_ptr(), copy.raw) };
    copy
}

/// Moves a block's terminator to the end of the block as it is without it: while it is away the block has no
/// successors, and `meanwhile` runs.
pub(crate) fn without_terminator<'m>(builder: &InkBuilder<'m>, block: Block<'m>, meanwhile: impl FnOnce()) {
    let end = block.terminator();
    end.take_out();
    meanwhile();
    builder.position_at_end(block.ink());
    // SAFETY: a builder at the end of this live block, and its terminator, which is in no block now.
    unsafe { LLVMInsertIntoBuilder(builder.as_mut_ptr(), end.raw) };
}

impl<'m> Block<'m> {
    /// A new, empty block in front of this one.
    pub(crate) fn new_in_front(self) -> Block<'m> {
        // SAFETY: a live block in a function; its context is that of its function's type. inkwell's call takes a context
        // that a handle does not carry.
        unsafe {
            let context = LLVMGetTypeContext(LLVMTypeOf(self.as_value().raw));
            Block::from_raw(LLVMInsertBasicBlockInContext(context, self.raw, c"".as_ptr()))
        }
        .expect("a new block")
    }

    /// A new block at the end of a function.
    pub(crate) fn appended(function: Value<'m>, name: &str) -> Block<'m> {
        assert!(function.is_function(), "blocks are parts of functions");
        // SAFETY: a live function (asserted) and its own context; the name is copied.
        unsafe {
            let context = LLVMGetTypeContext(LLVMTypeOf(function.raw));
            Block::from_raw(LLVMAppendBasicBlockInContext(context, function.raw, c_string(name).as_ptr()))
        }
        .expect("a new block")
    }
}
