//! Strict mode finds races: a kernel with a race is reported with both lines and both threads, and its correct twin is
//! not (`conformance/races.cu`).
//!
//! Trap: the values that a racing kernel reads are random, so lines about bytes that were never written are left out.
//! `EAGER_BLESS=1` writes `conformance/races.expected` anew.

use eager_tests::{eagercc_with, has_toolchain, root, run, text, tool};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

fn built(folder: &Path) -> PathBuf {
    let program = folder.join("races");
    let source = folder.join("races.cu");
    std::fs::copy(root().join("tests/conformance/races.cu"), &source).expect("source");
    let words = ["-O2", "--eager-strict", "--eager-no-instrument", "-Wno-backend-plugin"].map(Into::into);
    eagercc_with(&words, &[&source], &program);
    program
}

fn ran(program: &Path, words: &[&str], variables: &[(&str, &str)]) -> (ExitStatus, String) {
    let mut command = Command::new("timeout");
    command.arg("120").arg(tool("eager"));
    command
        .args(["run", "--plain", "--time-scale", "0", "--fault-status", "0", "--"])
        .arg(program)
        .args(words)
        // On a loaded machine a kernel that takes long would add its line.
        .env("EAGER_VGPU_SLOW_KERNEL", "0");
    let output = run(command.envs(variables.iter().copied()));
    (output.status, text(&output))
}

/// Removes what differs from run to run and from machine to machine.
fn masked(said: &str, folder: &Path) -> String {
    let here = format!("{}/", folder.display());
    let line = |line: &str| {
        let line = line.replace(&here, "").replace("eager virtual GPU: ", "");
        let words = line.split(' ').map(|word| match word {
            address if address.starts_with("0x") => "ADDRESS",
            header if header.contains("/include/") => "HEADER",
            word => word,
        });
        words.collect::<Vec<_>>().join(" ") + "\n"
    };
    let kept = said.lines().filter(|line| !line.contains("which was never written"));
    kept.filter(|line| !line.contains("strict: ")).map(line).collect()
}

#[test]
fn every_race_is_named_by_both_lines_and_no_twin_that_is_right() {
    if !has_toolchain("races") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = built(folder.path());
    let (status, said) = ran(&program, &["racy"], &[("EAGER_STRICT_RACES", "warn")]);
    assert!(status.success(), "{status}: {said}");
    let said = masked(&said, folder.path());
    let golden = root().join("tests/conformance/races.expected");
    if std::env::var_os("EAGER_BLESS").is_some() {
        std::fs::write(&golden, &said).expect("golden file");
    }
    assert_eq!(said, std::fs::read_to_string(&golden).expect("golden file"));
    let (status, said) = ran(&program, &["right"], &[]);
    let others: Vec<_> = said.lines().filter(|line| !line.starts_with("-- ")).collect();
    assert!(status.success() && others.len() == 1 && others[0].contains("note: "), "{status}: {said}");
}

#[test]
fn a_race_fails_its_launch_and_may_decide_the_status() {
    if !has_toolchain("launches with races") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = built(folder.path());
    let (status, said) = ran(&program, &["racy", "grid_raw"], &[]);
    assert!(status.success() && said.contains("cudaErrorLaunchFailure"), "{status}: {said}");
    assert!(said.contains("strict: 128 errors, 0 warnings"), "{said}");
    let (status, said) = ran(&program, &["racy", "grid_raw"], &[("EAGER_STRICT_STATUS", "9")]);
    assert_eq!(status.code(), Some(9), "{said}");
    // With warps in step the kernel is right, so the launch goes on.
    let (status, said) = ran(&program, &["racy", "raw_warp"], &[("EAGER_STRICT_STATUS", "9")]);
    assert!(status.success() && said.contains("warning: race in kernel raw_warp"), "{status}: {said}");
    assert!(!said.contains("cudaError"), "{said}");
    let (status, said) = ran(&program, &["racy"], &[("EAGER_STRICT_RACES", "off")]);
    assert!(status.success() && !said.contains("race in"), "{status}: {said}");
    let (_, said) = ran(&program, &["racy", "grid_raw"], &[("EAGER_STRICT_RACE_MEMORY", "0")]);
    assert!(said.contains("EAGER_STRICT_RACE_MEMORY allows") && !said.contains("race in"), "{said}");
}
