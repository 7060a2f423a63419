//! LLVM IR around the kernels' bodies: block functions, the kernel table, and the constructor that registers it.
//!
//! Trap: these texts repeat the layouts of eager-exec's `abi.rs` (`KernelTable`, `KernelEntry`, `ParamDesc`,
//! `VariableEntry`, `MemoryRange`); a change there needs the same change here.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::body::Body;
use crate::import::Imported;
use crate::llvm::escaped;
use crate::loops::{DIMENSIONS, Loops, Part};
use crate::thread::Form;
use crate::thread_call::{Marks, guard_call, load_arguments, parallel};
use crate::{Budget, DEVICE_CODE_SYMBOL, Options, guards, regions, warp};

/// `KERNEL_ABI_VERSION` and `REGISTER_SYMBOL` of the binary interface.
pub(crate) const ABI_VERSION: u32 = 7;
pub(crate) const REGISTER_SYMBOL: &str = "eager_vgpu_register";
/// `CHECKS` and `REPORTS_ORDER` of the binary interface.
const STRICT: u32 = 1 << 3 | 1 << 8;
const NAMES_WAITS: u32 = 1 << 9;
/// The constructor's name in the module; every other defined symbol is internal.
pub(crate) const CONSTRUCTOR: &str = "eager.register";
/// List of the memory of device variables, which [`crate::variables::place`] fills.
pub(crate) const MEMORY: &str = "eager.memory";
/// Runs before clang's constructor (65535), which looks up the kernels.
const CONSTRUCTOR_PRIORITY: u32 = 101;

/// Returns the whole text for a module with these kernels and variables.
pub(crate) fn driver(bodies: &[Body], imported: &Imported, options: &Options) -> String {
    let mut text = String::from(
        "declare ptr @eager.arena(ptr, i64)\n\
         declare i64 @eager.threads(ptr)\ndeclare i64 @llvm.umin.i64(i64, i64)\n\
         declare i32 @llvm.umin.i32(i32, i32)\ndeclare i32 @llvm.umax.i32(i32, i32)\n\
         declare void @eager.check(ptr, i32, i32, i32, ptr, i64, ptr, i64, ptr, i32)\ndeclare void @eager.flush(ptr, ptr)\n\
         declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\ndeclare i32 @eager.ready_lanes(ptr, i32)\ndeclare i1 @eager.next_round(ptr)\n\
         declare void @llvm.lifetime.start.p0(i64, ptr)\ndeclare void @llvm.lifetime.end.p0(i64, ptr)\n\
         declare i32 @llvm.cttz.i32(i32, i1)\ndeclare i32 @llvm.ctlz.i32(i32, i1)\ndeclare i1 @llvm.coro.done(ptr)\ndeclare void @llvm.coro.resume(ptr)\n\n",
    );
    for body in bodies {
        text.push_str(&block_functions(body, options));
    }
    text.push_str(&warp::declarations());
    text.push_str(PARALLEL);
    text.push_str(warp::LOOPS);
    text.push_str(&table(bodies, imported, options));
    text
}

pub(crate) fn block_symbol(body: &Body) -> String {
    escaped(&format!("{}.block", body.kernel))
}

/// Metadata for promises that threads are independent between barriers, and for loops that are not vectorised.
const PARALLEL: &str = "!1 = distinct !{}\n!2 = !{!\"llvm.loop.parallel_accesses\", !1}\n!3 = distinct !{!3, !2}\n\
     !4 = distinct !{!4, !2, !5}\n!6 = distinct !{!6, !5}\n!5 = !{!\"llvm.loop.vectorize.enable\", i1 false}\n";

/// A kernel that runs in loops has two block functions: one that marks the touch map, and one that does not, whose
/// loops the optimiser can make much faster. Each block picks one by whether there is a map
/// (`BlockContext::touch_limit`).
fn block_functions(body: &Body, options: &Options) -> String {
    let symbol = block_symbol(body);
    let one = |symbol: &str, marks| match (&body.cut, &body.warp) {
        (Some(cut), _) => regions::block_function(body, cut, symbol, marks, &options.budget),
        (_, Some(cut)) => warp::block_function(body, cut, symbol, marks, &options.budget),
        _ => block_function(body, symbol, marks, &options.budget),
    };
    let mut text = declarations(body);
    text.push_str(&regions::any_region(body));
    text.push_str(&regions::barrier_table(body));
    if let Some(cut) = &body.warp {
        text.push_str(&warp::functions(body, cut));
    }
    let only = match () {
        () if !options.touch => Some(Marks::Never),
        () if body.form.is_coroutine() => Some(Marks::Always),
        () if body.economy.one_version => Some(Marks::Asked),
        () => None,
    };
    if let Some(marks) = only {
        return text + &one(&symbol, marks);
    }
    let [marked, quick] = ["marked", "quick"].map(|way| format!("{symbol}.{way}"));
    text.push_str(&one(&marked, Marks::Always));
    text.push_str(&one(&quick, Marks::Never));
    let _ = write!(
        text,
        "define internal void @\"{symbol}\"(ptr %ctx, ptr %args) {{\n  \
         %limit.at = getelementptr i8, ptr %ctx, i64 72\n  %limit = load i64, ptr %limit.at\n  \
         %no.map = icmp eq i64 %limit, 0\n  br i1 %no.map, label %quick, label %marked\n\
         quick:\n  call void @\"{quick}\"(ptr %ctx, ptr %args)\n  ret void\n\
         marked:\n  call void @\"{marked}\"(ptr %ctx, ptr %args)\n  ret void\n}}\n"
    );
    text
}

