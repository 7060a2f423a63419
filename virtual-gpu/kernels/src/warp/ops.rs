//! Operations of a warp whose 32 lanes are together, as LLVM IR on arrays of 32.
//!
//! Trap: each must give, bit for bit, the result of `complete` in eager-exec's `schedule.rs` for 32 members. Masks that
//! leave out lanes, and lanes that have exited, are not handled here: the scheduler completes such an operation.

use std::fmt::Write;

use super::{Stop, lanes};
use crate::suspend::{ACTIVE_MASK, BARRIER, Part, Suspension};

/// Offsets of the arrays in bytes.
pub(crate) mod at {
    /// Operands of the lanes, 32 bits each.
    pub const VALUE: u64 = 0;
    /// Upper halves of 64-bit operands.
    pub const HIGH: u64 = 128;
    pub const MASK: u64 = 256;
    pub const ARGUMENT: u64 = 384;
    pub const CONTROL: u64 = 512;
    /// Result of each lane.
    pub const RESULT: u64 = 640;
    /// Bytes: whether the source lane of a shuffle lies inside the segment.
    pub const PREDICATE: u64 = 768;
    /// Bytes: votes of the lanes.
    pub const VOTE: u64 = 800;
    /// Common result of all lanes.
    pub const UNIFORM: u64 = 832;
    /// Common predicate, a byte.
    pub const COMMON_PREDICATE: u64 = 836;
    /// Region with which each lane continues.
    pub const NEXT: u64 = 896;
    pub const END: u64 = 1024;
}

const SYNC: u32 = 4;
const UP: u32 = 5;
const DOWN: u32 = 6;
const XOR: u32 = 7;
const INDEX: u32 = 8;
const MATCH_ANY: u32 = 13;
const MATCH_ALL: u32 = 14;

/// Location of a lane's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    None,
    /// Each lane has its own, in an array.
    Own,
    /// All 32 lanes have the same.
    Common,
    /// The mask of all lanes.
    AllLanes,
}

pub(crate) fn answer(row: &Suspension) -> Answer {
    match row.kind {
        _ if row.result == "void" => Answer::None,
        ACTIVE_MASK => Answer::AllLanes,
        UP..=INDEX | MATCH_ANY => Answer::Own,
        _ => Answer::Common,
    }
}

/// Offset of the array in which an argument is stored.
pub(crate) fn array_of(part: Part, ty: &str) -> Option<u64> {
    match part {
        Part::Mask => Some(at::MASK),
        Part::Value if ty == "i1" => Some(at::VOTE),
        // Only threads that yield have it, and their kernels have another form.
        Part::Value if ty == "ptr" => None,
        Part::Value => Some(at::VALUE),
        Part::Argument => Some(at::ARGUMENT),
        Part::Control => Some(at::CONTROL),
        Part::Ignored => None,
    }
}

/// Mask of the arguments that lanes store in arrays: operands, and arguments whose value is unknown at compile time.
pub(crate) fn left_as_arrays(stop: &Stop) -> u64 {
    let left = |(index, (_, part)): (usize, &(&str, Part))| {
        let left = match part {
            Part::Ignored => false,
            Part::Value => true,
            _ => stop.known[index].is_none(),
        };
        u64::from(left) << index
    };
    stop.row.params.iter().enumerate().map(left).sum()
}

/// Returns the source lane of a shuffle, and whether it lies inside the segment (otherwise a lane keeps its own value):
/// PTX ISA, "shfl.sync".
fn shuffle_source(kind: u32, lane: u32, argument: u32, control: u32) -> (u32, bool) {
    let (distance, clamp, segment) = (argument & 31, control & 31, control >> 8 & 31);
    let least = lane & segment;
    let most = least | (clamp & !segment);
    let (source, inside) = match kind {
        UP => {
            let source = lane.cast_signed() - distance.cast_signed();
            (source.cast_unsigned(), source >= most.cast_signed())
        }
        DOWN => (lane + distance, lane + distance <= most),
        XOR => (lane ^ distance, lane ^ distance <= most),
        _ => {
            let source = least | (distance & !segment);
            (source, source <= most)
        }
    };
    if inside { (source, true) } else { (lane, false) }
}

