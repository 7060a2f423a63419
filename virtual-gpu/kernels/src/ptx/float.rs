//! Floating point: `f32`, `f64`, and the 16-bit types, alone and in pairs.
//!
//! Trap: a 16-bit operation is computed wider and rounded once more. For `+ - * / sqrt` in `float` that gives the same
//! result as rounding once (2·11+2 <= 24 bits); a fused multiply-add goes through `double`. `bfloat` is never an LLVM
//! type here, because the C library of older systems lacks the conversions that LLVM would call.

use super::emit::{Emitted, Emitter, Unknown, operand};
use super::parse::Instruction;
use super::types::bits;
use crate::rounding::MODES;

/// True for the spelling of a `bf16` format; otherwise it is `f16`.
fn is_bfloat(word: &str) -> bool {
    word.starts_with("bf16")
}

/// True for the spelling of two numbers in one register.
pub(super) fn is_pair(word: &str) -> bool {
    matches!(word, "f16x2" | "bf16x2")
}

/// Converts 16 bits of a format to a `float`.
pub(super) fn widen(e: &mut Emitter, word: &str, bits: &str) -> String {
    if is_bfloat(word) {
        let wide = e.value(&format!("zext i16 {bits} to i32"));
        let up = e.value(&format!("shl i32 {wide}, 16"));
        return e.value(&format!("bitcast i32 {up} to float"));
    }
    let half = e.value(&format!("bitcast i16 {bits} to half"));
    e.value(&format!("fpext half {half} to float"))
}

/// Rounds a `float` or `double` to nearest even in a 16-bit format.
pub(super) fn narrow(e: &mut Emitter, word: &str, ty: &str, value: &str) -> String {
    if !is_bfloat(word) {
        let half = e.value(&format!("fptrunc {ty} {value} to half"));
        return e.value(&format!("bitcast half {half} to i16"));
    }
    let single = if ty == "double" { round_to_odd(e, value) } else { value.to_owned() };
    let bits = e.value(&format!("bitcast float {single} to i32"));
    let up = e.value(&format!("lshr i32 {bits}, 16"));
    let odd = e.value(&format!("and i32 {up}, 1"));
    let half = e.value(&format!("add i32 {odd}, 32767"));
    let rounded = e.value(&format!("add i32 {bits}, {half}"));
    let nan = e.value(&format!("fcmp uno float {single}, {single}"));
    let chosen = e.value(&format!("select i1 {nan}, i32 2147418112, i32 {rounded}"));
    let top = e.value(&format!("lshr i32 {chosen}, 16"));
    e.value(&format!("trunc i32 {top} to i16"))
}

/// Converts a `double` to a `float` whose last bit is set if anything was cut off, so that rounding again gives the
/// same as rounding once. (S. Boldo, G. Melquiond, "Emulation of a FMA and correctly rounded sums".)
fn round_to_odd(e: &mut Emitter, value: &str) -> String {
    let near = e.value(&format!("fptrunc double {value} to float"));
    let back = e.value(&format!("fpext float {near} to double"));
    let size = |e: &mut Emitter, v: &str| e.call("double", "llvm.fabs.f64", &[("double", v.to_owned())]);
    let (a, b) = (size(e, &back), size(e, value));
    let above = e.value(&format!("fcmp ogt double {a}, {b}"));
    let inexact = e.value(&format!("fcmp one double {back}, {value}"));
    let bits = e.value(&format!("bitcast float {near} to i32"));
    let less = e.value(&format!("zext i1 {above} to i32"));
    let cut = e.value(&format!("sub i32 {bits}, {less}"));
    let sticky = e.value(&format!("zext i1 {inexact} to i32"));
    let odd = e.value(&format!("or i32 {cut}, {sticky}"));
    e.value(&format!("bitcast i32 {odd} to float"))
}

/// With `.ftz`, replaces a denormal number by the zero of its sign. `ty` is `float` or `double`, or `f16` or `bf16` for
/// their 16 bits; numbers of other types stay as they are.
pub(super) fn flushed(e: &mut Emitter, words: &[&str], ty: &str, value: String) -> String {
    if !words.contains(&"ftz") {
        return value;
    }
    // The exponent's bits, in the integer type of the same width.
    let (whole, exponent): (&str, u64) = match ty {
        "f16" => ("i16", 0x7c00),
        "bf16" => ("i16", 0x7f80),
        "float" => ("i32", 0x7f80_0000),
        "double" => ("i64", 0x7ff0_0000_0000_0000),
        _ => return value,
    };
    let is_real = whole != "i16";
    let whole_value = if is_real { e.value(&format!("bitcast {ty} {value} to {whole}")) } else { value };
    let masked = e.value(&format!("and {whole} {whole_value}, {exponent}"));
    let small = e.value(&format!("icmp eq {whole} {masked}, 0"));
    let sign = e.value(&format!("and {whole} {whole_value}, {}", i64::MIN >> (64 - bits(whole))));
    let kept = e.value(&format!("select i1 {small}, {whole} {sign}, {whole} {whole_value}"));
    if is_real { e.value(&format!("bitcast {whole} {kept} to {ty}")) } else { kept }
}

