//! Clusters of blocks with both CUDAs: results, the error on a card without clusters, and strict mode.
//!
//! Trap: clusters need a card of compute capability 9.0, which is not the default card.

use eager_tests::cudas::TREES;
use eager_tests::{eagercc_with, has_toolchain, root, run, text, tool};
use std::path::Path;
use std::process::{Command, Output};

fn on(card: &str, program: &Path) -> Output {
    let mut command = Command::new(tool("eager"));
    command.args(["run", "--plain", "--virtual", card, "--time-scale", "0", "--"]).arg(program);
    run(&mut command)
}

#[test]
fn blocks_of_a_cluster_reach_each_other_and_wait_for_each_other() {
    for (tree, mode) in [
        (TREES[0], "--eager-kernel-mode=auto"),
        (TREES[1], "--eager-strict"),
        (TREES[1], "--eager-kernel-mode=auto"),
    ] {
        let cuda = root().join(".toolchain").join(tree);
        if !has_toolchain(tree) || !cuda.join("include/cuda_runtime.h").exists() {
            eprintln!("SKIPPED: {tree}: run ./setup.sh");
            continue;
        }
        let folder = tempfile::tempdir().expect("folder");
        let program = folder.path().join("clusters");
        let cuda_path = format!("--cuda-path={}", cuda.display());
        let words = [&cuda_path, "-O2", "-std=c++17", "--cuda-gpu-arch=sm_90", mode];
        eagercc_with(&words.map(Into::into), &[&root().join("tests/conformance/clusters.cu")], &program);
        let output = on("1xH200", &program);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success() && printed.ends_with(" 0 failed\n"),
            "{tree} {mode}: {}",
            text(&output)
        );
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("eager virtual GPU"), "{tree} {mode}: {said}");
        let old = on("1xV100-16GB", &program);
        assert!(!old.status.success(), "{}", text(&old));
        assert!(text(&old).contains("this GPU has no clusters of blocks"), "{}", text(&old));
    }
}
