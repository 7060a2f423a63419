//! Comparisons and selections: `setp`, `set`, `selp`, `slct`, `testp`. (PTX ISA 9.0, "Comparison and Selection
//! Instructions", "Half Precision Comparison Instructions", "testp".)
//!
//! Trap: of a packed comparison, the two destinations of `setp` are the two halves; otherwise the second destination is
//! the opposite of the comparison, and both go through the Boolean operator.

use super::emit::{Emitted, Emitter, Unknown, operand};
use super::float::{flushed, half_of, is_pair, pair, widen};
use super::parse::{Instruction, Operand};
use super::types::{integer, register_type};

pub(super) fn emit(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    match *words {
        ["selp", ty] => {
            let ty = register_type(ty).ok_or(Unknown)?;
            let (a, b) = (e.read(operand(instruction, 1)?, ty)?, e.read(operand(instruction, 2)?, ty)?);
            let choice = e.read(operand(instruction, 3)?, "i1")?;
            let value = e.value(&format!("select i1 {choice}, {ty} {a}, {ty} {b}"));
            e.write(operand(instruction, 0)?, ty, &value)
        }
        ["slct", ty, by] | ["slct", "ftz", ty, by] => select_by_sign(e, instruction, words, ty, by),
        ["testp", what, ty @ ("f32" | "f64")] => test(e, instruction, what, ty),
        ["setp", condition, ref rest @ .., ty] => {
            let comparison = Comparison::new(condition, rest, ty)?;
            let held = comparison.holds(e, instruction)?;
            set_predicates(e, instruction, &comparison, &held)
        }
        ["set", condition, ref rest @ .., to, ty] => {
            let comparison = Comparison::new(condition, rest, ty)?;
            let held = comparison.holds(e, instruction)?;
            set_register(e, instruction, &comparison, &held, to)
        }
        _ => Err(Unknown),
    }
}

/// A comparison in parts.
struct Comparison<'a> {
    condition: &'a str,
    /// Combines the result with the predicate in operand 3.
    operator: Option<&'a str>,
    ftz: &'a [&'a str],
    /// Type<'a> of what is compared.
    ty: &'a str,
}

