//! LLVM IR of the helpers with which a lane stores its arguments before a wait and reads its result after it.
//!
//! Lanes that are together use arrays of 32, on which the operation works; diverged lanes use their wait records, as
//! coroutines do. Both cases are one function, whose argument `together` is a constant once it is inlined, so that the
//! code of the other case is removed. Trap: the argument `op` is the arrays of the warp, or the record of the lane.

use std::fmt::Write;

use super::ops::{self, Answer, at};
use crate::intrinsics::THREAD;
use crate::suspend::{self, EXITED, Part, Suspension};

/// Parameters of all helpers here, after those of the thread.
const LANE: &str = "i32 %together, ptr %op, i64 %lane";

/// Name of the helper that stores a lane's arguments. Its own arguments: the lane's, those of the device function, the
/// number of the place, and a mask of the arguments that are stored in arrays ([`ops::left_as_arrays`]).
pub(crate) fn ask(row: &str) -> String {
    format!("eager.lane.ask.{row}")
}

/// Name of the helper that reads the result. Its arguments: the lane's.
pub(crate) fn answer(row: &str) -> String {
    format!("eager.lane.answer.{row}")
}

pub(crate) fn text() -> String {
    let mut text = format!(
        "define void @eager.lane.exit({THREAD}, i32 %together, ptr %op) {{\n  \
         %yes = icmp ne i32 %together, 0\n  br i1 %yes, label %done, label %apart\n\
         apart:\n  store i32 {EXITED}, ptr %op\n  br label %done\n\
         done:\n  ret void\n}}\n"
    );
    for row in suspend::table() {
        text.push_str(&ask_text(&row));
        text.push_str(&answer_text(&row));
    }
    text + &ops::text() + &TOGETHER.replace(") {", ") noinline optsize {")
}

/// `together.c` as LLVM IR. It is small code (`optsize`): unrolled, its loops took longer to compile than small kernels.
const TOGETHER: &str = include_str!("together.ll");

fn ask_text(row: &Suspension) -> String {
    let params: String =
        row.params.iter().enumerate().map(|(index, (ty, _))| format!(", {ty} %a{index}")).collect();
    let mut text = format!(
        "define void @{}({THREAD}, {LANE}{params}, i32 %place, i32 %left) {{\n  \
         %yes = icmp ne i32 %together, 0\n  br i1 %yes, label %arrays, label %record\narrays:\n",
        ask(&row.name)
    );
    for (index, (ty, part)) in row.params.iter().enumerate() {
        let Some(array) = ops::array_of(*part, ty) else { continue };
        let value = match *ty {
            "float" => format!("  %v{index} = bitcast float %a{index} to i32\n"),
            "i1" => format!("  %v{index} = zext i1 %a{index} to i8\n"),
            "i64" => format!("  %v{index} = trunc i64 %a{index} to i32\n"),
            ty => format!("  %v{index} = add {ty} %a{index}, 0\n"),
        };
        let kept = if *ty == "i1" { "i8" } else { "i32" };
        let mut stores = value
            + &format!(
                "  %at{index} = getelementptr i8, ptr %op, i64 {array}\n  \
                 %in{index} = getelementptr {kept}, ptr %at{index}, i64 %lane\n  \
                 store {kept} %v{index}, ptr %in{index}\n"
            );
        if *ty == "i64" {
            let _ = write!(
                stores,
                "  %h{index} = lshr i64 %a{index}, 32\n  %high{index} = trunc i64 %h{index} to i32\n  \
                 %hat{index} = getelementptr i8, ptr %op, i64 {}\n  \
                 %hin{index} = getelementptr i32, ptr %hat{index}, i64 %lane\n  \
                 store i32 %high{index}, ptr %hin{index}\n",
                at::HIGH
            );
        }
        let _ = write!(
            text,
            "  %bit{index} = and i32 %left, {}\n  %is{index} = icmp ne i32 %bit{index}, 0\n  \
             br i1 %is{index}, label %left{index}, label %next{index}\n\
             left{index}:\n{stores}  br label %next{index}\nnext{index}:\n",
            1 << index
        );
    }
    let passed: String =
        row.params.iter().enumerate().map(|(index, (ty, _))| format!(", {ty} %a{index}")).collect();
    let _ = write!(
        text,
        "  ret void\nrecord:\n  \
         call void @{}(ptr %op{passed}, i32 %place, ptr null)\n  ret void\n}}\n",
        suspend::to_record(&row.name)
    );
    text
}

fn answer_text(row: &Suspension) -> String {
    let ty = row.result;
    let mut text = format!("define {ty} @{}({THREAD}, {LANE}) {{\n", answer(&row.name));
    if ty == "void" {
        return text + "  ret void\n}\n";
    }
    text.push_str("  %yes = icmp ne i32 %together, 0\n  br i1 %yes, label %arrays, label %record\narrays:\n");
    // Of lanes that have diverged (2) each has its own, common or not.
    let place = |name: &str, common: Option<u64>, own: u64, element: &str| {
        let from = if common.is_some() { "in" } else { "own" };
        let common = common.map_or_else(String::new, |offset| {
            format!(
                "  %{name}.common = getelementptr i8, ptr %op, i64 {offset}\n  \
                 %{name}.alone = icmp eq i32 %together, 2\n  \
                 %{name}.in = select i1 %{name}.alone, ptr %{name}.own, ptr %{name}.common\n"
            )
        });
        format!(
            "  %{name}.at = getelementptr i8, ptr %op, i64 {own}\n  \
             %{name}.own = getelementptr {element}, ptr %{name}.at, i64 %lane\n{common}  \
             %{name} = load {element}, ptr %{name}.{from}\n"
        )
    };
    match ops::answer(row) {
        Answer::AllLanes => text.push_str(&format!(
            "{}  %alone = icmp eq i32 %together, 2\n  %bits = select i1 %alone, i32 %some, i32 -1\n",
            place("some", None, at::RESULT, "i32")
        )),
        Answer::Common => text.push_str(&place("bits", Some(at::UNIFORM), at::RESULT, "i32")),
        Answer::Own | Answer::None => text.push_str(&place("bits", None, at::RESULT, "i32")),
    }
    let float = ty.contains("float");
    text.push_str(if float { "  %value = bitcast i32 %bits to float\n" } else { "" });
    let value = if float { "float %value" } else { "i32 %bits" };
    if ty.starts_with('{') {
        match ops::answer(row) {
            Answer::Common => text.push_str(&place("flag", Some(at::COMMON_PREDICATE), at::PREDICATE, "i8")),
            _ => text.push_str(&place("flag", None, at::PREDICATE, "i8")),
        }
        let _ = write!(
            text,
            "  %truth = icmp ne i8 %flag, 0\n  %one = insertvalue {ty} poison, {value}, 0\n  \
             %two = insertvalue {ty} %one, i1 %truth, 1\n  ret {ty} %two\n"
        );
    } else if ty == "i1" {
        text.push_str("  %truth = trunc i32 %bits to i1\n  ret i1 %truth\n");
    } else {
        let _ = writeln!(text, "  ret {value}");
    }
    let _ = write!(
        text,
        "record:\n  %found = call {ty} @{}(ptr %op)\n  ret {ty} %found\n}}\n",
        suspend::from_record(&row.name)
    );
    debug_assert!(row.params.iter().filter(|(_, part)| *part == Part::Value).count() <= 1);
    text
}
