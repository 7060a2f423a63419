//! Arithmetic and conversions with a named rounding: up (`rp`), down (`rm`), towards zero (`rz`).
//!
//! A result is computed in a type twice as wide, as a sum `w + e` that is exact or lies on the same side of every
//! narrow number as the exact result does; it is rounded to nearest, and moved to its neighbour if the exact result
//! lies there. Trap: never change the processor's rounding mode instead: LLVM moves ordinary operations freely across
//! such changes, and a fault handler may abandon a launch between them. (Wider significands: 2·24+2 <= 53, 2·53+2 <=
//! 113. S. Boldo, G. Melquiond, "Emulation of a FMA and correctly rounded sums".)

use std::fmt::Write;

use crate::intrinsics::THREAD;

pub(crate) const MODES: [&str; 3] = ["rm", "rp", "rz"];

/// A type to round to, the integer type of its bits, the wider type, the integer type of that one's bits, its sign bit,
/// and LLVM's suffix.
struct Narrow {
    ty: &'static str,
    bits: &'static str,
    wide: &'static str,
    wide_bits: &'static str,
    sign: &'static str,
    suffix: &'static str,
    /// How intrinsics name the type, each spelling.
    letters: &'static [&'static str],
}

const NARROW: [Narrow; 2] = [
    Narrow {
        ty: "float",
        bits: "i32",
        wide: "double",
        wide_bits: "i64",
        sign: "-9223372036854775808",
        suffix: "f32",
        letters: &["f", "ftz.f"],
    },
    Narrow {
        ty: "double",
        bits: "i64",
        wide: "fp128",
        wide_bits: "i128",
        sign: "-170141183460469231731687303715884105728",
        suffix: "f64",
        letters: &["d"],
    },
];

/// Operations: name, number of arguments, and a body in `{ty}`, `{wide}`, `{mode}` and `{suffix}` that ends in `%r`.
/// Arguments are `%a0` and on, widened `%w0` and on.
const OPERATIONS: &[(&str, usize, &str)] = &[
    ("add", 2, "%r = call {ty} @eager.sum.{mode}.{ty}({wide} %w0, {wide} %w1)"),
    ("sub", 2, "%n = fneg {wide} %w1\n%r = call {ty} @eager.sum.{mode}.{ty}({wide} %w0, {wide} %n)"),
    ("fma", 3, "%p = fmul {wide} %w0, %w1\n%r = call {ty} @eager.sum.{mode}.{ty}({wide} %p, {wide} %w2)"),
    (
        "mul",
        2,
        "%p = fmul {wide} %w0, %w1\n%r = call {ty} @eager.round.{mode}.{ty}({wide} %p, {wide} {zero})",
    ),
    (
        "div",
        2,
        "%q = fdiv {wide} %w0, %w1\n%r = call {ty} @eager.round.{mode}.{ty}({wide} %q, {wide} {zero})",
    ),
    (
        "rcp",
        1,
        "%one = fpext {ty} 1.0 to {wide}\n%q = fdiv {wide} %one, %w0\n\
         %r = call {ty} @eager.round.{mode}.{ty}({wide} %q, {wide} {zero})",
    ),
    (
        "sqrt",
        1,
        "%n = call {ty} @llvm.sqrt.{suffix}({ty} %a0)\n%w = fpext {ty} %n to {wide}\n%s = fmul {wide} %w, %w\n\
         %e = fsub {wide} %w0, %s\n%r = call {ty} @eager.round.{mode}.{ty}({wide} %w, {wide} %e)",
    ),
];

/// Conversions of integers: letters, type, extension to 64 bits, and the result types for which the rounding matters.
const INTEGERS: &[(&str, &str, &str, &[&str])] = &[
    ("i", "i32", "sext", &["f"]),
    ("ui", "i32", "zext", &["f"]),
    ("ll", "i64", "", &["f", "d"]),
    ("ull", "i64", "", &["f", "d"]),
];

