//! CUDA mathematical functions that the C library lacks, implemented here if `math` has no entry for them.
//!
//! The larger ones are `library/functions.c`, as LLVM IR in `library/functions.ll`. Trap: no body of NVIDIA's libdevice
//! may get into CPU code; a kernel that uses a function of a new CUDA that is neither here nor in `math` is rejected,
//! naming the function.

use crate::casts::conversion_body;

/// Functions that are linked in as a whole if one of them is called.
pub(crate) const TEXT: &str = include_str!("library/functions.ll");

/// True if [`TEXT`] defines `name`.
pub(crate) fn defines(name: &str) -> bool {
    TEXT.lines()
        .filter(|line| line.starts_with("define ") && !line.contains(" internal "))
        .any(|line| line.split_once(&format!("@{name}")).is_some_and(|(_, rest)| rest.starts_with('(')))
}

/// Functions with a directed rounding: name without its suffix, operation, type, number of arguments.
const DIRECTED: &[(&str, &str, &str, usize)] = &[
    ("dadd", "add", "double", 2),
    ("ddiv", "div", "double", 2),
    ("dmul", "mul", "double", 2),
    ("drcp", "rcp", "double", 1),
    ("dsqrt", "sqrt", "double", 1),
    ("dsub", "sub", "double", 2),
    ("fadd", "add", "float", 2),
    ("fdiv", "div", "float", 2),
    ("fma", "fma", "double", 3),
    ("fmaf", "fma", "float", 3),
    ("fmaf_ieee", "fma", "float", 3),
    ("fmul", "mul", "float", 2),
    ("frcp", "rcp", "float", 1),
    ("fsqrt", "sqrt", "float", 1),
    ("fsub", "sub", "float", 2),
];

/// Conversions with a directed rounding: name, intrinsic, source and target type.
const CONVERTED: &[(&str, &str, &str, &str)] = &[
    ("double2float", "d2f", "double", "float"),
    ("int2float", "i2f", "i32", "float"),
    ("ll2double", "ll2d", "i64", "double"),
    ("ll2float", "ll2f", "i64", "float"),
    ("uint2float", "ui2f", "i32", "float"),
    ("ull2double", "ull2d", "i64", "double"),
    ("ull2float", "ull2f", "i64", "float"),
];

