//! Unrolls loops that contain operations of the warp and have a known trip count, so that distances are constants.
//!
//! It runs on the whole module, before kernels are lowered; only marked loops are unrolled.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::indexed;
use crate::Mode;
use crate::import::Imported;
use crate::llvm::{Block, Context, LLVMIntPredicate, Opcode, Value};
use crate::lockstep::order::{Cycle, Order};
use crate::thread::Lowering;

/// Maximum of operations times turns in an unrolled loop.
const OPERATIONS_MAX: usize = 64;
/// Limits for unrolling a loop that indexes a local array: its turns, and the instructions of one turn.
const INDEXED_MAX: usize = 32;
const INDEXING_MAX: usize = 24;
/// Limit on the basic blocks of a kernel that is analysed.
const BLOCKS_MAX: usize = 512;
/// Limit on the steps that a value is traced through.
const DEPTH_MAX: u32 = 8;
const PASSES: &str = "function(loop-unroll<O2;no-partial;no-peeling;no-runtime;no-upperbound;full-unroll-max=0>,\
    instcombine<no-verify-fixpoint>,simplifycfg,sroa<modify-cfg>,gvn,instcombine<no-verify-fixpoint>,simplifycfg)";
/// Makes values of arrays that are no longer indexed by more than constants.
const PROMOTE: &str = "function(sroa<modify-cfg>,gvn,instcombine<no-verify-fixpoint>,simplifycfg)";
/// Limit on nested loops, which are unrolled from the inside out.
const DEPTH_OF_LOOPS_MAX: usize = 4;

/// Unrolls loops in all kernels.
pub(crate) fn unroll(lowering: Lowering, imported: &Imported) -> Result<(), String> {
    if !matches!(lowering.options.mode, Mode::Auto | Mode::Fission | Mode::LanesApart)
        || lowering.options.strict
    {
        return Ok(());
    }
    for _ in 0..DEPTH_OF_LOOPS_MAX {
        if !unroll_inner(lowering, imported)? {
            break;
        }
    }
    let kernels = imported.kernels.iter().filter_map(|kernel| imported.module.function(kernel));
    let waiting = kernels.filter(|kernel| kernel.instructions().iter().any(|i| waits(lowering, i)));
    let resolved = waiting.map(|kernel| indexed::resolve(lowering, kernel)).filter(|&resolved| resolved);
    if resolved.count() > 0 {
        imported.module.run_passes(PROMOTE, lowering.machine)?;
    }
    Ok(())
}

fn waits(lowering: Lowering, instruction: &Value) -> bool {
    let call = instruction.opcode() == Some(Opcode::LLVMCall);
    call && instruction.callee().is_some_and(|callee| lowering.runtime.suspends(&callee.name()))
}

/// Unrolls innermost loops; returns false if there was none to unroll.
fn unroll_inner(lowering: Lowering, imported: &Imported) -> Result<bool, String> {
    let kernels = imported.kernels.iter().filter_map(|kernel| imported.module.function(kernel));
    let latches: Vec<Value> = kernels.flat_map(|kernel| latches(lowering, kernel)).collect();
    if latches.is_empty() {
        return Ok(false);
    }
    let context = lowering.context;
    let metadata = loop_metadata(context, latches.len())?;
    let kind = context.metadata_kind("llvm.loop");
    let ids = metadata.functions().into_iter().flat_map(Value::blocks);
    let ids: Vec<Value> = ids.filter_map(|block| block.terminator().metadata(kind)).collect();
    for (latch, id) in latches.into_iter().zip(ids) {
        latch.set_metadata(kind, id);
    }
    imported.module.run_passes(PASSES, lowering.machine)?;
    Ok(true)
}

