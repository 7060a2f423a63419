//! Values of a thread's code that can be recomputed wherever they are needed.
//!
//! Trap: they are recomputed in another region or another function, so nothing here may depend on memory that a kernel
//! can write, on the time, or on the path of control.

use std::collections::BTreeMap;

use crate::llvm::{Builder, Opcode, Value};
use crate::provenance::origin;

/// Computations of more steps are kept rather than repeated.
const LENGTH_MAX: usize = 16;
const INDEX: &str = "eager.nvvm.read.ptx.sreg.";

/// True for a call whose result is the same for all threads of a block.
pub(crate) fn is_uniform_call(call: Value) -> bool {
    const UNIFORM: &[&str] = &["ctaid.", "ntid.", "nctaid.", "warpsize", "nwarpid"];
    call.callee().is_some_and(|callee| {
        let name = callee.name();
        let register = name.strip_prefix(INDEX);
        name == "eager.shared" || register.is_some_and(|r| UNIFORM.iter().any(|c| r.starts_with(c)))
    })
}

/// Axis of the thread index that a call returns: 0 for x.
pub(crate) fn index_call(call: Value) -> Option<usize> {
    let name = call.callee()?.name();
    ["tid.x", "tid.y", "tid.z"].iter().position(|part| name.strip_prefix(INDEX) == Some(part))
}

/// True if `load` reads memory that no thread can write while a kernel runs.
pub(crate) fn reads_fixed(load: Value, fixed: &[Value]) -> bool {
    origin(load.operand(0)).is_some_and(|origin| fixed.contains(&origin))
}

/// True if an address is at a constant offset from its base, so that reading there is safe at any time.
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

/// True if the instruction's result depends on its operands alone.
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

/// True if such an instruction may run on paths where it did not before: it cannot divide by zero.
fn computes_safely(instruction: Value) -> bool {
    use Opcode::*;
    match instruction.opcode() {
        Some(LLVMUDiv | LLVMURem) => instruction.operand(1).constant_integer().is_some_and(|by| by != 0),
        Some(LLVMSDiv | LLVMSRem) => {
            let by = instruction.operand(1).constant_integer();
            by.is_some_and(|by| by != 0 && by.cast_signed() > 0 && by < 1 << 31)
        }
        Some(LLVMCall) => is_uniform_call(instruction) || index_call(instruction).is_some(),
        _ => computes(instruction),
    }
}

/// True if `value` can be recomputed in few steps from parameters, constants, `fixed` memory and values that `leaf`
/// accepts.
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

/// Recomputes `value` at the builder's position, which its present computation dominates, replacing values found in
/// `known`.
pub(crate) fn compute_again<'m>(
    builder: &Builder<'m>,
    value: Value<'m>,
    known: &mut BTreeMap<Value<'m>, Value<'m>>,
) -> Value<'m> {
    compute(builder, value, known, &|builder, value| builder.clone_here(value))
}

/// Recomputes `value` where its present computation may not have run, so LLVM's promises about operands are dropped.
pub(crate) fn compute_anywhere<'m>(
    builder: &Builder<'m>,
    value: Value<'m>,
    known: &mut BTreeMap<Value<'m>, Value<'m>>,
) -> Value<'m> {
    compute(builder, value, known, &|builder, value| match value.opcode() {
        Some(Opcode::LLVMOr) if value.is_disjoint() => {
            builder.binary(Opcode::LLVMAdd, value.operand(0), value.operand(1))
        }
        _ => {
            let copy = builder.clone_here(value);
            copy.drop_poison_flags();
            copy
        }
    })
}

fn compute<'m>(
    builder: &Builder<'m>,
    value: Value<'m>,
    known: &mut BTreeMap<Value<'m>, Value<'m>>,
    copy: &dyn Fn(&Builder<'m>, Value<'m>) -> Value<'m>,
) -> Value<'m> {
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
