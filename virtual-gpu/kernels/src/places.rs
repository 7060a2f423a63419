//! Source lines of instructions, noted as metadata at the instructions themselves.
//!
//! Trap: debug information must be gone before a kernel's code is made, because it would contradict functions that are
//! assembled from moved blocks; these notes stay until a pass rebuilds the instruction.

use crate::llvm::{Context, Module, Opcode, Value};
use crate::runtime::is_syncthreads;

const KIND: &str = "eager.place";

/// Notes the place of every instruction in `function` that may access memory.
pub(crate) fn note(context: Context, function: Value) {
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
        if accesses {
            note_one(context, kind, instruction);
        }
    }
}

/// Notes the place of every `__syncthreads()` in `function`.
pub(crate) fn note_barriers<'m>(context: Context<'m>, function: Value<'m>) {
    let kind = context.metadata_kind(KIND);
    let calls = function.instructions().into_iter().filter(|i| i.opcode() == Some(Opcode::LLVMCall));
    calls.filter(|&call| is_syncthreads(call)).for_each(|call| note_one(context, kind, call));
}

fn note_one<'m>(context: Context<'m>, kind: u32, instruction: Value<'m>) {
    if let Some(text) = describe(&instruction.source_places()) {
        instruction.set_metadata(kind, context.text_node(&text));
    }
}

/// Headers that define CUDA's device functions, such as `atomicCAS` and `__nanosleep`.
const CUDA_HEADERS: &[&str] = &["/lib/clang/", "/include/crt/", "/include/device_", "/include/sm_"];

/// Folders of headers that come with a compiler, CUDA or the system.
const LIBRARY_HEADERS: &[&str] = &[
    "/include/cccl/",
    "/include/cub/",
    "/include/thrust/",
    "/include/cuda/",
    "/include/cooperative_groups",
    "/include/curand",
];

/// True if the line itself, wherever it is called from, is in a header of a library.
pub(crate) fn is_in_library(place: &str) -> bool {
    let file = place.split(" (called at ").next().unwrap_or(place);
    let parts = CUDA_HEADERS.iter().chain(LIBRARY_HEADERS);
    file.starts_with("/usr/include/") || parts.into_iter().any(|part| file.contains(part))
}

/// Text of a place: the line itself, and the line in the kernel from which it is reached. Inside a device function of
/// CUDA it is the line that calls it.
fn describe(places: &[String]) -> Option<String> {
    let in_header = |place: &&String| CUDA_HEADERS.iter().any(|part| place.contains(part));
    let skipped = places.iter().take_while(in_header).count();
    match if skipped < places.len() { &places[skipped..] } else { places } {
        [] => None,
        [place] => Some(place.clone()),
        [place, .., outermost] if place == outermost => Some(place.clone()),
        [place, .., outermost] => Some(format!("{place} (called at {outermost})")),
    }
}

/// The place noted at `instruction`.
pub(crate) fn noted(context: Context, instruction: Value) -> Option<String> {
    instruction.metadata(context.metadata_kind(KIND))?.node_text()
}

/// Returns the constant that holds the text of a place; one per text.
pub(crate) fn constant<'m>(context: Context<'m>, module: &'m Module, place: &str) -> Value<'m> {
    let name = format!("eager.place.{place}");
    module.global(&name).unwrap_or_else(|| {
        let text = context.text(place);
        let global = module.add_global(&name, text.ty());
        global.set_initializer(text);
        global
    })
}

#[cfg(test)]
mod tests {
    use super::{describe, is_in_library};

    fn described(places: &[&str]) -> Option<String> {
        describe(&places.iter().map(|&place| place.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_line_in_a_library_is_one_wherever_it_is_called_from() {
        assert!(is_in_library("/opt/cuda/include/cccl/cub/agent/agent_radix_sort.cuh:7 (called at k.cu:3)"));
        assert!(!is_in_library("k.h:7 (called at /opt/cuda/include/cub/device.cuh:9)"));
        assert!(!is_in_library("include/mine.h:7"));
    }

    #[test]
    fn a_line_in_a_header_of_cuda_is_named_by_its_call() {
        let header = "/cuda/include/crt/sm_70_rt.hpp:169";
        assert_eq!(described(&[header, "k.cu:3"]).as_deref(), Some("k.cu:3"));
        assert_eq!(
            described(&[header, "lock.h:7", "k.cu:3"]).as_deref(),
            Some("lock.h:7 (called at k.cu:3)")
        );
        assert_eq!(
            described(&["lock.h:7", header, "k.cu:3"]).as_deref(),
            Some("lock.h:7 (called at k.cu:3)")
        );
        assert_eq!(described(&[header]).as_deref(), Some(header));
        assert_eq!(described(&[]), None);
    }
}
