//! Emits the calls of static tasks: `eager_task_begin` with the computed size and geometry, `eager_all_launched`,
//! `eager_task_end`.
//!
//! Points refer to the snapshot that the reader took; instructions are only added, so points stay valid. Trap: where a
//! task ends exactly where the next begins, the end must come first, so all begins are emitted after all ends.

use std::collections::BTreeMap;

use eager_llvm::{Block, Builder, LLVMIntPredicate, Module, Opcode, Type, Value};
use eager_tasks::deaths::Dead;
use eager_tasks::{BinaryOp, BlockId, CastOp, Expr, Facts, LeafId, Point, ReloadBase, Spot, StaticTask};

use super::builder_before;
use super::constants::Constants;
use super::unwinds;
use crate::read::function::Reading;

/// Emits one function's dead buffers and static tasks; each task comes with its site number.
pub fn emit_tasks<'m>(
    module: &'m Module<'m>,
    reading: &Reading<'m>,
    globals: &[Value<'m>],
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
    pub module: &'m Module<'m>,
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
        let (ty, function) = self.constants.declare(name, &[self.constants.int(64)]);
        for before in self.places(spot) {
            let builder = builder_before(self.module, before);
            builder.call_as(ty, function, &[self.constants.u64(site)]);
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
            match source.split_edge(target).and_then(first_insertion_point) {
                Some(place) => places.push(place),
                None => return start.into_iter().collect(),
            }
        }
        places
    }

    fn begin(&self, site: u64, task: &StaticTask) {
        let builder = builder_before(self.module, self.instruction(task.begin));
        let total = self.largest(&builder, &task.sums, task);
        let is_same = task.live_sums == task.sums;
        let live = if is_same { total } else { self.largest(&builder, &task.live_sums, task) };
        let (long, int) = (self.constants.int(64), self.constants.int(32));
        let (ty, function) = self.constants.declare(eager_abi::TASK_BEGIN, &[long, long, long, long, int]);
        let (blocks, threads) = match &task.geometry {
            Some(geometry) => (
                self.wide(&builder, &geometry.blocks, task),
                cast(&builder, CastOp::Truncate, self.wide(&builder, &geometry.threads, task), int),
            ),
            None => (self.constants.u64(0), self.constants.u32(0)),
        };
        builder.call_as(ty, function, &[self.constants.u64(site), total, live, blocks, threads]);
    }

    fn largest(&self, builder: &Builder<'m>, sums: &[Vec<Expr>], task: &StaticTask) -> Value<'m> {
        let sums = sums.iter().map(|sum| self.sum(builder, sum, task));
        sums.reduce(|a, b| larger(builder, a, b)).unwrap_or_else(|| self.constants.u64(0))
    }

    fn sum(&self, builder: &Builder<'m>, terms: &[Expr], task: &StaticTask) -> Value<'m> {
        let terms = terms.iter().map(|size| self.wide(builder, size, task));
        terms.reduce(|a, b| builder.binary(Opcode::LLVMAdd, a, b)).unwrap_or_else(|| self.constants.u64(0))
    }

    /// Computes an expression, widened to 64 bits.
    fn wide(&self, builder: &Builder<'m>, expr: &Expr, task: &StaticTask) -> Value<'m> {
        cast(builder, CastOp::ZeroExtend, self.value(builder, expr, task), self.constants.int(64))
    }

    fn value(&self, builder: &Builder<'m>, expr: &Expr, task: &StaticTask) -> Value<'m> {
        match expr {
            Expr::Const { value, bits } => self.constants.int(*bits).constant(*value),
            Expr::Leaf(id) => self.leaf(builder, *id, task),
            Expr::Cast { op, bits, arg } => {
                let arg = self.value(builder, arg, task);
                cast(builder, *op, arg, self.constants.int(*bits))
            }
            Expr::Binary { op, args } => {
                let (a, b) = (self.value(builder, &args.0, task), self.value(builder, &args.1, task));
                builder.binary(opcode(*op), a, b)
            }
        }
    }

    fn leaf(&self, builder: &Builder<'m>, id: LeafId, task: &StaticTask) -> Value<'m> {
        let leaf = &self.facts.leaves[id.index()];
        if let Some(reload) = leaf.reload.as_ref().filter(|_| task.reloads.contains(&id)) {
            let base = match reload.base {
                ReloadBase::Global(global) => Some(self.globals[global.index()]),
                ReloadBase::Pointer(pointer) => self.reading.pointers[pointer.index()],
            };
            if let Some(base) = base {
                return load(builder, base, reload.offset, self.constants, reload.bits);
            }
        }
        let own = leaf.own.and_then(|own| self.reading.leaves[own.index()]);
        own.expect("the planner uses leaves that are values or can be loaded")
    }
}

/// Returns the `musttail` call directly before a return, if there is one: nothing may be inserted between the two.
fn before_tail_call(instruction: Value<'_>) -> Value<'_> {
    let list = instruction.place().map(Block::instructions).unwrap_or_default();
    let previous =
        list.iter().position(|&i| i == instruction).and_then(|at| at.checked_sub(1)).map(|at| list[at]);
    previous.filter(|call| call.is_must_tail()).unwrap_or(instruction)
}

pub(super) fn first_insertion_point(block: Block<'_>) -> Option<Value<'_>> {
    let must_lead = |i: &Value<'_>| {
        matches!(
            i.instruction_opcode(),
            Some(Opcode::LLVMPHI | Opcode::LLVMLandingPad | Opcode::LLVMCleanupPad | Opcode::LLVMCatchPad)
        )
    };
    block.instructions().into_iter().find(|i| !must_lead(i))
}

/// Casts to another width, if the width differs.
fn cast<'m>(builder: &Builder<'m>, op: CastOp, value: Value<'m>, to: Type<'m>) -> Value<'m> {
    // No cast instruction allows equal widths.
    if value.ty() == to {
        return value;
    }
    let opcode = match op {
        CastOp::ZeroExtend => Opcode::LLVMZExt,
        CastOp::SignExtend => Opcode::LLVMSExt,
        CastOp::Truncate => Opcode::LLVMTrunc,
    };
    builder.cast(opcode, value, to)
}

fn opcode(op: BinaryOp) -> Opcode {
    match op {
        BinaryOp::Add => Opcode::LLVMAdd,
        BinaryOp::Sub => Opcode::LLVMSub,
        BinaryOp::Mul => Opcode::LLVMMul,
        BinaryOp::ShiftLeft => Opcode::LLVMShl,
        BinaryOp::ShiftRightLogical => Opcode::LLVMLShr,
        BinaryOp::ShiftRightArithmetic => Opcode::LLVMAShr,
        BinaryOp::And => Opcode::LLVMAnd,
        BinaryOp::Or => Opcode::LLVMOr,
        BinaryOp::Xor => Opcode::LLVMXor,
        BinaryOp::DivideUnsigned => Opcode::LLVMUDiv,
        BinaryOp::DivideSigned => Opcode::LLVMSDiv,
        BinaryOp::RemainderUnsigned => Opcode::LLVMURem,
        BinaryOp::RemainderSigned => Opcode::LLVMSRem,
    }
}

/// The larger of two unsigned numbers.
fn larger<'m>(builder: &Builder<'m>, a: Value<'m>, b: Value<'m>) -> Value<'m> {
    builder.select(builder.compare(LLVMIntPredicate::LLVMIntUGT, a, b), a, b)
}

/// Loads an integer at an offset in bytes from an address. An alignment of 1 is always right.
fn load<'m>(
    builder: &Builder<'m>,
    base: Value<'m>,
    offset: i64,
    constants: Constants<'m>,
    bits: u32,
) -> Value<'m> {
    let address = match offset {
        0 => base,
        _ => builder.offset(base, constants.u64(offset.cast_unsigned())),
    };
    let load = builder.load(constants.int(bits), address);
    load.set_alignment(1);
    load
}
