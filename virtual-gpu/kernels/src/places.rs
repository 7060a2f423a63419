//! Where the program says what an instruction does, noted at the instruction itself.
//!
//! Trap: debug information is gone before a kernel's code is made, because it would contradict functions that are put
//! together anew; these notes stay until a pass rebuilds the instruction.

use crate::llvm::{Context, Module, Opcode, Value};

const KIND: &str = "eager.place";

/// Notes the place of everything that may access memory.
pub(crate) fn note(context: &Context, module: &Module) {
    let kind = context.metadata_kind(KIND);
    for instruction in module.functions().into_iter().flat_map(Value::instructions) {
        let accesses = matches!(
            instruction.opcode(),
            Some(
                Opcode::LLVMLoad
                    | Opcode::LLVMStore
                    | Opcode::LLVMCall
                    | Opcode::LLVMAtomicRMW
                    | Opcode::LLVMAtomicCmpXchg
            )
        );
        let places = instruction.source_places();
        if let (true, Some(text)) = (accesses, describe(&places)) {
            instruction.set_metadata(kind, context.text_node(&text));
        }
    }
}

/// The line itself, and the one in the kernel that leads there.
fn describe(places: &[String]) -> Option<String> {
    match places {
        [] => None,
        [place] => Some(place.clone()),
        [place, .., outermost] if place == outermost => Some(place.clone()),
        [place, .., outermost] => Some(format!("{place} (called at {outermost})")),
    }
}

/// What was noted at `instruction`.
pub(crate) fn noted(context: &Context, instruction: Value) -> Option<String> {
    instruction.metadata(context.metadata_kind(KIND))?.node_text()
}
