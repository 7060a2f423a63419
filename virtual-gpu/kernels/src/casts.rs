//! Casts of real numbers to integers: on a GPU one that does not fit gives the nearest integer that does.
//!
//! Trap: in LLVM such a cast has no result at all, and this CPU's gives the least integer; so `(int)x` and `(unsigned)x`
//! become calls of functions that hold it in range, before the optimiser may draw conclusions. Integers of 8 and 16 bits
//! stay as they are: clang's own code for a GPU leaves open what they give.

use crate::llvm::{Context, Module, Opcode, TypeKind, Value};
use crate::math::conversion_body;

/// # Errors
/// LLVM does not take the functions: a defect of their text.
pub(crate) fn saturate(context: &Context, module: &Module) -> Result<(), String> {
    let builder = context.builder();
    for function in module.functions() {
        for cast in function.instructions() {
            let Some((real, suffix, integer, signed)) = out_of_range_matters(cast) else { continue };
            let sign = if signed { 's' } else { 'u' };
            let name = format!("eager_cast_{suffix}_{sign}_{integer}");
            if module.function(&name).is_none() {
                let Some((body, declarations)) = conversion_body(real, suffix, &integer, signed, "rz") else {
                    continue;
                };
                let text = format!(
                    "define {integer} @{name}({real} %x) alwaysinline {{\n{body} ret {integer} %r\n}}\n{declarations}"
                );
                let library = context.parse_text(&text)?;
                library.set_layout_of(module);
                module.link(library).map_err(|()| format!("{name}: {}", context.messages()))?;
            }
            let callee = module.function(&name).ok_or("a cast's function was lost")?;
            cast.replace_uses_with(builder.before(cast).call(callee, &[cast.operand(0)]));
            cast.erase();
        }
    }
    Ok(())
}

/// From which type, LLVM's suffix for it, to which integer, and whether that is signed.
fn out_of_range_matters(instruction: Value) -> Option<(&'static str, &'static str, String, bool)> {
    let signed = match instruction.opcode()? {
        Opcode::LLVMFPToSI => true,
        Opcode::LLVMFPToUI => false,
        _ => return None,
    };
    let (real, suffix) = match instruction.operand(0).ty().kind() {
        TypeKind::LLVMFloatTypeKind => ("float", "f32"),
        TypeKind::LLVMDoubleTypeKind => ("double", "f64"),
        _ => return None,
    };
    let integer = instruction.ty().to_text();
    matches!(integer.as_str(), "i32" | "i64").then_some((real, suffix, integer, signed))
}
