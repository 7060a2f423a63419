//! Helpers shared by the tests of both CUDA versions: toolkit and library paths, the test program and its runs,
//! exports.
//!
//! Trap: the program must be linked with the library that cargo built for this test: the one in the test's own target
//! folder, not one of another profile.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod exports;
pub mod headers;

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const NM: &str = "/usr/lib/llvm-22/bin/llvm-nm";

/// A major version of CUDA.
#[derive(Debug, Clone, Copy)]
pub struct Major {
    /// Folder in `.toolchain`.
    pub tree: &'static str,
    /// File name of the library as cargo builds it.
    pub library: &'static str,
    pub soname: &'static str,
}

pub struct Built {
    pub program: PathBuf,
    pub library_folder: PathBuf,
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders down").to_owned()
}

impl Major {
    fn toolkit(&self) -> PathBuf {
        repository().join(".toolchain").join(self.tree)
    }

    /// Path of the library that cargo built with this test.
    fn built_library(&self) -> PathBuf {
        std::env::current_exe().expect("a test has an executable").with_file_name(self.library)
    }

    /// Builds the program and a folder for the loader; `None`, with a message, if compiler or headers are missing.
    pub fn build(&self) -> Option<Built> {
        let headers = self.toolkit().join("include");
        if !headers.join("cuda_runtime_api.h").exists()
            || Command::new("clang++-22").arg("--version").output().is_err()
        {
            eprintln!("SKIPPED: no clang++-22 or no headers of {}; run ./setup.sh", self.tree);
            return None;
        }
        let library = self.built_library();
        assert!(library.exists(), "cargo builds {} with this test", library.display());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!(
            "programs-{}-{}",
            self.tree,
            std::process::id()
        ));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["libcudart.so", self.soname] {
            let _ = std::fs::remove_file(folder.join(name));
            symlink(&library, folder.join(name)).unwrap();
        }
        let program = folder.join("program");
        let compiled = Command::new("clang++-22")
            .arg(format!("-DKERNEL_ABI_VERSION={}", eager_exec::abi::KERNEL_ABI_VERSION))
            .args(["-std=c++17", "-O1", "-pthread", "-Wall", "-Werror", "-isystem"])
            .arg(&headers)
            .args(sources())
            .arg("-L")
            .arg(&folder)
            .args(["-lcudart", "-o"])
            .arg(&program)
            .output()
            .unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        Some(Built { program, library_folder: folder })
    }

    /// Names that Eager's and NVIDIA's libraries export; `None`, with a message, if NVIDIA's is missing.
    pub fn exports(&self) -> Option<(BTreeSet<String>, BTreeSet<String>)> {
        let real = self.toolkit().join("lib").join(self.soname);
        if !real.exists() || !Path::new(NM).exists() {
            eprintln!("SKIPPED: no {} or no {NM}; run ./setup.sh", real.display());
            return None;
        }
        Some((exports(&self.built_library()), exports(&real)))
    }
}

/// Every C++ file of the program.
fn sources() -> Vec<PathBuf> {
    let folder = repository().join("virtual-gpu/cudart/tests/program");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "cpp")).collect()
}

pub fn command(built: &Built, scenario: &str, environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(&built.program);
    command.arg(scenario).env("LD_LIBRARY_PATH", &built.library_folder);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("EAGER_")) {
        command.env_remove(name);
    }
    command.envs(environment.iter().copied());
    command
}

/// Runs a scenario, which must succeed; returns its standard output and standard error.
pub fn run(built: &Built, scenario: &str, environment: &[(&str, &str)]) -> (String, String) {
    let Output { status, stdout, stderr } = command(built, scenario, environment).output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert!(status.success(), "{scenario}: {status}\n{stderr}");
    assert!(!stderr.contains("version information"), "the loader is content: {stderr}");
    (String::from_utf8(stdout).unwrap(), stderr)
}

/// Dynamic symbols that a library defines, without their version: the loader accepts symbols without a version, such as
/// Eager's, for any version.
fn exports(library: &Path) -> BTreeSet<String> {
    let listed = Command::new(NM).args(["-D", "--defined-only", "-j"]).arg(library).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    String::from_utf8(listed.stdout)
        .unwrap()
        .lines()
        .filter_map(|line| line.split('@').next())
        .map(str::to_owned)
        .collect()
}

/// The CUDA runtime functions among Eager's exports.
pub fn functions(ours: &BTreeSet<String>) -> BTreeSet<&str> {
    let is_call = |name: &&str| name.starts_with("cuda") || name.starts_with("__cuda");
    ours.iter().map(String::as_str).filter(is_call).collect()
}

/// Runs a scenario like [`run`], with `input` on standard input.
pub fn run_with_input(
    built: &Built,
    scenario: &str,
    environment: &[(&str, &str)],
    input: &str,
) -> (String, String) {
    let mut program = command(built, scenario, environment);
    program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = program.spawn().unwrap();
    program.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let Output { status, stdout, stderr } = program.wait_with_output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert!(status.success(), "{scenario}: {status}\n{stderr}");
    (String::from_utf8(stdout).unwrap(), stderr)
}

/// Calls that work whatever the device's state, and calls that return no code.
const WITHOUT_DEVICE: [&str; 5] = [
    "cudaCreateChannelDesc",
    "cudaDriverGetVersion",
    "cudaGetErrorName",
    "cudaGetErrorString",
    "cudaRuntimeGetVersion",
];

/// Checks that every exported call returns the failure.
pub fn every_call_gives_the_failure(built: &Built, major: &Major) {
    let Some((ours, _)) = major.exports() else { return };
    let calls: Vec<&str> = functions(&ours)
        .into_iter()
        .filter(|name| name.starts_with("cuda") && !WITHOUT_DEVICE.contains(name))
        .collect();
    for scenario in ["sticky-address", "sticky-trap", "sticky-assert"] {
        let (printed, _) =
            run_with_input(built, scenario, &[("EAGER_VGPU_TIME_SCALE", "0")], &calls.join("\n"));
        assert_eq!(printed, format!("{} calls\n", calls.len()));
    }
}

/// Checks that every refused function gives its code, and that its name and reason are printed once.
pub fn refused_functions_say_why_once(built: &Built, refused: &[(&str, &str)]) {
    let names: Vec<&str> = refused.iter().map(|(name, _)| *name).collect();
    let (printed, errors) =
        run_with_input(built, "refused", &[], &[names.clone(), names].concat().join("\n"));
    assert_eq!(printed, format!("{} calls\n", 2 * refused.len()));
    let mut lines: Vec<&str> = errors.lines().collect();
    lines.sort_unstable();
    let mut expected: Vec<String> =
        refused.iter().map(|(name, reason)| format!("eager virtual GPU: {name}: {reason}")).collect();
    expected.sort_unstable();
    assert_eq!(lines, expected);
}
