//! Programs of CUDA 12.9 and of 13.0 under the daemon: whose device numbers count, which form of a call reaches which
//! function, one default stream per thread, graphs, resets. They run on the stand-in runtimes; and on NVIDIA's own
//! runtimes up to the missing driver.
//!
//! A CUDA tree that is not installed is reported and skipped, without a failure.

use eager_tests::cudas::{PER_THREAD, TREES, programs};
use eager_tests::daemon::{Daemon, Holder};
use eager_tests::nvml::{GIB, Machine, machine};
use eager_tests::place::Running;
use eager_tests::{run, run_ok, text, until};
use std::path::Path;
use std::process::Command;

fn two_devices(policy: &str) -> Daemon {
    Daemon::start(&["--virtual", "2xV100-16GB", "--time-scale", "0", "--policy", policy])
}

fn granted(daemon: &Daemon) -> Vec<u64> {
    let info = daemon.ask("info");
    let devices = info["devices"].as_array().expect("devices").clone();
    devices.iter().map(|device| device["granted_bytes"].as_u64().expect("bytes")).collect()
}

/// Waits until at least `least` bytes are granted on the first device.
fn until_granted(daemon: &Daemon, least: u64) {
    until(|| match granted(daemon)[0] {
        granted if granted >= least => Ok(()),
        granted => Err(format!("{granted} granted")),
    });
}

/// Fills the first device, so that the next program gets the second.
fn fills_first(daemon: &Daemon) -> Holder {
    let holder = daemon.reserve("15GiB", &["sleep", "1000"]);
    until_granted(daemon, 15 * GIB);
    holder
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
    let _holder = fills_first(&daemon);
    for (program, _) in &programs {
        assert_eq!(run_ok(daemon.run(program).arg("0")), on(1), "{}", program.display());
    }
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
    let _holder = fills_first(&daemon);
    for (program, _) in programs(folder.path(), GRAPHS, &[]) {
        assert_eq!(run_ok(&mut daemon.run(&program)), "3 6 9 12, on 1\n", "{}", program.display());
    }
}

const THREADS_DEVICES: &str = r#"
#include <thread>
typedef int (*State)(int, unsigned *, int *);
/* Has the program a context there? */
static int active(int device) {
  void *found = nullptr;
  cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 13000
  OK(cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &found, 12000, cudaEnableDefault, &result));
#else
  OK(cudaGetDriverEntryPoint("cuDevicePrimaryCtxGetState", &found, cudaEnableDefault, &result));
#endif
  unsigned flags;
  int active = -1;
  if (!found || ((State)found)(device, &flags, &active)) exit(4);
  return active;
}
static int of[2], results[2];
static void work(int number) {
  int *p;
  OK(cudaSetDevice(number));
  OK(cudaMalloc(&p, size_t(3) << 30));
  fill<<<N / 256, 256>>>(p, 5 + number);
  results[number] = last_of(p);
  of[number] = device_of(p);
  if (told() != number) exit(5);
  OK(cudaDeviceSynchronize());
  OK(cudaFree(p));
}
int main() {
  printf("contexts %d %d\n", active(0), active(1));
  std::thread one(work, 0), other(work, 1);
  one.join();
  other.join();
  printf("contexts %d %d, memory on %d %d: %d %d\n", active(0), active(1), of[0], of[1], results[0], results[1]);
}
"#;

#[test]
fn threads_that_set_different_devices_are_where_the_daemon_puts_them_and_nowhere_else() {
    let folder = tempfile::tempdir().expect("folder");
    let programs = programs(folder.path(), THREADS_DEVICES, &[]);
    for (program, _) in &programs {
        let daemon = two_devices("case");
        let _holder = fills_first(&daemon);
        let expected = "contexts 0 0\ncontexts 0 1, memory on 1 1: 5 6\n";
        assert_eq!(run_ok(&mut daemon.run(program)), expected, "{}", program.display());
    }
}

/// Imitates a CUDA with memory nodes, which the stand-in runtime lacks.
const MEMORY_NODES: &str = r#"
#include <cstdlib>
#include <cuda_runtime_api.h>
extern "C" cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t,
                                                cudaMemAllocNodeParams *asked) {
  return asked->bytesize > 1 << 30 ? cudaErrorMemoryAllocation : cudaMalloc(&asked->dptr, asked->bytesize);
}
"#;

const ADDS_NODES: &str = r#"
static void hear() { char line[8]; if (!fgets(line, sizeof line, stdin)) exit(9); }
static void add(cudaGraph_t graph, size_t bytes) {
  cudaMemAllocNodeParams asked = {};
  cudaGraphNode_t node;
  asked.poolProps.allocType = cudaMemAllocationTypePinned;
  asked.poolProps.location.type = cudaMemLocationTypeDevice;
  asked.bytesize = bytes;
  puts(cudaGetErrorName(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &asked)));
  fflush(stdout);
  hear();
}
int main() {
  int *p;
  cudaGraph_t graph;
  OK(cudaMalloc(&p, 1 << 20));
  fill<<<N / 256, 256>>>(p, 1);
  OK(cudaGraphCreate(&graph, 0));
  add(graph, 64 << 20);
  add(graph, size_t(2) << 30);
  OK(cudaFree(p));
}
"#;

#[test]
fn a_graphs_memory_counts_from_the_node_that_allocates_it_and_a_refused_one_does_not() {
    const MIB: u64 = 1 << 20;
    let folder = tempfile::tempdir().expect("folder");
    let [source, nodes] = ["nodes.cpp", "nodes.so"].map(|name| folder.path().join(name));
    std::fs::write(&source, MEMORY_NODES).expect("write");
    for (program, tree) in programs(folder.path(), ADDS_NODES, &[]) {
        let mut library = Command::new("clang++-22");
        library.args(["-shared", "-fPIC", "-I"]).arg(tree.join("include")).arg(&source).arg("-o").arg(&nodes);
        run_ok(&mut library);
        let daemon = two_devices("case");
        let before = granted(&daemon)[0];
        let mut running = Running::start(daemon.run(&program).env("LD_PRELOAD", &nodes));
        for said in ["cudaSuccess", "cudaErrorMemoryAllocation"] {
            running.expect_line(said);
            assert_eq!(granted(&daemon)[0] - before, 65 * MIB, "{said}");
            running.send_line();
        }
        assert!(running.end().success(), "{}", running.stderr_text());
    }
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

/// NVIDIA's runtime without a driver fails as on a machine whose driver is missing or too old.
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
        let alone = on_nvidias(
            Command::new(&program).env("EAGER_SOCKET", "/nowhere/client.sock").env("EAGER_CONNECT_MAX", "0"),
        );
        assert_eq!((alone.0, &alone.1), (without.0, &without.1), "{alone:?}");
        assert!(alone.2.lines().count() == 1 && alone.2.contains("running as plain CUDA"), "{}", alone.2);
        let scheduled = on_nvidias(&mut daemon.run(&program));
        assert_eq!((scheduled.0, &scheduled.1), (without.0, &without.1), "{scheduled:?}");
        assert_eq!(scheduled.2.lines().count(), 1, "{}", scheduled.2);
        assert!(scheduled.2.contains("CUDA finds no device (error 35)"), "{}", scheduled.2);
        assert_eq!(granted(&daemon), [0], "{}", text(&run(&mut daemon.run(&program))));
    }
}