/// Declares the thread function and the guard functions.
fn declarations(body: &Body) -> String {
    let (result, own) = match body.form {
        Form::Fission | Form::Warp => ("i32", ", i32, ptr, i64, i64, i32, ptr, ptr"),
        Form::Plain => ("void", ", i32"),
        Form::Rounds | Form::Scheduled => ("ptr", ""),
    };
    let types: String = body.params.iter().fold(String::new(), |types, p| types + ", " + &p.ty);
    let regions = body.cut.iter().flat_map(|cut| &cut.regions).filter_map(|region| region.guard);
    let warps = body.warp.iter().flat_map(|cut| &cut.regions).filter_map(|region| Some(region.guard?.guard));
    let guards: BTreeSet<usize> = body.guard.into_iter().chain(regions).chain(warps).collect();
    let mut text =
        format!("declare {result} @\"{}\"(ptr, i32, i32, i32, ptr, i1{own}{types})\n", escaped(&body.symbol));
    for guard in guards {
        let symbol = escaped(&guards::symbol(&body.kernel, guard));
        let _ = writeln!(text, "declare i64 @\"{symbol}\"({}{types})", guards::PARAMS);
    }
    text
}

fn block_function(body: &Body, symbol: &str, marks: Marks, budget: &Budget) -> String {
    let coroutine = body.form.is_coroutine();
    let mut text = format!(
        "define internal void @\"{symbol}\"(ptr dereferenceable(192) align 8 %ctx, ptr %args) {{\nentry:\n{DIMENSIONS}"
    );
    // Counters of threads that never suspend stay in registers; coroutines add to the block's own counters.
    text.push_str(if coroutine {
        "  %out = getelementptr i8, ptr %ctx, i64 96\n"
    } else {
        "  %out = alloca [4 x i64]\n  call void @llvm.memset.p0.i64(ptr %out, i8 0, i64 32, i1 false)\n"
    });
    text.push_str(marks.asked());
    let arguments = load_arguments(body, &mut text);
    let [group, parallel_loop] = parallel(body, body.accesses, budget);
    let marked = marks.value();
    let thread_function = escaped(&body.symbol);
    let guard = body.guard.filter(|_| marks == Marks::Never);
    let thread = |p: &str, part: Part| {
        let call = if coroutine {
            format!("%{p}.handle = call ptr @\"{thread_function}\"(INDEX, ptr %out, i1 {marked}")
        } else {
            let part = guards::part_number(guard, part);
            format!("call void @\"{thread_function}\"(INDEX, ptr %out, i1 {marked}, i32 {part}")
        };
        let call = call.replace("INDEX", &format!("ptr %ctx, i32 %{p}.x, i32 %t.y, i32 %t.z"));
        format!("  {call}{arguments}){group}\n  br label %{p}.thread.end\n")
    };
    let guard = guard.map(|guard| guard_call(body, guard, "null", &arguments));
    let guard = guard.as_ref().map(|guard| guard as &dyn Fn(&str) -> String);
    if body.form == Form::Scheduled {
        let start = format!(
            "%handle = call ptr @\"{thread_function}\"(ptr %ctx, i32 %s.x, i32 %s.y, i32 %s.z, ptr %out, i1 {marked}{arguments})"
        );
        return text + &SCHEDULED.replace("%START", &start) + "finish:\n  ret void\n}\n";
    }
    let loops = Loops { prefix: "t", exit: "started", thread: &thread, guard, parallel_loop };
    text.push_str("  br label %t.begin\n");
    text.push_str(&loops.text());
    text.push_str(match body.form {
        Form::Plain => {
            "started:\n  %sums = getelementptr i8, ptr %ctx, i64 96\n  \
             call void @eager.flush(ptr %out, ptr %sums)\n  br label %finish\n"
        }
        _ => ROUNDS,
    });
    text.push_str("finish:\n  ret void\n}\n");
    text
}