pub(super) fn emit(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    let last = *words.last().ok_or(Unknown)?;
    let directed = words.iter().copied().find(|word| MODES.contains(word));
    if words.iter().any(|word| matches!(*word, "rna" | "rs")) || directed.is_some() && last.contains("16") {
        return Err(Unknown);
    }
    let (register, lanes) = match last {
        "f32" => ("float", 1),
        "f64" => ("double", 1),
        "f16" | "bf16" => ("i16", 1),
        _ => ("i32", 2),
    };
    let mut inputs = Vec::new();
    for input in instruction.operands.iter().skip(1) {
        let value = e.read(input, register)?;
        inputs.push(flushed(e, words, register, value));
    }
    if register == "float" || register == "double" {
        let result = match directed {
            Some(mode) => directed_operation(e, words, mode, register, inputs)?,
            None => wide(e, words, register, &inputs)?,
        };
        let result = flushed(e, words, register, result);
        return e.write(operand(instruction, 0)?, register, &result);
    }
    let mut results = Vec::new();
    for lane in 0..lanes {
        let mut parts = Vec::new();
        for input in &inputs {
            let part = if lanes == 1 { input.clone() } else { half_of(e, input, lane) };
            parts.push(flushed(e, words, last.trim_end_matches("x2"), part));
        }
        let result = narrow_operation(e, words, last, &parts)?;
        results.push(flushed(e, words, last.trim_end_matches("x2"), result));
    }
    let result = if lanes == 1 { results.remove(0) } else { pair(e, &results[0], &results[1]) };
    e.write(operand(instruction, 0)?, register, &result)
}

/// Emits an operation with a directed rounding.
fn directed_operation(
    e: &mut Emitter,
    words: &[&str],
    mode: &str,
    ty: &'static str,
    inputs: Vec<String>,
) -> Emitted<String> {
    let (name, count) = match words[0] {
        name @ ("add" | "sub" | "mul" | "div") => (name, 2),
        "fma" | "mad" => ("fma", 3),
        name @ ("rcp" | "sqrt") => (name, 1),
        _ => return Err(Unknown),
    };
    if inputs.len() != count {
        return Err(Unknown);
    }
    let args: Vec<(&str, String)> = inputs.into_iter().map(|input| (ty, input)).collect();
    let value = e.call(ty, &format!("llvm.nvvm.{name}.{mode}.{}", &ty[..1]), &args);
    Ok(limited(e, words, ty, value))
}

/// Rounds a `double` to a 16-bit format in a directed mode.
pub(super) fn narrow_directed(e: &mut Emitter, word: &str, mode: &str, value: &str) -> String {
    let near = narrow(e, word, "double", value);
    let back = widen(e, word, &near);
    let back = e.value(&format!("fpext float {back} to double"));
    let args = [("i16", near), ("double", back), ("double", value.to_owned())];
    e.call("i16", &format!("llvm.nvvm.step_half.{mode}"), &args)
}

/// Half `lane` of a register, 0 being the low one.
pub(super) fn half_of(e: &mut Emitter, both: &str, lane: u32) -> String {
    let down = e.value(&format!("lshr i32 {both}, {}", 16 * lane));
    e.value(&format!("trunc i32 {down} to i16"))
}

/// Packs two 16-bit values into one register, the first in the low half.
pub(super) fn pair(e: &mut Emitter, low: &str, high: &str) -> String {
    let (low, high) =
        (e.value(&format!("zext i16 {low} to i32")), e.value(&format!("zext i16 {high} to i32")));
    let up = e.value(&format!("shl i32 {high}, 16"));
    e.value(&format!("or i32 {up}, {low}"))
}

fn narrow_operation(e: &mut Emitter, words: &[&str], word: &str, inputs: &[String]) -> Emitted<String> {
    match words[0] {
        "neg" => return Ok(e.value(&format!("xor i16 {}, -32768", inputs[0]))),
        "abs" => return Ok(e.value(&format!("and i16 {}, 32767", inputs[0]))),
        _ => {}
    }
    let mut singles = Vec::new();
    for input in inputs {
        singles.push(widen(e, word, input));
    }
    if words[0] != "fma" {
        let result = wide(e, words, "float", &singles)?;
        return Ok(narrow(e, word, "float", &result));
    }
    let mut doubles = Vec::new();
    for single in &singles {
        doubles.push(e.value(&format!("fpext float {single} to double")));
    }
    let result = wide(e, words, "double", &doubles)?;
    Ok(narrow(e, word, "double", &result))
}

