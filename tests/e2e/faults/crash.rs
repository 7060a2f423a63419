//! A job killed half-way gives its memory back at once, and the others complete. A daemon killed half-way is replaced,
//! and programs on its virtual GPUs compute right results.

use eager_tests::{compiled, daemon::Daemon, has_toolchain, text, until_holds};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// Takes 10 GiB, prints so, and holds them until its standard input ends.
const HOLDER: &str = r#"
#include <cstdio>
__global__ void touch(char *p) { p[threadIdx.x] = 1; }
int main() {
  char *p = nullptr;
  if (cudaMalloc(&p, size_t(10) << 30) != cudaSuccess) return 1;
  touch<<<1, 32>>>(p);
  if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  puts("holding"); fflush(stdout);
  while (getchar() != EOF) {}
  cudaFree(p);
  puts("done");
  return 0;
}
"#;

fn start(daemon: &Daemon, program: &std::path::Path) -> Child {
    daemon
        .run(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start")
}

#[test]
fn a_killed_job_frees_its_grant_and_the_next_one_runs() {
    if !has_toolchain("crash of a job") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "holder", HOLDER);

    for policy in ["case", "eager-opt"] {
        let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0", "--policy", policy]);
        let granted = || daemon.ask("info")["devices"][0]["granted_bytes"].as_u64().expect("granted_bytes");
        let mut first = start(&daemon, &program);
        let mut line = String::new();
        BufReader::new(first.stdout.take().expect("stdout")).read_line(&mut line).expect("read");
        assert_eq!(line, "holding\n", "under {policy}");
        assert!(granted() >= 10 << 30);

        let second = start(&daemon, &program);
        until_holds("the second job's request", || {
            daemon.ask("ps")["tasks"].as_array().map(Vec::len) == Some(2)
        });
        kill(Pid::from_raw(first.id() as i32), Signal::SIGKILL).expect("kill");
        let took = until_holds("the death of the first job", || {
            daemon.ask("ps")["tasks"].as_array().map(Vec::len) == Some(1)
        });
        eprintln!("under {policy}: the killed job was gone from the table after {took:?}");
        first.wait().expect("reap");

        // Closing its input lets the surviving job end, with its whole grant and exit code 0.
        let output = second.wait_with_output().expect("second job");
        assert!(
            output.status.success() && text(&output).contains("done"),
            "under {policy}: {}",
            text(&output)
        );
        until_holds("the end of the second task", || granted() == 0);
    }
}

