//! Small CUDA programs with results computed independently on the CPU (`conformance/`), on the virtual GPU in every mode
//! of the CPU kernels: all pass, and all bytes read back are equal between the modes.
//!
//! Trap: the programs are compiled without contraction of floating-point operations, for only then are the modes equal
//! bit for bit. The same sources also build for a real GPU.

use eager_tests::{has_toolchain, root, run, text, tool};
use std::path::Path;
use std::process::Command;

const SECONDS_MAX: &str = "300";

/// Compiles a program of the suite in one mode and runs it alone; what it printed. In mode `strict` (the default one, with
/// checks) the virtual GPU may have nothing to say.
fn outcome(source: &str, mode: &str, folder: &Path) -> Result<String, String> {
    let program = folder.join(format!("{source}-{mode}"));
    let path = root().join("tests/conformance").join(source);
    let mut compile = Command::new(tool("eagercc"));
    compile.args(["-O1", "-std=c++17", "-ffp-contract=off", "--eager-no-instrument"]);
    compile.arg(match mode {
        "strict" => "--eager-strict".to_owned(),
        _ => format!("--eager-kernel-mode={mode}"),
    });
    compile.arg(path).arg("-o").arg(&program);
    let compiled = run(&mut compile);
    if !compiled.status.success() {
        return Err(format!("{source} in mode {mode}: {}", text(&compiled)));
    }
    let mut command = Command::new("timeout");
    command
        .arg(SECONDS_MAX)
        .arg(tool("eager"))
        .args(["run", "--plain", "--time-scale", "0", "--"])
        .arg(program);
    let ran = run(&mut command);
    let objects = mode == "strict" && String::from_utf8_lossy(&ran.stderr).contains("eager virtual GPU");
    if ran.status.success() && !objects {
        Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
    } else {
        Err(format!("{source} in mode {mode}, {}:\n{}", ran.status, text(&ran)))
    }
}

#[test]
fn the_suite_passes_in_every_mode_bit_for_bit() {
    if !has_toolchain("the_suite_passes_in_every_mode_bit_for_bit") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let printed = ["auto", "loops", "coroutines", "strict"]
        .map(|mode| outcome("main.cu", mode, folder.path()).unwrap_or_else(|failure| panic!("{failure}")));
    assert!(printed[0].lines().count() > 30, "{}", printed[0]);
    assert_eq!(printed[0], printed[1], "loops and coroutines where loops do not serve");
    assert_eq!(printed[0], printed[2], "coroutines for all kernels");
    assert_eq!(printed[0], printed[3], "with checks before every access");
}

#[test]
fn thrust_and_cub_give_right_results() {
    if !has_toolchain("thrust_and_cub_give_right_results") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let printed =
        outcome("libraries.cu", "auto", folder.path()).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(printed.ends_with("6 tests, 0 failed\n"), "{printed}");
}
