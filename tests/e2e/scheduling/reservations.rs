//! `eager run --mem`: memory that is reserved for programs that do not say what they need.

use eager_tests::daemon::{Daemon, Holder};
use eager_tests::place::Running;
use eager_tests::{compiled, has_toolchain, refusal, run, run_ok, text, tool, until};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The first line that a program prints there, once it does: a reason comes after a second of waiting.
fn first_line(from: impl std::io::Read) -> String {
    let mut line = String::new();
    BufReader::new(from).read_line(&mut line).expect("a line");
    line
}

/// Device and grant of each task that has one, in the order of their numbers.
fn grants(daemon: &Daemon) -> Vec<(Value, Value)> {
    let mut tasks = daemon.json(&["ps"])["tasks"].take();
    let tasks = tasks.as_array_mut().expect("tasks").iter_mut();
    tasks
        .filter(|task| !task["device"].is_null())
        .map(|task| (task["device"].take(), task["grant_bytes"].take()))
        .collect()
}

fn until_grants(daemon: &Daemon, wanted: &[(Value, Value)]) {
    until(|| {
        let found = grants(daemon);
        if found == wanted { Ok(()) } else { Err(format!("{found:?} in place of {wanted:?}")) }
    });
}

/// Closes every descriptor but the standard ones, as programs do that become services of their own, and prints how many
/// are left.
const CLOSES_ALL: &str = r#"exec bash -c '
for entry in /proc/$$/fd/*; do number=${entry##*/}; [ "$number" -gt 2 ] && eval "exec $number>&-"; done
ls -l /proc/$$/fd | grep -c socket
read line'"#;

/// A closed connection is given up after 5 seconds (S-714); the reservation belongs to the process.
#[test]
fn a_program_that_closes_all_descriptors_keeps_its_memory_until_it_ends() {
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB"]);
    let mut program = Running::start(&mut daemon.script(&["--mem", "6GiB"], CLOSES_ALL));
    // It has no connection.
    program.expect_line("0");
    std::thread::sleep(Duration::from_secs(6));
    let held = [(0.into(), (6u64 << 30).into())];
    assert_eq!(grants(&daemon), held);
    // The next daemon finds it by its process.
    let daemon = daemon.restarted(&["--virtual", "1xV100-16GB"], &[]);
    assert_eq!(grants(&daemon), held);
    drop(program.child.stdin.take());
    program.end();
    until_grants(&daemon, &[]);
}

/// Killed while it holds one device and waits for the next, the program leaves nothing behind, also when the daemon was
/// restarted meanwhile.
#[test]
fn a_program_that_is_killed_between_two_devices_holds_none() {
    for is_restarted in [false, true] {
        let daemon = Daemon::start(&["--virtual", "2xV100-16GB"]);
        // What is drained takes no reservation, so the first program gets device 1.
        run_ok(&mut daemon.verb(&["drain", "0"]));
        let mut other = Running::start(&mut daemon.script(&["--mem", "12GiB"], "echo runs; read line"));
        other.expect_line("runs");
        run_ok(&mut daemon.verb(&["undrain", "0"]));
        let held = (1.into(), (12u64 << 30).into());
        let mut program = Running::start(&mut daemon.script(&["--mem", "12GiB", "-n", "2"], "echo runs"));
        let first = (0.into(), (12u64 << 30).into());
        until_grants(&daemon, &[held.clone(), first.clone()]);
        daemon.waiting_task();
        let daemon = if is_restarted {
            let daemon = daemon.restarted(&["--virtual", "2xV100-16GB"], &[]);
            until_grants(&daemon, &[held.clone(), first]);
            daemon.waiting_task();
            daemon
        } else {
            daemon
        };
        // A reason is printed after a second of waiting, and none while a new daemon has not decided.
        let mut stderr = BufReader::new(program.child.stderr.take().expect("stderr"));
        let mut said = String::new();
        stderr.read_line(&mut said).expect("a line");
        program.child.kill().expect("SIGKILL");
        stderr.read_to_string(&mut said).expect("stderr");
        for line in said.lines() {
            assert!(line.starts_with("eager: 12GiB, GPU 2 of 2: waits: "), "{said}");
        }
        program.end();
        until_grants(&daemon, &[held]);
        assert_eq!(daemon.json(&["queue"])["tasks"], Value::Array(Vec::new()), "nothing waits");
    }
}

