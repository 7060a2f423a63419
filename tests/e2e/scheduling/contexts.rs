//! Many programs at once, more than devices have room for contexts: each ends well, and none makes a context before the
//! daemon allows it.
//!
//! Trap: programs must overlap, or no two of them want a context at once; so each holds its memory for a moment.

use eager_tests::{compiled, daemon::Daemon, has_toolchain, until, until_holds};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// Allocates in a loop of unknown length, so that the pass announces none of its memory.
const LAZY: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <unistd.h>
__global__ void fill(int *to, int value) { to[threadIdx.x] = value + threadIdx.x; }
int main(int argc, char **argv) {
  int count = atoi(argv[1]), host[32];
  int *buffers[8];
  for (int i = 0; i < count; i++) {
    if (cudaError_t error = cudaMalloc(&buffers[i], 1 << 20)) { puts(cudaGetErrorString(error)); return 1; }
  }
  usleep(20000);
  for (int i = 0; i < count; i++) fill<<<1, 32>>>(buffers[i], i);
  if (cudaError_t error = cudaDeviceSynchronize()) { puts(cudaGetErrorString(error)); return 2; }
  const char *go = getenv("EAGER_TEST_GO");
  if (go) while (access(go, F_OK)) usleep(1000);
  else usleep(300000);
  if (cudaError_t error = cudaMemcpy(host, buffers[count - 1], sizeof host, cudaMemcpyDeviceToHost)) {
    puts(cudaGetErrorString(error));
    return 3;
  }
  for (int i = 0; i < count; i++) cudaFree(buffers[i]);
  printf("%d\n", host[31]);
}
"#;

const STATIC: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <unistd.h>
__global__ void fill(int *to, int value) { to[threadIdx.x] = value + threadIdx.x; }
int main() {
  int *buffer, host[32];
  if (cudaError_t error = cudaMalloc(&buffer, 1 << 20)) { puts(cudaGetErrorString(error)); return 1; }
  fill<<<1, 32>>>(buffer, 1);
  const char *go = getenv("EAGER_TEST_GO");
  if (go) while (access(go, F_OK)) usleep(1000);
  else usleep(300000);
  if (cudaError_t error = cudaMemcpy(host, buffer, sizeof host, cudaMemcpyDeviceToHost)) {
    puts(cudaGetErrorString(error));
    return 2;
  }
  cudaFree(buffer);
  printf("%d\n", host[31]);
}
"#;

/// Calls in a thread of their own that make a context before there is any memory; then the work of the lazy program.
const CALLS: &str = r#"
#include <cstdio>
#include <cuda_runtime.h>
#include <thread>
__global__ void fill(int *to, int value) { to[threadIdx.x] = value + threadIdx.x; }
static void ask() {
  static char page[1 << 16] __attribute__((aligned(4096)));
  cudaFuncAttributes attributes;
  int blocks, least, most;
  size_t bytes, total;
  cudaFuncGetAttributes(&attributes, fill);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill, 32, 0);
  cudaDeviceGetStreamPriorityRange(&least, &most);
  cudaDeviceGetLimit(&bytes, cudaLimitMallocHeapSize);
  cudaMemGetInfo(&bytes, &total);
  if (cudaHostRegister(page, sizeof page, 0) || cudaHostUnregister(page)) puts("not registered");
}
int main(int argc, char **) {
  cudaFree(0);
  cudaDeviceSynchronize();
  ask();
  std::thread(ask).join();
  int *buffers[4], host[32];
  for (int i = 0; i <= argc; i++) if (cudaMalloc(&buffers[i], 1 << 20)) return 1;
  fill<<<1, 32>>>(buffers[argc], argc);
  if (cudaMemcpy(host, buffers[argc], sizeof host, cudaMemcpyDeviceToHost)) return 2;
  printf("%d\n", host[31]);
}
"#;

/// Output of one program of either kind.
const PRINTED: &str = "32\n";

fn programs(folder: &Path) -> [(PathBuf, &'static [&'static str]); 2] {
    [(compiled(folder, "lazy", LAZY), &["2"]), (compiled(folder, "static", STATIC), &[])]
}

/// Starts `count` programs at once, which hold their memory for a moment; each must end with the output of one that runs
/// alone.
fn all_end_well(daemon: &Daemon, program: &Path, arguments: &[&str], count: usize, when: &str) {
    end_well(start_all(daemon, program, arguments, count, None), when);
}

