//! Bad input gets one clear line and the right exit code, and leaves nothing behind.

use eager_tests::{compiled, daemon::Daemon, has_toolchain, run, text, tool};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Ended with `code`, and one line of its messages holds every word.
fn assert_line(output: &Output, code: i32, words: &[&str]) {
    let all = text(output);
    assert_eq!(output.status.code(), Some(code), "exit code; it printed:\n{all}");
    let found = all.lines().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(found, "no line with {words:?} in:\n{all}");
    assert!(!all.contains("panicked"), "a panic instead of a message:\n{all}");
}

fn write(folder: &Path, name: &str, content: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, content).expect("write test input");
    path
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("folder")
        .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

const OVERSIZED: &str = r#"
#include <cstdio>
__global__ void touch(char *p) { p[0] = 1; }
int main() {
  char *p = nullptr;
  cudaError_t e = cudaMalloc(&p, size_t(64) << 30);
  if (e != cudaSuccess) { printf("refused: %s\n", cudaGetErrorString(e)); return 7; }
  touch<<<1, 1>>>(p);
  cudaDeviceSynchronize();
  cudaFree(p);
  return 0;
}
"#;

#[test]
fn a_source_that_does_not_compile_fails_as_clang_does() {
    if !has_toolchain("source that does not compile") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let source = write(folder.path(), "broken.cu", "int main( { return 0; }\n");
    let out = folder.path().join("broken");
    let output = run(Command::new(tool("eagercc")).arg(&source).arg("-o").arg(&out));
    assert_line(&output, 1, &["broken.cu:1", "error"]);
    assert_eq!(files(folder.path()), ["broken.cu"], "files left behind");
}

#[test]
fn a_construct_the_virtual_gpu_cannot_run_is_named_at_compile_time() {
    if !has_toolchain("unsupported construct") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let code = "__global__ void k(int *p) {\n  int x = p[0];\n  asm volatile(\"vabsdiff4.u32.u32.u32 %0, %0, %0, %0;\" : \"+r\"(x));\n  p[0] = x;\n}\n\
                int main() { k<<<1, 1>>>(nullptr); return 0; }\n";
    let source = write(folder.path(), "inline_asm.cu", code);
    let out = folder.path().join("inline_asm");
    let output = run(Command::new(tool("eagercc")).arg("-g").arg(&source).arg("-o").arg(&out));
    assert!(!output.status.success());
    assert_line(&output, 1, &["inline_asm.cu:3", "vabsdiff4.u32.u32.u32"]);
    assert_eq!(files(folder.path()), ["inline_asm.cu"], "files left behind");
}

#[test]
fn a_missing_toolchain_says_how_to_get_it() {
    let folder = tempfile::tempdir().expect("folder");
    let source = write(folder.path(), "a.cu", "int main() { return 0; }\n");
    let output = run(Command::new(tool("eagercc"))
        .arg(&source)
        .arg("-o")
        .arg(folder.path().join("a"))
        .env("EAGER_CLANG", "/nonexistent/clang++"));
    assert_line(&output, 1, &["eagercc:", "/nonexistent/clang++"]);
}

#[test]
fn a_task_larger_than_every_device_is_refused_with_the_reason() {
    if !has_toolchain("oversized task") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "big", OVERSIZED);
    for policy in ["case", "eager-opt"] {
        let daemon = Daemon::start(&["--virtual", "2xV100-16GB", "--time-scale", "0", "--policy", policy]);
        let output = run(&mut daemon.run(&program));
        assert_line(&output, 7, &["refused", "out of memory"]);
        assert_line(&output, 7, &["64.0 GiB", "larger than"]);
    }
}

#[test]
fn a_second_daemon_on_the_same_folder_gives_up() {
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0"]);
    let output = run(Command::new(tool("eagerd"))
        .arg("--virtual")
        .arg("1xV100-16GB")
        .arg("--run-dir")
        .arg(daemon.run_dir()));
    assert_line(&output, 78, &["eagerd:", "already"]);
    assert_eq!(
        daemon.ask("info")["devices"].as_array().map(Vec::len),
        Some(1),
        "the first one still answers"
    );
}

#[test]
fn a_malformed_configuration_is_pointed_at() {
    let folder = tempfile::tempdir().expect("folder");
    let config = write(folder.path(), "eagerd.toml", "policy = \"case\"\nno_such_key = 1\n");
    let output = run(Command::new(tool("eagerd"))
        .arg("--config")
        .arg(&config)
        .arg("--virtual")
        .arg("1xV100-16GB")
        .arg("--run-dir")
        .arg(folder.path()));
    assert_line(&output, 78, &["eagerd.toml:2", "no_such_key"]);
    assert_eq!(files(folder.path()), ["eagerd.toml"], "files left behind");
}

#[test]
fn an_unknown_card_or_policy_lists_the_known_ones() {
    let folder = tempfile::tempdir().expect("folder");
    let start = |flag: &str, value: &str| {
        run(Command::new(tool("eagerd")).arg("--run-dir").arg(folder.path()).args([flag, value]))
    };
    let card = start("--virtual", "2xGTX-9999");
    assert!(!card.status.success());
    assert!(text(&card).contains("GTX-9999") && text(&card).contains("V100-16GB"), "{}", text(&card));
    let policy = start("--policy", "fastest");
    assert!(!policy.status.success());
    assert!(text(&policy).contains("fastest") && text(&policy).contains("eager-opt"), "{}", text(&policy));
}
