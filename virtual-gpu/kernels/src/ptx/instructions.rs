//! The table of instructions: integers, bits, moves, synchronisation. Instructions that are neither here nor in
//! `float`, `convert`, `memory` or another table of this folder are unknown.
//!
//! `.approx` is ignored: all results are accurate. (PTX ISA 9.0, "Instruction Set".)

use super::emit::{Emitted, Emitter, Unknown, operand};
use super::parse::{Instruction, Operand};
use super::types::{bits, integer, register_type, resize};
use super::{
    carry, compare, convert, dots, fields, float, forms, images, memory, products, tensor, threads, video,
};
use crate::clusters;

pub(super) fn emit(e: &mut Emitter, instruction: &Instruction) -> Emitted {
    if forms::refusal(instruction).is_some() {
        return Err(Unknown);
    }
    let words: Vec<&str> = instruction.words.iter().map(String::as_str).collect();
    match words[0] {
        "ld" | "st" | "ldu" | "atom" | "red" | "cp" | "prefetch" | "prefetchu" | "discard" => {
            memory::emit(e, instruction, &words)
        }
        "cvt" => convert::emit(e, instruction, &words),
        "tex" | "tld4" | "suld" | "sust" => images::emit(e, instruction, &words),
        "dp4a" | "dp2a" => dots::emit(e, instruction, &words),
        "mma" | "ldmatrix" | "stmatrix" | "movmatrix" => tensor::emit(e, instruction, &words),
        word if video::is_one(word) => video::emit(e, instruction, &words),
        "bra" => match operand(instruction, 0)? {
            Operand::Plain(label) if instruction.operands.len() == 1 => e.branch(label),
            _ => Err(Unknown),
        },
        "mov" | "cvta" => moves(e, instruction, &words),
        "setp" | "set" | "selp" | "slct" | "testp" => compare::emit(e, instruction, &words),
        "membar" | "fence" => {
            e.line("fence seq_cst");
            Ok(())
        }
        // Hints, and a counter of events that nothing here reads.
        "griddepcontrol" | "createpolicy" | "applypriority" | "setmaxnreg" | "pmevent" => Ok(()),
        "" if words.get(1) == Some(&"pragma") => Ok(()),
        "exit" | "trap" | "nanosleep" | "bar" | "barrier" | "shfl" | "vote" | "match" | "activemask"
        | "redux" | "elect" | "isspacep" | "mapa" | "getctarank" => threads::emit(e, instruction, &words),
        _ => arithmetic(e, instruction, &words),
    }
}

fn arithmetic(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    let last = *words.last().ok_or(Unknown)?;
    if matches!(last, "f16" | "bf16" | "f16x2" | "bf16x2" | "f32" | "f64") {
        return float::emit(e, instruction, words);
    }
    if words[0] == "prmt" && words.get(1) == Some(&"b32") {
        let first = e.read(operand(instruction, 1)?, "i32")?;
        let value = fields::permute(e, instruction, &words[2..], first)?;
        return e.write(operand(instruction, 0)?, "i32", &value);
    }
    if matches!(last, "u16x2" | "s16x2" | "relu") || words.contains(&"relu") {
        return fields::halves(e, instruction, words);
    }
    let (ty, signed) = integer(last).ok_or(Unknown)?;
    match words[0] {
        "mad" | "madc" | "mul" | "mul24" | "mad24" => {
            return products::emit(e, instruction, words, (ty, signed));
        }
        "add" | "addc" | "sub" | "subc" if words[0].ends_with('c') || words.contains(&"cc") => {
            let a = e.read(operand(instruction, 1)?, ty)?;
            let b = e.read(operand(instruction, 2)?, ty)?;
            let value = carry::add(e, words, ty, &a, &b);
            return e.write(operand(instruction, 0)?, ty, &value);
        }
        "add" | "sub" if words.contains(&"sat") => {
            let (a, b) = (e.read(operand(instruction, 1)?, ty)?, e.read(operand(instruction, 2)?, ty)?);
            let value = e.call(ty, &format!("llvm.s{}.sat.{ty}", words[0]), &[(ty, a), (ty, b)]);
            return e.write(operand(instruction, 0)?, ty, &value);
        }
        "add" | "sub" | "and" | "or" | "xor" | "div" | "rem" | "min" | "max" | "shl" | "shr" => {
            let a = e.read(operand(instruction, 1)?, ty)?;
            let shift = matches!(words[0], "shl" | "shr");
            let b = e.read(operand(instruction, 2)?, if shift { "i32" } else { ty })?;
            let value = binary(e, words[0], ty, signed, &a, &b)?;
            return e.write(operand(instruction, 0)?, ty, &value);
        }
        _ => {}
    }
    let value = bitwise(e, instruction, words, ty, signed)?;
    let result = match words[0] {
        "clz" | "popc" | "bfind" => "i32",
        _ => ty,
    };
    e.write(operand(instruction, 0)?, result, &value)
}

