//! Programs of CUDA 12.9 and of 13.0 under the daemon: whose device numbers count, which form of a call reaches which
//! function, one default stream per thread, graphs, resets. On the stand-in runtimes; and on NVIDIA's own up to the driver
//! that is missing here.
//!
//! Trap: a tree that is not installed is said and is no failure.

use eager_tests::daemon::Daemon;
use eager_tests::nvml::{GIB, Machine, machine};
use eager_tests::{eagercc_with, has_toolchain, root, run, run_ok, text};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const TREES: [&str; 2] = ["cuda-12.9", "cuda-13.0"];

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

/// A tree that is here.
fn tree(name: &str) -> Option<PathBuf> {
    let tree = root().join(".toolchain").join(name);
    let is_there = has_toolchain(name) && tree.join("include/cuda_runtime.h").exists();
    if !is_there {
        eprintln!("SKIPPED: {name}: needs {}: run ./setup.sh", tree.display());
    }
    is_there.then_some(tree)
}

/// A program for each CUDA, made of this text with these further words for the compiler; each with its tree.
fn programs(folder: &Path, source: &str, words: &[&str]) -> Vec<(PathBuf, PathBuf)> {
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

fn two_devices(policy: &str) -> Daemon {
    Daemon::start(&["--virtual", "2xV100-16GB", "--time-scale", "0", "--policy", policy])
}

fn granted(daemon: &Daemon) -> Vec<u64> {
    let info = daemon.ask("info");
    let devices = info["devices"].as_array().expect("devices").clone();
    devices.iter().map(|device| device["granted_bytes"].as_u64().expect("bytes")).collect()
}

/// Waits until so much is granted on the first device.
fn until_granted(daemon: &Daemon, least: u64) {
    let until = Instant::now() + Duration::from_secs(60);
    while granted(daemon)[0] < least {
        assert!(Instant::now() < until, "not granted in a minute: {:?}", granted(daemon));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Fills the first device, so that whoever comes gets the second.
fn fills_first(daemon: &Daemon) -> Child {
    let holder = daemon.reserve("15GiB", &["sleep", "1000"]);
    until_granted(daemon, 15 * GIB);
    holder
}

fn ended(mut holder: Child) {
    holder.kill().expect("kill");
    holder.wait().expect("wait");
}

const CHOOSES: &str = r#"
int main(int, char **arguments) {
  int first = atoi(arguments[1]), other = 1 - first;
  int both[] = {first, other}, wrong[] = {first, 7};
  OK(cudaSetValidDevices(both, 2));
  OK(cudaInitDevice(first, 0, 0));
  printf("%d %s %s %s\n", told() == first, cudaGetErrorName(cudaSetDevice(99)),
         cudaGetErrorName(cudaSetValidDevices(wrong, 2)), cudaGetErrorName(cudaInitDevice(7, 0, 0)));
  OK(cudaSetDevice(first));
  int *p, *q;
  OK(cudaMalloc(&p, BYTES));
  fill<<<N / 256, 256>>>(p, 5);
  printf("told %d, memory on %d, %d\n", told() == first, device_of(p), last_of(p));
  /* Bound: the program goes elsewhere, its task does not. */
  OK(cudaSetDevice(other));
  OK(cudaInitDevice(other, 0, 0));
  OK(cudaSetValidDevices(both, 2));
  OK(cudaSetDevice(other));
  OK(cudaMalloc(&q, BYTES));
  more<<<N / 256, 256>>>(p);
  fill<<<N / 256, 256>>>(q, 7);
  printf("told %d, memory on %d, %d, %d\n", told() == other, device_of(q), last_of(p), last_of(q));
  OK(cudaDeviceSynchronize());
  OK(cudaFree(p));
  OK(cudaFree(q));
}
"#;

#[test]
fn the_daemons_device_counts_whatever_the_program_sets_before_and_after() {
    let folder = tempfile::tempdir().expect("folder");
    let programs = programs(folder.path(), CHOOSES, &[]);
    if programs.is_empty() {
        return;
    }
    let daemon = two_devices("case");
    let wrong = "1 cudaErrorInvalidDevice cudaErrorInvalidDevice cudaErrorInvalidDevice\n";
    let on =
        |device: u32| format!("{wrong}told 1, memory on {device}, 5\ntold 1, memory on {device}, 6, 7\n");
    for (program, _) in &programs {
        assert_eq!(run_ok(daemon.run(program).arg("1")), on(0), "{}", program.display());
    }
    let holder = fills_first(&daemon);
    for (program, _) in &programs {
        assert_eq!(run_ok(daemon.run(program).arg("0")), on(1), "{}", program.display());
    }
    ended(holder);
}

const RESETS: &str = r#"
int main() {
  for (int round = 0; round < 3; ++round) {
    int *p;
    OK(cudaSetDevice(round % 2));
    OK(cudaMalloc(&p, BYTES));
    fill<<<N / 256, 256>>>(p, round);
    printf("%d\n", last_of(p));
    /* What is not freed ends with the device's state. */
    OK(cudaDeviceReset());
    printf("%s\n", cudaGetErrorName(cudaFree(p)));
  }
}
"#;

#[test]
fn a_reset_ends_the_tasks_and_the_program_begins_anew() {
    let folder = tempfile::tempdir().expect("folder");
    for (program, _) in programs(folder.path(), RESETS, &[]) {
        let daemon = two_devices("case");
        let printed = run_ok(&mut daemon.run(&program));
        let expected: String = (0..3).map(|round| format!("{round}\ncudaErrorInvalidValue\n")).collect();
        assert_eq!(printed, expected, "{}", program.display());
        assert_eq!(granted(&daemon), [0, 0]);
    }
}

const PREFETCHES: &str = r#"
static int last_prefetch(const int *p) {
  int where = -9;
  OK(cudaMemRangeGetAttribute(&where, sizeof where, cudaMemRangeAttributeLastPrefetchLocation, p, BYTES));
  return where;
}
static int preferred(const int *p) {
  int where = -9;
  OK(cudaMemRangeGetAttribute(&where, sizeof where, cudaMemRangeAttributePreferredLocation, p, BYTES));
  return where;
}
int main(int, char **arguments) {
  int told = atoi(arguments[1]), *p;
  OK(cudaMallocManaged(&p, BYTES));
  fill<<<N / 256, 256>>>(p, 1);
  cudaMemLocation there = {cudaMemLocationTypeDevice, told}, host = {cudaMemLocationTypeHost, 0};
#if CUDART_VERSION >= 13000
  OK(cudaMemAdvise(p, BYTES, cudaMemAdviseSetPreferredLocation, there));
  OK(cudaMemPrefetchAsync(p, BYTES, there, 0, 0));
  printf("%d %d\n", preferred(p), last_prefetch(p));
  OK(cudaMemAdvise(p, BYTES, cudaMemAdviseSetPreferredLocation, host));
  OK(cudaMemPrefetchAsync(p, BYTES, host, 0, 0));
  printf("%d %d\n", preferred(p), last_prefetch(p));
#else
  OK(cudaMemAdvise(p, BYTES, cudaMemAdviseSetPreferredLocation, told));
  OK(cudaMemPrefetchAsync(p, BYTES, told, 0));
  printf("%d %d\n", preferred(p), last_prefetch(p));
  OK(cudaMemAdvise_v2(p, BYTES, cudaMemAdviseSetPreferredLocation, host));
  OK(cudaMemPrefetchAsync_v2(p, BYTES, host, 0, 0));
  printf("%d %d\n", preferred(p), last_prefetch(p));
  OK(cudaMemPrefetchAsync_v2(p, BYTES, there, 0, 0));
  printf("%d %d\n", preferred(p), last_prefetch(p));
  OK(cudaMemPrefetchAsync(p, BYTES, cudaCpuDeviceId, 0));
#endif
  OK(cudaDeviceSynchronize());
  printf("%d\n", p[N - 1]);
  OK(cudaFree(p));
}
"#;

#[test]
fn both_forms_of_prefetch_and_advice_reach_the_daemons_device_and_the_host() {
    let folder = tempfile::tempdir().expect("folder");
    let daemon = two_devices("case");
    for (program, tree) in programs(folder.path(), PREFETCHES, &[]) {
        let printed = run_ok(daemon.run(&program).arg("1"));
        let expected = match tree.ends_with(TREES[0]) {
            true => "0 0\n-1 -1\n-1 0\n1\n",
            false => "0 0\n-1 -1\n1\n",
        };
        assert_eq!(printed, expected, "{}", program.display());
    }
}

/// As `eagercc --nvcc --default-stream=per-thread` has it.
const PER_THREAD: [&str; 3] =
    ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1", "-Xclang", "-fgpu-default-stream=per-thread"];

const THREADS: &str = r#"
#include <thread>
#include <vector>
static int results[4];
static void work(int number) {
  int *p, *host;
  OK(cudaMalloc(&p, BYTES));
  OK(cudaMallocHost(&host, BYTES));
  OK(cudaMemsetAsync(p, 0, BYTES, 0));
  for (int i = 0; i < 10 + number; ++i) more<<<N / 256, 256>>>(p);
  OK(cudaMemcpyAsync(host, p, BYTES, cudaMemcpyDeviceToHost, 0));
  OK(cudaStreamSynchronize(0));
  results[number] = host[N - 1];
  OK(cudaFreeHost(host));
  OK(cudaFree(p));
}
int main() {
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) threads.emplace_back(work, number);
  for (std::thread &thread : threads) thread.join();
  for (int result : results) printf("%d\n", result);
}
"#;

#[test]
fn a_default_stream_per_thread_is_the_threads_own_in_both() {
    let folder = tempfile::tempdir().expect("folder");
    let daemon = two_devices("case");
    for (program, _) in programs(folder.path(), THREADS, &PER_THREAD) {
        let symbols = run_ok(Command::new("llvm-nm-22").arg("-u").arg(&program));
        for call in
            ["eager_cudaLaunchKernel_ptsz", "eager_cudaMemcpyAsync_ptsz", "eager_cudaMemsetAsync_ptsz"]
        {
            assert!(symbols.contains(call), "{}: no {call}:\n{symbols}", program.display());
        }
        assert_eq!(run_ok(&mut daemon.run(&program)), "10\n11\n12\n13\n", "{}", program.display());
    }
}

const GRAPHS: &str = r#"
int main() {
  int *p, host[4] = {};
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  OK(cudaMalloc(&p, BYTES));
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaMemsetAsync(p, 0, BYTES, stream));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < 3; ++i) more<<<N / 256, 256, 0, stream>>>(p);
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 4; ++i) {
    OK(cudaGraphLaunch(executable, stream));
    OK(cudaStreamSynchronize(stream));
    host[i] = last_of(p);
  }
  printf("%d %d %d %d, on %d\n", host[0], host[1], host[2], host[3], device_of(p));
  OK(cudaGraphExecDestroy(executable));
  OK(cudaGraphDestroy(graph));
  OK(cudaStreamDestroy(stream));
  OK(cudaFree(p));
}
"#;

