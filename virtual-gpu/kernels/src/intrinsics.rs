//! NVVM's arithmetic intrinsics, which libdevice's functions and clang's headers use.
//!
//! "Approximate" ones are computed accurately, as everywhere here. Roundings other than to nearest are in `rounding`.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::casts::conversion_body;
use crate::{denormals, minmax};

/// Intrinsics that are one LLVM or C library function: name after `llvm.nvvm.`, the function, number of arguments.
/// Functions take and return `float` (suffix `f`) or `double` (suffix `d`).
const FUNCTIONS: &[(&str, &str, usize)] = &[
    ("ceil", "llvm.ceil", 1),
    ("cos.approx", "cos", 1),
    ("ex2.approx", "exp2", 1),
    ("fabs", "llvm.fabs", 1),
    ("floor", "llvm.floor", 1),
    ("fma.rn", "llvm.fma", 3),
    ("fmax.nan", "llvm.maximum", 2),
    ("fmin.nan", "llvm.minimum", 2),
    ("lg2.approx", "log2", 1),
    ("round", "llvm.roundeven", 1),
    ("sin.approx", "sin", 1),
    ("sqrt", "llvm.sqrt", 1),
    ("sqrt.approx", "llvm.sqrt", 1),
    ("sqrt.rn", "llvm.sqrt", 1),
    ("tanh.approx", "tanh", 1),
    ("trunc", "llvm.trunc", 1),
];

/// Intrinsics that are one operation on two numbers.
const OPERATIONS: &[(&str, &str)] = &[
    ("add.rn", "fadd"),
    ("mul.rn", "fmul"),
    ("sub.rn", "fsub"),
    ("div.rn", "fdiv"),
    ("div.approx", "fdiv"),
    ("div.full", "fdiv"),
];

/// Intrinsics on integers and between types: name, result, parameters, body that ends in `%r`.
const BODIES: &[(&str, &str, &str, &str)] = &[
    ("d2i.lo", "i32", "double %x", "%b = bitcast double %x to i64\n%r = trunc i64 %b to i32"),
    (
        "d2i.hi",
        "i32",
        "double %x",
        "%b = bitcast double %x to i64\n%h = lshr i64 %b, 32\n%r = trunc i64 %h to i32",
    ),
    (
        "lohi.i2d",
        "double",
        "i32 %l, i32 %h",
        "%a = zext i32 %l to i64\n%b = zext i32 %h to i64\n%c = shl i64 %b, 32\n%d = or i64 %c, %a\n%r = bitcast i64 %d to double",
    ),
    ("bitcast.f2i", "i32", "float %x", "%r = bitcast float %x to i32"),
    ("bitcast.i2f", "float", "i32 %x", "%r = bitcast i32 %x to float"),
    ("bitcast.d2ll", "i64", "double %x", "%r = bitcast double %x to i64"),
    ("bitcast.ll2d", "double", "i64 %x", "%r = bitcast i64 %x to double"),
    (
        "mulhi.i",
        "i32",
        "i32 %x, i32 %y",
        "%a = sext i32 %x to i64\n%b = sext i32 %y to i64\n%p = mul i64 %a, %b\n%h = lshr i64 %p, 32\n%r = trunc i64 %h to i32",
    ),
    (
        "mulhi.ui",
        "i32",
        "i32 %x, i32 %y",
        "%a = zext i32 %x to i64\n%b = zext i32 %y to i64\n%p = mul i64 %a, %b\n%h = lshr i64 %p, 32\n%r = trunc i64 %h to i32",
    ),
    (
        "mulhi.ll",
        "i64",
        "i64 %x, i64 %y",
        "%a = sext i64 %x to i128\n%b = sext i64 %y to i128\n%p = mul i128 %a, %b\n%h = lshr i128 %p, 64\n%r = trunc i128 %h to i64",
    ),
    (
        "mulhi.ull",
        "i64",
        "i64 %x, i64 %y",
        "%a = zext i64 %x to i128\n%b = zext i64 %y to i128\n%p = mul i128 %a, %b\n%h = lshr i128 %p, 64\n%r = trunc i128 %h to i64",
    ),
    (
        "mul24.i",
        "i32",
        "i32 %x, i32 %y",
        "%a = shl i32 %x, 8\n%b = ashr i32 %a, 8\n%c = shl i32 %y, 8\n%d = ashr i32 %c, 8\n%r = mul i32 %b, %d",
    ),
    (
        "sad.i",
        "i32",
        "i32 %x, i32 %y, i32 %z",
        "%l = icmp sgt i32 %x, %y\n%a = sub i32 %x, %y\n%b = sub i32 %y, %x\n%d = select i1 %l, i32 %a, i32 %b\n%r = add i32 %d, %z",
    ),
    (
        "sad.ui",
        "i32",
        "i32 %x, i32 %y, i32 %z",
        "%l = icmp ugt i32 %x, %y\n%a = sub i32 %x, %y\n%b = sub i32 %y, %x\n%d = select i1 %l, i32 %a, i32 %b\n%r = add i32 %d, %z",
    ),
    (
        "mul24.ui",
        "i32",
        "i32 %x, i32 %y",
        "%a = and i32 %x, 16777215\n%b = and i32 %y, 16777215\n%r = mul i32 %a, %b",
    ),
];

/// The parameters before a helper's own: block context and thread index.
pub(crate) const THREAD: &str = "ptr %ctx, i32 %tx, i32 %ty, i32 %tz";
const INTEGERS: [(&str, &str, bool); 4] =
    [("i", "i32", true), ("ui", "i32", false), ("ll", "i64", true), ("ull", "i64", false)];