/// Terminators of the loops to unroll.
fn latches<'m>(lowering: Lowering<'m>, kernel: Value<'m>) -> Vec<Value<'m>> {
    let waits = |i: &Value| waits(lowering, i);
    let blocks = kernel.blocks();
    if blocks.len() > BLOCKS_MAX || !kernel.instructions().iter().any(waits) {
        return Vec::new();
    }
    let order = Order::of(kernel);
    let kind = lowering.context.metadata_kind("llvm.loop");
    let is_inner = |cycle: &&Cycle| {
        !order.cycles.iter().any(|o| o.members.len() < cycle.members.len() && cycle.members.contains(&o.head))
    };
    let mut found = Vec::new();
    for cycle in order.cycles.iter().filter(is_inner) {
        let members = cycle.members.iter().map(|&block| order.blocks[block]);
        let instructions: Vec<Value> = members.flat_map(|block| block.instructions()).collect();
        let operations = instructions.iter().filter(|i| waits(i)).count();
        // Unrolling turns a local array into values, which are adjacent for the lanes of a warp.
        let indexes = instructions.iter().any(|&i| indexes_slot(i)) && instructions.len() <= INDEXING_MAX;
        let &[latch] = cycle.latches.as_slice() else { continue };
        let end = order.blocks[latch].terminator();
        let asked = end.metadata(kind).map(Value::inner_node_texts).unwrap_or_default();
        if operations == 0 && !indexes || asked.iter().any(|text| text == "llvm.loop.unroll.disable") {
            continue;
        }
        let turns_max = OPERATIONS_MAX.checked_div(operations).map_or(INDEXED_MAX, |turns| turns.max(1));
        if turns(&order, cycle, latch, turns_max).is_some() {
            found.push(end);
        }
    }
    found
}

/// True if an address in a stack slot is computed from more than constants.
fn indexes_slot(instruction: Value) -> bool {
    let is_slot = |value: Value| value.opcode() == Some(Opcode::LLVMAlloca);
    let through_cast = |value: Value| {
        value.opcode() == Some(Opcode::LLVMAddrSpaceCast) && is_slot(value.operand(0)) || is_slot(value)
    };
    instruction.opcode() == Some(Opcode::LLVMGetElementPtr)
        && through_cast(instruction.operand(0))
        && !instruction.operands().into_iter().skip(1).all(Value::is_constant)
}

/// Number of turns of `cycle`, if it is known and at most `most`.
fn turns(order: &Order, cycle: &Cycle, latch: usize, most: usize) -> Option<usize> {
    let (head, latch) = (order.blocks[cycle.head], order.blocks[latch]);
    let phis: Vec<Value> =
        head.instructions().into_iter().filter(|i| i.opcode() == Some(Opcode::LLVMPHI)).collect();
    let inside = |block: Block| cycle.members.iter().any(|&member| order.blocks[member] == block);
    let mut now: BTreeMap<Value, u64> = BTreeMap::new();
    for &phi in &phis {
        let mut starts = phi.incoming().into_iter().filter(|(_, from)| !inside(*from));
        if let (Some((start, _)), None) = (starts.next(), starts.next())
            && let Some(number) = start.constant_integer()
        {
            now.insert(phi, number);
        }
    }
    let exits: Vec<Value> = [head, latch]
        .map(Block::terminator)
        .into_iter()
        .filter(|end| end.opcode() == Some(Opcode::LLVMBr) && end.successors().len() == 2)
        .filter(|end| end.successors().into_iter().any(|to| !inside(to)))
        .collect();
    for turn in 0..=most {
        for exit in &exits {
            if let Some(condition) = evaluate(exit.operand(0), &now, DEPTH_MAX) {
                let to = exit.successors()[usize::from(condition & 1 == 0)];
                if !inside(to) {
                    return Some(turn);
                }
            }
        }
        let mut next = BTreeMap::new();
        for &phi in &phis {
            let back = phi.incoming().into_iter().find(|(_, from)| *from == latch)?;
            if let Some(number) = evaluate(back.0, &now, DEPTH_MAX) {
                next.insert(phi, number);
            }
        }
        now = next;
    }
    None
}

