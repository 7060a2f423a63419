//! Limits of a launch: `__launch_bounds__`, and kernels that launch kernels, which are refused in one line.
//!
//! Trap: a launch beyond the bounds is an error of the call, which does not stay.

use eager_tests::cudas::programs;
use eager_tests::{eagercc_with, has_toolchain, run, run_ok, text, tool};
use std::process::Command;

const BOUNDS: &str = r#"
__global__ void __launch_bounds__(128) bound(int *p) { p[threadIdx.x] = 1; }
__global__ void __launch_bounds__(96, 2) with_blocks(int *p) { p[threadIdx.x] = 2; }
template <int N> __global__ void __launch_bounds__(N) of_template(int *p) { p[threadIdx.x] = 3; }
template <class Kernel> void look(Kernel kernel) {
  cudaFuncAttributes of;
  OK(cudaFuncGetAttributes(&of, kernel));
  int most = of.maxThreadsPerBlock, grid, block, *p;
  OK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, kernel));
  OK(cudaMalloc(&p, BYTES));
  kernel<<<1, most>>>(p);
  cudaError_t within = cudaGetLastError();
  kernel<<<1, most + 1>>>(p);
  cudaError_t beyond = cudaGetLastError();
  printf("%d %s %s %s %s\n", most, block <= most ? "fits" : "beyond", cudaGetErrorName(within), cudaGetErrorName(beyond),
         cudaGetErrorName(cudaDeviceSynchronize()));
  OK(cudaFree(p));
}
int main() { look(bound); look(with_blocks); look(of_template<32>); look(more); }
"#;

#[test]
fn a_launch_beyond_its_bounds_is_refused() {
    let folder = tempfile::tempdir().expect("folder");
    for (program, tree) in programs(folder.path(), BOUNDS, &[]) {
        let mut command = Command::new(tool("eager"));
        command.args(["run", "--plain", "--time-scale", "0", "--"]).arg(&program);
        // In CUDA 12, more threads than any kernel may have is a different error.
        let line = |most: u32| {
            let is_shape = most == 1024 && tree.ends_with("cuda-12.9");
            let beyond = if is_shape { "cudaErrorInvalidConfiguration" } else { "cudaErrorInvalidValue" };
            format!("{most} fits cudaSuccess {beyond} cudaSuccess\n")
        };
        let expected: String = [128, 96, 32, 1024].map(line).concat();
        assert_eq!(run_ok(&mut command), expected, "{}", tree.display());
    }
}

const NESTED: &str = "__global__ void child(int *p) { *p = 1; }
__global__ void parent(int *p) {
  if (*p) {
    child<<<1, 1>>>(p);
  }
}
int main() {
  parent<<<1, 1>>>(nullptr);
}
";

#[test]
fn a_kernel_launched_from_a_kernel_is_named_with_its_line() {
    if !has_toolchain("kernels launched from kernels") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("nested.cu");
    std::fs::write(&file, NESTED).expect("write");
    let compile = |words: &[&str]| {
        let mut command = Command::new(tool("eagercc"));
        command.args(words).arg(&file).arg("-o").arg(folder.path().join("nested"));
        let output = run(&mut command);
        assert!(!output.status.success(), "{}", text(&output));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for words in [&[][..], &["-fgpu-rdc"]] {
        let said = compile(words);
        let line = said.lines().find(|line| line.contains("a kernel launched from a kernel"));
        assert!(line.is_some_and(|line| line.contains("nested.cu:4: ")), "{words:?}: {said}");
    }
    // The same program, with a store instead of the nested launch.
    std::fs::write(&file, NESTED.replace("child<<<1, 1>>>(p);", "*p = 2;")).expect("write");
    eagercc_with(&[], &[&file], &folder.path().join("plain"));
}
