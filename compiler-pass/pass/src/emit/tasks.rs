//! Emits the calls of static tasks: `eager_task_begin` with the computed size and geometry, `eager_all_launched`,
//! `eager_task_end`.
//!
//! Points refer to the snapshot that the reader took; instructions are only added, so points stay valid. Trap: where a
//! task ends exactly where the next begins, the end must come first, so all begins are emitted after all ends.

use std::collections::BTreeMap;

use crate::llvm_sys::core::*;
use crate::llvm_sys::debuginfo::LLVMInstructionGetDebugLoc;
use crate::llvm_sys::prelude::*;
use crate::llvm_sys::{LLVMIntPredicate, LLVMOpcode};
use eager_tasks::deaths::Dead;
use eager_tasks::{BinaryOp, BlockId, CastOp, Expr, Facts, LeafId, Point, ReloadBase, Spot, StaticTask};

use super::constants::Constants;
use super::unwinds;
use crate::ir::{Block, Module, Value};
use crate::read::function::Reading;

unsafe extern "C" {
    fn eager_split_edge(from: LLVMBasicBlockRef, to: LLVMBasicBlockRef) -> LLVMBasicBlockRef;
}

/// Emits one function's dead buffers and static tasks; each task comes with its site number.
pub fn emit_tasks(
    module: Module<'_>,
    reading: &Reading<'_>,
    globals: &[Value<'_>],
    facts: &Facts,
    dead: &[&Dead],
    tasks: &[(u64, &StaticTask)],
) {
    let constants = Constants::new(module);
    let mut writer = Writer { module, reading, globals, facts, constants, on_edge: BTreeMap::new() };
    writer.dead_buffers(dead);
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
    unwinds::emit_unwinds(constants, reading, tasks);
}

pub(super) struct Writer<'a, 'm> {
    pub module: Module<'m>,
    pub reading: &'a Reading<'m>,
    pub globals: &'a [Value<'m>],
    facts: &'a Facts,
    pub constants: Constants<'m>,
    /// Insertion points of the edges that have been asked for.
    on_edge: BTreeMap<(BlockId, BlockId), Vec<Value<'m>>>,
}

impl<'m> Writer<'_, 'm> {
    pub fn instruction(&self, point: Point) -> Value<'m> {
        self.reading.instructions[point.block.index()][point.position as usize]
    }

    /// Emits a call `name(site)` at a spot.
    fn call(&mut self, spot: Spot, name: &str, site: u64) {
        let (ty, function) = self.constants.declare(name, &mut [self.constants.int(64)]);
        for before in self.places(spot) {
            let builder = Builder::before(self.module, before);
            builder.call(ty, function, &mut [self.constants.u64(site)]);
        }
    }

    /// Instructions before which the code for a spot is inserted.
    pub fn places(&mut self, spot: Spot) -> Vec<Value<'m>> {
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

    /// Insertion points for an edge. If the edge is the only one into its target, that is the start of the target; if
    /// it is the only one out of its source, the end of the source; any other edge is split. An edge that LLVM cannot
    /// split (from an indirect branch) falls back to the start of the target, where a superfluous call finds its task
    /// already ended.
    fn edge_places(&self, from: BlockId, to: BlockId) -> Vec<Value<'m>> {
        let (source, target) = (self.reading.blocks[from.index()], self.reading.blocks[to.index()]);
        let leads_there = |block: &Block<'m>| block.successors().iter().filter(|s| **s == target).count();
        let ways_in: usize = target.predecessors().iter().map(leads_there).sum();
        let ways_out = source.successors().len();
        let start = first_insertion_point(target);
        if ways_in == 1 {
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
        let total = self.largest(&builder, &task.sums, task);
        let is_same = task.live_sums == task.sums;
        let live = if is_same { total } else { self.largest(&builder, &task.live_sums, task) };
        let (long, int) = (self.constants.int(64), self.constants.int(32));
        let (ty, function) =
            self.constants.declare(eager_abi::TASK_BEGIN, &mut [long, long, long, long, int]);
        let (blocks, threads) = match &task.geometry {
            Some(geometry) => (
                self.wide(&builder, &geometry.blocks, task),
                builder.cast(CastOp::Truncate, self.wide(&builder, &geometry.threads, task), int),
            ),
            None => (self.constants.u64(0), self.constants.u32(0)),
        };
        builder.call(ty, function, &mut [self.constants.u64(site), total, live, blocks, threads]);
    }

    fn largest(&self, builder: &Builder<'m>, sums: &[Vec<Expr>], task: &StaticTask) -> LLVMValueRef {
        let sums = sums.iter().map(|sum| self.sum(builder, sum, task));
        sums.reduce(|a, b| builder.larger(a, b)).unwrap_or_else(|| self.constants.u64(0))
    }

    fn sum(&self, builder: &Builder<'m>, terms: &[Expr], task: &StaticTask) -> LLVMValueRef {
        let terms = terms.iter().map(|size| self.wide(builder, size, task));
        terms.reduce(|a, b| builder.binary(BinaryOp::Add, a, b)).unwrap_or_else(|| self.constants.u64(0))
    }

    /// Computes an expression, widened to 64 bits.
    fn wide(&self, builder: &Builder<'m>, expr: &Expr, task: &StaticTask) -> LLVMValueRef {
        builder.cast(CastOp::ZeroExtend, self.value(builder, expr, task), self.constants.int(64))
    }

    fn value(&self, builder: &Builder<'m>, expr: &Expr, task: &StaticTask) -> LLVMValueRef {
        match expr {
            Expr::Const { value, bits } => {
                // SAFETY: the type is an integer type of the module's context.
                unsafe { LLVMConstInt(self.constants.int(*bits), *value, 0) }
            }
            Expr::Leaf(id) => self.leaf(builder, *id, task),
            Expr::Cast { op, bits, arg } => {
                let arg = self.value(builder, arg, task);
                builder.cast(*op, arg, self.constants.int(*bits))
            }
            Expr::Binary { op, args } => {
                let (a, b) = (self.value(builder, &args.0, task), self.value(builder, &args.1, task));
                builder.binary(*op, a, b)
            }
        }
    }

    fn leaf(&self, builder: &Builder<'m>, id: LeafId, task: &StaticTask) -> LLVMValueRef {
        let leaf = &self.facts.leaves[id.index()];
        if let Some(reload) = leaf.reload.as_ref().filter(|_| task.reloads.contains(&id)) {
            let base = match reload.base {
                ReloadBase::Global(global) => Some(self.globals[global.index()]),
                ReloadBase::Pointer(pointer) => self.reading.pointers[pointer.index()],
            };
            if let Some(base) = base {
                return builder.load(base, reload.offset, self.constants, reload.bits);
            }
        }
        let own = leaf.own.and_then(|own| self.reading.leaves[own.index()]);
        own.expect("the planner uses leaves that are values or can be loaded").raw()
    }
}

