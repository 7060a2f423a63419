//! Runs of a program learn the last uses of its buffers: the third run gives memory back that no compiler proves to be
//! dead.

use eager_tests::{compiled, daemon::Daemon, has_toolchain, text, until};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

/// A lazy task: its buffers are in an array whose size only the run knows. Computes on them, copies one sum out, and
/// waits for the end of its input; with an argument it then uses the buffers once more.
const PROGRAM: &str = r#"
#include <cstdio>
#include <cstdlib>
__global__ void fill(int *p, int k) { p[threadIdx.x] = k + threadIdx.x; }
int main(int argc, char **argv) {
  int count = atoi(argv[1]), out[32], sum = 0;
  int **all = (int **)malloc(count * sizeof *all);
  for (int i = 0; i < count; ++i)
    if (cudaMalloc(&all[i], 1 << 30) != cudaSuccess) return 1;
  for (int i = 0; i < count; ++i) fill<<<1, 32>>>(all[i], i);
  if (cudaMemcpy(out, all[0], sizeof out, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
  puts("copied"); fflush(stdout);
  while (getchar() != EOF) {}
  if (argc > 2) {
    for (int i = 0; i < count; ++i) {
      int more[32];
      if (cudaMemcpy(more, all[i], sizeof more, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
      for (int value : more) sum += value;
    }
  }
  for (int value : out) sum += value;
  for (int i = 0; i < count; ++i) cudaFree(all[i]);
  printf("sum %d\n", sum);
  return 0;
}
"#;

const GIB: u64 = 1 << 30;

/// Starts the program and waits until it no longer uses the device.
fn start(daemon: &Daemon, program: &Path, folder: &Path, words: &[&str]) -> Child {
    let mut command = daemon.run(program);
    command.args(words).env("EAGER_LEARN", folder).env("EAGER_STATS", "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("start");
    let mut output = BufReader::with_capacity(1, child.stdout.take().expect("stdout"));
    let mut line = String::new();
    output.read_line(&mut line).expect("read");
    assert_eq!(line, "copied\n");
    child.stdout = Some(output.into_inner());
    child
}

/// Closes the program's input; returns its standard error.
fn end(child: Child, sum: &str) -> String {
    let output = child.wait_with_output().expect("wait");
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), sum);
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_third_run_gives_back_what_two_runs_did_not_use_again() {
    if !has_toolchain("learnt points") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "lazy", PROGRAM);
    let learnt = folder.path().join("learnt");
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0", "--policy", "eager-live"]);
    let granted = || daemon.ask("info")["devices"][0]["granted_bytes"].as_u64().expect("granted_bytes");
    for _ in 0..2 {
        let child = start(&daemon, &program, &learnt, &["3"]);
        assert_eq!(granted(), 3 * GIB, "nothing is believed yet");
        let said = end(child, "sum 496\n");
        assert!(!said.contains("believed dead"), "{said}");
    }
    let child = start(&daemon, &program, &learnt, &["3"]);
    until(|| match granted() {
        0 => Ok(()),
        kept => Err(format!("{kept} bytes are kept")),
    });
    let said = end(child, "sum 496\n");
    assert!(said.contains("buffers moved to the host, believed dead: 3, brought back: 0"), "{said}");

    // A run that uses the buffers once more: its result is right, and the mistake is counted.
    let child = start(&daemon, &program, &learnt, &["3", "again"]);
    let said = end(child, "sum 2080\n");
    assert!(said.contains("buffers moved to the host, believed dead: 3, brought back: 3"), "{said}");
    assert_eq!(granted(), 0, "memory left granted");
}

#[test]
fn a_file_that_is_something_else_is_one_line_and_ignored() {
    if !has_toolchain("a bad file of learnt points") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "lazy", PROGRAM);
    std::fs::write(folder.path().join("lazy.learnt.json"), "{").expect("write a bad file");
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0", "--policy", "eager-live"]);
    let said = end(start(&daemon, &program, folder.path(), &["1"]), "sum 496\n");
    let complaints: Vec<&str> = said.lines().filter(|line| line.contains("is ignored")).collect();
    assert_eq!(complaints.len(), 1, "{said}");
    assert!(
        complaints[0].contains("lazy.learnt.json is ignored: it was not written by an earlier run"),
        "{said}"
    );
}
