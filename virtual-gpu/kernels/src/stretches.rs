//! LLVM IR of the comparisons that guard functions call: how many threads of a row, from a given one on, take the same
//! way.
//!
//! Trap: a stretch is encoded as its length times two, plus one if the comparison holds, as `runtime.ll` expects.

use std::fmt::Write;

/// Widths in bits of the integers compared.
pub(crate) const WIDTHS: [u32; 2] = [32, 64];

/// The comparisons that guard functions call, besides those in `runtime.ll`.
pub(crate) fn text() -> String {
    let mut text = String::new();
    for width in WIDTHS {
        for predicate in ["eq", "ult", "ule", "slt", "sle"] {
            text.push_str(&comparison_text(predicate, width));
        }
    }
    text
}

/// Number of threads, for values rising by one from `%v`, whose comparison with `%b` has the same result. A stretch
/// ends where the numbers wrap.
fn comparison_text(predicate: &str, width: u32) -> String {
    let least = if predicate.starts_with('s') { 1u64 << (width - 1) } else { 0 };
    let least = if width == 32 { u64::from(least as u32) } else { least };
    let unsigned = predicate.replace('s', "u");
    let inside = match predicate {
        "eq" => "1".to_owned(),
        "ult" | "slt" => "%distance".to_owned(),
        _ => "%distance.next".to_owned(),
    };
    let outside = if predicate == "eq" { "%distance" } else { "%to.wrap" };
    let mut text = format!(
        "define i64 @eager.stretch.{predicate}.i{width}(i{width} %v.signed, i{width} %b.signed) {{\n  \
         %v = xor i{width} %v.signed, {least}\n  %b = xor i{width} %b.signed, {least}\n  \
         %holds = icmp {unsigned} i{width} %v, %b\n  %distance = sub i{width} %b, %v\n  \
         %distance.next = add i{width} %distance, 1\n  %to.wrap = sub i{width} 0, %v\n  \
         %length = select i1 %holds, i{width} {inside}, i{width} {outside}\n  \
         %whole = icmp eq i{width} %length, 0\n"
    );
    let _ = match width {
        32 => writeln!(text, "  %wide = zext i32 %length to i64"),
        _ => writeln!(text, "  %wide = call i64 @llvm.umin.i64(i64 %length, i64 4294967296)"),
    };
    text.push_str(
        "  %known = select i1 %whole, i64 4294967296, i64 %wide\n  %shifted = shl nuw nsw i64 %known, 1\n  \
         %bit = zext i1 %holds to i64\n  %stretch = or disjoint i64 %shifted, %bit\n  ret i64 %stretch\n}\n",
    );
    text
}
