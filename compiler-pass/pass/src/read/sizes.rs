//! Reads size operands into expressions over leaves.
//!
//! A leaf is a value that the reader does not look into: a parameter, a phi, the result of a call, a load. Trap: the
//! same global read before each `cudaMalloc` is a different load each time. Whether it has the same value depends on
//! what runs in between.

use eager_abi::calls::{PITCH_ALIGNMENT, SizeRule};
use eager_llvm::{Opcode, Value};
use eager_tasks::program::{RawLeaf, RawSource};
use eager_tasks::{BinaryOp, CastOp, Expr, LeafId, Point};

use super::calls::RuntimeCall;
use super::pointers::PointerReader;

/// Larger expressions become a leaf, so that shared sub-expressions cannot grow exponentially.
const NODES_MAX: usize = 64;

/// Collects the leaves of one function's sizes.
#[derive(Debug)]
pub struct SizeReader<'r, 'a, 'm> {
    pub pointers: &'r mut PointerReader<'a, 'm>,
    pub leaves: &'r mut Vec<RawLeaf>,
    /// IR value of each leaf, for the writer; `None` for a leaf that is only in memory.
    pub values: &'r mut Vec<Option<Value<'m>>>,
}

impl<'m> SizeReader<'_, '_, 'm> {
    /// Expression of an integer; `None` if it is wider than 64 bits.
    pub fn read(&mut self, value: Value<'m>) -> Option<Expr> {
        let mut nodes = 0;
        self.expr(value, &mut nodes)
    }

    /// Number of bytes that a call allocates, 64 bits wide.
    pub fn allocated(&mut self, call: &RuntimeCall<'m>, rule: SizeRule, at: Point) -> Option<Expr> {
        let mut arg = |index: usize| {
            let value = call.args.get(index).copied().flatten()?;
            self.read(value).filter(|_| value.integer_bits() == Some(64))
        };
        match rule {
            SizeRule::Bytes(index) => {
                let value = call.args.get(index).copied().flatten()?;
                self.read(value)
            }
            SizeRule::Pitched { width, height } => Some(product(rounded(arg(width)?), arg(height)?)),
            SizeRule::PitchedExtent { extent } => {
                let extent = call.args.get(extent).copied().flatten()?;
                let [width, height, depth] = [0, 8, 16].map(|offset| self.field(extent, offset, at));
                Some(product(product(rounded(width?), height?), depth?))
            }
            SizeRule::Unknown => None,
        }
    }

    /// Eight bytes of a struct that a call gets in memory.
    fn field(&mut self, address: Value<'m>, offset: i64, at: Point) -> Option<Expr> {
        if let Some(stored) = self.stored_at(address, offset) {
            return self.read(stored);
        }
        let address = self.pointers.id(address);
        let address = self.pointers.offset(address, offset);
        let source = RawSource::Memory { at, address, is_loaded: false };
        let description = "a cudaExtent".to_owned();
        Some(Expr::Leaf(self.add(RawLeaf { source, bits: 64, description }, None)))
    }

    /// Value of the only store to a place in a local struct.
    fn stored_at(&self, address: Value<'m>, offset: i64) -> Option<Value<'m>> {
        if address.instruction_opcode() != Some(Opcode::LLVMAlloca) {
            return None;
        }
        let place = |user: &Value<'m>| match user.instruction_opcode() {
            Some(Opcode::LLVMGetElementPtr) => self.pointers.module.constant_offset(*user),
            _ => None,
        };
        let mut holders: Vec<_> =
            address.users().into_iter().filter(|user| place(user) == Some(offset)).collect();
        if offset == 0 {
            holders.push(address);
        }
        let users = holders.iter().flat_map(|holder| holder.users());
        let mut stores = users.filter(|user| user.instruction_opcode() == Some(Opcode::LLVMStore));
        let (store, None) = (stores.next()?, stores.next()) else { return None };
        store.operand_at(0).filter(|value| value.integer_bits() == Some(64))
    }

    fn expr(&mut self, value: Value<'m>, nodes: &mut usize) -> Option<Expr> {
        *nodes += 1;
        let bits = value.integer_bits().filter(|&bits| bits <= 64)?;
        if let Some(constant) = value.constant_integer() {
            return Some(Expr::Const { value: constant, bits });
        }
        if *nodes > NODES_MAX {
            return self.leaf(value, bits);
        }
        let operands = value.operands();
        if let Some(op) = value.instruction_opcode().and_then(cast_op) {
            let arg = operands.first().filter(|arg| arg.integer_bits().is_some_and(|bits| bits <= 64));
            if let Some(&arg) = arg {
                return Some(Expr::Cast { op, bits, arg: Box::new(self.expr(arg, nodes)?) });
            }
        }
        if let (Some(op), [a, b]) = (value.instruction_opcode().and_then(binary_op), operands.as_slice()) {
            let may_trap = is_division(op) && b.constant_integer().is_none_or(|divisor| divisor == 0);
            if !may_trap {
                let args = (self.expr(*a, nodes)?, self.expr(*b, nodes)?);
                return Some(Expr::Binary { op, args: Box::new(args) });
            }
        }
        self.leaf(value, bits)
    }

