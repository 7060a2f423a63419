//! Copies of a warp's arrays, made where code would otherwise keep the arrays themselves in memory: for loops over lanes
//! that stay loops, in kernels whose other loops become operations on vectors of 32, and for lanes that diverge.
//!
//! A loop indexes its arrays by the lane, and LLVM keeps an array that is indexed by more than constants in memory, in
//! the whole function. Only what is needed is copied: a value that one warp left there would have to be kept for the
//! next one. Trap: what a region or a later one reads, and the region does not write on every path, must be copied too.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::ops::{self, Answer, at};
use super::{Piece, Region, Stop, WarpCut};

/// Limit on the bytes that are copied for a loop; with more, copying takes longer than values in registers save.
const COPIED_MAX: u64 = 4096;
/// Bytes of an array of 32 numbers.
const NUMBERS: u64 = 128;
/// Bytes of an array of 32 flags.
const FLAGS: u64 = 32;

/// Pieces of the operation's arrays, and pieces of the memory for the lanes' values.
type Pieces = [BTreeSet<Piece>; 2];

/// What a region's loop reads when it begins.
fn read_by(cut: &WarpCut, region: &Region) -> Pieces {
    let answer = stop_before(cut, region.number).map(answer_pieces).unwrap_or_default();
    [answer.into_iter().collect(), region.live.iter().copied().collect()]
}

/// What is needed of the arrays after a region.
fn left_by(cut: &WarpCut, region: &Region) -> Pieces {
    let stops = region.next.iter().filter_map(|&next| stop_before(cut, next));
    let mut asked: BTreeSet<Piece> = stops.flat_map(asked_pieces).collect();
    if region.next.len() > 1 {
        asked.insert(Piece { start: at::NEXT, bytes: NUMBERS });
    }
    let behind = cut.regions.iter().filter(|other| region.next.contains(&other.number));
    [asked, behind.flat_map(|other| other.live.iter().copied()).collect()]
}

fn stop_before(cut: &WarpCut, region: u64) -> Option<&Stop> {
    cut.stops.iter().find(|stop| stop.number == region)
}

/// Text of the copies before and after the loop of a region, with names that begin with `q`; `None` if they are too
/// long.
pub(super) fn around_loop(cut: &WarpCut, region: &Region, q: &str) -> Option<[String; 2]> {
    let (read, left) = (read_by(cut, region), left_by(cut, region));
    let bytes: u64 = read.iter().chain(&left).flatten().map(|piece| piece.bytes).sum();
    let texts = || {
        let before = text(&read, |array| [array.to_owned(), format!("{array}.own")], &format!("{q}.in"));
        [before, text(&left, |array| [format!("{array}.own"), array.to_owned()], &format!("{q}.out"))]
    };
    (bytes <= COPIED_MAX).then(texts)
}

/// Text of the copies for lanes that diverge after a region.
pub(super) fn for_parted(cut: &WarpCut, region: &Region, q: &str) -> String {
    text(&left_by(cut, region), to_parted, q)
}

/// Text of the copies for lanes that diverge at a stop, where all have the number of their next region.
pub(super) fn for_parted_at(cut: &WarpCut, stop: &Stop, q: &str) -> String {
    let mut asked: BTreeSet<Piece> = asked_pieces(stop).into_iter().collect();
    asked.insert(Piece { start: at::NEXT, bytes: NUMBERS });
    let behind = cut.regions.iter().filter(|region| region.number == stop.number);
    text(&[asked, behind.flat_map(|region| region.live.iter().copied()).collect()], to_parted, q)
}

fn to_parted(array: &str) -> [String; 2] {
    [array.to_owned(), format!("{array}.parted")]
}

/// Text that copies pieces of both memories; `ends` returns the names of source and destination.
fn text(pieces: &Pieces, ends: impl Fn(&str) -> [String; 2], q: &str) -> String {
    let mut text = String::new();
    for (array, pieces) in ["op", "lanes"].into_iter().zip(pieces) {
        let [from, to] = ends(array);
        for Piece { start, bytes } in pieces {
            let _ = write!(
                text,
                "  %{q}.{array}.{start}.to = getelementptr i8, ptr %{to}, i64 {start}\n  \
                 %{q}.{array}.{start}.from = getelementptr i8, ptr %{from}, i64 {start}\n  \
                 call void @llvm.memcpy.p0.p0.i64(ptr %{q}.{array}.{start}.to, ptr %{q}.{array}.{start}.from, \
                 i64 {bytes}, i1 false)\n"
            );
        }
    }
    text
}

/// Where lanes that are together read the result of an operation.
fn answer_pieces(stop: &Stop) -> Vec<Piece> {
    let [value, flag] = match ops::answer(&stop.row) {
        Answer::None | Answer::AllLanes => return Vec::new(),
        Answer::Own => [(at::RESULT, NUMBERS), (at::PREDICATE, FLAGS)],
        Answer::Common => [(at::UNIFORM, 4), (at::COMMON_PREDICATE, 1)],
    }
    .map(|(start, bytes)| Piece { start, bytes });
    if stop.row.result.starts_with('{') { vec![value, flag] } else { vec![value] }
}

/// Where lanes that are together leave the arguments of an operation.
fn asked_pieces(stop: &Stop) -> Vec<Piece> {
    let left = ops::left_as_arrays(stop);
    let mut pieces = Vec::new();
    for (index, (ty, part)) in stop.row.params.iter().enumerate() {
        let Some(start) = ops::array_of(*part, ty).filter(|_| left >> index & 1 == 1) else { continue };
        pieces.push(Piece { start, bytes: if *ty == "i1" { FLAGS } else { NUMBERS } });
        if *ty == "i64" {
            pieces.push(Piece { start: at::HIGH, bytes: NUMBERS });
        }
    }
    pieces
}
