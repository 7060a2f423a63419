//! Memory that the device no longer needs goes to another program, long before it is freed.

use eager_tests::{compiled, daemon::Daemon, has_toolchain, text, until_holds};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};

/// Computes on 10 GiB, copies a few bytes out, and frees the memory only when its standard input ends.
const WRITER: &str = r#"
#include <cstdio>
__global__ void count(int *p) { p[threadIdx.x] = threadIdx.x; }
int main() {
  int *p = nullptr, out[32], sum = 0;
  if (cudaMalloc(&p, size_t(10) << 30) != cudaSuccess) return 1;
  count<<<1, 32>>>(p);
  if (cudaMemcpy(out, p, sizeof out, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
  puts("copied"); fflush(stdout);
  while (getchar() != EOF) {}
  for (int value : out) sum += value;
  if (cudaFree(p) != cudaSuccess) return 1;
  printf("sum %d\n", sum);
  return 0;
}
"#;

/// Allocates 10 GiB, copies a few bytes in when it is told to go on, then computes once its standard input ends.
const READER: &str = r#"
#include <cstdio>
__global__ void twice(int *p) { p[threadIdx.x] *= 2; }
int main() {
  int *p = nullptr, data[32], sum = 0;
  for (int i = 0; i < 32; ++i) data[i] = i;
  if (cudaMalloc(&p, size_t(10) << 30) != cudaSuccess) return 1;
  puts("allocated"); fflush(stdout);
  getchar();
  if (cudaMemcpy(p, data, sizeof data, cudaMemcpyHostToDevice) != cudaSuccess) return 1;
  for (int i = 0; i < 32; ++i) data[i] = -1;
  puts("copied"); fflush(stdout);
  while (getchar() != EOF) {}
  twice<<<1, 32>>>(p);
  if (cudaMemcpy(data, p, sizeof data, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
  for (int value : data) sum += value;
  if (cudaFree(p) != cudaSuccess) return 1;
  printf("sum %d\n", sum);
  return 0;
}
"#;

/// Computes on 5 GiB and then on another 5 GiB, and frees both only when its standard input ends.
const IN_TURN: &str = r#"
#include <cstdio>
__global__ void count(int *p) { p[threadIdx.x] = threadIdx.x; }
__global__ void twice(int *p) { p[threadIdx.x] *= 2; }
int main() {
  int *a = nullptr, *b = nullptr, out[32], sum = 0;
  if (cudaMalloc(&a, size_t(5) << 30) != cudaSuccess) return 1;
  if (cudaMalloc(&b, size_t(5) << 30) != cudaSuccess) return 1;
  count<<<1, 32>>>(a);
  count<<<1, 32>>>(b);
  if (cudaMemcpy(out, a, sizeof out, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
  for (int value : out) sum += value;
  puts("first"); fflush(stdout);
  while (getchar() != EOF) {}
  twice<<<1, 32>>>(b);
  if (cudaMemcpy(out, b, sizeof out, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
  for (int value : out) sum += value;
  if (cudaFree(a) != cudaSuccess || cudaFree(b) != cudaSuccess) return 1;
  printf("sum %d\n", sum);
  return 0;
}
"#;

/// Whether devices have virtual memory management. Without it, memory that comes late and goes early is managed.
const MAPS: [&str; 2] = ["1", "0"];

fn start(daemon: &Daemon, program: &Path, maps: &str) -> Child {
    let mut command = daemon.run(program);
    command
        .env("EAGER_VGPU_VIRTUAL_MEMORY", maps)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start")
}

/// Reads the next line of a program's output, and keeps the pipe open.
fn next_line(child: &mut Child) -> String {
    let mut line = String::new();
    let mut output = BufReader::with_capacity(1, child.stdout.take().expect("stdout"));
    output.read_line(&mut line).expect("read");
    child.stdout = Some(output.into_inner());
    line
}

fn assert_ends_well(child: Child, said: &str) {
    let output = child.wait_with_output().expect("wait");
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(text(&output), said);
}

#[test]
fn under_eager_live_the_next_program_runs_while_the_first_writes_its_output() {
    if !has_toolchain("dead memory") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "writer", WRITER);

    for (policy, gives_back, maps) in
        [("case", false, MAPS[0]), ("eager-live", true, MAPS[0]), ("eager-live", true, MAPS[1])]
    {
        let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0", "--policy", policy]);
        let granted = || daemon.ask("info")["devices"][0]["granted_bytes"].as_u64().expect("granted_bytes");
        let mut first = start(&daemon, &program, maps);
        assert_eq!(next_line(&mut first), "copied\n", "under {policy}");
        if gives_back {
            until_holds("the return of dead memory", || granted() == 0);
        } else {
            assert_eq!(granted(), 10 << 30);
        }
        let mut second = start(&daemon, &program, maps);
        if gives_back {
            assert_eq!(next_line(&mut second), "copied\n", "beside the first, which holds nothing");
            assert!(first.try_wait().expect("ask").is_none(), "the first still writes");
        } else {
            let waits = || {
                let tasks = daemon.ask("ps")["tasks"].clone();
                tasks.as_array().is_some_and(|tasks| tasks.len() == 2) && granted() == 10 << 30
            };
            until_holds("the second one's request", waits);
        }
        // `assert_ends_well` closes the program's input.
        assert_ends_well(first, "sum 496\n");
        if !gives_back {
            assert_eq!(next_line(&mut second), "copied\n", "after the first");
        }
        assert_ends_well(second, "sum 496\n");
        until_holds("the end of all tasks", || granted() == 0);
    }
}

#[test]
fn under_eager_live_addresses_take_nothing_and_a_copy_that_must_wait_lets_its_program_go_on() {
    if !has_toolchain("late reservation") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "reader", READER);
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0", "--policy", "eager-live"]);
    let mut readers = MAPS.map(|maps| start(&daemon, &program, maps));
    let granted = || daemon.ask("info")["devices"][0]["granted_bytes"].as_u64().expect("granted_bytes");
    for reader in &mut readers {
        assert_eq!(next_line(reader), "allocated\n");
    }
    // The readers have 20 GiB of addresses on a device of 16 GB.
    assert_eq!(granted(), 0);
    for reader in &mut readers {
        reader.stdin.as_mut().expect("stdin").write_all(b"\n").expect("go on");
        assert_eq!(next_line(reader), "copied\n");
    }
    // The first reader copies to the device, the other to host memory.
    assert_eq!(granted(), 10 << 30);
    for reader in readers {
        assert_ends_well(reader, "sum 992\n");
    }
}

#[test]
fn an_over_subscribed_program_gives_dead_memory_back_and_is_promoted() {
    if !has_toolchain("dead managed memory") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let reader = compiled(folder.path(), "reader", READER);
    let in_turn = compiled(folder.path(), "in-turn", IN_TURN);
    // Otherwise the programs' memory would come by name, and they would wait until it fits.
    let settings = folder.path().join("eagerd.toml");
    let unnamed = "[options]\nlate_reservation = false\nearly_copies = false\nlive_requirement = false\n";
    std::fs::write(&settings, unnamed).expect("settings");
    let settings = settings.to_str().expect("a plain path");
    for (policy, gives_back) in [("eager-opt", false), ("eager-fair", true)] {
        let flags =
            ["--virtual", "1xV100-16GB", "--time-scale", "0", "--policy", policy, "--config", settings];
        let daemon = Daemon::start(&flags);
        let mut holder = start(&daemon, &reader, MAPS[0]);
        assert_eq!(next_line(&mut holder), "allocated\n");
        let mut second = start(&daemon, &in_turn, MAPS[0]);
        assert_eq!(next_line(&mut second), "first\n", "under {policy}");
        let classes = || {
            let tasks = daemon.ask("ps")["tasks"].clone();
            let field = |task: &serde_json::Value, name: &str| task[name].as_str().unwrap_or("").to_owned();
            let described = |task: &serde_json::Value| {
                (field(task, "class"), task["requirement_bytes"].as_u64().unwrap_or(0) >> 30)
            };
            tasks.as_array().map_or(Vec::new(), |tasks| tasks.iter().map(described).collect::<Vec<_>>())
        };
        let has = |class: &str, gib: u64| classes().contains(&(class.to_owned(), gib));
        if gives_back {
            until_holds("the promotion by its own dead memory", || has("promoted", 5));
        } else {
            assert!(has("eager", 10), "{:?}", classes());
        }
        // `assert_ends_well` closes the program's input.
        assert_ends_well(second, "sum 1488\n");
        holder.stdin.as_mut().expect("stdin").write_all(b"\n").expect("go on");
        assert_eq!(next_line(&mut holder), "copied\n");
        assert_ends_well(holder, "sum 992\n");
    }
}
