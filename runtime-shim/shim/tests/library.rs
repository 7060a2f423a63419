//! `libeager.so` as programs use it: its exports, and a C program that calls them over a tiny CUDA runtime.
//!
//! The library's file is the cdylib that cargo built beside this test, found from the test's own path.

use eager::library::table;
use eager::real::RealRuntime;
use eager::runtime::{Runtime, StreamId};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A CUDA runtime with few calls, which prints them. It has no `cudaMemGetInfo`.
const RUNTIME: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static int last;
int cudaPeekAtLastError(void) { return last; }
int cudaGetLastError(void) { int code = last; last = 0; return code; }
int cudaStreamQuery(void *stream) { (void)stream; return last = 600; }
int cudaMalloc(void **out, size_t n) { if (n >> 40) return last = 2; *out = malloc(n); printf("real cudaMalloc %zu\n", n); return 0; }
int cudaFree(void *p) { free(p); printf("real cudaFree\n"); return 0; }
int cudaSetDevice(int device) { printf("real cudaSetDevice %d\n", device); return 0; }
struct dim3 { unsigned x, y, z; };
int cudaLaunchKernel(const void *stub, struct dim3 grid, struct dim3 block, void **args, size_t shared, void *stream) {
  printf("real cudaLaunchKernel %u.%u.%u %u.%u.%u %zu\n", grid.x, grid.y, grid.z, block.x, block.y, block.z, shared);
  return 98;
}
"#;

/// An instrumented program, written by hand.
const PROGRAM: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern const uint32_t eager_abi_v3;
struct dim3 { unsigned x, y, z; };
int eager_cudaMalloc(void **, size_t);
int eager_cudaFree(void *);
int eager_cudaSetDevice(int);
int eager_cudaMemGetInfo(size_t *, size_t *);
int eager_cudaLaunchKernel(const void *, struct dim3, struct dim3, void **, size_t, void *);
void eager_task_begin(uint64_t, uint64_t, uint64_t, uint64_t, uint32_t);
void eager_task_end(uint64_t);
void eager_all_launched(uint64_t);

static void use(void) {
  void *p = 0;
  size_t free_bytes, total;
  struct dim3 grid = {1, 2, 3}, block = {4, 5, 6};
  eager_task_begin(1, 64, 64, 0, 0);
  printf("malloc %d\n", eager_cudaMalloc(&p, 64));
  printf("launch %d\n", eager_cudaLaunchKernel(&use, grid, block, 0, 7, 0));
  eager_all_launched(1);
  printf("free %d\n", eager_cudaFree(p));
  printf("set %d\n", eager_cudaSetDevice(1));
  printf("info %d\n", eager_cudaMemGetInfo(&free_bytes, &total));
  eager_task_end(1);
  fflush(stdout);
}

static void late(void) {
  printf("late free %d\n", eager_cudaFree(0));
}

int main(int argc, char **argv) {
  printf("abi %u\n", eager_abi_v3);
  fflush(stdout);
  if (argc > 1 && !strcmp(argv[1], "late")) atexit(late);
  if (argc > 1 && !strcmp(argv[1], "child-first")) {
    if (fork() == 0) { use(); _exit(0); }
    wait(0);
  }
  use();
  if (argc > 1 && !strcmp(argv[1], "fork")) {
    if (fork() == 0) { use(); _exit(0); }
    wait(0);
  }
  return 0;
}
"#;

const USED: &str = "real cudaMalloc 64\nmalloc 0\nreal cudaLaunchKernel 1.2.3 4.5.6 7\nlaunch 98\nreal cudaFree\n\
                    free 0\nreal cudaSetDevice 1\nset 0\ninfo 3\n";
const NO_DAEMON: &str = "eager: no daemon at /nowhere/client.sock: running as plain CUDA\n";
const NO_SYMBOL: &str =
    "eager: this CUDA runtime has no cudaMemGetInfo: the call fails with an initialization error\n";

fn library() -> PathBuf {
    let test = std::env::current_exe().expect("path of this test");
    let folders = test.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join("libeager.so")).find(|file| file.exists());
    found.expect("libeager.so beside this test: cargo builds it with the crate")
}

