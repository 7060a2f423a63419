//! CUDA's device math library (`__nv_*`), implemented with LLVM operations and the C library's accurate scalar
//! functions.
//!
//! Trap: the fast variants (`__powf`, `__expf`) must map to the accurate functions too. Programs rely on small exact
//! results, such as `(int)__powf(2, 3)` being 8, which an approximation with a few units of error would make 7.
//! Functions without an entry here have one in `library`; libdevice's own bodies are never used.

use crate::casts::conversion_body;
use crate::library;

/// Prefix of the names of the functions.
pub(crate) const PREFIX: &str = "__nv_";

/// C library functions of one argument that take and return `double` (with suffix `f`: `float`).
const LIBM_UNARY: &[&str] = &[
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "erf", "erfc", "exp", "exp10",
    "exp2", "expm1", "j0", "j1", "lgamma", "log", "log10", "log1p", "log2", "logb", "sin", "sinh", "tan",
    "tanh", "tgamma", "y0", "y1",
];
/// Functions of `double` for which the C library is not within CUDA's error bounds, but its `long double` variant is.
const BY_LONG_DOUBLE: &[&str] = &["cbrt", "exp10", "log10", "tanh"];
/// Functions that need the `long double` variant for large arguments only (2^27 and above), near the zeros there.
const FAR_BY_LONG_DOUBLE: &[&str] = &["cos", "sin", "tan"];
/// Functions whose `double` variant in the C library is thousands of units off near their zeros: `library` has others.
const SINGLE_ONLY: &[&str] = &["j0", "j1", "y0", "y1"];
const LIBM_BINARY: &[&str] = &["atan2", "fdim", "fmod", "hypot", "nextafter", "pow", "remainder"];

/// Device functions that are LLVM intrinsics: name, intrinsic, number of arguments.
const INTRINSICS: &[(&str, &str, usize)] = &[
    ("ceil", "ceil", 1),
    ("copysign", "copysign", 2),
    ("dsqrt_rn", "sqrt", 1),
    ("fabs", "fabs", 1),
    ("floor", "floor", 1),
    ("fma", "fma", 3),
    ("fma_rn", "fma", 3),
    ("fmax", "maxnum", 2),
    ("fmin", "minnum", 2),
    ("nearbyint", "nearbyint", 1),
    ("rint", "rint", 1),
    ("round", "round", 1),
    ("sqrt", "sqrt", 1),
    ("trunc", "trunc", 1),
];

/// Operations with a named rounding (round to nearest is the CPU's default).
const ROUNDED: &[(&str, &str, &str)] = &[
    ("fadd_rn", "fadd", "float"),
    ("fsub_rn", "fsub", "float"),
    ("fmul_rn", "fmul", "float"),
    ("fdiv_rn", "fdiv", "float"),
    ("fdividef", "fdiv", "float"),
    ("dadd_rn", "fadd", "double"),
    ("dsub_rn", "fsub", "double"),
    ("dmul_rn", "fmul", "double"),
    ("ddiv_rn", "fdiv", "double"),
];

/// Functions of integers: name, type, LLVM intrinsic with its type suffix, further constant arguments.
const INTEGER: &[(&str, &str, &str, usize, &str)] = &[
    ("abs", "i32", "abs.i32", 1, ", i1 false"),
    ("llabs", "i64", "abs.i64", 1, ", i1 false"),
    ("min", "i32", "smin.i32", 2, ""),
    ("max", "i32", "smax.i32", 2, ""),
    ("umin", "i32", "umin.i32", 2, ""),
    ("umax", "i32", "umax.i32", 2, ""),
    ("llmin", "i64", "smin.i64", 2, ""),
    ("llmax", "i64", "smax.i64", 2, ""),
    ("ullmin", "i64", "umin.i64", 2, ""),
    ("ullmax", "i64", "umax.i64", 2, ""),
    ("brev", "i32", "bitreverse.i32", 1, ""),
    ("brevll", "i64", "bitreverse.i64", 1, ""),
];

