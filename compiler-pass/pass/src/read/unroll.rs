//! Unrolls loops that allocate a constant number of times (`for (i < 3) cudaMalloc(&d[i], n)`), so that each buffer has
//! a slot of its own.
//!
//! Only functions with such a loop are changed, and LLVM's own limits for full unrolling hold. Trap: LLVM does not
//! unroll a loop with a call that it expects to inline later, such as clang's typed `cudaMalloc<float>`, so these calls
//! are marked `noinline` while the passes run.

use eager_llvm::{Block, Value};

use crate::read::calls::Wrappers;
use crate::read::rules::{CallRule, rule};

/// Passes that unroll such loops, in any function.
pub const PASSES: &str = "loop-simplify,lcssa,loop(loop-rotate),loop-unroll<O3;full-unroll-max=16;no-partial;no-runtime;no-peeling;no-upperbound>,sroa,early-cse";
/// Functions with more blocks stay unchanged.
const BLOCKS_MAX: usize = 512;
const NOINLINE: &str = "noinline";

/// Whether a function allocates device memory in a loop.
pub fn has_allocating_loop<'m>(function: Value<'m>, wrappers: &Wrappers<'m>) -> bool {
    let blocks = function.blocks();
    let allocates = |call: &Value<'m>| {
        let found = wrappers.runtime_call(*call);
        found.is_some_and(|call| matches!(rule(&call.name), CallRule::Allocate { .. }))
    };
    blocks.len() <= BLOCKS_MAX
        && blocks.into_iter().any(|block| block.instructions().iter().any(allocates) && comes_back(block))
}

/// Runs `passes` while calls of typed runtime wrappers are marked `noinline`.
pub fn with_marked_calls<'m>(function: Value<'m>, wrappers: &Wrappers<'m>, passes: impl FnOnce()) {
    let calls = || {
        let instructions = function.blocks().into_iter().flat_map(Block::instructions);
        let is_typed =
            |call: &Value<'m>| call.call_target().is_some_and(|callee| wrappers.is_wrapper(callee));
        instructions.filter(is_typed).collect::<Vec<_>>()
    };
    let was_marked = calls().iter().any(|call| call.has_call_attribute(NOINLINE));
    for call in calls() {
        call.add_call_attribute(NOINLINE);
    }
    passes();
    // If the program marks such calls itself, every mark stays: one mark too many is better than one too few.
    for call in calls().into_iter().filter(|_| !was_marked) {
        call.remove_call_attribute(NOINLINE);
    }
}

/// Whether a block can run again after it has run.
fn comes_back(block: Block<'_>) -> bool {
    let mut seen = Vec::new();
    let mut pending = block.successors();
    while let Some(next) = pending.pop() {
        if next == block {
            return true;
        }
        if !seen.contains(&next) {
            seen.push(next);
            pending.extend(next.successors());
        }
    }
    false
}
