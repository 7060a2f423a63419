//! LLVM IR of the block function of a kernel that runs warp by warp, and of the functions that it calls for diverged
//! lanes.
//!
//! A warp runs until all its lanes have exited, or wait for other warps; then the next warp runs. Its *state* is kept
//! for the next round: 0 (all have exited), the number of a region (all 32 wait at the barrier before it), or -1: each
//! lane has the number of its next region, and its wait record describes its wait. Trap: the executor's scheduler reads
//! these records. A warp in another state has none, so they must be written before the scheduler is asked about the
//! block.

use std::fmt::Write;

use super::ops::{self, Answer, Code, at};
use super::{Region, Stop, WarpCut, WarpGuard, own_arrays};
use crate::body::Body;
use crate::llvm::escaped;
use crate::loops::{DIMENSIONS, Part as Way};
use crate::suspend::Part;
use crate::thread_call::{Marks, load_arguments, parallel};
use crate::{Budget, guards};

/// Metadata of loops over lanes: they are not unrolled before they are vectorised, and loops without branches become
/// operations on 32 lanes.
pub(crate) const LOOPS: &str = "!20 = distinct !{!20, !2, !24}\n!21 = distinct !{!21, !2, !24, !25, !26, !27}\n\
     !22 = distinct !{!22, !24}\n!23 = distinct !{!23, !2, !24, !5}\n!24 = !{!\"llvm.loop.unroll.disable\"}\n\
     !25 = !{!\"llvm.loop.vectorize.enable\", i1 true}\n!26 = !{!\"llvm.loop.vectorize.width\", i32 32}\n\
     !27 = !{!\"llvm.loop.interleave.count\", i32 1}\n";

/// Value of a region's parameter `together` for lanes that have diverged and are in arrays: results lie there for each.
const ARRAYS: u32 = 2;

/// Context shared by the parts of a function that runs warps.
struct WarpText<'a> {
    body: &'a Body,
    cut: &'a WarpCut,
    symbol: String,
    /// Regions are loops in this function; otherwise another function is called for each lane.
    inlined: bool,
    /// Some region's loop over lanes becomes operations on vectors.
    has_straight: bool,
    budget: &'a Budget,
    arguments: String,
}

pub(crate) fn block_function(
    body: &Body,
    cut: &WarpCut,
    name: &str,
    marks: Marks,
    budget: &Budget,
) -> String {
    let mut text = format!(
        "define internal void @\"{name}\"(ptr dereferenceable(192) align 8 %ctx, ptr %args) {{\nentry:\n{DIMENSIONS}"
    );
    let _ = write!(
        text,
        "  %sums = getelementptr i8, ptr %ctx, i64 96\n  %some = alloca i32\n  \
         %op = alloca [{op} x i8], align 64\n  %lanes = alloca [{lanes} x i8], align 64\n  \
         %op.own = alloca [{op} x i8], align 64\n  %lanes.own = alloca [{lanes} x i8], align 64\n  \
         %op.parted = alloca [{op} x i8], align 64\n  %lanes.parted = alloca [{lanes} x i8], align 64\n  \
         %out = alloca [4 x i64]\n  call void @llvm.memset.p0.i64(ptr %out, i8 0, i64 32, i1 false)\n  \
         %n = call i64 @eager.threads(ptr %ctx)\n  %n.up = add i64 %n, 31\n  %warps = lshr i64 %n.up, 5\n  \
         %state.bytes = mul i64 %warps, 192\n  %frame.bytes = mul i64 %warps, {frame}\n  \
         %need = add i64 %state.bytes, %frame.bytes\n  %dues = call ptr @eager.arena(ptr %ctx, i64 %need)\n  \
         %all.frames = getelementptr i8, ptr %dues, i64 %state.bytes\n  \
         %ny.nz = mul i32 %ny, %nz\n  %one.row = icmp eq i32 %ny.nz, 1\n  \
         %nx.low = and i32 %nx, 31\n  %nx.whole = icmp eq i32 %nx.low, 0\n  \
         %aligned = or i1 %one.row, %nx.whole\n",
        op = at::END,
        lanes = (cut.lane_bytes * 32).max(1),
        frame = cut.frames() + cut.lanes(),
    );
    text.push_str(marks.asked());
    let arguments = load_arguments(body, &mut text);
    // In the version with marks each region exists once, as a function, because loops with marks do not vectorise.
    let inlined = marks == Marks::Never && !cut.apart;
    let has_straight = inlined && !body.has_slots && cut.regions.iter().any(Region::has_straight);
    let block =
        WarpText { body, cut, symbol: escaped(&body.symbol), inlined, has_straight, budget, arguments };
    text.push_str(&block.warps(marks));
    if inlined {
        text.push_str(&block.regions_and_stops());
        let end = block.alive("end");
        let _ = write!(text, "at0:\n{end}  store i32 0, ptr %state.at\n  br label %warp.end\n");
        if block.may_part() {
            let call = block.call_apart(marks, "-2", "%lanes.parted", "%op.parted");
            let _ = write!(text, "part:\n  %part.state = {call}  br label %apart.end\n");
        }
    }
    text.push_str(&block.rounds());
    text + "finish:\n  call void @eager.flush(ptr %out, ptr %sums)\n  ret void\n}\n"
}

