//! The table of instructions: integers, bits, moves, comparisons, synchronisation. Instructions that are neither here
//! nor in `float`, `convert`, `memory` or another table of this folder are unknown.
//!
//! `.approx` is ignored: all results are accurate. (PTX ISA 9.0, "Instruction Set".)

use super::emit::{Emitted, Emitter, Unknown, operand};
use super::parse::{Instruction, Operand};
use super::types::{bits, integer, register_type, resize};
use super::{carry, convert, dots, float, images, memory, tensor, threads, video};

pub(super) fn emit(e: &mut Emitter, instruction: &Instruction) -> Emitted {
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
        "setp" | "set" | "selp" | "slct" => compare(e, instruction, &words),
        "membar" | "fence" => {
            e.line("fence seq_cst");
            Ok(())
        }
        "griddepcontrol" | "createpolicy" | "applypriority" | "pragma" => Ok(()),
        "exit" | "trap" | "nanosleep" | "bar" | "barrier" | "shfl" | "vote" | "match" | "activemask"
        | "redux" | "mapa" | "getctarank" => threads::emit(e, instruction, &words),
        _ => arithmetic(e, instruction, &words),
    }
}

fn arithmetic(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    let last = *words.last().ok_or(Unknown)?;
    if matches!(last, "f16" | "bf16" | "f16x2" | "bf16x2" | "f32" | "f64") {
        return float::emit(e, instruction, words);
    }
    let (ty, signed) = integer(last).ok_or(Unknown)?;
    match words[0] {
        "mad" | "madc" => return multiply_add(e, instruction, words, ty, signed),
        "mul" => {
            let value = multiply(e, instruction, words, ty, signed)?;
            let result = if words.contains(&"wide") { wider(ty)? } else { ty };
            return e.write(operand(instruction, 0)?, result, &value);
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

fn binary(e: &mut Emitter, name: &str, ty: &str, signed: bool, a: &str, b: &str) -> Emitted<String> {
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

fn wider(ty: &str) -> Emitted<&'static str> {
    match ty {
        "i16" => Ok("i32"),
        "i32" => Ok("i64"),
        "i64" => Ok("i128"),
        _ => Err(Unknown),
    }
}

fn multiply(
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

fn multiply_add(
    e: &mut Emitter,
    instruction: &Instruction,
    words: &[&str],
    ty: &str,
    signed: bool,
) -> Emitted {
    if words.contains(&"sat") {
        return Err(Unknown);
    }
    let product = multiply(e, instruction, words, ty, signed)?;
    let ty = if words.contains(&"wide") { wider(ty)? } else { ty };
    let addend = e.read(operand(instruction, 3)?, ty)?;
    let sum = if words[0] == "madc" || words.contains(&"cc") {
        carry::add(e, words, ty, &product, &addend)
    } else {
        e.value(&format!("add {ty} {product}, {addend}"))
    };
    e.write(operand(instruction, 0)?, ty, &sum)
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
        "bfe" => extract(e, instruction, ty, signed, &first)?,
        "bfi" => insert(e, instruction, ty, &first)?,
        "bmsk" => mask(e, instruction, &first)?,
        "prmt" if words.len() == 2 => {
            let (b, selector) =
                (e.read(operand(instruction, 2)?, ty)?, e.read(operand(instruction, 3)?, ty)?);
            e.call("i32", "llvm.nvvm.prmt", &[("i32", first), ("i32", b), ("i32", selector)])
        }
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

fn extract(
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
    // Sign of the field: its highest bit, or that of the value if the field extends beyond it.
    let left = e.value(&format!("sub i32 {}, {length}", bits(ty)));
    let fits = e.value(&format!("icmp ult i32 {length}, {}", bits(ty)));
    let left = e.value(&format!("select i1 {fits}, i32 {left}, i32 0"));
    let up = binary(e, "shl", ty, false, &shifted, &left)?;
    let extended = binary(e, "shr", ty, true, &up, &left)?;
    let empty = e.value(&format!("icmp eq i32 {length}, 0"));
    Ok(e.value(&format!("select i1 {empty}, {ty} 0, {ty} {extended}")))
}

fn insert(e: &mut Emitter, instruction: &Instruction, ty: &str, value: &str) -> Emitted<String> {
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

/// `bmsk.clamp`: `length` ones from bit `start` on.
fn mask(e: &mut Emitter, instruction: &Instruction, start: &str) -> Emitted<String> {
    let length = e.read(operand(instruction, 2)?, "i32")?;
    let low = low_bits(e, "i32", &length)?;
    binary(e, "shl", "i32", false, &low, start)
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
    if words[0] == "cvta" {
        // Addresses are the same in every space, but a shared one may have been cut to 32 bits.
        if words[1].starts_with("shared") {
            let low = e.read(from, "i32")?;
            let pointer = e.call("ptr", "nvvm.shared_address", &[("i32", low)]);
            let whole = e.value(&format!("ptrtoint ptr {pointer} to {ty}"));
            return e.write(to, ty, &whole);
        }
        let value = e.read(from, ty)?;
        return e.write(to, ty, &value);
    }
    match (to, from) {
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

fn compare(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    let last = *words.last().ok_or(Unknown)?;
    if words[0] == "selp" {
        let ty = register_type(last).ok_or(Unknown)?;
        let (a, b) = (e.read(operand(instruction, 1)?, ty)?, e.read(operand(instruction, 2)?, ty)?);
        let choice = e.read(operand(instruction, 3)?, "i1")?;
        let value = e.value(&format!("select i1 {choice}, {ty} {a}, {ty} {b}"));
        return e.write(operand(instruction, 0)?, ty, &value);
    }
    let (a, b) = (operand(instruction, 1)?, operand(instruction, 2)?);
    let comparison = *words.get(1).ok_or(Unknown)?;
    let holds = match integer(last) {
        Some((ty, signed)) => {
            let (a, b) = (e.read(a, ty)?, e.read(b, ty)?);
            let sign = if signed { 's' } else { 'u' };
            let condition = match comparison {
                "eq" | "ne" => comparison.to_owned(),
                "lt" | "le" | "gt" | "ge" => format!("{sign}{comparison}"),
                "lo" | "ls" | "hi" | "hs" => {
                    format!(
                        "u{}",
                        [("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge")]
                            .iter()
                            .find(|c| c.0 == comparison)
                            .ok_or(Unknown)?
                            .1
                    )
                }
                _ => return Err(Unknown),
            };
            e.value(&format!("icmp {condition} {ty} {a}, {b}"))
        }
        None => float::compare(e, words, last, a, b)?,
    };
    if words[0] == "setp" {
        if instruction.operands.len() != 3 {
            return Err(Unknown);
        }
        return match operand(instruction, 0)? {
            Operand::Pair(yes, no) => {
                e.write_name(yes, "i1", &holds)?;
                let other = e.value(&format!("xor i1 {holds}, true"));
                e.write_name(no, "i1", &other)
            }
            to => e.write(to, "i1", &holds),
        };
    }
    // `set`: all ones of an integer type, or 1.0.
    let result = words[words.len() - 2];
    let (ty, yes) = match result {
        "f32" => ("float", "1.0".to_owned()),
        "f16" => ("i16", 0x3c00.to_string()),
        "bf16" => ("i16", 0x3f80.to_string()),
        word => (integer(word).ok_or(Unknown)?.0, "-1".to_owned()),
    };
    let no = if ty == "float" { "0.0" } else { "0" };
    let value = e.value(&format!("select i1 {holds}, {ty} {yes}, {ty} {no}"));
    e.write(operand(instruction, 0)?, ty, &value)
}
