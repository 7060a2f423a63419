//! Which values of a thread's code can be computed again wherever they are needed.
//!
//! Trap: "again" means in another region or in another function, so nothing here may depend on memory that a kernel can
//! write, on the time, or on where control came from.

use std::collections::BTreeMap;

use crate::llvm::{Builder, Opcode, Value};
use crate::provenance::origin;

/// Longer computations are kept rather than done again.
const LENGTH_MAX: usize = 16;
const INDEX: &str = "eager.nvvm.read.ptx.sreg.";

/// A call whose answer all threads of a block have in common.
pub(crate) fn is_common_call(call: Value) -> bool {
    const COMMON: &[&str] = &["ctaid.", "ntid.", "nctaid.", "warpsize", "nwarpid"];
    call.callee().is_some_and(|callee| {
        let name = callee.name();
        let register = name.strip_prefix(INDEX);
        name == "eager.shared" || register.is_some_and(|r| COMMON.iter().any(|c| r.starts_with(c)))
    })
}

/// The index of a thread in its block: 0 for x; as the kernel asks for it.
pub(crate) fn index_call(call: Value) -> Option<usize> {
    let name = call.callee()?.name();
    ["tid.x", "tid.y", "tid.z"].iter().position(|part| name.strip_prefix(INDEX) == Some(part))
}

/// Whether `load` reads memory that nobody can write while a kernel runs.
pub(crate) fn reads_fixed(load: Value, fixed: &[Value]) -> bool {
    origin(load.operand(0)).is_some_and(|origin| fixed.contains(&origin))
}

/// Whether an address is a constant distance from where it begins, so that reading there is safe at any time.
pub(crate) fn is_at_fixed_place(address: Value) -> bool {
    match address.opcode() {
        Some(Opcode::LLVMGetElementPtr) => {
            let mut operands = address.operands().into_iter();
            operands.next().is_some_and(is_at_fixed_place) && operands.all(Value::is_constant)
        }
        Some(Opcode::LLVMAddrSpaceCast | Opcode::LLVMBitCast) => is_at_fixed_place(address.operand(0)),
        Some(_) => false,
        None => true,
    }
}

/// An instruction whose result depends on its operands alone.
pub(crate) fn computes(instruction: Value) -> bool {
    use Opcode::*;
    match instruction.opcode() {
        Some(
            LLVMAdd | LLVMSub | LLVMMul | LLVMShl | LLVMLShr | LLVMAShr | LLVMAnd | LLVMOr | LLVMXor
            | LLVMTrunc | LLVMZExt | LLVMSExt | LLVMICmp | LLVMSelect | LLVMGetElementPtr | LLVMAddrSpaceCast
            | LLVMBitCast | LLVMPtrToInt | LLVMIntToPtr | LLVMUDiv | LLVMSDiv | LLVMURem | LLVMSRem
            | LLVMFAdd | LLVMFSub | LLVMFMul | LLVMFDiv | LLVMFNeg | LLVMFCmp | LLVMSIToFP | LLVMUIToFP
            | LLVMFPToSI | LLVMFPToUI | LLVMFPExt | LLVMFPTrunc | LLVMFreeze | LLVMExtractValue
            | LLVMInsertValue,
        ) => true,
        Some(LLVMCall) => {
            instruction.callee().is_some_and(|f| f.name().starts_with("llvm.") && f.touches_no_memory())
        }
        _ => false,
    }
}

/// Of those, what may run where it would not have: no division by what may be zero.
fn computes_safely(instruction: Value) -> bool {
    use Opcode::*;
    match instruction.opcode() {
        Some(LLVMUDiv | LLVMURem) => instruction.operand(1).constant_integer().is_some_and(|by| by != 0),
        Some(LLVMSDiv | LLVMSRem) => {
            let by = instruction.operand(1).constant_integer();
            by.is_some_and(|by| by != 0 && by.cast_signed() > 0 && by < 1 << 31)
        }
        Some(LLVMCall) => is_common_call(instruction) || index_call(instruction).is_some(),
        _ => computes(instruction),
    }
}

/// Whether `value` can be computed again from parameters, constants, `fixed` memory and what `leaf` says, in few steps.
pub(crate) fn is_computable(value: Value, fixed: &[Value], leaf: &dyn Fn(Value) -> bool) -> bool {
    let mut left = LENGTH_MAX;
    is_computable_in(value, fixed, leaf, &mut left)
}

fn is_computable_in(value: Value, fixed: &[Value], leaf: &dyn Fn(Value) -> bool, left: &mut usize) -> bool {
    if !value.is_instruction() || leaf(value) {
        return true;
    }
    let safe = match value.opcode() {
        Some(Opcode::LLVMLoad) => reads_fixed(value, fixed) && !value.is_volatile(),
        _ => computes_safely(value),
    };
    if !safe || *left == 0 {
        return false;
    }
    *left -= 1;
    value.operands().into_iter().all(|operand| is_computable_in(operand, fixed, leaf, left))
}

/// Computes `value` again where the builder is, behind where it is computed now, with other values for those that `known`
/// has.
pub(crate) fn compute_again(builder: &Builder, value: Value, known: &mut BTreeMap<Value, Value>) -> Value {
    compute(builder, value, known, &|builder, value| builder.clone_here(value))
}

/// The same where control may not have come to `value`: what LLVM was told of its operands may not hold there.
pub(crate) fn compute_anywhere(builder: &Builder, value: Value, known: &mut BTreeMap<Value, Value>) -> Value {
    compute(builder, value, known, &|builder, value| match value.opcode() {
        Some(Opcode::LLVMOr) if value.is_disjoint() => {
            builder.binary(Opcode::LLVMAdd, value.operand(0), value.operand(1))
        }
        _ => {
            let copy = builder.clone_here(value);
            copy.forget_promises();
            copy
        }
    })
}

fn compute(
    builder: &Builder,
    value: Value,
    known: &mut BTreeMap<Value, Value>,
    copy: &dyn Fn(&Builder, Value) -> Value,
) -> Value {
    if let Some(&there) = known.get(&value) {
        return there;
    }
    if !value.is_instruction() {
        return value;
    }
    let operands: Vec<Value> =
        value.operands().into_iter().map(|operand| compute(builder, operand, known, copy)).collect();
    let again = copy(builder, value);
    for (index, operand) in (0..).zip(operands) {
        again.set_operand(index, operand);
    }
    known.insert(value, again);
    again
}