/// The function that runs a warp by a call for each lane. It is used if lanes have diverged, the block's rows are not
/// multiples of 32, or accesses are marked. It returns the state of the warp. `%how` is the present state: 0 (nothing
/// has run), the number of a region (all 32 lanes continue with it), -1 (lanes have written wait records), or -2 (lanes
/// have written arrays, and continue at different places).
pub(super) fn apart_function(body: &Body, cut: &WarpCut, params: &str, passed: &str) -> String {
    let symbol = escaped(&body.symbol);
    let budget = Budget::default();
    let block = WarpText {
        body,
        cut,
        symbol,
        inlined: false,
        has_straight: false,
        budget: &budget,
        arguments: passed.to_owned(),
    };
    let barriers = cut.stops.iter().filter(|stop| stop.is_block_barrier());
    let cases: String = barriers.map(|stop| format!("i32 {0}, label %r{0}.begin ", stop.number)).collect();
    let together = if cut.apart { "start" } else { "r0.begin" };
    let mut text = format!(
        "define internal i32 @\"{symbol}.apart\"(ptr %ctx, i64 %w, i64 %live, i1 %marks, i32 %how, ptr %frames, ptr %due, \
         ptr %their.lanes, ptr %their.op{params}) noinline {{\nentry:\n  \
         %own.op = alloca [{op} x i8], align 64\n  \
         %theirs = icmp eq i32 %how, -2\n  {lanes}%op = select i1 %theirs, ptr %their.op, ptr %own.op\n  \
         %first = shl nuw nsw i64 %w, 5\n  %w.narrow = trunc i64 %w to i32\n  \
         switch i32 %how, label %apart [ i32 0, label %begins i32 -2, label %part {cases}]\n\
         begins:\n  %whole = icmp eq i64 %live, 32\n  br i1 %whole, label %{together}, label %start\n\
         start:\n  call void @eagerwarp.start(i64 %live, ptr %due)\n  \
         %start.wide = shl i64 1, %live\n  %start.bits = trunc i64 %start.wide to i32\n  \
         %start.mask = sub i32 %start.bits, 1\n  \
         call void @\"{symbol}.run\"(i32 %start.mask, i32 0, {all})\n  br label %apart\n",
        symbol = block.symbol,
        op = at::END,
        lanes = lanes_apart(cut),
        all = block.passed(),
    );
    text.push_str(&block.regions_and_stops());
    text.push_str(&block.apart());
    text + "}\n"
}

