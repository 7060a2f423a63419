//! Device functions in which a thread waits for others: warp operations, barriers with a count or a reduction, and
//! functions in which it only yields.
//!
//! Such a call becomes three steps: write the wait to the thread's wait record, suspend, read the result from the
//! record. Trap: the executor's scheduler reads these records; offsets are those of eager-exec's `Wait`, kinds those of
//! its `WaitKind`, and `tests/layout.rs` keeps the two in step.

use std::fmt::Write;

use crate::intrinsics::THREAD;
use crate::llvm::Value;
use crate::ptx;

/// Name of the marker call at which a thread suspends for the executor's scheduler.
pub(crate) const MARKER: &str = "eager.suspend";

/// One device function that suspends its thread.
#[derive(Debug, Clone)]
pub(crate) struct Suspension {
    /// Name without `llvm.`.
    pub name: String,
    pub kind: u32,
    /// Type and part of each argument, in order.
    pub params: Vec<(&'static str, Part)>,
    /// Reduction of a barrier, which is not among the arguments.
    pub reduction: u32,
    pub result: &'static str,
}

/// Field of the wait record in which an argument is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Mask,
    Value,
    Argument,
    Control,
    /// Not stored: the executor does not need it.
    Ignored,
}

use Part::{Argument, Control, Ignored, Mask};

pub(crate) const BARRIER: u32 = 2;
const YIELD: u32 = 3;
pub(crate) const EXITED: u32 = 1;
pub(crate) const ACTIVE_MASK: u32 = 23;
const TENSOR: u32 = 24;
const CLUSTER_ARRIVE: u32 = 25;
const CLUSTER_WAIT: u32 = 26;

