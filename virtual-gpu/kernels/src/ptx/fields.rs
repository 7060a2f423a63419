//! Parts of words: `bfe`, `bfi`, `bmsk`, `szext`, `prmt`, `fns`, and the two halves of `add.u16x2` and its like. (PTX
//! ISA 9.0, "Integer Arithmetic Instructions", "prmt".)
//!
//! Trap: a place or a length beyond the width has a result too; each function says which.

use super::emit::{Emitted, Emitter, Unknown, operand};
use super::float::{half_of, pair};
use super::instructions::binary;
use super::parse::Instruction;
use super::types::bits;

/// Selectors of `prmt` by mode, as it would have them without a mode; the low two bits of its third operand choose one.
const SELECTORS: [(&str, [u64; 4]); 6] = [
    ("f4e", [0x3210, 0x4321, 0x5432, 0x6543]),
    ("b4e", [0x5670, 0x6701, 0x7012, 0x0123]),
    ("rc8", [0x0000, 0x1111, 0x2222, 0x3333]),
    ("ecl", [0x3210, 0x3211, 0x3222, 0x3333]),
    ("ecr", [0x0000, 0x1110, 0x2210, 0x3210]),
    ("rc16", [0x1010, 0x3232, 0x1010, 0x3232]),
];

/// `prmt`: chooses four bytes of eight.
pub(super) fn permute(
    e: &mut Emitter,
    instruction: &Instruction,
    mode: &[&str],
    first: String,
) -> Emitted<String> {
    let second = e.read(operand(instruction, 2)?, "i32")?;
    let mut selector = e.read(operand(instruction, 3)?, "i32")?;
    if let [mode] = mode {
        let (_, rows) = SELECTORS.iter().find(|(name, _)| name == mode).ok_or(Unknown)?;
        let all = rows.iter().rev().fold(0, |all, row| all << 16 | row);
        let row = e.value(&format!("and i32 {selector}, 3"));
        let row = e.value(&format!("shl i32 {row}, 4"));
        let row = e.value(&format!("zext i32 {row} to i64"));
        let down = e.value(&format!("lshr i64 {all}, {row}"));
        selector = e.value(&format!("trunc i64 {down} to i32"));
    } else if !mode.is_empty() {
        return Err(Unknown);
    }
    Ok(e.call("i32", "llvm.nvvm.prmt", &[("i32", first), ("i32", second), ("i32", selector)]))
}

/// `fns`: the place of the n-th bit set from another place on; all ones if there is none.
pub(super) fn nth_set(e: &mut Emitter, instruction: &Instruction, mask: String) -> Emitted<String> {
    let (base, offset) = (e.read(operand(instruction, 2)?, "i32")?, e.read(operand(instruction, 3)?, "i32")?);
    Ok(e.call("i32", "nvvm.fns", &[("i32", mask), ("i32", base), ("i32", offset)]))
}

/// Start and length of a bit field: the low 8 bits of two operands, in the type of the field.
fn field(e: &mut Emitter, instruction: &Instruction, first: usize) -> Emitted<(String, String)> {
    let mut part = |index| -> Emitted<String> {
        let value = e.read(operand(instruction, index)?, "i32")?;
        Ok(e.value(&format!("and i32 {value}, 255")))
    };
    Ok((part(first)?, part(first + 1)?))
}

/// A mask of the lowest `length` bits; of all bits if `length` is the width or more.
fn low_bits(e: &mut Emitter, ty: &str, length: &str) -> Emitted<String> {
    let one = binary(e, "shl", ty, false, "1", length)?;
    Ok(e.value(&format!("sub {ty} {one}, 1")))
}

pub(super) fn extract(
    e: &mut Emitter,
    instruction: &Instruction,
    ty: &str,
    signed: bool,
    value: &str,
) -> Emitted<String> {
    let (start, length) = field(e, instruction, 2)?;
    let shifted = binary(e, "shr", ty, signed, value, &start)?;
    let mask = low_bits(e, ty, &length)?;
    let low = e.value(&format!("and {ty} {shifted}, {mask}"));
    if !signed {
        return Ok(low);
    }
    signed_field(e, ty, &shifted, &length)
}