/// A constant `<32 x ty>` with the value of `element` for each lane.
fn vector(ty: &str, element: impl Fn(u32) -> i64) -> String {
    let parts: Vec<String> = (0..32).map(|lane| format!("{ty} {}", element(lane))).collect();
    format!("<{}>", parts.join(", "))
}

fn splat(value: i64) -> String {
    vector("i32", |_| value)
}

/// Implementation of an operation of lanes that are together.
pub(crate) enum Code {
    /// Lanes continue with the results that the text computes.
    Array(String),
    /// Lanes write wait records.
    Recorded,
}

/// Code of a stop at which 32 lanes are together, all named by the mask. Names begin with `p`. `in_row`: the warp is in
/// one row that begins at a multiple of 32.
pub(crate) fn code(stop: &Stop, p: &str, in_row: bool) -> Code {
    let (row, kind) = (&stop.row, stop.row.kind);
    match kind {
        BARRIER => Code::Recorded,
        ACTIVE_MASK => Code::Array(String::new()),
        UP..=INDEX => Code::Array(shuffle(stop, p, in_row)),
        9..=12 => Code::Array(vote(kind, p)),
        MATCH_ANY => {
            let wide = row.params.iter().any(|(ty, _)| *ty == "i64");
            Code::Array(format!("  call void @eagerwarp.match.any(ptr %op, i1 {wide})\n"))
        }
        MATCH_ALL => {
            let wide = row.params.iter().any(|(ty, _)| *ty == "i64");
            Code::Array(format!("  call void @eagerwarp.match.all(ptr %op, i1 {wide})\n"))
        }
        15..=22 => Code::Array(reduce(kind, p)),
        _ if row.result == "void" => Code::Array(String::new()),
        _ => Code::Recorded,
    }
}

fn load(p: &str, name: &str, offset: u64, ty: &str) -> String {
    format!(
        "  %{p}.{name}.at = getelementptr i8, ptr %op, i64 {offset}\n  \
         %{p}.{name} = load {ty}, ptr %{p}.{name}.at, align 32\n"
    )
}

fn store(p: &str, name: &str, offset: u64, value: &str) -> String {
    format!(
        "  %{p}.{name}.to = getelementptr i8, ptr %op, i64 {offset}\n  store {value}, ptr %{p}.{name}.to, align 4\n"
    )
}

fn shuffle(stop: &Stop, p: &str, in_row: bool) -> String {
    let kind = stop.row.kind;
    let way = ["up", "down", "bfly", "idx"][(kind - UP) as usize];
    let both = stop.row.result.starts_with('{');
    let control = stop.known(Part::Control);
    let common = stop.known(Part::Argument).map(|argument| vec![argument as u32; 32]);
    let by_lane = stop.by_lane.clone().filter(|_| in_row);
    let (Some(arguments), Some(control)) = (common.or(by_lane), control) else {
        let known = control.is_some();
        let control = control.unwrap_or(0);
        let mut text = String::new();
        if let Some(argument) = stop.known(Part::Argument) {
            text += &store(p, "argument", at::ARGUMENT, &format!("<32 x i32> {}", splat(argument as i64)));
        }
        let which = if known { "" } else { ".any" };
        let _ = writeln!(text, "  call void @eagerwarp.shfl.{way}{which}(ptr %op, i32 {control})");
        return text;
    };
    let source = |lane: u32| shuffle_source(kind, lane, arguments[lane as usize], control as u32);
    let lanes = vector("i32", |lane| source(lane).0.into());
    let mut text = load(p, "v", at::VALUE, "<32 x i32>");
    let _ = writeln!(
        text,
        "  %{p}.moved = shufflevector <32 x i32> %{p}.v, <32 x i32> poison, <32 x i32> {lanes}"
    );
    text += &store(p, "result", at::RESULT, &format!("<32 x i32> %{p}.moved"));
    if both {
        let inside = vector("i8", |lane| source(lane).1.into());
        text += &store(p, "inside", at::PREDICATE, &format!("<32 x i8> {inside}"));
    }
    text
}

