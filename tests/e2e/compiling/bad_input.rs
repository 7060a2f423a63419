//! Bad input causes one clear line and the right exit code, and leaves nothing behind.

use eager_tests::{compiled, daemon::Daemon, has_toolchain, run, run_ok, script, text, tool, until_holds};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Asserts that the command exited with `code` and that one line of its output has every word.
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
    let code = "__global__ void k(int *p) {\n  int x = p[0];\n  asm volatile(\"mbarrier.arrive.shared.b64 _, [%0];\" :: \"r\"(x));\n  p[0] = x;\n}\n\
                int main() { k<<<1, 1>>>(nullptr); return 0; }\n";
    let source = write(folder.path(), "inline_asm.cu", code);
    let out = folder.path().join("inline_asm");
    let output = run(Command::new(tool("eagercc")).arg("-g").arg(&source).arg("-o").arg(&out));
    assert!(!output.status.success());
    assert_line(&output, 1, &["inline_asm.cu:3", "mbarrier.arrive.shared.b64"]);
    assert_eq!(files(folder.path()), ["inline_asm.cu"], "files left behind");
}

#[test]
fn an_output_that_is_an_input_is_refused_by_whatever_name() {
    if !has_toolchain("output over input") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let source = write(folder.path(), "main.cu", "int main() { return 0; }\n");
    let other = folder.path().join("other-name.cu");
    std::os::unix::fs::symlink(&source, &other).expect("link");
    let report = format!("--eager-report={}", source.display());
    let (source_name, other_name) = (source.to_str().expect("path"), other.to_str().expect("path"));
    let long = format!("--output={source_name}");
    let lines: [&[&str]; 5] =
        [&["-o", source_name], &["-o", other_name], &["-c", &report], &[&long], &["--output", source_name]];
    for words in lines {
        let output = run(Command::new(tool("eagercc")).arg(&source).args(words).current_dir(folder.path()));
        assert_line(&output, 1, &["main.cu is an input", "-o"]);
        assert_eq!(std::fs::read_to_string(&source).expect("source"), "int main() { return 0; }\n");
    }
    // A configure script tests compiler flags in this way.
    let output = run(Command::new(tool("eagercc")).args(["-c", "-x", "c", "/dev/null", "-o", "/dev/null"]));
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn an_interrupted_compile_leaves_no_scratch_files_and_no_compiler() {
    if !has_toolchain("interrupted compile") {
        return;
    }
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let folder = tempfile::tempdir().expect("folder");
        let clang = folder.path().join("clang++");
        // Imitates clang's own driver, with a scratch file and a child process that does the work. It writes both
        // process ids, then sleeps.
        let said = folder.path().join("pid");
        let text = format!(
            "#!/bin/sh\n[ \"$1\" = -dumpversion ] && echo 22.1 && exit\nmktemp > /dev/null\nsleep 600 &\n\
             echo $$ $! > {0}.new; mv {0}.new {0}\nexec sleep 600\n",
            said.display()
        );
        script(&clang, &text);
        let source = write(folder.path(), "main.cu", "int main() { return 0; }\n");
        let scratch = folder.path().join("scratch");
        std::fs::create_dir(&scratch).expect("folder");
        // Under `nohup`, or in the background of a script, signals are ignored from the start and stay so; this
        // restores their defaults.
        let mut command = Command::new("env");
        command.arg("--default-signal").arg(tool("eagercc")).arg(&source);
        command.env("EAGER_CLANG", &clang).env("TMPDIR", &scratch).current_dir(folder.path());
        let mut compiles = command.spawn().expect("eagercc");
        until_holds("a compiler that runs", || said.exists());
        assert_eq!(files(&scratch).len(), 1, "a scratch folder");
        kill(Pid::from_raw(compiles.id() as i32), signal).expect("signal");
        let status = compiles.wait().expect("wait");
        assert_eq!(status.signal(), Some(signal as i32));
        assert_eq!(files(&scratch), [""; 0]);
        let pids = std::fs::read_to_string(&said).expect("their numbers");
        for pid in pids.split_whitespace() {
            // The process whose parent has ended is a zombie until init reaps it.
            until_holds("their end", || {
                let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                stat.rsplit(')')
                    .next()
                    .is_none_or(|rest| rest.trim().is_empty() || rest.trim().starts_with('Z'))
            });
        }
    }
}

const LOCKER: &str = r#"
#include <cstdio>
#include <sys/mman.h>
__global__ void touch(char *p) { p[0] = 1; }
int main(int count, char **) {
  if (count > 1 && mlockall(MCL_FUTURE)) perror("mlockall");
  char *p = nullptr;
  if (cudaMalloc(&p, 4096) != cudaSuccess) return 7;
  touch<<<1, 1>>>(p);
  if (cudaGetLastError() != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess) return 7;
  puts("done");
}
"#;

#[test]
fn limits_of_the_shell_and_locked_memory_are_said_and_crash_nobody() {
    if !has_toolchain("limits of the shell") {
        return;
    }
    if !Uid::effective().is_root() {
        eprintln!("SKIPPED: only root can be another user, whose limits hold");
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).expect("open to others");
    let program = compiled(folder.path(), "locker", LOCKER);
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0"]);
    std::fs::set_permissions(daemon.run_dir(), std::fs::Permissions::from_mode(0o755))
        .expect("open to others");
    // The first run makes a folder beside the tools, which other users may not.
    run_ok(&mut daemon.run(&program));
    let limits = ["-v 100000", "-v 1000000", "-u 1", "-u 2", "-u 3", "-u 4", "-l 64", "-l 8192"];
    for limit in limits {
        let plain = daemon.run(&program);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit {limit}; exec \"$@\""), "sh"]);
        command.arg(plain.get_program()).args(plain.get_args()).current_dir("/").uid(61_001).gid(61_001);
        if limit.starts_with("-l") {
            command.arg("locks");
        }
        let output = run(&mut command);
        let said = text(&output);
        assert!(!said.contains("panicked") && !said.contains("internal error"), "{limit}: {said}");
        match output.status.code() {
            Some(0) => assert!(said.contains("done"), "{limit}: {said}"),
            Some(7) => assert!(said.contains("limit"), "{limit}: {said}"),
            other => panic!("{limit}: ended with {other:?}: {said}"),
        }
    }
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
        assert_line(&output, 7, &["64 GiB", "larger than"]);
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
