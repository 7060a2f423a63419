//! What the system tests share: finding the built tools, compiling programs, running a daemon for one test.
//!
//! Trap: these tests run the *built* executables beside the test binary; `cargo build --workspace` must have run before
//! (`make test` does). Everything a test starts ends with it, also when it panics: the guards kill on drop.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub mod daemon;

/// The folder of the built executables and libraries.
pub fn bin_dir() -> PathBuf {
    let exe = std::env::current_exe().expect("path of the test binary");
    let deps = exe.parent().expect("deps folder");
    deps.parent().expect("profile folder").to_path_buf()
}

/// A built executable or library; panics with what to do when it is not there.
pub fn tool(name: &str) -> PathBuf {
    let path = bin_dir().join(name);
    assert!(path.exists(), "{} is not built: run `cargo build --workspace` first", path.display());
    path
}

/// Root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("repository root").to_path_buf()
}

/// Is the compiler's toolchain here? Says loudly when not.
pub fn has_toolchain(test: &str) -> bool {
    let clang = Command::new("clang++-22").arg("--version").output().is_ok_and(|o| o.status.success());
    let cuda = root().join(".toolchain/cuda-13.0/include/cuda_runtime.h").exists();
    if !(clang && cuda) {
        eprintln!("SKIPPED: {test}: needs clang++-22 and .toolchain/cuda-13.0: run ./setup.sh");
    }
    clang && cuda
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"))
}

/// Runs a command that must succeed; its standard output.
pub fn run_ok(command: &mut Command) -> String {
    let output = run(command);
    assert!(output.status.success(), "{command:?} ended with {}:\n{}", output.status, text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Both streams of a finished command, for messages.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Compiles sources with `eagercc` into `out`.
pub fn eagercc(sources: &[&Path], out: &Path) {
    run_ok(Command::new(tool("eagercc")).arg("-O2").args(sources).arg("-o").arg(out));
}

/// A program of `rodinia/`, compiled once per test binary run into the target folder.
pub fn rodinia(name: &str) -> PathBuf {
    let program = eager_rodinia_sources(name);
    let out = bin_dir().join("rodinia");
    std::fs::create_dir_all(&out).expect("folder for programs");
    let binary = out.join(name);
    let sources: Vec<&Path> = program.iter().map(PathBuf::as_path).collect();
    // Tests of one binary run side by side: each compiles to its own file and moves it into place.
    let own = out.join(format!("{name}.{}.{:?}", std::process::id(), std::thread::current().id()));
    eagercc(&sources, &own);
    std::fs::rename(&own, &binary).expect("move the program into place");
    binary
}

fn eager_rodinia_sources(name: &str) -> Vec<PathBuf> {
    let folder = root().join("rodinia").join(name);
    let mut sources: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.expect("folder entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "cu" || e == "c" || e == "cpp"))
        .collect();
    sources.sort();
    sources
}
