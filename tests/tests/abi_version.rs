//! An object of another interface version does not link with `libeager.so`, and a program of one does not start with it.

use eager_tests::{bin_dir, corpus, has_toolchain, root, run, run_ok, text, tool};
use std::path::{Path, PathBuf};
use std::process::Command;

const CLANG: &str = "clang++-22";
const OBJCOPY: &str = "/usr/lib/llvm-22/bin/llvm-objcopy";
const OTHER: &str = "eager_abi_v1";

/// An instrumented object that speaks another version of the interface; `None` without the tools.
fn foreign_object(test: &str, folder: &Path) -> Option<PathBuf> {
    if !has_toolchain(test) {
        return None;
    }
    if !Path::new(OBJCOPY).is_file() {
        eprintln!("SKIPPED: {test}: no {OBJCOPY}: run ./setup.sh");
        return None;
    }
    let source =
        corpus::programs().into_iter().find(|program| program.name == "straight").expect("straight.cu");
    let (object, foreign) = (folder.join("own.o"), folder.join("foreign.o"));
    run_ok(Command::new(tool("eagercc")).arg("-c").arg(&source.source).arg("-o").arg(&object));
    let renamed = format!("{}={OTHER}", eager_abi::VERSION_SYMBOL);
    run_ok(Command::new(OBJCOPY).args(["--redefine-sym", &renamed]).arg(&object).arg(&foreign));
    Some(foreign)
}

#[test]
fn an_object_of_another_version_does_not_link() {
    let folder = tempfile::tempdir().expect("folder");
    let Some(object) = foreign_object("link with another version", folder.path()) else { return };
    let output = run(Command::new(tool("eagercc")).arg(&object).arg("-o").arg(folder.path().join("program")));
    assert!(!output.status.success(), "it linked");
    let said = text(&output);
    assert!(said.lines().any(|line| line.contains("undefined") && line.contains(OTHER)), "{said}");
}

#[test]
fn a_program_of_another_version_does_not_start() {
    let folder = tempfile::tempdir().expect("folder");
    let Some(object) = foreign_object("start with another version", folder.path()) else { return };
    // What the other version's library was at its link: this one's, and its own version symbol.
    let library = folder.path().join("libeager_other.so");
    std::fs::write(folder.path().join("other.c"), format!("char {OTHER};\n")).expect("write other.c");
    run_ok(
        Command::new(CLANG)
            .args(["-x", "c", "-shared"])
            .arg(folder.path().join("other.c"))
            .arg("-o")
            .arg(&library),
    );
    let program = folder.path().join("program");
    run_ok(Command::new(tool("eagercc")).arg(&object).arg(&library).arg("-o").arg(&program));
    // Gone like an old installation: an empty library takes its place.
    std::fs::write(folder.path().join("other.c"), "").expect("write other.c");
    run_ok(
        Command::new(CLANG)
            .args(["-x", "c", "-shared"])
            .arg(folder.path().join("other.c"))
            .arg("-o")
            .arg(&library),
    );
    let output = run(Command::new(&program).env("LD_BIND_NOW", "1").env(
        "LD_LIBRARY_PATH",
        format!("{}:{}", bin_dir().display(), root().join(".toolchain/cuda-13.0/lib").display()),
    ));
    assert!(!output.status.success(), "it started");
    let said = text(&output);
    assert!(said.lines().any(|line| line.contains("undefined symbol") && line.contains(OTHER)), "{said}");
}