/// Functions that need more than one operation; `{n}` stands for the function's name.
const COMPOSED: &[(&str, &str)] = &[
    (
        "rsqrtf",
        "define float @{n}(float %x) {\n %s = call float @llvm.sqrt.f32(float %x)\n %r = fdiv float 1.0, %s\n ret float %r\n}\ndeclare float @llvm.sqrt.f32(float)\n",
    ),
    (
        "frsqrt_rn",
        "define float @{n}(float %x) {\n %d = fpext float %x to double\n %s = call double @llvm.sqrt.f64(double %d)\n %q = fdiv double 1.0, %s\n %r = fptrunc double %q to float\n ret float %r\n}\ndeclare double @llvm.sqrt.f64(double)\n",
    ),
    (
        "rsqrt",
        "define double @{n}(double %x) {\n %s = call double @llvm.sqrt.f64(double %x)\n %r = fdiv double 1.0, %s\n ret double %r\n}\ndeclare double @llvm.sqrt.f64(double)\n",
    ),
    ("frcp_rn", "define float @{n}(float %x) {\n %r = fdiv float 1.0, %x\n ret float %r\n}\n"),
    ("drcp_rn", "define double @{n}(double %x) {\n %r = fdiv double 1.0, %x\n ret double %r\n}\n"),
    (
        "fsqrt_rn",
        "define float @{n}(float %x) {\n %r = call float @llvm.sqrt.f32(float %x)\n ret float %r\n}\ndeclare float @llvm.sqrt.f32(float)\n",
    ),
    (
        "fmaf_rn",
        "define float @{n}(float %x, float %y, float %z) {\n %r = call float @llvm.fma.f32(float %x, float %y, float %z)\n ret float %r\n}\ndeclare float @llvm.fma.f32(float, float, float)\n",
    ),
    (
        "saturatef",
        "define float @{n}(float %x) {\n %l = call float @llvm.maxnum.f32(float %x, float 0.0)\n %r = call float @llvm.minnum.f32(float %l, float 1.0)\n ret float %r\n}\ndeclare float @llvm.maxnum.f32(float, float)\ndeclare float @llvm.minnum.f32(float, float)\n",
    ),
    (
        "isnanf",
        "define i32 @{n}(float %x) {\n %c = fcmp uno float %x, %x\n %r = zext i1 %c to i32\n ret i32 %r\n}\n",
    ),
    (
        "isnand",
        "define i32 @{n}(double %x) {\n %c = fcmp uno double %x, %x\n %r = zext i1 %c to i32\n ret i32 %r\n}\n",
    ),
    (
        "isinff",
        "define i32 @{n}(float %x) {\n %a = call float @llvm.fabs.f32(float %x)\n %c = fcmp oeq float %a, 0x7FF0000000000000\n %r = zext i1 %c to i32\n ret i32 %r\n}\ndeclare float @llvm.fabs.f32(float)\n",
    ),
    (
        "isinfd",
        "define i32 @{n}(double %x) {\n %a = call double @llvm.fabs.f64(double %x)\n %c = fcmp oeq double %a, 0x7FF0000000000000\n %r = zext i1 %c to i32\n ret i32 %r\n}\ndeclare double @llvm.fabs.f64(double)\n",
    ),
    (
        "finitef",
        "define i32 @{n}(float %x) {\n %a = call float @llvm.fabs.f32(float %x)\n %c = fcmp one float %a, 0x7FF0000000000000\n %r = zext i1 %c to i32\n ret i32 %r\n}\ndeclare float @llvm.fabs.f32(float)\n",
    ),
    (
        "isfinited",
        "define i32 @{n}(double %x) {\n %a = call double @llvm.fabs.f64(double %x)\n %c = fcmp one double %a, 0x7FF0000000000000\n %r = zext i1 %c to i32\n ret i32 %r\n}\ndeclare double @llvm.fabs.f64(double)\n",
    ),
    (
        "sincosf",
        "define void @{n}(float %x, ptr %s, ptr %c) {\n %a = call float @sinf(float %x)\n store float %a, ptr %s\n %b = call float @cosf(float %x)\n store float %b, ptr %c\n ret void\n}\ndeclare float @sinf(float) #0\ndeclare float @cosf(float) #0\n",
    ),
    (
        "sincos",
        "define void @{n}(double %x, ptr %s, ptr %c) {\n %a = call double @{n}.sin(double %x)\n store double %a, ptr %s\n %b = call double @{n}.cos(double %x)\n store double %b, ptr %c\n ret void\n}\n",
    ),
    (
        "powif",
        "define float @{n}(float %x, i32 %n) {\n %d = fpext float %x to double\n %y = sitofp i32 %n to double\n %p = call double @pow(double %d, double %y)\n %r = fptrunc double %p to float\n ret float %r\n}\ndeclare double @pow(double, double) #0\n",
    ),
    (
        "powi",
        "define double @{n}(double %x, i32 %n) {\n %y = sitofp i32 %n to double\n %r = call double @pow(double %x, double %y)\n ret double %r\n}\ndeclare double @pow(double, double) #0\n",
    ),
    (
        "ldexpf",
        "define float @{n}(float %x, i32 %n) {\n %r = call float @ldexpf(float %x, i32 %n)\n ret float %r\n}\ndeclare float @ldexpf(float, i32) #0\n",
    ),
    (
        "ldexp",
        "define double @{n}(double %x, i32 %n) {\n %r = call double @ldexp(double %x, i32 %n)\n ret double %r\n}\ndeclare double @ldexp(double, i32) #0\n",
    ),
    // The C library's is 6 units off, CUDA's 5.
    (
        "tgammaf",
        "define float @{n}(float %x) {\n %d = fpext float %x to double\n %g = call double @tgamma(double %d)\n %r = fptrunc double %g to float\n ret float %r\n}\ndeclare double @tgamma(double) #0\n",
    ),
    // The C library supports negative orders, CUDA does not.
    (
        "jn",
        "define double @{n}(i32 %n, double %x) {\n %v = call double @jn(i32 %n, double %x)\n %o = icmp slt i32 %n, 0\n %r = select i1 %o, double 0x7FF8000000000000, double %v\n ret double %r\n}\ndeclare double @jn(i32, double) #0\n",
    ),
    (
        "jnf",
        "define float @{n}(i32 %n, float %x) {\n %v = call float @jnf(i32 %n, float %x)\n %o = icmp slt i32 %n, 0\n %r = select i1 %o, float 0x7FF8000000000000, float %v\n ret float %r\n}\ndeclare float @jnf(i32, float) #0\n",
    ),
    (
        "clz",
        "define i32 @{n}(i32 %x) {\n %r = call i32 @llvm.ctlz.i32(i32 %x, i1 false)\n ret i32 %r\n}\ndeclare i32 @llvm.ctlz.i32(i32, i1)\n",
    ),
    (
        "clzll",
        "define i32 @{n}(i64 %x) {\n %w = call i64 @llvm.ctlz.i64(i64 %x, i1 false)\n %r = trunc i64 %w to i32\n ret i32 %r\n}\ndeclare i64 @llvm.ctlz.i64(i64, i1)\n",
    ),
    (
        "popc",
        "define i32 @{n}(i32 %x) {\n %r = call i32 @llvm.ctpop.i32(i32 %x)\n ret i32 %r\n}\ndeclare i32 @llvm.ctpop.i32(i32)\n",
    ),
    (
        "popcll",
        "define i32 @{n}(i64 %x) {\n %w = call i64 @llvm.ctpop.i64(i64 %x)\n %r = trunc i64 %w to i32\n ret i32 %r\n}\ndeclare i64 @llvm.ctpop.i64(i64)\n",
    ),
    (
        "mulhi",
        "define i32 @{n}(i32 %x, i32 %y) {\n %a = sext i32 %x to i64\n %b = sext i32 %y to i64\n %p = mul i64 %a, %b\n %h = lshr i64 %p, 32\n %r = trunc i64 %h to i32\n ret i32 %r\n}\n",
    ),
    (
        "umulhi",
        "define i32 @{n}(i32 %x, i32 %y) {\n %a = zext i32 %x to i64\n %b = zext i32 %y to i64\n %p = mul i64 %a, %b\n %h = lshr i64 %p, 32\n %r = trunc i64 %h to i32\n ret i32 %r\n}\n",
    ),
];

