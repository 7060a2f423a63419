//! `cvt` between 8-bit floating point (`e4m3`, `e5m2`, in pairs) and `f32` or `f16`. (PTX ISA 9.0, "cvt"; the formats:
//! P. Micikevicius and others, "FP8 Formats for Deep Learning", 2022.)
//!
//! `.satfinite` turns infinity into the largest number; a NaN stays NaN, but loses its sign. `e4m3` has no infinity at
//! all.

use super::emit::{Emitted, Emitter, Unknown, operand};
use super::float::{narrow, pair, widen};
use super::parse::Instruction;

/// Constants for rounding to a format.
struct Format {
    mantissa_bits: u32,
    /// Exponent of the smallest number that is not denormal.
    least: i32,
    most: &'static str,
    /// The smallest normal number, and the number of denormal steps per unit, in LLVM's notation.
    normal: &'static str,
    steps: &'static str,
}

const E4M3: Format =
    Format { mantissa_bits: 3, least: -6, most: "448.0", normal: "0.015625", steps: "512.0" };
const E5M2: Format =
    Format { mantissa_bits: 2, least: -14, most: "57344.0", normal: "0.00006103515625", steps: "65536.0" };
const NO_NUMBER: u32 = 0x7f;

fn format(word: &str) -> Option<Format> {
    match word {
        "e4m3x2" => Some(E4M3),
        "e5m2x2" => Some(E5M2),
        _ => None,
    }
}

/// True if this module handles conversions between these types.
pub(super) fn converts(to: &str, from: &str) -> bool {
    format(to).is_some() || format(from).is_some()
}

pub(super) fn emit(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    let [_, flags @ .., to, from] = words else { return Err(Unknown) };
    let known = |word: &&str| matches!(*word, "rn" | "satfinite" | "relu");
    if !flags.iter().all(known) {
        return Err(Unknown);
    }
    let relu = flags.contains(&"relu");
    let target = operand(instruction, 0)?;
    if let Some(format) = format(from) {
        let both = e.read(operand(instruction, 1)?, "i16")?;
        let halves = [8, 0].map(|up| half(e, &format, &both, up, relu));
        let [high, low] = halves;
        let both = pair(e, &low, &high);
        return if *to == "f16x2" { e.write(target, "i32", &both) } else { Err(Unknown) };
    }
    let format = format(to).ok_or(Unknown)?;
    let (high, low) = match *from {
        "f32" => (e.read(operand(instruction, 1)?, "float")?, e.read(operand(instruction, 2)?, "float")?),
        "f16x2" => {
            let both = e.read(operand(instruction, 1)?, "i32")?;
            let [high, low] = [16, 0].map(|down| {
                let bits = e.value(&format!("lshr i32 {both}, {down}"));
                let bits = e.value(&format!("trunc i32 {bits} to i16"));
                widen(e, "f16", &bits)
            });
            (high, low)
        }
        _ => return Err(Unknown),
    };
    let [high, low] = [high, low].map(|value| rounded(e, &format, &value, relu));
    let up = e.value(&format!("shl i32 {high}, 8"));
    let both = e.value(&format!("or i32 {up}, {low}"));
    let both = e.value(&format!("trunc i32 {both} to i16"));
    e.write(target, "i16", &both)
}

/// Rounds a `float` to the nearest byte, ties to even, as an `i32`.
fn rounded(e: &mut Emitter, format: &Format, value: &str, relu: bool) -> String {
    let bits = e.value(&format!("bitcast float {value} to i32"));
    let size = e.call("float", "llvm.fabs.f32", &[("float", value.to_owned())]);
    let size = e.call("float", "llvm.minnum.f32", &[("float", size), ("float", format.most.to_owned())]);
    // Adding and subtracting 2^23 steps rounds to a multiple of the step, because the sum has no lower bits.
    let exponent = e.value(&format!("bitcast float {size} to i32"));
    let exponent = e.value(&format!("lshr i32 {exponent}, 23"));
    let least = (127 + format.least).to_string();
    let exponent = e.call("i32", "llvm.smax.i32", &[("i32", exponent), ("i32", least)]);
    let exponent = e.value(&format!("add i32 {exponent}, {}", 23 - format.mantissa_bits));
    let steps = e.value(&format!("shl i32 {exponent}, 23"));
    let steps = e.value(&format!("bitcast i32 {steps} to float"));
    let sum = e.value(&format!("fadd float {size}, {steps}"));
    let near = e.value(&format!("fsub float {sum}, {steps}"));
    let is_denormal = e.value(&format!("fcmp olt float {near}, {}", format.normal));
    let count = e.value(&format!("fmul float {near}, {}", format.steps));
    let count = e.value(&format!("fptosi float {count} to i32"));
    let code = e.value(&format!("bitcast float {near} to i32"));
    let code = e.value(&format!("lshr i32 {code}, {}", 23 - format.mantissa_bits));
    let below = (126 + format.least) << format.mantissa_bits;
    let code = e.value(&format!("sub i32 {code}, {below}"));
    let code = e.value(&format!("select i1 {is_denormal}, i32 {count}, i32 {code}"));
    let sign = e.value(&format!("lshr i32 {bits}, 24"));
    let sign = e.value(&format!("and i32 {sign}, 128"));
    let signed = e.value(&format!("or i32 {code}, {sign}"));
    let held = if relu {
        let negative = e.value(&format!("icmp ne i32 {sign}, 0"));
        e.value(&format!("select i1 {negative}, i32 0, i32 {signed}"))
    } else {
        signed
    };
    let none = e.value(&format!("fcmp uno float {value}, {value}"));
    e.value(&format!("select i1 {none}, i32 {NO_NUMBER}, i32 {held}"))
}

/// Converts the byte at bit `down` of `both` to an `f16`, which is always exact.
fn half(e: &mut Emitter, format: &Format, both: &str, down: u32, relu: bool) -> String {
    let byte = e.value(&format!("lshr i16 {both}, {down}"));
    let size = e.value(&format!("and i16 {byte}, 127"));
    // Both formats are the upper bits of an `f16`, but `e4m3` has an exponent of four bits, with a bias smaller by 8.
    let bits = e.value(&format!("shl i16 {size}, {}", 10 - format.mantissa_bits));
    let (number, none) = if format.mantissa_bits == 3 {
        let real = widen(e, "f16", &bits);
        let real = e.value(&format!("fmul float {real}, 256.0"));
        (narrow(e, "f16", "float", &real), e.value(&format!("icmp eq i16 {size}, 127")))
    } else {
        let none = e.value(&format!("icmp ugt i16 {bits}, 31744"));
        (bits, none)
    };
    let sign = e.value(&format!("and i16 {byte}, 128"));
    let sign = e.value(&format!("shl i16 {sign}, 8"));
    let signed = e.value(&format!("or i16 {number}, {sign}"));
    let held = if relu {
        let negative = e.value(&format!("icmp ne i16 {sign}, 0"));
        e.value(&format!("select i1 {negative}, i16 0, i16 {signed}"))
    } else {
        signed
    };
    e.value(&format!("select i1 {none}, i16 32767, i16 {held}"))
}
