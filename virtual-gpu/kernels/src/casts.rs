//! Casts of floating-point numbers to integers: on a GPU, a number out of range gives the nearest integer in range.
//!
//! Trap: in LLVM such a cast is undefined, and this CPU returns the least integer; so `(int)x` and `(unsigned)x` must
//! become calls of functions that clamp before the optimiser may draw conclusions. For integers of 8 and 16 bits the
//! number is clamped to 16 bits first, as in LLVM's own code for a GPU, and then truncated. LLVM's saturating casts,
//! which clang emits on request, become the same calls, so that a constant is folded to the number that the code
//! computes at run time.

use std::fmt::Write;

use crate::llvm::{Context, Module, Opcode, TypeKind, Value};

/// Replaces casts whose result differs out of range.
///
/// # Errors
/// LLVM rejects the functions: a defect of their text.
pub(crate) fn saturate(context: Context, module: &Module) -> Result<(), String> {
    let builder = context.builder();
    for function in module.functions() {
        for cast in function.instructions() {
            let Some((real, suffix, integer, signed)) = out_of_range_matters(cast) else { continue };
            let sign = if signed { 's' } else { 'u' };
            let name = format!("eager_cast_{suffix}_{sign}_{integer}");
            if module.function(&name).is_none() {
                let Some(text) = definition(&name, (real, suffix), &integer, signed) else { continue };
                let library = context.parse_text(&text)?;
                library.set_layout_of(module);
                module.link(library).map_err(|()| format!("{name}: {}", context.messages()))?;
            }
            let callee = module.function(&name).ok_or("a cast's function is missing")?;
            cast.replace_uses_with(builder.before(cast).call(callee, &[cast.operand(0)]));
            cast.erase();
        }
    }
    Ok(())
}

/// Source type of a cast, LLVM's suffix for it, the integer type, and whether that is signed.
fn out_of_range_matters(instruction: Value) -> Option<(&'static str, &'static str, String, bool)> {
    let signed = match instruction.opcode()? {
        Opcode::LLVMFPToSI => true,
        Opcode::LLVMFPToUI => false,
        Opcode::LLVMCall => {
            let name = instruction.callee()?.name();
            let signed = name.starts_with("llvm.fptosi.sat.");
            if !signed && !name.starts_with("llvm.fptoui.sat.") {
                return None;
            }
            signed
        }
        _ => return None,
    };
    let (real, suffix) = match instruction.operand(0).ty().kind() {
        TypeKind::LLVMFloatTypeKind => ("float", "f32"),
        TypeKind::LLVMDoubleTypeKind => ("double", "f64"),
        _ => return None,
    };
    let integer = instruction.ty().to_text();
    matches!(integer.as_str(), "i8" | "i16" | "i32" | "i64").then_some((real, suffix, integer, signed))
}

fn definition(name: &str, (real, suffix): (&str, &str), integer: &str, signed: bool) -> Option<String> {
    let head = format!("define {integer} @{name}({real} %x) alwaysinline {{");
    if matches!(integer, "i8" | "i16") {
        // Converts to 32 bits, clamped to the range of 16. A NaN becomes 0, except for a `double` cast to signed; so
        // measured on an H200.
        let (body, declarations) = conversion_body(real, "", "i32", true, "rz")?;
        let body = if real == "double" && !signed {
            body.replace(" %r = ", " %whole = ")
                + " %nan = fcmp uno double %x, %x\n %r = select i1 %nan, i32 0, i32 %whole\n"
        } else {
            body
        };
        let (least, most) =
            if signed { (i32::from(i16::MIN), i32::from(i16::MAX)) } else { (0, i32::from(u16::MAX)) };
        return Some(format!(
            "{head}\n{body} %low = icmp sgt i32 %r, {least}\n %a = select i1 %low, i32 %r, i32 {least}\n \
             %high = icmp slt i32 %a, {most}\n %b = select i1 %high, i32 %a, i32 {most}\n \
             %cut = trunc i32 %b to {integer}\n ret {integer} %cut\n}}\n{declarations}"
        ));
    }
    let (body, declarations) = conversion_body(real, suffix, integer, signed, "rz")?;
    Some(format!("{head}\n{body} ret {integer} %r\n}}\n{declarations}"))
}

