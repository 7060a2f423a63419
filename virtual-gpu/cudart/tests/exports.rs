//! What the stand-in library exports is spelled as in NVIDIA's `libcudart.so.13`.
//!
//! Trap: a misspelt export compiles, links and passes every test that does not call it; programs then end with the
//! loader's "undefined symbol".

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const NM: &str = "/usr/lib/llvm-22/bin/llvm-nm";
/// Called by the kernels' own constructors, where it is there.
const OWN: &str = "eager_vgpu_register";

/// Names of the dynamic symbols that a library defines, without their version: the loader takes ours, which have none,
/// for any version.
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

#[test]
fn every_export_has_a_name_of_nvidias_runtime() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders down");
    let real = repository.join(".toolchain/cuda-13.0/lib/libcudart.so.13");
    if !real.exists() || !Path::new(NM).exists() {
        eprintln!("SKIPPED: no {} or no {NM}; run ./setup.sh", real.display());
        return;
    }
    let test = std::env::current_exe().expect("a test has an executable");
    let ours = exports(&test.with_file_name("libcudart.so"));
    let theirs = exports(&real);
    let functions: BTreeSet<&String> =
        ours.iter().filter(|name| name.contains("cuda") && !name.starts_with(OWN)).collect();
    let unknown: Vec<_> = functions.iter().filter(|name| !theirs.contains(**name)).collect();
    assert!(unknown.is_empty(), "not in NVIDIA's library: {unknown:?}");
    assert!(functions.iter().any(|name| *name == "cudaLaunchKernel"), "{functions:?}");
    let calls = theirs.iter().filter(|name| name.starts_with("cuda")).count();
    let covered = functions.iter().filter(|name| name.starts_with("cuda")).count();
    println!("{covered} of the {calls} functions of NVIDIA's runtime are there");
}
