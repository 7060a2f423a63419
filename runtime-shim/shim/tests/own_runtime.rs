//! Programs that carry the addresses of their own CUDA runtime: linked statically, with no `libcudart.so` anywhere,
//! and NVIDIA's static runtime of each installed tree, as far as it works without a driver.
//!
//! The table has the form that the compiler pass emits, but is written by hand, so that the test needs no clang.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Registers a table of the runtime's functions, as an instrumented object does; the last entry is a weak reference.
const PROGRAM: &str = r#"
#include <stdint.h>
#include <stdio.h>
struct call { const char *name; const void *address; };
struct module {
  uint32_t version, kernels, tasks, calls;
  const char *source;
  const void *kernel_table, *task_table;
  const struct call *call_table;
};
extern const uint32_t eager_abi_v3;
void eager_module_register(const struct module *);
int cudaMalloc(void **, size_t);
int cudaFree(void *);
int cudaRuntimeGetVersion(int *);
int cudaGetLastError(void);
__attribute__((weak)) int cudaNovelCall(void);
int eager_cudaMalloc(void **, size_t);
int eager_cudaFree(void *);
int eager_cudaMallocPitch(void **, size_t *, size_t, size_t);
int eager_cublasCreate_v2(void **);
int eager_cublasDestroy_v2(void *);
int eager_cufftPlan1d(int *, int, int, int);
/* A library that allocates through the program's runtime. */
int cublasCreate_v2(void **handle) { return cudaMalloc(handle, 32); }
int cublasDestroy_v2(void *handle) { return cudaFree(handle); }
static const struct call calls[] = {
  {"cudaMalloc", (void *)cudaMalloc},
  {"cudaFree", (void *)cudaFree},
  {"cudaRuntimeGetVersion", (void *)cudaRuntimeGetVersion},
  {"cudaGetLastError", (void *)cudaGetLastError},
  {"cublasCreate_v2", (void *)cublasCreate_v2},
  {"cublasDestroy_v2", (void *)cublasDestroy_v2},
  {"cudaNovelCall", (void *)cudaNovelCall},
};
static struct module module = {3, 0, 0, 7, "program.c", 0, 0, calls};
__attribute__((constructor)) static void constructor(void) { eager_module_register(&module); }
int main(void) {
  void *p = 0;
  size_t pitch;
  if (!&eager_abi_v3) return 1;
  printf("malloc %d\n", eager_cudaMalloc(&p, 64));
  printf("free %d\n", eager_cudaFree(p));
  printf("create %d\n", eager_cublasCreate_v2(&p));
  printf("destroy %d\n", eager_cublasDestroy_v2(p));
  printf("pitch %d\n", eager_cudaMallocPitch(&p, &pitch, 64, 64));
  int plan;
  printf("plan %d\n", eager_cufftPlan1d(&plan, 8, 0x29, 1));
  return 0;
}
"#;

const RUNTIME: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int cudaMalloc(void **out, size_t n) { *out = malloc(n); printf("own cudaMalloc %zu\n", n); return 0; }
int cudaFree(void *p) { free(p); printf("own cudaFree\n"); return 0; }
int cudaRuntimeGetVersion(int *version) { *version = 12090; return 0; }
int cudaGetLastError(void) { return 0; }
"#;

fn library() -> PathBuf {
    let test = std::env::current_exe().expect("path of this test");
    let folders = test.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join("libeager.so")).find(|file| file.exists());
    found.expect("libeager.so beside this test: cargo builds it with the crate")
}

/// Links the program with `runtime` and runs it without a daemon; returns the output of the program and of the shim.
fn run(runtime: &[&str]) -> (String, String) {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("program.c"), PROGRAM).expect("write");
    std::fs::write(path("runtime.c"), RUNTIME).expect("write");
    std::fs::copy(library(), path("libeager.so")).expect("copy the library");
    let linked = Command::new("cc")
        .args(["-o", "program", "program.c", "./libeager.so"])
        .args(runtime)
        .current_dir(folder.path())
        .output()
        .expect("cc");
    assert!(linked.status.success(), "{}", String::from_utf8_lossy(&linked.stderr));
    let output = Command::new(path("program"))
        .current_dir(folder.path())
        .env_clear()
        .env("LD_LIBRARY_PATH", folder.path())
        .env("EAGER_SOCKET", "/nowhere/client.sock")
        .env("EAGER_CONNECT_MAX", "0")
        .output()
        .expect("run the program");
    assert!(output.status.success(), "{output:?}");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

const NO_DAEMON: &str = "eager: no daemon at /nowhere/client.sock: running as plain CUDA\n";
const NO_PITCH: &str =
    "eager: this CUDA runtime has no cudaMallocPitch: the call fails with an initialization error\n";

#[test]
fn the_programs_own_runtime_is_used_and_no_library_is_opened() {
    let (out, err) = run(&["runtime.c"]);
    let memory = "own cudaMalloc 64\nmalloc 0\nown cudaFree\nfree 0\n";
    let library = "own cudaMalloc 32\ncreate 0\nown cudaFree\ndestroy 0\n";
    assert_eq!(
        out,
        format!("{memory}{library}pitch 3\nplan 2\n"),
        "a plan of a library that is not there: no memory"
    );
    assert_eq!(err, format!("{NO_DAEMON}{NO_PITCH}"), "what it lacks is not looked for elsewhere");
}

#[test]
fn nvidias_static_runtime_is_reached_up_to_its_missing_driver() {
    const INSUFFICIENT_DRIVER: &str = "malloc 35\nfree 35\ncreate 35\ndestroy 35\npitch 3\nplan 2\n";
    for tree in ["cuda-12.9", "cuda-13.0"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.toolchain");
        let archive = root.join(tree).join("lib/libcudart_static.a");
        if !archive.exists() {
            eprintln!("SKIPPED: no static runtime of {tree}: {}", archive.display());
            continue;
        }
        if Path::new("/dev/nvidiactl").exists() {
            eprintln!("SKIPPED: this machine has an NVIDIA driver");
            continue;
        }
        let archive = archive.to_str().expect("a path of characters");
        let (out, err) = run(&[archive, "-ldl", "-lrt", "-lpthread"]);
        assert_eq!((out.as_str(), err), (INSUFFICIENT_DRIVER, format!("{NO_DAEMON}{NO_PITCH}")), "{tree}");
    }
}
