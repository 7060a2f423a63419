//! LLVM IR of the functions that run one lane or some of them, for warps whose lanes have diverged, and that write
//! their wait records.
//!
//! Trap: a lane's record must be what a coroutine would write at the same stop.

use std::fmt::Write;

use super::block::apart_function;
use super::ops::at;
use super::{Stop, WarpCut};
use crate::body::Body;
use crate::llvm::escaped;
use crate::loops::DIMENSIONS;
use crate::suspend::{ACTIVE_MASK, BARRIER, BEHIND_STEPS, EXITED, Part};

/// Functions for diverged lanes, used by all versions of a block function.
pub(crate) fn functions(body: &Body, cut: &WarpCut) -> String {
    let symbol = escaped(&body.symbol);
    let (mut params, mut passed) = (String::new(), String::new());
    for (index, param) in body.params.iter().enumerate() {
        let _ = write!(params, ", {} %p{index}", param.ty);
        let _ = write!(passed, ", {} %p{index}", param.ty);
    }
    let lane = "ptr %ctx, i64 %first, i1 %marks, ptr %frames, ptr %lanes, ptr %op, ptr %due";
    let one = |l: &str, together: &str, state: &str| {
        format!(
            "  %next = call i32 @\"{symbol}.one\"(ptr %ctx, i64 %first, i1 %marks, ptr %frames, i64 {l}, i32 {together}, \
             i32 {state}, ptr %lanes, ptr %op{passed})\n"
        )
    };
    let mut text = format!(
        "define internal i32 @\"{symbol}.one\"(ptr %ctx, i64 %first, i1 %marks, ptr %frames, i64 %l, i32 %together, i32 %state, \
         ptr %lanes, ptr %op{params}) {{\nentry:\n{DIMENSIONS}  %wide = add i64 %first, %l\n  \
         %i = trunc i64 %wide to i32\n  %ny.nz = mul i32 %ny, %nz\n  %one.row = icmp eq i32 %ny.nz, 1\n  \
         br i1 %one.row, label %placed, label %divide\n\
         divide:\n  %x.of = urem i32 %i, %nx\n  %row = udiv i32 %i, %nx\n  %y.of = urem i32 %row, %ny\n  \
         %z.of = udiv i32 %row, %ny\n  br label %placed\n\
         placed:\n  %x = phi i32 [ %i, %entry ], [ %x.of, %divide ]\n  %y = phi i32 [ 0, %entry ], [ %y.of, %divide ]\n  \
         %z = phi i32 [ 0, %entry ], [ %z.of, %divide ]\n  %is.apart = icmp eq i32 %together, 0\n  \
         %waits.at = getelementptr i8, ptr %ctx, i64 136\n  %waits = load ptr, ptr %waits.at, !invariant.load !0\n  \
         %offset = shl i64 %wide, 5\n  %record = getelementptr i8, ptr %waits, i64 %offset\n  \
         %place = select i1 %is.apart, ptr %record, ptr %op\n  br label %go\n\
         go:\n  %at = phi i32 [ %state, %placed ], [ %next, %go ]\n  %sums = getelementptr i8, ptr %ctx, i64 96\n  \
         %next = call i32 @\"{symbol}\"(ptr %ctx, i32 %x, i32 %y, i32 %z, ptr %sums, i1 %marks, i32 %together, \
         ptr %frames, i64 %l, i64 32, i32 %at, ptr %lanes, ptr %place{passed})\n  \
         %is.branch = icmp ugt i32 %next, {stops}\n  \
         %alone = icmp ne i32 %together, 1\n  %on = and i1 %alone, %is.branch\n  br i1 %on, label %go, label %done\ndone:\n  ret i32 %next\n}}\n",
        // After a branch at which a region ends, a diverged lane continues at once.
        stops = cut.stops.len(),
    );
    let _ = write!(
        text,
        "define internal void @\"{symbol}.together\"(i32 %state, {lane}{params}) noinline {{\nentry:\n  \
         %nexts = getelementptr i8, ptr %op, i64 {}\n  %one = insertelement <32 x i32> poison, i32 %state, i64 0\n  \
         %all = shufflevector <32 x i32> %one, <32 x i32> poison, <32 x i32> zeroinitializer\n  \
         store <32 x i32> %all, ptr %nexts, align 64\n  \
         call void @\"{symbol}.run\"(i32 -1, i32 1, ptr %ctx, i64 %first, i1 %marks, ptr %frames, ptr %lanes, ptr %op, \
         ptr %nexts{passed})\n  ret void\n}}\n",
        at::NEXT,
    );
    let _ = write!(
        text,
        "define internal void @\"{symbol}.run\"(i32 %ready, i32 %together, {lane}{params}) noinline {{\nentry:\n  br label %lane\n\
         lane:\n  %left = phi i32 [ %ready, %entry ], [ %left.next, %lane ]\n  \
         %bit = call i32 @llvm.cttz.i32(i32 %left, i1 true)\n  %l = zext i32 %bit to i64\n  \
         %at = getelementptr i32, ptr %due, i64 %l\n  %state = load i32, ptr %at\n{}  store i32 %next, ptr %at\n  \
         %below = sub i32 %left, 1\n  %left.next = and i32 %left, %below\n  \
         %last = icmp eq i32 %left.next, 0\n  br i1 %last, label %done, label %lane\ndone:\n  ret void\n}}\n",
        one("%l", "%together", "%state"),
    );
    text.push_str(&places(&symbol, cut));
    text.push_str(&part(&symbol, cut));
    text + &apart_function(body, cut, &params, &passed)
}