/// Text that converts `%x` to `%r`, and the declarations that it needs. Conversions saturate; a NaN becomes 0, or only
/// the highest bit set if either type has 64 bits. (PTX ISA 9.0, "cvt".)
///
/// LLVM's own saturating conversion is not vectorised by its back end for this CPU; this text is.
pub(crate) fn conversion_body(
    real: &str,
    suffix: &str,
    integer: &str,
    signed: bool,
    rounding: &str,
) -> Option<(String, String)> {
    let round = match rounding {
        "rn" => "roundeven",
        "rz" => "",
        "rd" | "rm" => "floor",
        "ru" | "rp" => "ceil",
        _ => return None,
    };
    let (mut body, mut declarations) = (String::new(), String::new());
    let mut whole = "%x";
    if !round.is_empty() {
        let _ = writeln!(declarations, "declare {real} @llvm.{round}.{suffix}({real})");
        let _ = writeln!(body, " %w = call {real} @llvm.{round}.{suffix}({real} %x)");
        whole = "%w";
    }
    let bits = if integer == "i64" { 64 } else { 32 };
    let ends = Ends::of(real, bits, signed);
    let [low, largest, beyond] = [ends.low, ends.largest, ends.beyond].map(constant);
    let sign = if signed { 's' } else { 'u' };
    let of_nan = if real == "float" && bits == 32 { 0 } else { i64::MIN >> (64 - bits) };
    // A NaN is not above the least number of the range, so it becomes that number, which is usually the required
    // result.
    let becomes_low = (of_nan != 0) == signed;
    let _ = writeln!(
        body,
        " %above = fcmp ogt {real} {whole}, {low}\n \
         %raised = select i1 %above, {real} {whole}, {real} {low}\n \
         %below = fcmp olt {real} %raised, {largest}\n \
         %held = select i1 %below, {real} %raised, {real} {largest}\n \
         %inside = fpto{sign}i {real} %held to {integer}\n \
         %over = fcmp oge {real} {whole}, {beyond}\n \
         %rest = select i1 %over, {integer} {}, {integer} 0\n \
         %{} = or {integer} %inside, %rest",
        ends.rest,
        if becomes_low { "r" } else { "number" },
    );
    if !becomes_low {
        let _ = writeln!(
            body,
            " %nan = fcmp uno {real} %x, %x\n %r = select i1 %nan, {integer} {of_nan}, {integer} %number"
        );
    }
    Some((body, declarations))
}

/// The range of an integer type as floating-point numbers. Its last number is not among them if the floating-point type
/// has fewer digits.
struct Ends {
    low: f64,
    /// Greatest floating-point number in the range, fractions aside.
    largest: f64,
    /// Least floating-point number beyond it.
    beyond: f64,
    /// Last number of the range minus `largest`: the low digits, all ones.
    rest: u64,
}

impl Ends {
    fn of(real: &str, bits: u32, signed: bool) -> Ends {
        let magnitude = bits - u32::from(signed);
        let digits = if real == "float" { f32::MANTISSA_DIGITS } else { f64::MANTISSA_DIGITS };
        let rest = (1_u64 << magnitude.saturating_sub(digits)) - 1;
        let last = u64::MAX >> (64 - magnitude);
        let beyond = 2_f64.powi(magnitude.cast_signed());
        Ends { low: if signed { -beyond } else { 0.0 }, largest: (last - rest) as f64, beyond, rest }
    }
}

/// LLVM writes numbers of both types as the bits of a double.
fn constant(number: f64) -> String {
    format!("0x{:016X}", number.to_bits())
}
