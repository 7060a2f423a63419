//! Runs the same seven executables in three ways: plain on the stand-in runtime, under `eagerd`, and against NVIDIA's
//! own `libcudart` up to its "no driver" error.

use eager_tests::accounting::audit;
use eager_tests::{
    daemon::Daemon, has_toolchain, rodinia_arguments, rodinia_binary, rodinia_build, root, run, run_ok, text,
    tool,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Compiled once for all tests of this file.
static BINARIES: LazyLock<Vec<(&'static eager_rodinia::Program, PathBuf)>> = LazyLock::new(|| {
    eager_rodinia::programs().iter().map(|program| (program, rodinia_binary(program))).collect()
});

#[test]
fn every_program_is_right_on_the_stand_in_runtime() {
    if !has_toolchain("programs on the stand-in runtime") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    for (program, binary) in BINARIES.iter() {
        check_plain(program, binary, folder.path());
    }
}

#[test]
fn every_program_is_right_in_every_mode_of_its_kernels() {
    if !has_toolchain("programs in every mode of their kernels") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    for mode in ["loops", "fission", "coroutines"] {
        for program in eager_rodinia::programs() {
            let binary = folder.path().join(format!("{}-{mode}", program.binary));
            rodinia_build(program, &[format!("--eager-kernel-mode={mode}").into()], &binary);
            check_plain(program, &binary, folder.path());
        }
    }
}

/// Runs a program on the stand-in runtime alone, and checks its output.
fn check_plain(program: &eager_rodinia::Program, binary: &Path, folder: &Path) {
    let out = run_ok(
        Command::new(tool("eager"))
            .args(["run", "--plain", "--time-scale", "0", "--"])
            .arg(binary)
            .args(rodinia_arguments(&program.smoke, folder)),
    );
    assert!(out.lines().any(|line| line == program.expected), "{}: {out}", binary.display());
}

#[test]
fn every_program_is_right_under_each_policy() {
    if !has_toolchain("programs under eagerd") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    for policy in ["case", "case-fifo", "eager", "eager-opt"] {
        let daemon = Daemon::start(&["--virtual", "4xV100-16GB", "--time-scale", "0", "--policy", policy]);
        for (program, binary) in BINARIES.iter() {
            let out = run_ok(daemon.run(binary).args(rodinia_arguments(&program.smoke, folder.path())));
            assert!(
                out.lines().any(|line| line == program.expected),
                "{} under {policy}: {out}",
                program.name
            );
        }
        let tasks = daemon.ask("ps")["tasks"].as_array().map(Vec::len);
        assert_eq!(tasks, Some(0), "tasks left behind under {policy}");
        let granted: u64 = daemon.ask("info")["devices"]
            .as_array()
            .expect("devices")
            .iter()
            .map(|device| device["granted_bytes"].as_u64().expect("granted_bytes"))
            .sum();
        assert_eq!(granted, 0, "memory left granted under {policy}");
    }
}

#[test]
fn every_program_reserves_what_it_holds() {
    if !has_toolchain("reservations of the programs") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0", "--policy", "eager-opt"]);
    for (program, binary) in BINARIES.iter() {
        let trace = folder.path().join(format!("{}.jsonl", program.name));
        let mut command = daemon.run(binary);
        command.args(rodinia_arguments(&program.smoke, folder.path()));
        run_ok(command.env("EAGER_TRACE", &trace).env("EAGER_VGPU_TRACE", &trace));
        let books = audit(&std::fs::read_to_string(&trace).expect("trace")).expect("a trace");
        let (reserved, held) = (books.reserved_bytes_max, books.held_bytes_max);
        assert_eq!(held, program.smoke.bytes, "{} holds what its manifest says", program.name);
        assert_eq!(reserved, held, "{} reserves what it holds", program.name);
        assert_eq!((books.static_tasks, books.lazy_tasks), (1, 0), "{}: {books:?}", program.name);
        assert!(books.nonsense.is_empty() && books.late_launches.is_empty(), "{}: {books:?}", program.name);
        assert!(books.shortfalls.is_empty(), "{}: {:?}", program.name, books.shortfalls);
    }
}

#[test]
fn every_program_starts_on_nvidias_runtime_and_reports_its_error() {
    if !has_toolchain("programs on NVIDIA's libcudart") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let cuda = root().join(".toolchain/cuda-13.0/lib");
    for (program, binary) in BINARIES.iter() {
        let output = run(Command::new(binary)
            .args(rodinia_arguments(&program.smoke, folder.path()))
            .env("LD_LIBRARY_PATH", &cuda)
            .env("EAGER_DISABLE", "1"));
        let all = text(&output);
        assert!(!all.contains("error while loading shared libraries"), "{}: {all}", program.name);
        if output.status.success() {
            eprintln!("SKIPPED: {}: a driver is here, so NVIDIA's runtime works", program.name);
            continue;
        }
        assert_eq!(output.status.code(), Some(1), "{}: {all}", program.name);
        assert!(all.contains("driver"), "{}: {all}", program.name);
    }
}