/// Reinterpretations of bits: name, source and target type.
const BITCASTS: &[(&str, &str, &str)] = &[
    ("float_as_int", "float", "i32"),
    ("float_as_uint", "float", "i32"),
    ("int_as_float", "i32", "float"),
    ("uint_as_float", "i32", "float"),
    ("double_as_longlong", "double", "i64"),
    ("longlong_as_double", "i64", "double"),
];

/// Functions with other arguments, or (suffix `l`) used by `library` only.
const OTHERS: &[&str] = &["jn", "ldexp", "remquo", "yn", "ynl"];

/// True for C library functions that translated kernels may call.
pub(crate) fn is_c_library(name: &str) -> bool {
    let double = name.strip_suffix('f').or_else(|| long_double(name)).unwrap_or(name);
    [name, double].iter().any(|n| LIBM_UNARY.contains(n) || LIBM_BINARY.contains(n) || OTHERS.contains(n))
}

/// The `double` function to which a `long double` variant belongs.
fn long_double(name: &str) -> Option<&str> {
    name.strip_suffix('l').filter(|name| LIBM_UNARY.contains(name))
}

/// Floating-point operations that a GPU needs for a function of the C library, if they are many: those in libdevice's
/// body on the path of ordinary arguments (CUDA 13.0, `libdevice.10.bc`, counted and rounded; a fused multiply-add is
/// two), in double and in single precision. Approximate variants such as `__expf` would take fewer.
const LIBM_FLOPS: &[(&[&str], u64, u64)] = &[
    (&["exp", "exp2", "exp10", "expm1"], 30, 10),
    (&["log", "log2", "log10"], 50, 25),
    (&["log1p"], 75, 25),
    (&["sin", "cos"], 40, 20),
    (&["tan"], 60, 25),
    (&["asin", "acos"], 75, 25),
    (&["atan", "atan2"], 50, 25),
    (&["sinh", "cosh", "tanh"], 55, 20),
    (&["asinh", "acosh", "atanh"], 90, 35),
    (&["pow"], 110, 60),
    (&["cbrt"], 20, 10),
    (&["hypot"], 15, 10),
    (&["erf"], 85, 30),
    (&["erfc"], 120, 50),
    (&["tgamma", "lgamma"], 120, 100),
];

