//! Static tasks into calls: `eager_task_begin` with the computed size, `eager_all_launched`, `eager_task_end`.
//!
//! Points refer to the snapshot that the reader took; instructions are only added, so they stay valid. Trap: where a
//! task ends exactly where the next begins, the end must come first, so all begins are written after all ends.

use std::collections::BTreeMap;
use std::ffi::CString;

use eager_tasks::{BinaryOp, BlockId, CastOp, Expr, Point, Spot, StaticTask};
use llvm_sys::LLVMOpcode;
use llvm_sys::core::*;
use llvm_sys::debuginfo::LLVMInstructionGetDebugLoc;
use llvm_sys::prelude::*;

use super::constants::Constants;
use crate::ir::{Block, Module, Value};
use crate::read::function::Reading;

unsafe extern "C" {
    fn eager_split_edge(from: LLVMBasicBlockRef, to: LLVMBasicBlockRef) -> LLVMBasicBlockRef;
}

/// Writes one function's static tasks; each with its site number.
pub fn emit_tasks(module: Module<'_>, reading: &Reading<'_>, tasks: &[(u64, &StaticTask)]) {
    let mut writer = Writer { module, reading, constants: Constants::new(module), on_edge: BTreeMap::new() };
    for (site, task) in tasks {
        for spot in &task.all_launched {
            writer.call(*spot, eager_abi::ALL_LAUNCHED, *site);
        }
        for spot in &task.ends {
            writer.call(*spot, eager_abi::TASK_END, *site);
        }
    }
    for (site, task) in tasks {
        writer.begin(*site, task);
    }
}

struct Writer<'a, 'm> {
    module: Module<'m>,
    reading: &'a Reading<'m>,
    constants: Constants<'m>,
    /// Where code on an edge goes, once the edge was asked for.
    on_edge: BTreeMap<(BlockId, BlockId), Vec<Value<'m>>>,
}

impl<'m> Writer<'_, 'm> {
    fn instruction(&self, point: Point) -> Value<'m> {
        self.reading.instructions[point.block.index()][point.position as usize]
    }

    /// Calls `name(site)` at a spot.
    fn call(&mut self, spot: Spot, name: &str, site: u64) {
        let (ty, function) = self.constants.declare(name, &mut [self.constants.int(64)]);
        for before in self.places(spot) {
            let builder = Builder::before(self.module, before);
            builder.call(ty, function, &mut [self.constants.u64(site)]);
        }
    }

    /// The instructions before which code for a spot goes.
    fn places(&mut self, spot: Spot) -> Vec<Value<'m>> {
        match spot {
            Spot::Before(point) => vec![before_tail_call(self.instruction(point))],
            Spot::OnEdge { from, to } => {
                if let Some(known) = self.on_edge.get(&(from, to)) {
                    return known.clone();
                }
                let places = self.edge_places(from, to);
                self.on_edge.insert((from, to), places.clone());
                places
            }
        }
    }

    /// An edge that is the only way into its target is the start of the target; the only way out of its source, the end
    /// of the source; any other is split. Edges that LLVM cannot split (into landing pads with several ways in, from
    /// indirect branches) fall back to the start of the target: a call too many there finds its task already ended.
    fn edge_places(&self, from: BlockId, to: BlockId) -> Vec<Value<'m>> {
        let (source, target) = (self.reading.blocks[from.index()], self.reading.blocks[to.index()]);
        let ways_in: usize =
            self.reading.facts.blocks.iter().map(|b| b.successors.iter().filter(|s| **s == to).count()).sum();
        let ways_out = self.reading.facts.blocks[from.index()].successors.len();
        let start = first_insertion_point(target);
        if ways_in == 1 || starts_with_pad(target) {
            return start.into_iter().collect();
        }
        if ways_out == 1 {
            return source.instructions().last().copied().into_iter().collect();
        }
        let mut places = Vec::new();
        while source.successors().contains(&target) {
            // SAFETY: both are live blocks of one function, and the edge between them exists (loop condition).
            let middle = Block::from_raw(unsafe { eager_split_edge(source.raw(), target.raw()) });
            match middle.and_then(first_insertion_point) {
                Some(place) => places.push(place),
                None => return start.into_iter().collect(),
            }
        }
        places
    }

    fn begin(&self, site: u64, task: &StaticTask) {
        let builder = Builder::before(self.module, self.instruction(task.begin));
        let mut total = self.constants.u64(0);
        for (index, size) in task.sizes.iter().enumerate() {
            let bytes = self.size(&builder, size, task);
            let bytes = builder.cast(CastOp::ZeroExtend, bytes, self.constants.int(64));
            total = if index == 0 { bytes } else { builder.binary(BinaryOp::Add, total, bytes) };
        }
        let (long, int) = (self.constants.int(64), self.constants.int(32));
        let (ty, function) = self.constants.declare(eager_abi::TASK_BEGIN, &mut [long, long, long, int]);
        let (blocks, threads) = (self.constants.u64(0), self.constants.u32(0));
        builder.call(ty, function, &mut [self.constants.u64(site), total, blocks, threads]);
    }

    fn size(&self, builder: &Builder<'m>, size: &Expr, task: &StaticTask) -> LLVMValueRef {
        match size {
            Expr::Const { value, bits } => {
                // SAFETY: the type is an integer type of the module's context.
                unsafe { LLVMConstInt(self.constants.int(*bits), *value, 0) }
            }
            Expr::Leaf(id) => {
                let value = self.reading.leaves[id.index()];
                if task.reloads.contains(id) { builder.repeat(value).raw() } else { value.raw() }
            }
            Expr::Cast { op, bits, arg } => {
                let arg = self.size(builder, arg, task);
                builder.cast(*op, arg, self.constants.int(*bits))
            }
            Expr::Binary { op, args } => {
                let (a, b) = (self.size(builder, &args.0, task), self.size(builder, &args.1, task));
                builder.binary(*op, a, b)
            }
        }
    }
}

