//! LLVM IR of how a block function calls a thread's code: with the kernel's arguments, with what a guard tells, and with what
//! may be promised to the optimiser.
//!
//! Trap: names in these texts (`%ctx`, `%args`, `%nx`) are the block function's.

use std::fmt::Write;

use crate::body::Body;
use crate::guards;
use crate::llvm::escaped;

/// What a call of the thread function and the end of the loop around it say: that threads do not depend on each other.
/// Nothing where they would share stack slots.
pub(crate) fn parallel(body: &Body) -> [&'static str; 2] {
    if body.has_slots || body.form.is_coroutine() {
        return ["", ""];
    }
    [", !llvm.access.group !1", ", !llvm.loop !3"]
}

/// The call of a guard's function, with `common` for where the values lie that all threads have in common.
pub(crate) fn guard_call(
    body: &Body,
    guard: usize,
    common: &str,
    arguments: &str,
) -> impl Fn(&str) -> String {
    let symbol = escaped(&guards::symbol(&body.kernel, guard));
    move |p| {
        format!(
            "call i64 @\"{symbol}\"(ptr %ctx, i32 %{p}.first, i32 %{p}.y, i32 %{p}.z, i32 %nx, ptr {common}{arguments})"
        )
    }
}

/// Loads the kernel's arguments once per block; returns the list that follows the thread's own arguments.
pub(crate) fn load_arguments(body: &Body, text: &mut String) -> String {
    let mut arguments = String::new();
    for (index, param) in body.params.iter().enumerate() {
        let at = 8 * index;
        let _ = write!(
            text,
            "  %a{index}.slot = getelementptr i8, ptr %args, i64 {at}\n  \
             %a{index}.at = load ptr, ptr %a{index}.slot\n"
        );
        if param.by_value {
            let _ = write!(arguments, ", ptr %a{index}.at");
        } else {
            let _ =
                writeln!(text, "  %a{index} = load {}, ptr %a{index}.at, align {}", param.ty, param.align);
            let _ = write!(arguments, ", {} %a{index}", param.ty);
        }
    }
    arguments
}
