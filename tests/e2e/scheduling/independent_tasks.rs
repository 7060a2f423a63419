//! Independent tasks of one program stay separate: each gets the device that has room for it.
//!
//! Trap: a program keeps seeing the device that it chose itself, so only the daemon's journal shows where its tasks
//! are.

use eager_tests::{compiled, daemon::Daemon, has_toolchain, run_ok};
use std::collections::BTreeSet;

/// Each thread holds its buffer until the other thread holds one too.
const SOURCE: &str = r#"
#include <atomic>
#include <cstdio>
#include <cuda_runtime.h>
#include <thread>

static std::atomic<int> holding{0};

__global__ void fill(int *to, int value) { to[threadIdx.x] = value + threadIdx.x; }

static void work(int value, int *result) {
  int *buffer, host[32];
  if (cudaMalloc(&buffer, size_t(600) << 20) != cudaSuccess) return;
  fill<<<1, 32>>>(buffer, value);
  cudaDeviceSynchronize();
  holding++;
  while (holding < 2) std::this_thread::yield();
  cudaMemcpy(host, buffer, sizeof host, cudaMemcpyDeviceToHost);
  *result = host[31];
  cudaFree(buffer);
}

int main() {
  int results[2] = {};
  std::thread other(work, 200, &results[1]);
  work(100, &results[0]);
  other.join();
  printf("%d %d\n", results[0], results[1]);
}
"#;

#[test]
fn two_tasks_that_do_not_fit_on_one_device_run_on_two() {
    if !has_toolchain("independent tasks") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "two", SOURCE);
    // 450 MiB of each device are for a context; the rest holds one of the tasks.
    let daemon = Daemon::start(&[
        "--virtual",
        "2xV100-16GB",
        "--time-scale",
        "0",
        "--device-memory",
        "1500MiB",
        "--policy",
        "case",
    ]);
    assert_eq!(run_ok(&mut daemon.run(&program)), "131 231\n");
    let journal = std::fs::read_to_string(daemon.journal()).expect("journal");
    let lines = journal.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let actions =
        lines.flat_map(|line: serde_json::Value| line["actions"].as_array().cloned().unwrap_or_default());
    let bound: Vec<serde_json::Value> = actions.filter(|action| action["action"] == "bind").collect();
    let devices: BTreeSet<Option<u64>> = bound.iter().map(|bind| bind["device"].as_u64()).collect();
    assert_eq!(devices, BTreeSet::from([Some(0), Some(1)]), "{bound:?}");
    assert!(bound.len() == 2 && bound.iter().all(|bind| bind["class"] == "normal"), "{bound:?}");
}
