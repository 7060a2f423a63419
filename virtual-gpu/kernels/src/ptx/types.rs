//! PTX types as LLVM types, and conversion between integer widths.
//!
//! Trap: a register holds halves as raw bits, so their register type is an integer type.

use super::emit::{Emitted, Emitter};

/// Integer type of a PTX type word, and whether it is signed.
pub(super) fn integer(word: &str) -> Option<(&'static str, bool)> {
    Some(match word {
        "s8" => ("i8", true),
        "u8" | "b8" => ("i8", false),
        "s16" => ("i16", true),
        "u16" | "b16" => ("i16", false),
        "s32" => ("i32", true),
        "u32" | "b32" => ("i32", false),
        "s64" => ("i64", true),
        "u64" | "b64" => ("i64", false),
        "b128" => ("i128", false),
        "pred" => ("i1", false),
        _ => return None,
    })
}

/// LLVM type of the register that holds a value of a PTX type.
pub(super) fn register_type(word: &str) -> Option<&'static str> {
    match word {
        "f32" => Some("float"),
        "f64" => Some("double"),
        "f16" | "bf16" => Some("i16"),
        "f16x2" | "bf16x2" => Some("i32"),
        _ => integer(word).map(|(ty, _)| ty),
    }
}

/// Writes a value to a register that may be wider than its type: an integer fills all of it.
pub(super) fn write_extended(e: &mut Emitter, name: &str, value: &str, ty: &str, signed: bool) -> Emitted {
    let wide = if ty.starts_with('i') && bits(ty) < 64 { "i64" } else { ty };
    let value = resize(e, value, ty, wide, signed);
    e.write_name(name, wide, &value)
}

/// Width of a register's LLVM type in bits.
pub(super) fn bits(ty: &str) -> u32 {
    ty.trim_start_matches('i').parse().unwrap_or(if ty == "double" { 64 } else { 32 })
}

/// Converts `value` from integer type `from` to `to`.
pub(super) fn resize(e: &mut Emitter, value: &str, from: &str, to: &str, signed: bool) -> String {
    match bits(from).cmp(&bits(to)) {
        std::cmp::Ordering::Equal => value.to_owned(),
        std::cmp::Ordering::Greater => e.value(&format!("trunc {from} {value} to {to}")),
        std::cmp::Ordering::Less => {
            e.value(&format!("{} {from} {value} to {to}", if signed { "sext" } else { "zext" }))
        }
    }
}