/// Table of the stops for `together.c`, which has the kinds of operations and the flags.
fn places(symbol: &str, cut: &WarpCut) -> String {
    let place = |stop: &Stop| {
        let known = |part| stop.known(part).map(|known| known as u32);
        let argument = match stop.row.kind {
            ACTIVE_MASK if !stop.has(Part::Argument) => Some(stop.place as u32 | BEHIND_STEPS),
            _ => known(Part::Argument),
        };
        let parts = [known(Part::Mask), argument, known(Part::Control)];
        let is_wide = stop.row.params.contains(&("i64", Part::Value));
        let flags = [parts[0].is_some(), parts[1].is_some(), parts[2].is_some(), is_wide];
        let flags: u32 = (0..).zip(flags).map(|(bit, flag)| u32::from(flag) << bit).sum();
        let [mask, argument, control] = parts.map(Option::unwrap_or_default);
        format!("[5 x i32] [i32 {}, i32 {flags}, i32 {mask}, i32 {argument}, i32 {control}]", stop.row.kind)
    };
    let list: Vec<String> = cut.stops.iter().map(place).collect();
    format!("@\"{symbol}.places\" = internal constant [{} x [5 x i32]] [{}]\n", list.len(), list.join(", "))
}

/// Function that writes the wait records of lanes that were together until now.
fn part(symbol: &str, cut: &WarpCut) -> String {
    let mut cases = String::new();
    let mut texts = String::new();
    for stop in &cut.stops {
        let number = stop.number;
        let _ = write!(cases, "i32 {number}, label %s{number} ");
        let _ = write!(texts, "s{number}:\n{}  br label %lane.end\n", record(stop));
    }
    format!(
        "define internal void @\"{symbol}.part\"(ptr %ctx, i64 %first, ptr %op, ptr %due) noinline {{\nentry:\n  \
         %waits.at = getelementptr i8, ptr %ctx, i64 136\n  %waits = load ptr, ptr %waits.at\n  \
         %nexts = getelementptr i8, ptr %op, i64 {}\n  br label %lane\n\
         lane:\n  %l = phi i64 [ 0, %entry ], [ %l.next, %lane.end ]\n  %i = add i64 %first, %l\n  \
         %offset = shl i64 %i, 5\n  %record = getelementptr i8, ptr %waits, i64 %offset\n  \
         %next.at = getelementptr i32, ptr %nexts, i64 %l\n  %next = load i32, ptr %next.at\n  \
         %at = getelementptr i32, ptr %due, i64 %l\n  store i32 %next, ptr %at\n  \
         switch i32 %next, label %free [ i32 0, label %exited {cases}]\n\
         free:\n  store i32 0, ptr %record\n  br label %lane.end\n\
         exited:\n  store i32 {EXITED}, ptr %record\n  br label %lane.end\n{texts}\
         lane.end:\n  %l.next = add nuw nsw i64 %l, 1\n  %more = icmp ne i64 %l.next, 32\n  \
         br i1 %more, label %lane, label %done, !llvm.loop !22\ndone:\n  ret void\n}}\n",
        at::NEXT
    )
}

