//! Builds the previous release from this repository's own history, for tests of upgrades.
//!
//! Trap: a clone without history (`git clone --depth`) lacks it; the tests then print that they are skipped, and check
//! nothing.

use crate::{bin_dir, root, run, run_ok, text};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tag and commit of the previous release. The commit is looked up, since tags may not have been fetched.
pub const RELEASE: &str = "0.1.0";
pub const COMMIT: &str = "2183783342f3a7f97bf354a584813932ec7e17f3";

/// Packages of the release that the tests use.
const PACKAGES: [&str; 7] =
    ["eager", "eagerd", "eagercc", "eager-vgpud", "eager-pass", "eager-shim", "eager-cudart"];

/// Returns the folder of the release's executables and libraries. Builds them once, below the build folder, which takes
/// about as long as a build of this release. Returns `None`, and prints why, if this clone lacks the commit.
pub fn built(test: &str) -> Option<PathBuf> {
    let git = || {
        let mut git = Command::new("git");
        git.arg("-C").arg(root());
        git
    };
    let commit = format!("{COMMIT}^{{commit}}");
    if !git().args(["cat-file", "-e", &commit]).output().is_ok_and(|output| output.status.success()) {
        eprintln!(
            "SKIPPED: {test}: release {RELEASE}, commit {COMMIT}, is not in this clone (`git fetch --unshallow`), or git is missing"
        );
        return None;
    }
    let folder = bin_dir().parent().expect("build folder").join("release-before");
    let (source, stamp) = (folder.join("source"), folder.join("source.is"));
    if std::fs::read_to_string(&stamp).ok().as_deref() != Some(COMMIT) {
        if source.exists() {
            std::fs::remove_dir_all(&source).expect("another release's source");
        }
        unpack(git().args(["archive", COMMIT]), &source);
        std::fs::write(&stamp, COMMIT).expect("stamp");
    }
    eprintln!("building release {RELEASE} in {}", folder.display());
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--locked"]).args(PACKAGES.iter().flat_map(|package| ["-p", package]));
    // A build folder of its own, whatever folder the caller uses; otherwise each caller would build the release again.
    cargo.current_dir(&source).env("CARGO_TARGET_DIR", folder.join("target")).env("CARGO_INCREMENTAL", "0");
    let output = run(&mut cargo);
    assert!(output.status.success(), "release {RELEASE} does not build:\n{}", text(&output));
    Some(folder.join("target/debug"))
}

/// Unpacks the tree that `archive` writes, and links this clone's toolchain into it.
fn unpack(archive: &mut Command, source: &Path) {
    std::fs::create_dir_all(source).expect("folder");
    let packed = source.with_extension("tar");
    run_ok(archive.arg("--output").arg(&packed));
    run_ok(Command::new("tar").arg("-xf").arg(&packed).arg("-C").arg(source));
    std::fs::remove_file(&packed).expect("remove the archive");
    symlink(root().join(".toolchain"), source.join(".toolchain")).expect("link to the toolchain");
}
