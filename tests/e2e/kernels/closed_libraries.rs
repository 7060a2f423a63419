//! Libraries with kernels that a program opens and closes while it runs, as plugins are.
//!
//! Trap: the runtime knows kernels and variables by their addresses, which another mapping may get once a library is
//! unloaded. So libraries that `eagercc` links stay loaded.

use eager_tests::{compiled, eagercc_with, has_toolchain, run_ok, tool};
use std::process::Command;

const LIBRARY: &str = r#"
__device__ int counted = 7, added;
__global__ void count(int *out) { added += 1; *out = counted++ + 100 * added; }
extern "C" int go(int device) {
  int *out, value = -1, more = 10;
  cudaSetDevice(device);
  cudaMalloc(&out, sizeof *out);
  count<<<1, 1>>>(out);
  cudaMemcpy(&value, out, sizeof value, cudaMemcpyDeviceToHost);
  cudaMemcpyToSymbol(added, &more, sizeof more);
  cudaFree(out);
  return value;
}
"#;

/// Opens the library, uses it on two devices, closes it, and takes memory that may lie where the library lay; twice.
const PROGRAM: &str = r#"
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
__global__ void five(int *out) { *out = 5; }
int main(int, char **words) {
  for (int round = 0; round < 2; round++) {
    void *library = dlopen(words[1], RTLD_NOW);
    if (!library) { puts(dlerror()); return 1; }
    auto go = (int (*)(int))dlsym(library, "go");
    int first = go(0), second = go(1), third = go(0);
    printf("%d %d %d", first, second, third);
    if (dlclose(library)) { puts(dlerror()); return 1; }
    size_t bytes = 64 << 20, bad = 0;
    char *taken = (char *)mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(taken, 3, bytes);
    int *out, value = 0;
    cudaSetDevice(round);
    cudaMalloc(&out, sizeof *out);
    five<<<1, 1>>>(out);
    cudaMemcpy(&value, out, sizeof value, cudaMemcpyDeviceToHost);
    cudaFree(out);
    for (size_t i = 0; i < bytes; i++) bad += taken[i] != 3;
    printf(", %d, %zu\n", value, bad);
  }
}
"#;

#[test]
fn a_library_with_kernels_that_a_program_closes_stays_and_keeps_its_variables() {
    if !has_toolchain("libraries that are closed") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let (source, library) = (folder.path().join("go.cu"), folder.path().join("libgo.so"));
    std::fs::write(&source, LIBRARY).expect("write the source");
    eagercc_with(&["-shared".into(), "-fPIC".into()], &[&source], &library);
    let program = compiled(folder.path(), "opens", PROGRAM);
    let mut command = Command::new(tool("eager"));
    command.args(["run", "--plain", "--virtual", "2xV100-16GB"]).arg(&program).arg(&library);
    // Each launch adds to the last value copied to the symbol.
    assert_eq!(run_ok(&mut command), "107 107 1108, 5, 0\n1109 1108 1110, 5, 0\n");
}
