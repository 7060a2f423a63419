//! `cvt`: between integers and floating point.
//!
//! Trap: PTX names the destination type before the source type. Conversions to integers saturate, as LLVM's saturating
//! casts do. (PTX ISA 9.0, "cvt", "cvt.pack".)

use super::emit::{Emitted, Emitter, Unknown, operand};
use super::float::{flushed, limited, narrow, narrow_directed, pair, widen};
use super::fp8;
use super::parse::{Instruction, Operand};
use super::tensor;
use super::types::{bits, integer, resize, write_extended};
use crate::rounding::MODES;

pub(super) fn emit(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    if let ["cvt", "pack", ref rest @ ..] = *words {
        return pack(e, instruction, rest);
    }
    let ["cvt", ref flags @ .., to, from] = *words else { return Err(Unknown) };
    if fp8::converts(to, from) || to == "tf32" {
        let emit = if to == "tf32" { tensor::to_tf32 } else { fp8::emit };
        return emit(e, instruction, words);
    }
    let is_rounding =
        |word: &&str| matches!(*word, "rn" | "rz" | "rm" | "rp" | "rni" | "rzi" | "rmi" | "rpi");
    let is_known = |word: &&str| is_rounding(word) || matches!(*word, "ftz" | "sat" | "relu");
    if !flags.iter().all(is_known) || flags.contains(&"relu") && (from != "f32" || !to.contains("f16")) {
        return Err(Unknown);
    }
    let rounding = flags.iter().copied().find(is_rounding);
    let directed = rounding.filter(|mode| MODES.contains(mode));
    let saturates = words.contains(&"sat");
    let inputs = 1 + usize::from(matches!(to, "f16x2" | "bf16x2"));
    if instruction.operands.len() != 1 + inputs {
        return Err(Unknown);
    }
    let conversion = Conversion { instruction, words, to, from, rounding, directed, saturates };
    match (integer(to), integer(from)) {
        _ if conversion.makes_pair() => conversion.convert_pair(e),
        (Some(to), Some(from)) => conversion.convert_between_integers(e, to, from),
        (None, Some(from)) => conversion.convert_integer(e, from),
        (_, None) => conversion.convert_real(e),
    }
}

/// A `cvt` instruction in parts.
#[derive(Clone, Copy)]
struct Conversion<'a> {
    instruction: &'a Instruction,
    words: &'a [&'a str],
    to: &'a str,
    from: &'a str,
    rounding: Option<&'a str>,
    /// The rounding, if it is one of [`MODES`].
    directed: Option<&'a str>,
    saturates: bool,
}