fn vote(kind: u32, p: &str) -> String {
    let mut text = load(p, "v", at::VOTE, "<32 x i8>");
    // LLVM compiles a comparison that is used as a number to 32 steps if it can see the lanes' own comparisons.
    let half = |name: &str, first: u32| {
        let lanes: Vec<String> = (first..first + 16).map(|lane| format!("i32 {lane}")).collect();
        format!(
            "  %{p}.{name}.v = shufflevector <32 x i8> %{p}.v, <32 x i8> poison, <16 x i32> <{}>\n  \
             %{p}.{name}.is = sub <16 x i8> zeroinitializer, %{p}.{name}.v\n  \
             %{p}.{name} = call i32 @llvm.x86.sse2.pmovmskb.128(<16 x i8> %{p}.{name}.is)\n",
            lanes.join(", ")
        )
    };
    text += &(half("low", 0) + &half("high", 16));
    let _ = write!(text, "  %{p}.up = shl i32 %{p}.high, 16\n  %{p}.votes = or i32 %{p}.up, %{p}.low\n");
    let compared = |text: &mut String, what: &str| {
        let _ = write!(text, "  %{p}.truth = {what}\n  %{p}.found = zext i1 %{p}.truth to i32\n");
    };
    match kind {
        9 => compared(&mut text, &format!("icmp eq i32 %{p}.votes, -1")),
        10 => compared(&mut text, &format!("icmp ne i32 %{p}.votes, 0")),
        11 => {
            let _ = writeln!(text, "  %{p}.more = add i32 %{p}.votes, 1");
            compared(&mut text, &format!("icmp ult i32 %{p}.more, 2"));
        }
        _ => {
            let _ = writeln!(text, "  %{p}.found = add i32 %{p}.votes, 0");
        }
    }
    text + &store(p, "result", at::UNIFORM, &format!("i32 %{p}.found"))
}

fn reduce(kind: u32, p: &str) -> String {
    let name = ["add", "smin", "smax", "umin", "umax", "and", "or", "xor"][(kind - 15) as usize];
    let mut text = load(p, "v", at::VALUE, "<32 x i32>");
    let _ = writeln!(text, "  %{p}.found = call i32 @llvm.vector.reduce.{name}.v32i32(<32 x i32> %{p}.v)");
    text + &store(p, "result", at::UNIFORM, &format!("i32 %{p}.found"))
}

/// Code that checks if masks name all 32 lanes: `%p.all` is true if they do.
pub(crate) fn asks_mask(p: &str) -> String {
    let mut text = load(p, "m", at::MASK, "<32 x i32>");
    let _ = write!(
        text,
        "  %{p}.part = icmp ne <32 x i32> %{p}.m, {}\n  %{p}.parts = bitcast <32 x i1> %{p}.part to i32\n  \
         %{p}.all = icmp eq i32 %{p}.parts, 0\n",
        splat(-1)
    );
    text
}

/// Declarations of functions that block functions call.
pub(crate) fn declarations() -> String {
    let mut text = String::new();
    for name in ["add", "smin", "smax", "umin", "umax", "and", "or", "xor"] {
        let _ = writeln!(text, "declare i32 @llvm.vector.reduce.{name}.v32i32(<32 x i32>)");
    }
    text.push_str("declare i32 @llvm.x86.sse2.pmovmskb.128(<16 x i8>)\n");
    for way in ["up", "down", "bfly", "idx"] {
        let _ = write!(
            text,
            "declare void @eagerwarp.shfl.{way}(ptr, i32)\ndeclare void @eagerwarp.shfl.{way}.any(ptr, i32)\n\
             declare void @eagerwarp.shfl.{way}.some(ptr, i32)\n"
        );
    }
    text + lanes::DECLARATIONS
        + "declare i1 @eagerwarp.tiles(ptr)\ndeclare i32 @eagerwarp_ready(ptr, ptr, i32)\n\
           declare void @eagerwarp.match.any(ptr, i1)\ndeclare void @eagerwarp.match.all(ptr, i1)\n"
}

