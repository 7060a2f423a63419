//! Determines the commit that is built from git. Without git, or outside a clone (a tarball), there is none.
//!
//! Trap: only a clone of this repository counts. The commit of another repository, inside which a tarball was
//! unpacked, would be wrong.

use std::path::{Path, PathBuf};
use std::process::Command;

fn git(root: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(words).output().ok()?;
    let said = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(said.trim().to_owned()).filter(|said| !said.is_empty())
}

fn commit(root: &Path) -> Option<String> {
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    let is_own = Path::new(&top).canonicalize().ok()? == root.canonicalize().ok()?;
    git(root, &["rev-parse", "--short=12", "HEAD"]).filter(|_| is_own)
}

fn main() {
    let manifest = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let version = std::env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let root: PathBuf = Path::new(&manifest).join("../..");
    let commit = commit(&root);
    // Git adds a line to this log at every commit and every change of branch.
    let log = commit.as_ref().and_then(|_| git(&root, &["rev-parse", "--git-path", "logs/HEAD"]));
    let watched = log.map(|log| root.join(log)).filter(|log| log.exists());
    println!("cargo::rerun-if-changed=build.rs");
    if let Some(watched) = watched {
        println!("cargo::rerun-if-changed={}", watched.display());
    }
    let long = commit.as_ref().map_or_else(|| version.clone(), |commit| format!("{version} ({commit})"));
    println!("cargo::rustc-env=BUILD_COMMIT={}", commit.unwrap_or_default());
    println!("cargo::rustc-env=BUILD_LONG_VERSION={long}");
}
