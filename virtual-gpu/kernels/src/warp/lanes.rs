//! LLVM IR, common to all kernels, for warps whose lanes have diverged: it starts lanes, checks if they are at one
//! place again, and prepares their state for the block.
//!
//! Trap: offsets in wait records are those of eager-exec's `Wait`.

use super::ops::at;

/// Declarations for the text of block functions.
pub(crate) const DECLARATIONS: &str = "\
declare void @eagerwarp.start(i64, ptr)
declare i32 @eagerwarp.left(i64, ptr)
declare void @eagerwarp.note(ptr, i64, ptr)
declare i32 @eagerwarp.agree(ptr)
declare void @eagerwarp.own(ptr, i64, ptr)
declare i1 @eagerwarp.common(ptr, i64, ptr)
";

pub(crate) fn text() -> String {
    [START_AND_LEFT, NOTE, AGREE, &answers()].concat()
}

/// Functions that start a warp's lanes, and that tell which of them have not exited.
const START_AND_LEFT: &str = "\
define void @eagerwarp.start(i64 %live, ptr %due) noinline {
entry:
  br label %lane
lane:
  %l = phi i64 [ 0, %entry ], [ %l.next, %lane ]
  %at = getelementptr i32, ptr %due, i64 %l
  store i32 -1, ptr %at
  %l.next = add nuw nsw i64 %l, 1
  %more = icmp ult i64 %l.next, %live
  br i1 %more, label %lane, label %done
done:
  ret void
}
define i32 @eagerwarp.left(i64 %live, ptr %due) noinline {
entry:
  br label %lane
lane:
  %l = phi i64 [ 0, %entry ], [ %l.next, %lane ]
  %any = phi i32 [ 0, %entry ], [ %any.next, %lane ]
  %at = getelementptr i32, ptr %due, i64 %l
  %due.of = load i32, ptr %at
  %any.next = or i32 %any, %due.of
  %l.next = add nuw nsw i64 %l, 1
  %more = icmp ult i64 %l.next, %live
  br i1 %more, label %lane, label %done
done:
  ret i32 %any.next
}
";

/// Function that writes wait records for warps that are together at a barrier or have exited, before the executor is
/// asked about the block.
const NOTE: &str = "\
define void @eagerwarp.note(ptr %ctx, i64 %n, ptr %dues) noinline {
entry:
  %waits.at = getelementptr i8, ptr %ctx, i64 136
  %waits = load ptr, ptr %waits.at
  br label %thread
thread:
  %i = phi i64 [ 0, %entry ], [ %i.next, %thread.end ]
  %w = lshr i64 %i, 5
  %l = and i64 %i, 31
  %at = mul i64 %w, 192
  %due = getelementptr i8, ptr %dues, i64 %at
  %state.at = getelementptr i8, ptr %due, i64 128
  %state = load i32, ptr %state.at
  %offset = shl i64 %i, 5
  %record = getelementptr i8, ptr %waits, i64 %offset
  switch i32 %state, label %barrier [ i32 -1, label %thread.end i32 0, label %exited ]
exited:
  store i32 1, ptr %record
  br label %thread.end
barrier:
  %due.at = getelementptr i32, ptr %due, i64 %l
  store i32 %state, ptr %due.at
  store i32 2, ptr %record
  %mask.at = getelementptr i8, ptr %record, i64 4
  store i32 0, ptr %mask.at
  %argument.at = getelementptr i8, ptr %record, i64 16
  store i64 0, ptr %argument.at
  %last = icmp eq i64 %l, 31
  br i1 %last, label %noted, label %thread.end
noted:
  store i32 -1, ptr %state.at
  br label %thread.end
thread.end:
  %i.next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %i.next, %n
  br i1 %more, label %thread, label %done
done:
  ret void
}
";

/// Function that returns the region with which all 32 lanes continue, or 0.
const AGREE: &str = "\
define i32 @eagerwarp.agree(ptr %due) noinline {
  %all = load <32 x i32>, ptr %due, align 4
  %first = extractelement <32 x i32> %all, i64 0
  %one = insertelement <32 x i32> poison, i32 %first, i64 0
  %firsts = shufflevector <32 x i32> %one, <32 x i32> poison, <32 x i32> zeroinitializer
  %differ = icmp ne <32 x i32> %all, %firsts
  %differing = bitcast <32 x i1> %differ to i32
  %same = icmp eq i32 %differing, 0
  %at = select i1 %same, i32 %first, i32 0
  ret i32 %at
}
";

/// Functions that move the results of 32 lanes from their records to the arrays: each lane's own, or the common one if
/// all are equal.
fn answers() -> String {
    let records = "  %waits.at = getelementptr i8, ptr %ctx, i64 136\n  %waits = load ptr, ptr %waits.at\n  \
                   %offset = shl i64 %first, 5\n  %records = getelementptr i8, ptr %waits, i64 %offset\n  \
                   %found = getelementptr i8, ptr %records, i64 24\n";
    let own = format!(
        "define void @eagerwarp.own(ptr %ctx, i64 %first, ptr %op) noinline {{\nentry:\n{records}  \
         %results = getelementptr i8, ptr %op, i64 {}\n  %flags = getelementptr i8, ptr %op, i64 {}\n  br label %lane\n\
         lane:\n  %l = phi i64 [ 0, %entry ], [ %l.next, %lane ]\n  %at = shl i64 %l, 5\n  \
         %from = getelementptr i8, ptr %found, i64 %at\n  %result = load i64, ptr %from\n  \
         %low = trunc i64 %result to i32\n  %to = getelementptr i32, ptr %results, i64 %l\n  store i32 %low, ptr %to\n  \
         %high = lshr i64 %result, 32\n  %flag = trunc i64 %high to i8\n  \
         %flag.to = getelementptr i8, ptr %flags, i64 %l\n  store i8 %flag, ptr %flag.to\n  \
         %l.next = add nuw nsw i64 %l, 1\n  %more = icmp ne i64 %l.next, 32\n  \
         br i1 %more, label %lane, label %done, !llvm.loop !91\ndone:\n  ret void\n}}\n",
        at::RESULT,
        at::PREDICATE,
    );
    let common = format!(
        "define i1 @eagerwarp.common(ptr %ctx, i64 %first, ptr %op) noinline {{\nentry:\n{records}  \
         %result = load i64, ptr %found\n  br label %lane\n\
         lane:\n  %l = phi i64 [ 0, %entry ], [ %l.next, %next ]\n  %at = shl i64 %l, 5\n  \
         %from = getelementptr i8, ptr %found, i64 %at\n  %other = load i64, ptr %from\n  \
         %same = icmp eq i64 %other, %result\n  br i1 %same, label %next, label %none\n\
         next:\n  %l.next = add nuw nsw i64 %l, 1\n  %more = icmp ne i64 %l.next, 32\n  \
         br i1 %more, label %lane, label %keep, !llvm.loop !92\n\
         keep:\n  %low = trunc i64 %result to i32\n  %to = getelementptr i8, ptr %op, i64 {}\n  store i32 %low, ptr %to\n  \
         %high = lshr i64 %result, 32\n  %flag = trunc i64 %high to i8\n  \
         %flag.to = getelementptr i8, ptr %op, i64 {}\n  store i8 %flag, ptr %flag.to\n  ret i1 true\n\
         none:\n  ret i1 false\n}}\n\
         !91 = distinct !{{!91, !90}}\n!92 = distinct !{{!92, !90}}\n!90 = !{{!\"llvm.loop.unroll.disable\"}}\n",
        at::UNIFORM,
        at::COMMON_PREDICATE,
    );
    own + &common
}