/// Code of a stop at which 32 lanes are together and masks name the lanes of tiles, as cooperative groups do: a shuffle
/// stays in its tile.
pub(crate) fn in_tiles(stop: &Stop, p: &str) -> Option<String> {
    let kind = stop.row.kind;
    if kind == SYNC {
        return Some(String::new());
    }
    let way = ["up", "down", "bfly", "idx"].get(kind.checked_sub(UP)? as usize)?;
    let mut text = String::new();
    for (name, part, array) in
        [("t.argument", Part::Argument, at::ARGUMENT), ("t.control", Part::Control, at::CONTROL)]
    {
        if let Some(known) = stop.known(part) {
            text += &store(p, name, array, &format!("<32 x i32> {}", splat(known as i64)));
        }
    }
    let _ = writeln!(text, "  call void @eagerwarp.shfl.{way}.some(ptr %op, i32 0)");
    Some(text)
}

/// Function that checks if masks name the 16, 8, 4 or 2 lanes of the tile that each lane is in.
fn tiles() -> String {
    let mut text = format!(
        "declare i32 @llvm.ctpop.i32(i32)\ndefine i1 @eagerwarp.tiles(ptr %op) noinline {{\n  \
         %masks.at = getelementptr i8, ptr %op, i64 {}\n  %masks = load <32 x i32>, ptr %masks.at, align 64\n  \
         %first = extractelement <32 x i32> %masks, i64 0\n  %size = call i32 @llvm.ctpop.i32(i32 %first)\n  \
         switch i32 %size, label %none [ i32 16, label %t16 i32 8, label %t8 i32 4, label %t4 i32 2, label %t2 ]\n",
        at::MASK
    );
    for size in [16, 8, 4, 2] {
        let expected = vector("i32", |lane| ((1i64 << size) - 1) << (lane / size * size));
        let expected = expected.replace("i32 4294901760", "i32 -65536");
        let _ = write!(
            text,
            "t{size}:\n  %differ{size} = icmp ne <32 x i32> %masks, {expected}\n  \
             %differing{size} = bitcast <32 x i1> %differ{size} to i32\n  \
             %is{size} = icmp eq i32 %differing{size}, 0\n  ret i1 %is{size}\n"
        );
    }
    text + "none:\n  ret i1 false\n}\n"
}

/// Functions that are too long to be inlined at each operation.
pub(crate) fn text() -> String {
    let mut text = String::new();
    for (kind, way) in (UP..).zip(["up", "down", "bfly", "idx"]) {
        text.push_str(&shuffle_by_lane(kind, way, false, false));
        text.push_str(&shuffle_by_lane(kind, way, true, false));
        text.push_str(&shuffle_by_lane(kind, way, true, true));
    }
    text.push_str(&lanes::text());
    text.push_str(&tiles());
    text.push_str("!93 = distinct !{!93, !90}\n!94 = distinct !{!94, !90}\n");
    text.push_str(&match_text("any", MATCH_ANY));
    text.push_str(&match_text("all", MATCH_ALL));
    text
}

