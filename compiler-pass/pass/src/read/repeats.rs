//! Host functions, kernel stubs included, that run more than once as far as this module shows.
//!
//! Trap: this must run before the pass changes calls. A stub called through a pointer is not found.

use std::collections::{BTreeMap, BTreeSet};

use eager_kernel_facts::repetition::{Call, on_cycle, repeated};
use eager_llvm::{Module, Value};

/// Functions that run more than once: called in a loop, recursive, or called from such a function.
#[must_use]
pub fn repeated_functions<'m>(module: &'m Module<'m>) -> BTreeSet<Value<'m>> {
    let defined: Vec<Value<'_>> =
        module.functions().into_iter().filter(|function| !function.is_declaration()).collect();
    let index: BTreeMap<Value<'_>, usize> = defined.iter().copied().zip(0..).collect();
    let calls: Vec<Vec<Call>> = defined.iter().map(|&function| calls_of(function, &index)).collect();
    let found = repeated(&calls);
    defined.into_iter().zip(found).filter(|&(_, found)| found).map(|(function, _)| function).collect()
}

fn calls_of<'m>(function: Value<'m>, index: &BTreeMap<Value<'m>, usize>) -> Vec<Call> {
    let blocks = function.blocks();
    let mut calls = Vec::new();
    for (position, block) in blocks.iter().enumerate() {
        let callees = block.instructions().into_iter().filter_map(Value::call_target);
        calls.extend(callees.filter_map(|callee| Some((position, *index.get(&callee)?))));
    }
    if calls.is_empty() {
        return Vec::new();
    }
    let positions: BTreeMap<_, usize> = blocks.iter().copied().zip(0..).collect();
    let graph: Vec<Vec<usize>> = blocks
        .iter()
        .map(|block| block.successors().iter().filter_map(|next| positions.get(next).copied()).collect())
        .collect();
    let cyclic = on_cycle(&graph);
    calls.into_iter().map(|(block, callee)| Call { callee, is_in_cycle: cyclic[block] }).collect()
}
