//! Treats denormals of `float` as zeros, if a program asks for it (`-use_fast_math`, `-ftz=true`).
//!
//! An operation reads a denormal as a zero of its sign, and returns such a zero in its place (PTX ISA 9.0, "add",
//! "mul", "fma" and the others that have `.ftz`); copies, selections and numbers of type `double` keep denormals. Trap:
//! never set the processor's own mode for this, which would also affect `double` and the C library; the zeros are made
//! by integer operations.

use crate::llvm::{Context, Module, Opcode, Type, TypeKind, Value};

/// Function attribute by which clang requests it; the second part of the value is about operands.
const ASKED: (&str, &str) = ("denormal-fp-math-f32", "preserve-sign,preserve-sign");

/// Computes `%r`: `%x`, or the zero of its sign if it is denormal.
pub(crate) const BODY: &str = "%b = bitcast float %x to i32\n%exponent = and i32 %b, 2139095040\n\
    %small = icmp eq i32 %exponent, 0\n%sign = and i32 %b, -2147483648\n\
    %k = select i1 %small, i32 %sign, i32 %b\n%r = bitcast i32 %k to float";

const FLUSH: &str = "eager_flush_denormal";

/// Flushes denormals in functions that request it.
///
/// # Errors
/// LLVM rejects the function: a defect of its text.
pub(crate) fn flush(context: Context, module: &Module) -> Result<(), String> {
    let asks = |f: &Value| !f.is_declaration() && f.string_attribute(ASKED.0).as_deref() == Some(ASKED.1);
    let functions: Vec<Value> = module.functions().into_iter().filter(asks).collect();
    if functions.is_empty() {
        return Ok(());
    }
    let text = format!("define float @{FLUSH}(float %x) alwaysinline {{\n{BODY}\nret float %r\n}}\n");
    let library = context.parse_text(&text)?;
    library.set_layout_of(module);
    module.link(library).map_err(|()| format!("{FLUSH}: {}", context.messages()))?;
    let flush = module.function(FLUSH).ok_or("the function that flushes denormals is missing")?;
    for function in functions {
        for instruction in function.instructions() {
            flush_around(context, instruction, flush);
        }
    }
    Ok(())
}

fn is_float(ty: Type) -> bool {
    ty.kind() == TypeKind::LLVMFloatTypeKind
}

fn flush_around(context: Context, instruction: Value, flush: Value) {
    let Some(arguments) = arithmetic(instruction) else { return };
    let builder = context.builder();
    for index in 0..arguments {
        let operand = instruction.operand(index);
        if is_float(operand.ty()) && !is_flushed(operand, flush) {
            let flushed = builder.before(instruction).call(flush, &[operand]);
            instruction.set_operand(index, flushed);
        }
    }
    if is_float(instruction.ty()) {
        let users = instruction.users();
        let flushed = builder.before(instruction.next_instruction()).call(flush, &[instruction]);
        for user in users {
            for (index, operand) in (0..).zip(user.operands()) {
                if operand == instruction {
                    user.set_operand(index, flushed);
                }
            }
        }
    }
}

/// True if the value is the result of an operation that is already flushed.
fn is_flushed(value: Value, flush: Value) -> bool {
    value.opcode() == Some(Opcode::LLVMCall) && value.callee() == Some(flush)
}

/// Number of first operands that are numbers to compute with; `None` for instructions that only move numbers.
fn arithmetic(instruction: Value) -> Option<u32> {
    match instruction.opcode()? {
        Opcode::LLVMFAdd
        | Opcode::LLVMFSub
        | Opcode::LLVMFMul
        | Opcode::LLVMFDiv
        | Opcode::LLVMFRem
        | Opcode::LLVMFCmp => Some(2),
        Opcode::LLVMFNeg | Opcode::LLVMFPExt | Opcode::LLVMFPTrunc => Some(1),
        Opcode::LLVMCall => {
            let name = instruction.callee()?.name();
            // `__nv_fmaf_ieee_rn` and its like exist for numbers that must not be flushed.
            let function = name.strip_prefix("__nv_").filter(|name| !name.contains("_ieee_"));
            let moves =
                |name: &str| name.contains("_as_") || name.starts_with("signbit") || name == "copysignf";
            let computes = function.is_some_and(|name| !moves(name))
                || name.starts_with("llvm.") && name.ends_with(".f32") && !name.contains("copysign");
            computes.then(|| instruction.call_arguments().len() as u32)
        }
        _ => None,
    }
}
