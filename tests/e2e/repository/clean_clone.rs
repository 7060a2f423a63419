//! The tree as a newcomer has it: only the files that git would carry, and an empty cargo home. It is installed, and the
//! quick start and CMake projects run from there.
//!
//! Trap: what this tree has built stands in for the newcomer's `make build`, which takes too long here; everything else
//! must come from the clone or the network.

use super::docs;
use eager_tests::{bin_dir, has_toolchain, root, run, run_ok, text};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Programs and libraries that `make install` takes from the build.
const BUILT: [&str; 11] = [
    "eager",
    "eagerd",
    "eagercc",
    "eager-sim",
    "eager-eval",
    "eager-vgpud",
    "libeager.so",
    "libeager_preload.so",
    "libeager_pass.so",
    "libcudart.so",
    "libcudart12.so",
];

/// A clone and an installation made from it.
struct Newcomer {
    folder: tempfile::TempDir,
}

impl Newcomer {
    fn clone(&self) -> PathBuf {
        self.folder.path().join("eager")
    }

    fn prefix(&self) -> PathBuf {
        self.folder.path().join("prefix")
    }
}

/// Clones and installs once for all tests of this file; `None` without a network.
fn newcomer() -> Option<&'static Newcomer> {
    static MADE: OnceLock<Option<Newcomer>> = OnceLock::new();
    MADE.get_or_init(install).as_ref()
}

fn install() -> Option<Newcomer> {
    let newcomer = Newcomer { folder: tempfile::tempdir().expect("folder") };
    let (clone, built) = (newcomer.clone(), newcomer.folder.path().join("built"));
    for folder in [&clone, &built] {
        std::fs::create_dir(folder).expect("folder");
    }
    let carried = "git ls-files -z --cached --others --exclude-standard | \
                   tar --null --files-from - --ignore-failed-read -cf - | tar -xf - -C \"$CLONE\"";
    run_ok(Command::new("bash").arg("-c").arg(carried).current_dir(root()).env("CLONE", &clone));
    for file in BUILT {
        symlink(bin_dir().join(file), built.join(file)).expect("link");
    }
    let empty = tempfile::tempdir().expect("folder");
    let mut make = Command::new("make");
    make.current_dir(&clone).arg("install").arg(format!("BUILT={}", built.display()));
    make.arg(format!("PREFIX={}", newcomer.prefix().display())).env("CARGO_HOME", empty.path());
    let made = run(&mut make);
    let said = text(&made);
    if !made.status.success()
        && ["failed to download", "Could not resolve host"].iter().any(|words| said.contains(words))
    {
        eprintln!("SKIPPED: a clean clone with an empty cargo home: the registry cannot be reached");
        return None;
    }
    assert!(made.status.success(), "{said}");
    Some(newcomer)
}

/// In a clean clone, only the crates of a build were fetched; the script that lists licences must fetch the rest.
#[test]
fn licences_are_listed_with_an_empty_cargo_home() {
    let Some(newcomer) = newcomer() else { return };
    let listed = std::fs::read_to_string(newcomer.prefix().join("share/doc/eager/third-party.txt"));
    let listed = listed.expect("the list of crates");
    assert!(listed.contains("======== clap 4.") && listed.contains("-------- LICENSE-APACHE"), "{listed}");
}

#[test]
fn quick_start_runs_from_an_installation_of_a_clean_clone() {
    if !has_toolchain("quick start of a clean clone") {
        return;
    }
    let Some(newcomer) = newcomer() else { return };
    docs::play_from(Path::new("docs/quick-start.md"), &newcomer.prefix().join("bin"), &newcomer.clone());
}

/// A target of `.cu` files only, in a project of CUDA only: from an installation and from the sources, by both
/// generators.
#[test]
fn cmake_package_links_a_target_of_cuda_alone() {
    if !has_toolchain("cmake with CUDA alone") {
        return;
    }
    let Some(newcomer) = newcomer() else { return };
    let (clone, prefix) = (newcomer.clone(), newcomer.prefix());
    let folder = tempfile::tempdir().expect("folder");
    let examples = clone.join("compiler-pass/driver/examples");
    for (from, to) in [("sum.cu", "sum.cu"), ("main.cpp", "main.cu")] {
        std::fs::copy(examples.join(from), folder.path().join(to)).expect("copy");
    }
    let project = "cmake_minimum_required(VERSION 3.21)\nproject(sum LANGUAGES CUDA)\nfind_package(Eager REQUIRED)\n\
                   add_executable(sum main.cu sum.cu)\neager_enable(sum)\n";
    std::fs::write(folder.path().join("CMakeLists.txt"), project).expect("write");
    let cuda = root().join(".toolchain/cuda-13.0");
    let of_sources = format!("-DEager_DIR={}", clone.join("compiler-pass/driver/cmake").display());
    let of_build = format!("-DEager_COMPILER={}", bin_dir().join("eagercc").display());
    let of_installation = format!("-DCMAKE_PREFIX_PATH={}", prefix.display());
    for (tool, generator) in [("make", "Unix Makefiles"), ("ninja", "Ninja")] {
        if Command::new("cmake").arg("--version").output().is_err()
            || Command::new(tool).arg("--version").output().is_err()
        {
            eprintln!("SKIPPED: cmake with CUDA alone, {generator}: needs cmake and {tool}: run ./setup.sh");
            continue;
        }
        for (name, from) in [("sources", vec![&of_sources, &of_build]), ("installed", vec![&of_installation])]
        {
            let build: PathBuf = folder.path().join(format!("{tool}-{name}"));
            let mut cmake = Command::new("cmake");
            cmake.current_dir(folder.path()).args(["-G", generator, "-S", ".", "-B"]).arg(&build).args(from);
            cmake.arg(format!("-DCMAKE_CUDA_COMPILER={}", cuda.join("bin/nvcc").display()));
            cmake.arg(format!("-DCUDAToolkit_ROOT={}", cuda.display())).arg("-DCMAKE_CUDA_ARCHITECTURES=90");
            run_ok(&mut cmake);
            run_ok(Command::new("cmake").arg("--build").arg(&build));
            let mut eager = Command::new(prefix.join("bin/eager"));
            let said = run_ok(eager.args(["run", "--plain"]).arg(build.join("sum")));
            assert_eq!(said, "sum 499500\n", "{tool} {name}");
        }
    }
}
