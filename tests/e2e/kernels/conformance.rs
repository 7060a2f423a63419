//! Small CUDA programs whose results are also computed on the CPU (`conformance/`), on the virtual GPU in every mode of
//! the CPU kernels: all pass, and all bytes read back are equal between the modes.
//!
//! Trap: the programs must be compiled without contraction of floating-point operations, or the modes differ in their
//! bits. The same sources also build for a real GPU.

use eager_tests::{has_toolchain, root, run, run_ok, text, tool};
use std::path::Path;
use std::process::Command;

const SECONDS_MAX: &str = "300";

/// Each way to run a kernel; `strict` is the default way with checks.
const MODES: [&str; 5] = ["auto", "loops", "fission", "coroutines", "strict"];

/// Compiles a program of the suite in one mode and runs it alone; returns its output. In mode `strict` the virtual GPU
/// must report nothing. Device code of several files is linked.
fn outcome(sources: &[&str], mode: &str, folder: &Path) -> Result<String, String> {
    let source = sources[0];
    let program = folder.join(format!("{source}-{mode}"));
    let paths = sources.iter().map(|source| root().join("tests/conformance").join(source));
    let mut compile = Command::new(tool("eagercc"));
    compile.args(["-O1", "-std=c++17", "-ffp-contract=off", "--eager-no-instrument"]);
    compile.arg(match mode {
        "strict" => "--eager-strict".to_owned(),
        _ => format!("--eager-kernel-mode={mode}"),
    });
    compile.args((sources.len() > 1).then_some("-fgpu-rdc")).args(paths).arg("-o").arg(&program);
    let compiled = run(&mut compile);
    if !compiled.status.success() {
        return Err(format!("{source} in mode {mode}: {}", text(&compiled)));
    }
    let mut command = Command::new("timeout");
    command
        .arg(SECONDS_MAX)
        .arg(tool("eager"))
        .args(["run", "--plain", "--time-scale", "0"])
        .args((source == "devices.cu").then_some(["--virtual", "2xV100-16GB"]).into_iter().flatten())
        .arg("--")
        .arg(program);
    if source == "textures.cu" {
        // On purpose, threads outside a surface of fewer dimensions write where threads inside it do.
        command.env("EAGER_STRICT_RACES", "off");
    }
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
    let printed = in_every_mode(&["main.cu"], folder.path());
    assert!(printed.lines().count() > 30, "{printed}");
}

#[test]
fn textures_and_surfaces_are_right_in_every_mode_bit_for_bit() {
    if !has_toolchain("textures_and_surfaces_are_right_in_every_mode_bit_for_bit") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let printed = in_every_mode(&["textures.cu"], folder.path());
    assert!(printed.lines().count() > 20 && printed.ends_with(" 0 failed\n"), "{printed}");
}

#[test]
fn functions_called_through_pointers_virtual_and_recursive_pass_in_every_mode() {
    if !has_toolchain("functions_called_through_pointers_virtual_and_recursive_pass_in_every_mode") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let printed = in_every_mode(&["functions.cu"], folder.path());
    assert!(printed.ends_with("11 tests, 0 failed\n"), "{printed}");
}

#[test]
fn a_program_of_several_files_passes_in_every_mode_bit_for_bit() {
    if !has_toolchain("a_program_of_several_files_passes_in_every_mode_bit_for_bit") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let printed = in_every_mode(&["several.cu", "several_other.cu"], folder.path());
    assert!(printed.ends_with("4 tests, 0 failed\n"), "{printed}");
}

#[test]
fn every_device_has_its_own_variables_in_every_mode() {
    if !has_toolchain("every_device_has_its_own_variables_in_every_mode") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let printed = in_every_mode(&["devices.cu", "devices_other.cu"], folder.path());
    assert!(printed.ends_with("10 tests, 0 failed\n"), "{printed}");
}

/// Runs a program in every mode; returns its output, which must be the same in all.
fn in_every_mode(sources: &[&str], folder: &Path) -> String {
    let printed =
        MODES.map(|mode| outcome(sources, mode, folder).unwrap_or_else(|failure| panic!("{failure}")));
    for (mode, other) in MODES.iter().zip(&printed) {
        assert_eq!(printed[0], *other, "mode {mode}, and {}", MODES[0]);
    }
    let [first, ..] = printed;
    first
}

/// cuRAND's generators against their published formulas, and NVTX ranges, with the headers that set-up installs.
#[test]
fn random_numbers_in_kernels_are_those_of_their_generators() {
    if !has_toolchain("random_numbers_in_kernels_are_those_of_their_generators") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    // Two modes only, since the header takes long to compile.
    let [printed, other] = ["auto", "coroutines"].map(|mode| {
        outcome(&["random.cu"], mode, folder.path()).unwrap_or_else(|failure| panic!("{failure}"))
    });
    assert!(printed == other && printed.ends_with("5 tests, 0 failed\n"), "{printed}{other}");
    let program = folder.path().join("of-12.9");
    let source = root().join("tests/conformance/random.cu");
    let mut compile = Command::new(tool("eagercc"));
    compile.args(["--cuda", "12.9", "-O1", "-std=c++17", "-ffp-contract=off", "--eager-no-instrument"]);
    run_ok(compile.arg(source).arg("-o").arg(&program));
    let mut eager = Command::new(tool("eager"));
    let older = run_ok(eager.args(["run", "--plain", "--time-scale", "0"]).arg(program));
    assert_eq!(older, printed, "with CUDA 12.9, and with 13.0");
}

#[test]
fn thrust_and_cub_give_right_results() {
    if !has_toolchain("thrust_and_cub_give_right_results") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let printed =
        outcome(&["libraries.cu"], "auto", folder.path()).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(printed.ends_with("6 tests, 0 failed\n"), "{printed}");
}
