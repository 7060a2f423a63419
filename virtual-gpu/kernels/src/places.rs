//! Source lines of instructions, noted as metadata at the instructions themselves.
//!
//! Trap: debug information must be gone before a kernel's code is made, because it would contradict functions that are
//! assembled from moved blocks; these notes stay until a pass rebuilds the instruction.

use crate::llvm::{Context, Module, Opcode, Value};

const KIND: &str = "eager.place";

/// Notes the place of every instruction in `function` that may access memory.
pub(crate) fn note(context: &Context, function: Value) {
    let kind = context.metadata_kind(KIND);
    for instruction in function.instructions() {
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
        if !accesses {
            continue;
        }
        if let Some(text) = describe(&instruction.source_places()) {
            instruction.set_metadata(kind, context.text_node(&text));
        }
    }
}

/// Text of a place: the line itself, and the line in the kernel from which it is reached.
fn describe(places: &[String]) -> Option<String> {
    match places {
        [] => None,
        [place] => Some(place.clone()),
        [place, .., outermost] if place == outermost => Some(place.clone()),
        [place, .., outermost] => Some(format!("{place} (called at {outermost})")),
    }
}

/// The place noted at `instruction`.
pub(crate) fn noted(context: &Context, instruction: Value) -> Option<String> {
    instruction.metadata(context.metadata_kind(KIND))?.node_text()
}

/// Returns the constant that holds the text of a place; one per text.
pub(crate) fn constant(context: &Context, module: &Module, place: &str) -> Value {
    let name = format!("eager.place.{place}");
    module.global(&name).unwrap_or_else(|| {
        let text = context.text(place);
        let global = module.add_global(&name, text.ty());
        global.set_initializer(text);
        global
    })
}
