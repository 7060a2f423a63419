//! `cvt`: between integers and floating point.
//!
//! Trap: the destination type is named before the source type, and conversions to integers saturate, as LLVM's
//! saturating ones do. (PTX ISA 9.0, "cvt".)

use super::emit::{Emitted, Emitter, Unknown};
use super::float::{narrow, pair, widen};
use super::instructions::{bits, integer, operand, resize};
use super::parse::Instruction;

pub(super) fn emit(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    let [.., to, from] = *words else { return Err(Unknown) };
    let rounding =
        words[1..words.len() - 2].iter().copied().find(|word| word.starts_with('r') && word.len() <= 3);
    let saturates = words.contains(&"sat");
    let (to_operand, source) = (operand(instruction, 0)?, operand(instruction, 1)?);
    if matches!(to, "f16x2" | "bf16x2") && from == "f32" && rounding.is_none_or(|r| r == "rn") {
        let (high, low) = (e.read(source, "float")?, e.read(operand(instruction, 2)?, "float")?);
        let (high, low) = (narrow(e, to, "float", &high), narrow(e, to, "float", &low));
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
        // A narrow result is extended to the register it goes to.
        let wide = if bits(to_ty) < 32 { "i32" } else { to_ty };
        let value = resize(e, &value, to_ty, wide, to_signed);
        return e.write(to_operand, wide, &value);
    }
    if let Some((from_ty, signed)) = integer(from) {
        let value = e.read(source, from_ty)?;
        let operation = if signed { "sitofp" } else { "uitofp" };
        if !matches!(rounding, None | Some("rn")) {
            return Err(Unknown);
        }
        let ty = if to == "f32" { "float" } else { "double" };
        let real = e.value(&format!("{operation} {from_ty} {value} to {ty}"));
        return finish(e, instruction, to, ty, real, false);
    }
    let (value, ty) = match from {
        "f16" | "bf16" => {
            let narrow = e.read(source, "i16")?;
            (widen(e, from, &narrow), "float")
        }
        "f32" => (e.read(source, "float")?, "float"),
        "f64" => (e.read(source, "double")?, "double"),
        _ => return Err(Unknown),
    };
    let suffix = if ty == "double" { "f64" } else { "f32" };
    let whole = match rounding {
        Some("rni") => Some("roundeven"),
        Some("rzi") => Some("trunc"),
        Some("rmi") => Some("floor"),
        Some("rpi") => Some("ceil"),
        Some("rn") | None => None,
        Some(_) => return Err(Unknown),
    };
    let value = match whole {
        Some(function) => e.call(ty, &format!("llvm.{function}.{suffix}"), &[(ty, value)]),
        None => value,
    };
    if let Some((to_ty, signed)) = integer(to) {
        let sign = if signed { 's' } else { 'u' };
        let number = e.call(to_ty, &format!("llvm.fpto{sign}i.sat.{to_ty}.{suffix}"), &[(ty, value)]);
        let wide = if bits(to_ty) < 32 { "i32" } else { to_ty };
        let number = resize(e, &number, to_ty, wide, signed);
        return e.write(to_operand, wide, &number);
    }
    finish(e, instruction, to, ty, value, saturates)
}

/// Writes a real number of LLVM type `ty` as a `to`.
fn finish(
    e: &mut Emitter,
    instruction: &Instruction,
    to: &str,
    ty: &str,
    value: String,
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
        ("f16" | "bf16", _) => ("i16", narrow(e, to, ty, &value)),
        ("f32", "double") => ("float", e.value(&format!("fptrunc double {value} to float"))),
        ("f64", "float") => ("double", e.value(&format!("fpext float {value} to double"))),
        ("f32", _) => ("float", value),
        ("f64", _) => ("double", value),
        _ => return Err(Unknown),
    };
    e.write(operand(instruction, 0)?, register, &value)
}

/// An integer held within the range of another type, by way of 128 bits.
fn saturated(e: &mut Emitter, value: &str, from: (&str, bool), to: (&str, bool)) -> Emitted<String> {
    let wide = resize(e, value, from.0, "i128", from.1);
    let width = bits(to.0);
    let (least, most) =
        if to.1 { (-(1i128 << (width - 1)), (1i128 << (width - 1)) - 1) } else { (0, (1i128 << width) - 1) };
    let low = e.call("i128", "llvm.smax.i128", &[("i128", wide), ("i128", least.to_string())]);
    let held = e.call("i128", "llvm.smin.i128", &[("i128", low), ("i128", most.to_string())]);
    Ok(resize(e, &held, "i128", to.0, false))
}