/// Emits an operation on two numbers with all of PTX's results.
pub(super) fn binary(
    e: &mut Emitter,
    name: &str,
    ty: &str,
    signed: bool,
    a: &str,
    b: &str,
) -> Emitted<String> {
    let sign = if signed { 's' } else { 'u' };
    let args = [(ty, a.to_owned()), (ty, b.to_owned())];
    Ok(match name {
        "div" | "rem" => e.value(&format!("{sign}{name} {ty} {a}, {b}")),
        "min" | "max" => e.call(ty, &format!("llvm.{sign}{name}.{ty}"), &args),
        "shl" | "shr" => {
            // A shift by the width or more gives all zeros, or all signs; LLVM leaves it undefined.
            let width = bits(ty);
            let most =
                e.call("i32", "llvm.umin.i32", &[("i32", b.to_owned()), ("i32", (width - 1).to_string())]);
            let by = resize(e, &most, "i32", ty, false);
            let operation = match (name, signed) {
                ("shl", _) => "shl",
                (_, true) => "ashr",
                (_, false) => "lshr",
            };
            let shifted = e.value(&format!("{operation} {ty} {a}, {by}"));
            if operation == "ashr" {
                return Ok(shifted);
            }
            let inside = e.value(&format!("icmp ult i32 {b}, {width}"));
            e.value(&format!("select i1 {inside}, {ty} {shifted}, {ty} 0"))
        }
        _ => e.value(&format!("{name} {ty} {a}, {b}")),
    })
}

fn bitwise(
    e: &mut Emitter,
    instruction: &Instruction,
    words: &[&str],
    ty: &str,
    signed: bool,
) -> Emitted<String> {
    let first = e.read(operand(instruction, 1)?, ty)?;
    let one = [(ty, first.clone())];
    Ok(match words[0] {
        "not" => e.value(&format!("xor {ty} {first}, -1")),
        "neg" => e.value(&format!("sub {ty} 0, {first}")),
        "cnot" => {
            let zero = e.value(&format!("icmp eq {ty} {first}, 0"));
            e.value(&format!("zext i1 {zero} to {ty}"))
        }
        "abs" => e.call(ty, &format!("llvm.abs.{ty}"), &[one[0].clone(), ("i1", "false".to_owned())]),
        "brev" => e.call(ty, &format!("llvm.bitreverse.{ty}"), &one),
        "popc" => {
            let count = e.call(ty, &format!("llvm.ctpop.{ty}"), &one);
            resize(e, &count, ty, "i32", false)
        }
        "clz" => leading_zeros(e, ty, &first),
        "bfind" => find_highest(e, words, ty, signed, &first),
        "bfe" => fields::extract(e, instruction, ty, signed, &first)?,
        "bfi" => fields::insert(e, instruction, ty, &first)?,
        "bmsk" => fields::mask(e, instruction, words[1], &first)?,
        "szext" if ty == "i32" => fields::extend(e, instruction, words[1], signed, &first)?,
        "fns" if ty == "i32" => fields::nth_set(e, instruction, first)?,
        "shf" => funnel(e, instruction, words, &first)?,
        "lop3" => lookup(e, instruction, &first)?,
        "sad" => {
            let (b, c) = (e.read(operand(instruction, 2)?, ty)?, e.read(operand(instruction, 3)?, ty)?);
            let larger = binary(e, "max", ty, signed, &first, &b)?;
            let smaller = binary(e, "min", ty, signed, &first, &b)?;
            let difference = e.value(&format!("sub {ty} {larger}, {smaller}"));
            e.value(&format!("add {ty} {difference}, {c}"))
        }
        _ => return Err(Unknown),
    })
}

fn leading_zeros(e: &mut Emitter, ty: &str, value: &str) -> String {
    let args = [(ty, value.to_owned()), ("i1", "false".to_owned())];
    let count = e.call(ty, &format!("llvm.ctlz.{ty}"), &args);
    resize(e, &count, ty, "i32", false)
}

/// Position of the highest bit that differs from the sign, all ones if there is none; with `.shiftamt` its distance
/// from the top.
fn find_highest(e: &mut Emitter, words: &[&str], ty: &str, signed: bool, value: &str) -> String {
    let looked_at = if signed {
        let sign = e.value(&format!("ashr {ty} {value}, {}", bits(ty) - 1));
        e.value(&format!("xor {ty} {value}, {sign}"))
    } else {
        value.to_owned()
    };
    let zeros = leading_zeros(e, ty, &looked_at);
    let place = if words.contains(&"shiftamt") {
        zeros
    } else {
        e.value(&format!("sub i32 {}, {zeros}", bits(ty) - 1))
    };
    let none = e.value(&format!("icmp eq {ty} {looked_at}, 0"));
    e.value(&format!("select i1 {none}, i32 -1, i32 {place}"))
}

