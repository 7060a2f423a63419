//! Loads, stores, atomics and copies.
//!
//! Trap: an address in the shared space may have been cut to 32 bits (`__cvta_generic_to_shared`), so it must be
//! completed from the block's own shared memory. Atomics, and the fences of acquire and release, are sequentially
//! consistent, whatever order and scope the instruction names.

use super::emit::{Emitted, Emitter, Unknown, operand};
use super::float::{narrow, widen};
use super::parse::{Instruction, Operand};
use super::types::{integer, register_type, write_extended};
use crate::clusters;

/// Completes an address of the block's shared memory that was cut to 32 bits.
pub(crate) const SHARED_ADDRESS: &str = "nvvm.shared_address";

pub(super) fn emit(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    match words[0] {
        "prefetch" | "prefetchu" | "discard" => Ok(()),
        "cp" => copy(e, instruction, words),
        "atom" | "red" => atomic(e, instruction, words),
        "st" => store(e, instruction, words),
        _ => load(e, instruction, words),
    }
}

pub(super) fn address(e: &mut Emitter, words: &[&str], operand: &Operand) -> Emitted<String> {
    let Operand::Memory(base, offset) = operand else { return Err(Unknown) };
    let unusual = |word: &&str| matches!(*word, "param" | "mmio");
    if words.iter().any(unusual) {
        return Err(Unknown);
    }
    let pointer = if let Some(variable) = e.variable(base) {
        variable
    } else if words.contains(&"shared::cluster") {
        let low = e.read_name(base, "i32")?;
        e.call("ptr", clusters::ADDRESS, &[("i32", low)])
    } else if words.iter().any(|word| word.starts_with("shared")) {
        shared_address(e, base)?
    } else {
        let whole = e.read_name(base, "i64")?;
        e.value(&format!("inttoptr i64 {whole} to ptr"))
    };
    Ok(e.value(&format!("getelementptr i8, ptr {pointer}, i64 {offset}")))
}

fn shared_address(e: &mut Emitter, base: &str) -> Emitted<String> {
    if let Some(variable) = e.variable(base) {
        return Ok(variable);
    }
    let low = e.read_name(base, "i32")?;
    Ok(e.call("ptr", SHARED_ADDRESS, &[("i32", low)]))
}

/// Names of the registers of a scalar or vector operand.
pub(super) fn registers(operand: &Operand) -> Emitted<Vec<String>> {
    match operand {
        Operand::Plain(name) => Ok(vec![name.clone()]),
        Operand::Vector(names) => Ok(names.clone()),
        _ => Err(Unknown),
    }
}

/// Type in memory, type of the register, and whether extending to a wider register is signed.
fn types(words: &[&str]) -> Emitted<(&'static str, &'static str, bool)> {
    let word = *words.last().ok_or(Unknown)?;
    let memory = register_type(word).ok_or(Unknown)?;
    let signed = integer(word).is_some_and(|(_, signed)| signed);
    Ok((memory, if memory == "i8" { "i16" } else { memory }, signed))
}

fn bytes(memory: &str) -> u64 {
    match memory {
        "float" => 4,
        "double" => 8,
        _ => memory[1..].parse::<u64>().map_or(1, |bits| bits / 8),
    }
}

fn load(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    let (memory, _, signed) = types(words)?;
    if words.contains(&"acquire") {
        // Polled in loops: let other threads run first.
        e.call("void", "nvvm.yield", &[]);
    }
    let pointer = address(e, words, operand(instruction, 1)?)?;
    // `cg` and `cv` pass the cache that other SMs do not see, so programs poll with them (`__ldcg`, `__ldcv`).
    let volatile = words.iter().any(|word| matches!(*word, "volatile" | "relaxed" | "acquire" | "cg" | "cv"));
    for (index, name) in registers(operand(instruction, 0)?)?.iter().enumerate() {
        let place =
            e.value(&format!("getelementptr i8, ptr {pointer}, i64 {}", index as u64 * bytes(memory)));
        let kind = if volatile { "load volatile" } else { "load" };
        let value = e.value(&format!("{kind} {memory}, ptr {place}"));
        write_extended(e, name, &value, memory, signed)?;
    }
    if words.contains(&"acquire") {
        e.line("fence seq_cst");
    }
    Ok(())
}

