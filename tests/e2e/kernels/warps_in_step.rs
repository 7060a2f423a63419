//! Programs from before Volta, whose warps exchange values without `__syncwarp()`: right results, and a warning that
//! names the place.
//!
//! Trap: hardware since Volta promises nothing here, so none of this may be among the checks on a GPU.

use eager_tests::{cudas, run, text, tool};
use std::process::Command;

/// A reduction by templates whose last warp continues alone, and a scan in a padded row, each in functions of its own.
const BEFORE_VOLTA: &str = r#"
template <class T, int SIZE> __device__ void last_warp(volatile T *row, unsigned t) {
  if (SIZE >= 64) row[t] += row[t + 32];
  if (SIZE >= 32) row[t] += row[t + 16];
  row[t] += row[t + 8]; row[t] += row[t + 4]; row[t] += row[t + 2]; row[t] += row[t + 1];
}
template <class T> struct Shared { __device__ operator T *() { extern __shared__ int memory[]; return (T *)memory; } };
template <class T, int SIZE> __global__ void reduce(const T *in, T *out, unsigned n) {
  T *row = Shared<T>();
  unsigned t = threadIdx.x;
  T sum = 0;
  for (unsigned i = blockIdx.x * SIZE + t; i < n; i += SIZE * gridDim.x) sum += in[i];
  row[t] = sum;
  __syncthreads();
  if (SIZE >= 256) { if (t < 128) row[t] = sum = sum + row[t + 128]; __syncthreads(); }
  if (SIZE >= 128) { if (t < 64) row[t] = sum = sum + row[t + 64]; __syncthreads(); }
  if (t < 32) last_warp<T, SIZE>(row, t);
  if (t == 0) out[blockIdx.x] = row[0];
}
__device__ int scanned(int value, volatile int *row, int size) {
  int at = 2 * threadIdx.x - (threadIdx.x & (size - 1));
  row[at] = 0;
  at += size;
  row[at] = value;
  for (int d = 1; d < size; d <<= 1) row[at] += row[at - d];
  return row[at];
}
__global__ void scan(int *values) {
  __shared__ int row[512];
  values[threadIdx.x] = scanned(values[threadIdx.x], row, 32);
}
int main() {
  int *in, *out;
  OK(cudaMalloc(&in, BYTES)); OK(cudaMalloc(&out, BYTES));
  fill<<<N / 256, 256>>>(in, 1);
  reduce<int, 256><<<64, 256, 256 * sizeof(int)>>>(in, out, N);
  scan<<<1, 256>>>(in);
  int sums[64], rows[256], sum = 0, wrong = 0;
  OK(cudaMemcpy(sums, out, sizeof sums, cudaMemcpyDeviceToHost));
  OK(cudaMemcpy(rows, in, sizeof rows, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 64; ++i) sum += sums[i];
  for (int i = 0; i < 256; ++i) wrong += rows[i] != i % 32 + 1;
  printf("sum %d, wrong %d\n", sum, wrong);
}
"#;

fn result(words: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("folder");
    let programs = cudas::programs(folder.path(), BEFORE_VOLTA, words);
    let ran = programs.into_iter().map(|(program, _)| {
        text(&run(Command::new(tool("eager"))
            .args(["run", "--plain", "--time-scale", "0", "--"])
            .arg(program)))
    });
    ran.collect()
}

#[test]
fn programs_from_before_volta_have_the_results_of_their_time() {
    for mode in ["auto", "loops", "coroutines"] {
        let mode = format!("--eager-kernel-mode={mode}");
        for said in result(&["--eager-no-instrument", &mode]) {
            assert_eq!(said, "sum 65536, wrong 0\n", "{mode}");
        }
    }
    // Otherwise the test above would show nothing.
    for said in result(&["--eager-no-instrument", "--eager-lockstep=off"]) {
        assert_ne!(said, "sum 65536, wrong 0\n");
    }
}

#[test]
fn the_compiler_warns_and_refuses_a_way_that_is_none() {
    if !eager_tests::has_toolchain("cuda-13.0") {
        eprintln!("SKIPPED: needs ./setup.sh");
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let source = folder.path().join("old.cu");
    let shift = "__global__ void shift(int *p) {\n  __shared__ int s[64];\n  int t = threadIdx.x;\n  s[t] = p[t];\n  \
                 p[t] = s[t ^ 1];\n}\n";
    std::fs::write(&source, shift).expect("source");
    let compiled = |words: &[&str]| {
        let mut command = Command::new(tool("eagercc"));
        let output =
            run(command.args(words).arg("-c").arg(&source).arg("-o").arg(folder.path().join("old.o")));
        (output.status.success(), text(&output))
    };
    let (done, said) = compiled(&[]);
    assert!(
        done && said.contains("warning: kernel shift relies on the threads of a warp running in step at "),
        "{said}"
    );
    assert!(
        said.contains("old.cu:4, ") && said.contains("old.cu:5: ") && said.contains("__syncwarp()"),
        "{said}"
    );
    for quiet in ["--eager-lockstep=off", "-Wno-backend-plugin"] {
        assert_eq!(compiled(&[quiet]), (true, String::new()), "{quiet}");
    }
    let (done, said) = compiled(&["--eager-lockstep=sometimes"]);
    assert!(!done && said.contains("`sometimes`: use off, auto, suspected or all"), "{said}");
}
