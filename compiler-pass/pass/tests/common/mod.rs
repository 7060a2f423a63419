//! Shared by the pass's tests: paths of plugin, clang and CUDA. If tools are missing, a test is skipped with a message.
// Each test program uses only a part of this module.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

pub const CLANG: &str =
    if cfg!(feature = "llvm22") { "/usr/lib/llvm-22/bin/clang++" } else { "/usr/lib/llvm-19/bin/clang++" };

/// Path of the plugin, beside the test: cargo builds the cdylib of the package before its tests.
pub fn plugin() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    [folder.join("libeager_pass.so"), folder.join("../libeager_pass.so")]
        .into_iter()
        .find(|path| path.is_file())
        .expect("cargo builds libeager_pass.so with the package")
}

/// The newest CUDA tree whose headers the compiler accepts; `None`, with a message, if the tree or clang is missing.
pub fn cuda() -> Option<PathBuf> {
    let tree = if cfg!(feature = "llvm22") { "cuda-13.0" } else { "cuda-12.9" };
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.toolchain").join(tree);
    let found = tree.join("include/cuda_runtime.h").is_file() && Path::new(CLANG).is_file();
    if !found {
        eprintln!("SKIPPED: no {CLANG} or no {}: run ./setup.sh", tree.display());
    }
    found.then_some(tree)
}

/// Like [`cuda`], for a compile that puts device code into the object.
pub fn cuda_with_fatbinary() -> Option<PathBuf> {
    if cfg!(feature = "llvm22") {
        return cuda();
    }
    eprintln!("SKIPPED: clang 19 calls fatbinary with a switch that those from CUDA 12.9 on no longer have");
    None
}
