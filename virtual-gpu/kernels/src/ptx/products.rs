//! Products of integers: `mul`, `mad`, `mul24`, `mad24` and those with a carry. (PTX ISA 9.0, "Integer Arithmetic
//! Instructions", "Extended-Precision Integer Arithmetic Instructions".)
//!
//! Trap: `.sat` exists for the high half of `s32` only, and holds the sum, not the product.

use super::carry;
use super::emit::{Emitted, Emitter, Unknown, operand};
use super::parse::Instruction;
use super::types::{bits, resize};

pub(super) fn emit(
    e: &mut Emitter,
    instruction: &Instruction,
    words: &[&str],
    (ty, signed): (&'static str, bool),
) -> Emitted {
    let result = if words.contains(&"wide") { wider(ty)? } else { ty };
    let product = if words[0].ends_with("24") {
        product_of_24_bits(e, instruction, words, ty, signed)?
    } else {
        product(e, instruction, words, ty, signed)?
    };
    if words[0].starts_with("mul") {
        return if words.contains(&"sat") {
            Err(Unknown)
        } else {
            e.write(operand(instruction, 0)?, result, &product)
        };
    }
    let addend = e.read(operand(instruction, 3)?, result)?;
    let sum = match (words.contains(&"sat"), words) {
        (true, ["mad" | "mad24", "hi", "sat", "s32"]) => {
            e.call(ty, "llvm.sadd.sat.i32", &[(ty, product), (ty, addend)])
        }
        (true, _) => return Err(Unknown),
        (false, _) if words[0] == "madc" || words.contains(&"cc") => {
            carry::add(e, words, result, &product, &addend)
        }
        (false, _) => e.value(&format!("add {result} {product}, {addend}")),
    };
    e.write(operand(instruction, 0)?, result, &sum)
}

fn wider(ty: &str) -> Emitted<&'static str> {
    match ty {
        "i16" => Ok("i32"),
        "i32" => Ok("i64"),
        "i64" => Ok("i128"),
        _ => Err(Unknown),
    }
}

fn product(
    e: &mut Emitter,
    instruction: &Instruction,
    words: &[&str],
    ty: &str,
    signed: bool,
) -> Emitted<String> {
    let (a, b) = (e.read(operand(instruction, 1)?, ty)?, e.read(operand(instruction, 2)?, ty)?);
    if !words.contains(&"wide") && !words.contains(&"hi") {
        return Ok(e.value(&format!("mul {ty} {a}, {b}")));
    }
    let wide = wider(ty)?;
    let (a, b) = (resize(e, &a, ty, wide, signed), resize(e, &b, ty, wide, signed));
    let product = e.value(&format!("mul {wide} {a}, {b}"));
    if words.contains(&"wide") {
        return Ok(product);
    }
    let high = e.value(&format!("lshr {wide} {product}, {}", bits(ty)));
    Ok(resize(e, &high, wide, ty, false))
}

/// The low or the high 32 of the 48 bits of a product of the low 24 bits of two numbers.
fn product_of_24_bits(
    e: &mut Emitter,
    instruction: &Instruction,
    words: &[&str],
    ty: &str,
    signed: bool,
) -> Emitted<String> {
    let first = match words[1] {
        "lo" if ty == "i32" => 0,
        "hi" if ty == "i32" => 16,
        _ => return Err(Unknown),
    };
    let mut factors = Vec::new();
    for index in [1, 2] {
        let value = e.read(operand(instruction, index)?, "i32")?;
        let up = e.value(&format!("shl i32 {value}, 8"));
        let cut = e.value(&format!("{} i32 {up}, 8", if signed { "ashr" } else { "lshr" }));
        factors.push(resize(e, &cut, "i32", "i64", signed));
    }
    let product = e.value(&format!("mul i64 {}, {}", factors[0], factors[1]));
    let part = e.value(&format!("lshr i64 {product}, {first}"));
    Ok(e.value(&format!("trunc i64 {part} to i32")))
}