    fn leaf(&mut self, value: Value<'m>, bits: u32) -> Option<Expr> {
        if let Some(known) = self.values.iter().position(|&known| known == Some(value)) {
            return Some(Expr::Leaf(LeafId(u32::try_from(known).ok()?)));
        }
        let source = self.source(value)?;
        let leaf = RawLeaf { source, bits, description: describe(value) };
        Some(Expr::Leaf(self.add(leaf, Some(value))))
    }

    fn add(&mut self, leaf: RawLeaf, value: Option<Value<'m>>) -> LeafId {
        self.leaves.push(leaf);
        self.values.push(value);
        LeafId(u32::try_from(self.leaves.len() - 1).expect("a function has fewer than 2^32 sizes"))
    }

    fn source(&mut self, value: Value<'m>) -> Option<RawSource> {
        if let Some(index) = value.argument_index() {
            return Some(RawSource::Argument(u32::try_from(index).ok()?));
        }
        let at = *self.pointers.points.get(&value)?;
        Some(match value.instruction_opcode() {
            Some(Opcode::LLVMLoad) if !value.is_volatile() => {
                let address = self.pointers.id(value.operand_at(0)?);
                RawSource::Memory { at, address, is_loaded: true }
            }
            // The result of an invoke exists at its normal successor only.
            Some(Opcode::LLVMInvoke) => {
                let normal = value.place().and_then(|block| block.successors().first().copied());
                let first = normal.and_then(|block| block.instructions().first().copied());
                let known = first.and_then(|first| self.pointers.points.get(&first).copied());
                RawSource::Instruction(known.unwrap_or(at))
            }
            _ => RawSource::Instruction(at),
        })
    }
}

fn product(a: Expr, b: Expr) -> Expr {
    Expr::Binary { op: BinaryOp::Mul, args: Box::new((a, b)) }
}

/// Rounds a width up to the next multiple of the pitch's alignment.
fn rounded(width: Expr) -> Expr {
    let constant = |value| Expr::Const { value, bits: 64 };
    let above = Expr::Binary { op: BinaryOp::Add, args: Box::new((width, constant(PITCH_ALIGNMENT - 1))) };
    Expr::Binary { op: BinaryOp::And, args: Box::new((above, constant(!(PITCH_ALIGNMENT - 1)))) }
}

fn describe(value: Value<'_>) -> String {
    let line = value.source_line().map_or_else(String::new, |(_, line)| format!(" at line {line}"));
    let name = value.name();
    match value.instruction_opcode() {
        None => value
            .argument_index()
            .map_or_else(|| "a value".to_owned(), |index| format!("argument {}", index + 1)),
        Some(_) if !name.is_empty() => format!("{name}{line}"),
        Some(Opcode::LLVMLoad) => {
            let from = value.operand_at(0).filter(|from| from.is_global()).map(Value::name);
            from.map_or_else(|| format!("load{line}"), |global| format!("{global}{line}"))
        }
        Some(Opcode::LLVMCall | Opcode::LLVMInvoke) => value
            .callee_name()
            .map_or_else(|| format!("result of a call{line}"), |name| format!("{name}(){line}")),
        Some(_) => format!("value{line}"),
    }
}

fn cast_op(opcode: Opcode) -> Option<CastOp> {
    match opcode {
        Opcode::LLVMZExt => Some(CastOp::ZeroExtend),
        Opcode::LLVMSExt => Some(CastOp::SignExtend),
        Opcode::LLVMTrunc => Some(CastOp::Truncate),
        _ => None,
    }
}

fn binary_op(opcode: Opcode) -> Option<BinaryOp> {
    Some(match opcode {
        Opcode::LLVMAdd => BinaryOp::Add,
        Opcode::LLVMSub => BinaryOp::Sub,
        Opcode::LLVMMul => BinaryOp::Mul,
        Opcode::LLVMShl => BinaryOp::ShiftLeft,
        Opcode::LLVMLShr => BinaryOp::ShiftRightLogical,
        Opcode::LLVMAShr => BinaryOp::ShiftRightArithmetic,
        Opcode::LLVMAnd => BinaryOp::And,
        Opcode::LLVMOr => BinaryOp::Or,
        Opcode::LLVMXor => BinaryOp::Xor,
        Opcode::LLVMUDiv => BinaryOp::DivideUnsigned,
        Opcode::LLVMSDiv => BinaryOp::DivideSigned,
        Opcode::LLVMURem => BinaryOp::RemainderUnsigned,
        Opcode::LLVMSRem => BinaryOp::RemainderSigned,
        _ => return None,
    })
}

fn is_division(op: BinaryOp) -> bool {
    matches!(
        op,
        BinaryOp::DivideUnsigned
            | BinaryOp::DivideSigned
            | BinaryOp::RemainderUnsigned
            | BinaryOp::RemainderSigned
    )
}
