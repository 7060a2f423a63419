//! LLVM IR of the block function of a kernel that is cut at its barriers: one loop over the threads per region.
//!
//! While all threads go the same way, the loop of their region runs with the region's code inlined. Trap: once they may
//! diverge (some have exited, or wait elsewhere), each thread is sent to its own region by a call, round by round,
//! until all agree again; a thread must not run two regions in one round.

use std::fmt::Write;

use crate::Budget;
use crate::body::Body;
use crate::fission::{Cut, Region};
use crate::guards::part_number;
use crate::llvm::escaped;
use crate::loops::{DIMENSIONS, Loops, Part};
use crate::races::PARTED;
use crate::thread_call::{Marks, guard_call, load_arguments, parallel};

/// Context shared by the parts of one block function's text.
struct BlockText<'a> {
    body: &'a Body,
    cut: &'a Cut,
    symbol: String,
    marks: Marks,
    budget: &'a Budget,
    arguments: String,
}

pub(crate) fn block_function(body: &Body, cut: &Cut, name: &str, marks: Marks, budget: &Budget) -> String {
    let mut text = format!(
        "define internal void @\"{name}\"(ptr dereferenceable(192) align 8 %ctx, ptr %args) {{\nentry:\n{DIMENSIONS}"
    );
    let _ = write!(
        text,
        "  %sums = getelementptr i8, ptr %ctx, i64 96\n  %next = alloca i32\n  %any = alloca i32\n  %low = alloca i32\n  %high = alloca i32\n  \
         %all = alloca i32\n  %common = alloca [{common} x i8], align 16\n  \
         %common.next = alloca [{common} x i8], align 16\n  \
         %out = alloca [4 x i64]\n  call void @llvm.memset.p0.i64(ptr %out, i8 0, i64 32, i1 false)\n  \
         %n = call i64 @eager.threads(ptr %ctx)\n  %state.bytes = mul i64 %n, {state_bytes}\n  \
         %padded = add i64 %state.bytes, 63\n  %states.bytes = and i64 %padded, -64\n  \
         %array.bytes = mul i64 %n, {bytes}\n  %need = add i64 %states.bytes, %array.bytes\n  \
         %states = call ptr @eager.arena(ptr %ctx, i64 %need)\n  \
         %frames = getelementptr i8, ptr %states, i64 %states.bytes\n",
        common = cut.uniform_bytes,
        state_bytes = if cut.uniform { 0 } else { 4 },
        bytes = cut.bytes_per_thread,
    );
    text.push_str(marks.asked());
    let arguments = load_arguments(body, &mut text);
    let block = BlockText { body, cut, symbol: escaped(&body.symbol), marks, budget, arguments };
    text.push_str("  br label %r0.begin\n");
    for region in &cut.regions {
        text.push_str(&block.region(region));
    }
    if !cut.uniform {
        text.push_str(&block.look());
        text.push_str(&block.mixed());
        text.push_str(&block.parted());
    }
    text + "finish:\n  call void @eager.flush(ptr %out, ptr %sums)\n  ret void\n}\n"
}