/// Resumes the threads that the executor's scheduler releases, warp by warp, in rising or falling order as the
/// scheduler says. The threads of a warp start at its first turn, so that they run in the order of the form `Warp`; a
/// block that resumes after yielding continues with its existing threads.
const SCHEDULED: &str = "\
  %phase.at = getelementptr i8, ptr %ctx, i64 92
  %phase = load i32, ptr %phase.at
  %starts = icmp ne i32 %phase, 1
  %stride.at = getelementptr i8, ptr %ctx, i64 120
  %frames.at = getelementptr i8, ptr %ctx, i64 48
  %n = call i64 @eager.threads(ptr %ctx)
  %padded = add i64 %n, 31
  %warps = lshr i64 %padded, 5
  br label %sweep
sweep:
  %is.start = phi i1 [ %starts, %entry ], [ false, %sweep.end ]
  %falling.at = getelementptr i8, ptr %ctx, i64 160
  %falling = load i64, ptr %falling.at
  %down = icmp ne i64 %falling, 0
  %warp.last = sub i64 %warps, 1
  br label %warp
warp:
  %w.count = phi i64 [ 0, %sweep ], [ %w.next, %warp.end ]
  %w.falling = sub i64 %warp.last, %w.count
  %w = select i1 %down, i64 %w.falling, i64 %w.count
  %w.narrow = trunc i64 %w to i32
  %first = shl i64 %w, 5
  br i1 %is.start, label %start, label %ask
start:
  %s.i = phi i64 [ %first, %warp ], [ %s.next, %start ]
  %s.narrow = trunc i64 %s.i to i32
  %s.x = urem i32 %s.narrow, %nx
  %s.row = udiv i32 %s.narrow, %nx
  %s.y = urem i32 %s.row, %ny
  %s.z = udiv i32 %s.row, %ny
  %START
  %s.next = add nuw nsw i64 %s.i, 1
  %s.low = and i64 %s.next, 31
  %s.inside = icmp ne i64 %s.low, 0
  %s.exists = icmp ult i64 %s.next, %n
  %s.more = and i1 %s.inside, %s.exists
  br i1 %s.more, label %start, label %ask
ask:
  %stride = load i64, ptr %stride.at
  %frames = load ptr, ptr %frames.at
  %ready = call i32 @eager.ready_lanes(ptr %ctx, i32 %w.narrow)
  %none = icmp eq i32 %ready, 0
  br i1 %none, label %warp.end, label %lane
lane:
  %left = phi i32 [ %ready, %ask ], [ %left.next, %lane ]
  %low = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %above = call i32 @llvm.ctlz.i32(i32 %left, i1 true)
  %high = sub i32 31, %above
  %bit = select i1 %down, i32 %high, i32 %low
  %bit.wide = zext i32 %bit to i64
  %i = add i64 %first, %bit.wide
  %offset = mul i64 %i, %stride
  %frame = getelementptr i8, ptr %frames, i64 %offset
  call void @llvm.coro.resume(ptr %frame)
  %resumed = shl i32 1, %bit
  %left.next = xor i32 %left, %resumed
  %last = icmp eq i32 %left.next, 0
  br i1 %last, label %ask, label %lane
warp.end:
  %w.next = add nuw nsw i64 %w.count, 1
  %w.more = icmp ult i64 %w.next, %warps
  br i1 %w.more, label %warp, label %sweep.end
sweep.end:
  %more = call i1 @eager.next_round(ptr %ctx)
  br i1 %more, label %sweep, label %finish
";

/// Resumes every waiting thread, round after round, until all have returned.
const ROUNDS: &str = "\
started:
  %stride.at = getelementptr i8, ptr %ctx, i64 120
  %stride = load i64, ptr %stride.at
  %frames.at = getelementptr i8, ptr %ctx, i64 48
  %frames = load ptr, ptr %frames.at
  %n = call i64 @eager.threads(ptr %ctx)
  br label %round
round:
  br label %look
look:
  %i = phi i64 [ 0, %round ], [ %i.next, %next ]
  %alive = phi i1 [ false, %round ], [ %alive.next, %next ]
  %offset = mul i64 %i, %stride
  %frame = getelementptr i8, ptr %frames, i64 %offset
  %done = call i1 @llvm.coro.done(ptr %frame)
  br i1 %done, label %next, label %go
go:
  call void @llvm.coro.resume(ptr %frame)
  br label %next