pub(crate) fn table() -> Vec<Suspension> {
    let mut rows = Vec::new();
    let mut add = |name: &str, kind, params: &[(&'static str, Part)], reduction, result| {
        rows.push(Suspension { name: name.to_owned(), kind, params: params.to_vec(), reduction, result });
    };
    for (kind, way) in (5..).zip(["up", "down", "bfly", "idx"]) {
        for (ty, suffix) in [("i32", "i32"), ("float", "f32")] {
            let params = [("i32", Mask), (ty, Part::Value), ("i32", Argument), ("i32", Control)];
            let both = if ty == "i32" { "{ i32, i1 }" } else { "{ float, i1 }" };
            add(&format!("nvvm.shfl.sync.{way}.{suffix}"), kind, &params, 0, ty);
            add(&format!("nvvm.shfl.sync.{way}.{suffix}p"), kind, &params, 0, both);
        }
    }
    let vote = [("i32", Mask), ("i1", Part::Value)];
    for (kind, name, result) in
        [(9, "all.sync", "i1"), (10, "any.sync", "i1"), (11, "uni.sync", "i1"), (12, "ballot.sync", "i32")]
    {
        add(&format!("nvvm.vote.{name}"), kind, &vote, 0, result);
    }
    for ty in ["i32", "i64"] {
        let params = [("i32", Mask), (ty, Part::Value)];
        add(&format!("nvvm.match.any.sync.{ty}"), 13, &params, 0, "i32");
        add(&format!("nvvm.match.all.sync.{ty}p"), 14, &params, 0, "{ i32, i1 }");
    }
    for (kind, name) in (15..).zip(["add", "min", "max", "umin", "umax", "and", "or", "xor"]) {
        add(&format!("nvvm.redux.sync.{name}"), kind, &[("i32", Part::Value), ("i32", Mask)], 0, "i32");
    }
    add("nvvm.bar.warp.sync", 4, &[("i32", Mask)], 0, "void");
    add("nvvm.activemask", ACTIVE_MASK, &[], 0, "i32");
    add(STEP, ACTIVE_MASK, &[("i32", Argument)], 0, "void");
    add("nvvm.nanosleep", YIELD, &[("i32", Ignored)], 0, "void");
    add("nvvm.yield", YIELD, &[], 0, "void");
    add(POLL_YIELD, YIELD, &[("ptr", Part::Value)], 0, "void");
    add(BLOCK_BARRIER, BARRIER, &[], 0, "void");
    let tensor = [("i32", Argument), ("i32", Control), ("ptr", Part::Value)];
    add(ptx::TENSOR, TENSOR, &tensor, 0, "void");
    for aligned in ["", ".aligned"] {
        for relaxed in ["", ".relaxed"] {
            add(&format!("nvvm.barrier.cluster.arrive{relaxed}{aligned}"), CLUSTER_ARRIVE, &[], 0, "void");
        }
        add(&format!("nvvm.barrier.cluster.wait{aligned}"), CLUSTER_WAIT, &[], 0, "void");
        let (all, count) = ([("i32", Mask)], [("i32", Mask), ("i32", Argument)]);
        add(&format!("nvvm.barrier.cta.sync{aligned}.all"), BARRIER, &all, 0, "void");
        add(&format!("nvvm.barrier.cta.sync{aligned}.count"), BARRIER, &count, 0, "void");
        for (reduction, name, result) in [(1, "popc", "i32"), (2, "and", "i1"), (3, "or", "i1")] {
            let predicate = ("i1", Part::Value);
            let name = format!("nvvm.barrier.cta.red.{name}{aligned}");
            add(&format!("{name}.all"), BARRIER, &[all[0], predicate], reduction, result);
            add(&format!("{name}.count"), BARRIER, &[count[0], count[1], predicate], reduction, result);
        }
    }
    rows
}

/// True for device functions, named without `llvm.`, that only coroutines support: tensor cores, and barriers of
/// clusters.
pub(crate) fn is_for_coroutines(name: &str) -> bool {
    table().iter().any(|row| row.name == name && matches!(row.kind, TENSOR | CLUSTER_ARRIVE | CLUSTER_WAIT))
}

/// A lock step: the thread waits for threads of its warp that have not come as far. Its argument is the number of the
/// step. It is answered like `__activemask`, for the threads at the lowest number.
pub(crate) const STEP: &str = "nvvm.lock_step";
/// Upper bound of step numbers.
pub(crate) const BEHIND_STEPS: u32 = 1 << 30;
/// The thread yields because a turn of its loop changed nothing. Argument: the text of the loop's place, or null.
pub(crate) const POLL_YIELD: &str = "nvvm.poll_yield";
/// True if a thread must yield after its turn. Arguments: whether the turn was idle, the thread's counter of idle
/// turns, and the number of idle turns after which it yields, a power of two.
pub(crate) const POLL_DUE: &str = "nvvm.poll_due";
/// True if a thread yields at calls of this device function.
pub(crate) fn yields(device_function: &str) -> bool {
    let name = device_function.strip_prefix("llvm.").unwrap_or(device_function);
    ["nvvm.nanosleep", "nvvm.yield", POLL_YIELD].contains(&name)
}

/// Name used for every spelling of `__syncthreads()`.
const BLOCK_BARRIER: &str = "block_barrier";

/// Name of the helper that writes a call's wait record. Its arguments: the thread's, those of the device function, a
/// number for the place in the program, and the text of the place, or null.
pub(crate) fn before(device_function: &str) -> String {
    format!("eager.before.{}", device_function.strip_prefix("llvm.").unwrap_or(device_function))
}

/// Name of the helper that reads the result. Its arguments: the thread's.
pub(crate) fn after(device_function: &str) -> String {
    format!("eager.after.{}", device_function.strip_prefix("llvm.").unwrap_or(device_function))
}

/// Name of the helper that writes a wait to a record. Its arguments: the record, and those of [`before`] behind the
/// thread's.
pub(crate) fn to_record(row: &str) -> String {
    format!("eager.record.{row}")
}

/// Name of the helper that reads the result from a record, its argument.
pub(crate) fn from_record(row: &str) -> String {
    format!("eager.found.{row}")
}

/// Name of the plain block barrier for [`before`] and [`after`].
pub(crate) fn block_barrier() -> &'static str {
    BLOCK_BARRIER
}

pub(crate) fn is_marker(call: Value) -> bool {
    call.callee().is_some_and(|callee| callee.name() == MARKER)
}

const RECORD: &str = "  %record = call ptr @eager.wait(ptr %ctx, i32 %tx, i32 %ty, i32 %tz)\n";

/// Text of the two helpers of every row, and of the functions that they share.
pub(crate) fn text() -> String {
    let mut text = format!(
        "define ptr @eager.wait({THREAD}) {{\n  \
         %waits.at = getelementptr i8, ptr %ctx, i64 136\n  %waits = load ptr, ptr %waits.at, !invariant.load !0\n  \
         %linear = call i32 @eager.linear_thread(ptr %ctx, i32 %tx, i32 %ty, i32 %tz)\n  \
         %index = zext i32 %linear to i64\n  %offset = shl i64 %index, 5\n  \
         %record = getelementptr i8, ptr %waits, i64 %offset\n  ret ptr %record\n}}\n\
         define void @eager.exited({THREAD}) {{\n{RECORD}  store i32 {EXITED}, ptr %record\n  ret void\n}}\n"
    );
    let _ = write!(
        text,
        "define i1 @eager.{POLL_DUE}({THREAD}, i1 %idle, ptr %count.at, i32 %turns) {{\n  \
         %count = load i32, ptr %count.at\n  %one = zext i1 %idle to i32\n  %next = add i32 %count, %one\n  \
         store i32 %next, ptr %count.at\n  %low = sub i32 %turns, 1\n  %part = and i32 %next, %low\n  %full = icmp eq i32 %part, 0\n  \
         %due = and i1 %full, %idle\n  ret i1 %due\n}}\n"
    );
    for row in table() {
        text.push_str(&before_text(&row));
        text.push_str(&after_text(&row));
    }
    text
}

