//! Where the program says what an instruction does, noted at the instruction itself.
//!
//! Trap: debug information is gone before a kernel's code is made, because it would contradict functions that are put
//! together anew; these notes stay until a pass rebuilds the instruction.

use crate::llvm::{Context, Module, Opcode, Value};

const KIND: &str = "eager.place";

/// Notes the place of everything in `function` that may access memory.
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

/// The constant that holds the text of a place, one for each.
pub(crate) fn constant(context: &Context, module: &Module, place: &str) -> Value {
    let name = format!("eager.place.{place}");
    module.global(&name).unwrap_or_else(|| {
        let text = context.text(place);
        let global = module.add_global(&name, text.ty());
        global.set_initializer(text);
        global
    })
}
