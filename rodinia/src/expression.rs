//! Formulas of the manifests: numbers, variables, `+ - * / ^`, `min max`, comparisons, and a few functions.
//!
//! Trap: values are `f64`, exact for whole numbers below 2^53, so a byte count stays exact as long as each division in
//! its formula is rounded with `floor` or `ceil` at once.

use exmex::prelude::*;
use exmex::{BinOp, MakeOperators, Operator, ops_factory};
use std::collections::BTreeMap;

/// Values of variables by name.
pub type Variables = BTreeMap<String, f64>;

/// Bytes of the block in which Unified Memory moves and footprints are counted (specification S-501).
pub const BLOCK_BYTES: f64 = 2_097_152.0;

const fn left(apply: fn(f64, f64) -> f64, prio: i64) -> BinOp<f64> {
    // Never reordered: (a * b) / c must not become a * (b / c), which rounds.
    BinOp { apply, prio, is_commutative: false }
}

const fn truth(value: bool) -> f64 {
    if value { 1.0 } else { 0.0 }
}

ops_factory!(
    Operators,
    f64,
    Operator::make_bin("^", left(f64::powf, 6)),
    Operator::make_bin("*", left(|a, b| a * b, 5)),
    Operator::make_bin("/", left(|a, b| a / b, 5)),
    Operator::make_bin_unary("+", left(|a, b| a + b, 4), |a| a),
    Operator::make_bin_unary("-", left(|a, b| a - b, 4), |a| -a),
    Operator::make_bin("min", left(f64::min, 3)),
    Operator::make_bin("max", left(f64::max, 3)),
    Operator::make_bin("<", left(|a, b| truth(a < b), 2)),
    Operator::make_bin(">=", left(|a, b| truth(a >= b), 2)),
    Operator::make_unary("floor", f64::floor),
    Operator::make_unary("ceil", f64::ceil),
    Operator::make_unary("sqrt", f64::sqrt),
    Operator::make_unary("exp", f64::exp),
    // Rounded up to whole 2 MiB blocks.
    Operator::make_unary("paged", |bytes: f64| (bytes / BLOCK_BYTES).ceil() * BLOCK_BYTES)
);

/// Reason why a formula has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    #[error("`{text}` is not a formula: {why}")]
    Syntax { text: String, why: String },
    #[error("`{text}`: unknown variable `{name}` at character {position}; known: {known}")]
    Unknown { text: String, name: String, position: usize, known: String },
    #[error("`{text}` is {value}, which is not {wanted}")]
    Value { text: String, value: String, wanted: &'static str },
    #[error("`{text}`: {why}")]
    Name { text: String, why: String },
}

impl ExpressionError {
    /// The part of the manifest that is wrong, as it is written there.
    pub fn quoted(&self) -> &str {
        match self {
            Self::Syntax { text, .. }
            | Self::Unknown { text, .. }
            | Self::Value { text, .. }
            | Self::Name { text, .. } => text,
        }
    }
}

/// Value of a formula.
///
/// # Errors
/// The formula does not parse, uses an unknown variable, or has no finite value.
pub fn evaluate(text: &str, variables: &Variables) -> Result<f64, ExpressionError> {
    let formula = FlatEx::<f64, Operators>::parse(text)
        .map_err(|e| ExpressionError::Syntax { text: text.to_owned(), why: one_line(e.msg()) })?;
    let mut values = Vec::with_capacity(formula.var_names().len());
    for name in formula.var_names() {
        let value = variables.get(name).ok_or_else(|| ExpressionError::Unknown {
            text: text.to_owned(),
            name: name.clone(),
            position: text.find(name.as_str()).map_or(0, |at| at + 1),
            known: variables.keys().cloned().collect::<Vec<_>>().join(", "),
        })?;
        values.push(*value);
    }
    let value = formula
        .eval(&values)
        .map_err(|e| ExpressionError::Syntax { text: text.to_owned(), why: one_line(e.msg()) })?;
    if value.is_finite() { Ok(value) } else { Err(not(text, value, "a finite number")) }
}

/// Value of a formula for a count: bytes, launches, blocks.
///
/// # Errors
/// As [`evaluate`], or the value is negative, fractional, or too large to be exact.
pub fn count(text: &str, variables: &Variables) -> Result<u64, ExpressionError> {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let value = evaluate(text, variables)?;
    if value >= 0.0 && value.fract() == 0.0 && value <= EXACT_MAX {
        Ok(value as u64)
    } else {
        Err(not(text, value, "a whole number from 0 to 2^53"))
    }
}

/// Value of a formula for estimated work, rounded to the nearest whole number.
///
/// # Errors
/// As [`count`].
pub fn estimate(text: &str, variables: &Variables) -> Result<u64, ExpressionError> {
    let value = evaluate(text, variables)?;
    if value >= 0.0 { Ok(value.round() as u64) } else { Err(not(text, value, "at least 0")) }
}

fn not(text: &str, value: f64, wanted: &'static str) -> ExpressionError {
    ExpressionError::Value { text: text.to_owned(), value: value.to_string(), wanted }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> f64 {
        let variables = [("n", 10.0), ("big", 67_108_864.0)].map(|(k, v)| (k.to_owned(), v));
        evaluate(text, &variables.into_iter().collect()).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn operators_bind_as_in_arithmetic() {
        assert_eq!(value("2 + 3 * n"), 32.0);
        assert_eq!(value("100 - n - 1"), 89.0);
        assert_eq!(value("n * 3 / 2"), 15.0);
        assert_eq!(value("2 * n ^ 2"), 200.0);
        assert_eq!(value("ceil((n + 1) / 4)"), 3.0);
        assert_eq!(value("min(n, 3) + max(n, 3)"), 13.0);
        assert_eq!(value("(n < 11) * 5 + (n >= 11) * 7"), 5.0);
        assert_eq!(value("140 * (big + 1) + 136"), 9_395_241_236.0);
        assert_eq!(value("paged(4 * (big + 1))"), 270_532_608.0);
    }

    #[test]
    fn a_division_after_a_product_is_exact() {
        assert_eq!(value("big * 3 / 3"), 67_108_864.0);
        assert_eq!(value("(7 * 3) / 7"), 3.0);
    }

    #[test]
    fn errors_say_what_is_wrong_in_one_line() {
        let none = Variables::new();
        for text in ["rows * 2", "2 *", "1 / 0", "(1"] {
            let message = evaluate(text, &none).unwrap_err().to_string();
            assert!(message.contains(text) && !message.contains('\n'), "{message}");
        }
        assert!(evaluate("4 * rows", &none).unwrap_err().to_string().contains("`rows` at character 5"));
        assert!(count("1 / 2", &none).is_err() && count("0 - 1", &none).is_err());
    }
}