/// Computes the source of one lane, `%source`, and whether it is `%inside`, from `%lane`, `%distance`, `%clamp` and
/// `%segment`.
fn source_text(kind: u32, in_tiles: bool) -> String {
    let mut text = String::from(
        "  %least = and i32 %lane, %segment\n  %free = xor i32 %segment, -1\n  %top = and i32 %clamp, %free\n  \
         %most = or i32 %least, %top\n",
    );
    text.push_str(match kind {
        UP => "  %source = sub i32 %lane, %distance\n  %inside = icmp sge i32 %source, %most\n",
        DOWN => "  %source = add i32 %lane, %distance\n  %inside = icmp ule i32 %source, %most\n",
        XOR => "  %source = xor i32 %lane, %distance\n  %inside = icmp ule i32 %source, %most\n",
        _ => {
            "  %low = and i32 %distance, %free\n  %source = or i32 %least, %low\n  \
             %inside = icmp ule i32 %source, %most\n"
        }
    });
    text + if in_tiles {
        "  %mask.at = getelementptr i32, ptr %masks, i64 %l\n  %mask = load i32, ptr %mask.at\n  \
           %source.low = and i32 %source, 31\n  %named = lshr i32 %mask, %source.low\n  %is.named = trunc i32 %named to i1\n  \
           %taken = and i1 %inside, %is.named\n  %from = select i1 %taken, i32 %source, i32 %lane\n"
    } else {
        "  %from = select i1 %inside, i32 %source, i32 %lane\n"
    }
}

/// Shuffle lane by lane, or in one piece if `%control` is known and all lanes name one distance.
fn shuffle_by_lane(kind: u32, way: &str, any_control: bool, in_tiles: bool) -> String {
    let which = match (in_tiles, any_control) {
        (true, _) => ".some",
        (_, true) => ".any",
        _ => "",
    };
    let by_lane = any_control || in_tiles || !matches!(kind, UP | DOWN);
    let mut text = format!(
        "define void @eagerwarp.shfl.{way}{which}(ptr noalias align 64 %op, i32 %known) noinline nounwind {{\nentry:\n  \
         %arguments = getelementptr i8, ptr %op, i64 {}\n  %controls = getelementptr i8, ptr %op, i64 {}\n  \
         %masks = getelementptr i8, ptr %op, i64 {}\n  \
         %results = getelementptr i8, ptr %op, i64 {}\n  %insides = getelementptr i8, ptr %op, i64 {}\n",
        at::ARGUMENT,
        at::CONTROL,
        at::MASK,
        at::RESULT,
        at::PREDICATE
    );
    if by_lane {
        text.push_str("  br label %next\n");
    } else {
        text.push_str(&in_one_piece(kind));
    }
    let control = if any_control {
        "  %control.at = getelementptr i32, ptr %controls, i64 %l\n  %control = load i32, ptr %control.at\n"
    } else {
        "  %control = add i32 %known, 0\n"
    };
    let from = if by_lane { "entry" } else { "each" };
    let each = if from == "each" { "each:\n  br label %next\n" } else { "" };
    let _ = write!(
        text,
        "{each}next:\n  %l = phi i64 [ 0, %{from} ], [ %l.next, %next ]\n  %lane = trunc i64 %l to i32\n  \
         %argument.at = getelementptr i32, ptr %arguments, i64 %l\n  %argument = load i32, ptr %argument.at\n  \
         %distance = and i32 %argument, 31\n{control}  %clamp = and i32 %control, 31\n  \
         %high = lshr i32 %control, 8\n  %segment = and i32 %high, 31\n{}  \
         %from.wide = zext i32 %from to i64\n  %value.at = getelementptr i32, ptr %op, i64 %from.wide\n  \
         %value = load i32, ptr %value.at\n  %result.at = getelementptr i32, ptr %results, i64 %l\n  \
         store i32 %value, ptr %result.at\n  %flag = zext i1 %inside to i8\n  \
         %inside.at = getelementptr i8, ptr %insides, i64 %l\n  store i8 %flag, ptr %inside.at\n  \
         %l.next = add nuw nsw i64 %l, 1\n  %more = icmp ne i64 %l.next, 32\n  \
         br i1 %more, label %next, label %done, !llvm.loop !93\ndone:\n  ret void\n}}\n",
        source_text(kind, in_tiles)
    );
    text
}

