//! `dp4a` and `dp2a`: sums of products of bytes. (PTX ISA 9.0, "dp4a", "dp2a".)
//!
//! Trap: each operand has its own signedness, and the sum wraps at 32 bits, as on a GPU.

use super::emit::{Emitted, Emitter, Unknown, operand};
use super::parse::Instruction;
use super::types::integer;

pub(super) fn emit(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    // Number of products, and the bits of each first factor.
    let (count, bits, signs, first_byte) = match *words {
        ["dp4a", a, b] => (4, 8, [a, b], 0),
        ["dp2a", "lo", a, b] => (2, 16, [a, b], 0),
        ["dp2a", "hi", a, b] => (2, 16, [a, b], 2),
        _ => return Err(Unknown),
    };
    let signs = signs.map(|word| integer(word).filter(|(ty, _)| *ty == "i32").map(|(_, signed)| signed));
    let [Some(a_signed), Some(b_signed)] = signs else { return Err(Unknown) };
    let (a, b) = (e.read(operand(instruction, 1)?, "i32")?, e.read(operand(instruction, 2)?, "i32")?);
    let mut sum = e.read(operand(instruction, 3)?, "i32")?;
    for index in 0..count {
        let left = part(e, &a, bits * index, bits, a_signed);
        let right = part(e, &b, 8 * (first_byte + index), 8, b_signed);
        let product = e.value(&format!("mul i32 {left}, {right}"));
        sum = e.value(&format!("add i32 {sum}, {product}"));
    }
    e.write(operand(instruction, 0)?, "i32", &sum)
}

/// Extracts `bits` bits of `value` from bit `first` on, as a number.
fn part(e: &mut Emitter, value: &str, first: u32, bits: u32, signed: bool) -> String {
    let up = e.value(&format!("shl i32 {value}, {}", 32 - bits - first));
    e.value(&format!("{} i32 {up}, {}", if signed { "ashr" } else { "lshr" }, 32 - bits))
}
