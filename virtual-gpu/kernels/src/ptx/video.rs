//! Video instructions, which work on four bytes, two halves or one 32-bit number; CUDA's `__vadd4` and similar
//! functions are made of them. (PTX ISA 9.0, "Video Instructions".)
//!
//! Trap: each operand has its own signedness, and the arithmetic is done on wider numbers, cut or clamped at the end.
//! Only forms that take all bytes in order are translated; a statement that selects or masks bytes otherwise stays
//! untranslated.

use super::emit::{Emitted, Emitter, Unknown, operand};
use super::parse::{Instruction, Operand};
use super::types::integer;

/// Type of intermediate results, wide enough for every operation.
const WIDE: &str = "i64";

/// Operation on each pair of elements.
#[derive(Clone, Copy)]
struct Shape<'a> {
    operation: &'a str,
    /// Comparison of `set`, or what `shl` and `shr` make of an amount beyond the width.
    condition: &'a str,
    /// Width of an element in bits.
    bits: u32,
    /// Signs of the result and the two operands.
    signs: [bool; 3],
    clamped: bool,
}

/// True if a word begins a video instruction.
pub(super) fn is_one(word: &str) -> bool {
    let name = word.strip_prefix('v').map(|name| name.trim_end_matches(['2', '4']));
    name.is_some_and(|name| {
        ["add", "sub", "avrg", "absdiff", "min", "max", "set", "shl", "shr", "mad"].contains(&name)
    })
}

pub(super) fn emit(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    let name = words[0].strip_prefix('v').ok_or(Unknown)?;
    let (operation, count) = match name.strip_suffix(['2', '4']) {
        Some(operation) if name.ends_with('2') => (operation, 2),
        Some(operation) => (operation, 4),
        None => (name, 1),
    };
    let (rest, second) = match words[1..] {
        [ref rest @ .., last @ ("add" | "min" | "max")] => (rest, Some(last)),
        ref rest => (rest, None),
    };
    let sign =
        |word: &str| integer(word).filter(|(ty, _)| *ty == "i32").map(|(_, signed)| signed).ok_or(Unknown);
    if operation == "mad" && count == 1 {
        return multiply_add(e, instruction, &words[1..]);
    }
    let mut shape = Shape { operation, condition: "", bits: 32 / count, signs: [false; 3], clamped: false };
    match (operation, rest) {
        ("set", [a, b, condition]) => {
            (shape.signs, shape.condition) = ([false, sign(a)?, sign(b)?], condition)
        }
        ("shl" | "shr", [d, a, "u32", sat @ .., mode @ ("clamp" | "wrap")])
            if count == 1 && matches!(sat, [] | ["sat"]) =>
        {
            (shape.signs, shape.condition) = ([sign(d)?, sign(a)?, false], mode);
            shape.clamped = !sat.is_empty();
        }
        ("set" | "shl" | "shr", _) => return Err(Unknown),
        (_, [d, a, b]) => shape.signs = [sign(d)?, sign(a)?, sign(b)?],
        (_, [d, a, b, "sat"]) => (shape.signs, shape.clamped) = ([sign(d)?, sign(a)?, sign(b)?], true),
        _ => return Err(Unknown),
    }
    if count == 1 { scalar(e, instruction, shape, second) } else { each(e, instruction, shape, second) }
}

/// Emits an operation on one number, half or byte of each operand; the result is combined with the fourth operand by
/// `second`.
fn scalar(e: &mut Emitter, instruction: &Instruction, shape: Shape, second: Option<&str>) -> Emitted {
    let a = selected(e, operand(instruction, 1)?, shape.signs[1])?;
    let b = selected(e, operand(instruction, 2)?, shape.signs[2])?;
    let mut result = combine(e, shape, &a, &b)?;
    if let Some(second) = second {
        let third = e.read(operand(instruction, 3)?, "i32")?;
        let third = widen(e, &third, shape.signs[0]);
        result = match second {
            "add" => e.value(&format!("add {WIDE} {result}, {third}")),
            _ => e.call(WIDE, &format!("llvm.s{second}.{WIDE}"), &[(WIDE, result), (WIDE, third)]),
        };
    } else if instruction.operands.len() != 3 {
        return Err(Unknown);
    }
    let result = e.value(&format!("trunc {WIDE} {result} to i32"));
    e.write(operand(instruction, 0)?, "i32", &result)
}

