//! Minimum and maximum of two numbers with a GPU's results.
//!
//! For a NaN and a number the result is the number, and `-0` is less than `+0` (PTX ISA 9.0, "min", "max" of floating
//! point). Trap: LLVM's `minnum` and `maxnum` leave open which of two zeros they return, and constant folding may
//! differ from this CPU; so calls of them become calls of functions that define it.

use crate::llvm::{Context, Module, Opcode};

/// LLVM's intrinsics that leave the zero open, by type.
const CALLS: [(&str, &str, &str); 4] = [
    ("llvm.minnum.f32", "min", "float"),
    ("llvm.minnum.f64", "min", "double"),
    ("llvm.maxnum.f32", "max", "float"),
    ("llvm.maxnum.f64", "max", "double"),
];

/// Text that computes `%r` from `%a0` and `%a1`.
pub(crate) fn body(name: &str, ty: &str) -> String {
    let bits = if ty == "double" { "i64" } else { "i32" };
    // Equal numbers have equal bits, unless they are zeros: then the bits are combined by "or" for the minimum and
    // "and" for the maximum.
    let (closer, both) = if name == "min" { ("olt", "or") } else { ("ogt", "and") };
    format!(
        "%closer = fcmp {closer} {ty} %a0, %a1\n%one = select i1 %closer, {ty} %a0, {ty} %a1\n\
         %nan = fcmp uno {ty} %a1, %a1\n%other = select i1 %nan, {ty} %a0, {ty} %one\n\
         %b0 = bitcast {ty} %a0 to {bits}\n%b1 = bitcast {ty} %a1 to {bits}\n%both = {both} {bits} %b0, %b1\n\
         %zero = bitcast {bits} %both to {ty}\n%same = fcmp oeq {ty} %a0, %a1\n\
         %r = select i1 %same, {ty} %zero, {ty} %other"
    )
}

/// Replaces LLVM's minimum and maximum by functions with defined zeros.
///
/// # Errors
/// LLVM rejects the functions: a defect of their text.
pub(crate) fn order(context: Context, module: &Module) -> Result<(), String> {
    for (intrinsic, name, ty) in CALLS {
        let Some(open) = module.function(intrinsic) else { continue };
        let own = format!("eager_{name}_{ty}");
        let text = format!(
            "define {ty} @{own}({ty} %a0, {ty} %a1) alwaysinline {{\n{}\nret {ty} %r\n}}\n",
            body(name, ty)
        );
        let library = context.parse_text(&text)?;
        library.set_layout_of(module);
        module.link(library).map_err(|()| format!("{own}: {}", context.messages()))?;
        let callee = module.function(&own).ok_or("the function of a minimum is missing")?;
        for call in open.users() {
            if call.opcode() == Some(Opcode::LLVMCall) && call.callee() == Some(open) {
                call.set_called_value(callee);
            }
        }
    }
    Ok(())
}
