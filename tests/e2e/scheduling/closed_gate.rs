//! Programs at a closed gate: kernels of several threads and streams, graphs that are recorded or launched meanwhile;
//! and how the class of their task changes priorities and the place of their memory. Programs of both CUDAs on the
//! stand-in runtimes.
//!
//! Trap: only the program itself can show that something has *not* happened yet; its first thread therefore launches
//! nothing and reports.

use eager_tests::cudas::{PER_THREAD, programs};
use eager_tests::daemon::Daemon;
use eager_tests::place::Running;
use eager_tests::until;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// `GIB` counts memory of the virtual GPU; the program itself allocates MiB.
const COMMON: &str = r#"
#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>
const size_t GIB = 1 << 20;
static void say(const char *what) { puts(what); fflush(stdout); }
static void hear() { char line[8]; if (!fgets(line, sizeof line, stdin)) _Exit(9); }
static int priority_of(cudaStream_t stream) {
  int priority = 99;
  OK(cudaStreamGetPriority(stream, &priority));
  return priority;
}
"#;

/// Gets its device first, and launches its last kernel only when it is told to.
const HOLDER: &str = r#"
int main() {
  int *p;
  OK(cudaMalloc(&p, 10 * GIB));
  fill<<<N / 256, 256>>>(p, 1);
  OK(cudaDeviceSynchronize());
  say("holding");
  hear();
  more<<<N / 256, 256>>>(p);
  OK(cudaDeviceSynchronize());
  say("launched");
  hear();
  OK(cudaFree(p));
}
"#;

const HELD: &str = r#"
static std::atomic<int> launched;
static void launches(int *p, cudaStream_t stream) {
  say("at the gate");
  for (int i = 0; i < 3; ++i, ++launched) more<<<N / 256, 256, 0, stream>>>(p);
  OK(cudaStreamSynchronize(stream));
}
static void runs_graph(int *p) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < 3; ++i) more<<<N / 256, 256, 0, stream>>>(p);
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphInstantiate(&executable, graph, 0));
  say("recorded");
  OK(cudaGraphLaunch(executable, stream));
  launched += 3;
  OK(cudaStreamSynchronize(stream));
  OK(cudaGraphExecDestroy(executable));
  OK(cudaGraphDestroy(graph));
  OK(cudaStreamDestroy(stream));
}
static void on_own_stream(int *p) {
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  launches(p, stream);
  OK(cudaStreamDestroy(stream));
}
int main() {
  int *p[5];
  for (int *&one : p) {
    OK(cudaMalloc(&one, 2 * GIB));
    OK(cudaMemset(one, 0, BYTES));
  }
  std::vector<std::thread> threads;
  threads.emplace_back(launches, p[0], cudaStream_t(0));
  threads.emplace_back(launches, p[1], cudaStreamPerThread);
  threads.emplace_back(launches, p[2], cudaStreamLegacy);
  threads.emplace_back(on_own_stream, p[3]);
  threads.emplace_back(runs_graph, p[4]);
  hear();
  printf("%d launched\n", launched.load());
  fflush(stdout);
  for (std::thread &thread : threads) thread.join();
  printf("%d launched:", launched.load());
  for (int *one : p) printf(" %d", last_of(one));
  say("");
  for (int *one : p) OK(cudaFree(one));
}
"#;

fn one_device(policy: &str) -> Daemon {
    Daemon::start(&[
        "--virtual",
        "1xV100-16GB",
        "--time-scale",
        "0",
        "--memory-scale",
        "1024",
        "--policy",
        policy,
    ])
}

fn made(folder: &Path, name: &str, source: &str, words: &[&str]) -> Vec<PathBuf> {
    let folder = folder.join(name);
    std::fs::create_dir(&folder).expect("folder");
    let made = programs(&folder, &format!("{COMMON}{source}"), words);
    made.into_iter().map(|(program, _)| program).collect()
}

/// Waits until a task of the daemon satisfies `what`; returns the task.
fn until_task(daemon: &Daemon, what: impl Fn(&Value) -> bool) -> Value {
    until(|| {
        let tasks = daemon.ask("ps");
        let found = tasks["tasks"].as_array().expect("tasks").iter().find(|task| what(task)).cloned();
        found.ok_or(tasks)
    })
}

fn is_eager(task: &Value) -> bool {
    task["class"] == json!("eager")
}

