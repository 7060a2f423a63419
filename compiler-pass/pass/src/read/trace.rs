//! Where a pointer comes from: through casts, offsets, choices and one load.
//!
//! A device pointer lives in a slot (usually the `alloca` of a local variable) that `cudaMalloc` fills through its
//! address, so its uses are loads from that slot. Trap: because the address escapes into `cudaMalloc`, no optimisation
//! turns the slot into a value; "which buffer" is a question about memory.

use std::collections::BTreeSet;

use llvm_sys::LLVMOpcode;

use crate::ir::{Module, Value};

/// What an address starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Base<'m> {
    /// An `alloca`, or a parameter passed by value in memory: this function's own.
    Local(Value<'m>),
    Global(Value<'m>),
    Argument(Value<'m>),
    CallResult(Value<'m>),
    /// Loaded from memory that is not a local or a global.
    Elsewhere,
}

/// One possible origin of a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin<'m> {
    /// An address in the base; the offset if it is constant.
    Address { base: Base<'m>, offset: Option<i64> },
    /// What was loaded from there; `moved` if an offset was added afterwards.
    Content { base: Base<'m>, offset: Option<i64>, moved: bool },
}

/// More origins than this are not told apart.
const ORIGINS_MAX: usize = 32;

/// Every origin of a pointer; none for null and other constants.
#[must_use]
pub fn origins<'m>(module: Module<'m>, pointer: Value<'m>) -> BTreeSet<Origin<'m>> {
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut pending = vec![(pointer, Some(0_i64), false)];
    while let Some((value, offset, moved)) = pending.pop() {
        if !seen.insert((value, offset, moved)) {
            continue;
        }
        if seen.len() > ORIGINS_MAX {
            found.insert(Origin::Address { base: Base::Elsewhere, offset: None });
            break;
        }
        match step(module, value) {
            Step::Base(base) => {
                found.insert(Origin::Address { base, offset });
            }
            Step::Loaded(address) => found.extend(contents(module, address, moved)),
            Step::Same(values) => pending.extend(values.into_iter().map(|value| (value, offset, moved))),
            Step::Offset(value, by) => {
                let total = offset.zip(by).map(|(a, b)| a + b);
                pending.push((value, total, moved || by != Some(0)));
            }
            Step::Nothing => {}
        }
    }
    found
}

/// The origins of what a load from `address` gives.
fn contents<'m>(module: Module<'m>, address: Value<'m>, moved: bool) -> Vec<Origin<'m>> {
    let loaded = |origin| match origin {
        Origin::Address { base: base @ (Base::Local(_) | Base::Global(_) | Base::Argument(_)), offset } => {
            Origin::Content { base, offset, moved }
        }
        _ => Origin::Address { base: Base::Elsewhere, offset: None },
    };
    origins(module, address).into_iter().map(loaded).collect()
}

enum Step<'m> {
    Base(Base<'m>),
    Loaded(Value<'m>),
    Same(Vec<Value<'m>>),
    Offset(Value<'m>, Option<i64>),
    Nothing,
}

fn step<'m>(module: Module<'m>, value: Value<'m>) -> Step<'m> {
    if value.is_argument() {
        let by_value = value.byval_type().is_some();
        return Step::Base(if by_value { Base::Local(value) } else { Base::Argument(value) });
    }
    if value.is_global() {
        return Step::Base(Base::Global(value));
    }
    let Some(opcode) = value.expression_opcode() else { return Step::Nothing };
    let operands = value.operands();
    match opcode {
        LLVMOpcode::LLVMAlloca => Step::Base(Base::Local(value)),
        LLVMOpcode::LLVMLoad => operands.first().map_or(Step::Nothing, |&address| Step::Loaded(address)),
        LLVMOpcode::LLVMGetElementPtr => {
            operands.first().map_or(Step::Nothing, |&base| Step::Offset(base, module.constant_offset(value)))
        }
        LLVMOpcode::LLVMBitCast
        | LLVMOpcode::LLVMAddrSpaceCast
        | LLVMOpcode::LLVMFreeze
        | LLVMOpcode::LLVMPHI => Step::Same(operands),
        LLVMOpcode::LLVMSelect => Step::Same(operands.into_iter().skip(1).collect()),
        LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke => Step::Base(Base::CallResult(value)),
        _ => Step::Base(Base::Elsewhere),
    }
}