next:
  %alive.next = phi i1 [ %alive, %look ], [ true, %go ]
  %i.next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %i.next, %n
  br i1 %more, label %look, label %round.end
round.end:
  br i1 %alive.next, label %round, label %finish
";

fn table(bodies: &[Body], imported: &Imported, options: &Options) -> String {
    let mut text = String::from("!0 = !{}\ndeclare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n");
    let recorded =
        u32::from(options.touch) | (u32::from(options.counters) << 1) | (u32::from(options.strict) * STRICT);
    let mut entries = Vec::new();
    for (index, body) in bodies.iter().enumerate() {
        let name = &body.kernel;
        let bounds = imported.bounds.get(name).copied().unwrap_or_default();
        let params: Vec<String> = body
            .params
            .iter()
            .map(|p| format!("{{ i32, i32 }} {{ i32 {}, i32 {} }}", p.size, p.align))
            .collect();
        let _ = write!(
            text,
            "@eager.name.{index} = internal constant [{length} x i8] c\"{quoted}\\00\"\n\
             @eager.params.{index} = internal constant [{count} x {{ i32, i32 }}] [{params}]\n",
            length = name.len() + 1,
            quoted = escaped(name),
            count = params.len(),
            params = params.join(", "),
        );
        entries.push(format!(
            "%entry {{ ptr @eager.name.{index}, ptr @\"{block}\", ptr @eager.params.{index}, i32 {count}, i32 {mode}, \
             i32 {shared}, i32 {flags}, i32 {threads_max}, i32 {cluster} }}",
            block = block_symbol(body),
            count = params.len(),
            mode = body.form.mode() as u32,
            flags = recorded | u32::from(body.form.waits()) << 2 | u32::from(body.yields) << 4
                | u32::from(body.uses_cluster) << 5 | (u32::from(body.form == Form::Scheduled) * NAMES_WAITS),
            shared = body.static_shared_bytes,
            threads_max = bounds.threads_max,
            cluster = bounds.cluster,
        ));
    }
    let mut listed = Vec::new();
    for (index, variable) in imported.variables.iter().enumerate() {
        let _ = writeln!(
            text,
            "@eager.variable.{index} = internal constant [{} x i8] c\"{}\\00\"\n@\"{symbol}\" = external global i8",
            variable.name.len() + 1,
            escaped(&variable.name),
            symbol = escaped(&variable.symbol),
        );
        listed.push(format!(
            "%variable {{ ptr @eager.variable.{index}, ptr @\"{}\", i64 {} }}",
            escaped(&variable.symbol),
            variable.bytes
        ));
    }
    let _ = write!(
        text,
        "%entry = type {{ ptr, ptr, ptr, i32, i32, i32, i32, i32, i32 }}\n%variable = type {{ ptr, ptr, i64 }}\n\
         @eager.kernels = internal constant [{kernels} x %entry] [{entries}]\n\
         @eager.variables = internal constant [{count} x %variable] [{listed}]\n\
         @{DEVICE_CODE_SYMBOL} = extern_weak global i8\n\
         @{MEMORY} = internal global <{{ ptr, i64, ptr, i64 }}> zeroinitializer, align 8\n\
         @eager.table = internal constant {{ i32, i32, i32, i32, ptr, ptr, ptr, ptr }} \
         {{ i32 {ABI_VERSION}, i32 {kernels}, i32 {count}, i32 {architecture}, ptr @eager.kernels, ptr @eager.variables, \
         ptr @{DEVICE_CODE_SYMBOL}, ptr @{MEMORY} }}\n",
        kernels = entries.len(),
        architecture = imported.architecture,
        entries = entries.join(",\n  "),
        count = listed.len(),
        listed = listed.join(",\n  "),
    );
    text + &constructor()
}

/// Emits the constructor, which registers the table with the stand-in runtime; on NVIDIA's, which lacks the function,
/// it does nothing.
fn constructor() -> String {
    format!(
        "declare extern_weak void @{REGISTER_SYMBOL}(ptr)\n\
         @llvm.global_ctors = appending global [1 x {{ i32, ptr, ptr }}] \
         [{{ i32, ptr, ptr }} {{ i32 {CONSTRUCTOR_PRIORITY}, ptr @{CONSTRUCTOR}, ptr null }}]\n\
         define internal void @{CONSTRUCTOR}() {{\n  \
         %there = icmp ne ptr @{REGISTER_SYMBOL}, null\n  br i1 %there, label %register, label %done\n\
         register:\n  call void @{REGISTER_SYMBOL}(ptr @eager.table)\n  br label %done\ndone:\n  ret void\n}}\n"
    )
}