/// Returns the `musttail` call directly before a return, if there is one: nothing may be inserted between the two.
fn before_tail_call(instruction: Value<'_>) -> Value<'_> {
    let list = instruction.block().map(Block::instructions).unwrap_or_default();
    let previous =
        list.iter().position(|&i| i == instruction).and_then(|at| at.checked_sub(1)).map(|at| list[at]);
    previous.filter(|call| call.is_must_tail()).unwrap_or(instruction)
}

pub(super) fn first_insertion_point(block: Block<'_>) -> Option<Value<'_>> {
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

/// An LLVM builder positioned before one instruction, with that instruction's source location.
pub(crate) struct Builder<'m> {
    pub raw: LLVMBuilderRef,
    before: Value<'m>,
}

impl<'m> Builder<'m> {
    pub fn before(module: Module<'m>, before: Value<'m>) -> Self {
        // SAFETY: `before` is a live instruction of the module; the builder is disposed of in `drop`.
        let raw = unsafe {
            let raw = LLVMCreateBuilderInContext(module.context());
            LLVMPositionBuilderBefore(raw, before.raw());
            LLVMSetCurrentDebugLocation2(raw, LLVMInstructionGetDebugLoc(before.raw()));
            raw
        };
        Self { raw, before }
    }

    pub fn call(&self, ty: LLVMTypeRef, function: LLVMValueRef, args: &mut [LLVMValueRef]) {
        let count = u32::try_from(args.len()).unwrap_or(u32::MAX);
        // SAFETY: the function was declared with `ty`, and the arguments have the declared types and count.
        unsafe { LLVMBuildCall2(self.raw, ty, function, args.as_mut_ptr(), count, c"".as_ptr()) };
    }

    /// Casts to another width, if the width differs.
    fn cast(&self, op: CastOp, value: LLVMValueRef, to: LLVMTypeRef) -> LLVMValueRef {
        // SAFETY: value and type are integers (sizes and their parts), and LLVM checks that the cast goes the right
        // way; equal widths are left alone because no cast instruction allows them.
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

    /// The larger of two unsigned numbers.
    fn larger(&self, a: LLVMValueRef, b: LLVMValueRef) -> LLVMValueRef {
        // SAFETY: both are 64-bit integers.
        unsafe {
            let is_larger = LLVMBuildICmp(self.raw, LLVMIntPredicate::LLVMIntUGT, a, b, c"".as_ptr());
            LLVMBuildSelect(self.raw, is_larger, a, b, c"".as_ptr())
        }
    }

    /// Loads an integer at an offset in bytes from an address.
    fn load(&self, base: Value<'m>, offset: i64, constants: Constants<'m>, bits: u32) -> LLVMValueRef {
        // SAFETY: the base is an address that is known here, and the program itself loads this place as an integer of
        // this width, or passes it to a call that does; an alignment of 1 is always right.
        unsafe {
            let mut index = [constants.u64(offset.cast_unsigned())];
            let address = match offset {
                0 => base.raw(),
                _ => {
                    LLVMBuildGEP2(self.raw, constants.int(8), base.raw(), index.as_mut_ptr(), 1, c"".as_ptr())
                }
            };
            let load = LLVMBuildLoad2(self.raw, constants.int(bits), address, c"".as_ptr());
            LLVMSetAlignment(load, 1);
            load
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
