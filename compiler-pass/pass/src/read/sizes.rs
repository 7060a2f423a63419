//! Size operands into expressions over leaves.
//!
//! A leaf is where the reader stops: a parameter, a phi, the result of a call, a load. Trap: the same global read before
//! each `cudaMalloc` is a different load each time; it is the same size only if nothing in between may write it, which
//! is why a load carries its clobbers.

use std::collections::{BTreeMap, BTreeSet};

use eager_tasks::{BinaryOp, CastOp, Expr, Leaf, LeafId, LeafSource, Point};
use llvm_sys::LLVMOpcode;

use super::calls::Wrappers;
use super::quiet::{self, Runtime};
use super::trace::{Base, Origin, origins};
use crate::ir::{Module, Value};

/// Larger expressions become a leaf, so that shared sub-expressions cannot blow up.
const NODES_MAX: usize = 64;

/// Collects the leaves of one function's sizes.
#[derive(Debug)]
pub struct SizeReader<'a, 'm> {
    pub module: Module<'m>,
    pub wrappers: &'a Wrappers<'m>,
    /// Point of every instruction of the function.
    pub points: &'a BTreeMap<Value<'m>, Point>,
    pub leaves: Vec<Leaf>,
    /// The value behind each leaf, for the writer.
    pub values: Vec<Value<'m>>,
}

impl<'m> SizeReader<'_, 'm> {
    /// The expression of a size operand; `None` if it is wider than 64 bits.
    pub fn read(&mut self, value: Value<'m>) -> Option<Expr> {
        let mut nodes = 0;
        self.expr(value, &mut nodes)
    }

    fn expr(&mut self, value: Value<'m>, nodes: &mut usize) -> Option<Expr> {
        *nodes += 1;
        let bits = value.integer_bits().filter(|&bits| bits <= 64)?;
        if let Some(constant) = value.const_int() {
            return Some(Expr::Const { value: constant, bits });
        }
        if *nodes > NODES_MAX {
            return Some(Expr::Leaf(self.leaf(value)));
        }
        let operands = value.operands();
        if let Some(op) = value.opcode().and_then(cast_op) {
            let arg = operands.first().filter(|arg| arg.integer_bits().is_some_and(|bits| bits <= 64));
            if let Some(&arg) = arg {
                return Some(Expr::Cast { op, bits, arg: Box::new(self.expr(arg, nodes)?) });
            }
        }
        if let (Some(op), [a, b]) = (value.opcode().and_then(binary_op), operands.as_slice()) {
            let may_trap = is_division(op) && b.const_int().is_none_or(|divisor| divisor == 0);
            if !may_trap {
                let args = (self.expr(*a, nodes)?, self.expr(*b, nodes)?);
                return Some(Expr::Binary { op, args: Box::new(args) });
            }
        }
        Some(Expr::Leaf(self.leaf(value)))
    }

    fn leaf(&mut self, value: Value<'m>) -> LeafId {
        let index = self.values.iter().position(|&known| known == value).unwrap_or_else(|| {
            let source = self.source(value);
            self.leaves.push(Leaf { source, description: describe(value) });
            self.values.push(value);
            self.values.len() - 1
        });
        LeafId(u32::try_from(index).expect("a function has fewer than 2^32 sizes"))
    }

    fn source(&self, value: Value<'m>) -> LeafSource {
        let Some(&at) = self.points.get(&value) else { return LeafSource::Argument };
        match value.opcode() {
            Some(LLVMOpcode::LLVMLoad) => match self.clobbers(value) {
                Some(clobbers) => LeafSource::Memory { at, clobbers },
                None => LeafSource::Instruction(at),
            },
            // The result of an invoke exists on its normal way out only.
            Some(LLVMOpcode::LLVMInvoke) => {
                let normal = value.block().and_then(|block| block.successors().first().copied());
                let first = normal.and_then(|block| block.instructions().first().copied());
                LeafSource::Instruction(
                    first.and_then(|first| self.points.get(&first).copied()).unwrap_or(at),
                )
            }
            _ => LeafSource::Instruction(at),
        }
    }

    /// The points that may write what a load reads; `None` if its address is not a constant place.
    fn clobbers(&self, load: Value<'m>) -> Option<Vec<Point>> {
        let address = load.operand(0)?;
        let found: Vec<_> = origins(self.module, address).into_iter().collect();
        let [Origin::Address { base: base @ (Base::Local(_) | Base::Global(_)), offset: Some(_) }] =
            found[..]
        else {
            return None;
        };
        if !is_repeatable(address) {
            return None;
        }
        let object = match base {
            Base::Local(object) | Base::Global(object) => object,
            _ => return None,
        };
        let exposed = matches!(base, Base::Global(_)) || quiet::is_exposed(object);
        let mut clobbers = BTreeSet::new();
        for (&instruction, &point) in self.points {
            let runtime = self.wrappers.runtime_call(instruction);
            if runtime.is_some_and(|call| call.name.ends_with("Async"))
                && self.gets_address(instruction, base)
            {
                // The copy may land at any later moment.
                return None;
            }
            if self.may_write(instruction, base, exposed) {
                clobbers.insert(point);
            }
        }
        Some(clobbers.into_iter().collect())
    }

    fn may_write(&self, instruction: Value<'m>, base: Base<'m>, exposed: bool) -> bool {
        let hits = |pointer: Value<'m>| {
            origins(self.module, pointer).into_iter().any(|origin| match origin {
                Origin::Address { base: written @ (Base::Local(_) | Base::Global(_)), .. } => written == base,
                _ => exposed,
            })
        };
        match instruction.opcode() {
            Some(LLVMOpcode::LLVMStore) => instruction.operand(1).is_some_and(hits),
            Some(LLVMOpcode::LLVMAtomicRMW | LLVMOpcode::LLVMAtomicCmpXchg) => {
                instruction.operand(0).is_some_and(hits)
            }
            Some(LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke) => {
                let gets_address = || self.gets_address(instruction, base);
                if self.wrappers.runtime_call(instruction).is_some() {
                    return gets_address();
                }
                match quiet::intrinsic_writes(instruction) {
                    Some(false) => false,
                    Some(true) => instruction.call_args().first().copied().is_some_and(hits),
                    None => {
                        (exposed || gets_address())
                            && !quiet::is_quiet(self.module, instruction, Runtime::Quiet)
                    }
                }
            }
            _ => false,
        }
    }

    /// Whether a call gets an address in `base`.
    fn gets_address(&self, call: Value<'m>, base: Base<'m>) -> bool {
        let is_address = |origin| matches!(origin, Origin::Address { base: given, .. } if given == base);
        call.call_args()
            .into_iter()
            .any(|arg| arg.is_pointer() && origins(self.module, arg).into_iter().any(is_address))
    }
}

