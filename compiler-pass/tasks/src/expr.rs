//! Sizes as expressions over leaves, in machine integers.
//!
//! Trap: widths matter. `n * 4` in 32 bits and then widened is not `n` widened and then multiplied, so every node keeps
//! the operation that the program does and nothing is simplified across a cast.

use serde::{Deserialize, Serialize};

use crate::facts::{Leaf, LeafId};
use crate::program::RawLeaf;

/// Operations that can be repeated anywhere: they neither trap nor touch memory. Divisions are by a non-zero constant.
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
    fn symbol(self) -> &'static str {
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

/// Changes of width.
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
    /// Every leaf, left to right.
    #[must_use]
    pub fn leaves(&self) -> Vec<LeafId> {
        match self {
            Self::Const { .. } => Vec::new(),
            Self::Leaf(leaf) => vec![*leaf],
            Self::Cast { arg, .. } => arg.leaves(),
            Self::Binary { args, .. } => [args.0.leaves(), args.1.leaves()].concat(),
        }
    }

    /// The width, with the widths of the leaves; `None` if a leaf is not among them.
    #[must_use]
    pub fn bits(&self, leaves: &[RawLeaf]) -> Option<u32> {
        match self {
            Self::Const { bits, .. } | Self::Cast { bits, .. } => Some(*bits),
            Self::Leaf(leaf) => leaves.get(leaf.index()).map(|leaf| leaf.bits),
            Self::Binary { args, .. } => args.0.bits(leaves),
        }
    }

    /// The expression in the terms of the leaves' descriptions; casts are left out.
    #[must_use]
    pub fn describe(&self, leaves: &[Leaf]) -> String {
        match self {
            Self::Const { value, .. } => value.to_string(),
            Self::Leaf(leaf) => leaves
                .get(leaf.index())
                .map_or_else(|| "?".to_owned(), |leaf| format!("[{}]", leaf.description)),
            Self::Cast { arg, .. } => arg.describe(leaves),
            Self::Binary { op, args } => {
                format!("({} {} {})", args.0.describe(leaves), op.symbol(), args.1.describe(leaves))
            }
        }
    }
}