fn before_text(row: &Suspension) -> String {
    let params: String =
        row.params.iter().enumerate().map(|(index, (ty, _))| format!(", {ty} %a{index}")).collect();
    let of_record = to_record(&row.name);
    let mut text = format!(
        "define void @{}({THREAD}{params}, i32 %place, ptr %text) {{\n{RECORD}  \
         call void @{of_record}(ptr %record{params}, i32 %place, ptr %text)\n  ret void\n}}\n\
         define void @{of_record}(ptr %record{params}, i32 %place, ptr %text) {{\n",
        before(&row.name)
    );
    // Above the numbers of all steps, so that threads that wait here are answered last.
    let _ = writeln!(text, "  %late = or i32 %place, {BEHIND_STEPS}");
    let mut store = |offset: u32, ty: &str, value: &str| {
        let _ = write!(
            text,
            "  %at{offset} = getelementptr i8, ptr %record, i64 {offset}\n  store {ty} {value}, ptr %at{offset}\n"
        );
    };
    store(0, "i32", &row.kind.to_string());
    // The result overwrites it.
    store(24, "ptr", "%text");
    let find = |part: Part| row.params.iter().position(|(_, p)| *p == part).map(|index| format!("%a{index}"));
    if row.kind == ACTIVE_MASK && find(Argument).is_none() {
        store(16, "i32", "%late");
    }
    if row.kind == YIELD {
        // No place, unless it is stored below.
        store(8, "i64", "0");
    }
    if row.kind == BARRIER {
        store(4, "i32", &find(Mask).unwrap_or_else(|| "0".to_owned()));
        store(16, "i32", &find(Argument).unwrap_or_else(|| "0".to_owned()));
        store(20, "i32", &row.reduction.to_string());
    } else {
        for (part, offset) in [(Mask, 4), (Argument, 16), (Control, 20)] {
            if let Some(value) = find(part) {
                store(offset, "i32", &value);
            }
        }
    }
    if let Some((index, (ty, _))) = row.params.iter().enumerate().find(|(_, (_, part))| *part == Part::Value)
    {
        let wide = match *ty {
            "i64" => format!("  %wide = add i64 %a{index}, 0\n"),
            "float" => {
                format!("  %bits = bitcast float %a{index} to i32\n  %wide = zext i32 %bits to i64\n")
            }
            "ptr" => format!("  %wide = ptrtoint ptr %a{index} to i64\n"),
            ty => format!("  %wide = zext {ty} %a{index} to i64\n"),
        };
        let _ = write!(
            text,
            "{wide}  %value.at = getelementptr i8, ptr %record, i64 8\n  store i64 %wide, ptr %value.at\n"
        );
    }
    text + "  ret void\n}\n"
}

fn after_text(row: &Suspension) -> String {
    let (ty, of_record) = (row.result, from_record(&row.name));
    let mut text = format!("define {ty} @{}({THREAD}) {{\n", after(&row.name));
    if ty == "void" {
        return text + "  ret void\n}\n";
    }
    let _ = write!(
        text,
        "{RECORD}  %found = call {ty} @{of_record}(ptr %record)\n  ret {ty} %found\n}}\n\
         define {ty} @{of_record}(ptr %record) {{\n"
    );
    text.push_str(
        "  %at = getelementptr i8, ptr %record, i64 24\n  %wide = load i64, ptr %at\n  \
         %bits = trunc i64 %wide to i32\n",
    );
    let value = if row.result.contains("float") {
        text.push_str("  %value = bitcast i32 %bits to float\n");
        "float %value"
    } else {
        "i32 %bits"
    };
    if row.result.starts_with('{') {
        let _ = write!(
            text,
            "  %high = lshr i64 %wide, 32\n  %predicate = trunc i64 %high to i1\n  \
             %one = insertvalue {ty} poison, {value}, 0\n  %two = insertvalue {ty} %one, i1 %predicate, 1\n  \
             ret {ty} %two\n}}\n"
        );
    } else if row.result == "i1" {
        text.push_str("  %truth = trunc i64 %wide to i1\n  ret i1 %truth\n}\n");
    } else {
        let _ = write!(text, "  ret {value}\n}}\n");
    }
    text
}