impl<'a> Comparison<'a> {
    /// `rest`: what is between the condition and the types.
    fn new(condition: &'a str, rest: &'a [&'a str], ty: &'a str) -> Emitted<Self> {
        let (operator, ftz) = match rest {
            [operator @ ("and" | "or" | "xor"), ftz @ ..] => (Some(*operator), ftz),
            ftz => (None, ftz),
        };
        let is_known = matches!(ftz, [] | ["ftz"]);
        if is_known { Ok(Comparison { condition, operator, ftz, ty }) } else { Err(Unknown) }
    }

    /// Emits the comparison itself: one result, or those of the low and the high half.
    fn holds(&self, e: &mut Emitter, instruction: &Instruction) -> Emitted<Vec<String>> {
        let has_operator = self.operator.is_some();
        if instruction.operands.len() != 3 + usize::from(has_operator) {
            return Err(Unknown);
        }
        let (a, b) = (operand(instruction, 1)?, operand(instruction, 2)?);
        if let Some((ty, signed)) = integer(self.ty) {
            let condition = of_integers(self.condition, signed)?;
            let (a, b) = (e.read(a, ty)?, e.read(b, ty)?);
            return Ok(vec![e.value(&format!("icmp {condition} {ty} {a}, {b}"))]);
        }
        let register = register_type(self.ty).ok_or(Unknown)?;
        let ty = if register == "double" { register } else { "float" };
        let condition = of_reals(self.condition)?;
        let (a, b) = (e.read(a, register)?, e.read(b, register)?);
        let lanes = if is_pair(self.ty) { 0..2 } else { 0..1 };
        Ok(lanes
            .map(|lane| {
                let [a, b] = [&a, &b].map(|value| self.number(e, value, register, lane));
                e.value(&format!("fcmp {condition} {ty} {a}, {b}"))
            })
            .collect())
    }

    /// Number in a register, or in half `lane` of it, as a `float` or `double`.
    fn number(&self, e: &mut Emitter, value: &str, register: &str, lane: u32) -> String {
        match register {
            "float" | "double" => flushed(e, self.ftz, register, value.to_owned()),
            "i16" => {
                let bits = flushed(e, self.ftz, self.ty, value.to_owned());
                widen(e, self.ty, &bits)
            }
            _ => {
                let bits = half_of(e, value, lane);
                let bits = flushed(e, self.ftz, self.ty.trim_end_matches("x2"), bits);
                widen(e, self.ty, &bits)
            }
        }
    }

    /// Combines a result with the predicate in operand 3, if the instruction says so.
    fn combined(&self, e: &mut Emitter, instruction: &Instruction, holds: &str) -> Emitted<String> {
        let Some(operator) = self.operator else { return Ok(holds.to_owned()) };
        let other = e.read(operand(instruction, 3)?, "i1")?;
        Ok(e.value(&format!("{operator} i1 {holds}, {other}")))
    }
}

fn of_integers(condition: &str, signed: bool) -> Emitted<String> {
    let sign = if signed { 's' } else { 'u' };
    Ok(match condition {
        "eq" | "ne" => condition.to_owned(),
        "lt" | "le" | "gt" | "ge" => format!("{sign}{condition}"),
        "lo" => "ult".to_owned(),
        "ls" => "ule".to_owned(),
        "hi" => "ugt".to_owned(),
        "hs" => "uge".to_owned(),
        _ => return Err(Unknown),
    })
}

fn of_reals(condition: &str) -> Emitted<String> {
    Ok(match condition {
        "eq" | "lt" | "le" | "gt" | "ge" => format!("o{condition}"),
        "ne" => "one".to_owned(),
        "equ" => "ueq".to_owned(),
        "neu" => "une".to_owned(),
        "ltu" | "leu" | "gtu" | "geu" => format!("u{}", &condition[..2]),
        "num" => "ord".to_owned(),
        "nan" => "uno".to_owned(),
        _ => return Err(Unknown),
    })
}

fn set_predicates(
    e: &mut Emitter,
    instruction: &Instruction,
    comparison: &Comparison,
    held: &[String],
) -> Emitted {
    let first = comparison.combined(e, instruction, &held[0])?;
    match operand(instruction, 0)? {
        Operand::Pair(yes, no) => {
            let second = match held.get(1) {
                Some(high) => high.clone(),
                None => e.value(&format!("xor i1 {}, true", held[0])),
            };
            let second = comparison.combined(e, instruction, &second)?;
            e.write_name(yes, "i1", &first)?;
            e.write_name(no, "i1", &second)
        }
        to if held.len() == 1 => e.write(to, "i1", &first),
        _ => Err(Unknown),
    }
}

/// `set`: all ones of an integer type, or 1.0; of a packed comparison, in each half.
fn set_register(
    e: &mut Emitter,
    instruction: &Instruction,
    comparison: &Comparison,
    held: &[String],
    to: &str,
) -> Emitted {
    let (ty, yes) = match (to, held.len()) {
        ("f32", 1) => ("float", "1.0"),
        ("f16", 1) | ("f16x2", 2) => ("i16", "15360"),
        ("bf16", 1) | ("bf16x2", 2) => ("i16", "16256"),
        ("u32" | "s32", 2) => ("i16", "-1"),
        ("u16" | "s16" | "u32" | "s32", 1) => (register_type(to).ok_or(Unknown)?, "-1"),
        _ => return Err(Unknown),
    };
    let no = if ty == "float" { "0.0" } else { "0" };
    let mut values = Vec::new();
    for holds in held {
        let holds = comparison.combined(e, instruction, holds)?;
        values.push(e.value(&format!("select i1 {holds}, {ty} {yes}, {ty} {no}")));
    }
    match &values[..] {
        [low, high] => {
            let both = pair(e, low, high);
            e.write(operand(instruction, 0)?, "i32", &both)
        }
        _ => e.write(operand(instruction, 0)?, ty, &values[0]),
    }
}

/// `slct`: the first value if the third operand is not negative, else the second, also if it is a NaN.
fn select_by_sign(e: &mut Emitter, instruction: &Instruction, words: &[&str], ty: &str, by: &str) -> Emitted {
    let ty = register_type(ty).ok_or(Unknown)?;
    let (a, b) = (e.read(operand(instruction, 1)?, ty)?, e.read(operand(instruction, 2)?, ty)?);
    let first = match by {
        "s32" => {
            let sign = e.read(operand(instruction, 3)?, "i32")?;
            e.value(&format!("icmp sge i32 {sign}, 0"))
        }
        "f32" => {
            let sign = e.read(operand(instruction, 3)?, "float")?;
            let sign = flushed(e, words, "float", sign);
            e.value(&format!("fcmp oge float {sign}, 0.0"))
        }
        _ => return Err(Unknown),
    };
    let value = e.value(&format!("select i1 {first}, {ty} {a}, {ty} {b}"));
    e.write(operand(instruction, 0)?, ty, &value)
}

/// `testp`: the class of a number. The masks are those of LLVM's `is.fpclass`.
fn test(e: &mut Emitter, instruction: &Instruction, what: &str, ty: &str) -> Emitted {
    let mask = match what {
        "notanumber" => 0x3,
        "number" => 0x3fc,
        "infinite" => 0x204,
        "finite" => 0x1f8,
        "normal" => 0x108,
        "subnormal" => 0x90,
        _ => return Err(Unknown),
    };
    let own = register_type(ty).ok_or(Unknown)?;
    let value = e.read(operand(instruction, 1)?, own)?;
    let args = [(own, value), ("i32", mask.to_string())];
    let is = e.call("i1", &format!("llvm.is.fpclass.{ty}"), &args);
    e.write(operand(instruction, 0)?, "i1", &is)
}