/// Whether an address can be computed anywhere: a global or local, and constant steps from it.
fn is_repeatable(address: Value<'_>) -> bool {
    if address.is_constant() || address.is_argument() || address.opcode() == Some(LLVMOpcode::LLVMAlloca) {
        return true;
    }
    address.opcode() == Some(LLVMOpcode::LLVMGetElementPtr)
        && address.operands().iter().all(|operand| operand.is_constant() || is_repeatable(*operand))
}

fn describe(value: Value<'_>) -> String {
    let line = value.location().map_or_else(String::new, |at| format!(" at line {}", at.line));
    let name = value.name();
    match value.opcode() {
        None => value
            .argument_index()
            .map_or_else(|| "a value".to_owned(), |index| format!("argument {}", index + 1)),
        Some(_) if !name.is_empty() => format!("{name}{line}"),
        Some(LLVMOpcode::LLVMLoad) => {
            let from = value.operand(0).filter(|from| from.is_global()).map(Value::name);
            from.map_or_else(|| format!("load{line}"), |global| format!("{global}{line}"))
        }
        Some(LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke) => value
            .callee_name()
            .map_or_else(|| format!("result of a call{line}"), |name| format!("{name}(){line}")),
        Some(_) => format!("value{line}"),
    }
}

fn cast_op(opcode: LLVMOpcode) -> Option<CastOp> {
    match opcode {
        LLVMOpcode::LLVMZExt => Some(CastOp::ZeroExtend),
        LLVMOpcode::LLVMSExt => Some(CastOp::SignExtend),
        LLVMOpcode::LLVMTrunc => Some(CastOp::Truncate),
        _ => None,
    }
}

fn binary_op(opcode: LLVMOpcode) -> Option<BinaryOp> {
    Some(match opcode {
        LLVMOpcode::LLVMAdd => BinaryOp::Add,
        LLVMOpcode::LLVMSub => BinaryOp::Sub,
        LLVMOpcode::LLVMMul => BinaryOp::Mul,
        LLVMOpcode::LLVMShl => BinaryOp::ShiftLeft,
        LLVMOpcode::LLVMLShr => BinaryOp::ShiftRightLogical,
        LLVMOpcode::LLVMAShr => BinaryOp::ShiftRightArithmetic,
        LLVMOpcode::LLVMAnd => BinaryOp::And,
        LLVMOpcode::LLVMOr => BinaryOp::Or,
        LLVMOpcode::LLVMXor => BinaryOp::Xor,
        LLVMOpcode::LLVMUDiv => BinaryOp::DivideUnsigned,
        LLVMOpcode::LLVMSDiv => BinaryOp::DivideSigned,
        LLVMOpcode::LLVMURem => BinaryOp::RemainderUnsigned,
        LLVMOpcode::LLVMSRem => BinaryOp::RemainderSigned,
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
