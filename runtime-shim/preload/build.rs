//! Links `libeager_preload.so` into the folder of this profile's executables, beside `libeager.so`.
//!
//! Every child of a preloaded program maps the library, so it must not bring the standard library and libgcc_s along:
//! cargo's own `cdylib` does (0.16 ms for a process that calls no CUDA; this one 0.04). Cargo cannot build one crate of
//! a workspace with `panic = "abort"`, which a library without the standard library needs, so the compiler is called
//! here. Trap: cargo does not know of the file. If it was deleted by hand, `touch runtime-shim/preload/build.rs`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rustc-check-cfg=cfg(linked)");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
    std::fs::write(out.join("front.rs"), front()).expect("OUT_DIR is writable");
    // target/PROFILE/build/eager-preload-HASH/out
    let profile = out.ancestors().nth(3).expect("OUT_DIR is in the target folder");
    link(&profile.join("libeager_preload.so"), &out);
}

/// The list of exports: every symbol that `libeager.so` has a hook for.
fn front() -> String {
    let mut list = String::from("front! {\n");
    for (index, name) in eager_abi::calls::front_symbols().iter().enumerate() {
        let _ = writeln!(list, "    {index} {name} first_{name};");
    }
    list + "}\n"
}

fn link(library: &Path, out: &Path) {
    let rustc = std::env::var_os("RUSTC").expect("cargo sets RUSTC for build scripts");
    let status = Command::new(rustc)
        .args(["src/lib.rs", "--crate-name=eager_preload", "--crate-type=cdylib", "--edition=2024"])
        .args([
            "--cfg=linked",
            "--check-cfg=cfg(linked)",
            "-Copt-level=2",
            "-Cpanic=abort",
            "-Cstrip=debuginfo",
        ])
        // No start files: nothing runs when the library is loaded. All symbols must be found, so that nothing is
        // looked up, and perhaps not found, in the middle of a call.
        .args(["-Clink-arg=-nostartfiles", "-Clink-arg=-Wl,-z,now,-z,defs,-soname,libeager_preload.so"])
        .arg("-o")
        .arg(library)
        .env("OUT_DIR", out)
        .status()
        .expect("rustc starts");
    assert!(status.success(), "libeager_preload.so cannot be linked: see the compiler's messages above");
}