/// `shf.l` and `shf.r`: shift `{b, a}` by the third operand, which wraps or is clamped at 32.
fn funnel(e: &mut Emitter, instruction: &Instruction, words: &[&str], low: &str) -> Emitted<String> {
    let high = e.read(operand(instruction, 2)?, "i32")?;
    let by = e.read(operand(instruction, 3)?, "i32")?;
    let by = if words.contains(&"wrap") {
        e.value(&format!("and i32 {by}, 31"))
    } else {
        e.call("i32", "llvm.umin.i32", &[("i32", by), ("i32", "32".to_owned())])
    };
    let by = e.value(&format!("zext i32 {by} to i64"));
    let (low, high) =
        (e.value(&format!("zext i32 {low} to i64")), e.value(&format!("zext i32 {high} to i64")));
    let high = e.value(&format!("shl i64 {high}, 32"));
    let both = e.value(&format!("or i64 {high}, {low}"));
    let shifted = if words.contains(&"l") {
        let up = e.value(&format!("shl i64 {both}, {by}"));
        e.value(&format!("lshr i64 {up}, 32"))
    } else {
        e.value(&format!("lshr i64 {both}, {by}"))
    };
    Ok(e.value(&format!("trunc i64 {shifted} to i32")))
}

/// `lop3`: combines each bit of three operands by a table, whose bit n is the result for the three bits that make the
/// number n.
fn lookup(e: &mut Emitter, instruction: &Instruction, a: &str) -> Emitted<String> {
    let (b, c) = (e.read(operand(instruction, 2)?, "i32")?, e.read(operand(instruction, 3)?, "i32")?);
    let Operand::Plain(table) = operand(instruction, 4)? else { return Err(Unknown) };
    let table: u32 = e.read_name(table, "i32")?.parse().map_err(|_| Unknown)?;
    let mut sum = "0".to_owned();
    for row in (0..8).filter(|row| table >> row & 1 == 1) {
        let mut term = "-1".to_owned();
        for (value, bit) in [(a, 4), (b.as_str(), 2), (c.as_str(), 1)] {
            let wanted =
                if row & bit != 0 { value.to_owned() } else { e.value(&format!("xor i32 {value}, -1")) };
            term = e.value(&format!("and i32 {term}, {wanted}"));
        }
        sum = e.value(&format!("or i32 {sum}, {term}"));
    }
    Ok(sum)
}

fn moves(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    let ty = register_type(words.last().ok_or(Unknown)?).ok_or(Unknown)?;
    let (to, from) = (operand(instruction, 0)?, operand(instruction, 1)?);
    if words[0] == "mov" && words.len() > 2 && !matches!(to, Operand::Vector(_)) {
        return Err(Unknown);
    }
    if words[0] == "cvta" {
        // Addresses are the same in every space, but a shared one may have been cut to 32 bits.
        if words[1].starts_with("shared") {
            let low = e.read(from, "i32")?;
            let whose =
                if words[1] == "shared::cluster" { clusters::ADDRESS } else { memory::SHARED_ADDRESS };
            let pointer = e.call("ptr", whose, &[("i32", low)]);
            let whole = e.value(&format!("ptrtoint ptr {pointer} to {ty}"));
            return e.write(to, ty, &whole);
        }
        let value = e.read(from, ty)?;
        return e.write(to, ty, &value);
    }
    match (to, from) {
        (Operand::Vector(parts), _) if words.len() == 3 => copy_elements(e, words[1], parts, from, ty),
        (Operand::Vector(parts), _) => {
            let value = e.read(from, ty)?;
            let part = format!("i{}", bits(ty) / parts.len() as u32);
            for (index, name) in parts.iter().enumerate() {
                let down = e.value(&format!("lshr {ty} {value}, {}", index as u32 * bits(&part)));
                let piece = e.value(&format!("trunc {ty} {down} to {part}"));
                e.write_name(name, &part, &piece)?;
            }
            Ok(())
        }
        (_, Operand::Vector(parts)) => {
            let part = format!("i{}", bits(ty) / parts.len() as u32);
            let mut sum = "0".to_owned();
            for (index, name) in parts.iter().enumerate() {
                let piece = e.read_name(name, &part)?;
                let wide = e.value(&format!("zext {part} {piece} to {ty}"));
                let up = e.value(&format!("shl {ty} {wide}, {}", index as u32 * bits(&part)));
                sum = e.value(&format!("or {ty} {sum}, {up}"));
            }
            e.write(to, ty, &sum)
        }
        _ => {
            let value = e.read(from, ty)?;
            e.write(to, ty, &value)
        }
    }
}

/// `mov.v2` and `mov.v4`: copies each element of a vector, or the components of a special register.
fn copy_elements(e: &mut Emitter, count: &str, to: &[String], from: &Operand, ty: &str) -> Emitted {
    let names: Vec<String> = match from {
        Operand::Vector(names) => names.clone(),
        Operand::Plain(name) if name.starts_with('%') => {
            ["x", "y", "z", "w"].iter().map(|part| format!("{name}.{part}")).collect()
        }
        _ => return Err(Unknown),
    };
    let is_count = count == format!("v{}", to.len());
    if !is_count || names.len() < to.len() {
        return Err(Unknown);
    }
    // All are read before any is written: a register may be in both vectors.
    let mut values = Vec::new();
    for name in &names[..to.len()] {
        values.push(if name.ends_with(".w") && name.starts_with('%') {
            "0".to_owned()
        } else {
            e.read_name(name, ty)?
        });
    }
    to.iter().zip(values).try_for_each(|(name, value)| e.write_name(name, ty, &value))
}