/// Definitions of all operations in all rounding modes.
pub(crate) fn text() -> String {
    let mut text = String::new();
    for mode in MODES {
        half(&mut text, mode);
        for narrow in &NARROW {
            rounding(&mut text, mode, narrow);
            sum(&mut text, mode, narrow);
            for (name, count, body) in OPERATIONS {
                operation(&mut text, mode, narrow, name, *count, body);
            }
        }
        for ending in ["", ".ftz"] {
            let _ = writeln!(
                text,
                "define float @eager.nvvm.d2f.{mode}{ending}({THREAD}, double %x) {{\n\
                 %r = call float @eager.round.{mode}.float(double %x, double 0.0)\nret float %r\n}}"
            );
        }
        for (letters, ty, extend, results) in INTEGERS {
            for result in *results {
                conversion(&mut text, mode, (letters, ty, extend), result);
            }
        }
    }
    text
}

/// `0.0` of a wide type; LLVM has no decimal spelling for `fp128`.
fn zero(narrow: &Narrow) -> &'static str {
    if narrow.wide == "fp128" { "0xL00000000000000000000000000000000" } else { "0.0" }
}

/// `eager.step`: the bits of `%near`, or of its neighbour on the side where `%w + %e` lies, if the mode goes that way.
fn step(text: &mut String, mode: &str, name: &str, bits: &str, (wide, zero): (&str, &str)) {
    // A step away from zero adds one to the bits, a step towards it subtracts one.
    let by = match mode {
        "rp" => {
            "%up = select i1 %negative, {bits} -1, {bits} 1\n%by = select i1 %above, {bits} %up, {bits} 0"
        }
        "rm" => {
            "%down = select i1 %negative, {bits} 1, {bits} -1\n%by = select i1 %below, {bits} %down, {bits} 0"
        }
        _ => "%less = select i1 %negative, i1 %above, i1 %below\n%by = select i1 %less, {bits} -1, {bits} 0",
    };
    let _ = writeln!(
        text,
        "define {bits} @eager.step.{mode}.{name}({bits} %near, {wide} %back, {wide} %w, {wide} %e) {{\n\
         %w.above = fcmp ogt {wide} %w, %back\n%w.below = fcmp olt {wide} %w, %back\n\
         %same = fcmp oeq {wide} %w, %back\n\
         %e.above = fcmp ogt {wide} %e, {zero}\n%e.below = fcmp olt {wide} %e, {zero}\n\
         %tie.above = and i1 %same, %e.above\n%tie.below = and i1 %same, %e.below\n\
         %above = or i1 %w.above, %tie.above\n%below = or i1 %w.below, %tie.below\n\
         %negative = icmp slt {bits} %near, 0\n{}\n%r = add {bits} %near, %by\nret {bits} %r\n}}",
        by.replace("{bits}", bits)
    );
}

/// `eager.round`: rounds the number `%w + %e`, where `%e` is small compared with `%w`.
fn rounding(text: &mut String, mode: &str, narrow: &Narrow) {
    let Narrow { ty, bits, wide, .. } = narrow;
    step(text, mode, ty, bits, (wide, zero(narrow)));
    let _ = writeln!(
        text,
        "define {ty} @eager.round.{mode}.{ty}({wide} %w, {wide} %e) {{\n\
         %n = fptrunc {wide} %w to {ty}\n%back = fpext {ty} %n to {wide}\n%near = bitcast {ty} %n to {bits}\n\
         %stepped = call {bits} @eager.step.{mode}.{ty}({bits} %near, {wide} %back, {wide} %w, {wide} %e)\n\
         %r = bitcast {bits} %stepped to {ty}\nret {ty} %r\n}}"
    );
}