/// The lowest `length` bits of `value` as a signed number; 0 if there are none. Its sign is that of the field, or of
/// the value if the field extends beyond it.
fn signed_field(e: &mut Emitter, ty: &str, value: &str, length: &str) -> Emitted<String> {
    let left = e.value(&format!("sub i32 {}, {length}", bits(ty)));
    let fits = e.value(&format!("icmp ult i32 {length}, {}", bits(ty)));
    let left = e.value(&format!("select i1 {fits}, i32 {left}, i32 0"));
    let up = binary(e, "shl", ty, false, value, &left)?;
    let extended = binary(e, "shr", ty, true, &up, &left)?;
    let empty = e.value(&format!("icmp eq i32 {length}, 0"));
    Ok(e.value(&format!("select i1 {empty}, {ty} 0, {ty} {extended}")))
}

/// `bfi`: replaces a field of the second operand by the lowest bits of the first.
pub(super) fn insert(e: &mut Emitter, instruction: &Instruction, ty: &str, value: &str) -> Emitted<String> {
    let into = e.read(operand(instruction, 2)?, ty)?;
    let (start, length) = field(e, instruction, 3)?;
    let low = low_bits(e, ty, &length)?;
    let mask = binary(e, "shl", ty, false, &low, &start)?;
    let moved = binary(e, "shl", ty, false, value, &start)?;
    let new = e.value(&format!("and {ty} {moved}, {mask}"));
    let rest = e.value(&format!("xor {ty} {mask}, -1"));
    let old = e.value(&format!("and {ty} {into}, {rest}"));
    Ok(e.value(&format!("or {ty} {old}, {new}")))
}

/// Number in operand 2, of which `.wrap` leaves the low five bits.
fn bounded(e: &mut Emitter, instruction: &Instruction, mode: &str) -> Emitted<String> {
    let value = e.read(operand(instruction, 2)?, "i32")?;
    match mode {
        "clamp" => Ok(value),
        "wrap" => Ok(e.value(&format!("and i32 {value}, 31"))),
        _ => Err(Unknown),
    }
}

/// `bmsk`: as many ones as operand 2 says, from bit `start` on.
pub(super) fn mask(e: &mut Emitter, instruction: &Instruction, mode: &str, start: &str) -> Emitted<String> {
    let length = bounded(e, instruction, mode)?;
    let start = match mode {
        "wrap" => e.value(&format!("and i32 {start}, 31")),
        _ => start.to_owned(),
    };
    let low = low_bits(e, "i32", &length)?;
    binary(e, "shl", "i32", false, &low, &start)
}

/// `szext`: the lowest bits of a number, as many as operand 2 says, as a signed or unsigned number.
pub(super) fn extend(
    e: &mut Emitter,
    instruction: &Instruction,
    mode: &str,
    signed: bool,
    value: &str,
) -> Emitted<String> {
    let length = bounded(e, instruction, mode)?;
    if signed {
        return signed_field(e, "i32", value, &length);
    }
    let mask = low_bits(e, "i32", &length)?;
    Ok(e.value(&format!("and i32 {value}, {mask}")))
}

/// `add`, `min` and `max` of the two halves of a word, or of one number with `.relu`, which makes 0 of what is
/// negative.
pub(super) fn halves(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    let (relu, ty) = match *words {
        ["add", ty @ ("u16x2" | "s16x2")] | ["min" | "max", ty @ ("u16x2" | "s16x2")] => (false, ty),
        // CUDA's headers write the word last, the ISA first.
        ["min" | "max", "relu", ty @ ("s16x2" | "s32")] | ["min" | "max", ty @ ("s16x2" | "s32"), "relu"] => {
            (true, ty)
        }
        _ => return Err(Unknown),
    };
    let signed = ty.starts_with('s');
    let (a, b) = (e.read(operand(instruction, 1)?, "i32")?, e.read(operand(instruction, 2)?, "i32")?);
    let one = |e: &mut Emitter, own: &str, a: &str, b: &str| -> Emitted<String> {
        let value = binary(e, words[0], own, signed, a, b)?;
        if relu { binary(e, "max", own, true, &value, "0") } else { Ok(value) }
    };
    let result = if ty == "s32" {
        one(e, "i32", &a, &b)?
    } else {
        let mut results = Vec::new();
        for lane in 0..2 {
            let (a, b) = (half_of(e, &a, lane), half_of(e, &b, lane));
            results.push(one(e, "i16", &a, &b)?);
        }
        pair(e, &results[0], &results[1])
    };
    e.write(operand(instruction, 0)?, "i32", &result)
}
