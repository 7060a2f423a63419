//! Sizes as expressions over leaves, in machine integers.
//!
//! Trap: widths matter. `n * 4` computed in 32 bits and then widened differs from `n` widened and then multiplied. So
//! every node keeps the operation of the program, and nothing is simplified across a cast.

use serde::{Deserialize, Serialize};

use crate::names::LeafId;

/// Operations that can be repeated at any point: they neither trap nor access memory. Divisors are non-zero constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    ShiftLeft,
    ShiftRightLogical,
    ShiftRightArithmetic,
    And,
    Or,
    Xor,
    DivideUnsigned,
    DivideSigned,
    RemainderUnsigned,
    RemainderSigned,
}

impl BinaryOp {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::ShiftLeft => "<<",
            Self::ShiftRightLogical | Self::ShiftRightArithmetic => ">>",
            Self::And => "&",
            Self::Or => "|",
            Self::Xor => "^",
            Self::DivideUnsigned | Self::DivideSigned => "/",
            Self::RemainderUnsigned | Self::RemainderSigned => "%",
        }
    }
}

/// Casts between widths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CastOp {
    ZeroExtend,
    SignExtend,
    Truncate,
}

/// A size in bytes, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expr {
    Const { value: u64, bits: u32 },
    Leaf(LeafId),
    Cast { op: CastOp, bits: u32, arg: Box<Expr> },
    Binary { op: BinaryOp, args: Box<(Expr, Expr)> },
}

impl Expr {
    /// All leaves, from left to right.
    #[must_use]
    pub fn leaves(&self) -> Vec<LeafId> {
        match self {
            Self::Const { .. } => Vec::new(),
            Self::Leaf(leaf) => vec![*leaf],
            Self::Cast { arg, .. } => arg.leaves(),
            Self::Binary { args, .. } => [args.0.leaves(), args.1.leaves()].concat(),
        }
    }
}