#[test]
fn a_captured_graph_runs_on_the_daemons_device_as_often_as_it_is_launched() {
    let folder = tempfile::tempdir().expect("folder");
    let daemon = two_devices("case");
    let holder = fills_first(&daemon);
    for (program, _) in programs(folder.path(), GRAPHS, &[]) {
        assert_eq!(run_ok(&mut daemon.run(&program)), "3 6 9 12, on 1\n", "{}", program.display());
    }
    ended(holder);
}

const FAILS: &str = r#"
int main() {
  int count = -1, *p = nullptr;
  cudaStream_t stream;
  printf("%s\n", cudaGetErrorName(cudaGetDeviceCount(&count)));
  printf("%s\n", cudaGetErrorName(cudaSetDevice(0)));
  printf("%s\n", cudaGetErrorName(cudaMalloc(&p, BYTES)));
  fill<<<N / 256, 256>>>(p, 1);
  printf("%s\n", cudaGetErrorName(cudaGetLastError()));
  printf("%s\n", cudaGetErrorName(cudaStreamCreate(&stream)));
  printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  return 5;
}
"#;

/// NVIDIA's runtime, where there is no driver: what a machine says whose driver is missing or too old.
#[test]
fn on_nvidias_runtime_without_a_driver_a_program_fails_as_without_eager() {
    if Path::new("/dev/nvidiactl").exists() {
        eprintln!("SKIPPED: this machine has an NVIDIA driver");
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let machine = Machine::new(&machine());
    let daemon = machine.daemon(&["--policy", "case", "--gpus", "0"]);
    for (program, tree) in programs(folder.path(), FAILS, &[]) {
        let on_nvidias = |command: &mut Command| {
            let output = run(command.env("LD_LIBRARY_PATH", tree.join("lib")));
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), said)
        };
        let without = on_nvidias(Command::new(&program).env("EAGER_DISABLE", "1"));
        assert_eq!((without.0, without.2.as_str()), (Some(5), ""), "{without:?}");
        assert!(without.1.lines().all(|line| line == "cudaErrorInsufficientDriver"), "{}", without.1);
        let alone = on_nvidias(Command::new(&program).env("EAGER_SOCKET", "/nowhere/client.sock"));
        assert_eq!((alone.0, &alone.1), (without.0, &without.1), "{alone:?}");
        assert!(alone.2.lines().count() == 1 && alone.2.contains("running as plain CUDA"), "{}", alone.2);
        let scheduled = on_nvidias(&mut daemon.run(&program));
        assert_eq!((scheduled.0, &scheduled.1), (without.0, &without.1), "{scheduled:?}");
        assert_eq!(scheduled.2.lines().count(), 1, "{}", scheduled.2);
        assert!(scheduled.2.contains("CUDA finds no device (error 35)"), "{}", scheduled.2);
        assert_eq!(granted(&daemon), [0], "{}", text(&run(&mut daemon.run(&program))));
    }
}