/// Floating-point operations that a call of a C library function counts as; `None` for other functions.
pub(crate) fn c_library_flops(name: &str) -> Option<u64> {
    let cost = |name: &str| LIBM_FLOPS.iter().find(|(names, ..)| names.contains(&name));
    let double = cost(long_double(name).unwrap_or(name)).map(|(_, double, _)| *double);
    let single = || cost(name.strip_suffix('f')?).map(|(.., single)| *single);
    double.or_else(single).or_else(|| is_c_library(name).then_some(1))
}

/// LLVM IR that defines the device function `name`; `None` for those of [`library::TEXT`] and unknown ones.
pub(crate) fn definition(name: &str) -> Option<String> {
    let function = name.strip_prefix(PREFIX)?;
    let function = function.strip_prefix("fast_").unwrap_or(function);
    let text = composed(name, function)
        .or_else(|| by_long_double(name, function))
        .or_else(|| of_reals(name, function, "double", "f64", ""))
        .or_else(|| function.strip_suffix('f').and_then(|f| of_reals(name, f, "float", "f32", "f")))
        .or_else(|| of_integers(name, function))
        .or_else(|| conversion(name, function))
        .or_else(|| library::definition(name, function))?;
    Some(format!("{text}attributes #0 = {{ nounwind willreturn memory(none) }}\n"))
}

/// Defines `name` as a call of `callee` with the same arguments, and declares the callee.
fn forward(name: &str, ty: &str, arguments: usize, callee: &str, constants: &str) -> String {
    let list = |item: &dyn Fn(usize) -> String| (0..arguments).map(item).collect::<Vec<_>>().join(", ");
    let params = list(&|i| format!("{ty} %a{i}"));
    let types = list(&|_| ty.to_owned());
    let constant_types = if constants.is_empty() { "" } else { ", i1" };
    format!(
        "define {ty} @{name}({params}) {{\n %r = call {ty} @{callee}({params}{constants})\n ret {ty} %r\n}}\n\
         declare {ty} @{callee}({types}{constant_types}) #0\n"
    )
}

fn composed(name: &str, function: &str) -> Option<String> {
    let text = COMPOSED.iter().find(|(f, _)| *f == function)?.1.replace("{n}", name);
    if function != "sincos" {
        return Some(text);
    }
    let parts =
        ["sin", "cos"].map(|part| by_long_double(&format!("{name}.{part}"), part).unwrap_or_default());
    // Both halves declare the same intrinsic.
    Some(text + &parts[0] + &parts[1].replace("declare double @llvm.fabs.f64(double)\n", ""))
}

/// Defines a `double` function by its `long double` variant, always or for large arguments.
fn by_long_double(name: &str, function: &str) -> Option<String> {
    let call = format!(
        "%l = fpext double %x to x86_fp80\n %m = call x86_fp80 @{function}l(x86_fp80 %l)\n \
         %w = fptrunc x86_fp80 %m to double\n ret double %w\n}}\ndeclare x86_fp80 @{function}l(x86_fp80) #0\n"
    );
    if BY_LONG_DOUBLE.contains(&function) {
        return Some(format!("define double @{name}(double %x) {{\n {call}"));
    }
    FAR_BY_LONG_DOUBLE.contains(&function).then(|| {
        format!(
            "define double @{name}(double %x) {{\n %a = call double @llvm.fabs.f64(double %x)\n \
             %far = fcmp oge double %a, 134217728.0\n br i1 %far, label %long, label %plain\nplain:\n \
             %r = call double @{function}(double %x)\n ret double %r\nlong:\n {call}\
             declare double @{function}(double) #0\ndeclare double @llvm.fabs.f64(double)\n"
        )
    })
}