const TYPES: [(&str, &str, &str, &str); 2] = [("float", "f", "f32", "f"), ("double", "d", "f64", "")];

/// Definitions of all rows, in every spelling that LLVM has used.
pub(crate) fn text() -> String {
    let mut text =
        format!("define float @eager.flush_denormal(float %x) {{\n{}\nret float %r\n}}\n", denormals::BODY);
    let mut declared = BTreeSet::new();
    for (ty, letter, bits, c_suffix) in TYPES {
        for (name, function, count) in FUNCTIONS {
            let callee = if function.starts_with("llvm.") {
                format!("{function}.{bits}")
            } else {
                format!("{function}{c_suffix}")
            };
            let list = |item: &dyn Fn(usize) -> String| (0..*count).map(item).collect::<Vec<_>>().join(", ");
            let body = format!("%r = call {ty} @{callee}({})", list(&|i| format!("{ty} %a{i}")));
            let declaration = format!("declare {ty} @{callee}({})\n", list(&|_| ty.to_owned()));
            if declared.insert(declaration.clone()) {
                text.push_str(&declaration);
            }
            spellings(&mut text, name, (ty, letter, bits), &list(&|i| format!("{ty} %a{i}")), &body);
        }
        let pair = format!("{ty} %a0, {ty} %a1");
        for (name, operation) in OPERATIONS {
            spellings(&mut text, name, (ty, letter, bits), &pair, &format!("%r = {operation} {ty} %a0, %a1"));
        }
        let reciprocal = format!("%r = fdiv {ty} 1.0, %a0");
        for name in ["rcp.rn", "rcp.approx"] {
            spellings(&mut text, name, (ty, letter, bits), &format!("{ty} %a0"), &reciprocal);
        }
        let root = format!("%s = call {ty} @llvm.sqrt.{bits}({ty} %a0)\n%r = fdiv {ty} 1.0, %s");
        spellings(&mut text, "rsqrt.approx", (ty, letter, bits), &format!("{ty} %a0"), &root);
        for (name, which) in [("fmin", "min"), ("fmax", "max")] {
            spellings(&mut text, name, (ty, letter, bits), &pair, &minmax::body(which, ty));
        }
        // A NaN fails the comparison, and becomes 0.
        let held = format!(
            "%above = fcmp ogt {ty} %a0, 0.0\n%l = select i1 %above, {ty} %a0, {ty} 0.0\n\
             %below = fcmp olt {ty} %l, 1.0\n%r = select i1 %below, {ty} %l, {ty} 1.0"
        );
        spellings(&mut text, "saturate", (ty, letter, bits), &format!("{ty} %a0"), &held);
    }
    for (name, result, params, body) in BODIES {
        define(&mut text, name, result, params, body);
    }
    conversions(&mut text, &mut declared);
    text
}

/// Conversions between floating-point numbers and integers, and between floating-point types.
fn conversions(text: &mut String, declared: &mut BTreeSet<String>) {
    for (letters, integer, signed) in INTEGERS {
        for (letter, real, suffix, endings) in
            [("f", "float", "f32", ["", ".ftz"]), ("d", "double", "f64", ["", ""])]
        {
            for mode in ["rn", "rz", "rm", "rp"] {
                let Some((body, declarations)) = conversion_body(real, suffix, integer, signed, mode) else {
                    continue;
                };
                text.extend(
                    declarations.split_inclusive('\n').filter(|line| declared.insert((*line).to_owned())),
                );
                let both = if letter == "f" { &endings[..] } else { &endings[..1] };
                for ending in both {
                    define(
                        text,
                        &format!("{letter}2{letters}.{mode}{ending}"),
                        integer,
                        &format!("{real} %x"),
                        &body,
                    );
                }
            }
            let operation = if signed { "sitofp" } else { "uitofp" };
            let body = format!("%r = {operation} {integer} %x to {real}");
            define(text, &format!("{letters}2{letter}.rn"), real, &format!("{integer} %x"), &body);
        }
    }
    for ending in ["", ".ftz"] {
        define(text, &format!("d2f.rn{ending}"), "float", "double %x", "%r = fptrunc double %x to float");
        let body = "%h = fptrunc float %x to half\n%r = bitcast half %h to i16";
        define(text, &format!("f2h.rn{ending}"), "i16", "float %x", body);
    }
}

fn spellings(
    text: &mut String,
    name: &str,
    (ty, letter, bits): (&str, &str, &str),
    params: &str,
    body: &str,
) {
    let count = params.split(", ").count();
    let list = |item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(", ");
    for ending in [letter, bits] {
        define(text, &format!("{name}.{ending}"), ty, params, body);
        if ty != "float" {
            define(text, &format!("{name}.ftz.{ending}"), ty, params, body);
            continue;
        }
        let flushed = (0..count).map(|i| format!("%f{i} = call float @eager.flush_denormal(float %a{i})\n"));
        let flushed = flushed.collect::<String>()
            + &format!(
                "%v = call float @eager.nvvm.{name}.{ending}({THREAD}, {})\n\
                 %r = call float @eager.flush_denormal(float %v)",
                list(&|i| format!("float %f{i}"))
            );
        define(text, &format!("{name}.ftz.{ending}"), ty, params, &flushed);
    }
}

fn define(text: &mut String, name: &str, result: &str, params: &str, body: &str) {
    let _ = writeln!(
        text,
        "define {result} @eager.nvvm.{name}({THREAD}, {params}) {{\n{body}\nret {result} %r\n}}"
    );
}
