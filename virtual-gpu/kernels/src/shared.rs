//! Addresses in shared memory wrap at 32 bits.
//!
//! A GPU's shared memory has addresses of 32 bits: of a wider one the upper half does not count (PTX ISA 9.0, "Addresses as
//! Operands"), so that `tile[threadIdx.x - 1]` behind a pointer into an array is its neighbour for thread 0 too. In C the index
//! is a number of four thousand million there. Trap: only addresses with an unsigned index of 32 bits are computed anew; for
//! all others the shorter way is the same, and the optimiser sees through it.

use std::collections::BTreeSet;

use crate::import::SHARED;
use crate::llvm::{Context, Module, Opcode, Value};
use crate::provenance::{KnownAddresses, Memory, memory_of};
use crate::runtime::helper;

/// An address that is put together of more values stays as it is.
const VALUES_MAX: usize = 64;

/// Wraps the addresses of loads, stores and atomics in `function`; `block` is the context of its block.
pub(crate) fn wrap(context: &Context, module: &Module, function: Value, block: Value, known: KnownAddresses) {
    let builder = context.builder();
    for access in function.instructions() {
        let operand = match access.opcode() {
            Some(Opcode::LLVMLoad | Opcode::LLVMAtomicRMW | Opcode::LLVMAtomicCmpXchg) => 0,
            Some(Opcode::LLVMStore) => 1,
            _ => continue,
        };
        let address = access.operand(operand);
        let Some(steps) = steps_that_may_wrap(address) else { continue };
        if memory_of(address, known) != Memory::Shared {
            continue;
        }
        for step in steps {
            step.forget_promises();
        }
        builder.before(access);
        let generic = builder.address_space_cast(address, context.ptr_type(0));
        let wrapped = builder.call(helper(module, "eager.shared.wrapped"), &[block, generic]);
        access.set_operand(operand, builder.address_space_cast(wrapped, context.ptr_type(SHARED)));
    }
}

/// The steps from an object to an address in it, if one is by an unsigned index of 32 bits.
fn steps_that_may_wrap(address: Value) -> Option<Vec<Value>> {
    let (mut steps, mut wraps) = (Vec::new(), false);
    let (mut seen, mut open) = (BTreeSet::new(), vec![address]);
    while let Some(value) = open.pop() {
        if !seen.insert(value) {
            continue;
        }
        if seen.len() > VALUES_MAX {
            return None;
        }
        match value.opcode() {
            Some(Opcode::LLVMGetElementPtr) => {
                wraps |= value.operands().into_iter().skip(1).any(|index| is_unsigned(index, 4));
                steps.extend(value.is_instruction().then_some(value));
                open.push(value.operand(0));
            }
            Some(Opcode::LLVMAddrSpaceCast | Opcode::LLVMBitCast) => open.push(value.operand(0)),
            Some(Opcode::LLVMPHI) => open.extend(value.incoming().into_iter().map(|(v, _)| v)),
            Some(Opcode::LLVMSelect) => open.extend([value.operand(1), value.operand(2)]),
            _ => {}
        }
    }
    wraps.then_some(steps)
}

/// Whether a number of 32 bits that may have the highest bit set is widened as one without a sign, or was before it was
/// folded.
fn is_unsigned(index: Value, depth: u32) -> bool {
    if let Some(number) = index.constant_integer() {
        return (1 << 31..1 << 63).contains(&number);
    }
    match index.opcode() {
        Some(Opcode::LLVMZExt) => index.operand(0).ty().to_text() == "i32" && !index.is_never_negative(),
        Some(Opcode::LLVMAdd | Opcode::LLVMSub | Opcode::LLVMMul | Opcode::LLVMShl | Opcode::LLVMOr) => {
            depth > 0 && index.operands().into_iter().any(|operand| is_unsigned(operand, depth - 1))
        }
        _ => false,
    }
}
