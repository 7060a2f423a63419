//! Integer shifts and divisions with a GPU's results.
//!
//! A shift by the width or more gives 0, or the sign in every bit (PTX ISA 9.0, "shl", "shr": amounts beyond the width
//! are clamped to it). A division by zero has an unspecified result and does not trap ("div"); here it gives all ones,
//! and the remainder is the dividend. The least integer divided by -1 wraps. Trap: in LLVM the first is undefined, and
//! the others end the program on this CPU, so they must become calls of functions before the optimiser may draw
//! conclusions.

use crate::llvm::{Context, Module, Opcode, TypeKind, Value};

/// Replaces operations that LLVM leaves undefined for some operands.
///
/// # Errors
/// LLVM rejects the functions: a defect of their text.
pub(crate) fn define_all_results(context: Context, module: &Module) -> Result<(), String> {
    let builder = context.builder();
    for function in module.functions() {
        for instruction in function.instructions() {
            fill_folded(instruction);
            let Some(operation) = undefined_somewhere(instruction) else { continue };
            let ty = instruction.ty().to_text();
            let name = format!("eager_{operation}_{ty}");
            if module.function(&name).is_none() {
                let library = context.parse_text(&definition(&name, operation, &ty))?;
                library.set_layout_of(module);
                module.link(library).map_err(|()| format!("{name}: {}", context.messages()))?;
            }
            let callee = module.function(&name).ok_or("an integer operation's function is missing")?;
            let operands = instruction.operands();
            instruction.replace_uses_with(builder.before(instruction).call(callee, &operands));
            instruction.erase();
        }
    }
    Ok(())
}

/// Replaces poison operands by 0. Clang folds expressions such as `5u << 32` to poison; every out-of-range shift of a
/// non-negative number gives 0.
fn fill_folded(instruction: Value) {
    for (index, operand) in (0..).zip(instruction.operands()) {
        if operand.is_poison() && operand.ty().kind() == TypeKind::LLVMIntegerTypeKind {
            instruction.set_operand(index, operand.ty().constant(0));
        }
    }
}

/// LLVM's name of an operation that is undefined for some operands; `None` if the operands are known to be harmless.
fn undefined_somewhere(instruction: Value) -> Option<&'static str> {
    let operation = match instruction.opcode()? {
        Opcode::LLVMShl => "shl",
        Opcode::LLVMLShr => "lshr",
        Opcode::LLVMAShr => "ashr",
        Opcode::LLVMUDiv => "udiv",
        Opcode::LLVMSDiv => "sdiv",
        Opcode::LLVMURem => "urem",
        Opcode::LLVMSRem => "srem",
        _ => return None,
    };
    let width = width(&instruction.ty().to_text())?;
    let is_harmless = instruction.operand(1).constant_integer().is_some_and(|by| match operation {
        "shl" | "lshr" | "ashr" => by < width,
        "udiv" | "urem" => by != 0,
        _ => by != 0 && by < 1 << (width.min(64) - 1),
    });
    (!is_harmless).then_some(operation)
}

/// Width in bits of a C integer type.
fn width(ty: &str) -> Option<u64> {
    let bits = ty.strip_prefix('i')?.parse().ok()?;
    matches!(bits, 8 | 16 | 32 | 64).then_some(bits)
}

fn definition(name: &str, operation: &str, ty: &str) -> String {
    let last = width(ty).unwrap_or(1) - 1;
    let body = match operation {
        "ashr" => format!(
            " %far = icmp ugt {ty} %y, {last}\n %by = select i1 %far, {ty} {last}, {ty} %y\n %r = ashr {ty} %x, %by\n"
        ),
        "shl" | "lshr" => format!(
            " %far = icmp ugt {ty} %y, {last}\n %by = select i1 %far, {ty} 0, {ty} %y\n \
             %near = {operation} {ty} %x, %by\n %r = select i1 %far, {ty} 0, {ty} %near\n"
        ),
        _ => division(operation, ty),
    };
    format!("define {ty} @{name}({ty} %x, {ty} %y) alwaysinline {{\n{body} ret {ty} %r\n}}\n")
}

fn division(operation: &str, ty: &str) -> String {
    let is_remainder = operation.ends_with("rem");
    let by_zero = if is_remainder { "%x" } else { "-1" };
    if operation.starts_with('u') {
        return format!(
            " %zero = icmp eq {ty} %y, 0\n %by = select i1 %zero, {ty} 1, {ty} %y\n %q = {operation} {ty} %x, %by\n \
             %r = select i1 %zero, {ty} {by_zero}, {ty} %q\n"
        );
    }
    // Division by -1 is a negation, which wraps; so the divisor of the real division is neither 0 nor -1.
    let by_minus_one = if is_remainder { "0" } else { "%negative" };
    format!(
        " %zero = icmp eq {ty} %y, 0\n %minus = icmp eq {ty} %y, -1\n %special = or i1 %zero, %minus\n \
         %by = select i1 %special, {ty} 1, {ty} %y\n %negative = sub {ty} 0, %x\n %q = {operation} {ty} %x, %by\n \
         %s = select i1 %minus, {ty} {by_minus_one}, {ty} %q\n %r = select i1 %zero, {ty} {by_zero}, {ty} %s\n"
    )
}