/// A return may belong to a `musttail` call right before it, which nothing may stand between.
fn before_tail_call(instruction: Value<'_>) -> Value<'_> {
    let list = instruction.block().map(Block::instructions).unwrap_or_default();
    let previous =
        list.iter().position(|&i| i == instruction).and_then(|at| at.checked_sub(1)).map(|at| list[at]);
    let is_must_tail = |call: &Value<'_>| {
        call.opcode() == Some(LLVMOpcode::LLVMCall)
            // SAFETY: the instruction is a call (tested in front).
            && unsafe { LLVMGetTailCallKind(call.raw()) } == llvm_sys::LLVMTailCallKind::LLVMTailCallKindMustTail
    };
    previous.filter(is_must_tail).unwrap_or(instruction)
}

fn starts_with_pad(block: Block<'_>) -> bool {
    let first = block.instructions().into_iter().find(|i| i.opcode() != Some(LLVMOpcode::LLVMPHI));
    first.is_some_and(|first| {
        matches!(
            first.opcode(),
            Some(
                LLVMOpcode::LLVMLandingPad
                    | LLVMOpcode::LLVMCleanupPad
                    | LLVMOpcode::LLVMCatchPad
                    | LLVMOpcode::LLVMCatchSwitch
            )
        )
    })
}

fn first_insertion_point(block: Block<'_>) -> Option<Value<'_>> {
    let must_lead = |i: &Value<'_>| {
        matches!(
            i.opcode(),
            Some(
                LLVMOpcode::LLVMPHI
                    | LLVMOpcode::LLVMLandingPad
                    | LLVMOpcode::LLVMCleanupPad
                    | LLVMOpcode::LLVMCatchPad
            )
        )
    };
    block.instructions().into_iter().find(|i| !must_lead(i))
}

/// An LLVM builder that stands before one instruction and takes over its source location.
struct Builder<'m> {
    raw: LLVMBuilderRef,
    before: Value<'m>,
}

