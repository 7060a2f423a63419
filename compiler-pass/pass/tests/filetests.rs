//! Runs `filetests/*.ll` through `opt` with the plugin and checks the result with `FileCheck`.
//!
//! Each file tests one behaviour. `; RUN: once` or `; RUN: twice` in its first line gives how often the pass runs; `;
//! REMARK:` lines must appear among the remarks. If tools are missing, the test is skipped with a message.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::plugin;

const OPT: &str =
    if cfg!(feature = "llvm22") { "/usr/lib/llvm-22/bin/opt" } else { "/usr/lib/llvm-19/bin/opt" };
const FILE_CHECK: &str = if cfg!(feature = "llvm22") {
    "/usr/lib/llvm-22/bin/FileCheck"
} else {
    "/usr/lib/llvm-19/bin/FileCheck"
};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/filetests")
}

fn tools_are_here() -> bool {
    let missing: Vec<_> = [OPT, FILE_CHECK].into_iter().filter(|tool| !Path::new(tool).is_file()).collect();
    if !missing.is_empty() {
        eprintln!("SKIPPED: no {}: run ./setup.sh", missing.join(", "));
    }
    missing.is_empty()
}

fn opt(input: &Path, output: &Path, passes: &str) -> Output {
    Command::new(OPT)
        .arg(format!("-load-pass-plugin={}", plugin().display()))
        .arg(format!("-passes={passes}"))
        .args(["-S", "-o"])
        .args([output, input])
        .args(["-pass-remarks=eager", "-pass-remarks-missed=eager"])
        .env_remove("EAGER_PASS_CPU_KERNELS")
        .env_remove("EAGER_PASS_REPORT")
        .env_remove("EAGER_PASS_INSTRUMENT")
        .output()
        .unwrap()
}

fn check(path: &Path, scratch: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).unwrap();
    let passes = match text.lines().next() {
        Some("; RUN: once") => "eager,verify",
        Some("; RUN: twice") => "eager,eager,verify",
        other => return Err(format!("first line is {other:?}, not `; RUN: once` or `; RUN: twice`")),
    };
    let output = scratch.join("out.ll");
    let ran = opt(path, &output, passes);
    let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    if !ran.status.success() {
        return Err(format!("opt failed:\n{errors}"));
    }
    for remark in text.lines().filter_map(|line| line.strip_prefix("; REMARK: ")) {
        if !errors.contains(remark) {
            return Err(format!("no remark `{remark}` in:\n{errors}"));
        }
    }
    let checked = Command::new(FILE_CHECK).arg(path).arg("--input-file").arg(&output).output().unwrap();
    if checked.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&checked.stderr).into_owned()) }
}

#[test]
fn filetests() {
    if !tools_are_here() {
        return;
    }
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|ext| ext == "ll")).collect();
    files.sort();
    assert!(!files.is_empty());
    let scratch = tempfile::tempdir().unwrap();
    let failed: Vec<_> = files
        .iter()
        .filter_map(|file| {
            check(file, scratch.path()).err().map(|error| format!("{}:\n{error}", file.display()))
        })
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Paths for the names in backticks in one cell of a table.
fn files_in(cell: &str, folder: &Path, extension: &str) -> Vec<PathBuf> {
    cell.split('`').skip(1).step_by(2).map(|name| folder.join(name).with_extension(extension)).collect()
}

#[test]
fn every_pattern_has_its_files() {
    let table = std::fs::read_to_string(folder().join("README.md")).unwrap();
    let corpus = folder().join("../../../../tests/corpus");
    let rows = table.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, number, _, filetests, programs, _] = cells[..] else { return None };
        Some((number.parse::<usize>().ok()?, filetests, programs))
    });
    let mut numbers = Vec::new();
    for (number, filetests, programs) in rows {
        for files in [files_in(filetests, &folder(), "ll"), files_in(programs, &corpus, "cu")] {
            assert!(!files.is_empty(), "pattern {number} has an empty cell");
            files.iter().for_each(|file| assert!(file.is_file(), "pattern {number}: no {}", file.display()));
        }
        numbers.push(number);
    }
    assert_eq!(numbers, (1..=17).collect::<Vec<_>>());
}

#[test]
fn opt_of_another_version_refuses_the_plugin() {
    let Some(other) = ["22", "19", "16", "14"]
        .map(|major| format!("/usr/lib/llvm-{major}/bin/opt"))
        .into_iter()
        .find(|tool| tool != OPT && Path::new(tool).is_file())
    else {
        eprintln!("SKIPPED: no opt of another LLVM version on this machine");
        return;
    };
    let ran = Command::new(other)
        .arg(format!("-load-pass-plugin={}", plugin().display()))
        .args(["-passes=eager", "-S", "/dev/null"])
        .output()
        .unwrap();
    assert!(!ran.status.success());
}
