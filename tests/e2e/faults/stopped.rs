//! CUDA programs on one device whose holder is stopped: a program that fits is served, an over-subscribed program goes
//! on, all results are right. A task that only the stopped program's memory would help is in
//! `scheduler/daemon/tests/daemon/truth.rs`.
//!
//! Trap: on virtual GPUs the program's own process computes a kernel, and the server keeps its time. Whether kernels of
//! a stopped process still run is therefore a question of time there, not of results.

use eager_tests::{compiled, daemon::Daemon, has_toolchain, run_ok, text, tool, until, until_holds};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Works on a number of MiB: for a number of rounds, or until its standard input ends. Then compares all of it. A
/// program that can hand its memory to others has none by name (specification S-326), so each policy may over-subscribe
/// it.
const WORKS: &str = r#"
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>
#define CHECK(call) \
  if (cudaError_t error = call) { printf("%s: %s\n", #call, cudaGetErrorString(error)); fflush(stdout); _Exit(1); }
__global__ void add(unsigned *data, unsigned by) { data[blockIdx.x * blockDim.x + threadIdx.x] += by + threadIdx.x; }
int main(int count_of_words, char **words) {
  size_t bytes = strtoull(words[1], nullptr, 10) << 20, count = bytes / sizeof(unsigned);
  int rounds = atoi(words[2]);
  static std::atomic<bool> told{false};
  std::thread([] { while (getchar() != EOF) {} told = true; }).detach();
  unsigned *data, sum = 0, turns = 0;
  CHECK(cudaMalloc(&data, bytes));
  cudaIpcMemHandle_t handle;
  if (count_of_words > 9) { CHECK(cudaIpcGetMemHandle(&handle, data)); }
  CHECK(cudaMemset(data, 0, bytes));
  for (; rounds ? turns < unsigned(rounds) : !told; turns++) {
    add<<<count / 256, 256>>>(data, turns);
    sum += turns;
    // Its kernels come without a pause, and its last word to the daemon is that they run.
    if (turns % 8 == 7) { CHECK(cudaStreamSynchronize(0)); }
    if (turns == 8) { puts("works"); fflush(stdout); }
  }
  std::vector<unsigned> back(count);
  CHECK(cudaMemcpy(back.data(), data, bytes, cudaMemcpyDeviceToHost));
  size_t wrong = 0;
  for (size_t i = 0; i < count; i++) wrong += back[i] != sum + turns * unsigned(i % 256);
  CHECK(cudaFree(data));
  printf("%zu wrong\n", wrong);
  return wrong != 0;
}
"#;

/// Other users, if the test runs as root.
const ALICE: u32 = 61_001;
const BOB: u32 = 61_002;

struct Works(Child);

impl Works {
    fn start(daemon: &Daemon, program: &Path, uid: Option<u32>, words: [&str; 2]) -> Works {
        let mut command = daemon.run(program);
        command.args(words).current_dir("/");
        if let Some(uid) = uid {
            command.uid(uid).gid(uid);
        }
        let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Works(streams.spawn().expect("start"))
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).expect("signal");
    }

    fn until_ended(&mut self, what: &str) {
        until_holds(what, || self.0.try_wait().expect("wait").is_some());
    }

    fn end(mut self) -> Output {
        drop(self.0.stdin.take());
        let child = std::mem::replace(&mut self.0, Command::new("true").spawn().expect("start"));
        child.wait_with_output().expect("its output")
    }
}

impl Drop for Works {
    fn drop(&mut self) {
        // The program may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_right(output: &Output, whose: &str) -> String {
    let said = text(output);
    assert!(output.status.success() && said.contains("0 wrong\n"), "{whose}: {said}");
    said
}

fn holder_is_stopped(arguments: &[&str], program: &Path, users: [Option<u32>; 2]) {
    let mut all = vec!["--virtual", "1xV100-16GB", "--memory-scale", "1024"];
    all.extend(arguments);
    let daemon = Daemon::start(&all);
    std::fs::set_permissions(daemon.run_dir(), Permissions::from_mode(0o755)).expect("open to others");
    let mut holder = Works::start(&daemon, program, None, ["9", "0"]);
    let mut line = String::new();
    let mut said = BufReader::new(holder.0.stdout.take().expect("stdout"));
    said.read_line(&mut line).expect("its output");
    assert_eq!(line, "works\n", "{arguments:?}");
    holder.signal(Signal::SIGSTOP);

    // A program that fits beside it is served without a wait.
    let mut small = Works::start(&daemon, program, users[0], ["1", "16"]);
    small.until_ended("the end of the small program");
    let words = is_right(&small.end(), "small");
    assert!(!words.contains("waits"), "{arguments:?}: {words}");

    // A program that does not fit is over-subscribed; its kernels go once those of the stopped program have ended.
    let mut eager = Works::start(&daemon, program, users[1], ["10", "0"]);
    let task = until(|| {
        let tasks = daemon.ask("ps")["tasks"].clone();
        let found = tasks.as_array().into_iter().flatten().find(|task| task["class"] == "eager");
        found.and_then(|task| task["task"].as_u64()).ok_or(tasks)
    });
    let explain = || {
        let mut command = Command::new(tool("eager"));
        run_ok(command.args(["explain", &task.to_string(), "--run-dir"]).arg(daemon.run_dir()))
    };
    let named = format!("(pid {}) is stopped, by a signal or a debugger", holder.0.id());
    until(|| if explain().contains(&named) { Ok(()) } else { Err(explain()) });
    let mut line = String::new();
    let mut said_of_eager = BufReader::new(eager.0.stdout.take().expect("stdout"));
    // `until_holds` ends the test at its limit if the gate stays closed.
    let reads = std::thread::spawn(move || {
        said_of_eager.read_line(&mut line).expect("its output");
        (line, said_of_eager)
    });
    let took = until_holds("the eager program's kernels", || reads.is_finished());
    eprintln!("{arguments:?}: eager kernels ran {took:?} after the daemon was asked why they wait");
    let (line, rest) = reads.join().expect("its output");
    assert_eq!(line, "works\n");
    assert!(explain().contains("Its kernels have ended, and no task waits for them"), "{}", explain());

    holder.signal(Signal::SIGCONT);
    // Both programs compute again, and each finds the values that it wrote.
    for (mut works, mut said, whose) in [(eager, rest, "eager"), (holder, said, "holder")] {
        drop(works.0.stdin.take());
        let mut words = String::new();
        std::io::Read::read_to_string(&mut said, &mut words).expect("its output");
        assert_eq!(words, "0 wrong\n", "{whose}: {}", text(&works.end()));
    }
}

#[test]
fn a_stopped_holder_of_a_device_is_in_no_programs_way_and_all_results_are_right() {
    if !has_toolchain("stopped holder of a device") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("open to others");
    let program = compiled(folder.path(), "works", WORKS);
    let users = if Uid::effective().is_root() {
        [Some(ALICE), Some(BOB)]
    } else {
        eprintln!("SKIPPED: programs of other users: only root can be several users");
        [None, None]
    };
    // The default policy comes first.
    for arguments in [&[][..], &["--policy", "eager-opt"], &["--policy", "eager-fair"]] {
        holder_is_stopped(arguments, &program, users);
    }
}