impl BlockText<'_> {
    /// Text of a region that all threads run next, and of the jump after it.
    fn region(&self, region: &Region) -> String {
        let number = region.number;
        let p = format!("r{number}");
        if region.once {
            let call = self.call(&p, ["0", "0", "0", "0"], region, Part::Unknown, "");
            return format!("{p}.begin:\n{call}  store i32 %{p}.next, ptr %next\n")
                + &self.behind(&p, region);
        }
        let [group, parallel_loop] = parallel(self.body, region.accesses, self.budget);
        let thread = |q: &str, part: Part| {
            let index = [format!("%{q}.x"), format!("%{p}.y"), format!("%{p}.z"), format!("%{q}.i")];
            let [x, y, z, i] = &index;
            self.call(q, [x, y, z, i], region, part, group) + &self.note_next(q, group)
        };
        let guard = region.guard.filter(|_| self.marks == Marks::Never);
        let guard = guard.map(|guard| guard_call(self.body, guard, "%common", &self.arguments));
        let guard = guard.as_ref().map(|guard| guard as &dyn Fn(&str) -> String);
        let exit = if self.cut.uniform { format!("{p}.behind") } else { "look".to_owned() };
        let loops = Loops { prefix: &p, exit: &exit, thread: &thread, guard, parallel_loop };
        if self.cut.uniform {
            return loops.text() + &format!("{exit}:\n") + &self.behind(&p, region);
        }
        loops.text().replace(&format!("{p}.begin:\n"), &format!("{p}.begin:\n{FORGET}"))
    }

    fn call(&self, q: &str, index: [&str; 4], region: &Region, part: Part, group: &str) -> String {
        let [x, y, z, i] = index;
        // -1 instead of 0, because as a next region 0 means "none"; only the first region has number 0.
        let number = if region.number == 0 { -1 } else { region.number.cast_signed() };
        let part = part_number(region.guard.filter(|_| self.marks == Marks::Never), part);
        format!(
            "  %{q}.next = call i32 @\"{}\"(ptr %ctx, i32 {x}, i32 {y}, i32 {z}, ptr %out, i1 {}, i32 {part}, \
             ptr %frames, i64 {i}, i64 %n, i32 {number}, ptr %common, ptr %common.next{}){group}\n",
            self.symbol,
            self.marks.value(),
            self.arguments
        )
    }

    /// Stores the region in which a thread continues.
    fn note_next(&self, q: &str, group: &str) -> String {
        let noted = if self.cut.uniform {
            format!("  store i32 %{q}.next, ptr %next\n")
        } else {
            format!(
                "  %{q}.state.at = getelementptr i32, ptr %states, i64 %{q}.i\n  \
                 store i32 %{q}.next, ptr %{q}.state.at{group}\n  \
                 %{q}.any.old = load i32, ptr %any\n  %{q}.any.new = or i32 %{q}.any.old, %{q}.next\n  \
                 store i32 %{q}.any.new, ptr %any\n  \
                 %{q}.all.old = load i32, ptr %all\n  %{q}.all.new = and i32 %{q}.all.old, %{q}.next\n  \
                 store i32 %{q}.all.new, ptr %all\n"
            )
        };
        noted + &format!("  br label %{q}.thread.end\n")
    }

    /// Jumps to the region in which all threads continue.
    fn behind(&self, p: &str, region: &Region) -> String {
        let mut text = String::new();
        if self.cut.uniform_bytes > 0 {
            let _ = writeln!(
                text,
                "  call void @llvm.memcpy.p0.p0.i64(ptr align 16 %common, ptr align 16 %common.next, i64 {}, i1 false)",
                self.cut.uniform_bytes
            );
        }
        let label = |next: u64| if next == 0 { "finish".to_owned() } else { format!("r{next}.begin") };
        let mut next = region.next.iter().copied();
        let first = label(next.next().unwrap_or(0));
        let cases: String = next.map(|next| format!("i32 {next}, label %{} ", label(next))).collect();
        let _ = writeln!(
            text,
            "  %{p}.go = load i32, ptr %next\n  switch i32 %{p}.go, label %{first} [ {cases}]"
        );
        text
    }

    /// After a round: checks if all threads continue in one region.
    fn look(&self) -> String {
        let numbers = self.cut.regions.iter().map(|region| region.number).filter(|&number| number > 0);
        let cases: String = numbers.map(|number| format!("i32 {number}, label %r{number}.begin ")).collect();
        format!(
            "look:\n  %some = load i32, ptr %any\n  %every = load i32, ptr %all\n  \
             %none = icmp eq i32 %some, 0\n  br i1 %none, label %finish, label %compare\n\
             compare:\n  %same = icmp eq i32 %some, %every\n  br i1 %same, label %agree, label %mixed.begin\n\
             agree:\n  switch i32 %some, label %mixed.begin [ {cases}]\n"
        )
    }

    /// A round in which threads run different regions.
    fn mixed(&self) -> String {
        let thread = |p: &str, _: Part| {
            format!(
                "  %{p}.due.at = getelementptr i32, ptr %states, i64 %{p}.i\n  \
                 %{p}.due = load i32, ptr %{p}.due.at\n  %{p}.done = icmp eq i32 %{p}.due, 0\n  \
                 br i1 %{p}.done, label %{p}.exited, label %{p}.go\n\
                 {p}.exited:\n  store i32 0, ptr %all\n  br label %{p}.thread.end\n\
                 {p}.go:\n  %{p}.low.old = load i32, ptr %low\n  \
                 %{p}.low.new = call i32 @llvm.umin.i32(i32 %{p}.low.old, i32 %{p}.due)\n  \
                 store i32 %{p}.low.new, ptr %low\n  %{p}.high.old = load i32, ptr %high\n  \
                 %{p}.high.new = call i32 @llvm.umax.i32(i32 %{p}.high.old, i32 %{p}.due)\n  \
                 store i32 %{p}.high.new, ptr %high\n  %{p}.next = call i32 @\"{}.any\"(ptr %ctx, i32 %{p}.x, i32 %{p}.y, i32 %{p}.z, ptr %sums, \
                 i1 {}, ptr %frames, i64 %{p}.i, i64 %n, i32 %{p}.due{})\n{}",
                self.symbol,
                self.marks.value(),
                self.arguments,
                self.note_next(p, "")
            )
        };
        let loops =
            Loops { prefix: "mixed", exit: "parted", thread: &thread, guard: None, parallel_loop: "" };
        let forget = format!("mixed.begin:\n{FORGET}  store i32 -1, ptr %low\n  store i32 0, ptr %high\n");
        loops.text().replace("mixed.begin:\n", &forget)
    }

    /// After a round in which threads ran different regions: reports threads that waited at barriers in different places.
    fn parted(&self) -> String {
        let Some(places) = barrier_places(self.body, self.cut) else {
            return "parted:\n  br label %look\n".to_owned();
        };
        let text = |end: &str| {
            format!(
                "  %{end}.place.at = getelementptr ptr, ptr @\"{places}\", i32 %{end}.end\n  \
                 %{end}.place = load ptr, ptr %{end}.place.at\n"
            )
        };
        format!(
            "parted:\n  %low.end = load i32, ptr %low\n  %high.end = load i32, ptr %high\n  \
             %alike = icmp uge i32 %low.end, %high.end\n  br i1 %alike, label %look, label %report\n\
             report:\n{}{}  call void @eager.check(ptr %ctx, i32 0, i32 0, i32 0, ptr null, i64 0, ptr %high.place, i64 0, \
             ptr %low.place, i32 {PARTED})\n  br label %look\n",
            text("low"),
            text("high"),
        )
    }
}

