//! Basic blocks and their successors and predecessors.
//!
//! A block may branch to the same block twice (`switch`), so successors may repeat; predecessors do not.

use std::marker::PhantomData;

use crate::llvm_sys::core::*;
use crate::llvm_sys::prelude::*;

use super::Value;

/// A basic block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block<'m> {
    raw: LLVMBasicBlockRef,
    lifetime: PhantomData<&'m ()>,
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

    /// Blocks that end in a branch to this block, without duplicates.
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