/// Writes the same values to `%record` as `eager.before…` of the stop.
fn record(stop: &Stop) -> String {
    let s = format!("s{}", stop.number);
    let mut text = format!("  store i32 {}, ptr %record\n", stop.row.kind);
    let write = |text: &mut String, offset: u32, value: &str| {
        let _ = write!(
            text,
            "  %{s}.at{offset} = getelementptr i8, ptr %record, i64 {offset}\n  store i32 {value}, ptr %{s}.at{offset}\n"
        );
    };
    for (offset, part, array) in
        [(4, Part::Mask, at::MASK), (16, Part::Argument, at::ARGUMENT), (20, Part::Control, at::CONTROL)]
    {
        let value = match (stop.has(part), stop.known(part)) {
            (true, Some(known)) => (known as u32).to_string(),
            (true, None) => {
                let _ = write!(
                    text,
                    "  %{s}.array{offset} = getelementptr i8, ptr %op, i64 {array}\n  \
                     %{s}.in{offset} = getelementptr i32, ptr %{s}.array{offset}, i64 %l\n  \
                     %{s}.part{offset} = load i32, ptr %{s}.in{offset}\n"
                );
                format!("%{s}.part{offset}")
            }
            (false, _) if stop.is_barrier() && offset == 20 => stop.row.reduction.to_string(),
            (false, _) if stop.is_barrier() => "0".to_owned(),
            (false, _) if stop.row.kind == ACTIVE_MASK && offset == 16 => {
                (stop.place | u64::from(BEHIND_STEPS)).to_string()
            }
            (false, _) => continue,
        };
        write(&mut text, offset, &value);
    }
    let value = stop.row.params.iter().find(|(_, part)| *part == Part::Value);
    if let Some((ty, _)) = value {
        let [array, element] = if *ty == "i1" { ["800", "i8"] } else { ["0", "i32"] };
        debug_assert_eq!(at::VOTE, 800);
        let _ = write!(
            text,
            "  %{s}.values = getelementptr i8, ptr %op, i64 {array}\n  \
             %{s}.value.in = getelementptr {element}, ptr %{s}.values, i64 %l\n  \
             %{s}.value = load {element}, ptr %{s}.value.in\n  %{s}.low = zext {element} %{s}.value to i64\n"
        );
        let high = if *ty == "i64" {
            let _ = write!(
                text,
                "  %{s}.highs = getelementptr i8, ptr %op, i64 {}\n  \
                 %{s}.high.in = getelementptr i32, ptr %{s}.highs, i64 %l\n  \
                 %{s}.high = load i32, ptr %{s}.high.in\n  %{s}.high.wide = zext i32 %{s}.high to i64\n  \
                 %{s}.high.up = shl i64 %{s}.high.wide, 32\n",
                at::HIGH
            );
            format!("%{s}.high.up")
        } else {
            "0".to_owned()
        };
        let _ = write!(
            text,
            "  %{s}.whole = or i64 %{s}.low, {high}\n  %{s}.at8 = getelementptr i8, ptr %record, i64 8\n  \
             store i64 %{s}.whole, ptr %{s}.at8\n"
        );
    }
    text
}

const _: () = assert!(EXITED == 1 && BARRIER == 2);