/// Memory of diverged lanes for values that live across operations of the warp. They may return from the function in
/// the middle of an operation, while other lanes of the warp wait for other warps, which overwrite the memory of lanes
/// that are together.
fn lanes_apart(cut: &WarpCut) -> String {
    let bytes = cut.lane_bytes * 32;
    if bytes == 0 || !cut.waits {
        return format!(
            "%own.lanes = alloca [{} x i8], align 64\n  \
             %lanes = select i1 %theirs, ptr %their.lanes, ptr %own.lanes\n  ",
            bytes.max(1)
        );
    }
    format!(
        "%lanes = getelementptr i8, ptr %frames, i64 {}\n  \
         br i1 %theirs, label %takes, label %has\n\
         takes:\n  call void @llvm.memcpy.p0.p0.i64(ptr %lanes, ptr %their.lanes, i64 {bytes}, i1 false)\n  \
         br label %has\nhas:\n  ",
        cut.frames()
    )
}

impl WarpText<'_> {
    /// Arguments of the functions for diverged lanes.
    fn passed(&self) -> String {
        format!(
            "ptr %ctx, i64 %first, i1 %marks, ptr %frames, ptr %lanes, ptr %op, ptr %due{}",
            self.arguments
        )
    }

    fn call_apart(&self, marks: Marks, how: &str, lanes: &str, op: &str) -> String {
        format!(
            "call i32 @\"{}.apart\"(ptr %ctx, i64 %w, i64 %live, i1 {}, i32 {how}, ptr %frames, ptr %due, \
             ptr {lanes}, ptr {op}{})\n",
            self.symbol,
            marks.value(),
            self.arguments
        )
    }

    fn regions_and_stops(&self) -> String {
        let mut text = String::new();
        for region in &self.cut.regions {
            text.push_str(&self.region(region));
        }
        for stop in &self.cut.stops {
            text.push_str(&self.stop(stop));
        }
        for region in self.cut.regions.iter().filter(|r| r.number > self.cut.stops.len() as u64) {
            let _ = write!(text, "at{0}:\n  br label %r{0}.begin\n", region.number);
        }
        text
    }

    /// True if lanes that are together may have to write wait records.
    fn may_part(&self) -> bool {
        let names_all = |stop: &Stop| match stop.known(Part::Mask) {
            Some(mask) => mask as u32 == u32::MAX,
            None => !stop.has(Part::Mask),
        };
        let parts = |stop: &Stop| {
            let recorded = matches!(ops::code(stop, "", self.inlined), Code::Recorded);
            !stop.is_block_barrier() && (recorded || !names_all(stop))
        };
        self.cut.regions.iter().any(|region| region.next.len() > 1) || self.cut.stops.iter().any(parts)
    }

    /// Text of the loop over warps.
    fn warps(&self, marks: Marks) -> String {
        let barriers = self.cut.stops.iter().filter(|stop| stop.is_block_barrier() && self.inlined);
        let cases: String =
            barriers.map(|stop| format!("i32 {0}, label %r{0}.begin ", stop.number)).collect();
        let quick = if self.inlined { "r0.begin" } else { "other" };
        let part = if self.inlined && self.may_part() { ", [ %part.state, %part ]" } else { "" };
        format!(
            "  br label %round\n\
             round:\n  %is.first = phi i1 [ true, %entry ], [ false, %again ]\n  store i32 0, ptr %some\n  \
             br label %warp\n\
             warp:\n  %w = phi i64 [ 0, %round ], [ %w.next, %warp.end ]\n{begin}  %first = shl nuw nsw i64 %w, 5\n  \
             %first.narrow = trunc i64 %first to i32\n  \
             %left = sub i64 %n, %first\n  %live = call i64 @llvm.umin.i64(i64 %left, i64 32)\n  \
             %due.at = mul i64 %w, 192\n  %due = getelementptr i8, ptr %dues, i64 %due.at\n  \
             %state.at = getelementptr i8, ptr %due, i64 128\n  \
             %frames.at = mul i64 %w, {frame}\n  %frames = getelementptr i8, ptr %all.frames, i64 %frames.at\n  \
             br i1 %one.row, label %placed, label %divide\n\
             divide:\n  %x.of = urem i32 %first.narrow, %nx\n  %row.of = udiv i32 %first.narrow, %nx\n  \
             %y.of = urem i32 %row.of, %ny\n  %z.of = udiv i32 %row.of, %ny\n  br label %placed\n\
             placed:\n  %x.any = phi i32 [ %first.narrow, %warp ], [ %x.of, %divide ]\n  \
             %y0 = phi i32 [ 0, %warp ], [ %y.of, %divide ]\n  %z0 = phi i32 [ 0, %warp ], [ %z.of, %divide ]\n  \
             %x0 = and i32 %x.any, -32\n  %whole.warp = icmp eq i64 %live, 32\n  \
             %quick = and i1 %whole.warp, %aligned\n  br i1 %is.first, label %begins, label %goes.on\n\
             begins:\n  br i1 %quick, label %{quick}, label %other\n\
             goes.on:\n  %state = load i32, ptr %state.at\n  %ended = icmp eq i32 %state, 0\n  \
             br i1 %ended, label %warp.end, label %waited\n\
             waited:\n  br i1 %quick, label %dispatch, label %other\n\
             dispatch:\n  switch i32 %state, label %other [ {cases}]\n\
             other:\n  %how = phi i32 [ 0, %begins ], {more}[ %state, %waited ], [ %state, %dispatch ]\n  \
             %other.state = {call}  br label %apart.end\n\
             apart.end:\n  %new.state = phi i32 [ %other.state, %other ]{part}\n{end}  store i32 %new.state, ptr %state.at\n  \
             %new.ended = icmp eq i32 %new.state, 0\n  %new.apart = icmp slt i32 %new.state, 0\n  \
             %new.kind = select i1 %new.apart, i32 2, i32 1\n  %new.bit = select i1 %new.ended, i32 0, i32 %new.kind\n  \
             %new.some = load i32, ptr %some\n  %new.all = or i32 %new.some, %new.bit\n  \
             store i32 %new.all, ptr %some\n  br label %warp.end\n",
            frame = self.cut.frames() + self.cut.lanes(),
            begin = self.alive("start"),
            end = self.alive("end"),
            // Both edges of a branch lead there.
            more = if self.inlined { "" } else { "[ 0, %begins ], " },
            call = self.call_apart(marks, "%how", "null", "null"),
        )
    }

    /// Text of a region of 32 lanes that are together, and of the jump after it.
    fn region(&self, region: &Region) -> String {
        let number = region.number;
        let p = format!("r{number}");
        let state = if number == 0 { -1 } else { number.cast_signed() };
        let symbol = &self.symbol;
        if !self.inlined {
            return format!(
                "{p}.begin:\n  call void @\"{symbol}.together\"(i32 {state}, {})\n  br label %{p}.behind\n{}",
                self.passed(),
                self.behind(&p, region)
            );
        }
        let behind = self.behind(&p, region);
        let Some(WarpGuard { guard, is_straight }) = region.guard else {
            let lanes = self.lanes(region, &p, 1, region.is_straight);
            return format!("{p}.begin:\n  br label %{p}.lanes\n{lanes}{behind}");
        };
        // The lanes of most warps all go one way.
        let function = escaped(&guards::symbol(&self.body.kernel, guard));
        let part = |part| guards::part_number(Some(guard), part) + guards::WARP_PARTS;
        let ways = [
            self.lanes(region, &format!("{p}.in"), part(Way::Inside), is_straight[0]),
            self.lanes(region, &format!("{p}.out"), part(Way::Outside), is_straight[1]),
            self.lanes(region, &format!("{p}.mixed"), 1, false),
        ];
        format!(
            "{p}.begin:\n  %{p}.way = call i64 @\"{function}\"(ptr %ctx, i32 %x0, i32 %y0, i32 %z0, i32 %nx, ptr null{arguments})\n  \
             %{p}.others = lshr i64 %{p}.way, 1\n  %{p}.all = icmp ugt i64 %{p}.others, 30\n  \
             %{p}.holds = trunc i64 %{p}.way to i1\n  \
             br i1 %{p}.all, label %{p}.alike, label %{p}.mixed.lanes\n\
             {p}.alike:\n  br i1 %{p}.holds, label %{p}.in.lanes, label %{p}.out.lanes\n{}{behind}",
            ways.concat(),
            arguments = self.arguments,
        )
    }

    /// Text of a loop over the lanes of a warp that runs a region, on arrays of its own where that lets those of the other
    /// loops become values. Names begin with `q`; `part` says what is known of the guard.
    fn lanes(&self, region: &Region, q: &str, part: usize, is_straight: bool) -> String {
        let behind = format!("r{}.behind", region.number);
        let copies = if is_straight || !self.has_straight || region.has_loop {
            None
        } else {
            own_arrays::around_loop(self.cut, region, q)
        };
        let Some([before, after]) = copies else {
            return self.lane_loop(region, q, part, is_straight, ["op", "lanes"], &behind);
        };
        let own = format!("{q}.own");
        let own_loop =
            self.lane_loop(region, &own, part, false, ["op.own", "lanes.own"], &format!("{own}.behind"));
        format!(
            "{q}.lanes:\n{before}  br label %{own}.lanes\n{own_loop}{own}.behind:\n{after}  br label %{behind}\n"
        )
    }

    /// Text of the loop, with these arrays and the label behind it.
    fn lane_loop(
        &self,
        region: &Region,
        q: &str,
        part: usize,
        is_straight: bool,
        [op, lanes]: [&str; 2],
        behind: &str,
    ) -> String {
        let (number, symbol) = (region.number, &self.symbol);
        let state = if number == 0 { -1 } else { number.cast_signed() };
        let [group, _] = parallel(self.body, 0, self.budget);
        let many = region.accesses > self.budget.vectorised_accesses;
        let metadata = match () {
            () if group.is_empty() => "!22",
            () if many => "!23",
            () if is_straight => "!21",
            () => "!20",
        };
        let keep = if region.next.len() > 1 {
            format!(
                "  %{q}.next.at = getelementptr i8, ptr %{op}, i64 {}\n  \
                 %{q}.next.in = getelementptr i32, ptr %{q}.next.at, i64 %{q}.l\n  \
                 store i32 %{q}.next, ptr %{q}.next.in{group}\n",
                at::NEXT
            )
        } else {
            String::new()
        };
        format!(
            "{q}.lanes:\n  br label %{q}.lane\n\
             {q}.lane:\n  %{q}.l = phi i64 [ 0, %{q}.lanes ], [ %{q}.l.next, %{q}.lane ]\n  \
             %{q}.l.narrow = trunc i64 %{q}.l to i32\n  %{q}.x = or disjoint i32 %x0, %{q}.l.narrow\n  \
             %{q}.next = call i32 @\"{symbol}\"(ptr %ctx, i32 %{q}.x, i32 %y0, i32 %z0, ptr %out, i1 false, i32 {part}, \
             ptr %frames, i64 %{q}.l, i64 32, i32 {state}, ptr %{lanes}, ptr %{op}{arguments}){group}\n{keep}  \
             %{q}.l.next = add nuw nsw i64 %{q}.l, 1\n  %{q}.more = icmp ne i64 %{q}.l.next, 32\n  \
             br i1 %{q}.more, label %{q}.lane, label %{behind}, !llvm.loop {metadata}\n",
            arguments = self.arguments,
        )
    }

    fn behind(&self, p: &str, region: &Region) -> String {
        let mut next = region.next.iter().copied();
        let first = next.next();
        if region.next.len() < 2 {
            // A region without an end loops forever.
            return format!("{p}.behind:\n  br label %at{}\n", first.unwrap_or(0));
        }
        let cases: String = next.map(|next| format!("i32 {next}, label %at{next} ")).collect();
        let copies = if self.inlined {
            own_arrays::for_parted(self.cut, region, &format!("{p}.part"))
        } else {
            String::new()
        };
        format!(
            "{p}.behind:\n  %{p}.nexts.at = getelementptr i8, ptr %op, i64 {}\n  \
             %{p}.nexts = load <32 x i32>, ptr %{p}.nexts.at, align 64\n  \
             %{p}.go = extractelement <32 x i32> %{p}.nexts, i64 0\n  \
             %{p}.go.one = insertelement <32 x i32> poison, i32 %{p}.go, i64 0\n  \
             %{p}.go.all = shufflevector <32 x i32> %{p}.go.one, <32 x i32> poison, <32 x i32> zeroinitializer\n  \
             %{p}.differ = icmp ne <32 x i32> %{p}.nexts, %{p}.go.all\n  \
             %{p}.differing = bitcast <32 x i1> %{p}.differ to i32\n  \
             %{p}.same = icmp eq i32 %{p}.differing, 0\n  br i1 %{p}.same, label %{p}.agree, label %{p}.part\n\
             {p}.part:\n{copies}  br label %part\n\
             {p}.agree:\n  switch i32 %{p}.go, label %at{} [ {cases}]\n",
            at::NEXT,
            first.unwrap_or(0),
        )
    }

    /// Text of an operation that 32 lanes perform together at one stop.
    fn stop(&self, stop: &Stop) -> String {
        let number = stop.number;
        let p = format!("at{number}");
        let slow = format!("{p}.slow");
        let copies =
            if self.inlined { own_arrays::for_parted_at(self.cut, stop, &slow) } else { String::new() };
        let apart = format!(
            "{slow}:\n  %{p}.nexts.at = getelementptr i8, ptr %op, i64 {}\n  \
             store <32 x i32> {}, ptr %{p}.nexts.at, align 64\n{copies}  br label %part\n",
            at::NEXT,
            format_args!("<{}>", vec![format!("i32 {number}"); 32].join(", ")),
        );
        if stop.is_block_barrier() && !self.inlined {
            return format!("{p}:\n  ret i32 {number}\n");
        }
        if stop.is_block_barrier() {
            return format!(
                "{p}:\n{}  store i32 {number}, ptr %state.at\n  %{p}.some = load i32, ptr %some\n  \
                 %{p}.more = or i32 %{p}.some, 1\n  store i32 %{p}.more, ptr %some\n  br label %warp.end\n",
                self.alive("end"),
            );
        }
        let Code::Array(code) = ops::code(stop, &p, self.inlined) else {
            return format!("{p}:\n  br label %{slow}\n{apart}");
        };
        let code = code + &format!("  br label %r{number}.begin\n");
        match stop.known(Part::Mask) {
            Some(mask) if mask as u32 == u32::MAX => format!("{p}:\n{code}"),
            None if !stop.has(Part::Mask) => format!("{p}:\n{code}"),
            Some(_) => format!("{p}:\n  br label %{slow}\n{apart}"),
            None => {
                let (ask, tiles) = (ops::asks_mask(&p), ops::in_tiles(stop, &p));
                let other = if tiles.is_some() { format!("{p}.ask") } else { slow.clone() };
                let tiles = tiles.map_or_else(String::new, |tiles| {
                    format!(
                        "{p}.ask:\n  %{p}.tiles = call i1 @eagerwarp.tiles(ptr %op)\n  \
                         br i1 %{p}.tiles, label %{p}.some, label %{slow}\n\
                         {p}.some:\n{tiles}  br label %r{number}.begin\n"
                    )
                });
                format!(
                    "{p}:\n{ask}  br i1 %{p}.all, label %{p}.go, label %{other}\n{apart}{tiles}{p}.go:\n{code}"
                )
            }
        }
    }

    /// Text in which lanes continue some at a time: with their arrays as long as these tell which, then with wait records as
    /// the executor decides, until they are together again.
    fn apart(&self) -> String {
        let symbol = &self.symbol;
        let join = if self.cut.apart { "joined:\n  br label %some.go\n".to_owned() } else { self.join() };
        let cases: String =
            self.cut.stops.iter().map(|stop| format!("i32 {0}, label %at{0} ", stop.number)).collect();
        let again = match self.cut.apart {
            true => "  br label %part\n".to_owned(),
            false => format!(
                "  %part.at = call i32 @eagerwarp.agree(ptr %part.nexts)\n  \
                 switch i32 %part.at, label %part [ {cases}]\n"
            ),
        };
        format!(
            "at0:\n  ret i32 0\n\
             part:\n  %can = call i32 @eagerwarp_ready(ptr %op, ptr @\"{symbol}.places\", i32 {count})\n  \
             %can.none = icmp eq i32 %can, 0\n  br i1 %can.none, label %part.slow, label %part.some\n\
             part.some:\n  %part.nexts = getelementptr i8, ptr %op, i64 {next}\n  \
             call void @\"{symbol}.run\"(i32 %can, i32 {ARRAYS}, ptr %ctx, i64 %first, i1 %marks, ptr %frames, ptr %lanes, \
             ptr %op, ptr %part.nexts{arguments})\n{again}\
             part.slow:\n  call void @\"{symbol}.part\"(ptr %ctx, i64 %first, ptr %op, ptr %due)\n  br label %apart\n\
             apart:\n  %ready = call i32 @eager.ready_lanes(ptr %ctx, i32 %w.narrow)\n  \
             switch i32 %ready, label %some.go [ i32 0, label %waits i32 -1, label %joined ]\n{join}\
             some.go:\n  call void @\"{symbol}.run\"(i32 %ready, i32 0, {passed})\n  br label %apart\n\
             waits:\n  %waits.left = call i32 @eagerwarp.left(i64 %live, ptr %due)\n  \
             %waits.none = icmp eq i32 %waits.left, 0\n  br i1 %waits.none, label %at0, label %waits.on\n\
             waits.on:\n  ret i32 -1\n",
            count = self.cut.stops.len(),
            next = at::NEXT,
            arguments = self.arguments,
            passed = self.passed(),
        )
    }

    /// Text in which 32 lanes continue together, with their results in the arrays, if all continue with one region.
    fn join(&self) -> String {
        let (mut cases, mut texts) = (String::new(), String::new());
        for stop in &self.cut.stops {
            let number = stop.number;
            let to = match ops::answer(&stop.row) {
                Answer::None | Answer::AllLanes => format!("r{number}.begin"),
                Answer::Own => {
                    let _ = write!(
                        texts,
                        "join{number}:\n  call void @eagerwarp.own(ptr %ctx, i64 %first, ptr %op)\n  \
                         br label %r{number}.begin\n"
                    );
                    format!("join{number}")
                }
                Answer::Common => {
                    let _ = write!(
                        texts,
                        "join{number}:\n  %join{number}.is = call i1 @eagerwarp.common(ptr %ctx, i64 %first, ptr %op)\n  \
                         br i1 %join{number}.is, label %r{number}.begin, label %some.go\n"
                    );
                    format!("join{number}")
                }
            };
            let _ = write!(cases, "i32 {number}, label %{to} ");
        }
        format!(
            "joined:\n  %joined.at = call i32 @eagerwarp.agree(ptr %due)\n  \
             switch i32 %joined.at, label %some.go [ {cases}]\n{texts}"
        )
    }

    /// Text that follows the last warp.
    fn rounds(&self) -> String {
        "warp.end:\n  %w.next = add nuw nsw i64 %w, 1\n  %w.more = icmp ult i64 %w.next, %warps\n  \
             br i1 %w.more, label %warp, label %round.end\n\
             round.end:\n  %waiting = load i32, ptr %some\n  \
             switch i32 %waiting, label %ask [ i32 0, label %finish i32 1, label %again ]\n\
             ask:\n  call void @eagerwarp.note(ptr %ctx, i64 %n, ptr %dues)\n  \
             %more = call i1 @eager.next_round(ptr %ctx)\n  br i1 %more, label %again, label %finish\n\
             again:\n  br label %round\n"
            .to_owned()
    }

    /// The arrays of a warp whose lanes are together, and their bytes. No function but this one has their addresses, so
    /// that their elements can become values.
    fn arrays(&self) -> [(&'static str, u64); 2] {
        [("op", at::END), ("lanes", (self.cut.lane_bytes * 32).max(1))]
    }

    /// Text that says where the contents of the warp's arrays begin or end to count; another warp does not read them.
    fn alive(&self, part: &str) -> String {
        self.arrays()
            .map(|(array, bytes)| {
                format!("  call void @llvm.lifetime.{part}.p0(i64 {bytes}, ptr %{array})\n")
            })
            .concat()
    }
}
