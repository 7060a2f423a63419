//! Transforms a function into the form that the readers expect: `sroa,early-cse`, so that sizes are values, not memory.
//!
//! Before that, two kinds of calls are inlined: CUDA's constructors of small structs (`dim3`, `cudaExtent`), which
//! would hide a launch's geometry, and small functions of the C++ library, which would hide the trip count of `for
//! (auto &p : array)` and the value of `v.size()`.
//!
//! Trap: at -O0 clang marks every function `optnone`, and LLVM then skips the passes silently. The mark is removed
//! while the passes run and put back afterwards, so that the function is compiled at the level that the user asked for.

use eager_llvm::{Block, Value, run_passes_on};

use crate::read::calls::Wrappers;
use crate::read::unroll;

/// Mangled names of functions in CUDA's headers that only fill a struct.
const CONSTRUCTORS: &[&str] =
    &["_ZN4dim3C1E", "_ZN4dim3C2E", "_ZNK4dim3cv", "make_cudaExtent", "make_cudaPitchedPtr", "make_cudaPos"];

/// Prefixes of mangled names of the C++ library: namespace `std`, and `__gnu_cxx` of GNU's library.
const LIBRARY: &[&str] = &["_ZNSt", "_ZNKSt", "_ZSt", "_ZN9__gnu_cxx", "_ZNK9__gnu_cxx"];
/// Limit on the instructions of a library function that is inlined; an iterator's step or a container's size has fewer.
const SMALL_MAX: usize = 48;
/// Library functions call each other: limits on the rounds of inlining, and on the instructions inlined in all.
const ROUNDS_MAX: usize = 10;
const INLINED_MAX: usize = 4096;

const PASSES: &str = "sroa,early-cse";
const OPTNONE: &str = "optnone";

/// Runs the two passes on one function, and unrolls its loops that allocate a constant number of times.
pub fn prepare<'m>(function: Value<'m>, wrappers: &Wrappers<'m>) {
    inline_constructors(function);
    inline_library(function);
    run(function, PASSES);
    if unroll::has_allocating_loop(function, wrappers) {
        let write_out = || run(function, unroll::PASSES);
        unroll::with_marked_calls(function, wrappers, write_out);
    }
}

/// Runs passes on one function. A failure leaves the function unchanged, which costs precision only.
fn run(function: Value<'_>, passes: &str) {
    let had_mark = is_unoptimised(function);
    if had_mark {
        function.remove_attribute(OPTNONE);
    }
    // The result is not asked for: see above.
    let _ = run_passes_on(function, passes);
    if had_mark {
        function.add_attribute(OPTNONE);
    }
}

fn is_unoptimised(function: Value<'_>) -> bool {
    function.attribute(OPTNONE).is_some()
}

fn inline_constructors(function: Value<'_>) {
    let is_constructor = |callee: Value<'_>| {
        let name = callee.name();
        CONSTRUCTORS.iter().any(|constructor| name.contains(constructor))
    };
    for call in calls_of(function, is_constructor) {
        let _ = call.inline_call();
    }
}

/// Inlines small library functions; not at -O0, where the function keeps the calls that a debugger steps into.
fn inline_library(function: Value<'_>) {
    if is_unoptimised(function) {
        return;
    }
    let mut left = INLINED_MAX / SMALL_MAX;
    for _ in 0..ROUNDS_MAX {
        let calls = calls_of(function, |callee| {
            let name = callee.name();
            let instructions =
                || callee.blocks().into_iter().map(|block| block.instructions().len()).sum::<usize>();
            LIBRARY.iter().any(|begin| name.starts_with(begin))
                && instructions() <= SMALL_MAX
                && callee != function
        });
        let inlined = calls.into_iter().take(left).filter(|&call| call.inline_call()).count();
        left -= inlined;
        if inlined == 0 {
            break;
        }
    }
}

/// Calls in a function whose callee has a body and is `wanted`.
fn calls_of<'m>(function: Value<'m>, wanted: impl Fn(Value<'m>) -> bool) -> Vec<Value<'m>> {
    let is_wanted = |call: &Value<'m>| {
        let callee = call.call_target().filter(|callee| callee.is_function() && !callee.is_declaration());
        callee.is_some_and(&wanted)
    };
    let instructions = function.blocks().into_iter().flat_map(Block::instructions);
    instructions.filter(is_wanted).collect()
}
