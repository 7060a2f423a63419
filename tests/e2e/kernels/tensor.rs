//! Tensor cores on the CPU: programs of both CUDAs in several modes, strict too, and operations that are refused in one
//! line.
//!
//! Trap: the suite compares sums bit for bit with those of one generation of GPUs; `virtual-gpu/exec/tests/tensor.rs`
//! tests, against measured sums, that the rule is that generation's.

use eager_tests::cudas::TREES;
use eager_tests::{eagercc_with, has_toolchain, root, run, text, tool};
use std::process::Command;

#[test]
fn every_type_shape_and_layout_has_its_sums() {
    for (tree, mode) in [
        (TREES[0], "--eager-kernel-mode=auto"),
        (TREES[0], "--eager-strict"),
        (TREES[1], "--eager-kernel-mode=coroutines"),
    ] {
        let cuda = root().join(".toolchain").join(tree);
        if !has_toolchain(tree) || !cuda.join("include/cuda_runtime.h").exists() {
            eprintln!("SKIPPED: {tree}: run ./setup.sh");
            continue;
        }
        let folder = tempfile::tempdir().expect("folder");
        let program = folder.path().join("tensor");
        let cuda_path = format!("--cuda-path={}", cuda.display());
        let words = [&cuda_path, "-O1", "-std=c++17", "--eager-no-instrument", mode];
        eagercc_with(&words.map(Into::into), &[&root().join("tests/conformance/tensor.cu")], &program);
        let mut command = Command::new(tool("eager"));
        command.args(["run", "--plain", "--time-scale", "0", "--"]).arg(&program);
        let output = run(&mut command);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success() && printed.ends_with(" 0 failed\n"),
            "{tree} {mode}: {}",
            text(&output)
        );
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("eager virtual GPU"), "{tree} {mode}: {said}");
    }
}

/// Inline PTX without a row in the table, and the compiler's name for it.
const REFUSED: [(&str, &str); 4] = [
    (
        "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%0,%0,%0},{%0,%0},{%0,%0},{%0,%0,%0,%0},%0,0;",
        "a sparse tensor-core operation (`mma.sp::ordered_metadata.sync",
    ),
    ("wgmma.fence.sync.aligned;", "a tensor-core operation of a warpgroup (`wgmma.fence.sync.aligned`)"),
    (
        "tcgen05.wait::ld.sync.aligned;",
        "a tensor-core operation on tensor memory (`tcgen05.wait::ld.sync.aligned`)",
    ),
    ("cp.async.bulk.commit_group;", "a bulk copy (tensor memory accelerator) (`cp.async.bulk.commit_group`)"),
];

#[test]
fn what_is_not_there_is_named_in_one_line() {
    if !has_toolchain("refusals of tensor cores") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("refused.cu");
    for (assembly, said) in REFUSED {
        let source =
            format!("__global__ void k(float *x) {{\n  asm volatile(\"{assembly}\" : \"+f\"(x[0]));\n}}\n");
        std::fs::write(&file, source).expect("write");
        let mut command = Command::new(tool("eagercc"));
        command.arg("-c").arg(&file).arg("-o").arg(folder.path().join("o"));
        let output = run(&mut command);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let line =
            stderr.lines().find(|line| line.contains("refused.cu:2: kernel k: ") && line.contains(said));
        assert!(!output.status.success(), "{}", text(&output));
        assert!(line.is_some_and(|line| line.contains("--eager-no-cpu-kernels")), "{said}: {stderr}");
    }
}
