//! LLVM IR with which a block function calls a thread function: the kernel's arguments, the guard's answer, and
//! promises to the optimiser.
//!
//! Trap: the names in these texts (`%ctx`, `%args`, `%nx`) are those of the block function.

use std::fmt::Write;

use crate::Budget;
use crate::body::Body;
use crate::guards;
use crate::llvm::escaped;

/// When a block function marks the touch map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marks {
    Never,
    Always,
    /// If the launch has a map.
    Asked,
}

impl Marks {
    /// The argument of the thread function, of type `i1`.
    pub fn value(self) -> &'static str {
        match self {
            Marks::Never => "false",
            Marks::Always => "true",
            Marks::Asked => "%marks",
        }
    }

    /// Code that sets `%marks`.
    pub fn asked(self) -> &'static str {
        match self {
            Marks::Asked => {
                "  %limit.at = getelementptr i8, ptr %ctx, i64 72\n  %limit = load i64, ptr %limit.at\n  \
                 %marks = icmp ne i64 %limit, 0\n"
            }
            _ => "",
        }
    }
}

/// Metadata for the call of the thread function and for the end of the loop around it, promising that threads are
/// independent. Empty where threads share stack slots. A loop with many accesses is not vectorised: comparing each
/// access with each takes time that grows faster than their square.
pub(crate) fn parallel(body: &Body, accesses: usize, budget: &Budget) -> [&'static str; 2] {
    let is_large = accesses > budget.vectorised_accesses;
    match body.has_slots || body.form.is_coroutine() {
        true if is_large => ["", ", !llvm.loop !6"],
        true => ["", ""],
        // The promise of independence spares other passes the same comparison.
        false if is_large => [", !llvm.access.group !1", ", !llvm.loop !4"],
        false => [", !llvm.access.group !1", ", !llvm.loop !3"],
    }
}

/// Text of the call of a guard function; `common` points to the values that all threads share.
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