fn store(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    let (memory, register, _) = types(words)?;
    if words.contains(&"release") {
        e.line("fence seq_cst");
    }
    let pointer = address(e, words, operand(instruction, 0)?)?;
    let volatile = words.iter().any(|word| matches!(*word, "volatile" | "relaxed" | "release"));
    for (index, name) in registers(operand(instruction, 1)?)?.iter().enumerate() {
        let mut value = e.read_name(name, register)?;
        if memory != register {
            value = e.value(&format!("trunc {register} {value} to {memory}"));
        }
        let place =
            e.value(&format!("getelementptr i8, ptr {pointer}, i64 {}", index as u64 * bytes(memory)));
        let kind = if volatile { "store volatile" } else { "store" };
        e.line(&format!("{kind} {memory} {value}, ptr {place}"));
    }
    Ok(())
}

fn atomic(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    const OPERATIONS: [&str; 10] = ["add", "min", "max", "and", "or", "xor", "exch", "inc", "dec", "cas"];
    let operation = words.iter().copied().find(|word| OPERATIONS.contains(word)).ok_or(Unknown)?;
    let word = *words.last().ok_or(Unknown)?;
    // `red` has no result.
    let first = usize::from(words[0] == "atom");
    let pointer = address(e, words, operand(instruction, first)?)?;
    let value = operand(instruction, first + 1)?;
    let ty = register_type(word).ok_or(Unknown)?;
    if operation == "cas" {
        let (expected, new) = (e.read(value, ty)?, e.read(operand(instruction, first + 2)?, ty)?);
        let both = e.value(&format!("cmpxchg ptr {pointer}, {ty} {expected}, {ty} {new} seq_cst seq_cst"));
        let old = e.value(&format!("extractvalue {{ {ty}, i1 }} {both}, 0"));
        return if first == 1 { e.write(operand(instruction, 0)?, ty, &old) } else { Ok(()) };
    }
    // For a vector (`.v2`, `.v4`, `.v8`) each element is atomic, not the vector as a whole.
    let results = if first == 1 { registers(operand(instruction, 0)?)? } else { Vec::new() };
    for (index, name) in registers(value)?.iter().enumerate() {
        let place = e.value(&format!("getelementptr i8, ptr {pointer}, i64 {}", index as u64 * bytes(ty)));
        let value = e.read_name(name, ty)?;
        let old = atomic_change(e, operation, word, ty, &place, &value);
        if first == 1 {
            e.write_name(results.get(index).ok_or(Unknown)?, ty, &old)?;
        }
    }
    Ok(())
}

/// Emits an atomic operation with `value` on the number at `pointer`; returns the previous number.
fn atomic_change(
    e: &mut Emitter,
    operation: &str,
    word: &str,
    ty: &str,
    pointer: &str,
    value: &str,
) -> String {
    let signed = integer(word).is_some_and(|(_, signed)| signed);
    let name = match (operation, word) {
        ("add", "f16" | "bf16") => return add_16_bits(e, word, pointer, value),
        ("add", "f16x2" | "bf16x2") => return add_pair(e, word, pointer, value),
        ("add", "f32" | "f64") => "fadd",
        ("exch", _) => "xchg",
        ("inc", _) => "uinc_wrap",
        ("dec", _) => "udec_wrap",
        ("min", _) if !signed => "umin",
        ("max", _) if !signed => "umax",
        (other, _) => other,
    };
    e.value(&format!("atomicrmw {name} ptr {pointer}, {ty} {value} seq_cst"))
}

/// Adds to a 16-bit number like `nvvm.atomic_add_f16` and its neighbour in `runtime.ll`: by compare-and-swap, repeated
/// until it succeeds.
fn add_16_bits(e: &mut Emitter, word: &str, pointer: &str, bits: &str) -> String {
    let single = widen(e, word, bits);
    let function = format!("nvvm.atomic_add_{word}");
    e.call("i16", &function, &[("ptr", pointer.to_owned()), ("float", single)])
}

/// Adds to a pair of halves; CUDA promises atomicity of each half, not of both together.
fn add_pair(e: &mut Emitter, word: &str, pointer: &str, both: &str) -> String {
    let scalar = word.trim_end_matches("x2");
    let mut olds = Vec::new();
    for lane in 0..2 {
        let down = e.value(&format!("lshr i32 {both}, {}", 16 * lane));
        let bits = e.value(&format!("trunc i32 {down} to i16"));
        let place = e.value(&format!("getelementptr i8, ptr {pointer}, i64 {}", 2 * lane));
        olds.push(add_16_bits(e, scalar, &place, &bits));
    }
    super::float::pair(e, &olds[0], &olds[1])
}

