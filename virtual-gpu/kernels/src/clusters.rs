//! Access of kernels to their cluster of blocks: special registers, addresses of other blocks' shared memory. Its
//! barrier is in [`crate::suspend`]. (PTX ISA 9.0, "%cluster_ctaid" and its neighbours, "mapa", "getctarank".)
//!
//! Trap: offsets are those of eager-exec's `ClusterView`, and `tests/layout.rs` keeps them in step. A kernel that uses
//! any of this, or waits at the barrier, must be flagged in the table: only then does the executor describe its
//! cluster.

use std::fmt::Write;

use crate::intrinsics::THREAD;
use crate::llvm::{Opcode, Value};

/// Completes an address of the cluster's shared memory that was cut to 32 bits.
pub(crate) const ADDRESS: &str = "nvvm.cluster_address";

const CLUSTER_AT: u32 = 168;
const RANK_AT: u32 = 8;
const COUNT_AT: u32 = 12;
/// Special registers of three components, and their offsets.
const TRIPLES: [(&str, u32); 4] =
    [("cluster.ctaid", 16), ("cluster.nctaid", 28), ("clusterid", 40), ("nclusterid", 52)];

/// True if a kernel with this instruction reads its cluster.
pub(crate) fn concerns(instruction: Value) -> bool {
    let call = instruction.opcode() == Some(Opcode::LLVMCall);
    call && instruction.callee().is_some_and(|callee| {
        let name = callee.name();
        let rest = name.strip_prefix("llvm.").unwrap_or(&name);
        ["nvvm.barrier.cluster.", "nvvm.mapa", "nvvm.getctarank", "nvvm.is_explicit_cluster", ADDRESS]
            .iter()
            .any(|start| rest.starts_with(start))
            || rest.strip_prefix("nvvm.read.ptx.sreg.").is_some_and(|register| register.contains("cluster"))
    })
}

pub(crate) fn text() -> String {
    let mut text = format!(
        "define ptr @eager.cluster(ptr %ctx) {{\n  %at = getelementptr i8, ptr %ctx, i64 {CLUSTER_AT}\n  \
         %view = load ptr, ptr %at, !invariant.load !0\n  ret ptr %view\n}}\n"
    );
    let mut register = |name: &str, at: u32| {
        let _ = write!(
            text,
            "define i32 @eager.nvvm.read.ptx.sreg.{name}({THREAD}) {{\n  %view = call ptr @eager.cluster(ptr %ctx)\n  \
             %at = getelementptr i8, ptr %view, i64 {at}\n  %v = load i32, ptr %at, !invariant.load !0\n  ret i32 %v\n}}\n"
        );
    };
    register("cluster.ctarank", RANK_AT);
    register("cluster.nctarank", COUNT_AT);
    for (name, at) in TRIPLES {
        for (part, axis) in ["x", "y", "z"].iter().zip(0..) {
            register(&format!("{name}.{part}"), at + 4 * axis);
        }
    }
    text + &format!(
        "define i1 @eager.nvvm.is_explicit_cluster({THREAD}) {{\n  \
         %count = call i32 @eager.nvvm.read.ptx.sreg.cluster.nctarank(ptr %ctx, i32 %tx, i32 %ty, i32 %tz)\n  \
         %is = icmp ne i32 %count, 1\n  ret i1 %is\n}}\n\
         define ptr @eager.cluster_shared(ptr %ctx, i32 %rank) {{\n  %view = call ptr @eager.cluster(ptr %ctx)\n  \
         %list = load ptr, ptr %view, !invariant.load !0\n  %index = zext i32 %rank to i64\n  \
         %at = getelementptr ptr, ptr %list, i64 %index\n  %memory = load ptr, ptr %at, !invariant.load !0\n  ret ptr %memory\n}}\n\
         define ptr @eager.nvvm.mapa({THREAD}, ptr %p, i32 %rank) {{\n  \
         %own.at = getelementptr i8, ptr %ctx, i64 40\n  %own = load ptr, ptr %own.at, !invariant.load !0\n  \
         %address = ptrtoint ptr %p to i64\n  %start = ptrtoint ptr %own to i64\n  %offset = sub i64 %address, %start\n  \
         %memory = call ptr @eager.cluster_shared(ptr %ctx, i32 %rank)\n  \
         %there = getelementptr i8, ptr %memory, i64 %offset\n  ret ptr %there\n}}\n\
         {}{}",
        search(
            "i32 @eager.nvvm.getctarank",
            "ptr %p",
            "ptrtoint ptr %p to i64",
            "i64",
            "  ret i32 %rank\n",
            "  ret i32 -1\n"
        ),
        search(
            &format!("ptr @eager.{ADDRESS}"),
            "i32 %low",
            "add i32 %low, 0",
            "i32",
            "  %wide = zext i32 %offset to i64\n  %there = getelementptr i8, ptr %memory, i64 %wide\n  ret ptr %there\n",
            // Not in shared memory: an address that faults.
            "  ret ptr inttoptr (i64 16 to ptr)\n",
        )
    )
}

/// Text of a function that finds the block of the cluster whose shared memory contains an address, and continues with
/// `found` or `none`.
fn search(head: &str, param: &str, address: &str, ty: &str, found: &str, none: &str) -> String {
    let bytes = if ty == "i32" { "%bytes.narrow".to_owned() } else { "%bytes.wide".to_owned() };
    format!(
        "define {head}({THREAD}, {param}) {{\nentry:\n  %address = {address}\n  \
         %bytes.at = getelementptr i8, ptr %ctx, i64 36\n  %bytes.narrow = load i32, ptr %bytes.at, !invariant.load !0\n  \
         %bytes.wide = zext i32 %bytes.narrow to i64\n  \
         %count = call i32 @eager.nvvm.read.ptx.sreg.cluster.nctarank(ptr %ctx, i32 %tx, i32 %ty, i32 %tz)\n  \
         br label %look\nlook:\n  %rank = phi i32 [ 0, %entry ], [ %next, %other ]\n  \
         %memory = call ptr @eager.cluster_shared(ptr %ctx, i32 %rank)\n  %start = ptrtoint ptr %memory to {ty}\n  \
         %offset = sub {ty} %address, %start\n  %inside = icmp ult {ty} %offset, {bytes}\n  \
         br i1 %inside, label %found, label %other\nother:\n  %next = add i32 %rank, 1\n  \
         %more = icmp ult i32 %next, %count\n  br i1 %more, label %look, label %none\n\
         found:\n{found}none:\n{none}}}\n"
    )
}
