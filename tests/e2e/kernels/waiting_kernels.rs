//! Kernels in which blocks and threads wait for each other without a barrier: they end where a GPU would end them, and
//! where nothing can end them, a message names the kernel and the line that waits.
//!
//! Trap: a block may wait for a block that has not begun, about which CUDA promises nothing; the tests may only rely on
//! what GPUs do in fact, which is to begin blocks in rising order.

use eager_tests::{cudas, run, text, tool};
use std::path::Path;
use std::process::Command;

/// A scan in one pass: a block publishes its sum, and looks back at earlier blocks until one knows its prefix.
const LOOK_BACK: &str = r#"
const int BLOCK = 128, BLOCKS = N / BLOCK;
struct Status { volatile int flag, sum, prefix; };
__device__ unsigned ticket;
__global__ void scan(const int *in, int *out, Status *status) {
  __shared__ int values[BLOCK], before, block;
  int t = threadIdx.x;
  if (t == 0) block = atomicAdd(&ticket, 1u);
  __syncthreads();
  int at = block * BLOCK + t;
  values[t] = in[at];
  __syncthreads();
  for (int d = 1; d < BLOCK; d *= 2) {
    int add = t >= d ? values[t - d] : 0;
    __syncthreads();
    values[t] += add;
    __syncthreads();
  }
  if (t == 0) {
    int sum = values[BLOCK - 1], prefix = 0;
    if (block > 0) {
      status[block].sum = sum;
      __threadfence();
      status[block].flag = 1;
      for (int back = block - 1; back >= 0; --back) {
        while (status[back].flag == 0) { }
        __threadfence();
        if (status[back].flag == 2) { prefix += status[back].prefix; break; }
        prefix += status[back].sum;
      }
    }
    status[block].prefix = prefix + sum;
    __threadfence();
    status[block].flag = 2;
    before = prefix;
  }
  __syncthreads();
  out[at] = before + values[t];
}
// The last block of the grid is waited for by all others.
__global__ void last_first(volatile int *done, int *out) {
  int b = blockIdx.x;
  if (threadIdx.x == 0 && b + 1 < gridDim.x) while (!done[b + 1]) { }
  __syncthreads();
  if (threadIdx.x == 0) { out[b] = b; __threadfence(); done[b] = 1; }
}
__device__ int locked;
__global__ void count(int *total) {
  bool mine = false;
  while (!mine) {
    if (atomicCAS(&locked, 0, 1) == 0) {
      *(volatile int *)total += 1;
      __threadfence();
      atomicExch(&locked, 0);
      mine = true;
    }
  }
}
int main() {
  int *in, *out, *total; Status *status;
  OK(cudaMalloc(&in, BYTES)); OK(cudaMalloc(&out, BYTES)); OK(cudaMalloc(&total, 4));
  OK(cudaMalloc(&status, BLOCKS * sizeof(Status)));
  OK(cudaMemset(status, 0, BLOCKS * sizeof(Status))); OK(cudaMemset(total, 0, 4));
  fill<<<N / 256, 256>>>(in, 3);
  scan<<<BLOCKS, BLOCK>>>(in, out, status);
  OK(cudaDeviceSynchronize());
  int *host = new int[N];
  OK(cudaMemcpy(host, out, BYTES, cudaMemcpyDeviceToHost));
  for (int i = 0; i < N; ++i) if (host[i] != 3 * (i + 1)) { printf("scan: %d at %d\n", host[i], i); return 1; }
  OK(cudaMemset(in, 0, BYTES));
  last_first<<<64, 32>>>(in, out);
  count<<<20, 96>>>(total);
  OK(cudaDeviceSynchronize());
  printf("last %d, counted %d\n", out ? 64 : 0, last_of(total - (N - 1)));
}
"#;

#[test]
fn blocks_that_look_back_look_ahead_and_take_locks_end_with_right_results() {
    let folder = tempfile::tempdir().expect("folder");
    for (program, tree) in cudas::programs(folder.path(), LOOK_BACK, &["--eager-no-instrument"]) {
        for workers in ["1", "3"] {
            let mut command = plain(&program);
            let output = run(command.env("EAGER_VGPU_WORKERS", workers));
            assert!(output.status.success(), "{}: {}", tree.display(), text(&output));
            assert_eq!(text(&output), "last 64, counted 1920\n", "{}, {workers} workers", tree.display());
        }
    }
}

/// Kernels that wait for a value that is never written.
const IN_VAIN: &str = r#"
__global__ void polls(volatile int *p) {
  while (p[1] == 0) { } // here
  p[0] = 1;
}
// A list that leads back to its first node, along which the thread walks for ever: it is not seen to wait.
__global__ void walks(volatile int *p) { int at = 0; while (p[at] == at) at = p[at]; p[1] = at; }
__global__ void sleeps(volatile int *p) {
  while (p[1] == 0) __nanosleep(100); // in vain
  p[0] = 1;
}
int main(int argc, char **) {
  int *p;
  OK(cudaMalloc(&p, BYTES)); OK(cudaMemset(p, 0, BYTES));
  if (argc > 2) sleeps<<<2, 32>>>(p); else if (argc > 1) walks<<<2, 32>>>(p); else polls<<<2, 32>>>(p);
  printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
"#;

#[test]
fn a_kernel_that_waits_in_vain_is_named_with_its_line() {
    let folder = tempfile::tempdir().expect("folder");
    for (program, tree) in cudas::programs(folder.path(), IN_VAIN, &["--eager-no-instrument"]) {
        let source = std::fs::read_to_string(program.with_extension("cu")).expect("source");
        let line = |note: &str| source.lines().position(|line| line.contains(note)).expect("the line") + 1;
        // Seconds until the kernel is named, and until it is ended. That threads wait is seen after a second, and a
        // kernel is named a while late; on a loaded machine both take longer, so the times are far apart.
        let said = |words: &[&str], slow: &str, end: &str| {
            let mut command = plain(&program);
            command.args(words).env("EAGER_VGPU_SLOW_KERNEL", slow).env("EAGER_VGPU_KERNEL_TIMEOUT", end);
            text(&run(&mut command))
        };
        let polls = said(&[], "3", "6");
        assert!(polls.contains("cudaErrorLaunchTimeout"), "{}: {polls}", tree.display());
        let place = |note: &str| {
            let line = line(note);
            format!("threads wait at {}:{line} for a value that no other thread has written", name(&program))
        };
        assert!(polls.contains("has run for 3 s") && polls.contains(&place("// here")), "{polls}");
        let sleeps = said(&["some", "words"], "3", "6");
        assert!(sleeps.contains("has run for 3 s") && sleeps.contains(&place("// in vain")), "{sleeps}");
        let walks = said(&["other"], "0.5", "4");
        assert!(walks.contains("cudaErrorLaunchTimeout"), "{walks}");
        assert!(walks.contains("has run for 0.5 s: it may just take long, its blocks wait"), "{walks}");
        assert!(!said(&[], "0", "1").contains("has run for"), "silenced");
    }
}

fn name(program: &Path) -> String {
    program.with_extension("cu").display().to_string()
}

fn plain(program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.arg("120").arg(tool("eager"));
    command.args(["run", "--plain", "--time-scale", "0", "--fault-status", "0", "--"]).arg(program);
    command
}