/// Name of the table of places of a kernel's barriers, by the numbers of the regions behind them, if it needs one.
fn barrier_places(body: &Body, cut: &Cut) -> Option<String> {
    let differ = cut.places.values().any(|place| cut.places.values().next() != Some(place));
    (differ && !cut.uniform).then(|| escaped(&format!("{}.places", body.symbol)))
}

/// The table of [`barrier_places`] and the texts in it.
pub(crate) fn barrier_table(body: &Body) -> String {
    let Some((cut, table)) = body.cut.as_ref().and_then(|cut| Some((cut, barrier_places(body, cut)?))) else {
        return String::new();
    };
    let mut text = String::new();
    let count = cut.regions.iter().map(|region| region.number + 1).max().unwrap_or(0);
    let entries = (0..count).map(|number| match cut.places.get(&number) {
        None => "ptr null".to_owned(),
        Some(place) => {
            let name = format!("{table}.{number}");
            let (bytes, place) = (place.len() + 1, escaped(place));
            let _ = writeln!(text, "@\"{name}\" = private constant [{bytes} x i8] c\"{place}\\00\"");
            format!("ptr @\"{name}\"")
        }
    });
    let entries = entries.collect::<Vec<_>>().join(", ");
    let _ = writeln!(text, "@\"{table}\" = private constant [{count} x ptr] [{entries}]");
    text
}

const FORGET: &str = "  store i32 0, ptr %any\n  store i32 -1, ptr %all\n";

/// The thread function, not inlined, for calls whose region is known only at run time; empty for kernels that do not
/// need it.
pub(crate) fn any_region(body: &Body) -> String {
    if body.cut.as_ref().is_none_or(|cut| cut.uniform) {
        return String::new();
    }
    let symbol = escaped(&body.symbol);
    let named: String = (0..)
        .zip(&body.params)
        .fold(String::new(), |names, (index, p)| names + &format!(", {} %p{index}", p.ty));
    let thread = "ptr %ctx, i32 %x, i32 %y, i32 %z, ptr %out, i1 %marks";
    let region = "ptr %frames, i64 %i, i64 %n, i32 %state";
    format!(
        "define internal i32 @\"{symbol}.any\"({thread}, {region}{named}) noinline {{\n  \
         %next = call i32 @\"{symbol}\"({thread}, i32 0, {region}, ptr null, ptr null{named})\n  \
         ret i32 %next\n}}\n"
    )
}