/// Start of the function for a distance that all lanes share: moves the values by it in a longer array.
fn in_one_piece(kind: u32) -> String {
    let lanes = vector("i32", i64::from);
    let [move_from, compare] = match kind {
        UP => [
            "sub i64 32, %d.wide",
            "  %s = sub <32 x i32> LANES, %ds\n  %in = icmp sge <32 x i32> %s, %most.v\n",
        ],
        _ => [
            "add i64 32, %d.wide",
            "  %s = add <32 x i32> LANES, %ds\n  %in = icmp ule <32 x i32> %s, %most.v\n",
        ],
    };
    let spread = |name: &str, from: &str| {
        format!(
            "  %{name}.one = insertelement <32 x i32> poison, i32 %{from}, i64 0\n  \
             %{name} = shufflevector <32 x i32> %{name}.one, <32 x i32> poison, <32 x i32> zeroinitializer\n"
        )
    };
    let text = format!(
        "  %all = load <32 x i32>, ptr %arguments, align 64\n  %first = extractelement <32 x i32> %all, i64 0\n{}  \
         %differ = icmp ne <32 x i32> %all, %firsts\n  %differing = bitcast <32 x i1> %differ to i32\n  \
         %same = icmp eq i32 %differing, 0\n  br i1 %same, label %piece, label %each\n\
         piece:\n  %pad = alloca [96 x i32], align 64\n  %own = load <32 x i32>, ptr %op, align 64\n  \
         %pad.at = getelementptr i8, ptr %pad, i64 128\n  store <32 x i32> %own, ptr %pad.at, align 64\n  \
         %d = and i32 %first, 31\n  %d.wide = zext i32 %d to i64\n  %start = {move_from}\n  \
         %moved.at = getelementptr i32, ptr %pad, i64 %start\n  %moved = load <32 x i32>, ptr %moved.at, align 4\n  \
         %k.clamp = and i32 %known, 31\n  %k.high = lshr i32 %known, 8\n  %k.segment = and i32 %k.high, 31\n  \
         %k.free = xor i32 %k.segment, -1\n  %k.top = and i32 %k.clamp, %k.free\n{}{}{}  \
         %least.v = and <32 x i32> LANES, %segments\n  %most.v = or <32 x i32> %least.v, %tops\n{compare}  \
         %chosen = select <32 x i1> %in, <32 x i32> %moved, <32 x i32> %own\n  \
         store <32 x i32> %chosen, ptr %results, align 64\n  %flags = zext <32 x i1> %in to <32 x i8>\n  \
         store <32 x i8> %flags, ptr %insides, align 32\n  ret void\n",
        spread("firsts", "first"),
        spread("segments", "k.segment"),
        spread("tops", "k.top"),
        spread("ds", "d"),
    );
    text.replace("LANES", &lanes)
}