/// Emits an operation in `float` or `double`.
fn wide(e: &mut Emitter, words: &[&str], ty: &str, inputs: &[String]) -> Emitted<String> {
    let suffix = if ty == "double" { "f64" } else { "f32" };
    let input = |index: usize| inputs.get(index).cloned().ok_or(Unknown);
    let args = |count: usize| -> Emitted<Vec<(&str, String)>> {
        (0..count).map(|index| Ok((ty, input(index)?))).collect()
    };
    let intrinsic = |name: &str| format!("llvm.{name}.{suffix}");
    let value = match words[0] {
        "add" | "sub" | "mul" | "div" => e.value(&format!("f{} {ty} {}, {}", words[0], input(0)?, input(1)?)),
        "fma" | "mad" => e.call(ty, &intrinsic("fma"), &args(3)?),
        "neg" => e.value(&format!("fneg {ty} {}", input(0)?)),
        "abs" => e.call(ty, &intrinsic("fabs"), &args(1)?),
        "sqrt" => e.call(ty, &intrinsic("sqrt"), &args(1)?),
        "rcp" => e.value(&format!("fdiv {ty} 1.0, {}", input(0)?)),
        "rsqrt" => {
            let root = e.call(ty, &intrinsic("sqrt"), &args(1)?);
            e.value(&format!("fdiv {ty} 1.0, {root}"))
        }
        "min" | "max" if words.contains(&"xorsign") => return by_magnitude(e, words, ty, &args(2)?),
        "min" | "max" if inputs.len() == 2 && !words.contains(&"abs") => {
            let name = match (words[0], words.contains(&"NaN")) {
                ("min", true) => "minimum",
                ("max", true) => "maximum",
                ("min", false) => "minnum",
                _ => "maxnum",
            };
            e.call(ty, &intrinsic(name), &args(2)?)
        }
        "copysign" => e.call(ty, &intrinsic("copysign"), &[(ty, input(1)?), (ty, input(0)?)]),
        name @ ("ex2" | "lg2" | "sin" | "cos" | "tanh") => {
            let function = match name {
                "ex2" => "exp2",
                "lg2" => "log2",
                other => other,
            };
            e.call(ty, &format!("{function}{}", if ty == "float" { "f" } else { "" }), &args(1)?)
        }
        _ => return Err(Unknown),
    };
    Ok(limited(e, words, ty, value))
}

/// `min` and `max` with `.xorsign.abs`: the smaller or larger magnitude, negative if just one of the numbers is.
fn by_magnitude(e: &mut Emitter, words: &[&str], ty: &str, numbers: &[(&str, String)]) -> Emitted<String> {
    let (suffix, whole) = if ty == "double" { ("f64", "i64") } else { ("f32", "i32") };
    let (mut sizes, mut bits) = (Vec::new(), Vec::new());
    for (_, number) in numbers {
        sizes.push(e.call(ty, &format!("llvm.fabs.{suffix}"), &[(ty, number.clone())]));
        bits.push(e.value(&format!("bitcast {ty} {number} to {whole}")));
    }
    let plain: Vec<&str> = words.iter().copied().filter(|word| !matches!(*word, "xorsign" | "abs")).collect();
    let size = wide(e, &plain, ty, &sizes)?;
    let signs = e.value(&format!("xor {whole} {}, {}", bits[0], bits[1]));
    let sign = e.value(&format!("bitcast {whole} {signs} to {ty}"));
    Ok(e.call(ty, &format!("llvm.copysign.{suffix}"), &[(ty, size), (ty, sign)]))
}

/// `.sat` clamps a result to 0..=1 (a NaN becomes 0), `.relu` turns negative results into 0.
pub(super) fn limited(e: &mut Emitter, words: &[&str], ty: &str, value: String) -> String {
    let suffix = if ty == "double" { "f64" } else { "f32" };
    if words.contains(&"relu") {
        return e.call(ty, &format!("llvm.maximum.{suffix}"), &[(ty, value), (ty, "0.0".to_owned())]);
    }
    if !words.contains(&"sat") {
        return value;
    }
    let low = e.call(ty, &format!("llvm.maxnum.{suffix}"), &[(ty, value), (ty, "0.0".to_owned())]);
    e.call(ty, &format!("llvm.minnum.{suffix}"), &[(ty, low), (ty, "1.0".to_owned())])
}
