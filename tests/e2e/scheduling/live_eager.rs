//! `eager-live` with tasks that *are* over-subscribed: real processes start on less memory than they asked for, their
//! pages move, and their output, like that of the memory's holder, equals that of a run alone.
//!
//! Trap: under this policy a task starts eagerly only beside a task whose end is expected soon, which takes an earlier
//! run from which the daemon has learnt, and only where MPS keeps faults to their own program.

use eager_tests::{compiled, daemon::Daemon, has_toolchain, run_ok, tool, until, until_holds};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Four buffers from a loop of unknown length, so that the task is lazy and may start eagerly, and kernels that go
/// through all of them. With `holds` it launches until its standard input ends, so that eager kernels meet a busy
/// neighbour.
const PROGRAM: &str = r#"
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <unistd.h>
static std::atomic<bool> told{false};
#define CHECK(call) \
  if (cudaError_t error = call) { printf("%s: %s\n", #call, cudaGetErrorString(error)); return 1; }
__global__ void fill(unsigned *a, unsigned *b, unsigned *c, unsigned *d, unsigned seed) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  a[i] = i * 2654435761u + seed;
  b[i] = a[i] ^ 0x5bd1e995u;
  c[i] = b[i] * 31 + i;
  d[i] = c[i] ^ a[i];
}
__global__ void mix(unsigned *a, const unsigned *b, const unsigned *c, const unsigned *d) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  a[i] = a[i] * 1664525u + (b[i] ^ c[i]) - d[i];
}
__global__ void touch(unsigned *a) { a[threadIdx.x] ^= 1; }
int main(int, char **words) {
  int count = atoi(words[1]), buffers = atoi(words[2]);
  unsigned seed = atoi(words[3]), *list[8], *host = (unsigned *)malloc(count * sizeof(unsigned));
  for (int i = 0; i < buffers; i++) CHECK(cudaMalloc(&list[i], count * sizeof(unsigned)));
  fill<<<count / 256, 256>>>(list[0], list[1], list[2], list[3], seed);
  mix<<<count / 256, 256>>>(list[0], list[1], list[2], list[3]);
  mix<<<count / 256, 256>>>(list[1], list[2], list[3], list[0]);
  mix<<<count / 256, 256>>>(list[2], list[3], list[0], list[1]);
  mix<<<count / 256, 256>>>(list[3], list[0], list[1], list[2]);
  CHECK(cudaDeviceSynchronize());
  if (words[4]) {
    std::thread([] { while (getchar() != EOF) {} told = true; }).detach();
    puts("holds"); fflush(stdout);
    while (!told) {
      for (int i = 0; i < 2; i++) touch<<<1, 32>>>(list[0]);
      CHECK(cudaDeviceSynchronize());
      usleep(2000);
    }
  }
  unsigned long long sum = 0;
  for (int i = 0; i < buffers; i++) {
    CHECK(cudaMemcpy(host, list[i], count * sizeof(unsigned), cudaMemcpyDeviceToHost));
    for (int k = 0; k < count; k++) sum = sum * 31 + host[k];
  }
  for (int i = 0; i < buffers; i++) CHECK(cudaFree(list[i]));
  printf("sum %llu\n", sum);
}
"#;

/// 40 MiB in all; the device has 64, of which a context takes 2.
const ARGUMENTS: [&str; 2] = ["2621440", "4"];
const DEVICE: [&str; 7] = ["--virtual", "1xV100-16GB", "--time-scale", "0", "--memory-scale", "256", "--mps"];
/// The end of a known run counts as soon, and the daemon does not wait for further tasks.
const SETTINGS: &str = "[options]\neager_promotion_within_ns = 3600000000000\nstream_ns = 0\n";
const PROGRAMS: u32 = 6;

/// Returns the output of a program with this seed, run alone.
fn alone(program: &Path, seed: u32) -> String {
    let mut command = Command::new(tool("eager"));
    run_ok(command.args(["run", "--plain", "--"]).arg(program).args(ARGUMENTS).arg(seed.to_string()))
}