/// A function that is a single call: name, result, callee, types of its arguments, and which of them the callee gets.
type Call = (&'static str, &'static str, &'static str, &'static [&'static str], &'static [usize]);

const CALLS: &[Call] = &[
    ("byte_perm", "i32", "llvm.nvvm.prmt", &["i32", "i32", "i32"], &[0, 1, 2]),
    ("double2hiint", "i32", "llvm.nvvm.d2i.hi", &["double"], &[0]),
    ("double2loint", "i32", "llvm.nvvm.d2i.lo", &["double"], &[0]),
    ("fmaf_ieee_rn", "float", "llvm.fma.f32", &["float", "float", "float"], &[0, 1, 2]),
    ("hiloint2double", "double", "llvm.nvvm.lohi.i2d", &["i32", "i32"], &[1, 0]),
    ("mul24", "i32", "llvm.nvvm.mul24.i", &["i32", "i32"], &[0, 1]),
    ("mul64hi", "i64", "llvm.nvvm.mulhi.ll", &["i64", "i64"], &[0, 1]),
    ("remquo", "double", "remquo", &["double", "double", "ptr"], &[0, 1, 2]),
    ("remquof", "float", "remquof", &["float", "float", "ptr"], &[0, 1, 2]),
    ("sad", "i32", "llvm.nvvm.sad.i", &["i32", "i32", "i32"], &[0, 1, 2]),
    ("scalbn", "double", "ldexp", &["double", "i32"], &[0, 1]),
    ("scalbnf", "float", "ldexpf", &["float", "i32"], &[0, 1]),
    ("umul24", "i32", "llvm.nvvm.mul24.ui", &["i32", "i32"], &[0, 1]),
    ("umul64hi", "i64", "llvm.nvvm.mulhi.ull", &["i64", "i64"], &[0, 1]),
    ("usad", "i32", "llvm.nvvm.sad.ui", &["i32", "i32", "i32"], &[0, 1, 2]),
];

/// Functions of a few operations: name, result, parameters, body from `%x` to `%r`, declarations.
const COMPOSED: &[(&str, &str, &str, &str, &str)] = &[
    (
        "ffs",
        "i32",
        "i32 %x",
        "%c = call i32 @llvm.cttz.i32(i32 %x, i1 false)\n%p = add i32 %c, 1\n%z = icmp eq i32 %x, 0\n\
         %r = select i1 %z, i32 0, i32 %p",
        "declare i32 @llvm.cttz.i32(i32, i1)",
    ),
    (
        "ffsll",
        "i32",
        "i64 %x",
        "%c = call i64 @llvm.cttz.i64(i64 %x, i1 false)\n%n = trunc i64 %c to i32\n%p = add i32 %n, 1\n\
         %z = icmp eq i64 %x, 0\n%r = select i1 %z, i32 0, i32 %p",
        "declare i64 @llvm.cttz.i64(i64, i1)",
    ),
    ("float2half_rn", "i16", "float %x", "%h = fptrunc float %x to half\n%r = bitcast half %h to i16", ""),
    ("half2float", "float", "i16 %x", "%h = bitcast i16 %x to half\n%r = fpext half %h to float", ""),
    (
        "hadd",
        "i32",
        "i32 %x, i32 %y",
        "%b = and i32 %x, %y\n%d = xor i32 %x, %y\n%h = ashr i32 %d, 1\n%r = add i32 %b, %h",
        "",
    ),
    (
        "rhadd",
        "i32",
        "i32 %x, i32 %y",
        "%b = or i32 %x, %y\n%d = xor i32 %x, %y\n%h = ashr i32 %d, 1\n%r = sub i32 %b, %h",
        "",
    ),
    (
        "uhadd",
        "i32",
        "i32 %x, i32 %y",
        "%b = and i32 %x, %y\n%d = xor i32 %x, %y\n%h = lshr i32 %d, 1\n%r = add i32 %b, %h",
        "",
    ),
    (
        "urhadd",
        "i32",
        "i32 %x, i32 %y",
        "%b = or i32 %x, %y\n%d = xor i32 %x, %y\n%h = lshr i32 %d, 1\n%r = sub i32 %b, %h",
        "",
    ),
    (
        "signbitd",
        "i32",
        "double %x",
        "%b = bitcast double %x to i64\n%s = lshr i64 %b, 63\n%r = trunc i64 %s to i32",
        "",
    ),
    ("signbitf", "i32", "float %x", "%b = bitcast float %x to i32\n%r = lshr i32 %b, 31", ""),
];

/// LLVM IR that defines the device function `name`; `function` is the name without its prefix. `None` if unknown.
pub(crate) fn definition(name: &str, function: &str) -> Option<String> {
    if let Some((_, result, params, body, declarations)) = COMPOSED.iter().find(|(f, ..)| *f == function) {
        return Some(format!(
            "define {result} @{name}({params}) {{\n{body}\nret {result} %r\n}}\n{declarations}\n"
        ));
    }
    if let Some((_, result, callee, types, order)) = CALLS.iter().find(|(f, ..)| *f == function) {
        return Some(call(name, result, callee, types, order));
    }
    whole(name, function).or_else(|| directed(name, function))
}

fn call(name: &str, result: &str, callee: &str, types: &[&str], order: &[usize]) -> String {
    let list = |item: &dyn Fn(usize) -> String| (0..types.len()).map(item).collect::<Vec<_>>().join(", ");
    let params = list(&|i| format!("{} %a{i}", types[i]));
    let given = list(&|i| format!("{} %a{}", types[i], order[i]));
    // `remquo` writes through its last argument.
    let attributes = if types.contains(&"ptr") { "nounwind willreturn" } else { "#0" };
    format!(
        "define {result} @{name}({params}) {{\n %r = call {result} @{callee}({given})\n ret {result} %r\n}}\n\
         declare {result} @{callee}({}) {attributes}\n",
        types.join(", ")
    )
}

/// `llrint` and `llround`, which clamp to the range like every cast.
fn whole(name: &str, function: &str) -> Option<String> {
    let (real, suffix) = if function.ends_with('f') { ("float", "f32") } else { ("double", "f64") };
    let (before, declaration, rounding) = match function.trim_end_matches('f') {
        "llrint" => (String::new(), String::new(), "rn"),
        "llround" => (
            format!(" %x = call {real} @llvm.round.{suffix}({real} %y)\n"),
            format!("declare {real} @llvm.round.{suffix}({real})\n"),
            "rz",
        ),
        _ => return None,
    };
    let (body, declarations) = conversion_body(real, suffix, "i64", true, rounding)?;
    let param = if before.is_empty() { "%x" } else { "%y" };
    Some(format!(
        "define i64 @{name}({real} {param}) {{\n{before}{body} ret i64 %r\n}}\n{declaration}{declarations}"
    ))
}

fn directed(name: &str, function: &str) -> Option<String> {
    let (stem, rounding) = function.rsplit_once('_')?;
    let mode = match rounding {
        "rd" => "rm",
        "ru" => "rp",
        "rz" => "rz",
        _ => return None,
    };
    if let Some((_, operation, ty, count)) = DIRECTED.iter().find(|(f, ..)| *f == stem) {
        let callee = format!("llvm.nvvm.{operation}.{mode}.{}", &ty[..1]);
        return Some(call(name, ty, &callee, &[*ty; 3][..*count], &[0, 1, 2]));
    }
    let (_, intrinsic, from, to) = CONVERTED.iter().find(|(f, ..)| *f == stem)?;
    Some(call(name, to, &format!("llvm.nvvm.{intrinsic}.{mode}"), &[*from], &[0]))
}

#[cfg(test)]
mod tests {
    use super::{defines, definition};

    #[test]
    fn functions_are_found_by_their_whole_name() {
        assert!(
            defines("__nv_norm") && defines("__nv_erfinvf") && !defines("__nv_nor") && !defines("length")
        );
    }

    #[test]
    fn roundings_are_those_of_ptx() {
        let text = definition("__nv_fsub_ru", "fsub_ru").unwrap();
        assert!(text.contains("call float @llvm.nvvm.sub.rp.f(float %a0, float %a1)"), "{text}");
        let text = definition("__nv_ull2float_rd", "ull2float_rd").unwrap();
        assert!(text.contains("call float @llvm.nvvm.ull2f.rm(i64 %a0)"), "{text}");
        assert_eq!(definition("__nv_fsub_xy", "fsub_xy"), None);
    }
}
