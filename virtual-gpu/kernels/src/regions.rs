//! LLVM IR of the block function of a kernel that is cut at its barriers: one loop over the threads per region.
//!
//! As long as all threads go the same way, the loop of their region runs with the region's code inlined. Trap: once
//! they go different ways (some have exited, or wait elsewhere) each thread is sent to its own region by a call, round
//! by round, until all agree again; a thread must not run two regions in one round.

use std::fmt::Write;

use crate::body::Body;
use crate::driver::{escaped, load_arguments, parallel};

/// Runs `call` (which gives `%¤next`) for every thread, and leaves in `%any` and `%all` what all next regions have in
/// some and in every one of their bits. `¤`, which no symbol contains, stands for the labels' prefix.
fn loop_over_threads(prefix: &str, call: &str, [group, parallel_loop]: [&str; 2]) -> String {
    "¤begin:
  store i32 0, ptr %any
  store i32 -1, ptr %all
  br label %¤planes
¤planes:
  %¤z = phi i32 [ 0, %¤begin ], [ %¤z.next, %¤plane.end ]
  br label %¤rows
¤rows:
  %¤y = phi i32 [ 0, %¤planes ], [ %¤y.next, %¤row.end ]
  br label %¤threads
¤threads:
  %¤x = phi i32 [ 0, %¤rows ], [ %¤x.next, %¤thread.end ]
  %¤linear = call i32 @eager.linear_thread(ptr %ctx, i32 %¤x, i32 %¤y, i32 %¤z)
  %¤i = zext i32 %¤linear to i64
  %¤state.at = getelementptr i32, ptr %states, i64 %¤i
CALL
¤ran:
  store i32 %¤next, ptr %¤state.atGROUP
  %¤any.old = load i32, ptr %any
  %¤any.new = or i32 %¤any.old, %¤next
  store i32 %¤any.new, ptr %any
  %¤all.old = load i32, ptr %all
  %¤all.new = and i32 %¤all.old, %¤next
  store i32 %¤all.new, ptr %all
  br label %¤thread.end
¤thread.end:
  %¤x.next = add nuw nsw i32 %¤x, 1
  %¤x.more = icmp ult i32 %¤x.next, %nx
  br i1 %¤x.more, label %¤threads, label %¤row.endLOOP
¤row.end:
  %¤y.next = add nuw nsw i32 %¤y, 1
  %¤y.more = icmp ult i32 %¤y.next, %ny
  br i1 %¤y.more, label %¤rows, label %¤plane.end
¤plane.end:
  %¤z.next = add nuw nsw i32 %¤z, 1
  %¤z.more = icmp ult i32 %¤z.next, %nz
  br i1 %¤z.more, label %¤planes, label %look
"
    .replace("CALL", call)
    .replace("GROUP", group)
    .replace("LOOP", parallel_loop)
    .replace('¤', &format!("{prefix}."))
}

/// With or without marks in the touch map.
pub(crate) fn block_function(body: &Body, name: &str, marks: bool) -> String {
    let symbol = escaped(&body.symbol);
    let mut text = format!(
        "define internal void @\"{name}\"(ptr dereferenceable(192) align 8 %ctx, ptr %args) {{\nentry:\n"
    );
    let _ = write!(
        text,
        "  %sums = getelementptr i8, ptr %ctx, i64 96\n  %any = alloca i32\n  %all = alloca i32\n  \
         %out = alloca [4 x i64]\n  call void @llvm.memset.p0.i64(ptr %out, i8 0, i64 32, i1 false)\n  \
         %nx.at = getelementptr i8, ptr %ctx, i64 12\n  %nx = load i32, ptr %nx.at, !invariant.load !0\n  \
         %ny.at = getelementptr i8, ptr %ctx, i64 16\n  %ny = load i32, ptr %ny.at, !invariant.load !0\n  \
         %nz.at = getelementptr i8, ptr %ctx, i64 20\n  %nz = load i32, ptr %nz.at, !invariant.load !0\n  \
         %n = call i64 @eager.threads(ptr %ctx)\n  %state.bytes = mul i64 %n, 4\n  \
         %padded = add i64 %state.bytes, 63\n  %states.bytes = and i64 %padded, -64\n  \
         %array.bytes = mul i64 %n, {bytes}\n  %need = add i64 %states.bytes, %array.bytes\n  \
         %states = call ptr @eager.arena(ptr %ctx, i64 %need)\n  \
         %frames = getelementptr i8, ptr %states, i64 %states.bytes\n",
        bytes = body.bytes_per_thread,
    );
    let arguments = load_arguments(body, &mut text);
    text.push_str("  br label %r0.begin\n");
    for region in 0..=body.barriers {
        // No barrier has the number of the start.
        let number = if region == 0 { -1 } else { region as i64 };
        let call = format!(
            "  %¤next = call i32 @\"{symbol}\"(ptr %ctx, i32 %¤x, i32 %¤y, i32 %¤z, ptr %out, i1 {marks}, ptr %frames, \
             i64 %¤i, i64 %n, i32 {number}{arguments})GROUP\n  br label %¤ran"
        );
        text.push_str(&loop_over_threads(&format!("r{region}"), &call, parallel(body)));
    }
    let call = format!(
        "  %¤state = load i32, ptr %¤state.at\n  %¤done = icmp eq i32 %¤state, 0\n  \
         br i1 %¤done, label %¤exited, label %¤go\n\
         ¤exited:\n  store i32 0, ptr %all\n  br label %¤thread.end\n\
         ¤go:\n  %¤next = call i32 @\"{symbol}.any\"(ptr %ctx, i32 %¤x, i32 %¤y, i32 %¤z, ptr %sums, i1 {marks}, \
         ptr %frames, i64 %¤i, i64 %n, i32 %¤state{arguments})\n  br label %¤ran"
    );
    text.push_str(&loop_over_threads("mixed", &call, ["", ""]));
    let cases: String =
        (1..=body.barriers).map(|region| format!("i32 {region}, label %r{region}.begin ")).collect();
    let _ = write!(
        text,
        "look:\n  %some = load i32, ptr %any\n  %every = load i32, ptr %all\n  \
         %none = icmp eq i32 %some, 0\n  br i1 %none, label %finish, label %compare\n\
         compare:\n  %same = icmp eq i32 %some, %every\n  br i1 %same, label %agree, label %mixed.begin\n\
         agree:\n  switch i32 %some, label %mixed.begin [ {cases}]\n\
         finish:\n  call void @eager.flush(ptr %out, ptr %sums)\n  ret void\n}}\n"
    );
    text
}

/// The thread function, not inlined, for a region that is only known when it runs.
pub(crate) fn any_region(body: &Body) -> String {
    let symbol = escaped(&body.symbol);
    let named: String = (0..)
        .zip(&body.params)
        .fold(String::new(), |names, (index, p)| names + &format!(", {} %p{index}", p.ty));
    let own =
        "ptr %ctx, i32 %x, i32 %y, i32 %z, ptr %out, i1 %marks, ptr %frames, i64 %i, i64 %n, i32 %state";
    format!(
        "define internal i32 @\"{symbol}.any\"({own}{named}) noinline {{\n  \
         %next = call i32 @\"{symbol}\"({own}{named})\n  ret i32 %next\n}}\n"
    )
}