/// The program, the library and a runtime in a folder of their own.
struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> Stage {
        let stage = Stage { folder: tempfile::tempdir().expect("temporary folder") };
        std::fs::write(stage.path("program.c"), PROGRAM).expect("write");
        std::fs::write(stage.path("runtime.c"), RUNTIME).expect("write");
        std::fs::copy(library(), stage.path("libeager.so")).expect("copy the library");
        stage.cc(&["-shared", "-fPIC", "-Wl,-soname,libcudart.so.13", "-o", "libcudart.so.13", "runtime.c"]);
        stage.cc(&["-o", "program", "program.c", "./libeager.so"]);
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn cc(&self, arguments: &[&str]) {
        let done = Command::new("cc").args(arguments).current_dir(self.folder.path()).output().expect("cc");
        assert!(done.status.success(), "cc {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        Command::new(self.path("program"))
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("LD_LIBRARY_PATH", self.folder.path())
            .env("EAGER_SOCKET", "/nowhere/client.sock")
            .env("EAGER_CONNECT_MAX", "0")
            .envs(variables.iter().copied())
            .output()
            .expect("run the program")
    }
}

fn texts(output: &Output) -> (String, String) {
    assert!(output.status.success(), "{output:?}");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn without_a_daemon_the_program_is_plain_cuda_and_says_so_once() {
    let (out, err) = texts(&Stage::new().run(&[], &[]));
    assert_eq!(out, format!("abi 3\n{USED}"));
    assert_eq!(err, format!("{NO_DAEMON}{NO_SYMBOL}"), "one line each");
}

#[test]
fn asked_for_it_says_at_the_end_what_went_to_cuda_as_it_came() {
    let (_, err) = texts(&Stage::new().run(&[], &[("EAGER_STATS", "1")]));
    let counts = "eager: calls forwarded to CUDA unchanged: 5 without a daemon\n";
    assert_eq!(err, format!("{NO_DAEMON}{NO_SYMBOL}{counts}"));
}

#[test]
fn calls_at_the_end_of_the_process_still_work() {
    let (out, err) = texts(&Stage::new().run(&["late"], &[]));
    assert_eq!(out, format!("abi 3\n{USED}real cudaFree\nlate free 0\n"));
    assert_eq!(err, format!("{NO_DAEMON}{NO_SYMBOL}"));
}

#[test]
fn switched_off_it_says_nothing() {
    let (out, err) = texts(&Stage::new().run(&[], &[("EAGER_DISABLE", "1")]));
    assert_eq!((out, err), (format!("abi 3\n{USED}"), NO_SYMBOL.to_owned()));
}

#[test]
fn closed_fails_what_takes_memory_or_starts_work() {
    let (out, err) = texts(&Stage::new().run(&[], &[("EAGER_ON_DAEMON_LOSS", "closed")]));
    assert!(out.contains("malloc 46\nlaunch 46\n") && out.contains("set 0\n"), "{out}");
    assert!(err.contains("CUDA calls fail (EAGER_ON_DAEMON_LOSS or EAGER_ON_NO_DAEMON is closed"), "{err}");
}

#[test]
fn a_missing_runtime_is_one_line_and_an_error_code() {
    let stage = Stage::new();
    std::fs::remove_file(stage.path("libcudart.so.13")).expect("remove");
    let (out, err) = texts(&stage.run(&[], &[("EAGER_DISABLE", "1")]));
    assert_eq!(out, "abi 3\nmalloc 3\nlaunch 3\nfree 3\nset 3\ninfo 3\n");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.starts_with("eager: cannot open libcudart.so.13"), "{err}");
}

#[test]
fn a_malformed_profile_is_one_line_and_ignored() {
    let stage = Stage::new();
    std::fs::write(stage.path("profile.json"), "{").expect("write");
    let (out, err) = texts(&stage.run(&[], &[("EAGER_PROFILE", "profile.json")]));
    assert_eq!(out, format!("abi 3\n{USED}"));
    assert!(err.starts_with("eager: profile profile.json is ignored: it is not a profile"), "{err}");
}

#[test]
fn a_child_forked_after_use_is_inert_and_one_forked_before_is_not() {
    let stage = Stage::new();
    let (out, err) = texts(&stage.run(&["fork"], &[]));
    assert_eq!(
        (out.as_str(), err.as_str()),
        (format!("abi 3\n{USED}{USED}").as_str(), format!("{NO_DAEMON}{NO_SYMBOL}").as_str())
    );
    let (_, err) = texts(&stage.run(&["child-first"], &[]));
    assert_eq!(err, format!("{NO_DAEMON}{NO_SYMBOL}").repeat(2), "each process looks for itself");
}

/// Runs in a process of its own, for which the loader finds the stage's runtime.
#[test]
fn the_shims_own_queries_leave_no_error_behind() {
    const CHILD: &str = "EAGER_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let runtime = RealRuntime::open();
        // SAFETY: functions of the stage's runtime, with the arguments they take.
        let peek = || unsafe { (table().cudaPeekAtLastError)() };
        assert_eq!((runtime.stream_query(StreamId(5)), peek()), (Ok(false), 0));
        runtime.provoke_out_of_memory();
        assert_eq!((runtime.stream_query(StreamId(5)), peek()), (Ok(false), 2), "the program's error stays");
        return;
    }
    let stage = Stage::new();
    let child = Command::new(std::env::current_exe().expect("path of this test"))
        .args(["the_shims_own_queries_leave_no_error_behind", "--exact"])
        .env(CHILD, "1")
        .env("LD_LIBRARY_PATH", stage.folder.path())
        .output()
        .expect("run this test again");
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
}

#[test]
fn the_exports_are_the_contract_and_nothing_else() {
    let symbols = exports(&library());
    let mut expected: BTreeSet<String> = [
        eager_abi::VERSION_SYMBOL,
        eager_abi::MODULE_REGISTER,
        eager_abi::TASK_BEGIN,
        eager_abi::ALL_LAUNCHED,
        eager_abi::TASK_END,
        eager_abi::BUFFER_DEAD,
        eager_abi::MANAGED_VARIABLE,
    ]
    .map(str::to_owned)
    .into();
    // Programs of earlier releases start, and are told what to recompile.
    let released = eager_abi::RELEASED_FIRST..=eager_abi::ABI_VERSION;
    expected.extend(released.map(|version| format!("eager_abi_v{version}")));
    let hooked = eager_abi::calls::front_symbols();
    expected.extend(hooked.iter().map(|call| format!("{}{call}", eager_abi::RENAME_PREFIX)));
    let missing: Vec<_> = expected.difference(&symbols).collect();
    let additional: Vec<_> = symbols.difference(&expected).collect();
    assert!(missing.is_empty() && additional.is_empty(), "missing {missing:?}, additional {additional:?}");
}

/// Dynamic symbols that the library defines, except those that the linker itself makes.
fn exports(library: &Path) -> BTreeSet<String> {
    let output =
        Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().expect("nm (binutils)");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = text.lines().filter_map(|line| line.split_whitespace().last()).map(str::to_owned);
    names.filter(|name| !["_init", "_fini", "rust_eh_personality"].contains(&name.as_str())).collect()
}
