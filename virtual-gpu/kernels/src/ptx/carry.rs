//! The carry flag: one per function and thread, as PTX has it. (PTX ISA 9.0, "Extended-Precision Integer Arithmetic
//! Instructions": the condition code register `CC.CF`, which is not preserved across calls.)
//!
//! A statement reads and sets the flag by calls of two functions without a body, which [`give_slots`] turns into
//! accesses to a stack slot. Trap: a chain of carries may be spread over `asm` statements and over helpers of one
//! statement each, so the slots must be made after all helpers are inlined, and before the passes that turn slots into
//! values.

use super::emit::Emitter;
use crate::llvm::{Context, Module, Opcode, Value};

/// Returns the flag.
const READ: &str = "nvvm.carry";
/// Sets the flag to its argument.
const SET: &str = "nvvm.set_carry";

/// Description, for the user, of a reading for which [`give_slots`] found no setter.
pub(crate) fn describe_unset(callee: &str) -> Option<String> {
    (callee == READ).then(|| {
        "a carry flag (read by `addc`, `subc` or `madc`) that nothing in the same function sets".to_owned()
    })
}

/// True if a statement's translation reads or sets the flag.
pub(super) fn is_in(translation: &str) -> bool {
    translation.contains(&format!("@{READ}(")) || translation.contains(&format!("@{SET}("))
}

/// `add.cc`, `addc`, `addc.cc` and their variants for `sub` and `mad`: adds `b` to `a`, or subtracts it.
pub(super) fn add(e: &mut Emitter, words: &[&str], ty: &str, a: &str, b: &str) -> String {
    let wide = format!("i{}", 2 * super::types::bits(ty));
    let (a, b) = (e.value(&format!("zext {ty} {a} to {wide}")), e.value(&format!("zext {ty} {b} to {wide}")));
    let operation = if words[0].starts_with("sub") { "sub" } else { "add" };
    let mut sum = e.value(&format!("{operation} {wide} {a}, {b}"));
    if words[0].ends_with('c') {
        let flag = e.call("i1", READ, &[]);
        let flag = e.value(&format!("zext i1 {flag} to {wide}"));
        sum = e.value(&format!("{operation} {wide} {sum}, {flag}"));
    }
    if words.contains(&"cc") {
        let high = e.value(&format!("lshr {wide} {sum}, {}", super::types::bits(ty)));
        let out = e.value(&format!("trunc {wide} {high} to i1"));
        e.call("void", SET, &[("i1", out)]);
    }
    e.value(&format!("trunc {wide} {sum} to {ty}"))
}

/// Gives each function that reads the flag a stack slot for it. A function that reads the flag and never sets it keeps
/// its calls of [`READ`], which the check reports.
pub(crate) fn give_slots(context: Context, module: &Module) {
    let builder = context.builder();
    let bit = context.int_type(1);
    for function in module.functions().into_iter().filter(|function| !function.is_declaration()) {
        let (reads, sets) = (calls_of(function, READ), calls_of(function, SET));
        if !reads.is_empty() && !sets.is_empty() {
            builder.before(function.blocks()[0].instructions()[0]);
            let slot = builder.alloca(bit, 1);
            builder.store(bit.null(), slot);
            for read in reads {
                read.replace_uses_with(builder.before(read).load(bit, slot));
                read.erase();
            }
            for set in &sets {
                builder.before(*set).store(set.operand(0), slot);
            }
        }
        sets.into_iter().for_each(Value::erase);
    }
}

fn calls_of<'m>(function: Value<'m>, name: &str) -> Vec<Value<'m>> {
    let calls = |i: &Value| {
        i.opcode() == Some(Opcode::LLVMCall) && i.callee().is_some_and(|callee| callee.name() == name)
    };
    function.instructions().into_iter().filter(calls).collect()
}