/// `vmad`: a product and a third number, one more with `.po`, shifted down or held in the range of the result. Negated
/// operands are not supported.
fn multiply_add(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    let ["u32" | "s32", a @ ("u32" | "s32"), b @ ("u32" | "s32"), ref flags @ ..] = *words else {
        return Err(Unknown);
    };
    let known = |word: &&str| matches!(*word, "po" | "sat" | "shr7" | "shr15");
    if instruction.operands.len() != 4 || !flags.iter().all(known) {
        return Err(Unknown);
    }
    let signed = a == "s32" || b == "s32";
    let left = selected(e, operand(instruction, 1)?, a == "s32")?;
    let right = selected(e, operand(instruction, 2)?, b == "s32")?;
    let third = e.read(operand(instruction, 3)?, "i32")?;
    let third = widen(e, &third, signed);
    let product = e.value(&format!("mul {WIDE} {left}, {right}"));
    let mut result = e.value(&format!("add {WIDE} {product}, {third}"));
    if flags.contains(&"po") {
        result = e.value(&format!("add {WIDE} {result}, 1"));
    }
    for (flag, by) in [("shr7", 7), ("shr15", 15)] {
        if flags.contains(&flag) {
            result = e.value(&format!("{} {WIDE} {result}, {by}", if signed { "ashr" } else { "lshr" }));
        }
    }
    if flags.contains(&"sat") {
        result = if signed {
            clamped(e, result, i64::from(i32::MIN), i64::from(i32::MAX))
        } else {
            let most = u32::MAX.to_string();
            e.call(WIDE, &format!("llvm.umin.{WIDE}"), &[(WIDE, result), (WIDE, most)])
        };
    }
    let result = e.value(&format!("trunc {WIDE} {result} to i32"));
    e.write(operand(instruction, 0)?, "i32", &result)
}

/// Reads a 32-bit number, or the part that a suffix such as `.h1` or `.b2` selects.
fn selected(e: &mut Emitter, operand: &Operand, signed: bool) -> Emitted<String> {
    let Operand::Plain(name) = operand else { return Err(Unknown) };
    let part = name.rsplit_once('.').and_then(|(name, part)| {
        let (kind, index) = part.split_at_checked(1)?;
        let index: u32 = index.parse().ok()?;
        match kind {
            "b" if index < 4 => Some((name, 8, index)),
            "h" if index < 2 => Some((name, 16, index)),
            _ => None,
        }
    });
    match part {
        Some((name, bits, index)) => {
            let value = e.read_name(name, "i32")?;
            Ok(element(e, &value, bits, index, signed))
        }
        None => {
            let value = e.read_name(name, "i32")?;
            Ok(widen(e, &value, signed))
        }
    }
}

/// Emits the operation for every element; returns the results side by side, or with `.add` the sum of them and the
/// fourth operand.
fn each(e: &mut Emitter, instruction: &Instruction, shape: Shape, second: Option<&str>) -> Emitted {
    if !matches!(second, None | Some("add")) {
        return Err(Unknown);
    }
    let (a, b) = (e.read(operand(instruction, 1)?, "i32")?, e.read(operand(instruction, 2)?, "i32")?);
    let mut sum = e.read(operand(instruction, 3)?, "i32")?;
    if second.is_none() {
        sum = "0".to_owned();
    }
    for index in 0..32 / shape.bits {
        let left = element(e, &a, shape.bits, index, shape.signs[1]);
        let right = element(e, &b, shape.bits, index, shape.signs[2]);
        let result = combine(e, shape, &left, &right)?;
        let mut result = e.value(&format!("trunc {WIDE} {result} to i32"));
        if second.is_some() {
            sum = e.value(&format!("add i32 {sum}, {result}"));
            continue;
        }
        result = e.value(&format!("and i32 {result}, {}", (1u64 << shape.bits) - 1));
        result = e.value(&format!("shl i32 {result}, {}", shape.bits * index));
        sum = e.value(&format!("or i32 {sum}, {result}"));
    }
    e.write(operand(instruction, 0)?, "i32", &sum)
}