impl Conversion<'_> {
    /// Whether two `float`s become one register of two halves.
    fn makes_pair(self) -> bool {
        matches!(self.to, "f16x2" | "bf16x2")
            && self.from == "f32"
            && (self.directed.is_some() || matches!(self.rounding, None | Some("rn")))
    }

    fn convert_pair(self, e: &mut Emitter) -> Emitted {
        let Conversion { instruction, words, to, directed, .. } = self;
        let (high, low) =
            (e.read(operand(instruction, 1)?, "float")?, e.read(operand(instruction, 2)?, "float")?);
        let [high, low] = [high, low].map(|value| limited(e, words, "float", value));
        let high = rounded_half(e, to, "float", &high, directed);
        let low = rounded_half(e, to, "float", &low, directed);
        let both = pair(e, &low, &high);
        e.write(operand(instruction, 0)?, "i32", &both)
    }

    fn convert_between_integers(
        self,
        e: &mut Emitter,
        (to, to_signed): (&str, bool),
        (from, from_signed): (&str, bool),
    ) -> Emitted {
        let value = e.read(operand(self.instruction, 1)?, from)?;
        let value = if self.saturates {
            saturated(e, &value, (from, from_signed), (to, to_signed))?
        } else {
            resize(e, &value, from, to, from_signed)
        };
        self.write_integer(e, &value, (to, to_signed))
    }

    /// Converts an integer to floating point.
    fn convert_integer(self, e: &mut Emitter, (from, signed): (&str, bool)) -> Emitted {
        let value = e.read(operand(self.instruction, 1)?, from)?;
        let ty = if self.to == "f32" { "float" } else { "double" };
        if let (Some(mode), "f32" | "f64") = (self.directed, self.to) {
            let real = integer_directed(e, &value, (from, signed), ty, mode)?;
            return self.write_real(e, ty, real, None);
        }
        if !matches!(self.rounding, None | Some("rn")) && self.directed.is_none() {
            return Err(Unknown);
        }
        let value = match (from, self.to) {
            ("i64", "f16" | "bf16") => cut_to_double(e, &value, signed),
            _ => value,
        };
        let operation = if signed { "sitofp" } else { "uitofp" };
        let real = e.value(&format!("{operation} {from} {value} to {ty}"));
        self.write_real(e, ty, real, self.directed)
    }

    /// Converts floating point to an integer or to another floating-point type.
    fn convert_real(self, e: &mut Emitter) -> Emitted {
        let source = operand(self.instruction, 1)?;
        let (value, ty) = match self.from {
            "f16" | "bf16" => {
                let narrow = e.read(source, "i16")?;
                (widen(e, self.from, &narrow), "float")
            }
            "f32" => {
                let value = e.read(source, "float")?;
                (flushed(e, self.words, "float", value), "float")
            }
            "f64" => (e.read(source, "double")?, "double"),
            _ => return Err(Unknown),
        };
        let suffix = if ty == "double" { "f64" } else { "f32" };
        let whole = match self.rounding {
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
        match integer(self.to) {
            Some(to) => {
                let number = to_integer(e, &value, ty, to)?;
                self.write_integer(e, &number, to)
            }
            None => self.write_real(e, ty, value, self.directed),
        }
    }

    /// Writes an integer; a narrow one is extended to the register that it is written to.
    fn write_integer(self, e: &mut Emitter, value: &str, (ty, signed): (&str, bool)) -> Emitted {
        let Operand::Plain(name) = operand(self.instruction, 0)? else { return Err(Unknown) };
        write_extended(e, name, value, ty, signed)
    }

    /// Writes a floating-point number of LLVM type `ty`, rounded to nearest or as `directed` says.
    fn write_real(self, e: &mut Emitter, ty: &str, value: String, directed: Option<&str>) -> Emitted {
        let value = limited(e, self.words, ty, value);
        let (register, value) = match (self.to, ty) {
            ("f16" | "bf16", _) => ("i16", rounded_half(e, self.to, ty, &value, directed)),
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
        let value = flushed(e, self.words, register, value);
        e.write(operand(self.instruction, 0)?, register, &value)
    }
}

/// Converts to the nearest integer in range; a NaN becomes 0, or the highest bit if either type has 64 bits.
///
/// Trap: LLVM's saturating cast to 8 or 16 bits becomes that of a C++ cast, which clamps to 16 bits only; so a narrow
/// number is clamped here.
fn to_integer(
    e: &mut Emitter,
    value: &str,
    from: &str,
    (to, signed): (&'static str, bool),
) -> Emitted<String> {
    if bits(to) < 32 {
        let whole = to_integer(e, value, from, ("i32", true))?;
        return saturated(e, &whole, ("i32", true), (to, signed));
    }
    let (sign, suffix) = (if signed { 's' } else { 'u' }, if from == "double" { "f64" } else { "f32" });
    let number = e.call(to, &format!("llvm.fpto{sign}i.sat.{to}.{suffix}"), &[(from, value.to_owned())]);
    if from != "double" && to != "i64" {
        return Ok(number);
    }
    let nan = e.value(&format!("fcmp uno {from} {value}, {value}"));
    let highest = -(1i128 << (bits(to).min(64) - 1));
    Ok(e.value(&format!("select i1 {nan}, {to} {highest}, {to} {number}")))
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

/// Cuts a 64-bit integer of 2^53 or more to the bits of a `double`, the last of them set if anything was cut off: a
/// later rounding to 16 bits then gives the same as rounding once.
fn cut_to_double(e: &mut Emitter, value: &str, signed: bool) -> String {
    let low = e.value(&format!("and i64 {value}, 2047"));
    let inexact = e.value(&format!("icmp ne i64 {low}, 0"));
    let sticky = e.value(&format!("select i1 {inexact}, i64 2048, i64 0"));
    let high = e.value(&format!("and i64 {value}, -2048"));
    let odd = e.value(&format!("or i64 {high}, {sticky}"));
    let size = if signed {
        e.call("i64", "llvm.abs.i64", &[("i64", value.to_owned()), ("i1", "false".to_owned())])
    } else {
        value.to_owned()
    };
    let small = e.value(&format!("icmp ult i64 {size}, {}", 1u64 << 53));
    e.value(&format!("select i1 {small}, i64 {value}, i64 {odd}"))
}

fn rounded_half(e: &mut Emitter, to: &str, ty: &str, value: &str, directed: Option<&str>) -> String {
    let Some(mode) = directed else { return narrow(e, to, ty, value) };
    if ty == "double" {
        return narrow_directed(e, to, mode, value);
    }
    let double = e.value(&format!("fpext float {value} to double"));
    narrow_directed(e, to, mode, &double)
}

/// `cvt.pack`: clamps two integers to a narrow type and packs them, the first above the second; what is left of the
/// word above them comes from the low bits of the last operand.
fn pack(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    let (to, count) = match *words {
        ["sat", to @ ("u16" | "s16"), "s32"] => (to, 3),
        ["sat", to @ ("u8" | "s8" | "u4" | "s4" | "u2" | "s2"), "s32", "b32"] => (to, 4),
        _ => return Err(Unknown),
    };
    if instruction.operands.len() != count {
        return Err(Unknown);
    }
    let width: u32 = to[1..].parse().map_err(|_| Unknown)?;
    let signed = to.starts_with('s');
    let most = (1i64 << (width - u32::from(signed))) - 1;
    let least = if signed { -most - 1 } else { 0 };
    let mut word = if count == 4 {
        let rest = e.read(operand(instruction, 3)?, "i32")?;
        e.value(&format!("shl i32 {rest}, {}", 2 * width))
    } else {
        "0".to_owned()
    };
    for (index, up) in [(1, width), (2, 0)] {
        let value = e.read(operand(instruction, index)?, "i32")?;
        let low = e.call("i32", "llvm.smax.i32", &[("i32", value), ("i32", least.to_string())]);
        let held = e.call("i32", "llvm.smin.i32", &[("i32", low), ("i32", most.to_string())]);
        let cut = e.value(&format!("and i32 {held}, {}", (1u64 << width) - 1));
        let moved = e.value(&format!("shl i32 {cut}, {up}"));
        word = e.value(&format!("or i32 {word}, {moved}"));
    }
    e.write(operand(instruction, 0)?, "i32", &word)
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