/// `eager.sum`: rounded sum of two wide numbers. When rounding down, a sum of zero is -0 unless both are +0.
fn sum(text: &mut String, mode: &str, narrow: &Narrow) {
    let Narrow { ty, wide, wide_bits, sign, .. } = narrow;
    let signed = format!(
        "%a.bits = bitcast {wide} %a to {wide_bits}\n%b.bits = bitcast {wide} %b to {wide_bits}\n\
         %either = or {wide_bits} %a.bits, %b.bits\n%sign = and {wide_bits} %either, {sign}\n\
         %nothing = bitcast {wide_bits} %sign to {wide}\n%is.zero = fcmp oeq {wide} %s, {}\n\
         %w = select i1 %is.zero, {wide} %nothing, {wide} %s\n",
        zero(narrow)
    );
    let (signed, whole) = if mode == "rm" { (signed.as_str(), "%w") } else { ("", "%s") };
    let _ = writeln!(
        text,
        "define {ty} @eager.sum.{mode}.{ty}({wide} %a, {wide} %b) {{\n%s = fadd {wide} %a, %b\n\
         %b.part = fsub {wide} %s, %a\n%a.part = fsub {wide} %s, %b.part\n\
         %b.rest = fsub {wide} %b, %b.part\n%a.rest = fsub {wide} %a, %a.part\n\
         %e = fadd {wide} %a.rest, %b.rest\n{signed}\
         %r = call {ty} @eager.round.{mode}.{ty}({wide} {whole}, {wide} %e)\nret {ty} %r\n}}"
    );
}

fn operation(text: &mut String, mode: &str, narrow: &Narrow, name: &str, count: usize, body: &str) {
    let Narrow { ty, wide, suffix, letters, .. } = narrow;
    let params: String = (0..count).map(|i| format!(", {ty} %a{i}")).collect();
    let widened: String = (0..count).map(|i| format!("%w{i} = fpext {ty} %a{i} to {wide}\n")).collect();
    let body =
        [("{ty}", *ty), ("{wide}", wide), ("{mode}", mode), ("{suffix}", suffix), ("{zero}", zero(narrow))]
            .iter()
            .fold(body.to_owned(), |body, (word, meaning)| body.replace(word, meaning));
    for letter in *letters {
        let _ = writeln!(
            text,
            "define {ty} @eager.nvvm.{name}.{mode}.{letter}({THREAD}{params}) {{\n{widened}{body}\nret {ty} %r\n}}"
        );
    }
}

/// Converts an integer as the sum of its upper and lower half, each of which a `double` holds exactly.
fn conversion(text: &mut String, mode: &str, (letters, ty, extend): (&str, &str, &str), result: &str) {
    let (real, wide, widen, high, low) = match result {
        "d" => {
            ("double", "fp128", "%a = fpext double %h to fp128\n%b = fpext double %l to fp128\n", "%a", "%b")
        }
        _ => ("float", "double", "", "%h", "%l"),
    };
    let (extended, whole) = match ty {
        "i64" => (String::new(), "%x"),
        _ => (format!("%whole = {extend} {ty} %x to i64\n"), "%whole"),
    };
    let (shift, to_real) = if letters.starts_with('u') { ("lshr", "uitofp") } else { ("ashr", "sitofp") };
    let _ = writeln!(
        text,
        "define {real} @eager.nvvm.{letters}2{result}.{mode}({THREAD}, {ty} %x) {{\n{extended}\
         %high = {shift} i64 {whole}, 32\n%up = {to_real} i64 %high to double\n%h = fmul double %up, 4294967296.0\n\
         %low = and i64 {whole}, 4294967295\n%l = uitofp i64 %low to double\n{widen}\
         %r = call {real} @eager.sum.{mode}.{real}({wide} {high}, {wide} {low})\nret {real} %r\n}}"
    );
}

/// `eager.step` for the two 16-bit formats, which have no common LLVM type: the caller has rounded to nearest.
fn half(text: &mut String, mode: &str) {
    step(text, mode, "half", "i16", ("double", "0.0"));
    let _ = writeln!(
        text,
        "define i16 @eager.nvvm.step_half.{mode}({THREAD}, i16 %near, double %back, double %w) {{\n\
         %r = call i16 @eager.step.{mode}.half(i16 %near, double %back, double %w, double 0.0)\nret i16 %r\n}}"
    );
}