/// Computes in rounds, on the device and on the host, until its standard input ends: with memory that it `keeps`, or
/// with memory of each round, which the compiler announces (`rounds`) or not (`lazy`). A wrong value ends it.
const COMPUTES: &str = r#"
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>
const int COUNT = 1 << 15, STEPS = 100;
static std::atomic<bool> told{false};
#define CHECK(call) \
  if (cudaError_t error = call) { printf("%s: %s\n", #call, cudaGetErrorString(error)); fflush(stdout); _Exit(1); }
__host__ __device__ unsigned turned(unsigned value, int steps) {
  for (int step = 0; step < steps; step++) value = (value ^ value >> 15) * 2246822519u + step;
  return value;
}
__global__ void turn(unsigned *to, const unsigned *from, int steps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = turned(from[i], steps);
}
static void compute(unsigned *one, unsigned *other, std::vector<unsigned> &values) {
  std::vector<unsigned> expected = values;
  for (unsigned &value : expected) value = turned(turned(value, STEPS), STEPS + 1);
  CHECK(cudaMemcpy(one, values.data(), COUNT * sizeof *one, cudaMemcpyHostToDevice));
  turn<<<COUNT / 256, 256>>>(other, one, STEPS);
  turn<<<COUNT / 256, 256>>>(one, other, STEPS + 1);
  CHECK(cudaMemcpy(values.data(), one, COUNT * sizeof *one, cudaMemcpyDeviceToHost));
  static int round;
  if (values != expected) { printf("wrong in round %d\n", round); fflush(stdout); _Exit(2); }
  printf("round %d\n", round++);
  fflush(stdout);
}
static void with_announced(size_t bytes, std::vector<unsigned> &values) {
  unsigned *one, *other;
  CHECK(cudaMalloc(&one, bytes));
  CHECK(cudaMalloc(&other, COUNT * sizeof *other));
  compute(one, other, values);
  CHECK(cudaFree(one));
  CHECK(cudaFree(other));
}
static void with_lazy(size_t bytes, int buffers, std::vector<unsigned> &values) {
  unsigned *list[8];
  for (int i = 0; i < buffers; i++) CHECK(cudaMalloc(&list[i], bytes / buffers));
  compute(list[0], list[buffers - 1], values);
  for (int i = 0; i < buffers; i++) CHECK(cudaFree(list[i]));
}
int main(int, char **words) {
  size_t bytes = strtoull(words[2], nullptr, 10) << 20;
  std::vector<unsigned> values(COUNT);
  for (int i = 0; i < COUNT; i++) values[i] = i * 2654435761u;
  std::thread([] { while (getchar() != EOF) {} told = true; }).detach();
  if (!strcmp(words[1], "keeps")) {
    unsigned *one, *other;
    CHECK(cudaMalloc(&one, bytes));
    CHECK(cudaMalloc(&other, COUNT * sizeof *other));
    while (!told) compute(one, other, values);
    compute(one, other, values);
    CHECK(cudaFree(one));
    CHECK(cudaFree(other));
  } else {
    int buffers = strcmp(words[1], "lazy") ? 0 : atoi(words[3]);
    for (bool last = false; !last;) {
      last = told;
      if (buffers) with_lazy(bytes, buffers, values); else with_announced(bytes, values);
    }
  }
  puts("all right");
  return 0;
}
"#;

/// A program that computes, and the number of its rounds so far.
struct Computes {
    child: Child,
    rounds: Arc<AtomicUsize>,
    output: Option<JoinHandle<String>>,
}

impl Computes {
    fn start(mut command: Command) -> Computes {
        // A machine under load may take long to start a daemon; that time is not tested here.
        command.env("EAGER_CONNECT_MAX", "120").env("EAGER_ON_DAEMON_LOSS", "wait:120").current_dir("/");
        let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = streams.spawn().expect("start");
        let rounds = Arc::new(AtomicUsize::new(0));
        let (lines, count) =
            (BufReader::new(child.stdout.take().expect("stdout")).lines(), Arc::clone(&rounds));
        let output = std::thread::spawn(move || {
            let is_news = |line: &String| {
                let is_round = line.starts_with("round ");
                count.fetch_add(usize::from(is_round), Ordering::Relaxed);
                !is_round
            };
            lines.map(|line| line.expect("its output")).filter(is_news).collect::<Vec<_>>().join("\n")
        });
        Computes { child, rounds, output: Some(output) }
    }

    fn rounds(&self) -> usize {
        self.rounds.load(Ordering::Relaxed)
    }

    /// Closes the program's input; returns its output without rounds and reasons of waiting.
    fn end(mut self) -> String {
        drop(self.child.stdin.take());
        let mut said = self.output.take().expect("once").join().expect("its output") + "\n";
        self.child.stderr.take().expect("stderr").read_to_string(&mut said).expect("stderr");
        self.child.wait().expect("wait");
        said.lines().filter(|line| !line.starts_with("eager: waits: ")).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Computes {
    fn drop(&mut self) {
        // The program may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Another user, if the test runs as root.
const ALICE: u32 = 61_001;
const KILLS: usize = 5;

/// Kills the daemon several times with SIGKILL, while four programs of two users compute on its device, which has room
/// for two.
fn daemon_dies_while_programs_compute(policy: &str, program: &Path, other: Option<u32>) {
    let arguments = ["--virtual", "1xV100-16GB", "--time-scale", "0.1", "--policy", policy, "--mps"];
    let mut daemon = Daemon::start(&arguments);
    std::fs::set_permissions(daemon.run_dir(), Permissions::from_mode(0o755)).expect("open to others");
    let start = |words: &[&str], uid: Option<u32>| {
        let mut command = daemon.run(program);
        if let Some(uid) = uid {
            command.uid(uid).gid(uid);
        }
        command.args(words);
        Computes::start(command)
    };
    let programs = [
        start(&["keeps", "6000"], None),
        start(&["rounds", "6000"], other),
        start(&["lazy", "6000", "3"], None),
        start(&["lazy", "7000", "5"], other),
    ];
    let all = || programs.iter().map(Computes::rounds).sum::<usize>();
    for kill in 0..=KILLS {
        let before = all();
        until_holds(&format!("progress under {policy} after {kill} kills"), || all() >= before + 20);
        if kill < KILLS {
            daemon = daemon.restarted(&arguments, &[]);
        }
    }
    let rounds: Vec<usize> = programs.iter().map(Computes::rounds).collect();
    for program in programs {
        assert_eq!(program.end(), "all right", "under {policy}");
    }
    eprintln!("{policy}: {rounds:?} rounds over {KILLS} kills of the daemon");
    until_holds("the end of all tasks", || {
        daemon.ask("info")["devices"][0]["granted_bytes"] == 0
            && daemon.ask("ps")["tasks"] == serde_json::json!([])
    });
}

#[test]
fn what_programs_compute_is_right_whenever_the_daemon_of_their_virtual_gpus_is_killed() {
    if !has_toolchain("crash of the daemon under CUDA programs") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("open to others");
    let program = compiled(folder.path(), "computes", COMPUTES);
    let other = Uid::effective().is_root().then_some(ALICE);
    if other.is_none() {
        eprintln!("SKIPPED: programs of another user: only root can be several users");
    }
    for policy in ["case", "eager-opt", "eager-live"] {
        daemon_dies_while_programs_compute(policy, &program, other);
    }
}