/// `cp.async` copies immediately, so waiting for it does nothing. A policy of the cache (the last operand with
/// `.L2::cache_hint`) means nothing here.
fn copy(e: &mut Emitter, instruction: &Instruction, words: &[&str]) -> Emitted {
    let qualifiers = match *words {
        ["cp", "async", "commit_group" | "wait_group" | "wait_all"] => return Ok(()),
        ["cp", "async", "ca" | "cg", ref qualifiers @ ..] => qualifiers,
        _ => return Err(Unknown),
    };
    let is_known =
        |word: &&str| matches!(*word, "shared" | "shared::cta" | "global") || word.starts_with("L2::");
    let has_policy = qualifiers.contains(&"L2::cache_hint");
    let given = instruction.operands.len().checked_sub(usize::from(has_policy)).ok_or(Unknown)?;
    if !qualifiers.iter().all(is_known) || !(3..=4).contains(&given) {
        return Err(Unknown);
    }
    let (Operand::Memory(to, to_offset), Operand::Memory(from, from_offset)) =
        (operand(instruction, 0)?, operand(instruction, 1)?)
    else {
        return Err(Unknown);
    };
    let size = e.read(operand(instruction, 2)?, "i64")?;
    let to = shared_address(e, to)?;
    let to = e.value(&format!("getelementptr i8, ptr {to}, i64 {to_offset}"));
    let from = e.read_name(from, "i64")?;
    let from = e.value(&format!("inttoptr i64 {from} to ptr"));
    let from = e.value(&format!("getelementptr i8, ptr {from}, i64 {from_offset}"));
    let copied = if given == 4 { copied_bytes(e, operand(instruction, 3)?, &size)? } else { size.clone() };
    let zero = e.value(&format!("sub i64 {size}, {copied}"));
    let rest = e.value(&format!("getelementptr i8, ptr {to}, i64 {copied}"));
    let (no, memory) = ("false".to_owned(), "i8");
    e.call(
        "void",
        "llvm.memset.p0.i64",
        &[("ptr", rest), (memory, "0".to_owned()), ("i64", zero), ("i1", no.clone())],
    );
    e.call("void", "llvm.memcpy.p0.p0.i64", &[("ptr", to), ("ptr", from), ("i64", copied), ("i1", no)]);
    Ok(())
}

/// Bytes that `cp.async` reads: as many as its fourth operand says, or none if that is a predicate (`ignore-src`) that
/// holds. The rest is filled with zeros.
fn copied_bytes(e: &mut Emitter, given: &Operand, size: &str) -> Emitted<String> {
    let Operand::Plain(name) = given else { return Err(Unknown) };
    if e.is_predicate(name) {
        let ignored = e.read(given, "i1")?;
        return Ok(e.value(&format!("select i1 {ignored}, i64 0, i64 {size}")));
    }
    let bytes = e.read_name(name, "i32")?;
    let bytes = e.value(&format!("zext i32 {bytes} to i64"));
    Ok(e.call("i64", "llvm.umin.i64", &[("i64", bytes), ("i64", size.to_owned())]))
}

/// LLVM IR of atomic additions to the 16-bit formats, which complements `runtime.ll`.
pub(crate) fn atomic_text() -> String {
    let mut text = String::new();
    for word in ["f16", "bf16"] {
        let mut e = Emitter::new("", &[]);
        let old = widen(&mut e, word, "%old");
        let sum = e.value(&format!("fadd float {old}, %value"));
        let new = narrow(&mut e, word, "float", &sum);
        text.push_str(&format!(
            "define i16 @eager.nvvm.atomic_add_{word}(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, ptr %p, float %value) {{\n  \
             %start = load i16, ptr %p\n  br label %again\nagain:\n  \
             %old = phi i16 [ %start, %0 ], [ %seen, %again ]\n{}  \
             %pair = cmpxchg ptr %p, i16 %old, i16 {new} seq_cst seq_cst\n  \
             %seen = extractvalue {{ i16, i1 }} %pair, 0\n  %won = extractvalue {{ i16, i1 }} %pair, 1\n  \
             br i1 %won, label %done, label %again\ndone:\n  ret i16 %old\n}}\n",
            e.body_text()
        ));
    }
    text
}