fn of_reals(name: &str, function: &str, ty: &str, suffix: &str, c_suffix: &str) -> Option<String> {
    if let Some((_, intrinsic, arguments)) = INTRINSICS.iter().find(|(f, ..)| *f == function) {
        return Some(forward(name, ty, *arguments, &format!("llvm.{intrinsic}.{suffix}"), ""));
    }
    let arguments = match function {
        f if SINGLE_ONLY.contains(&f) && ty == "double" => return None,
        f if LIBM_UNARY.contains(&f) => 1,
        f if LIBM_BINARY.contains(&f) => 2,
        _ => return None,
    };
    Some(forward(name, ty, arguments, &format!("{function}{c_suffix}"), ""))
}

fn of_integers(name: &str, function: &str) -> Option<String> {
    let (_, ty, intrinsic, arguments, constants) = INTEGER.iter().find(|(f, ..)| *f == function)?;
    Some(forward(name, ty, *arguments, &format!("llvm.{intrinsic}"), constants))
}

fn conversion(name: &str, function: &str) -> Option<String> {
    if let Some((_, operation, ty)) = ROUNDED.iter().find(|(f, ..)| *f == function) {
        return Some(format!(
            "define {ty} @{name}({ty} %x, {ty} %y) {{\n %r = {operation} {ty} %x, %y\n ret {ty} %r\n}}\n"
        ));
    }
    if let Some((_, from, to)) = BITCASTS.iter().find(|(f, ..)| *f == function) {
        return Some(format!(
            "define {to} @{name}({from} %x) {{\n %r = bitcast {from} %x to {to}\n ret {to} %r\n}}\n"
        ));
    }
    let (from, to) = function.split_once('2')?;
    let (to, rounding) = to.split_once('_')?;
    match (real_type(from), integer_type(from), real_type(to), integer_type(to)) {
        (Some((real, suffix)), _, _, Some((integer, signed))) => {
            Some(real_to_integer(name, real, suffix, integer, signed, rounding)?)
        }
        (_, Some((integer, signed)), Some((real, _)), _) if rounding == "rn" => {
            let operation = if signed { "sitofp" } else { "uitofp" };
            Some(format!(
                "define {real} @{name}({integer} %x) {{\n %r = {operation} {integer} %x to {real}\n ret {real} %r\n}}\n"
            ))
        }
        (Some(("double", _)), _, Some(("float", _)), _) if rounding == "rn" => Some(format!(
            "define float @{name}(double %x) {{\n %r = fptrunc double %x to float\n ret float %r\n}}\n"
        )),
        _ => None,
    }
}

fn real_type(word: &str) -> Option<(&'static str, &'static str)> {
    match word {
        "float" => Some(("float", "f32")),
        "double" => Some(("double", "f64")),
        _ => None,
    }
}

fn integer_type(word: &str) -> Option<(&'static str, bool)> {
    match word {
        "int" => Some(("i32", true)),
        "uint" => Some(("i32", false)),
        "ll" => Some(("i64", true)),
        "ull" => Some(("i64", false)),
        _ => None,
    }
}

fn real_to_integer(
    name: &str,
    real: &str,
    suffix: &str,
    integer: &str,
    signed: bool,
    rounding: &str,
) -> Option<String> {
    let (body, declarations) = conversion_body(real, suffix, integer, signed, rounding)?;
    Some(format!("define {integer} @{name}({real} %x) {{\n{body} ret {integer} %r\n}}\n{declarations}"))
}

#[cfg(test)]
mod tests {
    use super::{c_library_flops, definition};

    #[test]
    fn a_call_counts_what_a_gpu_computes_for_it() {
        let counts = ["exp", "expf", "erf", "erff", "fmodf", "malloc"].map(c_library_flops);
        assert_eq!(counts, [Some(30), Some(10), Some(85), Some(30), Some(1), None]);
    }

    #[test]
    fn fast_variants_are_the_accurate_functions() {
        let text = definition("__nv_fast_powf").unwrap();
        assert!(text.contains("define float @__nv_fast_powf(float %a0, float %a1)"), "{text}");
        assert!(text.contains("call float @powf(float %a0, float %a1)"), "{text}");
    }

    #[test]
    fn single_and_double_precision_come_from_one_entry() {
        assert!(definition("__nv_fabs").unwrap().contains("@llvm.fabs.f64"));
        assert!(definition("__nv_fabsf").unwrap().contains("@llvm.fabs.f32"));
        assert!(definition("__nv_erff").unwrap().contains("call float @erff"));
    }

    #[test]
    fn unknown_functions_have_no_definition() {
        assert_eq!(definition("__nv_normcdfinv"), None, "the library has it");
        assert_eq!(definition("__nv_float2int_xy"), None);
        assert_eq!(definition("sinf"), None);
    }
}