#[test]
fn at_a_closed_gate_each_threads_kernels_and_graphs_wait_and_recording_goes_on() {
    let folder = tempfile::tempdir().expect("folder");
    for (name, words) in [("legacy", &[][..]), ("per-thread", &PER_THREAD[..])] {
        let held = made(folder.path(), &format!("held-{name}"), HELD, words);
        let holders = made(folder.path(), &format!("holder-{name}"), HOLDER, words);
        for (holder, held) in holders.iter().zip(&held) {
            let daemon = one_device("eager-b");
            let mut holder = Running::start(&mut daemon.run(holder));
            holder.expect_line("holding");
            let mut held = Running::start(&mut daemon.run(held));
            let mut said: Vec<&str> = (0..5)
                .map(|_| if held.expect_either("at the gate", "recorded") { "gate" } else { "recorded" })
                .collect();
            said.sort_unstable();
            assert_eq!(said, ["gate", "gate", "gate", "gate", "recorded"], "{name}");
            until_task(&daemon, is_eager);
            held.send_line();
            held.expect_line("0 launched");
            holder.send_line();
            holder.expect_line("launched");
            held.expect_line("15 launched: 3 3 3 3 3");
            assert!(held.end().success(), "{}", held.stderr_text());
            holder.send_line();
            assert!(holder.end().success(), "{}", holder.stderr_text());
        }
    }
}

/// A normal program beside an eager one, which runs its task first and is then alone.
const CLASSES: &str = r#"
static int where(const int *p, cudaMemRangeAttribute attribute) {
  int device = -9;
  OK(cudaMemRangeGetAttribute(&device, sizeof device, attribute, p, 2 * GIB));
  return device;
}
int main() {
  std::vector<char> host(2 * GIB, 1);
  int *p[5], least, greatest;
  for (int *&one : p) {
    OK(cudaMalloc(&one, 2 * GIB));
    OK(cudaMemcpy(one, host.data(), 2 * GIB, cudaMemcpyHostToDevice));
  }
  more<<<N / 256, 256>>>(p[0]);
  cudaStream_t stream, asked;
  OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaStreamCreateWithPriority(&asked, cudaStreamNonBlocking, greatest));
  OK(cudaDeviceSynchronize());
  cudaPointerAttributes of;
  OK(cudaPointerGetAttributes(&of, p[0]));
  bool managed = of.type == cudaMemoryTypeManaged;
  printf("streams %d %d of %d to %d", priority_of(stream), priority_of(asked), least, greatest);
  if (managed) printf(", managed, prefers %d", where(p[0], cudaMemRangeAttributePreferredLocation));
  say("");
  hear();
  for (int *one : p) more<<<N / 256, 256>>>(one);
  printf("%x\n", last_of(p[4]));
  fflush(stdout);
  hear();
  OK(cudaStreamDestroy(stream));
  OK(cudaStreamDestroy(asked));
  for (int *one : p) OK(cudaFree(one));
}
"#;

/// Parses the lines of a trace.
fn traced(trace: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(trace).expect("a trace");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Returns the priorities of the kernels that have run.
fn priorities(trace: &Path) -> Vec<i64> {
    traced(trace).iter().filter_map(|line| line["priority"].as_i64()).collect()
}

fn prefetched(trace: &Path) -> u64 {
    let is_prefetch =
        |line: &&Value| line["call"].as_str().is_some_and(|call| call.starts_with("cudaMemPrefetchAsync"));
    traced(trace).iter().filter(is_prefetch).filter_map(|line| line["bytes"].as_u64()).sum()
}

#[test]
fn an_eager_tasks_kernels_and_memory_give_way_until_it_is_promoted() {
    const MIB: u64 = 1 << 20;
    let folder = tempfile::tempdir().expect("folder");
    let programs = made(folder.path(), "classes", CLASSES, &[]);
    for (number, program) in programs.iter().enumerate() {
        let daemon = one_device("eager-p");
        let trace = |name: &str| folder.path().join(format!("{number}-{name}"));
        let start = |name: &str| Running::start(daemon.run(program).env("EAGER_VGPU_TRACE", trace(name)));
        let mut normal = start("normal");
        normal.expect_line("streams -5 -5 of 0 to -5, managed, prefers 0");
        // The runtime's copies put the data on the device.
        assert_eq!((priorities(&trace("normal")), prefetched(&trace("normal"))), (vec![-5], 0));

        let mut eager = start("eager");
        eager.expect_line("streams 0 0 of 0 to -5, managed, prefers 0");
        let task = until_task(&daemon, is_eager);
        let grant = task["grant_bytes"].as_u64().expect("bytes");
        assert_eq!(priorities(&trace("eager")), [0]);
        // Copies for which the grant has room are the runtime's; what it has room for of the next is moved in.
        let copied = grant / (2 * MIB) * (2 * MIB);
        assert!(copied < grant && grant < 10 * MIB, "{task}");
        assert_eq!(prefetched(&trace("eager")), grant - copied, "{task}");

        normal.send_line();
        normal.expect_line("1010102");
        normal.send_line();
        assert!(normal.end().success(), "{}", normal.stderr_text());
        assert_eq!(priorities(&trace("normal")), [-5; 6]);
        until_task(&daemon, |task| task["class"] == json!("promoted"));
        eager.send_line();
        eager.expect_line("1010102");
        assert_eq!(priorities(&trace("eager")), [0, -5, -5, -5, -5, -5]);
        assert_eq!(prefetched(&trace("eager")), 10 * MIB - copied, "what was left on the host");
        eager.send_line();
        assert!(eager.end().success(), "{}", eager.stderr_text());
    }
}