/// Function that finds the lanes with the same value as each lane, or whether all have the same.
fn match_text(name: &str, kind: u32) -> String {
    let halves = format!(
        "  %low = load <32 x i32>, ptr %op, align 64\n  %high.at = getelementptr i8, ptr %op, i64 {}\n  \
         %high.all = load <32 x i32>, ptr %high.at, align 64\n  \
         %high = select i1 %wide, <32 x i32> %high.all, <32 x i32> zeroinitializer\n",
        at::HIGH
    );
    let of = |lane: &str| {
        format!(
            "  %low.in = getelementptr i32, ptr %op, i64 {lane}\n  %low.of = load i32, ptr %low.in\n  \
             %high.in = getelementptr i32, ptr %high.at, i64 {lane}\n  %high.some = load i32, ptr %high.in\n  \
             %high.of = select i1 %wide, i32 %high.some, i32 0\n"
        )
    };
    let same = |lane: &str| {
        of(lane)
            + "  %low.one = insertelement <32 x i32> poison, i32 %low.of, i64 0\n  \
               %lows = shufflevector <32 x i32> %low.one, <32 x i32> poison, <32 x i32> zeroinitializer\n  \
               %high.one = insertelement <32 x i32> poison, i32 %high.of, i64 0\n  \
               %highs = shufflevector <32 x i32> %high.one, <32 x i32> poison, <32 x i32> zeroinitializer\n  \
               %low.same = icmp eq <32 x i32> %low, %lows\n  %high.same = icmp eq <32 x i32> %high, %highs\n  \
               %both = and <32 x i1> %low.same, %high.same\n  %same = bitcast <32 x i1> %both to i32\n"
    };
    let start = format!(
        "define void @eagerwarp.match.{name}(ptr noalias align 64 %op, i1 %wide) noinline nounwind {{\nentry:\n{halves}"
    );
    if kind == MATCH_ALL {
        return start
            + &same("0")
            + &format!(
                "  %all = icmp eq i32 %same, -1\n  %mask = sext i1 %all to i32\n  %flag = zext i1 %all to i8\n  \
                 %mask.at = getelementptr i8, ptr %op, i64 {}\n  store i32 %mask, ptr %mask.at\n  \
                 %flag.at = getelementptr i8, ptr %op, i64 {}\n  store i8 %flag, ptr %flag.at\n  ret void\n}}\n",
                at::UNIFORM,
                at::COMMON_PREDICATE
            );
    }
    start
        + &format!("  %results = getelementptr i8, ptr %op, i64 {}\n", at::RESULT)
        + "  br label %next\nnext:\n  %l = phi i64 [ 0, %entry ], [ %l.next, %next ]\n"
        + &same("%l")
        + "  %at = getelementptr i32, ptr %results, i64 %l\n  store i32 %same, ptr %at\n  \
           %l.next = add nuw nsw i64 %l, 1\n  %more = icmp ne i64 %l.next, 32\n  \
           br i1 %more, label %next, label %done, !llvm.loop !94\ndone:\n  ret void\n}\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suspend::ACTIVE_MASK;

    #[test]
    fn sources_are_those_of_ptx() {
        // A width of 32: clamps of `__shfl_up_sync` are 0, of the others 31.
        assert_eq!(shuffle_source(UP, 5, 2, 0), (3, true));
        assert_eq!(shuffle_source(UP, 1, 2, 0), (1, false));
        assert_eq!(shuffle_source(DOWN, 31, 1, 31), (31, false));
        assert_eq!(shuffle_source(XOR, 9, 16, 31), (25, true));
        // A width of 8: segments begin at multiples of it.
        assert_eq!(shuffle_source(INDEX, 21, 10, 0x181f), (18, true));
    }

    /// `together.c` reads the arrays that this module lays out, and knows operations by the same numbers.
    #[test]
    fn the_source_in_c_has_the_same_numbers() {
        let source = include_str!("together.c");
        let defined = |name: &str| {
            let at = source.match_indices(name).find_map(|(at, _)| {
                let is_whole =
                    !source[..at].ends_with(|before: char| before == '_' || before.is_alphanumeric());
                source[at + name.len()..].strip_prefix(" = ").filter(|_| is_whole)
            });
            let digits = at.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
            digits.and_then(|digits| digits.parse::<u64>().ok())
        };
        let kinds = [
            ("SYNC", SYNC),
            ("UP", UP),
            ("DOWN", DOWN),
            ("XOR", XOR),
            ("INDEX", INDEX),
            ("MATCH_ANY", MATCH_ANY),
            ("MATCH_ALL", MATCH_ALL),
            ("ACTIVE_MASK", ACTIVE_MASK),
        ];
        let arrays = [
            ("VALUE", at::VALUE),
            ("HIGH", at::HIGH),
            ("MASK", at::MASK),
            ("ARGUMENT", at::ARGUMENT),
            ("CONTROL", at::CONTROL),
            ("RESULT", at::RESULT),
            ("PREDICATE", at::PREDICATE),
            ("VOTE", at::VOTE),
            ("NEXT", at::NEXT),
        ];
        for (name, number) in kinds.map(|(name, kind)| (name, kind.into())).into_iter().chain(arrays) {
            assert_eq!(defined(name), Some(number), "{name}");
        }
    }
}
