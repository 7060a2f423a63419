//! Programs whose CUDA part is in a library: opened locally, opened late, or linked with another CUDA than the program.

use super::{NOT_INSTRUMENTED, preloaded};
use eager_tests::cudas::{TREES, programs};
use eager_tests::daemon::Daemon;
use eager_tests::{run, text};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A plug-in: its kernel runs on memory of its own.
const PLUGIN: &str = r#"
extern "C" int work(int value) {
  int *p;
  OK(cudaMalloc(&p, BYTES));
  fill<<<N / 256, 256>>>(p, value);
  more<<<N / 256, 256>>>(p);
  int last = last_of(p);
  OK(cudaFree(p));
  return last;
}
"#;

/// Opens plug-ins one after the other, and lets each work twice.
const HOST: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **paths) {
  int (*work[8])(int);
  for (int i = 1; i < count; i++) {
    void *library = dlopen(paths[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) { printf("%s\n", dlerror()); return 1; }
    work[i] = (int (*)(int))dlsym(library, "work");
    for (int k = 1; k <= i; k++) printf("%d ", work[k](10 * k));
  }
  printf("\n");
  return 0;
}
"#;

/// Compiles the program without CUDA.
fn host(folder: &Path) -> PathBuf {
    let [source, program] = ["host.c", "host"].map(|name| folder.join(name));
    std::fs::write(&source, HOST).expect("write");
    eager_tests::run_ok(Command::new("cc").arg("-w").arg(&source).arg("-o").arg(&program));
    program
}

fn daemon() -> Daemon {
    Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0"])
}

#[test]
fn a_library_that_is_opened_locally_is_scheduled() {
    let folder = tempfile::tempdir().expect("folder");
    let host = host(folder.path());
    for (plugin, _) in programs(folder.path(), PLUGIN, &[NOT_INSTRUMENTED, "-shared", "-fPIC"]) {
        let daemon = daemon();
        let out = run(preloaded(&daemon, &host).arg(&plugin));
        assert_eq!(text(&out), "11 \n", "{}", plugin.display());
        let ended = daemon.json(&["history"]);
        assert!(ended["programs"][0]["tasks"].as_u64() > Some(0), "{ended}");
    }
}

/// Each library gets the runtime that knows its kernels, and the program a line that says what it is now.
#[test]
fn two_cudas_in_one_program_are_both_right_and_unscheduled() {
    let folder = tempfile::tempdir().expect("folder");
    let host = host(folder.path());
    let plugins = programs(folder.path(), PLUGIN, &[NOT_INSTRUMENTED, "-shared", "-fPIC"]);
    if plugins.len() < TREES.len() {
        return;
    }
    for order in [[0, 1], [1, 0]] {
        let daemon = daemon();
        let mut command = preloaded(&daemon, &host);
        let out = run(command.args(order.map(|at| &plugins[at].0)));
        assert_eq!(String::from_utf8_lossy(&out.stdout), "11 11 21 \n", "{}", text(&out));
        assert_eq!(
            String::from_utf8_lossy(&out.stderr),
            "eager: two CUDA runtimes in one program: it runs as plain CUDA, unscheduled\n"
        );
    }
}
