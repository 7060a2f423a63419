//! Compiles one program text for the runtimes of CUDA 12.9 and 13.0.
//!
//! A CUDA tree that is not installed is reported and skipped, without a failure.

use crate::{eagercc_with, has_toolchain, root};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Folders of `.toolchain`, one per CUDA version.
pub const TREES: [&str; 2] = ["cuda-12.9", "cuda-13.0"];

/// Start of each program's text.
const PRELUDE: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#define OK(call)                                                             \
  do {                                                                       \
    cudaError_t error = (call);                                              \
    if (error) { printf("%s: %s\n", #call, cudaGetErrorName(error)); exit(3); } \
  } while (0)
const int N = 1 << 16;
const size_t BYTES = N * sizeof(int);
__global__ void fill(int *p, int value) { p[blockIdx.x * blockDim.x + threadIdx.x] = value; }
__global__ void more(int *p) { p[blockIdx.x * blockDim.x + threadIdx.x] += 1; }
inline int device_of(const void *p) {
  cudaPointerAttributes of;
  OK(cudaPointerGetAttributes(&of, p));
  return of.device;
}
inline int told() { int device = -1; OK(cudaGetDevice(&device)); return device; }
inline int last_of(const int *p) {
  int last = 0;
  OK(cudaMemcpy(&last, p + N - 1, sizeof last, cudaMemcpyDeviceToHost));
  return last;
}
"#;

/// Returns the path of a CUDA tree, or `None` if it is not installed.
fn tree(name: &str) -> Option<PathBuf> {
    let tree = root().join(".toolchain").join(name);
    let is_there = has_toolchain(name) && tree.join("include/cuda_runtime.h").exists();
    if !is_there {
        eprintln!("SKIPPED: {name}: needs {}: run ./setup.sh", tree.display());
    }
    is_there.then_some(tree)
}

/// Compiles this text for each CUDA, with further words for the compiler. Returns each program with its tree.
pub fn programs(folder: &Path, source: &str, words: &[&str]) -> Vec<(PathBuf, PathBuf)> {
    let compiled = |tree: PathBuf| {
        let name = tree.file_name().expect("a name").to_string_lossy().into_owned();
        let [file, program] = ["cu", "out"].map(|ending| folder.join(format!("{name}.{ending}")));
        std::fs::write(&file, format!("{PRELUDE}{source}")).expect("write");
        let path = OsString::from(format!("--cuda-path={}", tree.display()));
        let words: Vec<OsString> = [path, "-O2".into(), "--cuda-gpu-arch=sm_80".into()]
            .into_iter()
            .chain(words.iter().map(OsString::from))
            .collect();
        eagercc_with(&words, &[&file], &program);
        (program, tree)
    };
    TREES.into_iter().filter_map(tree).map(compiled).collect()
}

/// Compiler arguments that `eagercc --nvcc --default-stream=per-thread` stands for.
pub const PER_THREAD: [&str; 3] =
    ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1", "-Xclang", "-fgpu-default-stream=per-thread"];
