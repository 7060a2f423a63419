//! Every program compiles with plain clang, for host and device, without a warning.

use eager_rodinia::programs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn toolchain() -> Option<(PathBuf, PathBuf)> {
    let cuda = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.join(".toolchain").join("cuda-13.0");
    let clang = std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join("clang++-22"))
        .find(|path| path.exists())?;
    cuda.join("include").join("cuda_runtime.h").exists().then_some((clang, cuda))
}

#[test]
fn every_program_compiles_with_plain_clang() {
    let Some((clang, cuda)) = toolchain() else {
        eprintln!("SKIPPED: clang++-22 or .toolchain/cuda-13.0 is missing; run ./setup.sh");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for program in programs() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join(&program.name);
        for source in &program.sources {
            let mut command = Command::new(&clang);
            if source.ends_with(".c") {
                command.args(["-x", "c"]);
            } else {
                command.arg(format!("--cuda-path={}", cuda.display()));
                command.args(["--cuda-gpu-arch=sm_90", "-Wno-unknown-cuda-version"]);
            }
            command.args(["-O1", "-Wall", "-Wextra", "-Werror", "-c"]).arg(sources.join(source));
            command.arg("-o").arg(folder.path().join(format!("{}.{source}.o", program.name)));
            let output = command.output().unwrap();
            let messages = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{command:?}\n{messages}");
        }
    }
}
