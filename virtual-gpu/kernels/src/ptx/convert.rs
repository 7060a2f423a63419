//! `cvt`: between integers and floating point.
//!
//! Trap: PTX names the destination type before the source type. Conversions to integers saturate, as LLVM's saturating
//! casts do. (PTX ISA 9.0, "cvt".)

use super::emit::{Emitted, Emitter, Unknown, operand};
use super::float::{flushed, narrow, narrow_directed, pair, widen};
use super::fp8;
use super::parse::Instruction;
use super::tensor;
use super::types::{bits, integer, resize};
use crate::rounding::MODES;

pub(super) fn emit(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    let [.., to, from] = *words else { return Err(Unknown) };
    if fp8::converts(to, from) || to == "tf32" {
        let emit = if to == "tf32" { tensor::to_tf32 } else { fp8::emit };
        return emit(e, instruction, words);
    }
    let rounding =
        words[1..words.len() - 2].iter().copied().find(|word| word.starts_with('r') && word.len() <= 3);
    let saturates = words.contains(&"sat");
    let (to_operand, source) = (operand(instruction, 0)?, operand(instruction, 1)?);
    let directed = rounding.filter(|mode| MODES.contains(mode));
    if matches!(to, "f16x2" | "bf16x2")
        && from == "f32"
        && (directed.is_some() || matches!(rounding, None | Some("rn")))
    {
        let (high, low) = (e.read(source, "float")?, e.read(operand(instruction, 2)?, "float")?);
        let high = rounded_half(e, to, "float", &high, directed);
        let low = rounded_half(e, to, "float", &low, directed);
        let both = pair(e, &low, &high);
        return e.write(to_operand, "i32", &both);
    }
    if let (Some((to_ty, to_signed)), Some((from_ty, from_signed))) = (integer(to), integer(from)) {
        let value = e.read(source, from_ty)?;
        let value = if saturates {
            saturated(e, &value, (from_ty, from_signed), (to_ty, to_signed))?
        } else {
            resize(e, &value, from_ty, to_ty, from_signed)
        };
        // A narrow result is extended to the register that it is written to.
        let wide = if bits(to_ty) < 32 { "i32" } else { to_ty };
        let value = resize(e, &value, to_ty, wide, to_signed);
        return e.write(to_operand, wide, &value);
    }
    if let Some((from_ty, signed)) = integer(from) {
        let value = e.read(source, from_ty)?;
        let operation = if signed { "sitofp" } else { "uitofp" };
        let ty = if to == "f32" { "float" } else { "double" };
        if let (Some(mode), "f32" | "f64") = (directed, to) {
            let real = integer_directed(e, &value, (from_ty, signed), ty, mode)?;
            return finish(e, (instruction, words), to, ty, real, None, false);
        }
        if !matches!(rounding, None | Some("rn")) && (directed.is_none() || bits(from_ty) > 32) {
            return Err(Unknown);
        }
        let real = e.value(&format!("{operation} {from_ty} {value} to {ty}"));
        return finish(e, (instruction, words), to, ty, real, directed, false);
    }
    let (value, ty) = match from {
        "f16" | "bf16" => {
            let narrow = e.read(source, "i16")?;
            (widen(e, from, &narrow), "float")
        }
        "f32" => {
            let value = e.read(source, "float")?;
            (flushed(e, words, "float", value), "float")
        }
        "f64" => (e.read(source, "double")?, "double"),
        _ => return Err(Unknown),
    };
    let suffix = if ty == "double" { "f64" } else { "f32" };
    let whole = match rounding {
        Some("rni") => Some("roundeven"),
        Some("rzi") => Some("trunc"),
        Some("rmi") => Some("floor"),
        Some("rpi") => Some("ceil"),
        Some("rn" | "rz" | "rm" | "rp") | None => None,
        Some(_) => return Err(Unknown),
    };
    let value = match whole {
        Some(function) => e.call(ty, &format!("llvm.{function}.{suffix}"), &[(ty, value)]),
        None => value,
    };
    if let Some((to_ty, signed)) = integer(to) {
        let number = to_integer(e, &value, ty, (to_ty, signed));
        let wide = if bits(to_ty) < 32 { "i32" } else { to_ty };
        let number = resize(e, &number, to_ty, wide, signed);
        return e.write(to_operand, wide, &number);
    }
    finish(e, (instruction, words), to, ty, value, directed, saturates)
}