fn evaluate(value: Value, known: &BTreeMap<Value, u64>, depth: u32) -> Option<u64> {
    if let Some(number) = value.constant_integer().or_else(|| known.get(&value).copied()) {
        return Some(number);
    }
    if depth == 0 || !value.is_instruction() {
        return None;
    }
    let of = |index: u32| evaluate(value.operand(index), known, depth - 1);
    let bits = value.ty().integer_bits()?;
    let from_bits = value.operand(0).ty().integer_bits()?;
    if bits > 64 || from_bits > 64 {
        return None;
    }
    let signed = |number: u64, bits: u32| (number << (64 - bits)).cast_signed() >> (64 - bits);
    let cut = |number: u64| number & (u64::MAX >> (64 - bits));
    let number = match value.opcode()? {
        Opcode::LLVMAdd => of(0)?.wrapping_add(of(1)?),
        Opcode::LLVMSub => of(0)?.wrapping_sub(of(1)?),
        Opcode::LLVMMul => of(0)?.wrapping_mul(of(1)?),
        Opcode::LLVMShl => of(0)?.checked_shl(u32::try_from(of(1)?).ok()?)?,
        Opcode::LLVMLShr => cut(of(0)?).checked_shr(u32::try_from(of(1)?).ok()?)?,
        Opcode::LLVMAShr => signed(of(0)?, bits).checked_shr(u32::try_from(of(1)?).ok()?)?.cast_unsigned(),
        Opcode::LLVMUDiv => cut(of(0)?).checked_div(cut(of(1)?))?,
        Opcode::LLVMSDiv => signed(of(0)?, bits).checked_div(signed(of(1)?, bits))?.cast_unsigned(),
        Opcode::LLVMAnd => of(0)? & of(1)?,
        Opcode::LLVMOr => of(0)? | of(1)?,
        Opcode::LLVMXor => of(0)? ^ of(1)?,
        Opcode::LLVMZExt | Opcode::LLVMTrunc => of(0)?,
        Opcode::LLVMSExt => signed(of(0)?, from_bits).cast_unsigned(),
        Opcode::LLVMICmp => u64::from(compare(value.predicate(), of(0)?, of(1)?, from_bits)),
        _ => return None,
    };
    Some(cut(number))
}

/// Result of a comparison of two integers of `bits` bits.
pub(super) fn compare(predicate: LLVMIntPredicate, left: u64, right: u64, bits: u32) -> bool {
    use LLVMIntPredicate::*;
    let cut = |number: u64| number & (u64::MAX >> (64 - bits));
    let signed = |number: u64| (number << (64 - bits)).cast_signed() >> (64 - bits);
    let (a, b, s, t) = (cut(left), cut(right), signed(left), signed(right));
    match predicate {
        LLVMIntEQ => a == b,
        LLVMIntNE => a != b,
        LLVMIntUGT => a > b,
        LLVMIntUGE => a >= b,
        LLVMIntULT => a < b,
        LLVMIntULE => a <= b,
        LLVMIntSGT => s > t,
        LLVMIntSGE => s >= t,
        LLVMIntSLT => s < t,
        LLVMIntSLE => s <= t,
    }
}

/// A module with `count` loops that are marked for full unrolling, each with metadata of its own. (LLVM's C interface
/// cannot create self-referential metadata, which this needs.)
fn loop_metadata(context: Context, count: usize) -> Result<crate::llvm::Module, String> {
    let mut text = String::from("define void @loops(i1 %again) {\nentry:\n  br label %l0\n");
    for number in 0..count {
        let _ = writeln!(
            text,
            "l{number}:\n  br i1 %again, label %l{number}, label %l{}, !llvm.loop !{}",
            number + 1,
            number + 1
        );
    }
    let _ = write!(text, "l{count}:\n  ret void\n}}\n!0 = !{{!\"llvm.loop.unroll.full\"}}\n");
    for number in 1..=count {
        let _ = writeln!(text, "!{number} = distinct !{{!{number}, !0}}");
    }
    context.parse_text(&text)
}
