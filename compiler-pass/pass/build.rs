//! Compiles the C++ half of the plugin against the LLVM that `llvm-sys` links.
//!
//! Trap: `llvm-config` without a version is often an older LLVM; only `llvm-config-22` (or `LLVM_CONFIG`) is asked.

use std::process::Command;

const SOURCES: [&str; 2] = ["src/registration.cpp", "src/remarks.cpp"];

fn main() {
    for file in SOURCES {
        println!("cargo:rerun-if-changed={file}");
    }
    println!("cargo:rerun-if-env-changed=LLVM_CONFIG");
    let config = std::env::var("LLVM_CONFIG").unwrap_or_else(|_| "llvm-config-22".to_owned());
    let include = match Command::new(&config).arg("--includedir").output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => panic!("{config} does not run: install llvm-22-dev (./setup.sh does) or set LLVM_CONFIG"),
    };
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .include(include)
        .flag("-fno-rtti")
        .flag("-fno-exceptions")
        .flag("-w")
        .files(SOURCES)
        .compile("eager_registration");
}