/// Extracts element `index` of `value`, as a wide number.
fn element(e: &mut Emitter, value: &str, bits: u32, index: u32, signed: bool) -> String {
    let up = e.value(&format!("shl i32 {value}, {}", 32 - bits * (index + 1)));
    let down = e.value(&format!("{} i32 {up}, {}", if signed { "ashr" } else { "lshr" }, 32 - bits));
    widen(e, &down, signed)
}

fn widen(e: &mut Emitter, value: &str, signed: bool) -> String {
    e.value(&format!("{} i32 {value} to {WIDE}", if signed { "sext" } else { "zext" }))
}

fn combine(e: &mut Emitter, shape: Shape, a: &str, b: &str) -> Emitted<String> {
    let both = [(WIDE, a.to_owned()), (WIDE, b.to_owned())];
    let result = match shape.operation {
        "add" | "sub" => e.value(&format!("{} {WIDE} {a}, {b}", shape.operation)),
        "min" | "max" => e.call(WIDE, &format!("llvm.s{}.{WIDE}", shape.operation), &both),
        "absdiff" => {
            let difference = e.value(&format!("sub {WIDE} {a}, {b}"));
            e.call(WIDE, &format!("llvm.abs.{WIDE}"), &[(WIDE, difference), ("i1", "false".to_owned())])
        }
        "avrg" => {
            // Halves are rounded away from zero.
            let sum = e.value(&format!("add {WIDE} {a}, {b}"));
            let positive = e.value(&format!("icmp sge {WIDE} {sum}, 0"));
            let one = e.value(&format!("zext i1 {positive} to {WIDE}"));
            let sum = e.value(&format!("add {WIDE} {sum}, {one}"));
            e.value(&format!("ashr {WIDE} {sum}, 1"))
        }
        "shl" | "shr" => {
            let by = if shape.condition == "wrap" {
                e.value(&format!("and {WIDE} {b}, 31"))
            } else {
                e.call(WIDE, &format!("llvm.umin.{WIDE}"), &[(WIDE, b.to_owned()), (WIDE, "32".to_owned())])
            };
            let operation = if shape.operation == "shl" { "shl" } else { "ashr" };
            e.value(&format!("{operation} {WIDE} {a}, {by}"))
        }
        "set" => {
            let condition = match shape.condition {
                "eq" | "ne" => shape.condition.to_owned(),
                "lt" | "le" | "gt" | "ge" => format!("s{}", shape.condition),
                _ => return Err(Unknown),
            };
            let holds = e.value(&format!("icmp {condition} {WIDE} {a}, {b}"));
            e.value(&format!("zext i1 {holds} to {WIDE}"))
        }
        _ => return Err(Unknown),
    };
    if !shape.clamped {
        return Ok(result);
    }
    let (low, high) = match shape.signs[0] {
        true => (-(1i64 << (shape.bits - 1)), (1i64 << (shape.bits - 1)) - 1),
        false => (0, (1i64 << shape.bits) - 1),
    };
    Ok(clamped(e, result, low, high))
}

fn clamped(e: &mut Emitter, value: String, low: i64, high: i64) -> String {
    let held = e.call(WIDE, &format!("llvm.smax.{WIDE}"), &[(WIDE, value), (WIDE, low.to_string())]);
    e.call(WIDE, &format!("llvm.smin.{WIDE}"), &[(WIDE, held), (WIDE, high.to_string())])
}