#[test]
fn memory_is_reserved_for_a_program_that_says_nothing_of_itself() {
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--policy", "case"]);
    let script = "echo $CUDA_VISIBLE_DEVICES $EAGER_DISABLE; read line; exit 7";
    let mut program = daemon.script(&["--mem", "6GiB", "--label", "undeclared"], script);
    let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start");
    let mut said = String::new();
    BufReader::new(program.stdout.take().expect("stdout")).read_line(&mut said).expect("a line");
    assert_eq!(said, "0 1\n", "it sees the granted device, and does not ask again");
    let task = &daemon.json(&["ps"])["tasks"][0];
    assert_eq!((&task["label"], &task["grant_bytes"]), (&"undeclared".into(), &(6u64 << 30).into()));
    assert_eq!(task["pid"], program.id(), "the program itself holds it");

    // Another program, which does not fit beside it, waits, prints so, and starts when the first has ended.
    let waits = daemon
        .script(&["--mem", "12GiB"], "echo started")
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut waits = Holder(waits.expect("start"));
    let said = first_line(waits.0.stderr.take().expect("stderr"));
    drop(program.stdin.take());
    assert_eq!(program.wait().expect("its end").code(), Some(7));
    let mut out = String::new();
    waits.0.stdout.take().expect("stdout").read_to_string(&mut out).expect("stdout");
    assert!(
        out == "started\n" && said.starts_with("eager: 12GiB: waits: largest free memory is "),
        "{out}{said}"
    );

    let (code, said) = refusal(&run(&mut daemon.script(&["--mem", "99GiB"], "true")));
    assert!(code == Some(1) && said.starts_with("eager: 99GiB: refused: "), "{said}");
    let bad = run(&mut daemon.script(&["--mem", "8GB"], "true"));
    assert!(bad.status.code() == Some(2) && text(&bad).contains("`8GB` is not a size"), "{}", text(&bad));
    let killed = run(&mut daemon.script(&["--mem", "1GiB"], "kill -TERM $$"));
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed.status), Some(15), "its own end");
}

#[test]
fn memory_is_reserved_on_several_devices_in_the_order_of_their_numbers() {
    let daemon = Daemon::start(&["--virtual", "4xV100-16GB", "--policy", "case"]);
    run_ok(&mut daemon.verb(&["drain", "1"]));
    let script = "echo $CUDA_VISIBLE_DEVICES $EAGER_VGPU_VISIBLE; read line";
    let mut program = daemon.script(&["--mem", "6GiB", "-n", "3"], script);
    let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start");
    let mut said = String::new();
    BufReader::new(program.stdout.take().expect("stdout")).read_line(&mut said).expect("a line");
    assert_eq!(said, "0,2,3 0,2,3\n");
    let tasks = daemon.json(&["ps"])["tasks"].take();
    let bound: Vec<_> = tasks.as_array().expect("tasks").iter().map(|task| task["device"].clone()).collect();
    assert_eq!(bound, [0, 2, 3]);

    // Another program with as much on each device waits for the drained device, and prints so.
    let waits =
        daemon.script(&["--mem", "12GiB", "--gpus", "4"], "echo started").stderr(Stdio::piped()).spawn();
    let mut waits = Holder(waits.expect("start"));
    let task = daemon.waiting_task().to_string();
    let reason = first_line(waits.0.stderr.take().expect("stderr"));
    let said = run_ok(&mut daemon.verb(&["explain", &task]));
    assert!(said.contains("GPU 0 lacks ") && said.contains("Each of GPU 2, 3 is barred: "), "{said}");
    drop(program.stdin.take());
    program.wait().expect("its end");
    run_ok(&mut daemon.verb(&["undrain", "1"]));
    assert!(waits.0.wait().expect("its end").success());
    assert!(reason.starts_with("eager: 12GiB, GPU 1 of 4: waits: "), "{reason}");
}

#[test]
fn devices_that_are_not_there_are_not_reserved() {
    let daemon = Daemon::start(&["--virtual", "2xV100-16GB"]);
    for (flags, code, words) in [
        (&["--mem", "1GiB", "-n", "3"][..], 1, "3 GPUs with 1GiB each: the daemon has 2 that large"),
        (&["--mem", "20GiB", "-n", "2"], 1, "2 GPUs with 20GiB each: the daemon has 0 that large"),
        (&["--mem", "1GiB", "-n", "0"], 2, "0 is not in 1..=16"),
        (&["-n", "2"], 2, "--mem <SIZE>"),
    ] {
        let output = run(&mut daemon.script(flags, "true"));
        assert!(output.status.code() == Some(code) && text(&output).contains(words), "{}", text(&output));
    }
}