/// Starts programs that hold their memory until the file `go` exists.
fn start_all(
    daemon: &Daemon,
    program: &Path,
    arguments: &[&str],
    count: usize,
    go: Option<&Path>,
) -> Vec<Child> {
    let start = |_| {
        let mut command = daemon.run(program);
        command.envs(go.map(|go| ("EAGER_TEST_GO", go)));
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start")
    };
    (0..count).map(start).collect()
}

fn end_well(running: Vec<Child>, when: &str) {
    for (number, child) in running.into_iter().enumerate() {
        let output = child.wait_with_output().expect("wait");
        let said = String::from_utf8_lossy(&output.stderr);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && printed == PRINTED, "{when}, program {number}: {printed}{said}");
        assert!(!said.contains("not scheduled"), "{when}, program {number}: {said}");
    }
}

/// Returns the devices that were given, and the reasons of waiting, from the journal.
fn decided(daemon: &Daemon) -> (Vec<u64>, Vec<String>) {
    let journal = std::fs::read_to_string(daemon.journal()).expect("journal");
    // The last line may be incomplete.
    let lines = journal.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let actions: Vec<_> =
        lines.flat_map(|line| line["actions"].as_array().cloned().unwrap_or_default()).collect();
    let of = |kind: &'static str| actions.iter().filter(move |action| action["action"] == kind);
    let devices = of("bind").filter_map(|action| action["device"].as_u64()).collect();
    let waits = of("wait").filter_map(|action| Some(action["reason"]["why"].as_str()?.to_owned())).collect();
    (devices, waits)
}

#[test]
fn more_programs_at_once_than_a_device_has_room_for_contexts_all_end_well() {
    if !has_toolchain("contexts") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    for (program, arguments) in programs(folder.path()) {
        // 36 contexts fill the device.
        let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0"]);
        let go = program.with_extension("go");
        let running = start_all(&daemon, &program, arguments, 60, Some(&go));
        until(|| match decided(&daemon).1.is_empty() {
            true => Err("no program waits".to_owned()),
            false => Ok(()),
        });
        std::fs::write(&go, "").expect("the word to go on");
        end_well(running, &program.display().to_string());
    }
}

#[test]
fn a_full_device_gets_no_context_while_another_is_empty() {
    if !has_toolchain("contexts") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let calls = compiled(folder.path(), "calls", CALLS);
    let daemon = Daemon::start(&["--virtual", "2xV100-16GB", "--time-scale", "0", "--policy", "case"]);
    // With the holder's own context, less is left than a context takes.
    let full = daemon.reserve("15500MiB", &["sleep", "1000"]);
    until_holds("a device is full", || decided(&daemon).0 == [0]);
    for (program, arguments) in programs(folder.path()) {
        all_end_well(&daemon, &program, arguments, 12, &program.display().to_string());
    }
    all_end_well(&daemon, &calls, &[], 4, "calls that make contexts");
    let (devices, _) = decided(&daemon);
    assert!(devices[1..].iter().all(|device| *device == 1), "{devices:?}");
    drop(full);
}

/// Takes minutes: 200 programs at once, static and lazy, under every policy for devices, also with a full device.
#[test]
#[ignore = "long"]
fn long_two_hundred_programs_end_well_under_every_policy() {
    if !has_toolchain("contexts") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let policies = ["case", "case-alg2", "case-fifo", "eager", "eager-p", "eager-b", "eager-pb", "eager-opt"];
    let others = ["eager-live", "sa", "cg", "schedgpu", "quanta"];
    for policy in policies.into_iter().chain(others) {
        for (program, arguments) in programs(folder.path()) {
            let daemon =
                Daemon::start(&["--virtual", "4xV100-16GB", "--time-scale", "0", "--policy", policy]);
            let when = format!("{policy}, {}", program.display());
            all_end_well(&daemon, &program, arguments, 200, &when);
            if !["sa", "cg", "quanta"].contains(&policy) {
                let full = daemon.reserve("15500MiB", &["sleep", "1000"]);
                all_end_well(&daemon, &program, arguments, 50, &format!("{when}, one device full"));
                drop(full);
            }
        }
    }
}