impl<'m> Builder<'m> {
    fn before(module: Module<'m>, before: Value<'m>) -> Self {
        // SAFETY: `before` is a live instruction of the module; the builder is disposed of in `drop`.
        let raw = unsafe {
            let raw = LLVMCreateBuilderInContext(module.context());
            LLVMPositionBuilderBefore(raw, before.raw());
            LLVMSetCurrentDebugLocation2(raw, LLVMInstructionGetDebugLoc(before.raw()));
            raw
        };
        Self { raw, before }
    }

    fn call(&self, ty: LLVMTypeRef, function: LLVMValueRef, args: &mut [LLVMValueRef]) {
        let count = u32::try_from(args.len()).unwrap_or(u32::MAX);
        // SAFETY: the function was declared with `ty`, and the arguments have the declared types and count.
        unsafe { LLVMBuildCall2(self.raw, ty, function, args.as_mut_ptr(), count, c"".as_ptr()) };
    }

    /// Changes the width if it differs.
    fn cast(&self, op: CastOp, value: LLVMValueRef, to: LLVMTypeRef) -> LLVMValueRef {
        // SAFETY: value and type are integers (sizes and their parts), and LLVM checks that the cast goes the right way;
        // equal widths are left alone because no cast instruction allows them.
        unsafe {
            if LLVMTypeOf(value) == to {
                return value;
            }
            match op {
                CastOp::ZeroExtend => LLVMBuildZExt(self.raw, value, to, c"".as_ptr()),
                CastOp::SignExtend => LLVMBuildSExt(self.raw, value, to, c"".as_ptr()),
                CastOp::Truncate => LLVMBuildTrunc(self.raw, value, to, c"".as_ptr()),
            }
        }
    }

    fn binary(&self, op: BinaryOp, a: LLVMValueRef, b: LLVMValueRef) -> LLVMValueRef {
        let opcode = match op {
            BinaryOp::Add => LLVMOpcode::LLVMAdd,
            BinaryOp::Sub => LLVMOpcode::LLVMSub,
            BinaryOp::Mul => LLVMOpcode::LLVMMul,
            BinaryOp::ShiftLeft => LLVMOpcode::LLVMShl,
            BinaryOp::ShiftRightLogical => LLVMOpcode::LLVMLShr,
            BinaryOp::ShiftRightArithmetic => LLVMOpcode::LLVMAShr,
            BinaryOp::And => LLVMOpcode::LLVMAnd,
            BinaryOp::Or => LLVMOpcode::LLVMOr,
            BinaryOp::Xor => LLVMOpcode::LLVMXor,
            BinaryOp::DivideUnsigned => LLVMOpcode::LLVMUDiv,
            BinaryOp::DivideSigned => LLVMOpcode::LLVMSDiv,
            BinaryOp::RemainderUnsigned => LLVMOpcode::LLVMURem,
            BinaryOp::RemainderSigned => LLVMOpcode::LLVMSRem,
        };
        // SAFETY: both operands are integers of one width: the expression mirrors an instruction that had them.
        unsafe { LLVMBuildBinOp(self.raw, opcode, a, b, c"".as_ptr()) }
    }

    /// Clones a load, and the constant steps of its address that are instructions, to this place.
    fn repeat(&self, value: Value<'m>) -> Value<'m> {
        let repeatable = matches!(value.opcode(), Some(LLVMOpcode::LLVMLoad | LLVMOpcode::LLVMGetElementPtr));
        if !repeatable {
            return value;
        }
        let address = value.operand(0).map(|address| self.repeat(address));
        let name = CString::default();
        // SAFETY: the clone is inserted before a live instruction; operand 0 is the address of both kinds, and its
        // replacement is either the same value or a clone that stands before this one.
        unsafe {
            let clone = LLVMInstructionClone(value.raw());
            LLVMInsertIntoBuilderWithName(self.raw, clone, name.as_ptr());
            if let Some(address) = address {
                LLVMSetOperand(clone, 0, address.raw());
            }
            Value::from_raw(clone).unwrap_or(value)
        }
    }
}

impl Drop for Builder<'_> {
    fn drop(&mut self) {
        debug_assert!(self.before.block().is_some());
        // SAFETY: the builder was created in `before` and is not used again.
        unsafe { LLVMDisposeBuilder(self.raw) };
    }
}