/// Starts a program under the daemon. With `holds` it runs until its standard input ends.
fn start(daemon: &Daemon, program: &Path, seed: u32, holds: bool) -> (Child, BufReader<ChildStdout>) {
    let mut command = daemon.run(program);
    command.args(ARGUMENTS).arg(seed.to_string()).args(holds.then_some("holds"));
    let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = streams.spawn().expect("start");
    let mut output = BufReader::new(child.stdout.take().expect("stdout"));
    if holds {
        let mut line = String::new();
        output.read_line(&mut line).expect("its output");
        assert_eq!(line, "holds\n");
    }
    (child, output)
}

/// Closes the program's input; returns its output on both streams, without reasons of waiting.
fn end((mut child, mut output): (Child, BufReader<ChildStdout>)) -> String {
    drop(child.stdin.take());
    let mut said = String::new();
    output.read_to_string(&mut said).expect("its output");
    child.stderr.take().expect("stderr").read_to_string(&mut said).expect("stderr");
    child.wait().expect("wait");
    said.lines().filter(|line| !line.starts_with("eager: waits: ")).map(|line| format!("{line}\n")).collect()
}

/// Returns the journal's actions of this kind.
fn actions(daemon: &Daemon, kind: &str) -> Vec<Value> {
    let journal = std::fs::read_to_string(daemon.journal()).expect("journal");
    let lines = journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let all = lines.flat_map(|line| line["actions"].as_array().cloned().unwrap_or_default());
    all.filter(|action| action["action"] == kind).collect()
}

#[test]
fn over_subscribed_programs_under_eager_live_and_the_holder_beside_them_compute_what_they_compute_alone() {
    if !has_toolchain("over-subscribed programs under eager-live") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "fills", PROGRAM);
    let expected: BTreeMap<u32, String> = (0..=PROGRAMS).map(|seed| (seed, alone(&program, seed))).collect();
    let settings = folder.path().join("eagerd.toml");
    std::fs::write(&settings, SETTINGS).expect("settings");
    let settings = settings.to_str().expect("a path of letters");
    let daemon =
        Daemon::start(&[DEVICE.as_slice(), &["--policy", "eager-live", "--config", settings]].concat());
    // The daemon learns how long such a program holds its memory.
    assert_eq!(end(start(&daemon, &program, 0, true)), expected[&0]);

    let holder = start(&daemon, &program, 0, true);
    let eager = |bind: &Value| bind["class"] == "eager";
    let started: Vec<_> = (1..=PROGRAMS).map(|seed| (seed, start(&daemon, &program, seed, false))).collect();
    until_holds("an over-subscribed start", || actions(&daemon, "bind").iter().any(eager));
    for (seed, running) in started {
        assert_eq!(end(running), expected[&seed], "program {seed}, beside the holder");
    }
    let info = daemon.ask("info");
    assert_eq!(end(holder), expected[&0], "the holder");

    let binds: Vec<Value> = actions(&daemon, "bind").into_iter().filter(eager).collect();
    let short = |bind: &&Value| bind["grant"].as_u64() < bind["reason"]["wanted"].as_u64();
    let paged = info["devices"][0]["paged_bytes"].as_u64().expect("what was paged");
    eprintln!("{} of {PROGRAMS} programs started over-subscribed, {paged} bytes were paged", binds.len());
    assert!(binds.len() >= 2 && binds.iter().filter(short).count() == binds.len(), "{binds:?}");
    assert!(binds.iter().all(|bind| bind["reason"]["why"] == "starts-early"), "{binds:?}");
    assert!(paged > 0, "{info}");
    until(|| match daemon.ask("info")["devices"][0]["granted_bytes"].as_u64() {
        Some(0) => Ok(()),
        granted => Err(format!("{granted:?} granted")),
    });
}
