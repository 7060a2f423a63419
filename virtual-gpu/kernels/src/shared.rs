//! Addresses in shared memory wrap at 32 bits.
//!
//! On a GPU, addresses in shared memory have 32 bits: the upper half of a wider address is ignored (PTX ISA 9.0,
//! "Addresses as Operands"). So `tile[threadIdx.x - 1]` through a pointer into an array is the preceding element for
//! thread 0 too, while in C the index there is about four thousand million. Only addresses with an unsigned 32-bit
//! index are changed: for all others the plain address is the same, and the optimiser understands it better.

use std::collections::BTreeSet;

use crate::import::SHARED;
use crate::llvm::{Context, Module, Opcode, Value};
use crate::provenance::{KnownAddresses, Memory, memory_of};
use crate::runtime::helper;

/// An address made of more values stays as it is.
const VALUES_MAX: usize = 64;

/// Wraps the addresses of loads, stores and atomics in `function`; `block` is its block context.
pub(crate) fn wrap(context: Context, module: &Module, function: Value, block: Value, known: KnownAddresses) {
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
            step.drop_poison_flags();
        }
        builder.before(access);
        let generic = builder.address_space_cast(address, context.ptr_type(0));
        let wrapped = builder.call(helper(module, "eager.shared.wrapped"), &[block, generic]);
        access.set_operand(operand, builder.address_space_cast(wrapped, context.ptr_type(SHARED)));
    }
}

/// Returns the steps from an object to an address in it, if one of them adds an unsigned 32-bit index.
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

/// True if a 32-bit number that may have the highest bit set is, or was before constant folding, zero-extended.
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
