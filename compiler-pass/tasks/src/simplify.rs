//! Simplifies expressions for reading: folds constants, and separates halves that were packed into one word.
//!
//! clang passes a grid's first two numbers as one word. Trap: the result is for reading only. It assumes that a value
//! has no bits outside of the width that a mask keeps, which is how descriptions leave out casts.

use crate::expr::{BinaryOp, Expr};

const LOW: u64 = 0xffff_ffff;

/// Removes packing, and operations that change nothing.
#[must_use]
pub fn simplified(expr: &Expr) -> Expr {
    match expr {
        Expr::Const { .. } | Expr::Leaf(_) => expr.clone(),
        Expr::Cast { op, bits, arg } => match simplified(arg) {
            Expr::Const { value, bits: from } if *bits >= from => Expr::Const { value, bits: *bits },
            arg => Expr::Cast { op: *op, bits: *bits, arg: Box::new(arg) },
        },
        Expr::Binary { op, args } => binary(*op, simplified(&args.0), simplified(&args.1)),
    }
}

fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    match (op, constant(&a), constant(&b)) {
        (BinaryOp::Add | BinaryOp::Or | BinaryOp::Xor, Some(0), _) | (BinaryOp::Mul, Some(1), _) => b,
        (
            BinaryOp::Add
            | BinaryOp::Sub
            | BinaryOp::Or
            | BinaryOp::Xor
            | BinaryOp::ShiftLeft
            | BinaryOp::ShiftRightLogical
            | BinaryOp::ShiftRightArithmetic,
            _,
            Some(0),
        )
        | (BinaryOp::Mul | BinaryOp::DivideUnsigned | BinaryOp::DivideSigned, _, Some(1)) => a,
        (BinaryOp::And, _, Some(LOW)) => low(a),
        (BinaryOp::ShiftRightLogical, _, Some(32)) => match high(&a) {
            Some(high) => high,
            None => whole(op, a, b),
        },
        (BinaryOp::Mul, Some(x), Some(y)) => folded(x.checked_mul(y), op, a, b),
        (BinaryOp::Add, Some(x), Some(y)) => folded(x.checked_add(y), op, a, b),
        _ => whole(op, a, b),
    }
}

fn whole(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    Expr::Binary { op, args: Box::new((a, b)) }
}

/// Folds an operation to a constant, if the value fits its width.
fn folded(value: Option<u64>, op: BinaryOp, a: Expr, b: Expr) -> Expr {
    match (value, &a) {
        (Some(value), Expr::Const { bits, .. }) if value.checked_shr(*bits).unwrap_or(0) == 0 => {
            Expr::Const { value, bits: *bits }
        }
        _ => whole(op, a, b),
    }
}

fn constant(expr: &Expr) -> Option<u64> {
    match expr {
        Expr::Const { value, .. } => Some(*value),
        _ => None,
    }
}

/// Whether the lower half of a word is known to be zero.
fn is_high(expr: &Expr) -> bool {
    match expr {
        Expr::Const { value, .. } => value & LOW == 0,
        Expr::Binary { op: BinaryOp::ShiftLeft, args } => constant(&args.1) == Some(32),
        _ => false,
    }
}

/// Lower half of a word.
fn low(expr: Expr) -> Expr {
    match expr {
        Expr::Const { value, bits } => Expr::Const { value: value & LOW, bits },
        Expr::Binary { op: BinaryOp::Or, args } if is_high(&args.1) => low(args.0),
        Expr::Binary { op: BinaryOp::Or, args } if is_high(&args.0) => low(args.1),
        other => other,
    }
}

/// Upper half of a word that was packed from two.
fn high(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Const { value, bits } => Some(Expr::Const { value: value >> 32, bits: *bits }),
        Expr::Binary { op: BinaryOp::ShiftLeft, args } if is_high(expr) => Some(args.0.clone()),
        Expr::Binary { op: BinaryOp::Or, args } if is_high(&args.1) => high(&args.1),
        Expr::Binary { op: BinaryOp::Or, args } if is_high(&args.0) => high(&args.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{BinaryOp, Expr, simplified};
    use crate::facts::{Leaf, LeafSource, describe};
    use crate::names::LeafId;

    fn number(value: u64) -> Expr {
        Expr::Const { value, bits: 64 }
    }

    fn of(op: BinaryOp, a: Expr, b: Expr) -> Expr {
        Expr::Binary { op, args: Box::new((a, b)) }
    }

    fn described(expr: &Expr) -> String {
        let leaf = |text: &str| Leaf {
            source: LeafSource::Argument,
            description: text.to_owned(),
            own: None,
            reload: None,
        };
        describe(&simplified(expr), &[leaf("w"), leaf("h")])
    }

    #[test]
    fn halves_of_a_packed_word_are_taken_apart() {
        let (w, h) = (Expr::Leaf(LeafId(0)), Expr::Leaf(LeafId(1)));
        let mask = || number(0xffff_ffff);
        let packed = of(BinaryOp::Or, of(BinaryOp::And, w, mask()), of(BinaryOp::ShiftLeft, h, number(32)));
        let lower = of(BinaryOp::And, packed.clone(), mask());
        let upper = of(BinaryOp::ShiftRightLogical, packed, number(32));
        assert_eq!(described(&of(BinaryOp::Mul, lower, upper)), "([w] * [h])");
    }

    #[test]
    fn a_grid_of_one_dimension_is_its_width() {
        let w = of(BinaryOp::And, Expr::Leaf(LeafId(0)), number(0xffff_ffff));
        let packed = of(BinaryOp::Or, w, number(1 << 32));
        let lower = of(BinaryOp::And, packed.clone(), number(0xffff_ffff));
        let upper = of(BinaryOp::ShiftRightLogical, packed, number(32));
        let grid = of(BinaryOp::Mul, of(BinaryOp::Mul, lower, upper), number(1));
        assert_eq!(described(&grid), "[w]");
    }

    #[test]
    fn what_overflows_its_width_is_not_folded() {
        let byte = |value| Expr::Const { value, bits: 8 };
        assert_eq!(described(&of(BinaryOp::Mul, byte(16), byte(15))), "240");
        assert_eq!(described(&of(BinaryOp::Mul, byte(16), byte(16))), "(16 * 16)");
    }
}
