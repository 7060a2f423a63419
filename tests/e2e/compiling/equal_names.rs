//! Two files of a program have a static kernel and a static device variable of the same names; each file runs its own
//! code.
//!
//! Trap: the host sees two stubs, and CUDA two registrations, under one name; which code a launch runs must not depend
//! on the order in which the files are linked.

use eager_tests::{eagercc, has_toolchain, run_ok, tool};
use std::path::Path;
use std::process::Command;

/// Returns a file whose kernel adds its own constant, called through a host function `name`.
fn source(name: &str, constant: u32) -> String {
    format!(
        "#include <cuda_runtime.h>
static __constant__ int constant;
static __device__ int seen = 0;
static __global__ void add(int *sum) {{ seen = {constant}; *sum += constant + {constant}; }}
int {name}(int *sum) {{
  int value = 10 * {constant}, there = 0;
  cudaMemcpyToSymbol(constant, &value, sizeof value);
  add<<<1, 1>>>(sum);
  cudaMemcpyFromSymbol(&there, seen, sizeof there);
  return there;
}}
"
    )
}

const MAIN: &str = r#"
#include <cstdio>
#include <cuda_runtime.h>
int one(int *), two(int *);
int main() {
  int *sum, seen[2], value = 0;
  cudaMalloc(&sum, sizeof *sum);
  for (int round = 0; round < 2; round++) {
    cudaMemset(sum, 0, sizeof *sum);
    seen[0] = one(sum);
    cudaMemcpy(&value, sum, sizeof value, cudaMemcpyDeviceToHost);
    printf("%d %d ", seen[0], value);
    seen[1] = two(sum);
    cudaMemcpy(&value, sum, sizeof value, cudaMemcpyDeviceToHost);
    printf("%d %d\n", seen[1], value);
  }
  cudaFree(sum);
}
"#;

#[test]
fn each_file_runs_its_own_kernel_in_either_link_order() {
    if !has_toolchain("equal kernel names") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let files = [("one.cu", source("one", 1)), ("two.cu", source("two", 2)), ("main.cu", MAIN.to_string())];
    let paths = files.map(|(name, text)| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("write a source");
        path
    });
    let [one, two, main] = paths.each_ref().map(|path| path.as_path());
    for sources in [[one, two, main], [two, main, one]] {
        let binary = folder.path().join("program");
        eagercc(&sources as &[&Path], &binary);
        let out = run_ok(
            Command::new(tool("eager")).args(["run", "--plain", "--time-scale", "0", "--"]).arg(&binary),
        );
        assert_eq!(out, "1 11 2 33\n1 11 2 33\n", "{sources:?}");
    }
}