/// Converts to the nearest integer in range; a NaN becomes 0, or the highest bit if either type has 64 bits.
fn to_integer(e: &mut Emitter, value: &str, from: &str, (to, signed): (&'static str, bool)) -> String {
    let (sign, suffix) = (if signed { 's' } else { 'u' }, if from == "double" { "f64" } else { "f32" });
    let number = e.call(to, &format!("llvm.fpto{sign}i.sat.{to}.{suffix}"), &[(from, value.to_owned())]);
    if from != "double" && to != "i64" {
        return number;
    }
    let nan = e.value(&format!("fcmp uno {from} {value}, {value}"));
    let highest = -(1i128 << (bits(to).min(64) - 1));
    e.value(&format!("select i1 {nan}, {to} {highest}, {to} {number}"))
}

/// Converts an integer to `float` or `double`, rounded as `mode` says.
fn integer_directed(
    e: &mut Emitter,
    value: &str,
    (from, signed): (&str, bool),
    ty: &str,
    mode: &str,
) -> Emitted<String> {
    if bits(from) > 64 {
        return Err(Unknown);
    }
    let wide = resize(e, value, from, "i64", signed);
    let letters = if signed { "ll" } else { "ull" };
    Ok(e.call(ty, &format!("llvm.nvvm.{letters}2{}.{mode}", &ty[..1]), &[("i64", wide)]))
}

/// Writes a floating-point number of LLVM type `ty` as type `to`, rounded to nearest or as `directed` says.
fn finish(
    e: &mut Emitter,
    (instruction, words): (&Instruction, &[&str]),
    to: &str,
    ty: &str,
    value: String,
    directed: Option<&str>,
    saturates: bool,
) -> Emitted {
    let suffix = if ty == "double" { "f64" } else { "f32" };
    let value = if saturates {
        let low = e.call(ty, &format!("llvm.maxnum.{suffix}"), &[(ty, value), (ty, "0.0".to_owned())]);
        e.call(ty, &format!("llvm.minnum.{suffix}"), &[(ty, low), (ty, "1.0".to_owned())])
    } else {
        value
    };
    let (register, value) = match (to, ty) {
        ("f16" | "bf16", _) => ("i16", rounded_half(e, to, ty, &value, directed)),
        ("f32", "double") if directed.is_some() => {
            let function = format!("llvm.nvvm.d2f.{}", directed.unwrap_or_default());
            ("float", e.call("float", &function, &[("double", value)]))
        }
        ("f32", "double") => ("float", e.value(&format!("fptrunc double {value} to float"))),
        ("f64", "float") => ("double", e.value(&format!("fpext float {value} to double"))),
        ("f32", _) => ("float", value),
        ("f64", _) => ("double", value),
        _ => return Err(Unknown),
    };
    let value = flushed(e, words, register, value);
    e.write(operand(instruction, 0)?, register, &value)
}

fn rounded_half(e: &mut Emitter, to: &str, ty: &str, value: &str, directed: Option<&str>) -> String {
    let Some(mode) = directed else { return narrow(e, to, ty, value) };
    if ty == "double" {
        return narrow_directed(e, to, mode, value);
    }
    let double = e.value(&format!("fpext float {value} to double"));
    narrow_directed(e, to, mode, &double)
}

/// Clamps an integer to the range of another type, in 128 bits.
fn saturated(e: &mut Emitter, value: &str, from: (&str, bool), to: (&str, bool)) -> Emitted<String> {
    let wide = resize(e, value, from.0, "i128", from.1);
    let width = bits(to.0);
    let (least, most) =
        if to.1 { (-(1i128 << (width - 1)), (1i128 << (width - 1)) - 1) } else { (0, (1i128 << width) - 1) };
    let low = e.call("i128", "llvm.smax.i128", &[("i128", wide), ("i128", least.to_string())]);
    let held = e.call("i128", "llvm.smin.i128", &[("i128", low), ("i128", most.to_string())]);
    Ok(resize(e, &held, "i128", to.0, false))
}