const VISIBLE: &str = r#"
#include <cstdio>
#include <cuda_runtime.h>
__global__ void fill(int *p) { p[threadIdx.x] = threadIdx.x; }
int main() {
  int count = 0, *p, last = 0, again = 0;
  char bus[16];
  if (cudaGetDeviceCount(&count)) return 1;
  for (int device = 0; device < count; ++device) {
    if (cudaSetDevice(device) || cudaDeviceGetPCIBusId(bus, sizeof bus, device)) return 2;
    if (cudaDeviceGetByPCIBusId(&again, bus) || again != device) return 3;
    if (cudaMalloc(&p, 1 << 20)) return 4;
    fill<<<1, 64>>>(p);
    if (cudaMemcpy(&last, p + 63, sizeof last, cudaMemcpyDeviceToHost)) return 5;
    printf("%d on %s\n", last, bus);
  }
  return cudaSetDevice(count) == cudaErrorInvalidDevice ? 0 : 6;
}
"#;

#[test]
fn a_program_with_reserved_devices_runs_on_these_and_sees_no_other() {
    if !has_toolchain("reserved devices") {
        return;
    }
    let daemon = Daemon::start(&["--virtual", "3xV100-16GB"]);
    run_ok(&mut daemon.verb(&["drain", "1"]));
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "visible", VISIBLE);
    let program = program.to_str().expect("a path");
    let mut command = daemon.verb(&["run", "--mem", "1GiB", "-n", "2"]);
    assert_eq!(run_ok(command.args(["--", program])), "63 on 0000:01:00.0\n63 on 0000:03:00.0\n");
    let mut plain = Command::new(tool("eager"));
    let plain = plain.args(["run", "--plain", "--virtual", "2xV100-16GB", "--time-scale", "0", program]);
    let printed = run_ok(plain.env("EAGER_VGPU_VISIBLE", "1"));
    assert!(printed.contains("01:00.0") && printed.contains("02:00.0"), "not taken over: {printed}");
}

const RANK: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
__global__ void fill(int *p) { p[threadIdx.x] = threadIdx.x; }
int main(int, char **words) {
  int rank = atoi(words[1]), last = 0, *p;
  char bus[16];
  if (cudaSetDevice(rank) || cudaDeviceGetPCIBusId(bus, sizeof bus, rank)) return 1;
  if (cudaMalloc(&p, 3u << 30)) return 2;
  fill<<<1, 64>>>(p);
  if (cudaMemcpy(&last, p + 63, sizeof last, cudaMemcpyDeviceToHost)) return 3;
  printf("rank %d: %d on %s\n", rank, last, bus);
  fflush(stdout);
  getchar();
  return 0;
}
"#;

/// Under a launcher, the processes that use the memory are not the one that reserved it: each rank has the GPU of its
/// number, and what it uses is counted once.
#[test]
fn ranks_of_a_launcher_have_a_reserved_gpu_each_and_their_memory_is_the_reservations() {
    if !has_toolchain("ranks of a launcher") {
        return;
    }
    let daemon = Daemon::start(&["--virtual", "3xV100-16GB"]);
    run_ok(&mut daemon.verb(&["drain", "1"]));
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "rank", RANK);
    let script = format!("exec 3<&0; {0} 1 <&3 & {0} 0 <&3; wait", program.display());
    let mut launcher = daemon.script(&["--mem", "8GiB", "-n", "2"], &script);
    let mut launcher = Running::start(&mut launcher);
    // Either may be the first.
    let lines = ["rank 0: 63 on 0000:01:00.0", "rank 1: 63 on 0000:03:00.0"];
    let second = match launcher.expect_either(lines[0], lines[1]) {
        true => lines[1],
        false => lines[0],
    };
    launcher.expect_line(second);
    let pinned = || -> Vec<u64> {
        let tasks = daemon.json(&["ps"])["tasks"].take();
        let tasks = tasks.as_array().expect("tasks").iter();
        tasks.map(|task| task["pinned_bytes"].as_u64().unwrap_or_default() >> 30).collect()
    };
    until(|| if pinned() == [3, 3] { Ok(()) } else { Err(format!("{:?} GiB", pinned())) });
    let devices = daemon.json(&["info"])["devices"].take();
    let foreign = |device: &Value| device["foreign_bytes"].as_u64();
    let foreign: Vec<_> = devices.as_array().expect("devices").iter().map(foreign).collect();
    assert_eq!(foreign, [Some(0), Some(0), Some(0)]);
    drop(launcher.child.stdin.take());
    assert!(launcher.end().success());
}
