//! Compiles what LLVM offers in C++ only, against the LLVM that `llvm-sys` links.
//!
//! Trap: `llvm-config` without a version suffix is often that of an older LLVM, so only the one of the chosen version
//! (or `LLVM_CONFIG`) is run.

use std::process::Command;

const HEADER: &str = "src/analyses.h";
const SOURCES: [&str; 4] = ["src/helpers.cpp", "src/optimise.cpp", "src/remarks.cpp", "src/llvm19.cpp"];

fn main() {
    for file in SOURCES.into_iter().chain([HEADER]) {
        println!("cargo:rerun-if-changed={file}");
    }
    println!("cargo:rerun-if-env-changed=LLVM_CONFIG");
    let major = if std::env::var_os("CARGO_FEATURE_LLVM22").is_some() { 22 } else { 19 };
    let config = std::env::var("LLVM_CONFIG").unwrap_or_else(|_| format!("llvm-config-{major}"));
    let include = match Command::new(&config).arg("--includedir").output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => panic!(
            "{config} does not run: install llvm-{major}-dev (./setup.sh does for 22) or set LLVM_CONFIG"
        ),
    };
    println!("cargo:include={include}");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .include(include)
        .flag("-fno-rtti")
        .flag("-fno-exceptions")
        .flag("-w")
        .files(SOURCES)
        .compile("eager_llvm_helpers");
}
